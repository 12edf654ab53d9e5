"""pack: packs of one length, boundaries kept, nothing lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere


def documents(*lengths: int) -> Any:
    """Sequences of such lengths, with the tokens 1, 2, 3, … counted through them all."""
    ends = np.cumsum([1, *lengths]).tolist()
    return IterableWrapper([[*range(start, end)] for start, end in itertools.pairwise(ends)])


def shuffled(dp: Any) -> Any:
    return dp.shuffle(buffer_size=3).set_seed(4)


LENGTHS = (3, 2, 6, 1, 0, 4, 4, 5, 1, 2)


# What comes out


def test_greedy_puts_sequences_end_to_end() -> None:
    assert list(documents(3, 6, 2).pack(4, pad_value=-1, cu_seqlens=True)) == [
        {
            "tokens": [1, 2, 3, 4],
            "document_ids": [1, 1, 1, 2],
            "position_ids": [0, 1, 2, 0],
            "cu_seqlens": [0, 3, 4],
        },
        {"tokens": [5, 6, 7, 8], "document_ids": [1, 1, 1, 1], "position_ids": [0, 1, 2, 3], "cu_seqlens": [0, 4]},
        {
            "tokens": [9, 10, 11, -1],
            "document_ids": [1, 2, 2, 0],
            "position_ids": [0, 0, 1, 0],
            "cu_seqlens": [0, 1, 3, 4],
        },
    ]


def test_best_fit_cuts_none_and_fills_the_tightest_pack() -> None:
    packs = list(documents(7, 5, 3, 5, 10, 2).pack(10, "best_fit"))
    assert [pack["tokens"] for pack in packs] == [
        [1, 2, 3, 4, 5, 6, 7, 13, 14, 15],
        [*range(8, 13), *range(16, 21)],
        [*range(21, 31)],
        [31, 32, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert packs[0]["document_ids"] == [1] * 7 + [2] * 3


def test_best_fit_keeps_so_many_packs_open_and_lets_the_oldest_go() -> None:
    packs = list(documents(6, 7, 8, 4).pack(10, "best_fit", buffer_size=2))
    assert [pack["document_ids"].count(0) for pack in packs] == [4, 3, 2, 6]
    packs = list(documents(6, 7, 8, 4).pack(10, "best_fit", buffer_size=3))
    assert [pack["document_ids"].count(0) for pack in packs] == [0, 3, 2]


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("lengths", [LENGTHS, [number * 7919 % 13 + 1 for number in range(40)], [0, 0], [7, 7], [50]])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"method": "best_fit", "overlong": "split"},
        {"method": "best_fit", "overlong": "split", "buffer_size": 1},
    ],
    ids=["greedy", "best fit", "one open pack"],
)
def test_nothing_is_lost_and_boundaries_are_true(length: int, lengths: Any, arguments: Any) -> None:
    packs = list(documents(*lengths).pack(length, cu_seqlens=True, **arguments))
    tokens = []
    for pack in packs:
        assert len(pack["tokens"]) == len(pack["document_ids"]) == len(pack["position_ids"]) == length
        bounds = pack["cu_seqlens"]
        assert bounds[0] == 0
        assert bounds[-1] == length
        for number, (start, end) in enumerate(itertools.pairwise(bounds), 1):
            sequence = pack["tokens"][start:end]
            ids = {*pack["document_ids"][start:end]}
            assert pack["position_ids"][start:end] == [*range(end - start)]
            if ids == {0}:
                assert sequence == [0] * len(sequence)
                assert end == length
                continue
            assert ids == {number}
            assert sequence == [*range(sequence[0], sequence[0] + len(sequence))]
            tokens += sequence
    assert sorted(tokens) == [*range(1, sum(lengths) + 1)]
    if not arguments:
        assert tokens == sorted(tokens)
        assert len(packs) == -(-sum(lengths) // length)


# Kinds and names


@pytest.mark.parametrize("method", ["greedy", "best_fit"])
@pytest.mark.parametrize(
    ("make", "dtype"),
    [(np.array, np.int32), (np.array, np.float32), (torch.tensor, torch.int32), (torch.tensor, torch.bfloat16)],
)
def test_arrays_and_tensors_keep_their_dtype(method: Any, make: Any, dtype: Any) -> None:
    dtypes = vars(torch if make is torch.tensor else np)
    source = IterableWrapper([make([0, 1, 2], dtype=dtype), make([0, 1], dtype=dtype)])
    (pack,) = source.pack(6, method, cu_seqlens=True)
    for name, values, expected in (
        ("tokens", [0, 1, 2, 0, 1, 0], dtype),
        ("document_ids", [1, 1, 1, 2, 2, 0], dtypes["int64"]),
        ("position_ids", [0, 1, 2, 0, 1, 0], dtypes["int64"]),
        ("cu_seqlens", [0, 3, 5, 6], dtypes["int32"]),
    ):
        made = make(values, dtype=expected)
        assert (type(pack[name]), pack[name].dtype, pack[name].tolist()) == (type(made), made.dtype, values)


def test_the_sequences_of_a_dict_are_packed_alike() -> None:
    items = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4, 5], "labels": [-100, 5]}]
    packs = list(IterableWrapper(items).pack(4, pad_value={"labels": -100}))
    assert [pack["input_ids"] for pack in packs] == [[1, 2, 3, 4], [5, 0, 0, 0]]
    assert [pack["labels"] for pack in packs] == [[-100, 2, 3, -100], [5, -100, -100, -100]]
    assert "tokens" not in packs[0]


# Sequences that are too long


def test_best_fit_splits_or_truncates_long_sequences() -> None:
    def tokens(**arguments: Any) -> list[list[int]]:
        return [pack["tokens"] for pack in documents(2, 9, 3).pack(4, "best_fit", **arguments)]

    assert tokens(overlong="split") == [[3, 4, 5, 6], [7, 8, 9, 10], [1, 2, 11, 0], [12, 13, 14, 0]]
    assert tokens(overlong="truncate") == [[3, 4, 5, 6], [1, 2, 0, 0], [12, 13, 14, 0]]
    with pytest.raises(ValueError, match="9 tokens does not fit into a pack of 4: overlong='split'") as caught:
        tokens()
    assert "on [3, 4, 5, 6" in "\n".join(caught.value.__notes__)


# Errors


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (["text"], TypeError, "pack reads sequences of tokens.* 'tokens' is 'text'"),
        ([torch.ones(2, 2)], TypeError, "pack reads sequences of tokens"),
        ([{"a": [1], "b": 2}], TypeError, "'b' is 2"),
        ([{}], ValueError, "the same length"),
        ([{"a": [1], "b": [1, 2]}], ValueError, r"must have the same length: \['a', 'b'\] have \[1, 2\]"),
        ([{"position_ids": [1]}], ValueError, "pack adds 'position_ids', which the item already has"),
        ([[[1, 2], [3]]], TypeError, r"a document as one item, and this is a batch of them: put \.rows\(\) before"),
        ([{"a": [torch.ones(2), torch.ones(3)]}], TypeError, r"put \.rows\(\) before"),
        ([pa.record_batch({"a": [[1, 2]]})], TypeError, r"put \.rows\(\) before"),
        ([[1], np.array([1])], TypeError, "the sequences of one pack must be alike"),
        ([np.array([1]), np.array([1.0])], TypeError, "int64.*float64"),
        ([{"a": [1]}, {"b": [1]}], TypeError, "must be alike, and are {'a': 'list'} and {'b': 'list'}"),
    ],
)
def test_items_that_cannot_be_packed_are_errors_that_say_why(items: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(IterableWrapper(items).pack(4))


def test_batches_are_packed_by_their_rows() -> None:
    numbers = ps.from_arrow(pa.table({"tokens": [1, 2, 3]})).to_tensors()  # each is a document of one token
    with pytest.raises(TypeError, match=r"this is a batch of them: put \.rows\(\) before"):
        list(numbers.pack(4))
    texts = ps.from_arrow(pa.table({"text": ["one two three", "four"]}))
    tokens = texts.map_batches(lambda batch: {"tokens": [[*map(len, text.split())] for text in batch["text"]]}, 64)
    [pack] = tokens.rows().pack(4)
    assert (pack["tokens"], pack["document_ids"]) == ([3, 3, 5, 4], [1, 1, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"length": 0}, ValueError, "length must be at least 1"),
        ({"length": 2.5}, TypeError, "must be a whole number"),
        ({"length": 4, "method": "first_fit"}, ValueError, "method must be 'greedy' or 'best_fit'"),
        ({"length": 4, "overlong": "drop"}, ValueError, "overlong must be"),
        ({"length": 4, "overlong": "split"}, ValueError, "overlong is for method='best_fit'"),
        ({"length": 4, "buffer_size": 0}, ValueError, "buffer_size must be at least 1"),
    ],
)
def test_wrong_arguments_are_errors_at_construction(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        documents(1).pack(**arguments)


# Resuming


CHAINS: dict[str, Callable[[], ps.IterDataPipe[Any]]] = {
    "greedy": lambda: shuffled(documents(*LENGTHS)).pack(4),
    "greedy, long ones": lambda: documents(25, 3, 11).pack(4),
    "greedy, whole packs": lambda: documents(4, 8, 4).pack(4),
    "greedy of one-to-many": lambda: IterableWrapper([3, 4]).flatmap(lambda n: [[n] * n] * n).pack(5),
    "best fit": lambda: shuffled(documents(*LENGTHS)).pack(6, "best_fit", buffer_size=2),
    "best fit, splitting": lambda: shuffled(documents(*LENGTHS, 25)).pack(3, "best_fit", overlong="split"),
    "best fit, all at the end": lambda: documents(2, 2, 2, 2).pack(3, "best_fit"),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_resumes_after_every_item_of_every_pass(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)
