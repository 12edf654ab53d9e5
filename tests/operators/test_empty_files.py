"""Text files without rows: alone, and beside others, whatever these have."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import MultiProcessingReadingService

READ = {"csv": ps.read_csv, "json": ps.read_json}
CONTENT = {"csv": b"id,x\n1,a\n2,b\n", "json": b'{"id": 1, "x": "a"}\n{"id": 2, "x": "b"}\n'}
ROWS = [{"id": 1, "x": "a"}, {"id": 2, "x": "b"}]
EMPTY = {
    "no bytes": (b"", ""),
    "a line end": (b"\r\n", ""),
    "a byte order mark": (b"\xef\xbb\xbf", ""),
    "many blank lines": (b"\n" * 3_000_000, ""),
    "zipped": (gzip.compress(b""), ".gz"),
    "zipped line ends": (gzip.compress(b"\n\n"), ".gz"),
    "no bytes of a zip": (b"", ".gz"),
}


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", READ)
def test_an_empty_file_has_no_rows(kind: str, empty: str, tmp_path: Path) -> None:
    content, ending = EMPTY[empty]
    path = tmp_path / f"a.{kind}{ending}"
    path.write_bytes(content)
    read = READ[kind]
    assert rows(read(path)) == rows(read(path, ["id"], "id > 1")) == rows(read(path, unify=True)) == []
    assert rows(read(path, unify=pa.schema([("id", pa.int64())]))) == []
    with pytest.raises(ValueError, match="only empty ones, so no schema"):
        read(path).schema()


@pytest.mark.parametrize("empty", ["no bytes", "zipped"])
@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("names", ["abc", "bca", "cba"])
def test_an_empty_file_may_lie_beside_others(kind: str, empty: str, names: str, tmp_path: Path) -> None:
    content, ending = EMPTY[empty]
    (tmp_path / "year=1").mkdir()
    places = [tmp_path / f"year=1/{names[0]}.{kind}{ending}", tmp_path / f"year=1/{names[1]}.{kind}"]
    for place, each in zip(places, (content, CONTENT[kind]), strict=True):
        place.write_bytes(each)
    read, expected = READ[kind], [{**row, "year": 1} for row in ROWS]
    assert rows(read(tmp_path)) == rows(read(tmp_path, unify=True)) == expected
    assert read(tmp_path).schema().names == read(tmp_path, unify=True).schema().names == ["id", "x", "year"]
    assert rows(read(tmp_path, ["x"], "id > 1 and year == 1")) == [{"x": "b"}]
    dp = read(tmp_path)
    loader = ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(0, num_shards=2))
    assert rows(loader) == expected
    state = dp.state_dict()
    dp.load_state_dict(state)
    assert rows(dp) == expected


@pytest.mark.parametrize("kind", READ)
def test_a_file_with_something_in_it_that_is_no_row_is_an_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(b"\n" * 100 + b'{"id": \n' if kind == "json" else b"id,x\n1\n")
    with pytest.raises(pa.ArrowInvalid):
        rows(READ[kind](path))


@pytest.mark.parametrize("late", ['{"a": 1.5}', '{"a": "x"}', '{"b": 1}'])
@pytest.mark.parametrize("first", ['{"a": 1}', '{"a": null}'])
def test_fields_and_types_that_appear_late_are_told_how_to_be_given(first: str, late: str, tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    path.write_text(f"{first}\n" * 200 + f"{late}\n")
    with pytest.raises(pa.ArrowInvalid) as caught:
        list(ps.read_json(str(path), block_size=300))
    assert any("explicit_schema=" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("kind", READ)
def test_a_blank_file_is_not_divided(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{kind}").write_bytes(b"\n" * 1000)
    dp = ps.iter.IterableWrapper([str(tmp_path / f"a.{kind}")]).shard_files(kind, min_bytes=100)
    dp = getattr(dp, f"read_{kind}")(block_size=100)
    ps.registry.apply_sharding(dp, 2, 1)
    with pytest.raises(
        ValueError, match="the first blocks of the file are blank: put sharding_filter in place of shard_files"
    ):
        rows(dp)
