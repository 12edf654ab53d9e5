"""rebatch, rows and shuffle_rows: which rows come in which batches, what is shared, and what their states hold."""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Sequence
from itertools import chain, islice, pairwise
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock import IterDataPipe
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import passed_on

KINDS = ["arrow", "tensors", "arrays"]


def batches(sizes: Sequence[int], kind: str = "arrow") -> list[Any]:
    """Return batches whose rows are numbered."""
    ends = np.cumsum([0, *sizes])
    return [
        {
            "arrow": lambda ids: pa.record_batch({"id": ids, "text": [f"row {number}" for number in ids]}),
            "tensors": lambda ids: {"id": torch.from_numpy(ids), "text": [f"row {number}" for number in ids]},
            "arrays": lambda ids: {"id": ids, "text": np.array([f"row {number}" for number in ids], dtype=object)},
        }[kind](np.arange(start, end))
        for start, end in pairwise(ends)
    ]


def ids(batch: Any) -> list[int]:
    """Return the numbers of the rows of a batch, in which the columns belong together."""
    numbers: list[int] = batch["id"].to_pylist() if isinstance(batch, pa.RecordBatch) else batch["id"].tolist()
    texts = batch["text"].to_pylist() if isinstance(batch, pa.RecordBatch) else [*batch["text"]]
    assert texts == [f"row {number}" for number in numbers]
    return numbers


def source(sizes: Sequence[int], kind: str = "arrow") -> IterDataPipe[Any]:
    return IterableWrapper(batches(sizes, kind), deepcopy=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[3, 3, 3], [1, 0, 7, 1, 1], []])
@pytest.mark.parametrize("n", [1, 3, 100])
def test_rows_come_in_order_in_batches_of_n(kind: str, sizes: list[int], n: int) -> None:
    expected = [[*range(sum(sizes))[start : start + n]] for start in range(0, sum(sizes), n)]
    assert [ids(batch) for batch in source(sizes, kind).rebatch(n)] == expected
    whole = [rows for rows in expected if len(rows) == n]
    assert [ids(batch) for batch in source(sizes, kind).rebatch(n, drop_last=True)] == whole


@pytest.mark.parametrize("kind", KINDS)
def test_batches_keep_their_kind_and_types(kind: str) -> None:
    [made] = source([2, 3], kind).rebatch(5)
    [expected] = batches([5], kind)
    if kind == "arrow":
        assert made.schema == expected.schema
    else:
        for name, column in expected.items():
            assert (type(made[name]), getattr(made[name], "dtype", None)) == (
                type(column),
                getattr(column, "dtype", None),
            )


def test_rows_that_lie_in_one_batch_are_not_copied() -> None:
    tensor = torch.arange(10)
    parts = list(IterableWrapper([{"x": tensor}], deepcopy=False).rebatch(3))
    assert [part["x"].data_ptr() - tensor.data_ptr() for part in parts] == [0, 24, 48, 72]
    [batch] = batches([10])
    address = batch.column("id").buffers()[1].address
    for n in (3, 100):
        made = list(IterableWrapper([batch], deepcopy=False).rebatch(n))
        assert {part.column("id").buffers()[1].address for part in made} == {address}


def test_tables_and_tensors_of_all_dtypes_are_joined_and_drawn() -> None:
    table = pa.table({"id": pa.chunked_array([[1], [2, 3]])})
    assert [batch.to_pydict() for batch in IterableWrapper([table]).rebatch(2)] == [{"id": [1, 2]}, {"id": [3]}]
    empty = pa.schema({"id": pa.int64()}).empty_table()
    assert [batch.num_rows for batch in IterableWrapper([empty, table]).rebatch(3)] == [3]
    for dtype in (torch.uint16, torch.uint32, torch.bfloat16, torch.bool):
        items = [{"x": torch.tensor([[value]]).to(dtype)} for value in (0, 1, 1)]
        [joined] = IterableWrapper(items).rebatch(3)
        assert (joined["x"].dtype, joined["x"].to(torch.int64).flatten().tolist()) == (dtype, [0, 1, 1])
        drawn = [batch["x"] for batch in IterableWrapper(items).shuffle_rows(3)]
        assert sorted(torch.cat([x.to(torch.int64) for x in drawn]).flatten().tolist()) == [0, 1, 1]
        assert {x.dtype for x in drawn} == {dtype}


def test_data_frames_and_other_mappings_are_batches_too() -> None:
    frames = [pd.DataFrame({"id": [0, 1, 2]}), pd.DataFrame({"id": [3]})]
    assert [batch.to_pydict() for batch in IterableWrapper(frames).rebatch(2)] == [{"id": [0, 1]}, {"id": [2, 3]}]
    items = [UserDict(x=torch.tensor([number])) for number in range(3)]
    assert [batch["x"].tolist() for batch in IterableWrapper(items).rebatch(2)] == [[0, 1], [2]]


