"""Rebatch, shuffle and split column batches."""

from __future__ import annotations

import base64
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...registry import (
    IterDataPipe,
    Provenance,
    Reading,
    Tally,
    expect_whole,
    functional_datapipe,
    joined_provenance,
    own,
    provenance_of,
)
from ...state.seeds import derive_seed
from ..bases.drawing import Shuffling
from ..bases.rows.cuts_batches import CutsBatches
from ..columns.batch_rows import as_batch, joined, row_dicts, sliced, taken
from ..columns.to_arrow import rows_in


@functional_datapipe("rebatch")
class Rebatcher(CutsBatches, IterDataPipe[Any]):
    """Yield the rows of column batches in batches of `n` rows; the last may have fewer, or is dropped with `drop_last`.

    A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. The outputs are of
    the same kind; tables and data frames of pandas become RecordBatches. Rows from one batch are not copied: the output
    is a view that keeps that batch in memory. So it is cheap to read large batches and cut them here, before or after
    `to_tensors`.

    Raises TypeError for anything but a column batch, and ValueError where batches to join differ in columns or types.

    >>> import torch
    >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4])}]
    >>> dp = IterableWrapper(batches).rebatch(2)
    >>> list(dp)
    [{'id': tensor([0, 1])}, {'id': tensor([2, 3])}, {'id': tensor([4])}]
    """

    traits = ("batches",)
    buffers = ("n",)
    buffered = "rows"
    gives = "batches"
    keeps_schema = True
    resumes_from_start = False
    row: int = own(0)
    """The next row of the oldest batch still needed."""
    _joined: list[Provenance | None] = own(list, saved=False)
    """The provenance of each part of the last output, if it has several."""

    def __init__(self, source: IterDataPipe[Any], n: int, drop_last: bool = False) -> None:
        expect_whole("n", n)
        self.source = source
        self.n = n
        self.drop_last = drop_last

    def provenance(self) -> Provenance | None:
        return joined_provenance(self._joined or [self._of_rows(self.row - self.n, self.row)])

    def _of_rows(self, start: int, end: int) -> Provenance | None:
        """Return the provenance of some rows of the last batch read."""
        found = provenance_of(self.source)
        return None if found is None else found.of_rows(start, end)

    def __iter__(self) -> Iterator[Any]:
        self._begin_cutting()
        n = self.n
        items = self.read(self.source)
        start = self.row
        buffered: list[Any] = []  # parts of batches, fewer than n rows in total
        buffered_from: list[Provenance | None] = []
        rows_buffered = 0
        for number, item in items:
            batch = as_batch(item)
            rows = rows_in(batch)
            if buffered and rows_buffered + rows - start >= n:
                end = start + n - rows_buffered
                parts = [*buffered, sliced(batch, start, end)]
                self._joined = [*buffered_from, self._of_rows(start, end)]
                buffered, buffered_from, rows_buffered, start = [], [], 0, end
                self.row = end
                items.keep_from(number)
                yield joined(parts)
            if not buffered:
                end = rows - (rows - start) % n
                self.row, self._joined = start, []
                items.keep_from(number)
                for piece in self._cut(batch, start, end, n):
                    self.row += n
                    yield piece
                start = end
            if start < rows:
                buffered.append(sliced(batch, start, rows))
                buffered_from.append(self._of_rows(start, rows))
                rows_buffered += rows - start
            start = 0
        if buffered and not self.drop_last:
            self.row, self._joined = 0, buffered_from
            items.keep_from(items.pulled)
            yield joined(buffered)


@functional_datapipe("rows")
class RowReader(IterDataPipe[dict[str, Any]]):
    """Yield each row of column batches as a dict of its values by the names of the columns.

    A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. Numbers, text, lists
    and structs become Python objects, null None. Tensors and arrays with more than one dimension, and Arrow's
    fixed-shape tensors, are indexed by row.

    Raises TypeError for what is no column batch.

    >>> import torch
    >>> dp = IterableWrapper([{"id": torch.tensor([0, 1]), "text": ["a", "b"]}]).rows()
    >>> list(dp)
    [{'id': 0, 'text': 'a'}, {'id': 1, 'text': 'b'}]
    """

    traits = ("unbatches",)
    gives = "rows"
    _of_batch: Tally = own(Tally, saved=False)
    """Counts the rows yielded of the last batch read."""

    def __init__(self, source: IterDataPipe[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.outputs_of_each(self._rows_of, self.source)

    def _rows_of(self, item: Any) -> Iterator[dict[str, Any]]:
        self._of_batch = Tally()
        return self._of_batch.follow(row_dicts(as_batch(item)))

    def provenance(self) -> Provenance | None:
        found, rows = provenance_of(self.source), self._of_batch.items
        return None if found is None else found.of_rows(rows - 1, rows)


def _bitmap(numbers: NDArray[np.int64]) -> str:
    """Return sorted numbers as text: a bitmap, since about half of the latest ones are set."""
    bits = np.zeros(numbers[-1] + 1 if numbers.size else 0, bool)
    bits[numbers] = True
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes(), 1)).decode()


def _numbers_of(text: str) -> NDArray[np.int64]:
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.flatnonzero(np.unpackbits(bits))


