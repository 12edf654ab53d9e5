"""From pipes read item by item to pipes read by key."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ...errors.notes import describe_item
from ...registry import IterDataPipe, OnError, T, add_error_context, functional_datapipe
from ...state.graph import let_steps_nest
from ...state.seeds import FIRST_PASS, seeds_of
from ...state.sources import SourceLink
from ..bases.indexing import Fetching
from ..bases.input_columns import check_function

_PAIRS_AT_A_TIME = 1024
"""Pairs checked together, which costs less per pair."""


@functional_datapipe("to_map_datapipe", on=IterDataPipe)
class IterToMapConverter(Fetching[T]):
    """Give the values of a stream of (key, value) pairs by key; `key_value_fn` makes such pairs of other items.

    The first access to an item or the length reads the complete stream into memory. It is read again where its random
    steps have other seeds when a pass begins. Pickles and copies do not include it, and read it again. A repeated key
    keeps its last value, with a warning. `on_error` handles an item for which `key_value_fn` raises.

    Raises TypeError for an item that is no pair, and IndexError for an unknown key.

    >>> dp = IterableWrapper("abc").enumerate().to_map_datapipe()
    >>> dp[1], len(dp)
    ('b', 3)
    >>> IterableWrapper(["a.txt", "b.png"]).to_map_datapipe(lambda name: (name[-3:], name))["png"]
    'b.png'
    """

    traits = ("caches",)
    payload = ("_loaded",)
    transient = ("_loaded", "_loading", "_seeds")
    _loaded: dict[Any, T] | None = None
    _seeds: list[int | None] = []
    """The seeds of the source when it was loaded."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        key_value_fn: Callable[[Any], tuple[Any, T]] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("key_value_fn", key_value_fn, optional=True)
        self.source = source
        self.key_value_fn = key_value_fn
        self.handle_errors(on_error)

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            values = self._values()
            if index in values:
                return values[index]
            raise IndexError(f"none of the {len(values)} keys is {index!r}")
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def __iter__(self) -> Iterator[T]:
        values = self._values()
        try:
            yield from map(values.__getitem__, range(len(values)))
        except KeyError as error:
            yield self[error.args[0]]  # raises, and names the key

    def __len__(self) -> int:
        return len(self._values())

    def _values(self) -> dict[Any, T]:
        loaded = self._loaded
        if loaded is None:
            with vars(self).setdefault("_loading", threading.RLock()):  # several threads may ask first
                loaded = self._loaded = self._load() if self._loaded is None else self._loaded
        return loaded

    def _pass_begins(self) -> None:
        super()._pass_begins()
        if self._loaded is not None and self._seeds != seeds_of(self.source):
            self._loaded = None

    def _load(self) -> dict[Any, T]:
        self.error_policy.begin()
        self._seeds = seeds_of(self.source)
        link = SourceLink(self.source, FIRST_PASS)
        link.begin_at(None)
        let_steps_nest()
        try:
            return self._read()
        finally:
            link.close()

    def _read(self) -> dict[Any, T]:
        values: dict[Any, T] = {}
        repeated, first = 0, None
        function = self.key_value_fn
        pairs: Iterable[Any] = self.source
        if function is not None:
            pair_of = self.error_policy.wrap(function)
            results = (pair_of(item) for item in self.source)
            pairs = filter(self.error_policy.keep, results) if self.error_policy.skips else results
        pairs = iter(pairs)
        while some := list(islice(pairs, _PAIRS_AT_A_TIME)):
            before = len(values)
            try:
                if {*map(type, some)} != {tuple}:
                    raise TypeError
                values.update(some)
            except (TypeError, ValueError):  # at least one is no tuple of two, or has an unhashable key
                for pair in some:
                    _expect_pair(pair)
                values.update(some)
            if new := len(some) - (len(values) - before):
                first = first if repeated else _first_repeated(some, {*islice(values, before, None)})
                repeated += new
        if repeated:
            warnings.warn(
                f"{repeated} items repeat a key, {first!r} first: the last value of each key stays",
                stacklevel=4,
            )
        return values


def _first_repeated(pairs: list[Any], new: set[Any]) -> Any:
    """Return the first repeated key of some pairs; keys in `new` did not occur before these pairs."""
    seen: set[Any] = set()
    for key, _ in pairs:
        if key not in new or key in seen:
            break
        seen.add(key)
    return key


def _expect_pair(pair: Any) -> None:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            f"to_map_datapipe needs pairs of a key and a value, and got {describe_item(pair)}: "
            "give a key_value_fn that returns such pairs"
        )
