"""to_tensors and with_format: what batches of each kind become, and what errors say."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from penstock.pipes.iter import IterableWrapper

IMAGES = np.arange(16, dtype=np.uint8).reshape(2, 2, 4)


def batch() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "id": [1, 2],
            "text": ["a", None],
            "pair": [[1, 2], [3, 4]],
            "image": pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES),
        }
    )


def one(items: Any, *arguments: Any, **named: Any) -> Any:
    [made] = IterableWrapper([items], deepcopy=False).with_format(*arguments, **named)
    return made


def tensors_of(items: Any, **arguments: Any) -> Any:
    [made] = IterableWrapper([items], deepcopy=False).to_tensors(**arguments)
    return made


def same(made: torch.Tensor, expected: torch.Tensor) -> None:
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize(
    "made_from",
    [
        batch(),
        pa.Table.from_batches([batch().slice(0, 1), batch().slice(1, 1)]),
        {"id": np.array([1, 2]), "text": ["a", None], "pair": torch.tensor([[1, 2], [3, 4]]), "image": IMAGES},
        pd.DataFrame({"id": [1, 2], "text": ["a", None], "pair": [[1, 2], [3, 4]], "image": [*IMAGES]}),
    ],
    ids=["RecordBatch", "Table", "dict", "DataFrame"],
)
def test_batches_of_every_kind_become_tensors_and_come_back(made_from: Any) -> None:
    made = one(made_from, "torch")
    assert [*made] == ["id", "text", "pair", "image"]
    same(made["id"], torch.tensor([1, 2]))
    same(made["pair"], torch.tensor([[1, 2], [3, 4]]))
    same(made["image"], torch.from_numpy(IMAGES))
    assert made["text"] == ["a", None]
    for format in ("arrow", "numpy", "pandas"):
        again = one(one(made_from, format), "torch")
        same(again["image"], made["image"])
        same(again["pair"], made["pair"])
        assert again["text"] == made["text"]


def test_arrow_has_shapes_for_tensors_and_takes_what_comes_as_it_is() -> None:
    made = one({"x": torch.ones(2, 3, dtype=torch.float16), "y": np.array([True, False]), "z": ["a", "b"]}, "arrow")
    assert made.schema == pa.schema({"x": pa.fixed_shape_tensor(pa.float16(), (3,)), "y": pa.bool_(), "z": pa.string()})
    given = batch()
    assert one(given, "arrow") is given
    given = pa.record_batch({"x": np.arange(4.0)})
    address = given.column("x").buffers()[1].address
    assert one(given, "torch")["x"].data_ptr() == tensors_of(given)["x"].data_ptr() == address


def test_numpy_has_times_of_its_own_and_objects_for_what_has_no_dtype() -> None:
    made = one(
        pa.record_batch(
            {
                "when": pa.array([datetime.datetime(2020, 1, 1), None], pa.timestamp("s")),
                "day": pa.array([datetime.date(2020, 1, 1), None]),
                "text": ["a", None],
                "tags": [["a"], ["b"]],
                "price": [Decimal("1.50"), None],
                "record": [{"a": 1}, None],
                "flag": [True, False],
            }
        ),
        "numpy",
    )
    assert {name: str(array.dtype) for name, array in made.items()} == {
        "when": "datetime64[s]", "day": "datetime64[D]", "text": "object", "tags": "object", "price": "object",
        "record": "object", "flag": "bool",
    }  # fmt: skip
    assert np.isnat(made["when"]).tolist() == np.isnat(made["day"]).tolist() == [False, True]
    assert made["price"].tolist() == [Decimal("1.50"), None]
    assert (made["tags"].tolist(), made["record"].tolist()) == ([["a"], ["b"]], [{"a": 1}, None])


def test_to_tensors_takes_some_columns_and_casts() -> None:
    made = tensors_of(batch(), columns=["pair", "text"], dtypes={"pair": torch.float32})
    assert [*made] == ["pair", "text"]
    same(made["pair"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    every = tensors_of(batch(), dtypes=torch.float64)
    assert {str(every[name].dtype) for name in ("id", "pair", "image")} == {"torch.float64"}
    again = tensors_of({"x": torch.tensor([1, 2])}, dtypes=torch.int8)
    same(again["x"], torch.tensor([1, 2], dtype=torch.int8))
    with pytest.raises(ValueError, match="column 'x', row 1, value 2 is 300, which torch.uint8 cannot hold"):
        tensors_of({"x": torch.tensor([[1, 2, 3], [4, 5, 300]])}, dtypes=torch.uint8)


@pytest.mark.parametrize(
    ("item", "arguments", "error", "text", "note"),
    [
        (pa.record_batch({"id": [1, None]}), {}, ValueError, "column 'id', row 1 is null", "in TensorMaker()"),
        (batch(), {"columns": ["z"]}, KeyError, "no columns 'z': its columns are", "in TensorMaker(['z'])"),
        ([1, 2], {}, TypeError, "column batches are needed", "in TensorMaker()"),
    ],
)
def test_errors_name_operator_column_and_row(
    item: Any, arguments: Any, error: type[Exception], text: str, note: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        tensors_of(item, **arguments)
    assert note in "".join(getattr(caught.value, "__notes__", []))


def test_batches_that_have_no_format_are_errors_or_left_out() -> None:
    ragged = pa.record_batch({"x": [[1, 2], [3]]})
    for format in ("torch", "numpy"):
        with pytest.raises(ValueError, match="column 'x', row 1 is a list of 1"):
            one(ragged, format)
    for dp in (IterableWrapper([ragged, batch()]), IterableWrapper([batch(), ragged])):
        assert dp.to_tensors(on_error="skip").count() == dp.with_format("numpy", on_error="skip").count() == 1
