"""Files that are not whole yet: nobody is shown one, and what a killed writer left goes with the next."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from penstock import checkpoint
from penstock.storage.local import atomic

pytestmark = pytest.mark.timeout(90)

PROGRAM = """
import os, sys, threading, time
import torch
import penstock as ps
from penstock import checkpoint

written = threading.Semaphore(0)

def stop(*_):
    written.release()
    time.sleep(100)

os.replace = stop
folder = sys.argv[1]
items = ps.iter.IterableWrapper
missing = items([f"{folder}/cached.csv"]).on_disk_cache()
writers = [
    lambda: list(items([(f"{folder}/saved.csv", "a\\n1\\n")]).save_to_disk()),
    lambda: list(items([(f"{folder}/by_fsspec.csv", "a\\n1\\n")]).save_by_fsspec()),
    lambda: list(items([{"a": 1}]).write_csv(folder + "/{shard}.csv", rows_per_file=1)),
    lambda: list(missing.map(lambda path: (path, b"a\\n1\\n")).end_caching()),
    lambda: checkpoint.save(f"{folder}/checkpoint.csv", weight=torch.ones(1000)),
]
for write in writers:
    threading.Thread(target=write).start()
    print(written.acquire(timeout=40), flush=True)
"""


@contextmanager
def hanging(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has written a file by each of the writers, and given none its name."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(5)] == ["True\n"] * 5
            yield process
        finally:
            process.kill()


def unfinished(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".partial")]


class Forgetful(set[str]):
    """A set that keeps nothing."""

    def add(self, _: str) -> None:
        pass


LISTERS: dict[str, Callable[..., Any]] = {
    "list_files": lambda folder, masks: ps.iter.FileLister(folder, masks, recursive=True),
    "list_files_by_fsspec": ps.iter.FSSpecFileLister,
    "list_files_by_fsspec, a URL": lambda folder, masks: ps.iter.FSSpecFileLister(f"file://{folder}", masks),
    "list_table_files": lambda folder, masks: ps.iter.TableFileLister(f"{folder}/*", "csv"),
}


@pytest.mark.parametrize("masks", ["", "*.csv", "*.partial"])
@pytest.mark.parametrize("lister", LISTERS)
def test_no_lister_shows_one_whatever_the_mask(tmp_path: Path, lister: str, masks: Any) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with atomic.beside(str(tmp_path / "b.csv")) as part:
        Path(part).write_text("a\n2\n")
        assert unfinished(tmp_path) == [os.path.basename(part)]
        names = [os.path.basename(str(each)) for each in LISTERS[lister](str(tmp_path), masks)]
    matching = lister == "list_table_files" or masks != "*.partial"
    assert names == (["a.csv"] if matching else [])
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "b.csv"]


def test_what_a_killed_writer_left_is_not_listed_and_goes_with_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_seen", Forgetful())  # each write is as that of a new process
    with hanging(tmp_path) as process:
        parts = sorted(unfinished(tmp_path))
        assert len(parts) == 5
        assert all((tmp_path / part).stat().st_size > 0 for part in parts)
        list(ps.iter.IterableWrapper([(tmp_path / "1.csv", "")]).save_to_disk())
        assert sorted(unfinished(tmp_path)) == parts, "as long as their writer lives, they stay"
        process.kill()
        process.wait(20)
    assert sorted(unfinished(tmp_path)) == parts
    found = [*ps.iter.FileLister(str(tmp_path), ["*.csv"], recursive=True)]
    assert found == [str(tmp_path / "1.csv")]
    list(ps.iter.IterableWrapper([(tmp_path / "2.csv", "")]).save_to_disk())
    assert unfinished(tmp_path) == []


def test_a_file_that_is_written_where_another_writer_looks_is_never_taken_for_left(tmp_path: Path) -> None:
    """Writers that begin while others look for what is left, in one process and in several."""
    code = """
        import sys
        import penstock as ps
        from penstock.storage.local import atomic
        atomic._seen = type("Forgetful", (set,), {"add": lambda *_: None})()  # look each time
        print("ready", flush=True)
        input()
        items = [(f"{sys.argv[1]}/{sys.argv[2]}-{n}.txt", b"x" * n) for n in range(300)]
        assert len(list(ps.iter.IterableWrapper(items).save_to_disk("wb"))) == 300
    """
    begin = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writers = [subprocess.Popen([*begin, str(number)], text=True, **ends) for number in range(3)]
    assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * 3
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(os.listdir(tmp_path)) == 900
    assert all(path.stat().st_size == int(path.stem.partition("-")[2]) for path in tmp_path.iterdir())


ENDED = 2**22 + 1
"""What is no process: Linux counts up to 2²²."""


def left_by(system: str, folder: Path, age: float) -> Path:
    part = folder / f".penstock-{system}-{ENDED}-0123456789abcdef.partial"
    part.write_text("half")
    os.utime(part, (time.time() - age,) * 2)
    return part


def test_what_another_machine_writes_is_left_alone_until_nobody_can_be_writing_it(tmp_path: Path) -> None:
    recent, old = left_by("00000000", tmp_path, 3600), left_by("00000001", tmp_path, 8 * 24 * 3600)
    with atomic.beside(str(tmp_path / "a")) as part:
        Path(part).touch()
    assert recent.exists()
    assert not old.exists()


def test_a_process_looks_once_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder of a million files on a network disk: not for each file that is written."""
    looked, scandir = list[str](), os.scandir

    def noted(folder: str) -> Any:
        looked.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noted)
    list(ps.iter.IterableWrapper([(tmp_path / f"{n}", "") for n in range(50)]).save_to_disk())
    assert looked == [str(tmp_path)]