def test_fixed_shape_tensors_of_arrow_are_joined_and_drawn() -> None:
    items = [
        pa.record_batch({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(np.full((1, 2, 2), value))})
        for value in range(4)
    ]
    [joined] = IterableWrapper(items).rebatch(4).to_tensors()
    assert joined["x"].shape == (4, 2, 2)
    drawn = torch.cat([batch["x"] for batch in IterableWrapper(items).shuffle_rows(4).to_tensors()])
    assert sorted(drawn[:, 0, 0].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})], "(?s)different schemas.*a: int64.*a: string"),
        ([{"a": torch.ones(1)}, {"b": torch.ones(1)}], r"different columns cannot be joined: \['a'\] and \['b'\]"),
        ([{"a": torch.ones(1)}, {"a": torch.ones(1).long()}], "column 'a' is Tensor of torch.float32.*torch.int64"),
        ([{"a": torch.ones(1, 2)}, {"a": torch.ones(1, 3)}], r"column 'a' is .*\(2,\) in one and .*\(3,\) in another"),
        ([{"a": torch.ones(1)}, {"a": np.ones(1)}], "column 'a' is Tensor of .* and ndarray of"),
        ([{"a": [1]}, pa.record_batch({"a": [1]})], "cannot be joined with a dict"),
    ],
)
def test_batches_that_do_not_belong_together_are_an_error(items: list[Any], text: str) -> None:
    for dp in (IterableWrapper(items).rebatch(2), IterableWrapper(items).shuffle_rows(2)):
        with pytest.raises(ValueError, match=text):
            list(dp)


def test_what_is_no_column_batch_is_an_error() -> None:
    for make in (lambda dp: dp.rebatch(2), lambda dp: dp.rows(), lambda dp: dp.shuffle_rows(2)):
        with pytest.raises(TypeError, match="column batches are needed.* and this is of type list") as raised:
            list(make(IterableWrapper([[1, 2]])))
        assert "[1, 2]" in raised.value.__notes__[0]


def test_rows_are_dicts_of_plain_values_and_parts_of_tensors() -> None:
    image = np.arange(8, dtype=np.uint8).reshape(2, 2, 2)
    batch = pa.record_batch(
        {
            "id": [1, None],
            "tags": [["a"], []],
            "image": pa.FixedShapeTensorArray.from_numpy_ndarray(image),
            "p": [0.5, 1],
        }
    )
    first, second = IterableWrapper([batch]).rows()
    assert (first["id"], first["tags"], second["id"], second["tags"], second["p"]) == (1, ["a"], None, [], 1.0)
    assert torch.equal(second["image"], torch.from_numpy(image[1]))
    [row, _] = IterableWrapper([{"x": torch.tensor([1, 2]), "y": np.ones((2, 3)), "z": ["a", "b"]}]).rows()
    assert (row["x"], row["z"], type(row["x"]), row["y"].shape) == (1, "a", int, (3,))
    assert len(list(IterableWrapper([pa.record_batch({"id": np.arange(3000)})]).rows())) == 3000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("buffer_size", [1, 4, 10, 1000])
def test_shuffled_rows_come_once_in_batches_of_the_same_size(kind: str, buffer_size: int) -> None:
    made = [ids(batch) for batch in source([4] * 8, kind).shuffle_rows(buffer_size)]
    assert sorted(chain(*made)) == [*range(32)]
    assert [len(rows) for rows in made] == [4] * 8
    uneven = source([1, 9, 0, 2, 30, 3], kind).shuffle_rows(buffer_size)
    assert sorted(chain(*map(ids, uneven))) == [*range(45)]
    assert [*chain(*map(ids, uneven.set_shuffle(False)))] == [*range(45)]


def test_orders_are_equally_likely_and_neighbours_mixed() -> None:
    dp = source([3]).shuffle_rows(3).set_seed(0)
    orders = Counter(tuple(ids(next(iter(dp)))) for _ in range(1200))
    assert len(orders) == 6
    assert min(orders.values()) > 140
    [*made] = source([10] * 100).shuffle_rows(100).set_seed(1)
    order = np.array([*chain(*map(ids, made))])
    assert np.corrcoef(order, np.arange(1000))[0, 1] > 0.9  # what comes late was read late
    assert (order[:50] > 50).any()
    assert (np.diff(order) == 1).sum() < 50


def test_resuming_shuffle_rows_reads_from_the_oldest_row_held() -> None:
    read: list[int] = []
    items = batches([10] * 400)

    def make() -> IterDataPipe[Any]:
        numbers = IterableWrapper(range(400)).map(lambda number: read.append(number) or items[number])  # type: ignore[func-returns-value]
        return numbers.shuffle_rows(100).set_seed(4)

    with mock.patch.object(Throttle, "step", 1):
        dp = make()
        for _ in islice(dp, 380):
            pass
        state = passed_on(dp)
    rest = [ids(batch) for batch in dp.source.shuffle_rows(1)]  # the source is read again, from its start
    assert len(rest) == 400
    read.clear()
    resumed = make()
    resumed.load_state_dict(state)
    assert len(list(resumed)) == 20
    assert len([number for number in read if number < 385]) <= 15  # 385 were pulled, and a buffer and a half is 15


