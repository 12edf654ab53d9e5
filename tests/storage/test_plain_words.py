"""What goes wrong at a server is an error of the type that fits, which names the address, whoever reads."""

from __future__ import annotations

import hashlib
import io
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from answering import running
from fault_proxy import Fault, FaultProxy
from http_server import serving_http
from penstock.pipes.iter import IterableWrapper
from penstock.storage.errors import UnknownStoreError, in_plain_words
from s3 import S3Server

BUCKET = "words"
CONTENT = hashlib.shake_128(b"a").digest(300_000)

ONE_ATTEMPT = {"config_kwargs": {"read_timeout": 1, "connect_timeout": 5, "retries": {"total_max_attempts": 1}}}


def by_s3fs(url: str) -> bytes:
    """Read by fsspec, piece after piece, without other attempts than s3fs makes by itself."""
    [(_, stream)] = IterableWrapper([url]).open_files_by_fsspec("rb", **ONE_ATTEMPT)
    with stream:
        return b"".join(iter(lambda: stream.read(100_000), b""))


FAULTS = {
    "silent in the body": (Fault("stall", match="GET /words"), TimeoutError),
    "cut in the body": (Fault("cut", match="GET /words"), ConnectionError),
    "503": (Fault("status", match="GET /words", status=503, code="SlowDown"), ConnectionError),
    "403": (Fault("status", match="/words", status=403, code="AccessDenied"), PermissionError),
    "404": (Fault("status", match="/words", status=404, code="NoSuchKey"), FileNotFoundError),
    "412": (Fault("status", match="GET /words", status=412, code="PreconditionFailed"), OSError),
}


@pytest.fixture
def url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    folder = s3_server.root / BUCKET
    folder.mkdir(exist_ok=True)
    (folder / "a.bin").write_bytes(CONTENT)
    return f"s3://{BUCKET}/a.bin"


@pytest.mark.parametrize(("fault", "kind"), FAULTS.values(), ids=FAULTS)
def test_an_error_has_the_type_that_fits_and_names_the_address(
    fault: Fault, kind: type[OSError], url: str, fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(fault)
    with pytest.raises(kind) as caught:
        by_s3fs(url)
    assert isinstance(caught.value, OSError)
    assert "a.bin" in str(caught.value)
    assert fault_proxy.played().total() >= 1


def test_what_s3fs_makes_of_a_timeout_and_of_an_answer_without_a_length() -> None:
    def stalled() -> Any:
        try:
            raise TimeoutError
        except TimeoutError as error:
            return error.args[0]  # as s3fs does

    with pytest.raises(TimeoutError, match="did not answer in time: 's3://b/a'"):
        in_plain_words("s3://b/a", stalled)
    with pytest.raises(UnknownStoreError, match="does not tell how large"):
        in_plain_words("s3://b/a", {}.__getitem__, "ContentLength")


def test_a_status_that_is_also_the_code_is_said_once() -> None:
    class Refused(Exception):
        response = {
            "Error": {"Code": "403", "Message": "Forbidden"},
            "ResponseMetadata": {"HTTPStatusCode": 403},
        }

    def refuse() -> None:
        raise Refused

    with pytest.raises(PermissionError, match=r"the server refused: 403 \(Forbidden\): 's3://b/a'"):
        in_plain_words("s3://b/a", refuse)


def test_redirects_without_an_end_say_so() -> None:
    with running() as server:
        server.plays = {method: [f"ever to 302 {server.url}"] for method in ("HEAD", "GET")}
        with pytest.raises(OSError, match="the server redirects without an end"):
            list(IterableWrapper([f"{server.url}/a"]).open_files_by_fsspec("rb"))


def test_other_errors_of_the_reader_stay_what_they_are() -> None:
    with pytest.raises(KeyError, match="Length"):
        in_plain_words("s3://b/a", {}.__getitem__, "Length")
    with pytest.raises(IndexError):
        in_plain_words("s3://b/a", [].__getitem__, 0)
    with pytest.raises(io.UnsupportedOperation):
        in_plain_words("s3://b/a", io.BytesIO().fileno)
    assert "during handling" not in "".join(traceback.format_exc())


WEB = {"403": PermissionError, "404": FileNotFoundError, "503": ConnectionError}


@pytest.mark.parametrize(("status", "kind"), WEB.items(), ids=WEB)
def test_what_a_web_server_refuses_is_not_taken_for_a_missing_file(status: str, kind: type[OSError]) -> None:
    with serving_http() as server, pytest.raises(kind, match=f"status/{status}'"):
        list(IterableWrapper([f"{server}/status/{status}"]).open_files_by_fsspec("rb"))


def test_where_no_web_server_is_there_no_file_is_said_to_be_missing() -> None:
    with pytest.raises(ConnectionError, match="no connection"):
        list(IterableWrapper(["http://127.0.0.1:1/a.bin"]).open_files_by_fsspec("rb"))


WRITERS: dict[str, Callable[[str], Any]] = {
    "save": lambda url: ps.checkpoint.save(f"{url}/a.pt", a=1),
    "save_by_fsspec": lambda url: list(IterableWrapper([(f"{url}/a.txt", "one")]).save_by_fsspec()),
    "write_csv": lambda url: list(IterableWrapper([{"a": 1}]).write_csv(f"{url}/a-{{shard}}.csv", 1)),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_only_read_cannot_be_written_to(write: Callable[[str], Any]) -> None:
    with serving_http() as server, pytest.raises(OSError, match=f"reads http://, and cannot write to it: '{server}/a"):
        write(server)


@pytest.mark.parametrize("place", ["a.bin", "folder"])
def test_what_cannot_be_listed_is_named_as_it_was_given(place: str, url: str, fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("status", match="/words", status=403, code="AccessDenied"))
    with pytest.raises(PermissionError, match=f": 's3://{BUCKET}/{place}'"):
        list(ps.read_csv(f"s3://{BUCKET}/{place}"))
