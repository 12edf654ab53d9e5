"""Pickles and copies of chains of any length: pipe after pipe, since nesting would recurse too deep."""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

from ..errors.optional import PREPARATIONS
from .foreign import TorchIterDataPipe, TorchMapDataPipe, torch_is_pickling, torch_is_traversing
from .graph import DataPipe, sources_first, sources_of, walk
from .step_text import step_text


def copy_of(chain: Any, afresh: bool = False) -> Any:
    """Return an independent copy of a chain; the copy shares the items that pipes hold.

    Raises RuntimeError if a loaded state would be lost, unless the copy is read `afresh`.
    """
    pipes = sources_first(chain)
    loaded = [(pipe, vars(pipe).pop("_resume_node", None)) for pipe in pipes] if afresh else []
    try:
        return _deep_copy(chain, pipes)
    finally:
        for pipe, node in loaded:
            if node is not None:
                vars(pipe)["_resume_node"] = node


def copy_to_look_at(chain: Any, method: str = "peek") -> Any:
    """Return a copy whose passes leave those of the chain alone.

    Raises TypeError if the chain reads an iterator, such as a generator, which can be read only once.
    """
    if (pipe := _reads_iterator(chain)) is not None:
        raise TypeError(f"{method} reads a copy of the chain, and {step_text(pipe)} can be read once only")
    return copy_of(chain, afresh=True)


def copy_for_shard(chain: Any) -> Any:
    """Return a copy that one of several shards reads in the same process.

    Raises TypeError if the chain reads an iterator, which all of them would share.
    """
    if (pipe := _reads_iterator(chain)) is not None:
        raise TypeError(
            f"several shards are read in one process, and each would take items of the others from {step_text(pipe)}, "
            "an iterator, which can be read once only: give it a list, or another object that iter() begins anew, put "
            "sharding_round_robin_dispatch in place of sharding_filter, or read one shard (num_shards=1)"
        )
    return copy_of(chain)


def _reads_iterator(chain: Any) -> DataPipe | None:
    """Return a step of a chain that reads an iterator, such as a generator, an open file or a `csv.reader`."""
    for pipe in walk(chain):
        if any(isinstance(vars(pipe).get(name), Iterator) for name in getattr(pipe, "payload", ())):
            return pipe
    return None


def _deep_copy(chain: Any, pipes: list[DataPipe]) -> Any:
    items = [vars(pipe).get(name) for pipe in pipes for name in getattr(pipe, "payload", ())]
    # A pipe among the items is another pipe's source, which two chains cannot share.
    kinds = (TorchIterDataPipe, TorchMapDataPipe)
    copied: dict[int, Any] = {id(item): item for item in items if not isinstance(item, kinds)}
    copy.deepcopy(_in_order(pipes), copied)
    return copied[id(chain)]


PASS_ATTRIBUTES = ("_pass", "_resume_node", "_reader_link")
"""Attributes of iterable pipes that belong to a pass."""


class SourcesFirst:
    """Lets a pipe pickle and copy as a list: everything that it reads from, sources first, and then itself.

    A listed pipe is pickled by itself, since its sources come before it. Pickling any pipe by itself, or listing its
    sources again, would also be correct, but deeper or longer.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        if torch_is_pickling() or id(self) in _listed.get(threading.get_ident(), _NONE_LISTED):
            return super().__reduce_ex__(protocol)
        return _last_but_one, _in_order(sources_first(self))  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of the pipe, without those of a pass, which `state_dict` returns."""
        pipe: Any = self
        if torch_is_traversing():
            return {"sources": sources_of(pipe)}
        if not torch_is_pickling() and vars(pipe).get("_resume_node") is not None:
            pipe._expect_no_state("a pickle or copy of it begins afresh")
        cls = type(pipe)
        of_passes = {*PASS_ATTRIBUTES, *cls.transient, *cls._state_fields, *_cached_properties(cls)}  # type: ignore[arg-type]
        return {name: value for name, value in vars(pipe).items() if name not in of_passes}

    def __copy__(self) -> Self:
        reduced: Any = super().__reduce_ex__(4)
        make, arguments, state = (*reduced, None)[:3]
        copied: Self = make(*arguments)
        if state is not None:
            getattr(type(copied), "__setstate__", _set_attributes)(copied, state)
        return copied


@functools.cache
def _cached_properties(cls: type) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    return frozenset(
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, functools.cached_property)
    )


_NONE_LISTED: frozenset[int] = frozenset()
_listed: weakref.WeakValueDictionary[int, frozenset[int]] = weakref.WeakValueDictionary()
"""By thread id, the ids of the pipes in the list that the thread is writing. Weak, so an aborted list disappears."""


class _FromHereOn:
    """A marker before or after the pipes of a list. Pickling it sets which pipes are listed from there on.

    Unpickling it prepares the process: workers of torch's DataLoader know nothing else of this one.
    """

    def __init__(self, listed: frozenset[int]) -> None:
        self._listed = listed

    def __reduce__(self) -> tuple[Any, ...]:
        _listed[threading.get_ident()] = self._listed
        return _prepare, (*PREPARATIONS,)


def _in_order(pipes: list[DataPipe]) -> tuple[Any, ...]:
    before = _listed.get(threading.get_ident(), _NONE_LISTED)
    return _FromHereOn(frozenset(map(id, pipes))), *pipes, _FromHereOn(before)


def _prepare(*preparations: Callable[[], object]) -> None:
    for prepare in preparations:
        prepare()


def _last_but_one(*written: Any) -> Any:
    return written[-2]


def _set_attributes(pipe: Any, state: dict[str, Any]) -> None:
    vars(pipe).update(state)
