"""What type checkers must know of a user's own operators, by the stub that `penstock stubs own_operators` writes."""

from __future__ import annotations

from typing import assert_type

import own_operators

import penstock as ps

numbers = ps.iter.IterableWrapper(range(10))
assert_type(numbers.pairwise(), own_operators.Pairer[int])
assert_type(next(iter(numbers.pairwise().header(2))), tuple[int, int])
assert_type(numbers.map(str).shout(marks=2).take(1), list[str])
