from __future__ import annotations

import gc
import io
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import FileLister, IterableWrapper
from penstock.state import replay as reading
from resuming import assert_resumes_everywhere


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files in it, in a subfolder and in one of that."""
    for name in ("b.txt", "a.txt", "c.bin", "sub/z.txt", "sub/a.txt", "sub/deep/d.txt", "empty.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty.txt" else f"content of {name}")
    return tmp_path


ALL = ["a.txt", "b.txt", "c.bin", "empty.txt", "sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]


def relative(paths: Any, folder: Path) -> list[str]:
    return [Path(path).relative_to(folder).as_posix() for path in paths]


def opened(*paths: Path | str, **arguments: Any) -> ps.IterDataPipe[tuple[str, Any]]:
    return IterableWrapper([str(path) for path in paths]).open_files(**arguments)


def streams(*contents: str | bytes) -> ps.IterDataPipe[tuple[str, Any]]:
    files = [io.StringIO(each) if isinstance(each, str) else io.BytesIO(each) for each in contents]
    return IterableWrapper([(f"file{number}", file) for number, file in enumerate(files)], deepcopy=False)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


# Listing


def test_files_come_sorted_and_those_of_a_folder_before_those_of_its_subfolders(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "sub")  # neither listed nor entered
    assert relative(FileLister(str(tree)), tree) == ALL[:4]
    assert relative(FileLister(str(tree), recursive=True), tree) == ALL
    assert sorted(relative(FileLister(str(tree), recursive=True, non_deterministic=True), tree)) == sorted(ALL)


def test_subfolders_come_sorted(tmp_path: Path) -> None:
    for name in "ehbgacfd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    assert relative(FileLister(str(tmp_path), recursive=True), tmp_path) == [f"{name}/file" for name in "abcdefgh"]


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        (["b.*", "*.bin"], ["b.txt", "c.bin"]),
        ("d.txt", ["sub/deep/d.txt"]),
        ("*/sub/*.txt", ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]),
        ("sub*", []),
        ([], ALL),
    ],
)
def test_a_mask_is_for_the_name_and_one_with_a_slash_for_the_path(tree: Path, masks: Any, expected: list[str]) -> None:
    assert relative(FileLister(str(tree), masks, recursive=True), tree) == expected


def test_roots_come_as_one_as_a_list_and_as_a_pipe_and_may_be_files(tree: Path) -> None:
    roots = [str(tree / "sub"), tree / "sub" / "deep", str(tree / "c.bin")]
    expected = ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]
    assert relative(FileLister(roots, "*.txt"), tree) == expected
    assert relative(IterableWrapper(roots).list_files(), tree) == [*expected, "c.bin"]
    assert relative(FileLister(roots[1]), tree) == ["sub/deep/d.txt"]


def test_paths_begin_with_the_root_as_given_or_are_absolute(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert list(FileLister("sub")) == [os.path.join("sub", "a.txt"), os.path.join("sub", "z.txt")]
    assert list(FileLister("a.txt", abspath=True)) == [str(tree / "a.txt")]
    assert list(FileLister("sub/deep", abspath=True)) == [str(tree / "sub" / "deep" / "d.txt")]
    assert FileLister().take(1) == [os.path.join(".", "a.txt")]


def test_a_missing_root_is_an_error_that_names_it(tree: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        list(FileLister([str(tree / "sub"), str(tree / "nowhere")]))
    assert caught.value.filename == str(tree / "nowhere")


def test_length_is_what_was_promised_and_else_unknown(tree: Path) -> None:
    assert len(FileLister(str(tree), length=4)) == 4
    assert len(FileLister(str(tree)).open_files(length=4)) == 4
    assert len(opened("a", "b")) == 2
    with pytest.raises(TypeError, match="give length="):
        len(FileLister(str(tree)).open_files())


def test_a_state_does_not_grow_with_the_roots_that_were_listed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    dp = IterableWrapper([str(tree / "sub")] * 50).list_files()
    iterator = iter(dp)
    for _ in range(99):
        next(iterator)
    assert dp.state_dict()["state"]["steps"][-1]["skip"] <= 2


# Opening


@pytest.mark.parametrize(("mode", "expected"), [("r", str), ("rt", str), ("t", str), ("rb", bytes), ("b", bytes)])
def test_the_mode_says_whether_text_or_bytes_are_read(tree: Path, mode: str, expected: type) -> None:
    [(path, stream)] = opened(tree / "a.txt", mode=mode)
    assert path == str(tree / "a.txt")
    content = stream.read()
    assert type(content) is expected
    assert content in ("content of a.txt", b"content of a.txt")


def test_text_is_read_in_the_encoding_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("Grüße\r\n".encode("latin-1"))
    [(_, stream)] = opened(tmp_path / "latin", encoding="latin-1")
    assert stream.read() == "Grüße\n"


def test_a_stream_is_a_file_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n" + b"x" * 100_000)
    [(_, stream)] = opened(tmp_path / "lines", mode="b")
    assert (stream.readline(), stream.tell()) == (b"one\n", 4)
    assert (stream.seek(-1, os.SEEK_END), stream.read()) == (100_007, b"x")
    assert (stream.seek(0), next(stream)) == (0, b"one\n")
    assert os.fstat(stream.fileno()).st_size == 100_008
    assert stream.name == str(tmp_path / "lines")


@pytest.mark.parametrize(("name", "error"), [("nowhere.txt", FileNotFoundError), ("sub", IsADirectoryError)])
def test_a_file_that_cannot_be_opened_is_an_error_that_names_it(tree: Path, name: str, error: type[OSError]) -> None:
    with pytest.raises(error) as caught:
        list(opened(tree / "a.txt", tree / name))
    assert caught.value.filename == str(tree / name)
    assert any("FileOpener" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("item", [0, b"a.txt", ("a.txt", None)])
@pytest.mark.parametrize("method", ["list_files", "open_files"])
def test_what_is_no_path_cannot_be_listed_or_opened(item: Any, method: str) -> None:
    with pytest.raises(TypeError, match=r"a path must be a string .*, and is of type"):
        list(getattr(IterableWrapper([item]), method)())


def test_streams_that_somebody_holds_stay_open_after_the_pass(tree: Path) -> None:
    streams = [stream for batch in FileLister(str(tree), "?.*").open_files("b").batch(2) for _, stream in batch]
    assert [stream.read() for stream in streams] == [b"content of a.txt", b"content of b.txt", b"content of c.bin"]


def test_a_dropped_stream_is_closed_at_once(tree: Path) -> None:
    iterator = iter(opened(tree / "a.txt", tree / "b.txt", mode="b"))
    first = next(iterator)[1].fileno()
    assert is_open(first)  # the chain holds its last item
    second = next(iterator)[1].fileno()
    assert not is_open(first)
    iterator.close()  # type: ignore[attr-defined]
    assert not is_open(second)


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_nothing_warns_of_a_stream_that_an_error_held(tree: Path, mode: str) -> None:
    def fail(item: Any) -> None:
        item[1].read(1)
        raise KeyError("no")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyError) as raised:
            list(opened(tree / "a.txt", mode=mode).map(fail))
        cycle: list[Any] = [raised]
        cycle.append(cycle)  # it keeps the frames of the error, and with them the stream
        del raised, cycle
        gc.collect()
    assert caught == []


# Reading


def test_streams_are_read_whole_or_in_chunks() -> None:
    dp = streams(b"abc", b"", "text").read_from_stream()
    assert list(dp) == [("file0", b"abc"), ("file1", b""), ("file2", "text")]
    dp = streams(b"abcde", b"", b"xy").read_from_stream(chunk=2)
    assert list(dp) == [("file0", b"ab"), ("file0", b"cd"), ("file0", b"e"), ("file2", b"xy")]
    with pytest.raises(TypeError, match="unknown before"):
        len(dp)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_stream_is_closed_when_it_was_read_and_when_reading_is_given_up(chunk: int | None) -> None:
    first, second = io.BytesIO(b"abc"), io.BytesIO(b"defg")
    iterator = iter(IterableWrapper([("a", first), ("b", second)], deepcopy=False).read_from_stream(chunk))
    while next(iterator)[0] == "a":
        pass
    assert first.closed
    iterator.close()  # type: ignore[attr-defined]
    assert second.closed


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("a.txt", "pairs of a path and a stream are needed, and this is of type str: open the files first, as in"),
        (("a", b"b", "c"), "pairs of a path and a stream are needed, and this is of type tuple"),
        (("a", b"bytes"), "with the path comes a bytes"),
    ],
)
def test_what_is_no_pair_of_path_and_stream_is_an_error(item: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        list(IterableWrapper([item]).read_from_stream())


def test_a_long_stream_is_not_read_ahead() -> None:
    stream = io.BytesIO(bytes(1000))
    iterator = iter(IterableWrapper([("a", stream)], deepcopy=False).read_from_stream(chunk=10))
    next(iterator)
    assert stream.tell() == 10


# What becomes of what fails


def test_roots_that_cannot_be_listed_can_be_left_out(tree: Path) -> None:
    roots = [str(tree / "sub"), str(tree / "nowhere"), str(tree / "sub" / "deep"), 3]
    dp = IterableWrapper(roots).list_files(on_error="skip")
    assert relative(dp, tree) == ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]
    assert dp.stats()["list_files"]["skipped"] == 2
    assert "nowhere" in dp.stats()["list_files"]["last_errors"][0]
    assert_resumes_everywhere(lambda: FileLister(roots[:3], on_error="skip"))


def test_a_root_is_listed_again_without_what_was_listed_before_the_error(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir, calls = os.scandir, []

    def failing(path: Any) -> Any:
        calls.append(str(path))
        if str(path).endswith("deep") and calls.count(str(path)) < 3:
            raise OSError(5, "the disk is slow", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    dp = FileLister(str(tree), recursive=True, on_error=ps.Retry(2, backoff=0))
    assert relative(dp, tree) == ALL
    assert dp.stats()["list_files"]["retried"] == 2


def test_files_that_cannot_be_opened_can_be_left_out(tree: Path) -> None:
    dp = opened(*(tree / name for name in ("a.txt", "nowhere", "sub", "b.txt")), on_error=ps.Skip(errors=OSError))
    assert [content for _, content in dp.read_from_stream()] == ["content of a.txt", "content of b.txt"]
    assert dp.stats()["open_files"]["skipped"] == 2
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(dp)


class Failing(io.BytesIO):
    """A stream that gives three bytes and fails, or at once."""

    def read(self, size: int | None = -1) -> bytes:
        if size == -1 or self.tell() >= 3:
            raise OSError("the disk is gone")
        return super().read(size)


@pytest.mark.parametrize(("chunk", "before"), [(None, []), (2, [b"ab", b"cd"])])
def test_streams_that_cannot_be_read_can_be_left_out(chunk: int | None, before: list[bytes]) -> None:
    broken = Failing(b"abcdefg")
    source = [("a", io.BytesIO(b"x")), ("bad", broken), ("c", io.BytesIO(b"y"))]
    dp = IterableWrapper(source, deepcopy=False).read_from_stream(chunk, on_error="skip")
    assert [content for _, content in dp] == [b"x", *before, b"y"]
    assert broken.closed
    assert dp.stats()["read_from_stream"]["skipped"] == 1
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(IterableWrapper([]).read_from_stream(on_error="skip"))
