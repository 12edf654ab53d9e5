"""Keys are literal, whatever they are made of: in openers, listers, readers, writers, checkpoints and caches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import torch
import torch.distributed.checkpoint as dcp

import penstock as ps
from key_server import serving_keys
from penstock.checkpoint import StorageReader, StorageWriter
from penstock.pipes.iter import IterableWrapper

NAMES = [
    *("a//b", "a\nb", "a\r\nb", " a", "a ", "d/ e /f", "/a", "//a", "/[a]", "d/./a", "d/../a", ".."),
    *("a\tb", "[1]", "a%20b", "a::b", "\u2028"),
]
ENDING_IN_SLASHES = ["a/", "a//", " /"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serving_keys() as url:
        yield url


class Bucket:
    """A bucket by botocore, which takes keys as they are."""

    url = "s3://bucket"

    def __init__(self, endpoint: str) -> None:
        self.client: Any = botocore.session.get_session().create_client("s3", endpoint_url=endpoint)
        for key in self.names():
            self.client.delete_object(Bucket="bucket", Key=key)

    def names(self) -> list[str]:
        return sorted(each["Key"] for each in self.client.list_objects_v2(Bucket="bucket").get("Contents", ()))

    def put(self, *keys: str) -> None:
        """Put objects, each of which is its key in UTF-8."""
        for key in keys:
            self.client.put_object(Bucket="bucket", Key=key, Body=key.encode())


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    import s3fs

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    yield Bucket(endpoint)
    s3fs.S3FileSystem.clear_instance_cache()


def beside(name: str) -> list[str]:
    """Names that another reading of a name would lead to."""
    plain = [name.strip("/ \n"), name.replace("//", "/"), name.replace("\n", ""), name.strip(), "a", "a1", "ab", "f"]
    return sorted({each for each in plain if each and each != name})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_that_of_one_object(name: str, bucket: Bucket, tmp_path: Path) -> None:
    bucket.put(name, *beside(name))
    url, content = f"{bucket.url}/{name}", name.encode()

    def of_streams(dp: Any) -> Any:
        return list(dp.read_from_stream())

    urls = IterableWrapper([url])
    assert of_streams(urls.open_files_by_fsspec(mode="rb")) == [(url, content)]
    assert of_streams(urls.load_files_by_s3()) == [(url, content)]
    for _ in range(2):  # the second time out of the cache
        assert of_streams(urls.cache_files(tmp_path / "cache", 10**6)) == [(url, content)]
    assert ps.open_to_seek(url).read() == content
    assert "".join(row["text"] for row in urls.read_text(drop_empty_lines=False)) == name.replace("\n", "").replace(
        "\r", ""
    )
    assert list(urls.list_files_by_fsspec()) == list(urls.list_table_files("text")) == [url]
    assert url in list(urls.list_files_by_s3())


@pytest.mark.parametrize(
    ("name", "slash"),
    [*((name, "") for name in [*NAMES, *ENDING_IN_SLASHES]), ("a//b", "/"), ("a//", "/"), ("/a", "/")],
)
def test_a_name_is_that_of_one_folder(name: str, slash: str, bucket: Bucket) -> None:
    folder = f"{name}{slash or '' if name.endswith('/') else '/'}"
    keys = [f"{folder}1.txt", f"{folder}below/2.txt"]
    bucket.put(
        *keys,
        *(f"{each}/{file}.txt" for each in beside(name) if each.rstrip("/") != name.rstrip("/") for file in (1, 3)),
    )
    root, urls = f"{bucket.url}/{name}{slash}", [f"{bucket.url}/{key}" for key in keys]
    assert list(IterableWrapper([root]).list_files_by_fsspec()) == urls[:1]
    assert list(IterableWrapper([root]).list_table_files("text")) == urls
    assert list(IterableWrapper([f"{bucket.url}/{folder}"]).list_files_by_s3()) == urls
    assert "".join(row["text"] for row in ps.read_text(root, drop_empty_lines=False)) == "".join(keys).replace(
        "\n", ""
    ).replace("\r", "")


@pytest.mark.parametrize("name", [*NAMES, *ENDING_IN_SLASHES])
def test_what_is_written_to_a_folder_is_read_back(name: str, bucket: Bucket) -> None:
    others = [
        f"{each}/part-0000{n}.json" for each in beside(name) if each.rstrip("/") != name.rstrip("/") for n in (0, 1)
    ]
    bucket.put(*others)
    url, folder = f"{bucket.url}/{name}", name if name.endswith("/") else f"{name}/"

    def write(*ids: int, **arguments: Any) -> Any:
        return ps.from_items([{"id": each} for each in ids]).write_json(url, 1, **arguments).run()

    def ids() -> list[int]:
        return [row["id"] for batch in ps.read_json(url) for row in batch.to_pylist()]

    write(1, 2)
    assert bucket.names() == sorted([*others, *(f"{folder}{file}" for file in (
        ".part-index.json", "part-00000.json", "part-00001.json",
    ))])  # fmt: skip
    with pytest.raises(FileExistsError, match="2 files of an earlier run"):
        write(3)
    write(3, mode="append")
    assert ids() == [1, 2, 3]
    write(4, mode="overwrite")
    assert ids() == [4]
    assert {*others} < {*bucket.names()}
    saved = IterableWrapper([(f"{url}x", b"content")]).save_by_fsspec("wb")
    assert list(saved) == [f"{url}x"]
    assert f"{name}x" in bucket.names()


@pytest.mark.filterwarnings("ignore:Detected an existing checkpoint")
@pytest.mark.parametrize("name", [*NAMES, *ENDING_IN_SLASHES])
def test_a_checkpoint_keeps_to_its_folder(name: str, bucket: Bucket) -> None:
    others = [f"{each}/__0_0.distcp" for each in beside(name) if each.rstrip("/") != name.rstrip("/")]
    bucket.put(*others)
    url, folder = f"{bucket.url}/{name}", name if name.endswith("/") else f"{name}/"
    for value in (1.0, 2.0):
        dcp.save({"weight": torch.full((2,), value)}, storage_writer=StorageWriter(url), no_dist=True)
        state = {"weight": torch.zeros(2)}
        dcp.load(state, storage_reader=StorageReader(url), no_dist=True)
        assert state["weight"].tolist() == [value] * 2
    written = {*bucket.names()} - {*others}
    assert len(written) == 2
    assert all(key.startswith(folder) for key in written)
    assert {*others} < {*bucket.names()}


@pytest.mark.parametrize("name", ["a/", "a//", "/"])
def test_an_object_whose_name_ends_in_a_slash_is_an_error(name: str, bucket: Bucket) -> None:
    bucket.put(name, "a")
    urls = IterableWrapper([f"{bucket.url}/{name}"])
    for read in (urls.open_files_by_fsspec(mode="rb"), urls.load_files_by_s3(), urls.read_text()):
        with pytest.raises(ValueError, match="ends in a slash: s3fs would take another object"):
            list(read)  # type: ignore[call-overload]


def test_a_folder_that_is_not_there_is_an_error(bucket: Bucket) -> None:
    bucket.put("a/1.txt", "b//1.txt")
    for name in ("/a", "a//", "//a/"):
        for dp in (
            IterableWrapper([f"{bucket.url}/{name}"]).list_files_by_fsspec(),
            ps.read_text(f"{bucket.url}/{name}"),
        ):
            with pytest.raises(FileNotFoundError, match="no such file or folder"):
                list(dp)  # type: ignore[call-overload]


def test_a_pattern_matches_names_with_slashes_and_blanks_inside(bucket: Bucket) -> None:
    keys = ["a//b/1.txt", "a//b/2.txt", "c / d/3.txt", "e\tf/4.txt"]
    bucket.put(*keys, "a/b/5.txt")
    assert list(IterableWrapper([f"{bucket.url}/a//b/*.txt"]).list_table_files("text")) == [
        f"{bucket.url}/{key}" for key in keys[:2]
    ]
    assert list(IterableWrapper([f"{bucket.url}/c / */[3].txt"]).list_table_files("text")) == [
        f"{bucket.url}/{keys[2]}"
    ]
    assert list(IterableWrapper([f"{bucket.url}/e\t*/*"]).list_table_files("text")) == [f"{bucket.url}/{keys[3]}"]


@pytest.mark.filterwarnings("ignore:Detected an existing checkpoint")
@pytest.mark.parametrize(
    "name", ["a\nb", " a", "a ", "d/ e /f", "a\tb", "[1]", "a?", "a*", "a#b", "a%20b", "a::b", "\u2028"]
)
@pytest.mark.parametrize("protocol", ["", "file://", "local://"])
def test_names_on_a_disk_are_literal(protocol: str, name: str, tmp_path: Path) -> None:
    for other in beside(name):
        (tmp_path / other).mkdir(parents=True, exist_ok=True)
        (tmp_path / other / "part-00000.json").touch()
    url = f"{protocol}{tmp_path}/{name}"
    ps.from_items([{"id": 1}]).write_json(url).run()
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [".part-index.json", "part-00000.json"]
    assert [batch.to_pylist() for batch in ps.read_json(url)] == [[{"id": 1}]]
    files = [f"{url}/part-00000.json"]
    assert [path.removeprefix("file://") for path in IterableWrapper([url]).list_table_files("json")] == [
        path.removeprefix("file://") for path in files
    ]
    content = [(files[0], b'{"id":1}\n')]
    assert list(IterableWrapper(files).open_files_by_fsspec(mode="rb").read_from_stream()) == content
    for _ in range(2):
        cached = IterableWrapper(files).cache_files(tmp_path / "cache", 10**6)
        assert list(cached.read_from_stream()) == content
    for value in (1.0, 2.0):
        dcp.save({"weight": torch.full((2,), value)}, storage_writer=StorageWriter(f"{url}/c"), no_dist=True)
        state = {"weight": torch.zeros(2)}
        dcp.load(state, storage_reader=StorageReader(f"{url}/c"), no_dist=True)
        assert state["weight"].tolist() == [value] * 2
    assert len([*(tmp_path / name / "c").iterdir()]) == 2


def test_an_address_in_memory_is_no_chain() -> None:
    pairs = [(f"memory://no-chain/a::b/{number}.txt", b"%d" % number) for number in range(2)]
    assert len(list(ps.iter.IterableWrapper(pairs).save_by_fsspec(mode="wb"))) == 2
    read = ps.iter.IterableWrapper([url for url, _ in pairs]).open_files_by_fsspec("rb")
    assert [stream.read() for _, stream in read] == [b"0", b"1"]
