"""A chain shows itself the way its user wrote it."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps


class Thing:
    def __call__(self, item: Any) -> Any:
        return item


class Chosen(ps.IterDataPipe):
    """Takes its arguments in every way."""

    def __init__(self, source: Any, first: Any, second: Any = 2, *rest: Any, last: Any = None, **more: Any) -> None:
        self.source, self.first, self.second = source, first, second
        self.rest, self.last, self.more = rest, last, more

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


def double(x: int) -> int:
    return 2 * x


def ab() -> Any:
    return ps.iter.IterableWrapper("ab")


def local_function() -> Callable[[int], int]:
    def inner(x: int) -> int:
        return x

    return inner


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (ab, "IterableWrapper('ab')"),
        (lambda: ab().map(double).filter(lambda x: x), "IterableWrapper('ab').map(double).filter(<lambda>)"),
        (lambda: ab().map(str.upper).map(np.mean), "IterableWrapper('ab').map(str.upper).map(mean)"),
        (lambda: ab().map(local_function()), "IterableWrapper('ab').map(inner)"),
        (lambda: ab().map(Thing()), f"IterableWrapper('ab').map(<{__name__}.Thing object>)"),
        (lambda: ab().map(functools.partial(int, base=2)), "IterableWrapper('ab').map(partial(int, base=2))"),
        (lambda: ab().shuffle(buffer_size=5), "IterableWrapper('ab').shuffle(buffer_size=5)"),
        (lambda: ab().zip(ab().map(str)), "IterableWrapper('ab').zip(IterableWrapper('ab').map(str))"),
        (lambda: Chosen(ab(), 1, 3, last=5, x=6), "Chosen(IterableWrapper('ab'), 1, second=3, last=5, x=6)"),
        (lambda: Chosen(ab(), 1, last=5).map(str), "Chosen(IterableWrapper('ab'), 1, last=5).map(str)"),
        (lambda: ps.map.SequenceWrapper("ab").to_iter_datapipe(), "SequenceWrapper('ab').to_iter_datapipe()"),
        (
            lambda: TorchIterableWrapper("ab").map(double).enumerate(),
            "MapperIterDataPipe(IterableWrapperIterDataPipe('ab'), double).enumerate()",
        ),
    ],
)
def test_a_chain_is_shown_as_it_was_written(make: Callable[[], Any], shown: str) -> None:
    assert repr(make()) == shown
    assert str(make()).replace("\n", "").replace("    ", "").replace(",)", ")") == shown


def test_a_large_or_nameless_argument_is_cut_short_on_one_line() -> None:
    for items in ("x" * 10_000, np.zeros((100, 100)), [Thing()] * 99, b"x" * 10_000):
        shown = repr(ps.iter.IterableWrapper(items))
        assert shown.startswith("IterableWrapper(")
        assert len(shown) < 400
        assert "\n" not in shown
        assert " at 0x" not in shown


ROWS = [{"id": n, "text": "some text " * 9, "label": n % 3, "more": [n]} for n in range(1000)]


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([*range(10_000)], "[0, 1, 2, 3, 4, 5, … 10,000 in all]"),
        (
            [f"https://example.com/data/train/shard-{n:05}.tar" for n in range(10_000)],
            "['https://example.com/data/train/shard-00000.tar', … 10,000 in all]",
        ),
        (ROWS, "[{'id': 0, 'text': 'some text some…xt some text ', 'label': 0, 'more': [0]}, … 1,000 in all]"),
        ([{"id": n} for n in range(3)], "[{'id': 0}, {'id': 1}, {'id': 2}]"),
        (dict.fromkeys("abcdefgh", 0), "{'a': 0, 'b': 0, 'c': 0, 'd': 0, 'e': 0, 'f': 0, … 8 in all}"),
        ([torch.zeros(50, 50)] * 9, "[Tensor of shape (50, 50), torch.float32, … 9 in all]"),
        (pyarrow.table({"x": [1], "y": [2]}), "Table of 1 rows: x, y"),
        ([datetime.datetime(2024, 1, 2, 3, 4)], "[2024-01-02T03:04:00]"),
        ([{"token": "HIDDEN"}], "[{'token': '…'}]"),
    ],
)
@pytest.mark.filterwarnings("ignore:IterableWrapper yields the columns of a table")
def test_data_in_a_source_is_shown_in_short(items: Any, shown: str) -> None:
    assert repr(ps.iter.IterableWrapper(items)) == f"IterableWrapper({shown})"


def test_the_same_options_are_shown_at_the_first_step_only() -> None:
    options = {"endpoint_url": "http://localhost:9000"}
    dp = ab().list_files_by_fsspec(storage_options=options).open_files_by_fsspec(storage_options=options)
    shown = [
        "IterableWrapper('ab')",
        "    .list_files_by_fsspec(storage_options=Options(endpoint_url))",
        "    .open_files_by_fsspec(storage_options=…)",
    ]
    assert str(dp).splitlines() == shown
    other = dp.read_from_stream().save_by_fsspec(storage_options={"endpoint_url": "http://localhost:9001"})
    assert "save_by_fsspec(storage_options=Options(endpoint_url))" in str(other)
    assert dp.visualize().mermaid.count("Options") == 1
    assert dp.visualize().svg.count("Options(endpoint_url)") == 3  # all of it where one points


def test_a_chain_with_branches_is_printed_as_a_tree() -> None:
    first, second = ab().map(double).fork(2)
    other = ab().zip_with_iter(ab().map(str), key_fn=double)
    assert str(first.zip(second.filter(double).map(str), other).batch(3)).splitlines() == [
        "IterableWrapper('ab')",
        "    .map(double)",
        "    .fork(2)[0]",
        "    .zip(",
        "        ….fork(2)[1]",
        "            .filter(double)",
        "            .map(str),",
        "        IterableWrapper('ab')",
        "            .zip_with_iter(",
        "                IterableWrapper('ab')",
        "                    .map(str),",
        "                double,",
        "            ),",
        "    )",
        "    .batch(3)",
    ]


def test_a_tree_has_the_sources_of_each_step_below_it() -> None:
    assert str(ab().zip(ab(), ab())) == "IterableWrapper('ab')\n    .zip(IterableWrapper('ab'), IterableWrapper('ab'))"
    assert str(Chosen(ab().map(str), ab().map(double), 3)).splitlines() == [
        "Chosen(",
        "    IterableWrapper('ab')",
        "        .map(str),",
        "    IterableWrapper('ab')",
        "        .map(double),",
        "    3,",
        ")",
    ]


@pytest.mark.timeout(10)
def test_a_source_that_is_read_twice_is_shown_once() -> None:
    dp = ab().map(double)
    assert repr(dp.zip(dp)) == "IterableWrapper('ab').map(double).zip(….map(double))"
    for _ in range(60):
        dp = dp.zip(dp)
    assert len(str(dp).splitlines()) < 400


def test_secrets_are_not_shown():
    class Service(ps.IterDataPipe):
        def __init__(self, token, url, headers=None, **options):
            self.token, self.url, self.headers, self.options = token, url, headers, options

    dp = Service(
        "HIDDEN", "https://me:HIDDEN@host/?sig=HIDDEN", {"Authorization": "HIDDEN"}, api_key="HIDDEN", retries=3
    )
    dp = dp.map(functools.partial(sorted, password="HIDDEN", key=None))
    for text in (str(dp), dp.visualize().svg, dp.visualize().mermaid, str(dp.explain())):
        assert "HIDDEN" not in text
    assert "Service(token=…, url='https://…@host/?…', headers={'Authorization': '…'}, api_key=…, retries=3)" in str(dp)
    assert ".map(partial(sorted, password=…, key=None))" in str(dp)
