"""Batch, unbatch and group items."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, overload

from ...registry import DataChunk, IterDataPipe, OnError, T, expect_whole, functional_datapipe, own
from ..bases.arguments import expect_batching
from ..bases.input_columns import check_function, keys_by
from ..bases.striding import strided


@functional_datapipe("batch")
class Batcher(IterDataPipe[DataChunk[T]]):
    """Yield lists of `batch_size` items; the last may be shorter, or is dropped with `drop_last`.

    Take it for items, `rebatch` for column batches, and `bucket_by_length` for items of like length. `wrapper_class`
    makes the batch from a list; a `DataChunk` is a list. Right after `shuffle` or `to_iter_datapipe` of a map-style
    pipe, or a `sharding_filter` after these, each batch is read by one call of `__getitems__` where the map-style pipe
    has it.

    >>> dp = IterableWrapper(range(5)).batch(2)
    >>> list(dp)
    [[0, 1], [2, 3], [4]]
    >>> list(IterableWrapper(range(5)).batch(2, drop_last=True, wrapper_class=tuple))
    [(0, 1), (2, 3)]
    """

    traits = ("batches",)
    buffers = ("batch_size",)
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[T],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[T]], Any] = DataChunk,
    ) -> None:
        expect_batching(batch_size, wrapper_class)
        self.source = source
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[DataChunk[T]]:
        items = strided(self.source, at_a_time=self.batch_size)
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe[T]):
    """Yield the items of each batch, a list; with `unbatch_level` 2 those of the lists in it, and so on.

    Level -1 flattens lists at any depth and yields other items as they are. Level 0 flattens nothing. Tuples are items,
    not batches.

    Raises IndexError for a batch with fewer levels than `unbatch_level`.

    >>> dp = IterableWrapper([[1, 2], [3]]).unbatch()
    >>> list(dp)
    [1, 2, 3]
    >>> list(IterableWrapper([[1, [2, [3, 4]]], 5]).unbatch(-1))
    [1, 2, 3, 4, 5]
    """

    traits = ("unbatches",)

    @overload
    def __init__(self, source: IterDataPipe[list[T]], unbatch_level: Literal[1] = 1) -> None: ...

    @overload
    def __init__(self: UnBatcher[Any], source: IterDataPipe[Any], unbatch_level: int) -> None: ...

    def __init__(self, source: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        expect_whole("unbatch_level", unbatch_level, least=-1)
        self.source = source
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        return self.outputs_of_each(partial(self._flat, self.unbatch_level), self.source)

    def _flat(self, level: int, item: Any) -> Iterable[Any]:
        if isinstance(item, list) and level:
            return item if level == 1 else chain.from_iterable(self._flat(level - 1, part) for part in item)
        if level <= 0:
            return (item,)
        raise IndexError(
            f"unbatch_level {self.unbatch_level} is deeper than the batch: there is a {type(item).__name__} at that "
            "level"
        )


@functional_datapipe("groupby")
class Grouper(IterDataPipe[Any]):
    """Yield lists of items with the same key; `group_key_fn` returns an item's key.

    Items may come in any order: they are kept in a buffer. A group is yielded

    - as soon as it has `group_size` items, where that is given;
    - when `buffer_size` items are buffered: the largest group, the first of several, if it has at least
      `guaranteed_group_size` items (by default `group_size`, else 1). With `drop_remaining` a smaller one is dropped;
    - at the end of the source, whatever its size.

    The last groups come in the order of their first items. With `keep_key`, pairs of the key and the list are yielded.
    `on_error` handles an item for which `group_key_fn` raises.

    Raises RuntimeError where the largest group has fewer than `guaranteed_group_size` items when the buffer is full.

    >>> files = IterableWrapper(["a.png", "b.png", "a.json", "b.json", "c.png"])
    >>> dp = files.groupby(lambda path: path[0], buffer_size=4, group_size=2)
    >>> list(dp)
    [['a.png', 'a.json'], ['b.png', 'b.json'], ['c.png']]
    """

    buffers = ("buffer_size",)
    resumes_from_start = False
    groups: dict[Any, dict[int, Any]] = own(dict, save=lambda groups: [[*group] for group in groups.values()])
    """The buffered items, by key and by number. States have the numbers in each group."""

    def __init__(
        self,
        source: IterDataPipe[T],
        group_key_fn: Callable[[T], Hashable],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
        on_error: OnError = "raise",
    ) -> None:
        check_function("group_key_fn", group_key_fn)
        expect_whole("buffer_size", buffer_size)
        if group_size is not None:
            expect_whole("group_size", group_size)
            if group_size > buffer_size:
                raise ValueError(f"group_size must be from 1 to buffer_size, {buffer_size}, and is {group_size}")
        if guaranteed_group_size is not None:
            expect_whole("guaranteed_group_size", guaranteed_group_size)
            if guaranteed_group_size > (group_size or 0):
                raise ValueError(
                    f"guaranteed_group_size must be from 1 to group_size, {group_size}, and is {guaranteed_group_size}"
                )
        self.source = source
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[Any]:
        key_of, skips = keys_by(self.group_key_fn, self.error_policy), self.error_policy.skips
        group_size, buffer_size = self.group_size, self.buffer_size
        least = self.guaranteed_group_size or self.group_size or 1
        items = self.read(self.source)
        numbers: Any = [*self.groups]
        again = items.again(chain.from_iterable(numbers))
        groups = self.groups = {
            key_of(again[group[0]]): {number: again[number] for number in group} for group in numbers
        }
        buffered = len(again)
        del again
        # Groups are ordered by their first items, the oldest of each.
        items.keep_from(lambda: next((number for group in groups.values() for number in group), None))
        for number, item in items:
            key = key_of(item)
            if skips and not self.error_policy.keep(key):
                continue
            if key not in groups:
                groups[key] = {}
            group = groups[key]
            group[number] = item
            buffered += 1
            if len(group) != group_size:
                if buffered < buffer_size:
                    continue
                key = max(groups, key=lambda key: len(groups[key]))
            group = groups.pop(key)
            buffered -= len(group)
            if len(group) >= least:
                yield self._grouped(key, group)
            elif not self.drop_remaining:
                raise RuntimeError(
                    f"{self.buffer_size} items are buffered, and the largest group, that of the key {key!r}, has "
                    f"{len(group)} of them, fewer than guaranteed_group_size, {least}: give a larger buffer_size or a "
                    "smaller guaranteed_group_size, or drop such groups with drop_remaining=True"
                )
        while groups:
            key = next(iter(groups))
            yield self._grouped(key, groups.pop(key))

    def _grouped(self, key: Hashable, group: dict[int, Any]) -> Any:
        chunk = DataChunk([*group.values()])
        return (key, chunk) if self.keep_key else chunk
