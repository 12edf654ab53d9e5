"""The laws' tools: their list, items as plain data, and probes that replace a pipe's sources."""

from __future__ import annotations

import math
import reprlib
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import Dataset

from ..errors.closing import close
from ..registry.registration import operators
from ..state.foreign import TorchIterDataPipe, declared
from ..state.graph import DataPipe, is_one_of_several, sources_of
from ..state.seeds import seed_graph
from ..state.step_text import kept_arguments

Maker = Callable[[], Any]
"""Returns a fresh pipe with each call; all are equal."""

Law = Callable[[Maker], None]
LAWS: dict[str, dict[str, Law]] = {"iter": {}, "map": {}}
"""The laws for each kind of pipe, by name."""

_MOST_ITEMS = 1000
"""A tested chain must yield fewer items than this, since most laws read it many times."""

_short_list = reprlib.Repr()
_short_list.maxlist = _short_list.maxtuple = _short_list.maxdict = 12
_short_list.maxstring = _short_list.maxother = 200
_short_list.maxlevel = 4


def law(*kinds: str) -> Callable[[Law], Law]:
    """Enter a law of one kind of pipe, or of both."""

    def enter(check: Law) -> Law:
        for kind in kinds or LAWS:
            LAWS[kind][check.__name__] = check
        return check

    return enter


def as_plain(item: Any, read_streams: bool = True) -> Any:
    """Return an item as data that `==` compares by content: tensors and arrays by dtype, shape and bytes.

    Streams are read to their end and closed. Without `read_streams` they are not read, and count as equal.
    """
    if callable(getattr(item, "read", None)):
        if not read_streams:
            return "a stream"
        content = item.read()
        close(item)
        return ("a stream", content)
    if isinstance(item, torch.Tensor):
        flat = item.detach().cpu().contiguous().reshape(-1)
        return (type(item).__name__, str(item.dtype), tuple(item.shape), flat.view(torch.uint8).numpy().tobytes())
    if hasattr(item, "dtype") and hasattr(item, "tobytes"):
        content = item.tolist() if item.dtype.hasobject else item.tobytes()
        return (type(item).__name__, str(item.dtype), item.shape, content)
    if isinstance(item, float) and math.isnan(item):
        return "nan"
    if isinstance(item, (list, tuple)):
        parts = [as_plain(part, read_streams) for part in item]
        return parts if type(item) is list else (type(item).__name__, *parts)
    if isinstance(item, dict):
        values = {key: as_plain(value, read_streams) for key, value in item.items()}
        return values if type(item) is dict else (type(item).__name__, values)
    by_identity = type(item).__eq__ is object.__eq__  # type: ignore[comparison-overlap]
    if by_identity and hasattr(item, "__dict__") and not callable(item):
        return (type(item).__name__, as_plain(vars(item), read_streams))
    return item


def items_of(pipe: Iterable[Any], look: Callable[[Any], Any] = as_plain) -> list[Any]:
    """Return the items of a pipe, or the rest of an iterator, as plain data or as `look` converts them."""
    items = [look(item) for item in islice(pipe, _MOST_ITEMS)]
    if len(items) == _MOST_ITEMS:
        raise ValueError(f"the chain yields {_MOST_ITEMS} items or more: check a shorter one")
    return items


def agree(seen: list[Any], expected: list[Any], what: str) -> None:
    """Raise AssertionError unless two lists of items are equal."""
    if seen == expected:
        return
    number = next(
        (number for number, pair in enumerate(zip(seen, expected, strict=False)) if pair[0] != pair[1]),
        min(len(seen), len(expected)),
    )
    pair = [_short_list.repr(items[number]) if number < len(items) else "no item" for items in (expected, seen)]
    raise AssertionError(
        f"{what}: item {number} should be {pair[0]}, and is {pair[1]}\n"
        f"expected {len(expected)}: {_short_list.repr(expected)}\n"
        f"    seen {len(seen)}: {_short_list.repr(seen)}"
    )


