"""Files with columns, read as record batches: projected, filtered, resumed, and their faults named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.pipes.columns.files import ColumnFile
from penstock.pipes.columns.origins import RowGroup
from penstock.pipes.iter import IterableWrapper
from resuming import passed_on
from s3 import S3Server

KINDS = ["parquet", "csv", "json", "ipc", "orc"]
SMALL_BLOCKS = {"csv": {"block_size": 64}, "json": {"block_size": 64}}


def table(rows: int = 10, start: int = 0, **more: Any) -> pa.Table:
    ids = range(start, start + rows)
    return pa.table({"id": [*ids], "price": [n / 2 for n in ids], "kind": ["ab"[n % 2] for n in ids], **more})


def write(path: Path, content: pa.Table, part: int = 4) -> str:
    """Write a file of the kind that its name says, with so many rows in each of its parts."""
    kind = path.suffix.removeprefix(".")
    if kind == "parquet":
        pq.write_table(content, path, row_group_size=part)
    elif kind == "csv":
        pa.csv.write_csv(content, path)
    elif kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in content.to_pylist()))
    elif kind == "ipc":
        with pa.ipc.new_file(path, content.schema) as writer:
            writer.write_table(content, max_chunksize=part)
    else:
        pa.orc.write_table(content, path)
    return str(path)


def reader(kind: str, paths: list[Any], *args: Any, **arguments: Any) -> Any:
    return getattr(IterableWrapper(paths), f"read_{kind}")(*args, **SMALL_BLOCKS.get(kind, {}), **arguments)


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


# What comes


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_come_in_order_in_batches_of_at_most_the_size(tmp_path: Path, kind: str) -> None:
    paths = [write(tmp_path / f"{n}.{kind}", table(10, n * 10)) for n in range(3)]
    dp = reader(kind, paths, batch_size=3)
    batches = list(dp)
    assert {type(batch) for batch in batches} == {pa.RecordBatch}
    assert rows(batches) == table(30).to_pylist()
    assert max(batch.num_rows for batch in batches) == (2 if kind == "json" else 3)  # of which blocks are small
    assert dp.schema() == batches[0].schema == table().schema
    with pytest.raises(TypeError):
        len(dp)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_come_in_the_order_in_which_they_are_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"a.{kind}", table())
    dp = reader(kind, [path], ["kind", "id"], filter="price < 2")
    assert rows(dp) == table().select(["kind", "id"]).slice(0, 4).to_pylist()
    assert list(rows(dp)[0]) == ["kind", "id"]
    assert dp.schema().names == ["kind", "id"]


@pytest.mark.parametrize(
    ("kind", "filter"),
    [
        *((kind, "kind == 'a' and id > 3") for kind in KINDS),
        ("parquet", (pc.field("kind") == "a") & (pc.field("id") > 3)),
    ],
)
def test_only_the_rows_that_match_come_in_full_batches(tmp_path: Path, kind: str, filter: Any) -> None:
    paths = [write(tmp_path / f"{n}.{kind}", table(100, n * 100), 100) for n in range(2)]
    dp = getattr(IterableWrapper(paths), f"read_{kind}")(filter=filter, batch_size=20)
    batches = list(dp)
    assert rows(batches) == [row for row in table(200).to_pylist() if row["kind"] == "a" and row["id"] > 3]
    assert [batch.num_rows for batch in batches] == [20, 20, 8, 20, 20, 10]


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_text_is_unpacked_as_its_name_says(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.csv.{ending}"
    with pa.CompressedOutputStream(
        pa.OSFile(str(path), "wb"), {"gz": "gzip", "zst": "zstd"}.get(ending, ending)
    ) as file:
        file.write(b"id\n0\n1\n")
    assert rows(reader("csv", [str(path)])) == [{"id": 0}, {"id": 1}]


def test_options_of_text_formats_are_those_of_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# 2024\n0;1,5\n1;2,5\n")
    dp = IterableWrapper([str(tmp_path / "a.csv")]).read_csv(
        delimiter=";", decimal_point=",", skip_rows=1, column_names=["id", "price"], column_types={"id": pa.int8()}
    )
    assert dp.schema() == pa.schema([("id", pa.int8()), ("price", pa.float64())])
    assert rows(dp) == [{"id": 0, "price": 1.5}, {"id": 1, "price": 2.5}]
    (tmp_path / "a.json").write_text('{"id": 0, "more": 1}\n')
    explicit = pa.schema([("id", pa.int8())])
    json_dp = IterableWrapper([str(tmp_path / "a.json")]).read_json(
        explicit_schema=explicit, unexpected_field_behavior="ignore"
    )
    assert rows(json_dp) == [{"id": 0}]


def test_streams_of_arrow_are_read_as_files_are(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    with pa.ipc.new_stream(path, table().schema) as writer:
        writer.write_table(table(), max_chunksize=3)
    dp = reader("ipc", [str(path)], ["kind"], batch_size=2)
    assert rows(dp) == table().select(["kind"]).to_pylist()


def test_a_local_ipc_file_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.ipc"
    write(path, pa.table({"x": np.zeros(2**20), "y": np.ones(2**20)}), 2**20)
    for columns in (None, ["y"]):
        before = pa.total_allocated_bytes()
        [batch] = reader("ipc", [str(path)], columns, batch_size=2**20)
        assert batch["y"][-1].as_py() == 1
        assert pa.total_allocated_bytes() - before < 2**20


@pytest.mark.parametrize("kind", ["parquet", "csv", "ipc", "orc"])  # of JSON, no rows say nothing of columns
def test_a_file_without_rows_gives_nothing(tmp_path: Path, kind: str) -> None:
    empty, full = write(tmp_path / f"0.{kind}", table(0).cast(table().schema)), write(tmp_path / f"1.{kind}", table(3))
    assert rows(reader(kind, [empty, full])) == table(3).to_pylist()


# How little is read


@pytest.fixture
def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The parts that were read: the name of the file and the number."""
    read: list[tuple[str, int]] = []
    right = ColumnFile.read

    def counted(self: ColumnFile, number: int) -> Any:
        read.append((Path(self.origin.url).stem, number))
        return right(self, number)

    monkeypatch.setattr(ColumnFile, "read", counted)
    return read


