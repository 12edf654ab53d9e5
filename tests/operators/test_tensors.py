"""Columns of Arrow made into tensors and back: what becomes of each type, and what errors say."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from penstock.pipes.columns.tensors import tensor_of, tensors_of
from penstock.pipes.columns.to_arrow import array_of, batch_of, batch_of_frame, rows_in

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
MATRICES = np.arange(12, dtype=np.int16).reshape(2, 3, 2)


def same(made: Any, expected: torch.Tensor) -> None:
    assert isinstance(made, torch.Tensor)
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_keep_their_dtype_and_memory(dtype: str) -> None:
    array = pa.array(np.arange(6, dtype=dtype))[2:5]
    tensor = tensor_of(array, "x")
    same(tensor, torch.tensor([2, 3, 4]).to(getattr(torch, dtype)))
    assert tensor.data_ptr() == array.buffers()[1].address + 2 * tensor.element_size()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("ms"), pa.date32(), pa.date64(), pa.duration("s"), pa.time32("ms"), pa.time64("ns")],
    ids=str,
)
def test_times_are_counted_in_their_own_unit(kind: pa.DataType) -> None:
    numbers = pa.array([86400000, 172800000], pa.int64())
    counted = numbers if kind.bit_width == 64 else pa.array([1, 2], pa.int32())
    same(tensor_of(counted.cast(kind), "x"), torch.tensor(counted.to_pylist()))


PERMUTED = pa.ExtensionArray.from_storage(
    pa.fixed_shape_tensor(pa.int64(), (2, 3), permutation=[1, 0]),
    pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int64(), 6)),
)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([True, False, True])[1:], torch.tensor([False, True])),
        (pa.chunked_array([[1], [2, 3]]), torch.tensor([1, 2, 3])),
        (pa.chunked_array([], pa.int8()), torch.tensor([], dtype=torch.int8)),
        (pa.array([7, 5, 7]).dictionary_encode(), torch.tensor([7, 5, 7])),
        (pc.run_end_encode(pa.array([1, 1, 2])), torch.tensor([1, 1, 2])),
        (pa.array([[1, 2], [3, 4], [5, 6]])[1:], torch.tensor([[3, 4], [5, 6]])),
        (pa.array([[1, 2], [3, 4]], pa.large_list(pa.int8())), torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)),
        (pa.array([[1], [2], [3]], pa.list_(pa.int64(), 1))[1:], torch.tensor([[2], [3]])),
        (pa.array([[[1], [2]], [[3], [4]]]), torch.tensor([[[1], [2]], [[3], [4]]])),
        (pa.array([[True], [False]]), torch.tensor([[True], [False]])),
        (pa.FixedShapeTensorArray.from_numpy_ndarray(MATRICES)[1:], torch.from_numpy(MATRICES[1:])),
        (PERMUTED, torch.tensor([[[1, 4], [2, 5], [3, 6]]])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, (pa.Array, pa.ChunkedArray)) else "",
)
def test_what_becomes_a_tensor(array: Any, expected: torch.Tensor) -> None:
    same(tensor_of(array, "x"), expected)


HALVES = pa.array([np.float16(0.5), np.float16(2), None])
NULL_LIST = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4], pa.float32()), 2, mask=pa.array([False, True]))
DECIMALS = pa.array([Decimal("1.50"), None])
NO_BYTES = pa.array([{"bytes": b"x", "path": None}, {"bytes": None, "path": "a.png"}])


@pytest.mark.parametrize(
    ("array", "dtype", "error", "message"),
    [
        (pa.array([{"a": 1}]), None, TypeError, "column 'x' is of type .*which cannot become a tensor"),
        (pa.array(["a"]), torch.float32, TypeError, "column 'x' is of type string, which stays a list"),
        (NO_BYTES, None, ValueError, r"column 'x', row 1 is an image without bytes, whose path is 'a\.png'"),
        (pa.array([[1, 2], [3, 4], [5]]), None, ValueError, "row 2 is a list of 1, and column 'x', row 0 one of 2"),
        (pa.array([[[1], [2]], [[3], [4, 5]]]), None, ValueError, "column 'x', row 1, value 1 is a list of 2"),
        (pa.array([True, False, None]), torch.int64, ValueError, "column 'x', row 2 is null"),
        (HALVES, None, ValueError, "column 'x', row 2 is null"),
        (pa.array([[1, 2], [3, None]]), None, ValueError, "column 'x', row 1, value 1 is null"),
        (pa.array([[1], None]), torch.float32, ValueError, "row 1 is null and not a list, so it has no length"),
        (NULL_LIST, None, ValueError, "column 'x', row 1 is null"),
        (DECIMALS, None, TypeError, r"column 'x' is of type decimal128\(3, 2\).*torch.float64"),
        (DECIMALS[:1], torch.int64, ValueError, "column 'x', row 0 is 1.50, which torch.int64 cannot hold"),
    ],
)
def test_what_becomes_no_tensor_is_an_error(array: Any, dtype: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tensor_of(array, "x", dtype)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["a", None]), ["a", None]),
        (pa.array([b"a", b""]), [b"a", b""]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
        (pa.array([["a"], [], ["b", "c"]]), [["a"], [], ["b", "c"]]),
        (pa.array([{"bytes": b"png", "path": None}, None]), [b"png", None]),
    ],
)
def test_text_bytes_and_images_stay_lists(array: pa.Array, expected: list[Any]) -> None:
    assert tensor_of(array, "x") == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, 2, None]), [1, 2, None]),
        (pa.array([True, False, None]), [1, 0, None]),
        (HALVES, [0.5, 2, None]),
        (pa.nulls(2), [None, None]),
        (pa.array([[1, 2], [3, None]]), [[1, 2], [3, None]]),
        (NULL_LIST, [[1, 2], [None, None]]),
        (DECIMALS, [1.5, None]),
    ],
)
def test_null_is_nan_where_the_dtype_has_it(array: Any, expected: list[Any]) -> None:
    made = tensor_of(array, "x", torch.float64)
    torch.testing.assert_close(made, torch.tensor(np.array(expected, float)), equal_nan=True)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 300], torch.uint8),
        (pa.array([1, 2**63], pa.uint64()), torch.int64),
        ([1.0, 2.5], torch.int32),
        ([1.0, 2.0**63], torch.int64),
        ([1.0, float("nan")], torch.int8),
        ([1, 2], torch.bool),
        ([1, 70000], torch.float16),
        ([1.0, 1e300], torch.float32),
    ],
)
def test_a_value_that_the_dtype_does_not_have_is_an_error(values: Any, dtype: Any) -> None:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    with pytest.raises(ValueError, match=f"column 'x', row 1 is .*{dtype} cannot hold"):
        tensor_of(array, "x", dtype)
    with pytest.raises(ValueError, match="column 'x', row 0, value 1 is"):
        tensor_of(pa.array([array.to_pylist()], pa.list_(array.type)), "x", dtype)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([0, 255], torch.uint8, [0, 255]),
        ([Decimal("3.00")], torch.int8, [3]),
        ([-128, 127], torch.int8, [-128, 127]),
        ([0, 1], torch.bool, [False, True]),
        ([True, False], torch.int8, [1, 0]),
        ([1.0, -(2.0**63)], torch.int64, [1, -(2**63)]),
        ([float("inf"), 0.1], torch.float32, [float("inf"), float(np.float32(0.1))]),
        ([1, 2], torch.complex64, [1 + 0j, 2 + 0j]),
    ],
)
def test_values_that_a_dtype_has(values: list[Any], dtype: torch.dtype, expected: list[Any]) -> None:
    same(tensor_of(pa.array(values), "x", dtype), torch.tensor(expected, dtype=dtype))


def test_columns_are_chosen_and_dtypes_are_for_one_or_all() -> None:
    batch = pa.record_batch({"id": [1, 2], "text": ["a", "b"], "price": [0.5, 1.5]})
    assert [*tensors_of(batch, ["price", "id"])] == ["price", "id"]
    made = tensors_of(batch, dtypes=torch.float16)
    assert made["text"] == ["a", "b"]
    same(made["id"], torch.tensor([1, 2], dtype=torch.float16))
    same(tensors_of(batch, dtypes={"id": torch.int8})["price"], torch.tensor([0.5, 1.5], dtype=torch.float64))
    with pytest.raises(KeyError, match="the batch has no columns 'z'"):
        tensors_of(batch, ["z"])
    with pytest.raises(KeyError, match="dtypes has 'z'"):
        tensors_of(batch, dtypes={"z": torch.int8})
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(KeyError, match="the batch has 2 columns 'a'"):
        tensors_of(twice)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_tensors_come_back_from_arrow_with_shape_and_dtype(dtype: str) -> None:
    for shape in ((4,), (4, 2, 3), (4, 0), (0, 2)):
        tensor = torch.arange(int(np.prod(shape))).reshape(shape).remainder(2).to(getattr(torch, dtype))
        array = array_of(tensor, "x")
        array.validate(full=True)
        same(tensor_of(array, "x"), tensor)


def test_arrays_of_any_layout_are_taken_and_share_memory_where_they_can() -> None:
    same(tensor_of(array_of(torch.arange(6).reshape(2, 3).T, "x"), "x"), torch.arange(6).reshape(2, 3).T)
    assert array_of(torch.ones(2, requires_grad=True), "x").to_pylist() == [1, 1]
    numbers = np.arange(6.0).reshape(3, 2)
    assert torch.as_tensor(tensor_of(array_of(numbers, "x"), "x")).data_ptr() == numbers.ctypes.data
    for kind in (">i4", ">f8", ">u2", ">M8[s]", ">U3"):
        values = np.array(["2020", "2021"] if "M" in kind else [0, 1]).astype(kind)
        assert array_of(values, "x").equals(array_of(values.astype(values.dtype.newbyteorder("=")), "x"))
    swapped = np.arange(4, dtype=">i4").reshape(2, 2)
    same(tensor_of(array_of(swapped, "x"), "x"), torch.arange(4, dtype=torch.int32).reshape(2, 2))


@pytest.mark.parametrize(
    ("values", "kind", "rows"),
    [
        ([torch.ones(2), torch.zeros(2)], pa.fixed_shape_tensor(pa.float32(), (2,)), None),
        ([torch.tensor(1), torch.tensor(2)], pa.int64(), [1, 2]),
        ([torch.ones(1), torch.ones(2)], pa.list_(pa.float32()), [[1], [1, 1]]),
        ([np.ones(1, np.int8), None], pa.list_(pa.int8()), [[1], None]),
        ([np.ones((1, 2), np.int8), np.ones((2, 1), np.int8)], pa.list_(pa.list_(pa.int8())), [[[1, 1]], [[1], [1]]]),
        ([{"a": torch.ones(1)}], pa.struct({"a": pa.list_(pa.float32())}), [{"a": [1]}]),
        (np.array(["a", "b"]), pa.string(), ["a", "b"]),
        (np.array([["a", "b"]]), pa.list_(pa.string()), [["a", "b"]]),
        (np.array(["2020-01-01"], "M8[s]"), pa.timestamp("s"), [datetime.datetime(2020, 1, 1)]),
        ([1, None], pa.int64(), [1, None]),
        (range(3), pa.int64(), [0, 1, 2]),
        (pa.chunked_array([[1], [2]]), pa.int64(), [1, 2]),
        ([], pa.null(), []),
    ],
)
def test_what_becomes_a_column(values: Any, kind: pa.DataType, rows: list[Any] | None) -> None:
    array = array_of(values, "x")
    array.validate(full=True)
    assert array.type == kind
    if rows is not None:
        assert array.to_pylist() == rows


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (torch.tensor(1), ValueError, "column 'x' is a single value"),
        (torch.ones(2, dtype=torch.bfloat16), TypeError, "'x': Arrow has no type for a tensor of torch.bfloat16"),
        (np.zeros(2, np.complex64), TypeError, "column 'x': Arrow has no type for an array of complex64"),
        (np.zeros((2, 2), np.longdouble), TypeError, "column 'x': Arrow has no type for an array of "),
        ([1, 2, "a"], ValueError, "column 'x', row 2: "),
        ([1, 2**70], ValueError, "column 'x', row 1: "),
        ("abc", TypeError, "column 'x' must be a tensor, an array or a list, and is of type str"),
    ],
)
def test_what_is_no_column_is_an_error_that_names_it(values: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        array_of(values, "x")


def test_batches_have_columns_of_one_length() -> None:
    batch = batch_of({"x": torch.ones(2, 3), "text": ["a", "b"]})
    assert (batch.num_rows, batch.schema.names, rows_in(batch), rows_in({})) == (2, ["x", "text"], 2, 0)
    for make, error, text in (
        (lambda: batch_of({"a": [1], "b": [1, 2]}), ValueError, "'a' has 1, 'b' has 2"),
        (lambda: rows_in({"a": torch.ones(1), "b": [1, 2]}), ValueError, "'a' has 1, 'b' has 2"),
        (lambda: rows_in({"a": 1}), TypeError, "must be tensors, arrays or lists"),
        (lambda: rows_in(3), TypeError, "this is a int"),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=text):
            make()


def test_data_frames_keep_nan_in_floats_and_have_null_elsewhere() -> None:
    frame = pd.DataFrame({"f": [0.5, np.nan], "t": ["a", None], "i": pd.array([1, None], dtype="Int64")}, index=[7, 8])
    batch = batch_of_frame(frame)
    assert str(batch.to_pylist()) == "[{'f': 0.5, 't': 'a', 'i': 1}, {'f': nan, 't': None, 'i': None}]"
    assert batch.column("f").null_count == 0
    arrays = batch_of_frame(pd.DataFrame({"x": [np.ones((2, 2)), np.zeros((2, 2))]}))
    assert arrays.schema.field("x").type.shape == [2, 2]
    with pytest.raises(ValueError, match="several columns of one name"):
        batch_of_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
