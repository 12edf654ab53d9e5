from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tenacity

import penstock as ps
from ais_server import OBJECTS, serving_ais
from penstock.pipes.iter import IterableWrapper
from penstock.testing import check_operator

SHELF = ["ais://shelf/" + name for name in ("a.txt", "b.txt", "empty", "sub/c.txt", "sub/what is #1?")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with serving_ais() as url:
        yield url


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package does not try again, which it does for minutes otherwise."""
    from aistore.sdk import retry_config

    usual = retry_config.RetryConfig.default()
    usual.network_retry = usual.network_retry.copy(stop=tenacity.stop_after_attempt(1))
    monkeypatch.setattr(retry_config.RetryConfig, "default", staticmethod(lambda: usual))


def listed(cluster: str, *prefixes: str, **arguments: Any) -> list[str]:
    return list(IterableWrapper(prefixes).list_files_by_ais(cluster, **arguments))


def loaded(cluster: str, *urls: str, **arguments: Any) -> list[tuple[str, bytes]]:
    return list(IterableWrapper(urls).load_files_by_ais(cluster, **arguments).read_from_stream())


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("ais://shelf", SHELF),
        ("ais://shelf/", SHELF),
        ("ais://shelf/sub/", SHELF[3:]),
        ("ais://shelf/a", SHELF[:1]),
        ("ais://shelf/none", []),
        ("s3://cloud", ["s3://cloud/a.txt"]),
    ],
)
def test_all_pages_of_the_objects_with_a_prefix_are_listed(cluster: str, prefix: str, expected: list[str]) -> None:
    assert listed(cluster, prefix) == expected


def test_objects_are_loaded_as_streams_of_bytes(cluster: str) -> None:
    urls = [*SHELF, "ais://large/bytes", "s3://cloud/a.txt"]
    contents = [OBJECTS["ais", "shelf", url.removeprefix("ais://shelf/")] for url in SHELF]
    contents += [OBJECTS["ais", "large", "bytes"], OBJECTS["aws", "cloud", "a.txt"]]
    assert loaded(cluster, *urls) == list(zip(urls, contents, strict=True))
    [(_, stream)] = IterableWrapper(["ais://large/bytes"]).load_files_by_ais(cluster)
    assert stream.read(3) == bytes([0, 1, 2])
    assert stream.readline() == bytes(range(3, 11))


def test_listing_and_loading_hold_the_laws(cluster: str) -> None:
    check_operator(lambda: IterableWrapper(["ais://shelf", "s3://cloud"]).list_files_by_ais(cluster))
    check_operator(lambda: IterableWrapper(SHELF[:3]).load_files_by_ais(cluster))


def test_a_missing_object_is_the_loaders_error(cluster: str) -> None:
    from aistore.sdk.errors import AISError

    dp = IterableWrapper([SHELF[0], "ais://shelf/none"]).load_files_by_ais(cluster)
    iterator = iter(dp)
    next(iterator)
    with pytest.raises(AISError, match="ais://shelf/none does not exist") as caught:
        next(iterator)
    assert "raised in AISFileLoader" in caught.value.__notes__[0]
    with pytest.raises(AISError, match="does not exist"):
        listed(cluster, "ais://nowhere")


def test_what_fails_can_be_skipped(cluster: str) -> None:
    assert listed(cluster, "ais://nowhere", "ais://shelf/a", "ais://", on_error="skip") == SHELF[:1]
    dp = IterableWrapper(["ais://shelf/none", SHELF[0]]).load_files_by_ais(cluster, on_error=ps.Skip(limit=1))
    assert [url for url, _ in dp] == SHELF[:1]
    assert dp.stats()["load_files_by_ais"]["skipped"] == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("read", [listed, loaded])
def test_no_cluster_is_an_error_of_the_connection(read: Any) -> None:
    with pytest.raises(OSError, match=r"refused"):
        read("http://127.0.0.1:1", "ais://shelf/a.txt")


@pytest.mark.parametrize("read", [listed, loaded])
@pytest.mark.parametrize("url", ["ais://", "shelf/a.txt"])
def test_a_url_without_a_bucket_says_what_is_needed(cluster: str, read: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"as in 'ais://bucket/name'"):
        read(cluster, url)


def test_length_is_what_was_promised_and_for_the_loader_else_the_sources(cluster: str) -> None:
    source = IterableWrapper(["ais://shelf"])
    assert len(source.list_files_by_ais(cluster, 5)) == len(source.load_files_by_ais(cluster, length=5)) == 5
    assert len(source.load_files_by_ais(cluster)) == 1
    with pytest.raises(TypeError, match="give length="):
        len(source.list_files_by_ais(cluster))