def test_row_groups_that_cannot_match_are_not_read(tmp_path: Path, parts_read: list[tuple[str, int]]) -> None:
    paths = [write(tmp_path / f"{n}.parquet", table(10, n * 10), 2) for n in range(2)]
    assert [row["id"] for row in rows(reader("parquet", paths, filter="4 <= id < 7 or id == 19"))] == [4, 5, 6, 19]
    assert sorted(parts_read) == [("0", 2), ("0", 3), ("1", 4)]


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
def test_on_resuming_whole_parts_are_passed_over(tmp_path: Path, kind: str, parts_read: list[tuple[str, int]]) -> None:
    paths = [write(tmp_path / f"{n}.{kind}", table(20, n * 20), 4) for n in range(3)]
    dp, resumed = (reader(kind, paths, batch_size=2, prefetch=1) for _ in range(2))
    iterator = iter(dp)
    for _ in range(17):  # 8 full parts, and one batch of the next
        next(iterator)
    resumed.load_state_dict(passed_on(dp))
    del iterator
    parts_read.clear()
    assert rows(resumed) == table(60).slice(34).to_pylist()
    assert parts_read == [("1", 3), ("1", 4), *(("2", number) for number in range(5))]


# Differing files


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (table(price=["x"] * 10), r"column 'price' is string, and not double, as in '.*a\.parquet'"),
        (table().drop_columns(["price"]), r"column 'price' \(double\) is missing"),
        (table(more=[1] * 10), r"there is a column 'more' \(int64\) more"),
        (table().select(["kind", "price", "id"]), r"come in another order: \['kind', 'price', 'id'\], and not \['id'"),
    ],
    ids=["type", "missing", "more", "order"],
)
def test_a_file_with_other_columns_is_an_error(tmp_path: Path, second: pa.Table, text: str) -> None:
    paths = [write(tmp_path / "a.parquet", table()), write(tmp_path / "b.parquet", second)]
    with pytest.raises(ValueError, match=text) as caught:
        list(reader("parquet", paths))
    assert caught.value.__notes__ == [f"penstock: raised in ParquetReader(), on {paths[1]!r}"]
    assert rows(reader("parquet", paths, ["id"])) == table().select(["id"]).to_pylist() * 2
    dp = reader("parquet", [*paths, paths[0]], on_error="skip")
    assert rows(dp) == table().to_pylist() * 2
    assert dp.stats()["read_parquet"]["skipped"] == 3  # each of its row groups


DIFFERING = [
    pa.table({"id": pa.array([0, 1], pa.int32()), "price": [1, 2]}),
    pa.table({"price": [1.5], "id": pa.array([2], pa.int64()), "kind": ["a"]}),
]


def test_unified_files_have_all_columns_and_the_widest_types(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", each) for n, each in enumerate(DIFFERING)]
    dp = reader("parquet", paths, unify=True)
    unified = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("kind", pa.string())])
    assert dp.schema() == unified
    batches = list(dp)
    assert [batch.schema for batch in batches] == [unified] * 2
    assert rows(batches) == [
        {"id": 0, "price": 1.0, "kind": None},
        {"id": 1, "price": 2.0, "kind": None},
        {"id": 2, "price": 1.5, "kind": "a"},
    ]
    assert rows(reader("parquet", paths, ["kind"], filter="price > 1 and kind is None", unify=True)) == [{"kind": None}]
    assert rows(reader("parquet", paths, unify=unified)) == rows(batches)
    for shard in range(2):  # which alone would have other columns
        dp = IterableWrapper(paths).sharding_filter().read_parquet(unify=True)
        dp.source.apply_sharding(2, shard)
        assert [dp.schema(), *(batch.schema for batch in dp)] == [unified] * 2
    with pytest.raises(ValueError, match="there is no file, or only empty ones, so no schema"):
        reader("parquet", []).schema()


