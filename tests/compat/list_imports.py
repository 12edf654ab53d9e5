"""Print what each public module of torchdata 0.9 imports or defines beside its public names.

    python tests/compat/list_imports.py            prints compat/imports_0_9.json anew
    python tests/compat/list_imports.py --check    exits 1 where it differs from the file

It runs in an environment with torchdata 0.9.0: `nox -s torchdata_names`.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
import typing
import warnings
from pathlib import Path
from typing import Any

COMPAT = Path(__file__).parents[2] / "compat"


def origin(thing: Any) -> str | list[Any]:
    """Return `module` or `module:name` that a name stands for, or a list that holds a constant."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, (int, float, str)):
        return [thing]
    if isinstance(thing, typing.TypeVar):
        return "typing:TypeVar"
    if (name := getattr(thing, "__name__", None)) is None or typing.get_args(thing):
        return "typing:Any"  # an alias of a type
    return f"{thing.__module__}:{name}"


def imports() -> dict[str, dict[str, str | list[Any]]]:
    """Return, for each module, the names without an underscore that are no public names, with their origins.

    Booleans and None are left out: they say which packages are installed.
    """
    warnings.simplefilter("ignore")
    public = json.loads((COMPAT / "names_0_9.json").read_text())
    found = {module: vars(importlib.import_module(module)) for module in public}
    return {
        module: {
            name: origin(thing)
            for name, thing in sorted(things.items())
            if not name.startswith("_") and name not in public[module] and thing not in (None, True, False)
        }
        for module, things in found.items()
    }


def main() -> None:
    """Print the list, or compare it with the file."""
    lines = (f"{json.dumps(module)}: {json.dumps(names)}" for module, names in imports().items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if "--check" in sys.argv:
        sys.exit(text != (COMPAT / "imports_0_9.json").read_text() and "compat/imports_0_9.json differs: print it anew")
    print(text, end="")


if __name__ == "__main__":
    main()
