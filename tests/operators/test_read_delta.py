"""read_delta: partitions, deletion vectors, and what a log may ask for."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from lake_tables import DeltaTables, delete_by_vector
from s3 import S3Server

PARTITIONS: dict[str, Any] = {
    "text": ["a b", "c/d=%ü", None, ""],
    "day": [datetime.date(2024, 1, day) for day in range(1, 5)],
    "time": pa.array([datetime.datetime(2024, 1, 1, hour) for hour in range(4)], pa.timestamp("us", "UTC")),
    "price": [Decimal("1.50"), Decimal("-2.00"), None, Decimal("3.25")],
    "flag": [True, False, None, True],
    "share": [0.1, 1e30, None, -0.5],
}


def files_of(read: Any) -> list[str]:
    return [fragment.url for fragment in read.lister]


@pytest.mark.parametrize("name", PARTITIONS)
def test_columns_of_partitions_have_their_values_and_types(name: str, tmp_path: Path) -> None:
    table = pa.table({"id": range(4), name: PARTITIONS[name]})
    deltalake.write_deltalake(str(tmp_path), table, partition_by=[name])
    found = pa.Table.from_batches(ps.read_delta(tmp_path)).sort_by("id")
    expected = {"id": [*range(4)], name: [None if value == "" else value for value in table[name].to_pylist()]}
    assert found.to_pydict() == expected
    assert found.schema.types == table.schema.types == ps.read_delta(tmp_path).schema().types


def test_files_of_other_partitions_are_not_opened(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, day) for day in range(1, 5)]
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": range(4), "day": days}), partition_by=["day"])
    for condition in ("day >= '2024-01-03'", pc.field("day") >= days[2], "id > 1", "not (id <= 1)", "id in [2, 3]"):
        read = ps.read_delta(tmp_path, filter=condition)
        assert len(files_of(read)) == 2
        assert sorted(row["id"] for row in read.rows()) == [2, 3]
    assert len(files_of(ps.read_delta(tmp_path, filter="id is None"))) == 4


def test_statistics_leave_out_no_row(tmp_path: Path) -> None:
    columns = {"share": [1.0, float("nan")], "text": ["x" * 100, None], "whole": pa.array([3, None], pa.int32())}
    deltalake.write_deltalake(str(tmp_path), pa.table(columns))
    for condition in ("share == 1", f"text == '{'x' * 100}'", "whole is None", "whole == 3"):
        assert sum(batch.num_rows for batch in ps.read_delta(tmp_path, filter=condition)) == 1


@pytest.mark.parametrize("deleted", [[0], [3, 4, 5, 8], [*range(10)]])
@pytest.mark.parametrize("partition_by", [[], ["of"]])
def test_rows_of_a_deletion_vector_are_left_out(deleted: list[int], partition_by: list[str], tmp_path: Path) -> None:
    properties = deltalake.WriterProperties(max_row_group_size=4)
    rows = pa.table({"id": range(10), "of": ["ü b/%"] * 10})
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=partition_by, writer_properties=properties)
    [file] = tmp_path.rglob("*.parquet")
    assert pq.read_metadata(file).num_row_groups == 3
    delete_by_vector(str(tmp_path), deleted)
    kept = [n for n in range(10) if n not in deleted]
    assert [row["id"] for row in ps.read_delta(tmp_path).rows()] == kept
    assert [row["id"] for row in ps.read_delta(tmp_path, filter="id > 4").rows()] == [n for n in kept if n > 4]
    assert sum(batch.num_rows for batch in ps.read_delta(tmp_path, 0)) == 10


@pytest.mark.parametrize(
    ("feature", "configuration", "message"),
    [
        ("columnMapping", {"delta.columnMapping.mode": "name"}, "maps its columns to other names"),
        ("columnMapping", {"delta.columnMapping.mode": "id"}, "maps its columns to other names"),
        ("rowsInAnotherFile", {}, "rowsInAnotherFile"),
    ],
)
def test_what_files_do_not_say_by_themselves_is_refused(
    feature: str, configuration: dict[str, str], message: str, tmp_path: Path
) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": range(3)}))
    [log] = Path(tmp_path, "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = {"readerFeatures": [feature], "writerFeatures": [feature]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            for field in schema["fields"]:
                field["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": field["name"]}
            line["metaData"] |= {"configuration": configuration, "schemaString": json.dumps(schema)}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(Exception, match=message):
        list(ps.read_delta(tmp_path))


def test_times_in_96_bits_are_read_however_far_away(tmp_path: Path) -> None:
    times = pa.array([datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC"))
    deltalake.write_deltalake(str(tmp_path), pa.table({"time": times}))
    [file] = tmp_path.glob("*.parquet")
    pq.write_table(pa.table({"time": times}), file, use_deprecated_int96_timestamps=True)
    [batch] = ps.read_delta(tmp_path)
    assert batch["time"].to_pylist() == times.to_pylist()


def test_many_files_keep_their_partitions_after_a_checkpoint(tmp_path: Path) -> None:
    for start in range(0, 30, 10):
        numbers = range(start, start + 10)
        rows = pa.table({"id": numbers, "of": [f"p{n}" for n in numbers]})
        deltalake.write_deltalake(str(tmp_path), rows, partition_by=["of"], mode="append")
    before = files_of(ps.read_delta(tmp_path))
    deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    assert files_of(ps.read_delta(tmp_path)) == before
    assert all(row["of"] == f"p{row['id']}" for row in ps.read_delta(tmp_path).rows())


def test_objects_are_read_by_the_options_of_other_readers(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_server.empty_bucket("delta")
    options = {"key": s3_server.key, "secret": s3_server.secret, "endpoint_url": s3_server.endpoint}
    write = {"aws_s3_allow_unsafe_rename": "true", "aws_allow_http": "true"}
    write |= {"aws_access_key_id": s3_server.key, "aws_secret_access_key": s3_server.secret}
    write |= {"aws_endpoint_url": s3_server.endpoint, "aws_region": "us-east-1"}
    rows = pa.table({"id": range(3), "kind": ["a b", "c", "c"]})
    deltalake.write_deltalake("s3://delta/t", rows, partition_by=["kind"], storage_options=write)
    assert sorted(row["id"] for row in ps.read_delta("s3://delta/t").rows()) == [0, 1, 2]
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    read = ps.read_delta("s3://delta/t", filter="kind == 'a b'", storage_options=options)
    assert [row["id"] for row in read.rows()] == [0]
    deltalake.write_deltalake("s3://delta/one", rows.slice(0, 1), partition_by=["kind"], storage_options=write)
    delete_by_vector(str(s3_server.root / "delta" / "one"), [0])
    assert list(ps.read_delta("s3://delta/one", storage_options=options)) == []
    assert s3_server.secret not in str(read)
    with pytest.raises(TypeError, match="not read with the option username, only with key, secret"):
        list(ps.read_delta("s3://delta/t", storage_options={"username": "me"}))


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    DeltaTables(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no Delta table at"):
        list(ps.read_delta(tmp_path))