def test_a_value_that_does_not_fit_its_type_is_named_by_column_and_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"x": [1, 2, 3, 4, 5, 300, 6, 400]}), 4)
    dp = reader("parquet", [path], unify=pa.schema([("x", pa.int8())]))
    iterator = iter(dp)
    assert next(iterator)["x"].to_pylist() == [1, 2, 3, 4]
    with pytest.raises(pa.ArrowInvalid, match="300 not in range") as caught:
        next(iterator)
    assert caught.value.__notes__[:2] == [
        "column 'x' is int64, and cannot become int8: row 1 fails",
        "in row group 1 of the file",
    ]
    assert f"on {path!r}" in caught.value.__notes__[2]


# Faults


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_or_wrong_file_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    with pytest.raises(FileNotFoundError) as missing:
        list(reader(kind, [str(path)]))
    assert f"on {str(path)!r}" in missing.value.__notes__[-1]
    path.write_bytes(b'\x00\xff"{' * 100)
    with pytest.raises(OSError if kind == "orc" else pa.ArrowInvalid) as caught:
        list(reader(kind, [str(path)]))
    assert f"on {str(path)!r}" in caught.value.__notes__[-1]
    good = write(tmp_path / f"good.{kind}", table(3))
    dp = reader(kind, [str(path), good], on_error="skip")
    assert rows(dp) == table(3).to_pylist()
    assert dp.stats()[f"read_{kind}"]["skipped"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_there_is_not_is_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"a.{kind}", table())
    with pytest.raises(KeyError, match=r"the file has no column 'cost': its columns are \['id', 'price', 'kind'\]"):
        list(reader(kind, [path], ["id", "cost"]))
    with pytest.raises(
        KeyError, match=r"the filter uses a column 'cost', and the columns are \['id', 'price', 'kind'\]"
    ):
        list(reader(kind, [path], ["id"], filter="cost > 3"))


def test_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,a\n1,2,3\n")
    pq.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), tmp_path / "a.parquet")
    for dp in (ps.read_csv(tmp_path / "a.csv"), ps.read_parquet(tmp_path / "a.parquet")):
        with pytest.raises(ValueError, match=r"several columns 'a', .* column_names=") as caught:
            list(dp)
        assert str(tmp_path) in "".join(caught.value.__notes__)
    assert rows(ps.read_csv(tmp_path / "a.csv", columns=["b"])) == [{"b": 2}]
    renamed = ps.read_csv(tmp_path / "a.csv", column_names=["a", "b", "c"], skip_rows=1)
    assert rows(renamed) == [{"a": 1, "b": 2, "c": 3}]


@pytest.mark.parametrize("lines_before", [1, 100])
def test_a_json_column_that_changes_its_type_says_what_reads_it(tmp_path: Path, lines_before: int) -> None:
    (tmp_path / "a.json").write_text('{"a": "x"}\n' * lines_before + '{"a": 1}\n')
    with pytest.raises(pa.ArrowInvalid, match="changed from string to number") as raised:
        list(ps.read_json(tmp_path / "a.json", block_size=64))
    assert [note for note in raised.value.__notes__ if "ps.read_text(path).parse_json()" in note]
    assert [*ps.read_text(tmp_path / "a.json").parse_json()][-1] == {"a": 1}


def damaged(path: Path) -> str:
    """A file of three row groups, of the second of which a column cannot be read from its second page on."""
    pq.write_table(
        table(6000), path, row_group_size=2000, data_page_size=1000, use_dictionary=False, write_batch_size=100
    )
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(1).column(1)
    start = column.data_page_offset + column.total_compressed_size // 2
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    return str(path)


