"""Column batches, which are Arrow's or dicts of columns, made into others: larger, smaller, of other rows, and rows."""

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
    Node,
    Provenance,
    Tally,
    Trail,
    expect_whole,
    functional_datapipe,
    joined_provenance,
    provenance_of,
)
from ...registry.seeds import derive_seed
from ..arrow_columns import rows_in
from ..batch_rows import as_batch, joined, pieces, row_dicts, sliced, taken
from ..drawing import Shuffling


@functional_datapipe("rebatch")
class Rebatcher(IterDataPipe[Any]):
    """Yield the rows of column batches in batches of `n` rows; the last may have fewer, or is dropped with `drop_last`.

    A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. What comes out is of
    the same kind; of tables and of data frames of pandas, RecordBatches. Rows that lie in one batch are not
    copied: what is handed out is a view, and keeps that batch. So it is cheap to read large batches, and to make small
    ones of them here, after `to_tensors`.

    Raises TypeError for what is no column batch, and ValueError where batches that are to be joined have not the same
    columns of the same types.

    >>> import torch
    >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4])}]
    >>> dp = IterableWrapper(batches).rebatch(2)
    >>> list(dp)
    [{'id': tensor([0, 1])}, {'id': tensor([2, 3])}, {'id': tensor([4])}]
    """

    gives = "batches"
    keeps_schema = True
    holds_items = False
    transient = ("_trail", "_joined")

    def __init__(self, source: IterDataPipe[Any], n: int, drop_last: bool = False) -> None:
        expect_whole("n", n)
        self.source = source
        self.n = n
        self.drop_last = drop_last

    # A state goes back to before the batch that has the next row, and tells how many of its rows are done with.

    def reset(self) -> None:
        self._trail: Trail[Any] | None = None
        self._item = self._row = 0  # where the next row is
        self._joined: list[Provenance | None] = []  # of the parts of the batch that was handed out last

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        return {"batches": skip, "row": self._row}, [node]

    def get_state(self) -> dict[str, Any]:
        return {"batches": 0, "row": 0}

    def set_state(self, state: dict[str, Any]) -> None:
        self._item, self._row = state["batches"], state["row"]

    def provenance(self) -> Provenance | None:
        return joined_provenance(self._joined or [self._of_rows(self._row - self.n, self._row)])

    def _of_rows(self, start: int, end: int) -> Provenance | None:
        """Return the provenance of some rows of the batch that was read last."""
        found = provenance_of(self.source)
        return None if found is None else found.of_rows(start, end)

    def __iter__(self) -> Iterator[Any]:
        n = self.n
        self._trail = Trail(self.source, lambda: self._item)
        start = self._row
        held: list[Any] = []  # parts of batches, which together have fewer than n rows
        held_from: list[Provenance | None] = []
        rows_held = 0
        for number, item in islice(enumerate(self._trail), self._item, None):
            batch = as_batch(item)
            rows = rows_in(batch)
            if held and rows_held + rows - start >= n:
                end = start + n - rows_held
                parts = [*held, sliced(batch, start, end)]
                self._joined = [*held_from, self._of_rows(start, end)]
                held, held_from, rows_held, start = [], [], 0, end
                self._item, self._row = number, end
                yield joined(parts)
            if not held:
                end = rows - (rows - start) % n
                self._item, self._row, self._joined = number, start, []
                for piece in pieces(batch, start, end, n):
                    self._row += n
                    yield piece
                start = end
            if start < rows:
                held.append(sliced(batch, start, rows))
                held_from.append(self._of_rows(start, rows))
                rows_held += rows - start
            elif not held:
                self._item, self._row = number + 1, 0
            start = 0
        if held and not self.drop_last:
            self._item, self._row, self._joined = self._trail.pulled, 0, held_from
            yield joined(held)


@functional_datapipe("rows")
class RowReader(IterDataPipe[dict[str, Any]]):
    """Yield each row of column batches as a dict of its values by the names of the columns.

    A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. Numbers, text, lists
    and structs become Python's, null None; of tensors and arrays with more than one dimension, and of Arrow's
    fixed-shape tensors, the row gets its part.

    Raises TypeError for what is no column batch.

    >>> import torch
    >>> dp = IterableWrapper([{"id": torch.tensor([0, 1]), "text": ["a", "b"]}]).rows()
    >>> list(dp)
    [{'id': 0, 'text': 'a'}, {'id': 1, 'text': 'b'}]
    """

    gives = "rows"
    transient = ("_read",)

    def __init__(self, source: IterDataPipe[Any]) -> None:
        self.source = source

    def reset(self) -> None:
        self._read = Tally()  # counts the rows of the batch that were handed out

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.outputs_of_each(self._rows_of, self.source)

    def _rows_of(self, item: Any) -> Iterator[dict[str, Any]]:
        self._read = Tally()
        return self._read.follow(row_dicts(as_batch(item)))

    def provenance(self) -> Provenance | None:
        found, rows = provenance_of(self.source), self._read.items
        return None if found is None else found.of_rows(rows - 1, rows)


