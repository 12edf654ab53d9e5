"""A resumed pass reads none of the items that its operator is done with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import ALWAYS, passed_on

FILES = ["README", "1.png", "1.cls", "1.seg.png", "._2.png", "v1.0/2.png", "LICENSE", "1.png", "NOTES"]


def batch(number: int) -> Any:
    return pa.record_batch({"id": range(4 * number, 4 * number + 4)})


CASES: dict[str, tuple[int, Callable[[Any], Any], int, list[int]]] = {
    "flatmap": (6, lambda dp: dp.flatmap(lambda n: [n] * n), 8, [4, 5]),
    "header": (9, lambda dp: dp.header(5), 2, [2, 3, 4]),
    "repeat": (4, lambda dp: dp.repeat(2), 3, [1, 2, 3]),
    "bucketbatch": (12, lambda dp: dp.bucketbatch(2, batch_num=2).set_seed(1), 3, [*range(4, 12)]),
    "rebatch": (8, lambda dp: dp.map(batch).rebatch(3).map(lambda rows: rows["id"].to_pylist()), 8, [5, 6, 7]),
    "webdataset, first": (9, lambda dp: dp.map(lambda n: (FILES[n], b"")).webdataset(), 1, [5, 6, 7, 8]),
    "webdataset, second": (9, lambda dp: dp.map(lambda n: (FILES[n], b"")).webdataset(), 2, [7, 8]),
}
"""How many numbers there are, the step, how many items are read before, and which numbers are read after."""


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_pass_reads_no_item_that_is_done_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", ALWAYS)
    length, step, taken, left = CASES[name]
    read: list[int] = []

    def make() -> Any:
        return step(IterableWrapper(range(length)).map(lambda number: read.append(number) or number))

    expected = list(make())
    dp, resumed = make(), make()
    iterator = iter(dp)
    assert list(islice(iterator, taken)) == expected[:taken]
    resumed.load_state_dict(passed_on(dp))
    read.clear()
    assert list(resumed) == expected[taken:]
    assert read == left
