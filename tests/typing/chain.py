"""What type checkers must know of chains; they read this file, nothing runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any, assert_type

import penstock as ps
from penstock.iter import IterableWrapper
from penstock.registry import DataChunk

numbers = ps.iter.IterableWrapper(range(10))
assert_type(numbers, ps.iter.IterableWrapper[int])
assert_type(numbers, IterableWrapper[int])

chain = (
    numbers.enumerate()
    .header(5)
    .shuffle(buffer_size=3)
    .sharding_filter()
    .filter(lambda pair: pair[1] > 2)
    .map(lambda pair: f"{pair[0]}: {pair[1]}")
    .prefetch(2)
    .cycle(2)
    .batch(2)
    .unbatch()
    .batch(3)
)
for batch in chain:
    assert_type(batch, DataChunk[str])
assert_type(chain.take(2), list[DataChunk[str]])

assert_type(next(iter(numbers.flatmap(lambda number: [str(number)]))), str)
assert_type(next(iter(numbers.batch(2).flatmap())), int)
assert_type(next(iter(numbers.map(str).zip(numbers))), tuple[str, int])
assert_type(next(iter(numbers.map(str).concat(numbers))), str | int)
assert_type(next(iter(numbers.map(str, input_col=0))), Any)

# A name that nobody registered is an error. Both checkers say so where a comment ignores none.
numbers.shufle()  # type: ignore[attr-defined]
numbers.map(str).nobodys()  # type: ignore[attr-defined]
_ = ps.iter.Nobodys  # type: ignore[attr-defined]
ps.map.SequenceWrapper([1]).shufle()  # type: ignore[attr-defined]

# Methods that give no pipe.
assert_type(numbers.map(str).batch(2).build_vocab(), ps.Vocab)
numbers.build_vocab()  # type: ignore[misc]
len(numbers)

squares = ps.map.SequenceWrapper([1, 2, 3]).map(lambda number: number * number)
assert_type(squares[0], int)
assert_type(squares[1:], ps.MapDataPipe[int])
assert_type(next(iter(squares.to_iter_datapipe().batch(2))), DataChunk[int])

for item in ps.DataLoader2(chain):
    assert_type(item, DataChunk[str])

# Methods that take rows and columns, and methods that read.
rows = ps.read_csv("table.csv").limit(100).select_columns(["x", "y"]).rename_columns({"x": "z"})
train, test = rows.train_test_split(0.2, seed=1)
assert_type(rows.iter_torch_batches(batch_size=2, drop_last=True), ps.DataLoader2[Any])
assert_type(rows.iter_batches(batch_size=2, batch_format="pandas"), ps.DataLoader2[Any])
assert_type(rows.schema().names, list[str])
assert_type(rows.map_batches(len, batch_size=2, batch_format="torch", concurrency=2), ps.iter.BatchMapper)
rows.map_batches(len, batch_format="tensors")  # type: ignore[arg-type]
assert_type(rows.write_parquet("s3://bucket/table", mode="append").run(), dict[str, int])
assert_type(ps.read_videos(["a.mp4"], frames=2), ps.iter.VideoReader)
ps.read_text("a.txt", encodin="utf-8")  # type: ignore[call-arg]
assert_type(numbers.limit(3).take_all(), list[int])
assert_type(numbers.count(), int)
assert_type(numbers.show(limit=1), None)
assert_type(ps.__version__, str)


class Halves(ps.Splitter[int]):
    def __init__(self, source: ps.IterDataPipe[int]) -> None:
        self.source = source

    def result(self) -> list[ps.IterDataPipe[int]]:
        return self.branches(2)

    def branch_of(self, number: int, item: int) -> int:
        return item % 2


class Untyped(ps.Splitter):
    def result(self) -> list[ps.IterDataPipe[Any]]:
        return self.branches(2)


assert_type(Halves(numbers).result(), list[ps.IterDataPipe[int]])
