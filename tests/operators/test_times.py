"""Times that to_tensors made int64: their types are in the schema, and come back in files and batches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import passed_on

KINDS = {
    "us": pa.timestamp("us"),
    "utc": pa.timestamp("ms", "UTC"),
    "berlin": pa.timestamp("ns", "Europe/Berlin"),
    "day": pa.date32(),
    "hour": pa.time64("us"),
    "minute": pa.time32("ms"),
    "long": pa.duration("us"),
}


def column(kind: pa.DataType, rows: int) -> pa.Array:
    counts = pa.array([*range(rows)], pa.int32() if kind.bit_width == 32 else pa.int64())
    return counts.cast(kind)


def times(rows: int = 6) -> pa.Table:
    return pa.table({"id": range(rows), **{name: column(kind, rows) for name, kind in KINDS.items()}})


def written(dp: Any, folder: Path, rows: int = 4) -> pa.Table:
    list(dp.write_parquet(folder / "{shard}.parquet", rows_per_file=rows))
    return pa.concat_tables(map(pq.read_table, sorted(folder.glob("*.parquet"))))


STEPS = {
    "rebatch": lambda dp: dp.rebatch(2).to_tensors(),
    "several": lambda dp: dp.to_tensors().prefetch(2).filter(len).shuffle_rows(1).rebatch(3).header(2),
}


@pytest.mark.parametrize("steps", STEPS)
def test_files_have_the_times_that_were_read(tmp_path: Path, steps: str) -> None:
    dp = STEPS[steps](ps.from_arrow(times(), 5))
    assert next(iter(dp))["utc"].dtype == torch.int64
    assert written(dp, tmp_path).sort_by("id").cast(times().schema).equals(times())
    told = ps.schema(dp)
    assert {name: told[name].dtype for name in KINDS} == KINDS
    assert told["id"].dtype == torch.int64
    assert told["day"].shape == told["id"].shape != ()


CHOSEN = {
    "drop_columns": (lambda dp: dp.drop_columns("id"), {**KINDS}),
    "select_columns": (lambda dp: dp.select_columns(["long", "utc"]), {"long": KINDS["long"], "utc": KINDS["utc"]}),
    "rename_columns": (lambda dp: dp.rename_columns({"utc": "at", "id": "utc"}), {"at": KINDS["utc"]}),
    "columns": (lambda dp: dp.source.to_tensors(["utc", "id"]).rename_columns(["a", "b"]), {"a": KINDS["utc"]}),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_columns_keep_their_times(tmp_path: Path, name: str) -> None:
    choose, kinds = CHOSEN[name]
    dp = choose(ps.from_arrow(times(), 4).to_tensors()).prefetch(1)
    told = ps.schema(dp)
    assert {column: told[column].dtype for column in kinds} == kinds
    [batch, _] = dp.with_format("arrow")
    files = written(dp, tmp_path)
    assert batch.schema.names == files.schema.names == told.names
    for column, kind in kinds.items():
        assert batch.schema.field(column).type == kind
        assert pa.types.is_temporal(files.schema.field(column).type)
    assert {
        told[column].dtype for column in told.names if not pa.types.is_temporal(files.schema.field(column).type)
    } <= {torch.int64}


@pytest.mark.parametrize("kind", ["write_csv", "write_json"])
def test_csv_and_json_hold_what_they_hold_of_the_times_themselves(tmp_path: Path, kind: str) -> None:
    table = ps.from_arrow(times().drop_columns("long" if kind == "write_json" else "id"))
    assert getattr(table, kind)(tmp_path / "times").run()["rows"] == 6
    assert getattr(table.to_tensors(), kind)(tmp_path / "tensors").run()["rows"] == 6
    [made], [expected] = ([*(tmp_path / name).glob("part*")] for name in ("tensors", "times"))
    assert made.read_text() == expected.read_text()
    assert "1970-01-01" in made.read_text()


def test_merged_sources_give_times_of_one_unit(tmp_path: Path) -> None:
    def tensors(kind: pa.DataType) -> Any:
        return ps.from_arrow(pa.table({"t": column(kind, 3)})).to_tensors()

    ns, us = pa.timestamp("ns"), pa.timestamp("us")
    for number, merged in enumerate(
        [tensors(ns).concat(tensors(ns)), tensors(ns).mux(tensors(ns)).rename_columns({"t": "u"})]
    ):
        assert written(merged, tmp_path / str(number)).schema.types == [ns]
    other = tensors(pa.int64())
    for second, unit in ((tensors(us), "timestamp.us."), (other, "int64")):
        with pytest.raises(ValueError, match=rf"'t' is timestamp.ns. in one source and {unit} in another.* cast one"):
            written(tensors(ns).concat(second), tmp_path / unit)
    unknown = tensors(ns).concat(tensors(ns).map(dict), IterableWrapper([{"t": torch.arange(3)}]).to_tensors())
    assert written(unknown, tmp_path / "unknown").schema.types == [pa.int64()]


@pytest.mark.parametrize(
    "step",
    [
        lambda dp: dp.slice(["us", "utc"]),
        lambda dp: dp.drop(["id", *(name for name in KINDS if name not in ("us", "utc"))]),
        lambda dp: dp.fork(2)[0].select_columns(["utc", "us"]),
        lambda dp: dp.demux(2, lambda batch: 0)[0].select_columns(["utc", "us"]),
    ],
)
def test_branches_and_chosen_fields_keep_times(step: Any, tmp_path: Path) -> None:
    chosen = step(ps.from_arrow(times()).to_tensors())
    assert {field.name: field.dtype for field in ps.schema(chosen)} == {name: KINDS[name] for name in ("us", "utc")}
    table = written(chosen, tmp_path)
    assert table.select(["us", "utc"]).equals(times().select(["us", "utc"]))


def test_other_formats_a_function_and_a_loop_of_batches_get_times() -> None:
    tensors = ps.from_arrow(times()).to_tensors()
    [batch] = tensors.with_format("arrow")
    assert batch.schema.equals(times().schema)
    [changed] = tensors.map(dict).with_format("arrow")
    assert {*changed.schema.types} == {pa.int64()}
    [cast] = ps.from_arrow(times()).to_tensors(["utc", "us"], dtypes={"us": torch.float64}).with_format("arrow")
    assert cast.schema.types == [KINDS["utc"], pa.float64()]
    for make in (tensors.iter_batches, partial(tensors.map_batches, lambda batch: batch)):
        batches = list(make(batch_size=4, batch_format="pyarrow"))
        assert pa.Table.from_batches(batches).equals(times())
    for options in ({}, {"concurrency": 1}):
        kinds = tensors.map_batches(lambda frame: {"kind": [*map(str, frame.dtypes)]}, batch_format="pandas", **options)
        assert "datetime64[ms, UTC]" in next(iter(kinds))["kind"]
    assert str(next(iter(tensors.iter_batches(batch_format="pandas"))).dtypes["utc"]) == "datetime64[ms, UTC]"


def test_workers_and_resumed_passes_write_times(tmp_path: Path) -> None:
    for number in range(4):
        pq.write_table(times().slice(number, 2), tmp_path / f"{number}.parquet")
    schema = pq.read_schema(tmp_path / "0.parquet")

    def chain(place: str) -> Any:
        dp = ps.read_parquet(f"{tmp_path}/?.parquet", batch_size=1).to_tensors().rebatch(3)
        return dp.write_parquet(tmp_path / place / "{shard}.parquet", 3)

    with ps.DataLoader2(chain("workers"), reading_service=ps.MultiProcessingReadingService(2)) as loader:
        assert sum(rows for _, rows in loader) == 8
    begun = chain("resumed")
    next(iter(begun))
    resumed = chain("resumed")
    resumed.load_state_dict(passed_on(begun))
    assert [rows for _, rows in resumed] == [3, 2]
    for place in ("workers", "resumed"):
        assert all(pq.read_schema(file).equals(schema) for file in (tmp_path / place).glob("?.parquet"))
