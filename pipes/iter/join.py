"""Join items with those of another pipe by key."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from ...registry import (
    Guard,
    IterDataPipe,
    MapDataPipe,
    OnError,
    expect_whole,
    functional_datapipe,
    own,
    provenance_of,
    say_where,
)
from ...registry.torch_pipes import TorchIterDataPipe, TorchMapDataPipe
from ..bases.arguments import expect_pipes, how_to_make
from ..bases.input_columns import check_function, keys_by
from ..bases.one_to_one import OneToOne

T = TypeVar("T")
R = TypeVar("R")


@functional_datapipe("zip_with_iter")
class IterKeyZipper(IterDataPipe[Any]):
    """Yield each item of the source together with the item of `ref_datapipe` that has the same key.

    Take it to join two streams of about the same order, and `zip_with_map` where one of them has an index or fits in
    memory. The order is that of the source. `ref_datapipe` is read until the key is found. Items passed over are held,
    up to `buffer_size` items (None: no limit), until an item of the source needs them. Each is used once; unused ones
    are left out. `key_fn` makes the keys; `ref_key_fn`, by default `key_fn`, those of `ref_datapipe`. The two items
    come as a tuple, or as the result of `merge_fn(item, ref_item)`; with `keep_key`, in a pair after the key.

    `on_error` handles an item for which a function raises, or which has no match.

    Raises KeyError for an item whose key `ref_datapipe` lacks, BufferError where the buffer is full before the key is
    found, and ValueError where a key comes again in `ref_datapipe` before it was used.

    >>> names = IterableWrapper([(2, "b"), (3, "c"), (1, "a")])
    >>> dp = IterableWrapper([1, 2]).zip_with_iter(names, key_fn=int, ref_key_fn=lambda pair: pair[0])
    >>> list(dp)
    [(1, (1, 'a')), (2, (2, 'b'))]
    """

    buffers = ("buffer_size",)
    holds_items = False
    held: dict[Any, tuple[int, Any]] = own(dict, save=lambda held: [number for number, _ in held.values()])
    """The held items of `ref_datapipe`, with their numbers, by key. States have the numbers."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        ref_datapipe: IterDataPipe[Any],
        key_fn: Callable[[Any], Hashable],
        ref_key_fn: Callable[[Any], Hashable] | None = None,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        expect_pipes("IterKeyZipper", [source, ref_datapipe], TorchIterDataPipe)
        check_function("key_fn", key_fn, None)
        if ref_key_fn is not None:
            check_function("ref_key_fn", ref_key_fn, None)
        if merge_fn is not None:
            check_function("merge_fn", merge_fn, [0, 1])
        if buffer_size is not None:
            expect_whole("buffer_size", buffer_size)
        self.source = source
        self.ref_datapipe = ref_datapipe
        self.key_fn = key_fn
        self.ref_key_fn = ref_key_fn
        self.keep_key = keep_key
        self.buffer_size = buffer_size
        self.merge_fn = merge_fn
        self.on_error = on_error
        self.guard = Guard(on_error)

    def __iter__(self) -> Iterator[Any]:
        skips, keep, keep_key = self.guard.skips, self.guard.keep, self.keep_key
        key_of = keys_by(self.key_fn, self.guard)
        merged = self.guard.wrap(_merging(self.merge_fn))
        most = math.inf if self.buffer_size is None else self.buffer_size
        ref_key_of = keys_by(self.ref_key_fn or self.key_fn, self.guard)
        ref_items = self.read(self.ref_datapipe)
        numbered_ref_items = iter(ref_items)
        again = ref_items.again(self.held)
        held = self.held = {ref_key_of(again[number]): (number, again[number]) for number in self.held}
        del again
        ref_items.keep_from(lambda: next((number for number, _ in held.values()), None))  # the first is the oldest

        def find(key: Hashable) -> bool:
            """Hold items of `ref_datapipe` up to the one with the key; return whether it was found."""
            if len(held) > most:
                return False
            for numbered in numbered_ref_items:
                try:
                    ref_key = ref_key_of(numbered[1])
                    if skips and not keep(ref_key):
                        continue
                    if ref_key in held:
                        self.guard.refuse(_came_before(ref_key), numbered[1])
                        continue
                except Exception as error:
                    say_where(error, self, numbered[1])  # not the item of the source
                    raise
                held[ref_key] = numbered
                if ref_key == key:
                    return True
                if len(held) > most:
                    break
            return False

        for item in self.source:
            try:
                key = key_of(item)
                if skips and not keep(key):
                    continue
                if key not in held and not find(key):
                    self.guard.refuse(self._no_match(key, len(held) > most), item)
                    continue
                pair = merged((item, held.pop(key)[1]))
            except Exception as error:
                say_where(error, self, item, provenance_of(self.source))  # not the provenance of `ref_datapipe`
                raise
            if not skips or keep(pair):
                yield (key, pair) if keep_key else pair

    def __len__(self) -> int:
        if self.guard.skips:
            raise TypeError("IterKeyZipper leaves out items that fail, so its length is unknown")
        return len(self.source)

    def _no_match(self, key: Hashable, full: bool) -> Exception:
        if not full:
            return KeyError(f"ref_datapipe has no item with the key {key!r}, or it was used already")
        return BufferError(
            f"ref_datapipe has not given an item with the key {key!r}, and {self.buffer_size} items of other keys are "
            "held: give a larger buffer_size, or read both pipes in about the same order"
        )


