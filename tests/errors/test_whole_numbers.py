"""Whole numbers, and what passes for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.pipes.iter import IterableWrapper
from penstock.registry import expect_whole

source: Any = IterableWrapper([("a", "b")])
GIVEN_WHOLE_NUMBERS = {
    "batch": lambda n: source.batch(n),
    "bucketbatch": lambda n: source.bucketbatch(2, batch_num=n),
    "cycle": lambda n: source.cycle(n),
    "dataframe": lambda n: source.dataframe(n),
    "fork": lambda n: source.fork(n),
    "fork, buffer": lambda n: source.fork(2, n),
    "groupby": lambda n: source.groupby(len, buffer_size=n),
    "groupby, group": lambda n: source.groupby(len, group_size=n),
    "groupby, least": lambda n: source.groupby(len, group_size=2, guaranteed_group_size=n),
    "header": lambda n: source.header(n),
    "pack": lambda n: source.pack(n),
    "prefetch": lambda n: source.prefetch(n),
    "random_split": lambda n: source.random_split({"a": 1}, 0, n),
    "read_from_stream": lambda n: source.read_from_stream(n),
    "readlines": lambda n: source.readlines(skip_lines=n),
    "repeat": lambda n: source.repeat(n),
    "set_length": lambda n: source.set_length(n),
    "shuffle": lambda n: source.shuffle(buffer_size=n),
    "unbatch": lambda n: source.unbatch(n),
    "unzip": lambda n: source.unzip(n),
    "zip_with_iter": lambda n: source.zip_with_iter(source, len, buffer_size=n),
}


@pytest.mark.parametrize("make", GIVEN_WHOLE_NUMBERS.values(), ids=GIVEN_WHOLE_NUMBERS)
def test_what_is_no_whole_number_or_below_the_least_is_refused_by_name(make: Any) -> None:
    for wrong in (1.5, "1", True):
        with pytest.raises(TypeError, match=rf"^\w+ must be a whole number(, or \"auto\")?, and is {wrong!r}$"):
            make(wrong)
    make(np.int64(1))
    with pytest.raises(ValueError, match=r"^\w+ must be at least -?\d(, or \"auto\")?, and is -2$"):
        make(np.int64(-2))


def test_a_word_may_pass_for_a_number() -> None:
    expect_whole("n", "auto", or_word="auto")
    with pytest.raises(TypeError, match="n must be a whole number, or \"auto\", and is 'aut'"):
        expect_whole("n", "aut", or_word="auto")
    with pytest.raises(TypeError, match="n must be a whole number, and is 'auto'"):
        expect_whole("n", "auto")
