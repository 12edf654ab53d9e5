"""What type checkers must know of several plug-ins at once, by the stubs that `penstock stubs` writes.

own_operators carries no stub. my_operators, which `penstock new` writes, carries one.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import my_operators
import own_operators

import penstock as ps

numbers = ps.iter.IterableWrapper(range(10))
assert_type(numbers.pairwise(), own_operators.Pairer[int])
assert_type(next(iter(numbers.pairwise().header(2))), tuple[int, int])
assert_type(numbers.map(str).shout(marks=2).take(1), list[str])

assert_type(numbers.every_nth(3), my_operators.EveryNth[int])
assert_type(numbers.pairwise().every_nth(2).take(1), list[tuple[int, int]])
assert_type(ps.iter.EveryNth(numbers, 2), my_operators.EveryNth[int])
assert_type(ps.iter.Pairer(numbers), own_operators.Pairer[int])

numbers.pairwse()  # type: ignore[attr-defined]
numbers.every_nth("3")  # type: ignore[arg-type]
numbers.every_nth(2).evry_nth(2)  # type: ignore[attr-defined]