def seeded(make: Maker) -> Any:
    """Return a fresh pipe with the seed that all laws use."""
    pipe = make()
    seed_graph(pipe, 0)
    return pipe


class ProbeError(Exception):
    """The error of a probe that should fail."""


class Probe:
    """Wraps an iterable or sequence, records how it is read, and fails on request."""

    def __init__(self, items: Any, empty: bool = False, fail_after: int | None = None) -> None:
        self._items = [] if empty else items
        self._fail_after = fail_after
        self._passes = 0
        self._open = 0
        self.pulled: list[tuple[Any, Any]] = []
        """The items taken so far, each with its plain data at that time."""
        self.raised: ProbeError | None = None
        self.closed = threading.Event()
        """Set while no iterator over it is open."""
        self.closed.set()

    def __iter__(self) -> Iterator[Any]:
        self._passes += 1
        if self._passes > _MOST_ITEMS:
            raise AssertionError(f"its source was read {_MOST_ITEMS} times: does it ever end?")
        self._open += 1
        self.closed.clear()
        try:
            for number, item in enumerate(self._items):
                self._fail_at(number)
                yield self._taken(item)
            self._fail_at(self._fail_after)
        finally:
            self._open -= 1
            if not self._open:
                self.closed.set()

    def __getitem__(self, index: Any) -> Any:
        self._fail_at(index)
        return self._taken(self._items[index])

    def __len__(self) -> int:
        return len(self._items)

    def _taken(self, item: Any) -> Any:
        self.pulled.append((item, as_plain(item, read_streams=False)))
        return item

    def _fail_at(self, number: int | None) -> None:
        if number is not None and number == self._fail_after:
            self.raised = ProbeError("the source fails, for a law")
            raise self.raised


def tap(pipe: DataPipe, **behaviour: Any) -> list[Probe]:
    """Replace each source of a pipe by a probe, and return the probes; without sources, replace its items.

    For a pipe that reads branches of a stream, the source is that of the operator that gives the branches. A pipe with
    neither sources nor items, such as one that lists files, has no probes.
    """
    probes: list[Probe] = []

    def probe(items: Any) -> Probe:
        probes.append(Probe(items, **behaviour))
        return probes[-1]

    parts = _as_one(pipe)
    for part in parts:
        values = vars(part)
        payload = declared(part, "payload", ())
        sources = sources_of(part)
        stand_ins = {
            id(source): _wrapper(source)(probe(source), deepcopy=False) for source in sources if source not in parts
        }
        if sources:
            values.update(
                {name: _with_stand_ins(value, stand_ins) for name, value in values.items() if name not in payload}
            )
        else:
            items = {name: probe(values[name]) for name in payload if isinstance(values.get(name), (Iterable, Dataset))}
            values.update(items, deepcopy=False)
    return probes


def _as_one(pipe: DataPipe) -> list[DataPipe]:
    """Return a pipe, the branches that it reads, and their operators."""
    parts = [pipe]
    for part in parts:
        parts += [
            source
            for source in sources_of(part)
            if (is_one_of_several(source) or is_one_of_several(part)) and source not in parts
        ]
    return parts


def _wrapper(source: DataPipe) -> Callable[..., DataPipe]:
    name = "iter.IterableWrapper" if isinstance(source, TorchIterDataPipe) else "map.SequenceWrapper"
    return operators[name].cls


def _with_stand_ins(value: Any, stand_ins: dict[int, DataPipe]) -> Any:
    if id(value) in stand_ins:
        return stand_ins[id(value)]
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_with_stand_ins(part, stand_ins) for part in value)
    if type(value) is dict:
        return {key: _with_stand_ins(part, stand_ins) for key, part in value.items()}
    return value


def constructor_arguments(pipe: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the constructor arguments of a pipe, from its attributes."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, value in kept_arguments(pipe):
        if value is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AssertionError(f"the argument {parameter.name!r} is not kept as an attribute of that name")
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += () if value is parameter.empty else value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= {} if value is parameter.empty else value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs
