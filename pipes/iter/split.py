"""Split one stream into several."""

from __future__ import annotations

import copy as copying
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from ...errors.policy import Skipped
from ...registry import IterDataPipe, OnError, T, expect_whole, functional_datapipe, own
from ..bases.input_columns import check_function
from ..bases.splitting.splitter import Forking, Splitter

_COPIES: dict[str | None, Callable[[Any], Any] | None] = {
    None: None,
    "shallow": copying.copy,
    "deep": copying.deepcopy,
}


@functional_datapipe("fork")
class Forker(Forking):
    """Give a list of `num_instances` pipes that each yield all items of the source, which is read once.

    Read the pipes in any order, together or one after the other. Items that one has read and another has not wait in a
    buffer. When `buffer_size` items wait for a pipe, no other can read on. With -1 there is no limit, and memory may
    run out. Nothing waits for a pipe that was dropped, or whose iterator was closed early.

    The pipes share passes over the source. A pipe that begins a pass joins the current pass of the others. If it has
    already read in that pass, the source begins a new one, and readers of the old one get a RuntimeError at the next
    step. The source is closed once no pipe can continue or join.

    Different threads may read the pipes, as with `prefetch` on one of them. The buffer must have room for the items
    read ahead.

    All pipes yield the same objects, unless `copy` is "shallow" or "deep": then each yields copies.

    Raises BufferError where a pipe is read too far ahead of another; it names the other.

    >>> first, second = IterableWrapper(range(3)).fork(2)
    >>> dp = first.zip(second.map(lambda x: x * 10))
    >>> list(dp)
    [(0, 0), (1, 10), (2, 20)]
    """

    keeps_schema = True

    def __init__(
        self,
        source: IterDataPipe[T],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        _expect_branches(num_instances, buffer_size)
        if copy not in _COPIES:
            raise ValueError(f"copy must be None, 'shallow' or 'deep', and is {copy!r}")
        self.source = source
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self.copy = copy

    def result(self) -> list[IterDataPipe[T]]:
        """Return the pipes that yield the items."""
        return self.branches(self.num_instances)

    def conversion(self, number: int) -> Callable[[Any], Any] | None:
        return _COPIES[self.copy]


@functional_datapipe("unzip")
class UnZipper(Forking):
    """Give a list of pipes, one per column of the items, which are sequences of `sequence_length`.

    The indices in `columns_to_skip` get no pipe. For the buffer and for passes, see `fork`.

    Raises IndexError for an item that is too short.

    >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
    >>> dp = numbers.zip(letters)
    >>> list(dp)
    [(1, 'a'), (2, 'b')]
    """

    gives = None

    def __init__(
        self,
        source: IterDataPipe[Sequence[Any]],
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
    ) -> None:
        self._columns = columns_left(sequence_length, columns_to_skip)
        _expect_branches(len(self._columns), buffer_size)
        self.source = source
        self.sequence_length = sequence_length
        self.buffer_size = buffer_size
        self.columns_to_skip = columns_to_skip

    def result(self) -> list[IterDataPipe[Any]]:
        """Return the pipes, one for each column."""
        return self.branches(len(self._columns))

    def conversion(self, number: int) -> Callable[[Any], Any] | None:
        return operator.itemgetter(self._columns[number])


@functional_datapipe("demux")
class Demultiplexer(Splitter):
    """Give a list of `num_instances` pipes; one of them yields each item of the source.

    `classifier_fn(item)` returns the number of that pipe. With `drop_none`, items with None are left out. `on_error`
    handles an item for which it raises, or returns an invalid number: `"raise"`, `"skip"`, or a `Skip`, `Retry` or
    handler.

    Items pulled for another pipe wait in a buffer, at most `buffer_size` in all; -1 is no limit. For passes and
    threads, see `fork`.

    Raises ValueError for an invalid number, and BufferError where too many items wait.

    >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
    >>> dp = even.zip_longest(odd)
    >>> list(dp)
    [(0, 1), (2, 3), (4, None)]
    """

    resumes_from_start = False
    keeps_schema = True
    counted_to: int = own(0)
    """The number after that of the last skipped item counted."""

    def __init__(
        self,
        source: IterDataPipe[T],
        num_instances: int,
        classifier_fn: Callable[[T], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
        *,
        on_error: OnError = "raise",
    ) -> None:
        _expect_branches(num_instances, buffer_size)
        check_function("classifier_fn", classifier_fn)
        self.source = source
        self.num_instances = num_instances
        self.classifier_fn: Callable[[Any], int | None] = classifier_fn
        self.drop_none = drop_none
        self.buffer_size = buffer_size
        self.handle_errors(on_error)

    def result(self) -> list[IterDataPipe[T]]:
        """Return the pipes that share the items."""
        return self.branches(self.num_instances)

    def __iter__(self) -> Iterator[Any]:
        number_of = self.error_policy.wrap(self._number_of)
        for entry in self.numbered():
            at, item = entry
            number: Any = number_of(item)
            if isinstance(number, Skipped):
                if at >= self.counted_to:  # else it was counted before the state was taken
                    self.counted_to = at + 1
                    self.error_policy.keep(number)
            elif number is not None:
                yield number, entry

    def _number_of(self, item: Any) -> int | None:
        number = self.classifier_fn(item)
        if number is None and self.drop_none:
            return None
        try:
            return range(self.num_instances).index(number)  # type: ignore[arg-type]  # a plain integer, even for a tensor
        except ValueError:
            raise ValueError(
                f"classifier_fn returned {number!r:.100}, and there are pipes 0 … {self.num_instances - 1}"
                + ("; with drop_none=True, items classified as None are left out" if number is None else "")
            ) from None


@functional_datapipe("round_robin_demux")
class RoundRobinDemultiplexer(Splitter):
    """Give a list of `num_instances` pipes that yield the items of the source in turn.

    For the buffer, passes and threads, see `demux` and `fork`.

    >>> first, second = IterableWrapper(range(5)).round_robin_demux(2)
    >>> dp = first.zip_longest(second)
    >>> list(dp)
    [(0, 1), (2, 3), (4, None)]
    >>> len(first), len(second)
    (3, 2)
    """

    keeps_schema = True

    def __init__(self, source: IterDataPipe[T], num_instances: int, buffer_size: int = 1000) -> None:
        _expect_branches(num_instances, buffer_size)
        self.source = source
        self.num_instances = num_instances
        self.buffer_size = buffer_size

    def result(self) -> list[IterDataPipe[T]]:
        """Return the pipes that share the items."""
        return self.branches(self.num_instances)

    def branch_of(self, number: int, item: Any) -> int:
        return number % self.num_instances

    def length(self, number: int) -> int:
        return len(range(number, len(self.source), self.num_instances))


def columns_left(sequence_length: int, columns_to_skip: Sequence[int] | None) -> list[int]:
    """Return the indices that are not skipped; raise ValueError where none are left."""
    expect_whole("sequence_length", sequence_length)
    columns = range(sequence_length)
    skipped = {*(columns_to_skip or ())}
    if unknown := skipped - {*columns}:
        raise ValueError(f"columns_to_skip must be in 0 … {sequence_length - 1}, and has {sorted(unknown)}")
    if not (left := [column for column in columns if column not in skipped]):
        raise ValueError(f"no column is left: sequence_length is {sequence_length}, columns_to_skip {columns_to_skip}")
    return left


def _expect_branches(num_instances: int, buffer_size: int) -> None:
    expect_whole("num_instances", num_instances)
    expect_whole("buffer_size", buffer_size, least=-1)  # -1: no limit
    if buffer_size == -1:
        warnings.warn(
            "with buffer_size=-1 any number of items may wait for a branch that is not read, until memory runs out",
            stacklevel=5,
        )
