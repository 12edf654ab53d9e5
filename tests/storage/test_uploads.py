from __future__ import annotations

import io
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fault_proxy import Fault, FaultProxy
from penstock import checkpoint
from penstock.pipes.iter import IterableWrapper
from penstock.storage.writing import sent_whole, whole_file
from s3 import S3Server, uploads_under_way

PART = 2**23
CONTENT = np.random.default_rng(0).bytes(4 * PART + 1000)


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `uploads`, which is empty."""
    return s3_server.empty_bucket("uploads")


def write(pieces: list[Any], **options: Any) -> None:
    with whole_file("s3://uploads/a", "wb", options, block_size=PART) as file:
        for piece in pieces:
            file.write(piece)


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 4 * PART + 1000])
@pytest.mark.parametrize("piece", [1_000_000, 3 * PART])
def test_all_that_is_written_arrives_in_order(bucket: Path, size: int, piece: int) -> None:
    content = CONTENT[:size]
    write([content[start : start + piece] for start in range(0, size, piece)])
    assert (bucket / "a").read_bytes() == content
    assert uploads_under_way("uploads") == []


def test_arrays_are_written_as_their_bytes_and_told_by_tell(bucket: Path) -> None:
    numbers = np.arange(10)
    with whole_file("s3://uploads/a", "wb", {}) as file:
        assert file.write(numbers.data.cast("B")) == 80
        assert file.tell() == 80
        file.flush()
        assert not (bucket / "a").exists()
    assert (bucket / "a").read_bytes() == numbers.tobytes()


@pytest.mark.usefixtures("bucket")
def test_parts_are_sent_while_others_are_on_their_way(fault_proxy: FaultProxy) -> None:
    fault_proxy.play(*(Fault("stall", f"?partNumber={number}", at=None, seconds=2) for number in (1, 2, 3)))
    began = time.monotonic()
    write([CONTENT])
    assert fault_proxy.played()["stall"] == 3
    assert 2 < time.monotonic() - began < 5.5  # one after the other they take 6 s


def test_what_may_pass_is_tried_again_and_counted(bucket: Path, fault_proxy: FaultProxy) -> None:
    requests = ("POST /uploads/a?uploads", "?partNumber=2", "POST /uploads/a?uploadId=")
    fault_proxy.play(
        *(Fault("status", request, times=1) for request in requests), Fault("reset", "?partNumber=1", 1, at=None)
    )
    item = [("s3://uploads/a", CONTENT), ("s3://uploads/b", b"b")]
    dp = IterableWrapper(item, deepcopy=False).save_by_fsspec("wb")
    assert list(dp) == ["s3://uploads/a", "s3://uploads/b"]
    assert dp.stats()["save_by_fsspec"]["retried"] == fault_proxy.played().total() == 4
    assert (bucket / "a").read_bytes() == CONTENT
    assert uploads_under_way("uploads") == []
    fault_proxy.play()
    assert len(list(dp)) == 2
    assert dp.stats() == {}  # of the second pass


@pytest.mark.parametrize("options", [{}, {"default_block_size": 2**23}], ids=["ours", "by s3fs"])
def test_a_page_of_a_gateway_in_place_of_the_answer_is_an_error(
    options: dict[str, Any], bucket: Path, fault_proxy: FaultProxy
) -> None:
    requests = {"POST /uploads/a?uploadId=": CONTENT, "POST /uploads/a?uploads": CONTENT, "PUT /uploads/a": b"small"}
    for request, content in requests.items():
        fault_proxy.play(Fault("status", request, status=200))
        with pytest.raises(OSError, match="did not confirm the whole object, .* not be there: 's3://uploads/a'"):
            write([content], **options)
        assert not (bucket / "a").exists()
    with pytest.raises(OSError, match="did not confirm the whole object"):
        checkpoint.save("s3://uploads/a", step=1, storage_options=options)


@pytest.mark.usefixtures("bucket")
def test_an_answer_to_the_last_request_that_is_lost_is_an_error_that_says_so(fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("reset", "POST /uploads/a?uploadId=", times=1))
    with pytest.raises(OSError, match="did not confirm the whole object, which may or may not be there") as caught:
        write([CONTENT])
    assert not hasattr(caught.value, "__notes__")  # no parts take space


def test_an_abort_that_fails_for_once_is_tried_again(bucket: Path, fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("status", "?partNumber=2", status=403), Fault("status", "DELETE ", times=1))
    with pytest.raises(PermissionError, match="the server refused: 403") as caught:
        write([CONTENT])
    assert not hasattr(caught.value, "__notes__")
    assert not (bucket / "a").exists()
    assert uploads_under_way("uploads") == []


def test_what_is_given_up_is_taken_back_when_no_part_is_on_its_way(bucket: Path, fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("stall", "?partNumber=1", at=None, seconds=1))
    with pytest.raises(TypeError):
        write([CONTENT, "text"])
    assert [request.partition(" ")[0] for request in fault_proxy.requests()][-1] == "DELETE"
    assert list(bucket.iterdir()) == []
    assert uploads_under_way("uploads") == []


def test_a_process_that_is_forked_writes_by_connections_of_its_own(bucket: Path) -> None:
    write([b"one"])
    process = multiprocessing.get_context("fork").Process(target=write, args=([CONTENT],))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert (bucket / "a").read_bytes() == CONTENT


@pytest.mark.usefixtures("bucket")
def test_keys_come_from_options_or_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    write([b"one"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermissionError):
        write([b"one"])
    write([b"one"], key="the-key", secret="the-secret")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(PermissionError, match="no AWS credentials were found"):
        write([b"one"])


def test_what_fails_while_it_is_sent_is_discarded_and_what_is_whole_is_closed() -> None:
    class Sent(io.BytesIO):
        discarded = False

        def discard(self) -> None:
            self.discarded = True

    failed, whole = Sent(), Sent()
    with pytest.raises(KeyError), sent_whole(failed, "memory://a/b"):
        raise KeyError("gone")
    with sent_whole(whole, "memory://a/b") as file:
        file.write(b"a")
    assert (failed.discarded, whole.discarded, whole.closed) == (True, False, True)
