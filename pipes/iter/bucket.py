"""Batch items of similar size, to reduce padding."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush, heappushpop
from itertools import chain, pairwise
from typing import Any, Self

from ...errors.checks import expect_number
from ...registry import (
    DataChunk,
    IterDataPipe,
    OnError,
    T,
    derive_seed,
    expect_whole,
    functional_datapipe,
    own,
)
from ..bases.arguments import expect_batching
from ..bases.drawing import Shuffling, in_random_order
from ..bases.input_columns import check_function
from ..bases.striding import in_runs
from .shuffle import Shuffler


@functional_datapipe("bucketbatch")
class BucketBatcher(Shuffling[DataChunk[T]]):
    """Yield batches of similar items, cut from buckets that are shuffled and then sorted.

    Take `bucket_by_length` where lengths have natural boundaries; this sorts pools of items. A bucket has the items of
    `batch_num` batches. `sort_key` takes the list of a bucket and returns it sorted. Items are shuffled before: in
    consecutive pools of `bucket_num` buckets, or, without `use_in_batch_shuffle`, in a buffer of that size, as
    `shuffle` does. The batches of a pool come in random order where it has several buckets; those of a single bucket
    keep its order. Without `use_in_batch_shuffle` they come in random order. Every item comes once. Only the last batch
    of the stream can be shorter than `batch_size`; it is yielded in its place, or dropped with `drop_last`.

    `on_error` handles a bucket for which `sort_key` raises. To batch by size without shuffling, use `bucket_by_length`
    or `max_token_bucketize`.

    Raises TypeError where `sort_key` does not return a list, and ValueError where the number of items differs.

    >>> dp = IterableWrapper(["aaaa", "b", "ccc", "dd"]).bucketbatch(2, sort_key=lambda bucket: sorted(bucket, key=len))
    >>> list(dp)
    [['b', 'dd'], ['ccc', 'aaaa']]
    """

    traits = ("shuffles", "batches")
    buffers = ("batch_size", "batch_num", "bucket_num")

    def __init__(
        self,
        source: IterDataPipe[T],
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[T]], Sequence[T]] | None = None,
        use_in_batch_shuffle: bool = True,
        *,
        on_error: OnError = "raise",
    ) -> None:
        expect_batching(batch_size, DataChunk)
        expect_whole("batch_num", batch_num)
        expect_whole("bucket_num", bucket_num)
        check_function("sort_key", sort_key, optional=True)
        pool_size = batch_size * batch_num * bucket_num
        self.source = source if use_in_batch_shuffle else Shuffler(source, buffer_size=pool_size)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.batch_num = batch_num
        self.bucket_num = bucket_num
        self.sort_key = sort_key
        self.use_in_batch_shuffle = use_in_batch_shuffle
        self.handle_errors(on_error)

    def set_shuffle(self, shuffle: bool = True) -> Self:
        if isinstance(self.source, Shuffler) and not self.use_in_batch_shuffle:
            self.source.set_shuffle(shuffle)
        return super().set_shuffle(shuffle)

    def set_seed(self, seed: int) -> Self:
        if isinstance(self.source, Shuffler) and not self.use_in_batch_shuffle:
            self.source.set_seed(derive_seed(seed, 1))
        return super().set_seed(seed)

    def __iter__(self) -> Iterator[DataChunk[T]]:
        draws = self._draws()
        size, bucket_size = self.batch_size, self.batch_size * self.batch_num
        several = self.bucket_num > 1 or not self.use_in_batch_shuffle
        sort = None if self.sort_key is None else self.error_policy.wrap(partial(_sorted, self.sort_key))

        def batches_of(pool: list[T]) -> list[DataChunk[T]]:
            if self.is_random and self.use_in_batch_shuffle:
                pool = in_random_order(pool, draws)
            if sort is not None:
                buckets: list[Any] = [sort(pool[at : at + bucket_size]) for at in range(0, len(pool), bucket_size)]
                pool = [*chain.from_iterable(filter(self.error_policy.keep, buckets))]
            batches = [DataChunk(pool[at : at + size]) for at in range(0, len(pool), size)]
            if self.drop_last and len(pool) % size:
                del batches[-1]
            return in_random_order(batches, draws) if self.is_random and sort is not None and several else batches

        pool_size = bucket_size * self.bucket_num if self.use_in_batch_shuffle else bucket_size
        return self.outputs_of_each(batches_of, in_runs(self.source, pool_size))

    def __len__(self) -> int:
        self._expect_no_skips()
        whole, rest = divmod(len(self.source), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("max_token_bucketize")
class MaxTokenBucketizer(IterDataPipe[DataChunk[T]]):
    """Yield batches with at most `max_token_count` tokens in all, shorter items first.

    Take it where memory bounds the tokens of a batch. `len_fn` returns the number of tokens of an item. Up to
    `buffer_size` items are kept. When the buffer is full, the shortest item, the first of several, goes into the batch;
    a batch is yielded when the next item no longer fits. At the end, the kept items follow in order of length. With
    `include_padding`, the size of the batch padded to its longest item counts. Items shorter than `min_len` or longer
    than `max_len` are left out. Batches of similar length follow each other: put `shuffle` before this and after it to
    mix them.

    `on_error` handles an item for which `len_fn` raises, or which is too long.

    Raises ValueError for an item longer than `max_token_count`, where no `max_len` leaves it out.

    >>> dp = IterableWrapper(["ccc", "a", "dddd", "bb", "a"]).max_token_bucketize(5)
    >>> list(dp)
    [['a', 'a', 'bb'], ['ccc'], ['dddd']]
    >>> list(IterableWrapper(["ccc", "a", "dddd", "bb", "a"]).max_token_bucketize(5, include_padding=True, max_len=3))
    [['a', 'a'], ['bb'], ['ccc']]
    """

    traits = ("batches",)
    buffers = ("buffer_size",)
    resumes_from_start = False
    heap: list[tuple[Any, int, T]] = own(list, save=lambda heap: [number for _, number, _ in heap])
    """A heap of the length, number and item of each buffered item; numbers are unique."""
    beginning: dict[int, T] = own(dict, save=list)
    """The items of the next batch, by number."""

    def __init__(
        self,
        source: IterDataPipe[T],
        max_token_count: int,
        len_fn: Callable[[T], int] = len,  # type: ignore[assignment]
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("len_fn", len_fn)
        expect_number("max_token_count", max_token_count)
        if max_token_count < 1:
            raise ValueError(f"max_token_count must be at least 1, and is {max_token_count}")
        if not 0 <= min_len <= (max_token_count if max_len is None else max_len):
            raise ValueError(f"min_len must be from 0 to max_len, and they are {min_len} and {max_len}")
        if max_len is not None and max_len > max_token_count:
            raise ValueError(f"an item of max_len, {max_len}, fits into no batch: max_token_count is {max_token_count}")
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.max_token_count = max_token_count
        self.len_fn = len_fn
        self.min_len = min_len
        self.max_len = max_len
        self.buffer_size = buffer_size
        self.include_padding = include_padding
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[DataChunk[T]]:
        length_of: Callable[[T], Any] = self.error_policy.wrap(self.len_fn)
        skips, keep = self.error_policy.skips, self.error_policy.keep
        least, most = self.min_len, self.max_token_count if self.max_len is None else self.max_len
        room = self.buffer_size - 1
        items = self.read(self.source)
        numbers: Any = self.heap
        begun: Any = self.beginning
        again = items.again([*numbers, *begun])
        heap = self.heap = [(length_of(again[number]), number, again[number]) for number in numbers]
        batch = self.beginning = {number: again[number] for number in begun}
        del again
        tokens = longest = max(map(length_of, batch.values()), default=0)  # a state has at most one item in the batch
        items.keep_from(lambda: min(chain((number for _, number, _ in heap), batch), default=None))

        def by_length() -> Iterator[tuple[Any, int, T]]:
            for number, item in items:
                length = length_of(item)
                if skips and not keep(length):
                    continue
                if not least <= length <= most:
                    if length > most and self.max_len is None:
                        text = f"an item of length {length} fits no batch, since max_token_count is {most}: "
                        self.error_policy.refuse(ValueError(f"{text}max_len={most} leaves out what is longer"), item)
                    continue
                if len(heap) < room:
                    heappush(heap, (length, number, item))
                else:
                    yield heappushpop(heap, (length, number, item))
            while heap:
                yield heappop(heap)

        for length, number, shortest in by_length():
            longest = length if length > longest else longest  # faster than max()
            tokens = longest * (len(batch) + 1) if self.include_padding else tokens + length
            if tokens <= self.max_token_count:
                batch[number] = shortest
            else:
                full = DataChunk(batch.values())
                batch.clear()
                batch[number] = shortest
                tokens = longest = length
                yield full
        if batch:
            full = DataChunk(batch.values())
            batch.clear()
            yield full


@functional_datapipe("bucket_by_length")
class LengthBucketer(IterDataPipe[DataChunk[T]]):
    """Yield batches of items whose lengths lie between the same two boundaries.

    Take it for batches with little padding; `bucketbatch` sorts pools of items instead, and `pack` needs no padding.
    With boundaries `[10, 20]` there are three buckets: for lengths below 10, from 10 to below 20, and of 20 or more.
    `len_fn` returns the length of an item. A batch is yielded as soon as its bucket has `batch_size` items;
    `batch_size` is one number, or one for each bucket. Items of a batch keep the order of the source. At the end,
    incomplete batches are yielded, shorter items first, or dropped with `drop_last`. `on_error` handles an item for
    which `len_fn` raises.

    >>> dp = IterableWrapper(["a", "bbbb", "cc", "dddd", "eee"]).bucket_by_length([3], batch_size=[3, 2])
    >>> list(dp)
    [['bbbb', 'dddd'], ['a', 'cc'], ['eee']]
    """

    traits = ("batches",)
    buffers = ("boundaries", "batch_size")
    resumes_from_start = False
    buckets: list[dict[int, T]] = own(list, save=lambda buckets: [[*bucket] for bucket in buckets])
    """The buffered items, by number, for each bucket. States have the numbers alone."""

    def __init__(
        self,
        source: IterDataPipe[T],
        boundaries: Sequence[float],
        batch_size: int | Sequence[int],
        len_fn: Callable[[T], float] = len,  # type: ignore[assignment]
        drop_last: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("len_fn", len_fn)
        if not hasattr(boundaries, "__getitem__") or isinstance(boundaries, str):
            raise TypeError(f"boundaries must be a list of numbers, and is {boundaries!r:.100}")
        if any(lower >= upper for lower, upper in pairwise(boundaries)):
            raise ValueError(f"boundaries must rise, and are {[*boundaries]!r:.100}")
        sizes = batch_size if isinstance(batch_size, Sequence) else [batch_size]
        if isinstance(batch_size, Sequence) and len(batch_size) != len(boundaries) + 1:
            raise ValueError(
                f"batch_size must be one number, or one for each of the {len(boundaries) + 1} buckets that "
                f"{len(boundaries)} boundaries make, and has {len(batch_size)}"
            )
        for size in sizes:
            expect_batching(size, DataChunk)
        self.source = source
        self.boundaries = boundaries
        self.batch_size = batch_size
        self.len_fn = len_fn
        self.drop_last = drop_last
        self.handle_errors(on_error)

    def most_held(self) -> int:
        if isinstance(self.batch_size, Sequence):
            return sum(self.batch_size)
        return self.batch_size * (len(self.boundaries) + 1)

    def __iter__(self) -> Iterator[DataChunk[T]]:
        boundaries, length_of = self.boundaries, self.len_fn
        place_of: Callable[[T], Any] = self.error_policy.wrap(lambda item: bisect(boundaries, length_of(item)))
        skips, keep = self.error_policy.skips, self.error_policy.keep
        items = self.read(self.source)
        numbers: Any = self.buckets or [()] * (len(boundaries) + 1)
        again = items.again(chain.from_iterable(numbers))
        buckets = self.buckets = [{number: again[number] for number in bucket} for bucket in numbers]
        del again
        sizes = self.batch_size if isinstance(self.batch_size, Sequence) else [self.batch_size] * len(buckets)
        items.keep_from(lambda: min((next(iter(bucket)) for bucket in buckets if bucket), default=None))
        for number, item in items:
            place = place_of(item)
            if skips and not keep(place):
                continue
            bucket = buckets[place]
            bucket[number] = item
            if len(bucket) == sizes[place]:
                buckets[place] = {}
                yield DataChunk([*bucket.values()])
        for place, bucket in enumerate([] if self.drop_last else [*buckets]):
            if bucket:
                buckets[place] = {}
                yield DataChunk([*bucket.values()])


def _sorted(sort_key: Callable[[list[T]], Sequence[T]], bucket: list[T]) -> Sequence[T]:
    number = len(bucket)
    result = sort_key(bucket)
    if not isinstance(result, (list, tuple)):
        raise TypeError(
            "sort_key is a function of a bucket, a list of items, that returns it sorted, as "
            f"lambda bucket: sorted(bucket, key=len) does; it returned {result!r:.100}"
        )
    if len(result) != number:
        raise ValueError(f"sort_key got a bucket of {number} items and returned {len(result)}")
    return result
