"""`penstock new`: write a package of operators that is ready to be published."""

from __future__ import annotations

import keyword
import sys
from importlib.util import find_spec
from pathlib import Path

from .errors import WrongUse

_TEMPLATE = Path(__file__).with_name("template")
"""The package as it is written. Each file ends in .in, so that no tool takes it for a part of this program."""
_ITS_NAME = "my_operators"


def write_package(name: str, into: Path) -> int:
    """Write a package to a new folder of its name, and return the exit status.

    Raises WrongUse for a name that no package can have, and for a folder that exists.
    """
    _expect_name(name)
    project = into / name
    if project.exists():
        raise WrongUse(f"{project} exists already: choose another name, or another folder by --into")
    for file in sorted(_TEMPLATE.rglob("*.in")):
        # dot_ means a dot: packaging tools leave hidden files out.
        place = file.relative_to(_TEMPLATE).with_suffix("").as_posix().replace("dot_", ".").replace(_ITS_NAME, name)
        written = project / place
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(file.read_text(encoding="utf-8").replace(_ITS_NAME, name), encoding="utf-8")
    print(f"wrote {project}\nnext: cd {project} && python -m pip install -e '.[dev]' && python -m pytest")
    return 0


def _expect_name(name: str) -> None:
    if not name.isidentifier() or not name.isascii() or name != name.lower() or keyword.iskeyword(name):
        raise WrongUse(f"{name!r} cannot be the name of a package: use lower-case letters, digits and _")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise WrongUse(f"{name!r} is the name of a module that is installed: choose another")