def _came_before(key: Hashable) -> Exception:
    return ValueError(f"ref_datapipe has the key {key!r} twice, and its first item is not used yet")


@functional_datapipe("zip_with_map")
class MapKeyZipper(OneToOne[Any]):
    """Yield each item together with the item of a map-style pipe at its key.

    Take it to join with what has an index or fits in memory, and `zip_with_iter` for two streams. `key_fn` makes the
    key or index. The two items come as a tuple, or as the result of `merge_fn(item, found)`; with `keep_key`, in a pair
    after the key. `on_error` handles an item for which a function raises, or whose key is missing.

    Raises KeyError for an item whose key or index `map_datapipe` lacks.

    >>> names = ps.map.SequenceWrapper({1: "a", 2: "b"})
    >>> dp = IterableWrapper([2, 1]).zip_with_map(names, key_fn=int)
    >>> list(dp)
    [(2, 'b'), (1, 'a')]
    """

    def __init__(
        self,
        source: IterDataPipe[Any],
        map_datapipe: MapDataPipe[Any],
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if not isinstance(map_datapipe, TorchMapDataPipe):
            raise TypeError(
                f"map_datapipe must be a map-style pipe, and is of type {type(map_datapipe).__name__}: "
                f"{how_to_make(TorchMapDataPipe, map_datapipe)}"
            )
        check_function("key_fn", key_fn, None)
        if merge_fn is not None:
            check_function("merge_fn", merge_fn, [0, 1])
        self.source = source
        self.map_datapipe = map_datapipe
        self.key_fn = key_fn
        self.merge_fn = merge_fn
        self.keep_key = keep_key
        self.on_error = on_error
        self.guard = Guard(on_error)

    def _function(self) -> Callable[[Any], Any]:
        key_of, items, merge, keep_key = self.key_fn, self.map_datapipe, self.merge_fn, self.keep_key

        def joined(item: Any) -> Any:
            key = key_of(item)
            try:
                found = items[key]
            except (KeyError, IndexError) as error:
                raise KeyError(f"map_datapipe has no item with the key {key!r}, or failed on it: {error!r}") from error
            pair = (item, found) if merge is None else merge(item, found)
            return (key, pair) if keep_key else pair

        return joined


def _merging(merge_fn: Callable[[T, T], R] | None) -> Callable[[tuple[T, T]], Any]:
    """Return a function of a pair: `merge_fn` of its two parts, or the pair as it is."""
    return tuple if merge_fn is None else lambda pair: merge_fn(*pair)