@functional_datapipe("shuffle_rows")
class RowShuffler(Shuffling[Any]):
    """Yield the rows of column batches in a random order, in batches as large as those that come in.

    Batches are buffered up to `buffer_size` rows, or more where the last batch is large. Half of the rows are drawn and
    yielded, and the buffer is refilled. Each half is drawn uniformly, except that it includes every row that stayed
    twice. A buffer as large as the stream shuffles it fully. A column batch is a `pyarrow.RecordBatch`, or a
    dict of tensors, arrays or lists of one length. The outputs are of the same kind; their size is that of the first
    batch read in a round.

    A state has the numbers of the rows in the buffer, not the rows. Resuming reads them again, and the rows between:
    up to one and a half times `buffer_size`.

    Raises TypeError for anything but a column batch, and ValueError where batches differ in columns or types.

    >>> import torch
    >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4, 5])}]
    >>> dp = IterableWrapper(batches).shuffle_rows(6).set_seed(1)
    >>> [len(batch["id"]) for batch in dp], sorted(torch.cat([batch["id"] for batch in dp]).tolist())
    ([3, 3], [0, 1, 2, 3, 4, 5])
    """

    # Each round fills the buffer and empties half of it. A state has the rows that a round began with, and the number
    # of batches it has yielded; refilled, the buffer has the same order. Resuming reads again from the oldest of these
    # rows. Rows leave in the third round at the latest: some would otherwise stay for ten and more.

    traits = ("shuffles",)
    buffers = ("buffer_size",)
    buffered = "rows"
    gives = "batches"
    keeps_schema = True
    resumes_from_start = False
    round: int = own(0)
    """How many rounds are over."""
    given: int = own(0)
    """How many batches this round has yielded."""
    size: int = own(0)
    """The rows per batch of the last round."""
    batches: int = own(0)
    """How many batches, from the oldest with a row in the buffer, had been pulled when the round began."""
    kept: NDArray[np.int64] = own(lambda: np.empty(0, np.int64), save=_bitmap)
    """The sorted numbers of the rows that the round began with, counted from the first of these batches."""
    late: int = own(0)
    """How many of these rows, the first ones, have stayed for two rounds."""

    def __init__(self, source: IterDataPipe[Any], buffer_size: int) -> None:
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self.is_random:
            yield from self.source
            return
        items = self.read(self.source)
        buffer, sizes = self._read_again(items)
        ended = False
        while not ended:
            size, buffered, first_new = self.size, len(self.kept), sum(sizes)
            for _, item in items:
                batch = as_batch(item)
                rows = rows_in(batch)
                sizes.append(rows)
                if rows:
                    size = rows if buffered == len(self.kept) else size
                    buffer.append(batch)
                    buffered += rows
                if buffered >= self.buffer_size:
                    break
            else:
                ended = True
            items.keep_from(items.pulled - len(sizes))
            if not buffered:
                return
            whole, buffer = joined(buffer), []
            batches = -(-buffered // size) if ended else max((buffered - self.buffer_size // 2) // size, 1)
            order, staying = self._drawn(buffered, batches * size)
            for given in range(self.given, batches):
                self.given = given + 1
                if self.given == batches:
                    numbers = np.concatenate([self.kept, np.arange(first_new, sum(sizes))])
                    self._begin_round(numbers[staying], size, sizes, first_new)
                    items.keep_from(items.pulled - len(sizes))
                yield taken(whole, order[given * size : (given + 1) * size])
            if staying.size:
                buffer = [taken(whole, staying)]

    def _read_again(self, items: Reading[Any]) -> tuple[list[Any], deque[int]]:
        """Return the kept rows, and the sizes of the batches pulled since the oldest of them."""
        if isinstance(self.kept, str):
            self.kept = _numbers_of(self.kept)
        buffer, sizes, row = list[Any](), deque[int](), 0
        for _, item in islice(items, self.batches):
            batch = as_batch(item)
            first, row = row, row + rows_in(batch)
            sizes.append(row - first)
            low, high = np.searchsorted(self.kept, (first, row)).tolist()
            if low < high:
                buffer.append(taken(batch, self.kept[low:high] - first))
        if self.kept.size and row <= self.kept[-1]:
            raise RuntimeError("the source gave fewer rows than when the state was taken")
        return buffer, sizes

    def _drawn(self, buffered: int, leaving: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the rows that leave, in random order, and of those that stay, sorted."""
        generator = np.random.default_rng(derive_seed(self.pass_seed, self.round))
        late = min(self.late, leaving)
        stays = np.zeros(buffered, bool)
        stays[late + generator.choice(buffered - late, max(buffered - leaving, 0), replace=False, shuffle=False)] = True
        return generator.permutation(np.flatnonzero(~stays)), np.flatnonzero(stays)

    def _begin_round(self, kept: NDArray[np.int64], size: int, sizes: deque[int], first_new: int) -> None:
        late = int(np.searchsorted(kept, first_new))
        oldest, dropped = kept[0] if kept.size else sum(sizes), 0
        while sizes and dropped + sizes[0] <= oldest:
            dropped += sizes.popleft()
        self.kept, self.late, self.size, self.batches = kept - dropped, late, size, len(sizes)
        self.round, self.given = self.round + 1, 0
