"""What a picture says of items is what annotations declare and data in memory shows; nothing runs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch

import penstock as ps
from penstock.registry import DataChunk
from penstock.views.chain_info import ChainInfo, StepInfo
from penstock.views.pictures.items import item_of, type_in_words

T = TypeVar("T")


def item(dp: Any) -> str:
    chain = ChainInfo(dp)
    items: dict[StepInfo, Any] = {}
    for step in chain.steps:
        items[step] = item_of(step, [items[source] for source in step.sources])
    return type_in_words(items[chain.end])


def endless() -> list[Any]:
    """A list that contains itself."""
    items: list[Any] = []
    items.append(items)
    return items


def wrapped(*items: Any) -> Any:
    return ps.iter.IterableWrapper([*items])


def decode(content: bytes) -> torch.Tensor:
    raise AssertionError("it was called")


def unknown(x):  # type: ignore[no-untyped-def]
    raise AssertionError("it was called")


def named_wrongly(x: Any) -> Missing:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError("it was called")


async def later(x: Any) -> list[int]:
    raise AssertionError("it was called")


class Without(ps.IterDataPipe[int]):
    """An operator without a constructor."""

    def __iter__(self) -> Iterator[int]:
        yield 1


class Windows(ps.IterDataPipe[tuple[T, ...]]):
    """An operator of a user's."""

    def __init__(self, source: ps.IterDataPipe[T], size: int) -> None:
        self.source, self.size = source, size

    def __iter__(self) -> Iterator[tuple[T, ...]]:
        yield from ()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: wrapped(1, 2), "int"),
        (lambda: wrapped(), ""),
        (lambda: ps.iter.IterableWrapper("ab"), "str"),
        (lambda: ps.iter.IterableWrapper(iter([1])), ""),
        (lambda: wrapped(("a", [1])), "tuple[str, list[int]]"),
        (lambda: wrapped({"a": 1, "b": "c"}), "dict[str, Any]"),
        (lambda: wrapped(b"").map(decode), "Tensor"),
        (lambda: wrapped(b"").map(decode).shuffle().prefetch().sharding_filter(), "Tensor"),
        (lambda: wrapped(b"").map(decode, input_col=0), ""),
        (lambda: wrapped(1).map(lambda x: x), ""),
        (lambda: wrapped(1).map(unknown).batch(2), "list"),
        (lambda: wrapped(1).map(named_wrongly), ""),
        (lambda: wrapped(1).map(str).enumerate().batch(4), "list[tuple[int, str]]"),
        (lambda: wrapped(1).zip(wrapped("a")), "tuple[int, str]"),
        (lambda: wrapped(1).concat(wrapped(2)), "int"),
        (lambda: wrapped(1).mux(wrapped("a")), ""),
        (lambda: wrapped(1).concat(wrapped(1).map(unknown)), ""),
        (lambda: wrapped(1).fork(2)[1], "int"),
        (lambda: wrapped("a.txt").open_files().read_from_stream(), "tuple[str, Any]"),
        (lambda: wrapped("a").read_parquet().rebatch(3), "RecordBatch"),
        (Without, "int"),
        (lambda: wrapped(1).map(later), ""),
        (lambda: wrapped(1).async_map_batches(later, batch_size=2), ""),
        (lambda: wrapped(endless()), "list[list[list[list]]]"),
        (lambda: wrapped(tuple(range(100))), "tuple"),
        (lambda: Windows(wrapped("a"), 3), "tuple[str, ...]"),
        (lambda: ps.map.SequenceWrapper([1.5]).map(decode).to_iter_datapipe(), "Tensor"),
        (lambda: ps.map.SequenceWrapper({"a": 1}), ""),
    ],
)
def test_the_item_of_a_step_is_known_without_reading(make: Callable[[], Any], expected: str) -> None:
    assert item(make()) == expected


@pytest.mark.timeout(10)
def test_a_type_of_too_many_parts_is_left_out() -> None:
    dp = wrapped(1)
    for _ in range(60):
        dp = dp.zip(dp)
    assert len(item(dp.batch(2))) <= 60


@pytest.mark.parametrize(
    ("kind", "words"),
    [(DataChunk, "list"), (DataChunk[Any], "list"), (dict[str, DataChunk[int]], "dict[str, list[int]]")],
)
def test_a_chunk_of_items_is_called_a_list(kind: Any, words: str) -> None:
    assert type_in_words(kind) == words
