"""Divide a stream among readers."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

from torch.utils.data import IterableDataset, get_worker_info

from ...registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    T,
    Tally,
    expect_alike_sources,
    functional_datapipe,
    own,
    walk,
)
from ...registry.sharding import divide_items, part_of
from ...state.foreign import TorchIterDataPipe, declared
from ...workers.ranks import expect_no_second_division
from ..bases.one_to_one import SameItems
from ..bases.striding import Strided, strided


@functional_datapipe("sharding_filter")
class ShardingFilter(Strided[T], SameItems[T]):
    """Yield every n-th item if n readers share the stream; all items for a single reader.

    The runner, or torch's DataLoader, assigns each reader its part. Every reader runs the steps before this one, so put
    it early in a chain: after listing and shuffling files, before opening and decoding. Right after `shuffle` or
    `to_iter_datapipe` of a map-style pipe, each reader reads only its own items.

    With `sharding_group_filter`, only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

    Batches made after it contain the items of one reader, so each reader may end with a partial batch: 15 items, in 2
    parts and batches of 5, give batches of 5, 3, 5 and 2. `.batch(5).sharding_filter()` divides full batches, 3 of 5,
    but every reader then reads all items.

    >>> dp = IterableWrapper(range(7)).sharding_filter()
    >>> dp.apply_sharding(3, 1)
    >>> list(dp)
    [1, 4]
    """

    resumes_from_start = False
    is_sharding_filter: ClassVar[bool] = True
    given: Tally = own(Tally)
    parts: int = own(0)
    """The number of parts of the stream; 0 before the pass has begun."""
    part: int = own(0)
    """The number of the part that is read."""

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
        """Take part `instance_id` of `num_of_instances`; at several levels, of the part of the level above."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"instance_id must be in 0 … {num_of_instances - 1}, and is {instance_id}")
        self._groups[sharding_group] = (num_of_instances, instance_id)
        divided = [group for group, (parts, _) in self._groups.items() if parts > 1]
        if len(divided) > 1 and SHARDING_PRIORITIES.DEFAULT in divided:
            raise RuntimeError(
                "a chain is sharded either by one call for all levels or level by level, and this one was both"
            )

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        parts, part = self._begin_part()
        next_one = parts - 1 if self.given.items else part
        return self.given.follow(strided(self.source, next_one + first * parts, step * parts, at_a_time))

    def _begin_part(self) -> tuple[int, int]:
        """Return the number of parts, and the part that this pass reads; raise an error where items would be lost."""
        parts, part = self._part()
        shares = self.shares().items()
        if any(number > 1 and group != SHARDING_PRIORITIES.MULTIPROCESSING for group, (number, _) in shares):
            expect_no_second_division()
        if parts > 1 and (worker := get_worker_info()) is not None and isinstance(worker.dataset, IterDataPipe):
            expect_alike_sources(worker.dataset)  # torch's DataLoader has its own apply_sharding
            divide_items(worker.dataset)
            _expect_whole_data_sets(self)
        if self.parts:
            self._expect_the_same(parts, part)
        self.parts, self.part = parts, part
        return parts, part

    def _expect_the_same(self, parts: int, part: int) -> None:
        """Raise ValueError where the pass resumes from a state of another part."""
        if self.parts != parts:
            raise ValueError(
                f"the state is that of one of {self.parts} parts, and the chain is now read in {parts}: what was left "
                "of the parts is unknown"
            )
        if self.part != part:
            raise ValueError(
                f"the state is that of part {self.part} of {parts}, and this is part {part}, which would read the "
                "rest of the other's items: every rank needs its own state"
            )

    def __len__(self) -> int:
        parts, part = self._part()
        return len(range(part, len(self.source), parts))

    def shares(self) -> dict[int, tuple[int, int]]:
        """Return, for each level that counts here, the number of parts and the part that is read."""
        return {group: share for group, share in self._groups.items() if self._counts(group)}

    def _part(self) -> tuple[int, int]:
        return part_of(self.shares())

    def _counts(self, group: int) -> bool:
        return self.sharding_group_filter in (None, group)


def _expect_whole_data_sets(point: IterDataPipe[Any]) -> None:
    """Raise RuntimeError for a data set before a sharding point that divides itself in torch's workers; warn of others.

    A class divides itself if one of its functions asks for the worker, as those of Hugging Face do.
    """
    read = (value for pipe in walk(point) for name in declared(pipe, "payload", ()) for value in [vars(pipe).get(name)])
    for found in read:
        if not isinstance(found, IterableDataset) or isinstance(found, TorchIterDataPipe):
            continue
        functions = [each for base in type(found).__mro__ for each in vars(base).values() if inspect.isfunction(each)]
        asks = any("get_worker_info" in function.__code__.co_names for function in functions)
        name = f"{type(found).__module__}.{type(found).__qualname__}"
        mend = "take the sharding_filter away, or read by DataLoader2, in whose workers a data set is whole"
        if asks:
            raise RuntimeError(
                f"{name} divides itself among the workers of torch's DataLoader, and the sharding_filter would divide "
                f"each part again, which would lose items: {mend}"
            )
        warnings.warn(
            f"if {name} divides itself among the workers of torch's DataLoader, the sharding_filter divides each part "
            f"again, which loses items: {mend}",
            stacklevel=2,
        )


@functional_datapipe("sharding_round_robin_dispatch")
class ShardingRoundRobinDispatcher(ShardingFilter[T]):
    """Yield every n-th item if n workers share the stream, which one process reads; all items without workers.

    This is a `sharding_filter` at the level of workers: `sharding_group_filter` must be
    `SHARDING_PRIORITIES.MULTIPROCESSING`. A `sharding_filter` before it shares the stream among ranks only.

    With workers of `DataLoader2`, a separate process runs the steps before this one, once per epoch, and sends each
    item to the worker of its shard. Take it for a source that cannot be read several times, or that costs more than
    sending its items. Any number of items may wait for a slow shard. After it, a `cycle` repeats the same items in each
    round. A torch `DataLoader` runs the steps before it in every worker, as with `sharding_filter`.

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
    """Yield all names for each name with ranges in braces; other names as they are.

    All numbers have at least as many digits as the first of the range. Several ranges in a name give all combinations.
    Files need not exist: nothing is looked up.

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
    """Yield the names of a pattern; its ranges run like nested loops."""
    if not isinstance(name, str):
        raise TypeError(f"names are strings, and this is of type {type(name).__name__}")
    between: list[str] = []
    ranges: list[list[str]] = []
    end = 0
    for found in _RANGE.finditer(name):
        low, high = found.groups()
        if int(low) > int(high):
            raise ValueError(f"the range {found[0]} is backwards: write it as {{{high}..{low}}}")
        between.append(name[end : found.start()])
        ranges.append([f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)])
        end = found.end()
    for numbers in product(*ranges):
        yield "".join(part for pair in zip(between, numbers, strict=True) for part in pair) + name[end:]
