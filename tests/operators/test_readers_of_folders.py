"""Chains over files with columns, images, text or arrays, by one call: what is listed, what is not opened."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from PIL import Image

import penstock as ps
from penstock.pipes.columns.files import CODECS, ColumnFile
from penstock.pipes.columns.text_formats import TEXT
from penstock.pipes.files.extensions import EXTENSIONS
from penstock.pipes.iter import TableFileLister
from s3 import S3Server


def write(path: Path, *ids: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [*ids]}), path, row_group_size=2)
    return str(path)


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def ids(batches: Any) -> list[int]:
    return [row["id"] for row in rows(batches)]


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    folder = tmp_path / "sales"
    for n, (year, shop) in enumerate([(2023, "a b"), (2023, "7"), (2024, "7")]):
        write(folder / f"year={year}" / f"shop={shop.replace(' ', '%20')}" / "0.parquet", n * 10, n * 10 + 1)
    return folder


# What is read


def test_a_file_a_list_a_folder_and_a_pattern_are_read_in_sorted_order(tmp_path: Path) -> None:
    b, a = write(tmp_path / "b.parquet", 2), write(tmp_path / "a.parquet", 1)
    c = write(tmp_path / "below" / "c.parquet", 3)
    assert ids(ps.read_parquet(a)) == ids(ps.read_parquet(Path(a))) == [1]
    assert ids(ps.read_parquet([b, a])) == [2, 1]
    assert ids(ps.read_parquet(str(tmp_path))) == [1, 2, 3]
    assert ids(ps.read_parquet(f"{tmp_path}/")) == [1, 2, 3]
    assert ids(ps.read_parquet(f"{tmp_path}/*.parquet")) == [1, 2]
    assert ids(ps.read_parquet(f"{tmp_path}/**/[bc].parquet")) == [2, 3]
    assert ids(ps.read_parquet([c, f"{tmp_path}/a*"])) == [3, 1]


@pytest.mark.parametrize("name", ["run[1]", "what?", "st*r"])
def test_a_folder_of_the_very_name_comes_before_a_pattern(name: str, tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.root / f"literal-{len(name)}-{ord(name[-1])}"
    for root, url in ((bucket, f"s3://{bucket.name}"), (tmp_path, str(tmp_path))):
        write(root / name / "a.parquet", 1)
        for other in ("run1", "whats", "star"):
            write(root / other / "a.parquet", 2)
        for ending in ("", "/", "/a.parquet"):
            assert ids(ps.read_parquet(f"{url}/{name}{ending}")) == [1]
        assert sorted(ids(ps.read_parquet(f"{url}/*/a.parquet"))) == [1, 2, 2, 2]


def test_a_folder_gives_files_of_the_format_that_are_not_hidden(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 1)
    for name in ("_SUCCESS", "_metadata.parquet", ".a.parquet", "notes.txt", "_temporary/b.parquet", ".git/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"not of the data")
    assert list(TableFileLister(str(tmp_path), "parquet")) == [path]


ONE_OF_EACH = {
    "parquet": ("a.PARQUET", "b.Parq", "c.pq"),
    "csv": ("a.CSV", "b.Tsv", "c.csv.GZ", "d.TSV.zst", "e.csv.lz4"),
    "json": ("a.JSONL", "b.Json", "c.NDJSON.Bz2", "d.json.gz"),
    "ipc": ("a.ARROW", "b.Feather"),
    "orc": ("a.ORC",),
    "images": ("a.Jpg", "b.TIF", "c.pgm", "d.jfif", "e.GIF", "f.pbm", "g.Jpe", "h.webP"),
    "text": ("a.TXT", "b.Txt"),
    "numpy": ("a.NPY", "b.Npz"),
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize("place", ["disk", "memory"])
def test_endings_match_in_any_case_and_other_files_are_counted(kind: str, place: str, tmp_path: Path) -> None:
    root = f"{tmp_path}/x" if place == "disk" else f"memory://endings-{kind}"
    others = ("notes.doc", "below/a.parquetx", "png", "README")
    for name in (*ONE_OF_EACH[kind], *others, "_SUCCESS", ".hidden/a.txt"):
        with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as file:
            file.write(b"x")
    dp = TableFileLister(root, kind)
    for _ in range(2):  # each pass counts anew
        assert [url.rpartition("/")[2] for url in dp] == [*ONE_OF_EACH[kind]]
        counts = dp.stats()["list_table_files"]
        assert (counts["skipped"], counts["retried"]) == (4, 0)
        assert sorted(counts["last_errors"]) == sorted(
            f"its extension is not one of {kind}: '{root}/{name}'" for name in others
        )


def test_the_endings_are_documented() -> None:
    documented = " ".join((TableFileLister.__doc__ or "").partition("- `")[2].partition("Other files")[0].split())
    for kind, endings in EXTENSIONS.items():
        plain = [ending[1:] for ending in endings if ending.count(".") == 1]
        assert f'"{kind}"`: {", ".join(plain)}' in documented
        codecs = {"text": [".gz", ".bz2", ".zst", ".xz"], **{key: [*CODECS] for key in TEXT}}.get(kind, [])
        packed = [f".{ending}{codec}" for ending in plain for codec in codecs]
        assert sorted({*endings} - {f".{ending}" for ending in plain}) == sorted(packed)


@pytest.mark.parametrize("place", ["", "memory://written", "s3://written"])
def test_patterns_find_what_was_written_and_not_the_index(place: str, tmp_path: Path, s3_server: S3Server) -> None:
    if place.startswith("s3"):
        s3_server.empty_bucket("written")
    folder = f"{place or tmp_path}/.of/numbers"
    numbers = [{"id": number} for number in range(4)]
    assert ps.from_items(numbers).write_json(folder).run()["files"] == 1
    assert ids(ps.read_json(f"{folder}/*.json")) == [0, 1, 2, 3]
    assert ids(ps.read_json(f"{folder}/*.json", unify=True)) == [0, 1, 2, 3]
    assert [row["id"] for row in ps.read_text(f"{folder}/*").parse_json()] == [0, 1, 2, 3]
    assert [*TableFileLister(f"{folder}/.*", "json")] == [f"{folder}/.part-index.json"]


def test_other_files_count_as_skipped_in_loaders_and_not_against_a_limit(tmp_path: Path) -> None:
    write(tmp_path / "a.PQ", 1, 2)
    for name in ("b.doc", "c.doc"):
        (tmp_path / name).touch()
    dp = ps.read_parquet([str(tmp_path), str(tmp_path / "none")], on_error=ps.Skip(1))
    assert ids(dp) == [1, 2]
    assert dp.stats()["list_table_files"]["skipped"] == 3
    assert dp.run()["skipped"] == 3
    loader = ps.DataLoader2(ps.read_parquet(str(tmp_path)))
    assert ids(loader) == [1, 2]
    assert loader.stats()["list_table_files"]["skipped"] == 2
    assert list(ps.read_parquet(str(tmp_path / "a.PQ")).stats()) == []


def test_a_file_named_tsv_is_parsed_by_tabs_unless_a_delimiter_is_given(tmp_path: Path) -> None:
    of_tabs, of_commas = "id\tx\n1\t2,5\n", "id,x\n3,4\n"
    (tmp_path / "a.tsv").write_text(of_tabs)
    with gzip.open(tmp_path / "b.Tsv.GZ", "wt") as file:
        file.write(of_tabs)
    (tmp_path / "c.tsv.csv").write_text(of_commas)
    for name in ("a.tsv", "b.Tsv.GZ"):
        assert rows(ps.read_csv(str(tmp_path / name))) == [{"id": 1, "x": "2,5"}]
    assert rows(ps.read_csv(str(tmp_path / "c.tsv.csv"))) == [{"id": 3, "x": 4}]
    assert rows(ps.read_csv(str(tmp_path / "a.tsv"), delimiter=";")) == [{"id\tx": "1\t2,5"}]
    (tmp_path / "long.TSV").write_text("id\tx\n" + "".join(f"{n}\ta,b\n" for n in range(100)))
    found = []
    for part in range(2):
        dp = ps.iter.IterableWrapper([str(tmp_path / "long.TSV")]).shard_files("csv", min_bytes=100)
        dp = dp.read_csv(block_size=100)
        ps.registry.apply_sharding(dp, 2, part)
        found += rows(dp)
    assert sorted(row["id"] for row in found) == [*range(100)]
    assert {row["x"] for row in found} == {"a,b"}


def test_a_place_without_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with pytest.raises(
        FileNotFoundError, match=r"there is no file \*\.parquet.*; give a pattern for files with other names"
    ):
        list(ps.read_parquet(str(tmp_path)))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        list(ps.read_parquet(f"{tmp_path}/*.parquet"))
    with pytest.raises(FileNotFoundError):
        list(ps.read_parquet(f"{tmp_path}/none"))
    assert list(ps.read_parquet(f"{tmp_path}/none", on_error="skip")) == []
    with pytest.raises(ValueError, match="kind must be one of 'parquet', 'csv', 'json', 'ipc', 'orc'"):
        TableFileLister(".", "excel")


def test_every_format_has_a_source(tmp_path: Path) -> None:
    content = pa.table({"id": [1, 2]})
    pa.feather.write_feather(content, str(tmp_path / "a.feather"))
    pa.orc.write_table(content, str(tmp_path / "a.orc"))
    (tmp_path / "a.csv").write_text("id;x\n1;0\n2;0\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    place = str(tmp_path)
    assert ids(ps.read_ipc(place)) == ids(ps.read_orc(place)) == ids(ps.read_json(place, block_size=100)) == [1, 2]
    assert rows(ps.read_csv(place, ["id"], "x == 0", 1, delimiter=";")) == [{"id": 1}, {"id": 2}]


def test_images_text_and_arrays_have_a_source(tmp_path: Path) -> None:
    for place in ("b/one.png", "a/two.JPG"):
        (tmp_path / place).parent.mkdir()
        Image.new("L", (3, 2), 7).save(tmp_path / place)
    (tmp_path / "a" / "notes.txt").write_text("one\n\ntwo\n")
    np.save(tmp_path / "numbers.npy", np.arange(3))
    place, image, notes = str(tmp_path), str(tmp_path / "b" / "one.png"), str(tmp_path / "a" / "notes.txt")
    assert [row["path"][-7:] for row in ps.read_images(place, include_paths=True)] == ["two.JPG", "one.png"]
    assert [row["image"].shape for row in ps.read_images([image, f"{place}/a/*.JPG"], mode="L")] == [(1, 2, 3)] * 2
    assert list(ps.read_text(f"{place}/*/*.txt", True)) == [{"text": text, "path": notes} for text in ("one", "two")]
    assert list(ps.read_text(Path(notes), encoding="ascii", drop_empty_lines=False))[1] == {"text": ""}
    assert rows(ps.read_numpy(place)) == [{"data": 0}, {"data": 1}, {"data": 2}]
    for read, kind in ((ps.read_images, "png"), (ps.read_text, "txt"), (ps.read_numpy, "npy")):
        (tmp_path / kind).mkdir()
        with pytest.raises(FileNotFoundError, match=rf"there is no file \*\.{kind}.* in "):
            list(read(str(tmp_path / kind)))
        assert list(read(f"{place}/none.{kind}", on_error="skip")) == []


# Folders that say something


def test_folders_give_columns_of_the_type_that_all_values_have(sales: Path) -> None:
    dp = ps.read_parquet(str(sales))
    assert dp.schema() == pa.schema([("id", pa.int64()), ("year", pa.int64()), ("shop", pa.string())])
    batches = list(dp)
    assert {batch.schema for batch in batches} == {dp.schema()}
    assert rows(batches)[::2] == [
        {"id": 10, "year": 2023, "shop": "7"},
        {"id": 0, "year": 2023, "shop": "a b"},
        {"id": 20, "year": 2024, "shop": "7"},
    ]
    assert rows(ps.read_parquet(f"{sales}/year=2024"))[0] == {"id": 20, "year": 2024, "shop": 7}
    assert rows(ps.read_parquet(str(sales), ["shop"], "year == 2024")) == [{"shop": "7"}] * 2
    assert ps.read_parquet(str(sales), hive=False).schema().names == ["id"]


def test_a_folder_goes_before_a_column_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "id=5" / "a.parquet", 1)
    write(tmp_path / "id=__HIVE_DEFAULT_PARTITION__" / "a.parquet", 2)
    dp = ps.read_parquet(str(tmp_path))
    assert dp.schema() == pa.schema([("id", pa.int64())])
    assert ids(dp) == [5, None]
    assert ids(ps.read_parquet(str(tmp_path), filter="id is None")) == [None]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("filter", ["year == 2024 and id > 0", (pc.field("year") == 2024) & (pc.field("id") > 0)])
def test_files_that_cannot_match_by_their_folders_are_not_opened(
    sales: Path, filter: Any, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    right = ColumnFile.__init__
    monkeypatch.setattr(
        ColumnFile,
        "__init__",
        lambda self, origin, *a, **k: (opened.append(origin.url), right(self, origin, *a, **k))[1],
    )
    assert list(ps.read_parquet(str(sales), filter="year > 2030")) == opened == []
    assert ids(ps.read_parquet(str(sales), filter=filter, shuffle_row_groups=shuffled)) == [20, 21]
    assert opened
    assert {url.split("/")[-3] for url in opened} == {"year=2024"}


# Other places


def test_a_folder_of_s3_is_read(s3_server: S3Server) -> None:
    bucket = s3_server.root / "sources"
    for year in (2023, 2024):
        write(bucket / "sales" / f"year={year}" / "0.parquet", year * 10, year * 10 + 1)
    for place in ("s3://sources/sales", "s3://sources/sales/*/*.parquet"):
        assert ids(ps.read_parquet(place)) == [20230, 20231, 20240, 20241]
    dp = ps.read_parquet("s3://sources/sales", ["year", "id"], "year == 2024 and id == 20241")
    assert rows(dp) == [{"year": 2024, "id": 20241}]
    given = {"endpoint_url": s3_server.endpoint, "key": s3_server.key, "secret": s3_server.secret}
    assert len(ids(ps.read_parquet("s3://sources/sales", storage_options=given))) == 4
