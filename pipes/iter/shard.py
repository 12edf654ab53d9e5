"""A part of the stream for each of several readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import ClassVar, TypeVar

from ...registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    Provenance,
    Tally,
    functional_datapipe,
    own,
    provenance_of,
)
from ...registry.sharding import part_of
from ...workers.ranks import expect_no_second_division
from ..bases.striding import Strided, strided

T = TypeVar("T")


@functional_datapipe("sharding_filter")
class ShardingFilter(Strided[T]):
    """Yield every n-th item, where n readers share the stream; all items where nobody shares it.

    The runner, or torch's DataLoader, tells each reader which part is its own. What stands before this point is run by
    every reader, so it belongs early in a chain: after listing, before opening and decoding. Right after a map-style
    pipe's `shuffle` or `to_iter_datapipe` it costs nothing: of these, each reader reads its own items only.

    With `sharding_group_filter` only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

    Batches made after it are made of each reader's own items, so that each reader may end with one that is not full:
    15 items, in 2 parts and batches of 5, are batches of 5, 3, 5 and 2. `.batch(5).sharding_filter()` shares out whole
    batches instead, 3 of 5, at the price that every reader reads all items.

    >>> dp = IterableWrapper(range(7)).sharding_filter()
    >>> dp.apply_sharding(3, 1)
    >>> list(dp)
    [1, 4]
    """

    gives = "same"
    keeps_schema = True
    holds_items = False
    is_sharding_filter: ClassVar[bool] = True
    given: Tally = own(Tally)
    parts: int = own(0)
    """Into how many parts the stream is divided; 0 before the pass has begun."""
    part: int = own(0)
    """Which of them is read."""

    def __init__(self, source: IterDataPipe[T], sharding_group_filter: SHARDING_PRIORITIES | None = None) -> None:
        self.source = source
        self.sharding_group_filter = sharding_group_filter
        self._groups: dict[int, tuple[int, int]] = {}

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Take the `instance_id`-th of `num_of_instances` parts; at several levels, that part of the level above's."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"instance_id must be in 0 … {num_of_instances - 1}, and is {instance_id}")
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self._groups):
            raise RuntimeError(
                "a chain is sharded either by one call for all levels or level by level, and this one was both"
            )
        self._groups[sharding_group] = (num_of_instances, instance_id)

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        parts, part = self._part()
        shares = self.shares().items()
        if any(number > 1 and group != SHARDING_PRIORITIES.MULTIPROCESSING for group, (number, _) in shares):
            expect_no_second_division()
        if self.parts:
            self._expect_the_same(parts, part)
        self.parts, self.part = parts, part
        next_one = parts - 1 if self.given.items else part
        return self.given.follow(strided(self.source, next_one + first * parts, step * parts, at_a_time))

    def _expect_the_same(self, parts: int, part: int) -> None:
        """Raise ValueError where the pass goes on from a state that was taken in another part."""
        if self.parts != parts:
            raise ValueError(
                f"the state is that of one of {self.parts} parts, and the chain is now read in {parts}: "
                "what the parts left over cannot be told"
            )
        if self.part != part:
            raise ValueError(
                f"the state is that of part {self.part} of {parts}, and this is part {part}, which would read what "
                "the other had left over: every rank needs the state that it saved itself"
            )

    def provenance(self) -> Provenance | None:
        return provenance_of(self.source)

    def __len__(self) -> int:
        parts, part = self._part()
        return len(range(part, len(self.source), parts))

    def shares(self) -> dict[int, tuple[int, int]]:
        """Return, for each level that counts here, into how many parts it divides the stream, and which is read."""
        return {group: share for group, share in self._groups.items() if self._counts(group)}

    def _part(self) -> tuple[int, int]:
        return part_of(self.shares())

    def _counts(self, group: int) -> bool:
        return self.sharding_group_filter in (None, group)


@functional_datapipe("sharding_round_robin_dispatch")
class ShardingRoundRobinDispatcher(ShardingFilter[T]):
    """Yield every n-th item, where n worker processes share the stream of one process; all items where there are none.

    It is a `sharding_filter` at the level of workers: `sharding_group_filter` must be
    `SHARDING_PRIORITIES.MULTIPROCESSING`. A `sharding_filter` before it shares the stream among ranks only.

    Where `DataLoader2` reads with workers, what stands before it is read once in each epoch, by a process of its own,
    which sends each item to the worker whose shard it is for: for a source that cannot be read several times, or that
    costs more than sending its items. Any number of items may wait for a shard that is behind the others. Behind it, a
    `cycle` gives the same again in each round. A `DataLoader` of torch's runs what stands before it in every worker, as
    with `sharding_filter`.

    Raises NotImplementedError for another level.

    >>> from penstock.registry import SHARDING_PRIORITIES
    >>> dp = IterableWrapper(range(4)).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    >>> list(dp)
    [0, 1, 2, 3]
    """

    dispatches: ClassVar[bool] = True

    def __init__(self, source: IterDataPipe[T], sharding_group_filter: SHARDING_PRIORITIES | None = None) -> None:
        if sharding_group_filter != SHARDING_PRIORITIES.MULTIPROCESSING:
            raise NotImplementedError(
                "sharding_round_robin_dispatch shares the stream of a process among its workers: give "
                "SHARDING_PRIORITIES.MULTIPROCESSING; for ranks and all other levels use sharding_filter"
            )
        super().__init__(source, sharding_group_filter)

    def _counts(self, group: int) -> bool:
        return group != SHARDING_PRIORITIES.DISTRIBUTED


_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@functional_datapipe("shard_expand")
class ShardExpander(IterDataPipe[str]):
    """Yield the names that a name with ranges in braces stands for, one after another; other names as they are.

    The first number of a range says with how many digits at least all are written. Several ranges in a name give all
    combinations. Nothing is looked up: the names are those of the pattern, whether the files exist or not.

    Raises ValueError for a range that runs backwards.

    >>> dp = IterableWrapper(["images-{008..010}.tar", "labels.csv"]).shard_expand()
    >>> list(dp)
    ['images-008.tar', 'images-009.tar', 'images-010.tar', 'labels.csv']
    """

    def __init__(self, source: IterDataPipe[str]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[str]:
        return self.outputs_of_each(_expanded, self.source)


def _expanded(name: str) -> Iterator[str]:
    """The names that one stands for. The parts between its ranges are kept, and the ranges run like nested loops."""
    if not isinstance(name, str):
        raise TypeError(f"names are expanded, and this is of type {type(name).__name__}")
    between: list[str] = []
    ranges: list[list[str]] = []
    end = 0
    for found in _RANGE.finditer(name):
        low, high = found.groups()
        if int(low) > int(high):
            raise ValueError(f"the range {found[0]} runs backwards: write it as {{{high}..{low}}}")
        between.append(name[end : found.start()])
        ranges.append([f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)])
        end = found.end()
    for numbers in product(*ranges):
        yield "".join(part for pair in zip(between, numbers, strict=True) for part in pair) + name[end:]
