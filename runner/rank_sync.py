"""The ranks of a distributed program: the part that each reads, and the end of an epoch, which all agree on."""

from __future__ import annotations

import hashlib
import json
import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ..errors.notes import add_note, describe_item
from ..registry import close
from ..workers.ranks import AllRanks, by_rank, expect_no_second_division

if TYPE_CHECKING:
    from .reader import ShardReader

Ends = Literal["stop", "pad", "drop"]

_FAILED, _ENDED, _REPEATING, _READY = range(4)
_NO_MORE = object()
_WHO_FAILED = "say who failed"
_COUNTS_WITHIN = 5.0
"""Seconds for counting dropped items."""

Others = Literal["same", "broadcast", "none"]


@dataclass(frozen=True)
class Part:
    """The part of the data that a rank reads."""

    rank: int | None = 0
    """The part's number, which several ranks may share; None if the rank gets no items."""
    ranks: int = 1
    """How many parts there are."""
    is_sent: bool = False
    """Whether the first rank of a part reads it, and sends its items to the others."""


class RankSync:
    """Yields the items of one rank's part, and ends when the other ranks do."""

    def __init__(self, part: Part, ends: Ends, steps_per_epoch: int | None, timeout: float) -> None:
        self.part = part
        self.steps_per_epoch = steps_per_epoch
        self._ends = ends
        self.timeout = timeout
        self._all: AllRanks | None = None
        self._has_warned = False
        self._first: int | None = None
        """The first rank of this rank's part, if it sends the others its items."""
        self._group = 0

    def all_ranks(self) -> AllRanks:
        """Return the ranks, which meet at the first call."""
        if self._all is None or not self._all.is_of_this_world():
            self._all = AllRanks(self.timeout)
            parts: list[Part] = self._all.exchange("say which parts they read", self.part)
            _expect_all_parts(parts)
            for number in range(self.part.ranks) if self.part.is_sent else ():
                ranks = [rank for rank, part in enumerate(parts) if part.rank == number]
                group = self._all.group_of(ranks)
                if number == self.part.rank:
                    self._first, self._group = ranks[0], group
        return self._all

    @property
    def reads(self) -> bool:
        """Whether this rank reads its part itself."""
        return self.part.rank is not None and (self._first is None or self._first == self.all_ranks().rank)

    def begin(self, common: dict[str, Any], seed: int | None, drawn: int) -> int:
        """Check that `common` is the same on all ranks, and return their seed.

        It is the seed set on the ranks, or else rank 0's draw. Raises ValueError on all ranks if anything differs.
        """
        common = {**common, "ends": self._ends, "steps_per_epoch": self.steps_per_epoch}
        digests = {name: _digest_of_value(value) for name, value in common.items()}
        seeded = self.all_ranks().exchange("begin an epoch", (digests, seed, drawn))
        differing = [name for name in common if len({each[name] for each, _, _ in seeded}) > 1]
        if differing:
            values = self.all_ranks().exchange("say what differs", {name: common[name] for name in differing})
            raise ValueError(
                "the ranks do not read the same: "
                + "; ".join(_difference(name, [value[name] for value in values]) for name in differing)
            )
        seeds: set[int] = {each for _, each, _ in seeded if each is not None}
        if len(seeds) > 1:
            raise ValueError(f"the ranks have different seeds: {by_rank([each for _, each, _ in seeded])}")
        seeds = seeds or {seeded[0][2]}
        return seeds.pop()

    def leave(self) -> None:
        """Leave the process groups."""
        if self._all is not None:
            self._all.leave()
            self._all = None

    def length(self, of_part: Callable[[int], int], before: int) -> int:
        """Return how many items each rank yields in an epoch: those yielded before, plus those left in the parts."""
        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        lengths = map(of_part, range(self.part.ranks))
        return before + (max(lengths) if self._ends == "pad" else min(lengths))

    def read(self, reader: ShardReader, items: Iterator[Any], again: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Yield items until all ranks end; `again` returns an iterator from the beginning, for repeated items."""
        expect_no_second_division()
        if not self.reads:
            yield from self._without_reading(reader)
            return
        assert self.part.rank is not None
        part = self.part.rank
        is_repeating = reader.repeated[part] > 0
        if is_repeating:
            items = cycle_of(again, reader.repeated[part])
        try:
            while True:
                item: Any = _NO_MORE if is_repeating else self._next(reader, items)
                sent = self._packed(reader, item)
                status = _REPEATING if is_repeating else _ENDED if item is _NO_MORE else _READY
                continues, some_begin_to_repeat = self._continues(reader, status)
                if not continues:
                    self._count_dropped(reader, item, items)
                    return
                if item is _NO_MORE:
                    if not is_repeating:
                        is_repeating, items = True, cycle_of(again)
                    item = self._next(reader, items)
                    sent = self._packed(reader, item)
                    reader.repeated[part] += 1
                if some_begin_to_repeat:
                    self._expect_items(item is not _NO_MORE)
                if self._first is not None:
                    self.all_ranks().broadcast((sent, reader.repeated[part]), self._first, self._group)
                reader.given += 1
                yield item
        finally:
            close(items)  # a kept error would keep the iterator and its prefetching threads

    def _without_reading(self, reader: ShardReader) -> Iterator[Any]:
        """Yield what the part's first rank sends, or None if this rank gets no items."""
        while True:
            continues, some_begin_to_repeat = self._continues(reader, None)
            if not continues:
                break
            if some_begin_to_repeat:
                self._expect_items(True)
            item: Any = None
            if self._first is not None:
                sent, repeated = self.all_ranks().broadcast(None, self._first, self._group)
                item, reader.repeated[self.part.rank or 0] = pickle.loads(sent), repeated
            reader.given += 1
            yield item
        self._count_dropped(reader, _NO_MORE, iter(()))

    def _next(self, reader: ShardReader, items: Iterator[Any]) -> Any:
        try:
            return next(items, _NO_MORE)
        except Exception as error:
            self._report_failure(reader, error)
            raise

    def _packed(self, reader: ShardReader, item: Any) -> bytes:
        """Return an item as it is sent to the other ranks of the part, before all agree that there is one."""
        if self._first is None or item is _NO_MORE:
            return b""
        try:
            return pickle.dumps(item, protocol=5)
        except Exception as error:
            add_note(
                error,
                f"{describe_item(item)} could not be pickled, so it cannot be sent to the other ranks of its part",
            )
            self._report_failure(reader, error)
            raise

    def _report_failure(self, reader: ShardReader, error: Exception) -> None:
        with suppress(RuntimeError):  # the original error matters, not that others are silent
            self._agree(reader, _FAILED)
            self.all_ranks().exchange(_WHO_FAILED, f"{type(error).__name__}: {error}"[:1000])

    def _continues(self, reader: ShardReader, status: int | None) -> tuple[bool, bool]:
        """Return whether all ranks give one more item, and whether some begin to repeat items."""
        least, greatest = self._agree(reader, status)
        if least == _FAILED:
            answers = self.all_ranks().exchange(_WHO_FAILED, None)
            failed = "; ".join(f"rank {rank} failed: {error}" for rank, error in enumerate(answers) if error)
            raise RuntimeError(f"all ranks stop here, after {reader.given} items of this epoch: {failed}")
        if self.steps_per_epoch is not None:
            continues = reader.given < self.steps_per_epoch
        else:
            continues = (greatest if self._ends == "pad" else least) == _READY
            if not continues and least < greatest and not reader.given and not reader.resumes:
                self._expect_items(status != _ENDED)
        return continues, continues and least == _ENDED

    def _expect_items(self, has_one: bool) -> None:
        """Raise RuntimeError, on all ranks, if one has nothing to read."""
        answers = self.all_ranks().exchange("say whose part is empty", (self.part.rank, has_one))
        if empty := sorted({part for part, has_any in answers if not has_any}):
            raise RuntimeError(
                f"{'part' if len(empty) == 1 else 'parts'} {', '.join(map(str, empty))} of {self.part.ranks} "
                f"{'is' if len(empty) == 1 else 'are'} empty, so a rank has nothing to read: there are "
                "fewer items before the sharding point than shards, or filters leave none. Take fewer ranks, or put "
                "sharding_filter where there are more items"
            )

    def _agree(self, reader: ShardReader, number: int | None) -> tuple[int, int]:
        return self.all_ranks().agree(f"ask for item {reader.given} of the epoch", number)

    def _count_dropped(self, reader: ShardReader, item: Any, items: Iterator[Any]) -> None:
        """Count what this rank has left, and warn once of the total over all ranks."""
        if self.steps_per_epoch is not None or self._ends == "pad":
            return
        until = time.monotonic() + _COUNTS_WITHIN
        while item is not _NO_MORE:
            reader.dropped += 1
            if time.monotonic() > until:
                break
            try:
                item = next(items, _NO_MORE)
            except Exception:  # the item is dropped anyway
                break
        own = (self.part.rank, reader.dropped, item is _NO_MORE)
        answers = self.all_ranks().exchange("count what is dropped", own if self.reads else (None, 0, True))
        by_part = {part: dropped for part, dropped, _ in answers if part is not None}
        dropped = sum(by_part.values())
        if dropped and self._ends == "stop" and not self._has_warned and not self.all_ranks().rank:
            least = "" if all(is_all for _, _, is_all in answers) else "at least "
            warnings.warn(
                f"the ranks end with the shortest part, after {reader.given} items each, and {least}{dropped} items "
                f'of the others are dropped: {least}{by_part} by rank. ends="pad" drops none, ends="drop" is silent',
                stacklevel=2,
            )
        self._has_warned = True


def _expect_all_parts(parts: list[Part]) -> None:
    """Raise ValueError unless the ranks read all parts of the same data."""
    wanted = {(part.ranks, part.is_sent) for part in parts}
    missing = {*range(max(part.ranks for part in parts))} - {part.rank for part in parts}
    if len(wanted) > 1 or missing:
        parts_of_ranks = ", ".join(
            f"rank {rank} part {part.rank} of {part.ranks}{', and sends it to others' if part.is_sent else ''}"
            for rank, part in enumerate(parts)
        )
        raise ValueError(f"each part of the data must be read by a rank, and some are not: {parts_of_ranks}")


def _digest_of_value(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=lambda part: part.hex())
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(name: str, values: list[Any]) -> str:
    """Describe the innermost value that differs between ranks."""
    first: Any = values[0]
    keys: Iterable[Any] = ()
    if all(isinstance(value, dict) and value.keys() == first.keys() for value in values):
        keys = first
    elif all(isinstance(value, list) and len(value) == len(first) for value in values):
        keys = range(len(first))
    for key in keys:
        if any(value[key] != first[key] for value in values):
            return _difference(f"{name}[{key!r}]", [value[key] for value in values])
    return f"{name} is {by_rank([f'{value!r:.200}' for value in values])}"


def cycle_of(again: Callable[[], Iterator[Any]], skip: int = 0) -> Iterator[Any]:
    """Yield the items of successive iterators, but the first `skip`, until one is empty."""
    items = again()
    skipped = sum(1 for _ in islice(items, skip))
    if skipped < skip and skipped:  # shorter than `skip`: skip the remainder, not every repetition
        items = again()
        deque(islice(items, skip % skipped), maxlen=0)
    yield from items
    while True:
        items = again()
        first = next(items, _NO_MORE)
        if first is _NO_MORE:
            return
        yield first
        yield from items
