from __future__ import annotations

import pickle
from typing import Any

import pytest
import s3fs

import penstock as ps
from penstock.pipes.iter import IterableWrapper, S3FileLister
from penstock.registry import check_operator
from resuming import assert_resumes_everywhere
from s3 import S3Server

FILES = {"b.txt": b"two", "a.txt": b"one", "c.bin": b"\xff", "sub/d.txt": b"four", "sub/deep/e.txt": b"five", "z": b""}
URLS = [f"s3://lists/{name}" for name in sorted(FILES)]


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The URL of a bucket with files."""
    for name, content in FILES.items():
        path = s3_server.root / "lists" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (s3_server.root / "other").mkdir(exist_ok=True)
    (s3_server.root / "other" / "f.txt").write_bytes(b"six")
    return "s3://lists"


def listed(*prefixes: str, **arguments: Any) -> list[str]:
    return list(IterableWrapper(prefixes).list_files_by_s3(**arguments))


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("s3://lists", URLS),
        ("s3://lists/", URLS),
        ("s3://lists/sub/", URLS[3:5]),
        ("s3://lists/su", URLS[3:5]),
        ("s3://lists/a.txt", URLS[:1]),
        ("s3://lists/none", []),
    ],
)
def test_all_objects_with_a_prefix_are_listed_in_the_order_of_their_keys(prefix: str, expected: list[str]) -> None:
    assert listed(prefix) == expected


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ("*.txt", [url for url in URLS if url.endswith(".txt")]),
        (["d.*", "*.bin"], [URLS[2], URLS[3]]),
        ("s3://*/sub/*", URLS[3:5]),
        ("sub*", []),
    ],
)
def test_a_mask_is_for_the_name_and_one_with_a_slash_for_the_url(masks: Any, expected: list[str]) -> None:
    assert listed("s3://lists", masks=masks) == expected


def test_several_prefixes_are_listed_one_after_another(bucket: str) -> None:
    assert listed("s3://other", f"{bucket}/z", "s3a://other") == [
        "s3://other/f.txt",
        f"{bucket}/z",
        "s3a://other/f.txt",
    ]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests for pages of a listing: the server of the tests gives one page only, so these are played."""
    asked: list[dict[str, Any]] = []
    keys = ["a", "b/", "b/c", "d", "e"]

    def answer(self: Any, method: str, **arguments: Any) -> dict[str, Any]:
        assert method == "list_objects_v2"
        asked.append(arguments)
        start = int(arguments.get("ContinuationToken", 0))
        page: dict[str, Any] = {"Contents": [{"Key": key} for key in keys[start : start + 2]], "IsTruncated": start < 4}
        return {**page, "NextContinuationToken": str(start + 2)} if start < 4 else page

    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", answer)
    return asked


@pytest.mark.usefixtures("s3_server")
def test_pages_are_asked_for_when_they_are_needed(pages: list[dict[str, Any]]) -> None:
    iterator = iter(IterableWrapper(["s3://bucket/x"]).list_files_by_s3())
    assert [next(iterator), next(iterator)] == ["s3://bucket/a", "s3://bucket/b/c"]
    assert pages == [
        {"Bucket": "bucket", "Prefix": "x"},
        {"Bucket": "bucket", "Prefix": "x", "ContinuationToken": "2"},
    ]
    assert list(iterator) == ["s3://bucket/d", "s3://bucket/e"]
    assert len(pages) == 3


@pytest.mark.usefixtures("s3_server", "pages")
def test_listing_resumes_on_any_page_and_holds_the_laws() -> None:
    def make() -> ps.IterDataPipe[str]:
        return IterableWrapper(["s3://one", "s3://two"]).list_files_by_s3()

    assert_resumes_everywhere(make)
    check_operator(make)


