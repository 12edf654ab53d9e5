"""read_iceberg: partitions, deletes, changed columns, and where a table is found."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import DayTransform, IdentityTransform

import penstock as ps
from lake_tables import IcebergTables, delete_by_file
from penstock.pipes.columns.formats import ParquetFormat
from s3 import S3Server


@pytest.fixture
def tables(tmp_path: Path) -> IcebergTables:
    return IcebergTables(tmp_path)


def ids(read: Any) -> list[int]:
    return sorted(row["id"] for row in read.rows())


@pytest.mark.parametrize("deleted", [[0], [1, 2, 4], [*range(5)]])
def test_deleted_rows_are_left_out(deleted: list[int], tables: IcebergTables) -> None:
    tables.of_numbers(range(5))
    before = tables.versions()[-1]
    delete_by_file(tables.table, deleted)
    assert ids(tables.read()) == [n for n in range(5) if n not in deleted]
    assert ids(tables.read(filter="id > 1", columns=["id"])) == [n for n in range(2, 5) if n not in deleted]
    assert ids(tables.read(before)) == [*range(5)]


def test_deletes_by_value_are_refused(tables: IcebergTables) -> None:
    tables.of_numbers(range(5))
    delete_by_file(tables.table, [1], DataFileContent.EQUALITY_DELETES)
    with pytest.raises(ValueError, match="does not yet support equality deletes"):
        list(tables.read())


def test_files_of_other_partitions_are_not_opened(tables: IcebergTables) -> None:
    times = [datetime.datetime(2024, 1, day, 3) for day in range(1, 5)]
    rows = pa.table({"id": range(4), "time": pa.array(times, pa.timestamp("us")), "kind": [*"aabb"]})
    table = tables.catalog.create_table("n.t", rows.schema)
    with table.update_spec() as spec:
        spec.add_field("kind", IdentityTransform())
        spec.add_field("time", DayTransform())
    table.append(rows)
    for condition in ("time >= '2024-01-03'", "id > 1", "not (id <= 1)"):
        read = tables.read(filter=condition)
        assert len(list(read.lister)) == 2
        assert ids(read) == [2, 3]
    assert [row["kind"] for row in tables.read(filter="kind == 'b' and id == 3").rows()] == ["b"]
    assert len(list(tables.read(filter="time is None").lister)) == 4


def test_renamed_and_swapped_columns_are_read_by_their_numbers(tables: IcebergTables) -> None:
    tables.of_numbers(range(2))
    first = tables.versions()[-1]
    with tables.table.update_schema() as update:
        update.rename_column("text", "words")
    with tables.table.update_schema() as update:
        update.rename_column("id", "text")
    with tables.table.update_schema() as update:
        update.rename_column("words", "id")
    assert [batch.to_pydict() for batch in tables.read()] == [{"text": [0, 1], "id": ["t0", "t1"]}]
    assert [batch.to_pydict() for batch in tables.read(columns=["id"], filter="text == 1")] == [{"id": ["t1"]}]
    assert [batch.to_pydict() for batch in tables.read(first)] == [{"id": [0, 1], "text": ["t0", "t1"]}]


def test_a_widened_column_is_read_in_its_new_type(tables: IcebergTables) -> None:
    from pyiceberg.types import LongType

    tables.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    with tables.table.update_schema() as update:
        update.update_column("id", LongType())
    tables.append(pa.table({"id": pa.array([2**40], pa.int64())}))
    batches = [*tables.read()]
    assert {batch.schema.field("id").type for batch in batches} == {pa.int64()}
    assert ids(tables.read()) == [1, 2, 2**40]
    assert ids(tables.read(filter="id > 1")) == [2, 2**40]
    assert len([*tables.read(filter="id > 2").lister]) == 1


def test_files_with_the_columns_of_the_table_are_read_by_row_groups(tables: IcebergTables) -> None:
    tables.of_numbers(range(3))
    [fragment] = tables.read().lister
    assert isinstance(fragment.opened(lambda: None), ParquetFormat)
    delete_by_file(tables.table, [0])
    [fragment] = tables.read().lister
    assert not isinstance(fragment.opened(lambda: None), ParquetFormat)


def test_a_loaded_table_and_an_address_are_read_without_the_catalog(tables: IcebergTables) -> None:
    tables.of_numbers(range(3))
    loaded = tables.table
    tables.of_numbers(range(3, 5))
    assert ids(ps.read_iceberg(loaded)) == [0, 1, 2]
    assert ids(pickle.loads(pickle.dumps(ps.read_iceberg(loaded)))) == [0, 1, 2]
    assert ids(ps.read_iceberg(tables.table.metadata_location)) == [*range(5)]


def test_objects_are_read_by_the_properties_of_a_catalog(s3_server: S3Server, tables: IcebergTables) -> None:
    s3_server.empty_bucket("iceberg")
    keys = {"s3.endpoint": s3_server.endpoint, "s3.access-key-id": s3_server.key}
    secret = {"s3.secret-access-key": s3_server.secret, "s3.region": "us-east-1"}
    client = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}  # the server takes no uploads of pyarrow's
    tables.properties |= {"warehouse": "s3://iceberg", **keys, **secret, **client}
    tables.catalog = load_catalog("local", **tables.properties)
    tables.catalog.create_namespace("on_s3")
    rows = pa.table({"id": range(3)})
    tables.catalog.create_table("on_s3.t", rows.schema).append(rows)
    read = ps.read_iceberg("on_s3.t", catalog="local", properties=tables.properties)
    assert ids(read) == [0, 1, 2]
    assert s3_server.secret not in str(read)
    table = tables.catalog.load_table("on_s3.t")
    delete_by_file(table, [0], folder=s3_server.root)
    assert ids(ps.read_iceberg(tables.catalog.load_table("on_s3.t"))) == [1, 2]


def test_other_tables_are_refused(tables: IcebergTables) -> None:
    tables.of_numbers(range(3))
    with pytest.raises(FileNotFoundError, match=r"the catalog has no Iceberg table 'n\.other'"):
        list(ps.read_iceberg("n.other", catalog="local", properties=tables.properties))
    with pytest.raises(TypeError, match="takes the identifier of a table.*and this is a int"):
        ps.read_iceberg(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="read_iceberg takes no row_filter: write it as filter="):
        ps.read_iceberg("n.t", row_filter="id > 1")  # type: ignore[call-arg]


def test_a_table_without_a_snapshot_has_no_rows(tables: IcebergTables) -> None:
    tables.catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    assert list(tables.read()) == []
    assert tables.read().schema().names == ["id"]
