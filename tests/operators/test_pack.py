"""pack: packs of one length, boundaries kept, nothing lost."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper


def documents(*lengths: int) -> Any:
    """Sequences of such lengths, with the tokens 1, 2, 3, … counted through them all."""
    ends = np.cumsum([1, *lengths]).tolist()
    return IterableWrapper([[*range(start, end)] for start, end in itertools.pairwise(ends)])


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


@pytest.mark.parametrize(
    ("lengths", "kept"), [((3, 6, 2), [[1, 2, 3, 4], [5, 6, 7, 8]]), ((4, 4), [[1, 2, 3, 4], [5, 6, 7, 8]]), ((3,), [])]
)
def test_drop_last_drops_the_pack_with_padding(lengths: tuple[int, ...], kept: list[list[int]]) -> None:
    assert [pack["tokens"] for pack in documents(*lengths).pack(4, drop_last=True)] == kept


def test_best_fit_cuts_none_and_fills_the_tightest_pack() -> None:
    packs = list(documents(7, 5, 3, 5, 10, 2).pack(10, "best_fit"))
    assert [pack["tokens"] for pack in packs] == [
        [1, 2, 3, 4, 5, 6, 7, 13, 14, 15],
        [*range(8, 13), *range(16, 21)],
        [*range(21, 31)],
        [31, 32, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert packs[0]["document_ids"] == [1] * 7 + [2] * 3


def test_first_fit_cuts_none_and_fills_the_oldest_pack_with_room() -> None:
    def tokens(method: Any) -> list[list[int]]:
        return [pack["tokens"] for pack in documents(3, 4, 2, 1, 5, 1).pack(6, method, pad_value=-1)]

    assert tokens("first_fit") == [
        [1, 2, 3, 8, 9, 10],
        [4, 5, 6, 7, 16, -1],
        [11, 12, 13, 14, 15, -1],
    ]
    assert tokens("best_fit") == [
        [4, 5, 6, 7, 8, 9],
        [11, 12, 13, 14, 15, 16],
        [1, 2, 3, 10, -1, -1],
    ]


@pytest.mark.parametrize("method", ["first_fit", "best_fit"])
def test_so_many_packs_are_open_and_the_oldest_goes(method: Any) -> None:
    packs = list(documents(6, 7, 8, 4).pack(10, method, buffer_size=2))
    assert [pack["document_ids"].count(0) for pack in packs] == [4, 3, 2, 6]
    packs = list(documents(6, 7, 8, 4).pack(10, method, buffer_size=3))
    assert [pack["document_ids"].count(0) for pack in packs] == [0, 3, 2]


@pytest.mark.parametrize("length", [1, 7, 64])
@pytest.mark.parametrize("lengths", [LENGTHS, [number * 7919 % 13 + 1 for number in range(40)], [0, 0], [7, 7], [50]])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"method": "best_fit", "overlong": "split"},
        {"method": "best_fit", "overlong": "split", "buffer_size": 1},
        {"method": "first_fit", "overlong": "split"},
    ],
    ids=["greedy", "best fit", "one open pack", "first fit"],
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


@pytest.mark.parametrize("method", ["greedy", "first_fit", "best_fit"])
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


# Sequences with a length each


def translations(*sizes: tuple[int, int]) -> list[dict[str, list[int]]]:
    """Items of two sequences of such lengths: the tokens 10, 11, … in the first, 20, 21, … in the second, and so on."""
    return [
        {"inputs": [*range(20 * n, 20 * n + long)], "targets": [*range(20 * n + 10, 20 * n + 10 + short)]}
        for n, (long, short) in enumerate(sizes, 1)
    ]


def test_a_pack_takes_an_item_whose_sequences_all_fit() -> None:
    items = translations((3, 2), (4, 1), (2, 2), (1, 1))
    packs = list(IterableWrapper(items).pack({"inputs": 8, "targets": 4}, "first_fit", pad_value=-1))
    assert packs == [
        {
            "inputs": [20, 21, 22, 40, 41, 42, 43, 80],
            "inputs_document_ids": [1, 1, 1, 2, 2, 2, 2, 3],
            "inputs_position_ids": [0, 1, 2, 0, 1, 2, 3, 0],
            "targets": [30, 31, 50, 90],
            "targets_document_ids": [1, 1, 2, 3],
            "targets_position_ids": [0, 1, 0, 0],
        },
        {
            "inputs": [60, 61, -1, -1, -1, -1, -1, -1],
            "inputs_document_ids": [1, 1, 0, 0, 0, 0, 0, 0],
            "inputs_position_ids": [0, 1, 0, 1, 2, 3, 4, 5],
            "targets": [70, 71, -1, -1],
            "targets_document_ids": [1, 1, 0, 0],
            "targets_position_ids": [0, 1, 0, 1],
        },
    ]


def test_a_pack_is_full_once_one_of_its_sequences_is() -> None:
    source = IterableWrapper(translations((2, 4), (2, 1), (2, 0), (0, 2), (0, 0)))
    packs = list(source.pack({"inputs": 8, "targets": 4}, "first_fit"))
    assert [pack["inputs"] for pack in packs] == [[20, 21, *[0] * 6], [40, 41, 60, 61, 0, 0, 0, 0]]
    assert packs[1]["targets"] == [50, 90, 91, 0]
    # Each item has one number in all sequences, also where it has no token.
    assert packs[1]["inputs_document_ids"] == [1, 1, 2, 2, 0, 0, 0, 0]
    assert packs[1]["targets_document_ids"] == [1, 3, 3, 0]


def test_best_fit_compares_the_sum_of_the_room() -> None:
    def targets(method: Any) -> list[list[int]]:
        source = IterableWrapper(translations((6, 1), (4, 4), (2, 1)))
        return [pack["targets"] for pack in source.pack({"inputs": 8, "targets": 5}, method)]

    # The last item fits into both packs, which have room for (2, 4) and (4, 1).
    assert targets("best_fit") == [[50, 51, 52, 53, 70], [30, 0, 0, 0, 0]]
    assert targets("first_fit") == [[30, 70, 0, 0, 0], [50, 51, 52, 53, 0]]


@pytest.mark.parametrize("method", ["first_fit", "best_fit"])
@pytest.mark.parametrize("buffer_size", [1, 3, 100])
@pytest.mark.parametrize("make", [list, np.array, torch.tensor], ids=["lists", "arrays", "tensors"])
def test_no_item_is_lost_where_each_sequence_has_a_length(method: Any, buffer_size: int, make: Any) -> None:
    items = translations(*[(number * 7919 % 7 + 1, number * 104729 % 5 + 1) for number in range(30)])
    source = IterableWrapper([{name: make(tokens) for name, tokens in item.items()} for item in items])
    found = []
    for pack in source.pack({"inputs": 8, "targets": 6}, method, buffer_size=buffer_size, cu_seqlens=True):
        kind = list if make is list else type(make([1]))
        assert {type(part) for part in pack.values()} == {kind}
        assert (len(pack["inputs"]), len(pack["targets"])) == (8, 6)
        last = int(max(pack["targets_document_ids"]))
        for number in range(last):
            item = {}
            for name in ("inputs", "targets"):
                start, end = pack[f"{name}_cu_seqlens"][number : number + 2]
                item[name] = [*map(int, pack[name][start:end])]
                assert {*map(int, pack[f"{name}_document_ids"][start:end])} == {number + 1}
                assert [*map(int, pack[f"{name}_position_ids"][start:end])] == [*range(end - start)]
            found.append(item)
    assert sorted(found, key=lambda item: item["inputs"]) == items


def test_each_sequence_is_truncated_to_its_length() -> None:
    source = IterableWrapper(translations((9, 2), (2, 6)))
    packs = list(source.pack({"inputs": 4, "targets": 3}, "first_fit", overlong="truncate"))
    assert [pack["inputs"] for pack in packs] == [[20, 21, 22, 23], [40, 41, 0, 0]]
    assert [pack["targets"] for pack in packs] == [[30, 31, 0], [50, 51, 52]]
    with pytest.raises(ValueError, match="'inputs' of 9 tokens does not fit into a pack of 4: overlong='truncate'"):
        list(source.pack({"inputs": 4, "targets": 3}, "first_fit"))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"inputs": [1]}, r"length is for \['inputs', 'targets'\], and the item has \['inputs'\]"),
        (
            {"inputs": [1], "targets": [1], "x": [1]},
            r"and the item has \['inputs', 'targets', 'x'\]: both need the same",
        ),
        ([1, 2], r"and the item has \['tokens'\]"),
    ],
)
def test_items_need_the_names_of_the_lengths(item: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        list(IterableWrapper([item]).pack({"inputs": 4, "targets": 3}, "first_fit"))
    assert any("Packer" in note or "pack(" in note for note in caught.value.__notes__)


# Tokens around each sequence


def test_bos_and_eos_surround_each_sequence_and_count_as_its_tokens() -> None:
    packs = list(IterableWrapper([[11, 12], [], [13]]).pack(4, bos=1, eos=2, cu_seqlens=True))
    assert packs == [
        {"tokens": [1, 11, 12, 2], "document_ids": [1] * 4, "position_ids": [0, 1, 2, 3], "cu_seqlens": [0, 4]},
        {
            "tokens": [1, 13, 2, 0],
            "document_ids": [1, 1, 1, 0],
            "position_ids": [0, 1, 2, 0],
            "cu_seqlens": [0, 3, 4],
        },
    ]
    [only_eos] = IterableWrapper([[11, 12], [13]]).pack(5, eos=0)
    assert only_eos["tokens"] == [11, 12, 0, 13, 0]
    [only_bos] = IterableWrapper([[11, 12], [13]]).pack(5, "first_fit", bos=0)
    assert only_bos["tokens"] == [0, 11, 12, 0, 13]


@pytest.mark.parametrize("method", ["greedy", "first_fit", "best_fit"])
@pytest.mark.parametrize(
    ("make", "dtype"), [(np.array, np.uint16), (np.array, np.float32), (torch.tensor, torch.int32)]
)
def test_bos_and_eos_have_the_kind_and_dtype_of_the_tokens(method: Any, make: Any, dtype: Any) -> None:
    [pack] = IterableWrapper([make([11, 12], dtype=dtype)]).pack(5, method, bos=1, eos=2)
    made = make([1, 11, 12, 2, 0], dtype=dtype)
    assert (type(pack["tokens"]), pack["tokens"].dtype) == (type(made), made.dtype)
    assert pack["tokens"].tolist() == made.tolist()


@pytest.mark.parametrize("make", [torch.tensor, np.array])
@pytest.mark.parametrize(
    "arguments", [{"bos": 300}, {"eos": -1}, {"pad_value": -100}, {"pad_value": 2.5}, {"pad_value": np.nan}]
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_a_token_that_the_dtype_has_not_is_an_error(make: Any, arguments: dict[str, Any]) -> None:
    dp = IterableWrapper([make([1, 2], dtype=(torch if make is torch.tensor else np).uint8)])
    with pytest.raises((ValueError, RuntimeError, OverflowError), match=r"no value of|overflow|out of bounds|NaN"):
        list(dp.pack(5, **arguments))
    (packed,) = IterableWrapper([make([0.5])]).pack(2, pad_value=float("nan"))
    assert np.isnan(float(packed["tokens"][1]))


def test_each_sequence_of_a_dict_has_its_own_bos_and_eos() -> None:
    source = IterableWrapper([{"input_ids": [11, 12], "labels": [-100, 12]}])
    [pack] = source.pack(5, bos={"input_ids": 1, "labels": -100}, eos=2)
    assert (pack["input_ids"], pack["labels"]) == ([1, 11, 12, 2, 0], [-100, -100, 12, 2, 0])
    translated = IterableWrapper(translations((3, 2), (2, 1)))
    [pack] = translated.pack({"inputs": 6, "targets": 7}, "first_fit", bos={"targets": 1}, eos={"targets": 2})
    assert pack["inputs"] == [20, 21, 22, 40, 41, 0]
    assert pack["targets"] == [1, 30, 31, 2, 1, 50, 2]
    assert pack["targets_position_ids"] == [0, 1, 2, 3, 0, 1, 2]


def test_repeat_bos_begins_every_pack_with_bos_and_loses_no_token() -> None:
    packs = list(documents(5, 1, 2).pack(4, bos=-1, eos=-2, repeat_bos=True))
    assert [pack["tokens"] for pack in packs] == [[-1, 1, 2, 3], [-1, 4, 5, -2], [-1, 6, -2, -1], [-1, 7, 8, -2]]
    assert [pack["position_ids"] for pack in packs] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 0], [0, 1, 2, 3]]
    assert packs[2]["document_ids"] == [1, 1, 1, 2]
    without = list(documents(5, 1, 2).pack(4, bos=-1, eos=-2))
    assert [pack["tokens"] for pack in without] == [[-1, 1, 2, 3], [4, 5, -2, -1], [6, -2, -1, 7], [8, -2, 0, 0]]


@pytest.mark.parametrize("length", [2, 3, 7])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"method": "first_fit", "overlong": "split"}, {"method": "best_fit", "overlong": "split", "buffer_size": 2}],
)
@pytest.mark.parametrize("make", [list, np.array, torch.tensor], ids=["lists", "arrays", "tensors"])
def test_every_pack_begins_with_the_repeated_bos(length: int, arguments: Any, make: Any) -> None:
    items = [make([*document, -3]) for document in documents(*LENGTHS)]
    packs = list(IterableWrapper(items).pack(length, bos=-1, repeat_bos=True, cu_seqlens=True, **arguments))
    tokens = []
    for pack in packs:
        assert int(pack["tokens"][0]) == -1
        for start, end in itertools.pairwise(pack["cu_seqlens"]):
            assert int(pack["tokens"][start]) in (-1, 0)
            tokens += [token for token in map(int, pack["tokens"][start:end]) if token > 0]
    assert sorted(tokens) == [*range(1, sum(LENGTHS) + 1)]


def test_bos_and_eos_count_where_a_sequence_is_too_long() -> None:
    source = documents(3)
    with pytest.raises(ValueError, match="a sequence of 5 tokens does not fit into a pack of 4"):
        list(source.pack(4, "best_fit", bos=-1, eos=-2))
    [pack] = source.pack(4, "best_fit", bos=-1, eos=-2, overlong="truncate")
    assert pack["tokens"] == [-1, 1, 2, 3]
    packs = list(source.pack(4, "best_fit", bos=-1, eos=-2, overlong="split"))
    assert [pack["tokens"] for pack in packs] == [[-1, 1, 2, 3], [-2, 0, 0, 0]]


@pytest.mark.parametrize(
    ("item", "arguments", "message"),
    [
        ({"a": [1], "b": [1]}, {"bos": {"a": 0}}, r"bos is for \['a'\], and the item has \['a', 'b'\]: name those"),
        ({"a": [1]}, {"eos": {"a": 0, "c": 0}}, r"eos is for \['a', 'c'\], and the item has \['a'\]"),
        ([1], {"eos": {"a": 0}}, r"eos is for \['a'\], and the item has \['tokens'\]"),
        (
            {"a": [1], "b": [1]},
            {"length": {"a": 4, "b": 4}, "method": "first_fit", "eos": {"c": 0}},
            r"eos is for \['c'\], and the item has \['a', 'b'\]",
        ),
    ],
)
def test_bos_and_eos_name_sequences_of_the_item(item: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(IterableWrapper([item]).pack(**{"length": 4, **arguments}))


# Sequences that are too long


@pytest.mark.parametrize("method", ["first_fit", "best_fit"])
def test_fitting_splits_or_truncates_long_sequences(method: Any) -> None:
    def tokens(**arguments: Any) -> list[list[int]]:
        return [pack["tokens"] for pack in documents(2, 9, 3).pack(4, method, **arguments)]

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
        ([{"position_ids": [1]}], ValueError, "pack adds 'position_ids', which the item has: drop"),
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
