"""`map_batches` of chains that declare columns: Ray Data's meaning, beside torchdata's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper

TABLE = pa.table({"x": np.arange(10, dtype=np.float32), "name": [f"n{number}" for number in range(10)]})


def batches(batch_size: int = 4) -> Any:
    return ps.from_arrow(TABLE, batch_size=batch_size)


def rows() -> Any:
    return ps.from_items([{"x": np.float32(number), "name": f"n{number}"} for number in range(10)])


def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    return {"y": batch["x"] * 2, "name": batch["name"]}


def flat(dp: Any, column: str) -> list[Any]:
    return [value for batch in dp for value in batch[column].tolist()]


# Batches


@pytest.mark.parametrize(("size", "expected"), [(None, [4, 4, 2]), (3, [3, 3, 3, 1]), (20, [10])])
def test_column_batches_are_cut_to_the_size_or_come_as_they_are(size: Any, expected: list[int]) -> None:
    dp = batches().map_batches(lambda batch: {**doubled(batch), "n": [len(batch["x"])] * len(batch["x"])}, size)
    found = list(dp)
    assert flat(found, "y") == list(range(0, 20, 2))
    assert [batch["n"][0] for batch in found] == expected


@pytest.mark.parametrize(
    ("name", "kind", "column"),
    [
        ("numpy", dict, np.ndarray),
        ("default", dict, np.ndarray),
        ("torch", dict, torch.Tensor),
        ("pandas", pd.DataFrame, pd.Series),
        ("pyarrow", pa.RecordBatch, pa.FloatArray),
    ],
)
@pytest.mark.parametrize("make", [batches, rows])
def test_the_function_gets_the_format_and_may_give_it_back(make: Any, name: Any, kind: type, column: type) -> None:
    def look(batch: Any) -> Any:
        assert type(batch) is kind
        assert isinstance(batch["x"], column)
        return batch

    out = make().map_batches(look, batch_size=3, batch_format=name)
    assert flat(out.iter_torch_batches(batch_size=4), "x") == list(range(10))


@pytest.mark.parametrize(
    "output", [lambda batch: {"y": batch["x"].tolist()}, lambda batch: pa.table({"y": batch["x"]})]
)
def test_any_batch_can_be_given_back(output: Any) -> None:
    assert flat(batches().map_batches(output).iter_torch_batches(batch_size=4), "y") == list(range(10))
    assert flat(rows().map_batches(output, 3).iter_torch_batches(batch_size=4), "y") == list(range(10))


def test_a_generator_function_gives_several_batches_and_rows_may_be_left_out() -> None:
    def halves(batch: Any) -> Any:
        yield {"x": batch["x"][:1]}
        yield {"x": batch["x"][1:2]}

    assert flat(batches().map_batches(halves), "x") == [0, 1, 4, 5, 8, 9]
    assert [row["x"] for row in rows().map_batches(halves, 4)] == [0, 1, 4, 5, 8, 9]


def added_in_place(batch: Any) -> Any:
    batch["x"] += 1
    return batch


@pytest.mark.parametrize("name", ["numpy", "torch", "pandas"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ps.from_pandas(TABLE.to_pandas()),
        lambda: ps.from_numpy({"x": np.arange(10)}),
        lambda: ps.from_arrow(TABLE).to_tensors().in_memory_cache(),
        rows,
    ],
)
def test_a_function_may_change_what_it_gets(make: Any, name: Any) -> None:
    dp = make().map_batches(added_in_place, batch_format=name).iter_torch_batches(batch_size=10)
    assert flat(dp, "x") == flat(dp, "x") == list(range(1, 11))


@pytest.mark.parametrize("how", ["iter_torch_batches", "iter_batches"])
def test_a_program_may_change_the_batches_of_a_loader(how: str, tmp_path: Path) -> None:
    array, frame = np.arange(10), TABLE.to_pandas()
    cached = ps.from_arrow(TABLE).to_tensors().in_memory_cache()
    pa.feather.write_feather(TABLE, tmp_path / "a.arrow", compression="uncompressed")  # which is mapped
    for dp in (ps.from_numpy({"x": array}), ps.from_pandas(frame), ps.from_arrow(TABLE), cached, ps.read_ipc(tmp_path)):
        for _ in range(2):
            for batch in getattr(dp, how)(batch_size=4):
                batch["x"] -= 100
        assert flat(getattr(dp, how)(batch_size=4), "x") == list(range(10))
    assert array.tolist() == frame["x"].tolist() == TABLE["x"].to_pylist() == list(range(10))
    (batch,) = ps.read_ipc(tmp_path).to_tensors().map(added_in_place)
    assert batch["x"].tolist() == list(range(1, 11))


WITH_NULLS = pa.table(
    {
        "whole": pa.array([1, None, 3], pa.int32()),
        "part": pa.array([0.5, None, np.nan], pa.float32()),
        "own": [np.nan, 1.0, 2.0],
        "text": ["a", None, "c"],
    }
)


def test_nulls_of_numbers_come_back_from_a_data_frame() -> None:
    def look(frame: pd.DataFrame) -> pd.DataFrame:
        assert frame["whole"].isna().tolist() == [False, True, False]
        return frame.assign(made=frame["whole"] * 2)

    [batch] = ps.from_arrow(WITH_NULLS).map_batches(look, batch_format="pandas")
    assert [batch.schema.field(name).type for name in ("whole", "part")] == [pa.int32(), pa.float32()]
    assert batch.select(["whole", "part", "text"]).to_pydict() == {
        "whole": [1, None, 3],
        "part": [0.5, None, None],
        "text": ["a", None, "c"],
    }
    assert (batch["own"].null_count, batch["made"].null_count, np.isnan(batch["made"][1].as_py())) == (0, 0, True)
    halves = ps.from_arrow(WITH_NULLS).map_batches(lambda frame: frame[["whole"]] / 2, batch_format="pandas")
    assert next(iter(halves)).to_pydict() == {"whole": [0.5, None, 1.5]}
    found = ps.from_items(WITH_NULLS.to_pylist()).map_batches(lambda frame: frame, batch_format="pandas").take_all()
    assert [(row["whole"], row["text"]) for row in found] == [(1, "a"), (None, None), (3, "c")]


@pytest.mark.parametrize(
    "read",
    [
        lambda dp, **options: dp.map_batches(lambda batch: batch, **options),
        lambda dp, **options: dp.iter_batches(**options),
        lambda dp, **options: dp.with_format(options.get("batch_format", "numpy")),
    ],
)
def test_a_null_number_in_an_array_is_an_error_whose_mends_work(read: Any) -> None:
    dp = ps.from_arrow(WITH_NULLS.select(["whole"]))
    mends = r"(?=.*\.to_tensors\(dtypes=torch\.float32\))(?=.*batch_format=\"pandas\")"
    with pytest.raises(ValueError, match=rf"{mends}column 'whole', row 1 is null"):
        list(read(dp))
    assert np.isnan(next(iter(read(dp.to_tensors(dtypes=torch.float32))))["whole"][1])
    assert len(next(iter(read(dp, batch_format="pandas")))["whole"]) == 3


# Rows


def test_rows_give_rows_whose_numbers_keep_their_dtypes() -> None:
    found = rows().map_batches(doubled, batch_size=3).take_all()
    assert [row["y"] for row in found] == list(range(0, 20, 2))
    assert {type(row["y"]) for row in found} == {np.float32}
    assert [row["name"] for row in found[:2]] == ["n0", "n1"]
    (batch,) = rows().map_batches(doubled).iter_torch_batches(batch_size=10)
    assert batch["y"].dtype == torch.float32


def test_tensors_of_rows_are_stacked_and_different_shapes_are_an_array_of_objects() -> None:
    seen: list[Any] = []

    def look(batch: Any) -> Any:
        seen.append((batch["t"].shape, batch["t"].dtype))
        return {"n": [len(value) for value in batch["t"]]}

    ps.from_items([{"t": torch.zeros(2, 3)}] * 4).map_batches(look).take_all()
    ragged = ps.from_items([{"t": torch.zeros(n)} for n in (1, 2)]).map_batches(look).take_all()
    assert seen == [((4, 2, 3), np.float32), ((2,), object)]
    assert ragged == [{"n": 1}, {"n": 2}]


# Which of the two meanings


@pytest.mark.parametrize(
    ("dp", "arguments"),
    [
        (IterableWrapper([{"x": 1}]), {}),
        (ps.from_items([1, 2]), {}),
        (ps.from_items([{"x": 1}]), {"input_col": "x"}),
    ],
)
def test_lists_are_given_where_the_chain_does_not_declare_columns(dp: Any, arguments: Any) -> None:
    assert dp.map_batches(lambda batch: [type(batch)], 2, **arguments).take_all() == [list]


@pytest.mark.parametrize(
    ("output", "error", "text"),
    [
        ([1, 2], TypeError, "must return columns: a dict of arrays, tensors or lists"),
        (None, TypeError, "must return columns: a dict of arrays, tensors or lists"),
        ({"a": [1], "b": [1, 2]}, ValueError, "'a' has 1, 'b' has 2"),
        ({"x": [1, 2], "tag": "cat"}, TypeError, "fn returned one value for the column 'tag'"),
        ({"x": [1], "tag": {"a": [1]}}, TypeError, "fn returned one value for the column 'tag'"),
    ],
)
@pytest.mark.parametrize("make", [batches, rows])
def test_what_is_no_batch_is_an_error_that_says_what_to_return(
    make: Any, output: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        make().map_batches(lambda batch: output).take_all()
    assert "BatchMapper" in caught.value.__notes__[0]


# Classes, made once a worker


def predictor(folder: Path, workers: int) -> type:
    class Predictor:
        def __init__(self) -> None:
            self.pid = os.getpid()
            (folder / str(self.pid)).touch(exist_ok=False)  # fails where a worker makes a second one

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            until(lambda: len([*folder.iterdir()]) == workers)
            return {"y": batch["x"] * 2, "pid": np.full(len(batch["x"]), self.pid)}

    return Predictor


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


class Pool:
    """What Ray's ActorPoolStrategy looks like, without Ray."""

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(("make", "options"), [(batches, {"concurrency": 2}), (rows, {"compute": Pool(2)})])
def test_a_class_is_made_once_in_each_worker_process(make: Any, options: Any, tmp_path: Path) -> None:
    dp = make().map_batches(predictor(tmp_path, 2), batch_size=1, **options)
    found = [*dp.iter_torch_batches(batch_size=10)]
    assert flat(found, "y") == list(range(0, 20, 2))
    pids = {int(path.name) for path in tmp_path.iterdir()}
    assert len(pids) == 2
    assert os.getpid() not in pids >= {*flat(found, "pid")}


class Adder:
    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"] + self.number}


def test_a_function_of_lists_and_a_class_with_arguments_are_called_in_processes() -> None:
    def summed(batch: list[int]) -> list[int]:
        return [sum(batch), os.getpid()]

    found = IterableWrapper(range(4)).map_batches(summed, 2, concurrency=1).take_all()
    assert found[::2] == [1, 5]
    assert os.getpid() not in found
    assert IterableWrapper("abc").map_batches(tuple, 2).take_all() == ["a", "b", "c"]
    dp = batches().map_batches(partial(Adder, number=3))
    assert dp.source.workers == 1
    assert flat(dp, "y") == list(range(3, 13))


def test_a_module_is_put_in_eval_mode_and_keeps_no_gradients() -> None:
    class Net(torch.nn.Module):
        def forward(self, batch: Any) -> Any:
            assert not self.training
            assert torch.is_inference_mode_enabled()
            return {"y": torch.as_tensor(batch["x"])}

    assert flat(batches().map_batches(Net, batch_format="torch"), "y") == list(range(10))
