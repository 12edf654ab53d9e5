"""Tables with versions that tests write: of Delta Lake, Iceberg and Lance, each by its own library."""

from __future__ import annotations

import json
import struct
from base64 import b85encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import lance
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

import penstock as ps
from penstock.pipes.sources.table_versions import FragmentReader


class LakeTables:
    """Writes a table in a folder, and reads it: a base class."""

    version_name = "version"

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "table")

    def append(self, rows: pa.Table) -> None:
        """Add rows as one more file, which makes a new version."""
        raise NotImplementedError

    def add_column(self, name: str) -> None:
        """Add a column of whole numbers; where none is declared, the next rows bring it."""

    def versions(self) -> list[int]:
        """Return the versions, the oldest first."""
        raise NotImplementedError

    def read(self, version: int | None = None, **options: Any) -> FragmentReader:
        raise NotImplementedError

    def of_numbers(self, *files: Iterable[int]) -> None:
        """Write a table of numbers and their texts, a file for each of the iterables."""
        for numbers in files:
            ids = [*numbers]
            self.append(pa.table({"id": pa.array(ids, pa.int64()), "text": [f"t{number}" for number in ids]}))


class DeltaTables(LakeTables):
    def append(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.url, rows, mode="append", schema_mode="merge")

    def versions(self) -> list[int]:
        return [*range(deltalake.DeltaTable(self.url).version() + 1)]

    def read(self, version: int | None = None, **options: Any) -> FragmentReader:
        return ps.read_delta(self.url, version, **options)


class LanceTables(LakeTables):
    def append(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, self.url, mode="append" if Path(self.url).exists() else "create")

    def add_column(self, name: str) -> None:
        lance.dataset(self.url).add_columns(pa.field(name, pa.int64()))

    def versions(self) -> list[int]:
        return [each["version"] for each in lance.dataset(self.url).versions()]

    def read(self, version: int | None = None, **options: Any) -> FragmentReader:
        return ps.read_lance(self.url, version, **options)


class IcebergTables(LakeTables):
    version_name = "snapshot_id"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.catalog: Catalog = load_catalog("local", **self.properties)
        self.catalog.create_namespace_if_not_exists("n")

    @property
    def table(self) -> Table:
        return self.catalog.load_table("n.t")

    def append(self, rows: pa.Table) -> None:
        self.catalog.create_table_if_not_exists("n.t", rows.schema).append(rows)

    def add_column(self, name: str) -> None:
        with self.table.update_schema() as update:
            update.add_column(name, LongType())

    def versions(self) -> list[int]:
        return [each.snapshot_id for each in self.table.snapshots()]

    def read(self, version: int | None = None, **options: Any) -> FragmentReader:
        return ps.read_iceberg("n.t", version, catalog="local", properties=self.properties, **options)


KINDS = {"delta": DeltaTables, "iceberg": IcebergTables, "lance": LanceTables}


def delete_by_vector(url: str, rows: Sequence[int]) -> None:
    """Mark rows of the one file of a Delta table as deleted, in the way that other engines do."""
    of_log = sorted(Path(url, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in of_log[0].read_text().splitlines()]
    [add] = [action["add"] for action in actions if "add" in action]
    [metadata] = [action["metaData"] for action in actions if "metaData" in action]
    few = struct.pack("<4I2H", 12346, 1, 0, 0, 0, len(rows) - 1)[:8] + struct.pack("<2HI", 0, len(rows) - 1, 16)
    bitmap = struct.pack("<IQI", 1681511377, 1, 0) + few + struct.pack(f"<{len(rows)}H", *rows)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _z85(bitmap + bytes(-len(bitmap) % 4)),
        "sizeInBytes": len(bitmap),
        "cardinality": len(rows),
    }
    metadata["configuration"]["delta.enableDeletionVectors"] = "true"
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    remove = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    lines = [
        {"protocol": protocol},
        {"metaData": metadata},
        {"remove": remove},
        {"add": {**add, "deletionVector": vector}},
    ]
    Path(url, "_delta_log", f"{len(of_log):020}.json").write_text("\n".join(map(json.dumps, lines)))


def _z85(content: bytes) -> str:
    """Return bytes as ZeroMQ spells them, with the digits of Python's base 85 in another order."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    of_python = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return b85encode(content).decode().translate(str.maketrans(of_python, digits))


def delete_by_file(
    table: Table,
    rows: Sequence[int],
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    folder: Path = Path("/"),
) -> None:
    """Mark rows of the first file of an Iceberg table as deleted, in the way that other engines do.

    The buckets of its address are in the `folder`.
    """
    [first, *_] = sorted(task.file.file_path for task in table.scan().plan_files())
    path = f"{table.location()}/data/deletes.parquet"
    kinds = {"file_path": (pa.string(), "2147483546"), "pos": (pa.int64(), "2147483545")}
    schema = pa.schema(
        [pa.field(name, kind, False, {"PARQUET:field_id": number}) for name, (kind, number) in kinds.items()]
    )
    local = folder / path.partition("://")[2]
    pq.write_table(pa.table({"file_path": [first] * len(rows), "pos": rows}, schema), local)
    deletes = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=local.stat().st_size,
    )
    deletes.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(deletes)
