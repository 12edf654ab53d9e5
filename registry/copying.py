"""Pickles and copies of chains, however long: pipe after pipe, where nested ones would be a deep recursion."""

from __future__ import annotations

import copy
import threading
import weakref
from typing import Any, Self

from .graph import DataPipe, sources_first
from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe, torch_is_pickling

__all__ = ["SourcesFirst", "copy_of"]


def copy_of(chain: Any, afresh: bool = False) -> Any:
    """Return a chain of its own, that shares the items which the pipes of the other hold.

    A state that was loaded into the other would be lost, which is an error, unless it is to be read `afresh`.
    """
    pipes = sources_first(chain)
    loaded = [(pipe, vars(pipe).pop("_handed_down", None)) for pipe in pipes] if afresh else []
    try:
        return _copy_of(chain, pipes)
    finally:
        for pipe, node in loaded:
            if node is not None:
                vars(pipe)["_handed_down"] = node


def _copy_of(chain: Any, pipes: list[DataPipe]) -> Any:
    items = [vars(pipe).get(name) for pipe in pipes for name in getattr(pipe, "payload", ())]
    # A pipe among them is another pipe's source, and of no use to two chains.
    kinds = (TorchIterDataPipe, TorchMapDataPipe)
    copied: dict[int, Any] = {id(item): item for item in items if not isinstance(item, kinds)}
    copy.deepcopy(_in_order(pipes), copied)
    return copied[id(chain)]


class SourcesFirst:
    """What lets a pipe pickle and copy as a list: all that it reads from, sources first, and then itself.

    A pipe that is listed is written as it is, since its sources are known by then. It would be right in any case to
    write it so, or to list what it reads from once more: it matters only for how deep and how long that is.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        if torch_is_pickling() or id(self) in _listed.get(threading.get_ident(), _NOTHING):
            return super().__reduce_ex__(protocol)
        return _last_but_one, _in_order(sources_first(self))  # type: ignore[arg-type]

    def __copy__(self) -> Self:
        reduced: Any = super().__reduce_ex__(4)
        make, arguments, state = (*reduced, None)[:3]
        copied: Self = make(*arguments)
        if state is not None:
            getattr(type(copied), "__setstate__", _set_attributes)(copied, state)
        return copied


_NOTHING: frozenset[int] = frozenset()
_listed: weakref.WeakValueDictionary[int, frozenset[int]] = weakref.WeakValueDictionary()
"""For each thread that writes a list, by its number: the ids of the pipes in it. One that is given up is gone."""


class _FromHereOn:
    """What stands in a list, or after it, and says when it is written which pipes are listed."""

    def __init__(self, listed: frozenset[int]) -> None:
        self._listed = listed

    def __reduce__(self) -> tuple[Any, ...]:
        _listed[threading.get_ident()] = self._listed
        return tuple, ()


def _in_order(pipes: list[DataPipe]) -> tuple[Any, ...]:
    before = _listed.get(threading.get_ident(), _NOTHING)
    return _FromHereOn(frozenset(map(id, pipes))), *pipes, _FromHereOn(before)


def _last_but_one(*written: Any) -> Any:
    return written[-2]


def _set_attributes(pipe: Any, state: dict[str, Any]) -> None:
    vars(pipe).update(state)
