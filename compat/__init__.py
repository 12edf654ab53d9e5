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

from ..registry import PREPARATIONS
from ..storage.file_systems import WITH_A_SLASH
from .arguments import accept_what_torchdata_did
from .child import children_have_the_old_paths
from .faces import ROOTS
from .finder import Finder

__all__ = ["install"]


def install() -> None:
    """Provide `torchdata.datapipes` and `torchdata.dataloader2` from Penstock, in this process and its workers.

    All public names that torchdata 0.9.0 had there can be imported, from each of its public modules. The rest of
    torchdata, such as `torchdata.nodes` and `torchdata.stateful_dataloader`, is unchanged. A second call does nothing.

    Processes that multiprocessing starts from now on have the old paths, too, such as workers of torch's DataLoader. So
    has a process that loads a chain pickled from now on.

    Raises RuntimeError if the installed torchdata still has its own DataPipes (0.9 or earlier). Importing a private
    module of torchdata's old packages raises an ImportError.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if _has_datapipes_of_its_own():
        raise RuntimeError(
            f"the installed torchdata, {version('torchdata')}, has its own DataPipes: install torchdata 0.11 or later"
        )
    sys.meta_path.insert(0, Finder())
    accept_what_torchdata_did()
    WITH_A_SLASH.add("memory")  # torchdata listed memory:///folder/file in memory://folder, too
    PREPARATIONS.append(install)
    children_have_the_old_paths()
    for root in ROOTS:  # a program may import only `torchdata`, and use its attributes
        import_module(root)


def _has_datapipes_of_its_own() -> bool:
    torchdata = PathFinder.find_spec("torchdata")
    if torchdata is None or torchdata.submodule_search_locations is None:
        return False
    return PathFinder.find_spec("torchdata.datapipes", torchdata.submodule_search_locations) is not None