@functional_datapipe("shuffle_rows")
class RowShuffler(Shuffling[Any]):
    """Yield the rows of column batches in a random order, in batches as large as those that come in.

    Batches are held until they have `buffer_rows` rows, or more where the last of them is large. Of these rows half are
    drawn, uniformly, and handed out; the others stay, and so many are read again. A buffer that holds the whole stream
    shuffles it fully. A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length;
    what comes out is of the same kind, and its size is that of the first batch read for it.

    A state holds no rows, only which ones are in the buffer: on resuming they are read again.

    Raises TypeError for what is no column batch, and ValueError where the batches have not the same columns of the same
    types.

    >>> import torch
    >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4, 5])}]
    >>> dp = IterableWrapper(batches).shuffle_rows(6).set_seed(1)
    >>> [len(batch["id"]) for batch in dp], sorted(torch.cat([batch["id"] for batch in dp]).tolist())
    ([3, 3], [0, 1, 2, 3, 4, 5])
    """

    gives = "batches"
    keeps_schema = True
    holds_items = False
    transient = (*Shuffling.transient, "_trail", "_kept")

    def __init__(self, source: IterDataPipe[Any], buffer_rows: int) -> None:
        expect_whole("buffer_rows", buffer_rows)
        self.source = source
        self.buffer_rows = buffer_rows

    # The buffer is filled and half emptied in rounds. A state tells which rows a round began with, how many batches had
    # been pulled by then, and how many it has given: filled as before, the buffer has the order that it had.

    def reset(self) -> None:
        super().reset()
        self._trail: Trail[Any] | None = None
        self._round = self._given = self._size = self._pulled = 0
        self._oldest_item = self._first_row = 0  # the oldest batch with rows in the buffer, and its first row's number
        self._kept = np.empty(0, np.int64)  # the numbers of the rows that the round began with, in order

    def get_state(self) -> dict[str, Any]:
        return {
            **super().get_state(),
            "round": self._round,
            "given": self._given,
            "size": self._size,
            "skip": 0,
            "batches": self._pulled - self._oldest_item,
            "kept": _packed(self._kept - self._first_row),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._round, self._given, self._size = state["round"], state["given"], state["size"]
        self._oldest_item = state["skip"]
        self._pulled = state["skip"] + state["batches"]
        self._kept = _unpacked(state["kept"])

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        return {**self.get_state(), "skip": skip}, [node]

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.source
            return
        self._trail = Trail(self.source, lambda: self._oldest_item)
        numbered = enumerate(self._trail)
        buffer, firsts, row = self._read_again(numbered)
        ended = False
        while not ended:
            size, held, first_new = self._size, len(self._kept), row
            for number, item in numbered:
                batch = as_batch(item)
                rows = rows_in(batch)
                if not rows:
                    continue
                if row == first_new:
                    size = rows
                firsts.append((number, row))
                buffer.append(batch)
                row += rows
                held += rows
                if held >= self.buffer_rows:
                    break
            else:
                ended = True
            if not held:
                return
            whole, buffer = joined(buffer), []
            order = np.random.default_rng(derive_seed(self.pass_seed, self._round)).permutation(held)
            batches = -(-held // size) if ended else max((held - self.buffer_rows // 2) // size, 1)
            for given in range(self._given, batches):
                self._given = given + 1
                yield taken(whole, order[given * size : self._given * size])
            staying = np.sort(order[batches * size :])
            if staying.size:
                buffer = [taken(whole, staying)]
            numbers = np.concatenate([self._kept, np.arange(first_new, row)])
            self._begin_round(numbers[staying], size, row, firsts)

    def _read_again(self, numbered: Iterator[tuple[int, Any]]) -> tuple[list[Any], deque[tuple[int, int]], int]:
        """Return the rows that were kept, the batches that had them, with the first row of each, and the next row."""
        buffer, firsts, row = [], deque[tuple[int, int]](), 0
        for number, item in islice(numbered, self._oldest_item, self._pulled):
            batch = as_batch(item)
            first, row = row, row + rows_in(batch)
            firsts.append((number, first))
            low, high = np.searchsorted(self._kept, (first, row)).tolist()
            if low < high:
                buffer.append(taken(batch, self._kept[low:high] - first))
        if self._kept.size and row <= self._kept[-1]:
            raise RuntimeError("the source gave fewer rows than when the state was taken")
        return buffer, firsts, row

    def _begin_round(self, kept: NDArray[np.int64], size: int, row: int, firsts: deque[tuple[int, int]]) -> None:
        pulled = self._trail.pulled if self._trail is not None else 0
        oldest = int(kept[0]) if kept.size else row
        firsts.append((pulled, row))
        while len(firsts) > 1 and firsts[1][1] <= oldest:
            firsts.popleft()
        (self._oldest_item, self._first_row), self._pulled = firsts[0], pulled
        firsts.pop()
        self._kept, self._size, self._given = kept, size, 0
        self._round += 1


def _packed(numbers: NDArray[np.int64]) -> str:
    """Numbers in order, as text: a bit for each that there could be, since half of the last ones are there."""
    bits = np.zeros(numbers[-1] + 1 if numbers.size else 0, bool)
    bits[numbers] = True
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes(), 1)).decode()


def _unpacked(text: str) -> NDArray[np.int64]:
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.flatnonzero(np.unpackbits(bits))
