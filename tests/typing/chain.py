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
assert_type(next(iter(squares.to_iter_datapipe().batch(2))), DataChunk[int])

for item in ps.DataLoader2(chain):
    assert_type(item, DataChunk[str])
