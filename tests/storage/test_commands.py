from __future__ import annotations

import gc
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from archives import tar_of
from penstock.iter import IterableWrapper
from resuming import assert_resumes_everywhere

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")

FILES = {"1.txt": b"one", "1.cls": b"1", "2.txt": b"two", "2.cls": b"2"}


@pytest.fixture
def tar(tmp_path: Path) -> str:
    """The command that writes a tar."""
    (tmp_path / "a.tar").write_bytes(tar_of(FILES, ""))
    return f"pipe:cat {shlex.quote(str(tmp_path / 'a.tar'))}"


def opened(*urls: str, mode: str = "rb", **arguments: Any) -> ps.IterDataPipe[Any]:
    return IterableWrapper(urls).open_files_by_fsspec(mode, allow_commands=True, **arguments)


@pytest.mark.parametrize("after", ["", " | gzip -c", "; true"])
def test_a_shard_is_what_the_command_writes(tar: str, after: str) -> None:
    command = tar + after
    samples = opened(command).load_from_tar().webdataset(with_url=True).routed_decode()
    assert list(samples) == [
        {"__key__": "1", "__url__": command, ".txt": "one", ".cls": 1},
        {"__key__": "2", "__url__": command, ".txt": "two", ".cls": 2},
    ]


def test_commands_stand_beside_other_addresses_and_resume(tar: str, tmp_path: Path) -> None:
    def make() -> ps.IterDataPipe[Any]:
        tars = opened(str(tmp_path / "a.tar"), tar).load_from_tar()
        return tars.webdataset(with_url=True).routed_decode(only=[])

    assert [sample["__url__"] for sample in make()] == [str(tmp_path / "a.tar")] * 2 + [tar] * 2
    assert_resumes_everywhere(make)


def test_text_is_read_with_its_encoding() -> None:
    [(_, stream)] = opened(r"pipe:printf 'gr\374n'", mode="r", kwargs_for_open={"encoding": "latin-1"})
    assert stream.read() == "grün"
    with pytest.raises(
        ValueError, match=r"takes no kwargs_for_open but those of text, and \['compression'\] are given"
    ):
        list(opened("pipe:true", kwargs_for_open={"compression": "gzip"}))


@pytest.mark.parametrize(
    "read",
    [
        lambda url: list(IterableWrapper([url]).open_files_by_fsspec("rb")),
        lambda url: list(IterableWrapper([url]).open_files_by_fsspec("r")),
        lambda url: list(IterableWrapper([url]).load_files_by_s3()),
        lambda url: ps.open_to_seek(url),
        lambda url: ps.map.ObjectReader([url])[0],
        lambda url: list(ps.read_parquet(url)),
    ],
)
def test_a_command_that_is_not_allowed_is_not_run(read: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'open_files_by_fsspec\(mode="rb", allow_commands=True\)'):
        read(f"pipe:touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pipe:echo broken >&2; exit 3", "the command ended with status 3: broken"),
        ("pipe:no-such-program-at-all x", "the command ended with status 127: .*no-such-program-at-all"),
        ("pipe:echo half; kill -9 $$", "the command ended with status -9"),
        ("pipe:echo 'https://me:secret@host/a.tar' >&2; exit 1", "status 1: https://…@host/a.tar"),
    ],
)
def test_a_command_that_fails_is_an_error_with_what_it_said(command: str, message: str) -> None:
    [(_, stream)] = opened(command)
    with pytest.raises(OSError, match=message) as caught:
        stream.read()
    assert "secret" not in str(caught.value)
    with pytest.raises(OSError, match=message.partition(":")[0]):
        list(opened(command).load_from_tar())


def test_a_shard_whose_command_fails_can_be_left_out(tar: str) -> None:
    dp = opened("pipe:exit 1", tar).load_from_tar(on_error="skip").webdataset(with_url=True)
    assert [sample["__key__"] for sample in dp] == ["1", "2"]


def test_a_stream_that_is_dropped_ends_its_command(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    iterator = iter(opened(f"pipe:sh -c 'while sleep 0.05; do touch {alive}; echo x; done' | cat"))
    _, stream = next(iterator)
    assert stream.read(2) == b"x\n"
    del stream, iterator
    gc.collect()
    alive.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not alive.exists()


def test_a_process_that_is_forked_leaves_the_command_alone() -> None:
    [(_, stream)] = opened("pipe:echo one; sleep 0.2; echo two")
    assert stream.readline() == b"one\n"
    if not (child := os.fork()):
        stream.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert stream.read() == b"two\n"
