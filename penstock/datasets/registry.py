"""The data sets that there are, by their names."""

from __future__ import annotations

import builtins
from importlib import import_module
from typing import Any

from ..errors.hints import did_you_mean
from ..registry.plug_ins import load_plug_ins

_GROUP = "penstock.datasets"

_entered: dict[str, Any] = {}
_imported = False


def enter(name: str, data: Any) -> None:
    """Enter a data set; raise ValueError if another one has its name."""
    earlier = _entered.get(name)
    if earlier is not None and not _replaces(data, earlier):
        raise ValueError(
            f"two data sets claim the name {name!r}: {earlier.title} of {earlier.__module__} has it, and {data.title} "
            f"of {data.__module__} asks for it"
        )
    _entered[name] = data


def _replaces(data: Any, earlier: Any) -> bool:
    """Say whether it is the same definition again, or one that a notebook has changed."""
    in_one_module: bool = earlier.__module__ == data.__module__
    again: bool = earlier.title == data.title or data.__module__ == "__main__"
    return in_one_module and again


def list() -> builtins.list[str]:
    """Return the names of all data sets: Penstock's, those of plug-ins and those defined in this program.

    >>> import penstock as ps
    >>> "sst2" in ps.datasets.list()
    True
    """
    _import_all()
    return sorted(_entered)


def load(name: str, root: Any = None, split: Any = None, **options: Any) -> Any:
    """Return the data set of a name; the other arguments are those of `Dataset`.

    Plug-ins add theirs by an entry point of the group `penstock.datasets`, which names the module that defines them.
    Raises ValueError for a name that there is not.

    >>> import penstock as ps
    >>> len(ps.datasets.load("digits"))
    1797
    """
    if name not in _entered:
        _import_all()
    if name not in _entered:
        raise ValueError(f"there is no data set {name!r}{did_you_mean(name.lower(), sorted(_entered))}")
    return _entered[name](root, split, **options)


def _import_all() -> None:
    global _imported
    if _imported:
        return
    _imported = True
    ours = import_module("penstock.datasets")
    for name in ours.__all__:
        getattr(ours, name)  # which imports its module
    load_plug_ins(_GROUP, stacklevel=3)