@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_what_only_looks_like_one_neither_stops_nor_misleads_a_writer(tmp_path: Path, planted: str) -> None:
    part, mine = left_by(atomic._system(), tmp_path, 0), tmp_path / "mine"
    part.unlink()
    mine.write_text("mine")
    if planted == "link":
        part.symlink_to(mine)
    elif planted == "pipe":
        os.mkfifo(part)
    else:
        part.mkdir()
    list(ps.iter.IterableWrapper([(tmp_path / "a", "one")]).save_to_disk())
    assert (tmp_path / "a").read_text() == "one"
    assert mine.read_text() == "mine"


FULL = {
    "checkpoint": lambda path: checkpoint.save(path, weight=torch.ones(100_000)),
    "save_to_disk": lambda path: list(ps.iter.IterableWrapper([(path, b"x" * 100_000)]).save_to_disk("wb")),
    "save_to_disk, appending": lambda path: list(ps.iter.IterableWrapper([(path, b"x" * 100_000)]).save_to_disk("ab")),
}


@pytest.mark.parametrize("write", FULL.values(), ids=FULL)
def test_an_error_of_a_disk_with_no_room_names_the_file(tmp_path: Path, write: Callable[[str], Any]) -> None:
    import resource
    import signal

    path = str(tmp_path / "0.json")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert raised.value.errno == errno.EFBIG
    assert raised.value.filename == path
    assert repr(path) in str(raised.value)
    assert unfinished(tmp_path) == []


def test_an_error_of_what_is_read_is_not_taken_for_one_of_what_is_written(tmp_path: Path) -> None:
    def cut(number: int) -> dict[str, int]:
        raise ConnectionError(errno.ECONNRESET, "the answer was cut")

    dp = ps.iter.IterableWrapper(range(3)).map(cut)
    with pytest.raises(ConnectionError) as raised:
        list(dp.write_json(str(tmp_path / "{shard}.json"), rows_per_file=1))
    assert raised.value.filename is None


def test_an_error_before_anything_is_written_names_the_file_and_not_its_part(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    path = tmp_path / "a" / "b.csv"
    with pytest.raises(OSError, match="Not a directory") as raised:
        list(ps.iter.IterableWrapper([(path, "")]).save_to_disk())
    assert raised.value.filename == str(path)