def test_no_row_is_held_through_more_than_two_rounds() -> None:
    dp = source([10] * 4000).shuffle_rows(1000).set_seed(2)
    order = np.array([*chain(*map(ids, dp))])
    assert sorted(order) == [*range(40_000)]
    places = np.empty(40_000, np.int64)
    places[order] = np.arange(40_000)
    entered = np.maximum(np.arange(40_000) - 500, 0) // 500  # half a buffer leaves in each round, and is filled again
    rounds = (places // 500 - entered)[1000:39_000]
    shares = np.bincount(rounds, minlength=3) / len(rounds)
    assert len(shares) == 3
    assert (shares > 0.2).all()
    early = places[1000:39_000].reshape(-1, 500)[:, :10].ravel() % 500
    assert abs(early.mean() - 250) < 30  # the late rows are no nearer to the front


@pytest.mark.parametrize(("sizes", "what"), [([4], "items"), ([1] * 6, "rows")])
def test_a_source_that_has_become_shorter_is_an_error(sizes: list[int], what: str) -> None:
    dp = source([4] * 6).shuffle_rows(12).set_seed(1)
    list(islice(dp, 3))
    state = dp.state_dict()
    shorter = source(sizes).shuffle_rows(12).set_seed(1)
    shorter.load_state_dict(state, strict=False)
    with pytest.raises(RuntimeError, match=f"the source gave fewer {what} than when the state was taken"):
        list(shorter)


def test_rows_of_types_that_pyarrow_draws_none_of_are_shuffled() -> None:
    text, tail = pa.string_view(), "c" * 30
    columns = {
        "id": pa.array([0, 1, 2]),
        "text": pa.array(["a", None, tail], text),
        "bytes": pa.array([b"a", None, b"b"], pa.binary_view()),
        "list": pa.array([["a"], None, [tail]], pa.list_(text)),
        "large": pa.array([["a"], [], [None]], pa.large_list(text)),
        "struct": pa.array([{"x": "a"}, None, {"x": tail}], pa.struct([("x", text)])),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1.5, None])),
    }
    batch = pa.record_batch(columns)
    orders = set()
    for seed in range(20):
        [drawn] = IterableWrapper([batch], deepcopy=False).shuffle_rows(3).set_seed(seed)
        drawn.validate(full=True)
        assert drawn.schema == batch.schema
        assert sorted(drawn.to_pylist(), key=lambda row: row["id"]) == batch.to_pylist()
        orders.add(tuple(drawn.column("id").to_pylist()))
    assert len(orders) > 1


def test_rows_without_columns_or_with_one_name_twice() -> None:
    batch = pa.record_batch({"a": [1, 2, 3]})
    assert list(IterableWrapper([batch.select([])], deepcopy=False).rows()) == [{}, {}, {}]
    twice = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"several columns of one name: \['a', 'a'\]"):
        list(IterableWrapper([twice]).rows())


def test_a_row_without_a_tensor_has_none_in_its_place() -> None:
    storage = pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int32(), 2))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2]), storage)
    for start in (0, 1):
        rows = [row["x"] for row in IterableWrapper([pa.record_batch({"x": tensors.slice(start)})]).rows()]
        assert [None if row is None else row.tolist() for row in rows] == [[1, 2], None, [5, 6]][start:]


def of_all_kinds(rows: int) -> Any:
    numbers = range(rows)
    return pa.record_batch(
        {
            "number": pa.array([float(x) for x in numbers]),
            "whole": pa.array(numbers, pa.int16()),
            "yes": pa.array([x % 3 == 0 for x in numbers]),
            "day": pa.array([*numbers], pa.int32()).cast(pa.date32()),
            "pair": pa.array([[x, -x] for x in numbers]),
        }
    )


@pytest.mark.parametrize("with_text", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"columns": ["pair", "whole"]}, {"dtypes": torch.float64}])
@pytest.mark.parametrize("sizes", [(10,), (3, 10, 1, 0, 7)])
def test_rebatch_and_to_tensors_commute(sizes: tuple[int, ...], arguments: Any, with_text: bool) -> None:
    batches = [of_all_kinds(rows) for rows in sizes]
    if with_text:
        batches = [each.append_column("text", pa.array(map(str, range(len(each))))) for each in batches]

    def source() -> Any:
        return ps.iter.IterableWrapper(batches)

    expected = list(source().to_tensors(**arguments).rebatch(3))
    dp = source().rebatch(3).to_tensors(**arguments)
    for _ in range(2):
        for made, wanted in zip(dp, expected, strict=True):
            assert [*made] == [*wanted]
            for name, column in wanted.items():
                assert torch.equal(made[name], column) if isinstance(column, torch.Tensor) else made[name] == column
    assert [type(batch) for batch in dp.source] == [pa.RecordBatch] * len(expected)


def test_a_value_without_tensor_fails_its_own_piece() -> None:
    batch = pa.record_batch({"x": [*range(7), None, 8]})
    dp = ps.iter.IterableWrapper([batch]).rebatch(3).to_tensors(on_error="skip")
    assert [made["x"].tolist() for made in dp] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="column 'x', row 1 is null"):
        list(ps.iter.IterableWrapper([batch]).rebatch(3).to_tensors())
