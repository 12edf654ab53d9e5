"""A chain that takes much memory to send to each process is warned of, by name."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.runner.workers import chain_pickle
from penstock.workers import calls
from penstock.workers.captured import MUCH_TO_SEND

pytestmark = pytest.mark.timeout(120)

table = np.zeros(2**18)  # 2 MB


class Model:
    def __init__(self) -> None:
        self.weights = table.copy()

    def __call__(self, item: int) -> int:
        return item + int(self.weights[item])


def in_a_closure() -> Callable[[int], int]:
    kept = table.copy()
    return lambda item: item + int(kept[item])


def through_a_partial(item: int, rows: Any) -> int:
    return item + int(rows[item])


@pytest.fixture(autouse=True)
def one_megabyte_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MUCH_TO_SEND == 64 * 2**20
    for module in (chain_pickle, calls):
        monkeypatch.setattr(module, "MUCH_TO_SEND", 2**20)


def chain(fn: Callable[[int], Any]) -> Any:
    return ps.iter.IterableWrapper(range(8)).sharding_filter().map(fn)


def read(dp: Any, workers: int = 2, epochs: int = 1) -> list[str]:
    """Read a chain in workers, and return the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        service = ps.MultiProcessingReadingService(num_workers=workers)
        with ps.DataLoader2(dp, reading_service=service) as loader:
            for _ in range(epochs):
                assert len(list(loader)) == 8
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("fn", "part"),
    [
        (lambda item: item + int(table[item]), "table"),
        (in_a_closure(), "kept"),
        (functools.partial(through_a_partial, rows=table), "rows"),
        (lambda item, rows=table: item + int(rows[item]), "rows"),
        (Model(), "weights"),
        (Model().__call__, "weights"),
    ],
)
def test_what_a_function_captures_is_named(fn: Callable[[int], int], part: str) -> None:
    (said,) = read(chain(fn))
    assert said == (
        f"fn of map captures '{part}' (2 MB), and a copy is sent to each of 2 processes, 4 MB in all: load it from a "
        "file, in the function at its first call or in a class that map_pool makes in each process"
    )


def test_a_loader_warns_once_and_not_of_a_small_chain() -> None:
    assert len(read(chain(in_a_closure()), epochs=2)) == 1
    assert read(chain(str)) == []


def test_items_in_memory_are_to_be_put_in_files() -> None:
    (said,) = read(ps.iter.IterableWrapper([table + n for n in range(8)]).sharding_filter(), workers=1)
    assert said == (
        "iterable of IterableWrapper (16 MB), and a copy is sent to the process: put it in files, and let the chain "
        "read them"
    )


def processes_of_a_map() -> Iterator[Any]:
    numbers = ps.iter.IterableWrapper(range(2))
    yield numbers.processpool_map(in_a_closure(), workers=2), "fn of processpool_map captures 'kept'"
    make = functools.partial(Captures, table)
    yield numbers.map_pool(make, workers=2), "model of map_pool captures 'rows'"


class Captures:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __call__(self, item: int) -> int:
        return item


def test_the_processes_of_a_map_are_warned_of_once() -> None:
    for dp, said in processes_of_a_map():
        with pytest.warns(UserWarning, match=re.escape(f"{said} (2 MB), and a copy is sent to each of 2")) as caught:
            assert list(dp) == list(dp) == [0, 1]
        assert len(caught) == 1
