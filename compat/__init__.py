"""torchdata's old import paths, `torchdata.datapipes` and `torchdata.dataloader2`, backed by Penstock.

The installed torchdata no longer has them. Two lines before a program's imports bring them back:

    import penstock.compat

    penstock.compat.install()

`python -m penstock.compat SCRIPT ARGS…` and `python -m penstock.compat -m MODULE ARGS…` run an unchanged program.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import version

from ..workers.processes import PREPARATIONS
from .faces import ROOTS
from .finder import Finder
from .keywords import accept_any_name_of_the_source

__all__ = ["install"]


def install() -> None:
    """Provide `torchdata.datapipes` and `torchdata.dataloader2` from Penstock, in this process and its workers.

    All public names that torchdata 0.9.0 had there can be imported. The rest of torchdata, such as `torchdata.nodes`
    and `torchdata.stateful_dataloader`, is unchanged. A second call does nothing.

    Raises RuntimeError if the installed torchdata still has its own DataPipes (0.9 or earlier). Importing a private
    module of torchdata's old packages raises an ImportError that names the public module.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if _has_datapipes_of_its_own():
        raise RuntimeError(
            f"the installed torchdata, {version('torchdata')}, has its own DataPipes: install torchdata 0.11 or later"
        )
    sys.meta_path.insert(0, Finder())
    accept_any_name_of_the_source()
    PREPARATIONS.append(install)
    for root in ROOTS:  # a program may import only `torchdata`, and use its attributes
        import_module(root)


def _has_datapipes_of_its_own() -> bool:
    torchdata = PathFinder.find_spec("torchdata")
    if torchdata is None or torchdata.submodule_search_locations is None:
        return False
    return PathFinder.find_spec("torchdata.datapipes", torchdata.submodule_search_locations) is not None