def test_a_damaged_page_is_named_by_row_group_column_and_row_or_left_out(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.parquet")
    with pytest.raises(OSError) as caught:  # noqa: PT011  the text is pyarrow's
        list(reader("parquet", [path]))
    column, group, item = caught.value.__notes__
    assert column.startswith("column 'price' cannot be read, from row ")
    assert 500 < int(column.split()[7]) <= 1000
    assert group == "in row group 1 of the file"
    assert f"on {path!r}" in item
    assert len(rows(reader("parquet", [path], ["id", "kind"]))) == 6000
    dp = reader("parquet", [path, path], batch_size=2000, on_error="skip")
    assert [batch["id"][0].as_py() for batch in dp] == [0, 4000] * 2
    assert dp.stats()["read_parquet"]["skipped"] == 2
    assert dp.stats()["read_parquet"]["last_errors"][0].endswith(f"on ({path!r}, 1)")


def test_a_damaged_row_of_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(100)) + "x\n" + "5\n" * 100)
    path = str(tmp_path / "a.csv")
    with pytest.raises(pa.ArrowInvalid, match="Row #102: CSV conversion error to int64: invalid value 'x'") as caught:
        list(reader("csv", [path]))
    assert caught.value.__notes__[0].startswith("in block ")
    dp = reader("csv", [path, path], on_error="skip")
    ids = [row["id"] for row in rows(dp)]
    assert ids == [*range(len(ids) // 2)] * 2
    assert 50 < len(ids) // 2 <= 100
    assert dp.stats()["read_csv"]["skipped"] == 2


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_opening_and_reading_are_tried_again(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / f"a.{kind}", table())
    failures = {"__init__": 2, "read": 3}

    def failing(name: str) -> Any:
        right = getattr(ColumnFile, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if failures[name]:
                failures[name] -= 1
                raise OSError("not now")
            return right(self, *args, **kwargs)

        return method

    for name in failures:
        monkeypatch.setattr(ColumnFile, name, failing(name))
    dp = reader(kind, [path], on_error=ps.Retry(3, backoff=0))
    assert rows(dp) == table().to_pylist()
    assert dp.stats()[f"read_{kind}"]["retried"] == 5


def test_text_that_failed_once_is_read_on_from_where_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [5]
    right = pa.csv.open_csv

    class Breaking:
        def __init__(self, *args: Any) -> None:
            self.stream = right(*args)
            self.schema, self.close = self.stream.schema, self.stream.close

        def __iter__(self) -> Iterator[Any]:
            for number, batch in enumerate(self.stream):
                if number in failures:
                    failures.remove(number)
                    raise OSError("the connection is gone")
                yield batch

    monkeypatch.setattr(pa.csv, "open_csv", Breaking)
    dp = reader("csv", [write(tmp_path / "a.csv", table(200))], on_error=ps.Retry(1, backoff=0))
    assert rows(dp) == table(200).to_pylist()
    assert dp.stats()["read_csv"]["retried"] == 1


@pytest.mark.parametrize(
    ("kind", "content", "error", "text"),
    [
        ("json", b' [{"a": 1}]', ValueError, "the file is one list"),
        ("feather", b"FEA1" + bytes(60), ValueError, "Feather's version 1"),
        ("csv", b"a\n1\n", TypeError, "Parquet files have row groups"),
        (None, b"", TypeError, "a path must be a string or os.PathLike, and is of type int"),
    ],
)
def test_other_files_are_an_error(
    tmp_path: Path, kind: str | None, content: bytes, error: type[Exception], text: str
) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(content)
    item = {None: 3, "csv": RowGroup(str(path), 0, 4)}.get(kind, str(path))
    with pytest.raises(error, match=text) as caught:
        list(reader({None: "parquet", "feather": "ipc"}.get(kind, kind), [item]))
    assert kind is None or str(path) in "".join(caught.value.__notes__)


def test_a_program_that_ends_in_the_middle_of_passes_ends_quietly(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.root / "columns-end"
    bucket.mkdir()
    for kind in KINDS:
        write(bucket / f"a.{kind}", table(20_000), 1000)
    code = f"""
import penstock as ps
for place in ({str(bucket)!r}, "s3://columns-end"):
    for kind in {KINDS!r}:
        dp = getattr(ps.iter.IterableWrapper([f"{{place}}/a.{{kind}}"] * 5), f"read_{{kind}}")(batch_size=10)
        globals()[f"{{place}} {{kind}}"] = iter(dp)
        next(globals()[f"{{place}} {{kind}}"])
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


# Other places


def test_of_an_object_only_wanted_parts_are_fetched(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.storage import objects as object_ranges

    bucket = s3_server.root / "columns-little"
    bucket.mkdir()
    random = np.random.default_rng(0)
    wide = pa.table({f"x{n}": random.standard_normal(2**18) for n in range(16)} | {"id": range(2**18)})
    pq.write_table(wide, bucket / "a.parquet", row_group_size=2**16, compression="none")
    fetched: list[int] = []
    right = object_ranges._Ranges.__call__
    monkeypatch.setattr(
        object_ranges._Ranges,
        "__call__",
        lambda self, start, end: (fetched.append(end - start), right(self, start, end))[1],
    )
    url = f"s3://{bucket.name}/a.parquet"
    [batch] = reader("parquet", [url], ["x3"], filter=f"id >= {3 * 2**16}")
    assert batch.num_rows == 2**16
    assert sum(fetched) < 6 * 2**20 < (bucket / "a.parquet").stat().st_size // 5