def test_objects_are_loaded_as_streams_of_bytes(bucket: str) -> None:
    dp = IterableWrapper([bucket, "s3://other"]).list_files_by_s3().load_files_by_s3()
    assert list(dp.read_from_stream()) == [
        *((url, FILES[url.removeprefix(f"{bucket}/")]) for url in URLS),
        ("s3://other/f.txt", b"six"),
    ]
    [(_, stream)] = IterableWrapper([f"{bucket}/sub/d.txt"]).load_files_by_s3()
    assert stream.seek(1) == 1
    assert stream.read(2) == b"ou"


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("method", ["list_files_by_s3", "load_files_by_s3"])
def test_a_region_and_a_timeout_reach_the_client(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    make = s3fs.S3FileSystem.__init__

    def recorded(self: Any, *args: Any, **arguments: Any) -> None:
        seen.append(arguments)
        make(self, *args, **arguments)

    monkeypatch.setattr(s3fs.S3FileSystem, "__init__", recorded)
    dp = getattr(IterableWrapper(["s3://lists/a.txt"]), method)(request_timeout_ms=1500, region="eu-west-1")
    assert len(list(dp)) == 1
    assert seen == [
        {
            "config_kwargs": {"connect_timeout": 1.5, "read_timeout": 1.5},
            "client_kwargs": {"region_name": "eu-west-1"},
        }
    ]


@pytest.mark.usefixtures("bucket")
def test_the_old_clients_settings_are_accepted() -> None:
    source = IterableWrapper(["s3://lists/a.txt"])
    assert len(list(source.load_files_by_s3(-1, "", 1 << 20, True))) == 1
    assert "buffer_size=1048576, multi_part_download=True" in repr(source.load_files_by_s3(-1, "", 1 << 20, True))


@pytest.mark.parametrize("milliseconds", [0, -2])
@pytest.mark.parametrize("method", ["list_files_by_s3", "load_files_by_s3"])
def test_a_timeout_that_is_none_raises_at_construction(method: str, milliseconds: int) -> None:
    with pytest.raises(ValueError, match="request_timeout_ms must be milliseconds"):
        getattr(IterableWrapper([]), method)(request_timeout_ms=milliseconds)


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("method", ["list_files_by_s3", "load_files_by_s3"])
def test_a_missing_bucket_is_an_error_that_can_be_skipped(method: str) -> None:
    urls = ["s3://nobucket/a", "s3://lists/a.txt"]
    with pytest.raises(FileNotFoundError) as caught:
        list(getattr(IterableWrapper(urls), method)())
    assert "s3://nobucket/a" in caught.value.__notes__[0]
    dp = getattr(IterableWrapper(urls), method)(on_error=ps.Skip(errors=OSError))
    assert len(list(dp)) == 1
    assert dp.stats()[method]["skipped"] == 1


@pytest.mark.usefixtures("bucket")
def test_wrong_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermissionError):
        listed("s3://lists")


@pytest.mark.parametrize("url", ["gs://lists/a", "lists/a", "/tmp"])
def test_only_urls_of_s3_are_listed(url: str) -> None:
    with pytest.raises(ValueError, match="begin with s3://: list_files_by_fsspec lists"):
        listed(url)


def test_len_is_what_was_promised() -> None:
    source = IterableWrapper(["s3://lists"])
    assert len(source.list_files_by_s3(6)) == 6
    assert len(source.load_files_by_s3()) == 1
    with pytest.raises(TypeError, match="argument length"):
        len(source.list_files_by_s3())
    with pytest.raises(ValueError, match="length must be"):
        source.list_files_by_s3(length=-2)


def test_reading_from_s3_resumes_and_can_be_pickled(bucket: str) -> None:
    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper([f"{bucket}/sub"]).list_files_by_s3().load_files_by_s3().read_from_stream()

    assert_resumes_everywhere(make, passes=1)
    assert list(pickle.loads(pickle.dumps(make()))) == list(make())


def test_a_new_object_is_listed_by_the_next_pass(bucket: str, s3_server: S3Server) -> None:
    dp = S3FileLister(IterableWrapper([f"{bucket}/new"]))
    assert list(dp) == []
    new = s3_server.root / "lists" / "new.txt"
    new.write_text("new")
    assert list(dp) == [f"{bucket}/new.txt"]
    new.unlink()
