from __future__ import annotations

import gc
import io
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import FileLister, IterableWrapper, StreamReader
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


def relative(paths: Any, folder: Path) -> list[str]:
    return [Path(path).relative_to(folder).as_posix() for path in paths]


def opened(*paths: Path | str, **arguments: Any) -> ps.IterDataPipe[tuple[str, Any]]:
    return IterableWrapper([str(path) for path in paths]).open_files(**arguments)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


# Listing


def test_files_of_a_folder_come_sorted_and_without_those_of_subfolders(tree: Path) -> None:
    assert relative(FileLister(str(tree)), tree) == ["a.txt", "b.txt", "c.bin", "empty.txt"]


def test_recursive_gives_the_files_of_a_folder_before_those_of_its_subfolders(tree: Path) -> None:
    found = relative(FileLister(str(tree), recursive=True), tree)
    assert found == ["a.txt", "b.txt", "c.bin", "empty.txt", "sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]


def test_subfolders_come_sorted(tmp_path: Path) -> None:
    for name in "ehbgacfd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    assert relative(FileLister(str(tmp_path), recursive=True), tmp_path) == [f"{name}/file" for name in "abcdefgh"]


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ("*.bin", ["c.bin"]),
        (["b.*", "*.bin"], ["b.txt", "c.bin"]),
        (("d.txt",), ["sub/deep/d.txt"]),
        ("*/sub/*.txt", ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]),
        ("sub*", []),
        ([], ["a.txt", "b.txt", "c.bin", "empty.txt", "sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]),
    ],
)
def test_a_mask_is_for_the_name_and_one_with_a_slash_for_the_path(tree: Path, masks: Any, expected: list[str]) -> None:
    assert relative(FileLister(str(tree), masks, recursive=True), tree) == expected


def test_roots_come_as_one_as_a_list_and_as_a_pipe(tree: Path) -> None:
    sub, deep = str(tree / "sub"), tree / "sub" / "deep"
    expected = ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]
    assert relative(FileLister([sub, deep]), tree) == expected
    assert relative(IterableWrapper([sub, deep]).list_files(), tree) == expected
    assert relative(FileLister(deep), tree) == ["sub/deep/d.txt"]


def test_a_root_that_is_a_file_is_listed_itself_where_a_mask_matches(tree: Path) -> None:
    file = str(tree / "a.txt")
    assert list(FileLister(file)) == [file]
    assert list(FileLister(file, "*.bin")) == []


def test_paths_begin_with_the_root_as_given_or_are_absolute(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert list(FileLister("sub")) == [os.path.join("sub", "a.txt"), os.path.join("sub", "z.txt")]
    assert list(FileLister("a.txt", abspath=True)) == [str(tree / "a.txt")]
    assert list(FileLister("sub", abspath=True)) == [str(tree / "sub" / "a.txt"), str(tree / "sub" / "z.txt")]
    assert FileLister().take(1) == [os.path.join(".", "a.txt")]


def test_non_deterministic_leaves_the_order_to_the_file_system(tree: Path) -> None:
    found = list(FileLister(str(tree), recursive=True, non_deterministic=True))
    assert sorted(found) == sorted(FileLister(str(tree), recursive=True))


def test_a_link_to_a_folder_is_neither_listed_nor_entered(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "sub")
    assert "link" not in "".join(relative(FileLister(str(tree), recursive=True), tree))


def test_a_missing_root_is_an_error_that_names_it_and_only_when_listing_begins(tree: Path) -> None:
    dp = FileLister([str(tree / "sub"), str(tree / "nowhere")])
    with pytest.raises(FileNotFoundError) as caught:
        list(dp)
    assert caught.value.filename == str(tree / "nowhere")


@pytest.mark.parametrize("recursive", [False, True])
def test_an_unreadable_folder_is_an_error_that_names_it(
    tree: Path, recursive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = str(tree / "sub") if recursive else str(tree)
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if str(path) == unreadable:
            raise PermissionError(13, "Permission denied", unreadable)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError) as caught:
        list(FileLister(str(tree), recursive=recursive))
    assert caught.value.filename == unreadable


def test_an_empty_folder_gives_nothing(tmp_path: Path) -> None:
    assert list(FileLister(str(tmp_path))) == []


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"root": 3}, TypeError, "root must be a path"),
        ({"root": b"."}, TypeError, "root must be a path"),
        ({"root": ["a", 3]}, TypeError, "root must be a path"),
        ({"root": (path for path in "ab")}, TypeError, "root must be a path"),
        ({"masks": 3}, TypeError, "masks must be a pattern"),
        ({"masks": ["*.txt", None]}, TypeError, "masks must be a pattern"),
        ({"length": -2}, ValueError, "length must be"),
    ],
)
def test_wrong_arguments_of_a_lister_raise_at_construction(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        FileLister(**arguments)


def test_a_root_out_of_a_pipe_that_is_no_path_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"a path must be a string .*, and is of type int"):
        list(IterableWrapper([3]).list_files())


def test_len_is_what_was_promised_and_else_unknown(tree: Path) -> None:
    assert len(FileLister(str(tree), length=4)) == 4
    with pytest.raises(TypeError, match="give length="):
        len(FileLister(str(tree)))


@pytest.mark.parametrize("as_pipe", [False, True])
def test_listing_resumes(tree: Path, as_pipe: bool) -> None:
    roots = [str(tree), str(tree / "sub" / "deep"), str(tree)]
    assert_resumes_everywhere(lambda: FileLister(IterableWrapper(roots) if as_pipe else roots, recursive=True))


def test_a_state_does_not_grow_with_the_roots_that_were_listed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    dp = IterableWrapper([str(tree / "sub")] * 50).list_files()
    iterator = iter(dp)
    for _ in range(99):
        next(iterator)
    assert dp.state_dict()["state"]["steps"][-1]["skip"] <= 2


def test_a_lister_shows_its_arguments() -> None:
    shown = repr(FileLister("data", "*.tar", recursive=True))
    assert shown.startswith("FileLister('data'")
    assert "'*.tar'" in shown
    assert "recursive=True" in shown


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
    assert stream.readline() == b"one\n"
    assert stream.tell() == 4
    assert len(stream.read(50_000)) == 50_000
    assert stream.seek(-1, os.SEEK_END) == 100_007
    assert stream.read() == b"x"
    assert stream.seek(0) == 0
    assert next(stream) == b"one\n"
    assert os.fstat(stream.fileno()).st_size == 100_008
    assert stream.name == str(tmp_path / "lines")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"mode": "w"}, "mode must be 'r', 'rt' or 't' for text, 'rb' or 'b' for bytes, and is 'w'"),
        ({"mode": "r+"}, "mode must be"),
        ({"mode": "rb", "encoding": "utf-8"}, "bytes have no encoding"),
        ({"length": -3}, "length must be"),
    ],
)
def test_wrong_arguments_of_an_opener_raise_at_construction(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        IterableWrapper(["a"]).open_files(**arguments)


def test_a_missing_file_is_an_error_that_names_it(tree: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        list(opened(tree / "a.txt", tree / "nowhere.txt"))
    assert caught.value.filename == str(tree / "nowhere.txt")
    assert any("FileOpener" in note for note in caught.value.__notes__)


def test_a_folder_cannot_be_opened(tree: Path) -> None:
    with pytest.raises(IsADirectoryError):
        list(opened(tree))


@pytest.mark.parametrize("item", [0, b"a.txt", ("a.txt", None), None])
def test_what_is_no_path_cannot_be_opened(item: Any) -> None:
    with pytest.raises(TypeError, match=r"a path must be a string .*, and is of type"):
        list(IterableWrapper([item]).open_files())


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
def test_nothing_warns_of_an_open_file_even_out_of_an_error(tree: Path, mode: str) -> None:
    def fail(item: Any) -> None:
        item[1].read(1)
        raise KeyError("no")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in opened(tree / "a.txt", tree / "b.txt", mode=mode):
            pass
        next(iter(opened(tree / "a.txt", mode=mode)))
        held: Any = None
        try:
            list(opened(tree / "a.txt", mode=mode).map(fail))
        except KeyError as error:
            held = [error]
            held.append(held)  # a cycle that keeps the frames of the error, and with them the stream
        del held
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_len_of_an_opener_is_that_of_its_source_or_what_was_promised(tree: Path) -> None:
    assert len(opened("a", "b")) == 2
    assert len(FileLister(str(tree)).open_files(length=4)) == 4
    with pytest.raises(TypeError):
        len(FileLister(str(tree)).open_files())


@pytest.mark.parametrize(
    "make",
    [
        lambda tree: FileLister(str(tree), recursive=True).open_files().read_from_stream(),
        lambda tree: FileLister(str(tree), recursive=True).open_files("b").read_from_stream(chunk=5),
        lambda tree: IterableWrapper([str(tree), str(tree / "sub")]).list_files().open_files("b").read_from_stream(7),
    ],
)
def test_opening_and_reading_resume(tree: Path, make: Callable[[Path], ps.IterDataPipe[Any]]) -> None:
    assert_resumes_everywhere(lambda: make(tree))


def test_a_state_does_not_grow_with_the_files_that_were_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    dp = opened(*[tree / "a.txt"] * 50).read_from_stream(chunk=8)
    iterator = iter(dp)
    for _ in range(99):
        next(iterator)
    assert dp.state_dict()["state"]["steps"][-1]["skip"] <= 2


def test_a_chain_that_holds_open_files_can_be_pickled(tree: Path) -> None:
    dp = FileLister(str(tree), "?.txt").open_files().read_from_stream(chunk=9)
    iterator = iter(dp)
    next(iterator)
    assert list(pickle.loads(pickle.dumps(dp))) == list(dp)


# Reading


def streams(*contents: str | bytes) -> ps.IterDataPipe[tuple[str, Any]]:
    files = [io.StringIO(each) if isinstance(each, str) else io.BytesIO(each) for each in contents]
    return IterableWrapper([(f"file{number}", file) for number, file in enumerate(files)], deepcopy=False)


def test_each_stream_is_read_whole_also_an_empty_one() -> None:
    dp = streams(b"abc", b"", "text").read_from_stream()
    assert list(dp) == [("file0", b"abc"), ("file1", b""), ("file2", "text")]
    assert len(dp) == 3


def test_chunks_are_of_the_size_asked_for_and_an_empty_stream_has_none() -> None:
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


def test_a_stream_that_cannot_be_read_is_closed() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("the disk is gone")

    broken = Broken()
    with pytest.raises(OSError, match="the disk is gone"):
        list(StreamReader(IterableWrapper([("a", broken)], deepcopy=False)))
    assert broken.closed


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_is_at_least_one_long(chunk: int) -> None:
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        streams(b"a").read_from_stream(chunk)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (b"bytes", "pairs of a path and a stream are needed, and this is of type bytes"),
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

    def make() -> ps.IterDataPipe[str]:
        return IterableWrapper(roots).list_files(on_error="skip")

    dp = make()
    assert relative(dp, tree) == ["sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]
    assert dp.stats()["list_files"]["skipped"] == 2
    assert "nowhere" in dp.stats()["list_files"]["last_errors"][0]
    assert_resumes_everywhere(make)
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
    expected = ["a.txt", "b.txt", "c.bin", "empty.txt", "sub/a.txt", "sub/z.txt", "sub/deep/d.txt"]
    assert relative(dp, tree) == expected
    assert dp.stats()["list_files"]["retried"] == 2


def test_files_that_cannot_be_opened_can_be_left_out(tree: Path) -> None:
    def make() -> ps.IterDataPipe[Any]:
        paths = [str(tree / name) for name in ("a.txt", "nowhere", "sub", "b.txt")]
        return IterableWrapper(paths).open_files(on_error=ps.Skip(errors=OSError)).read_from_stream()

    dp = make()
    assert [content for _, content in dp] == ["content of a.txt", "content of b.txt"]
    assert dp.stats()["open_files"]["skipped"] == 2
    assert_resumes_everywhere(make)
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(opened("a", on_error="skip"))


def test_a_file_is_opened_again_until_it_is_there(tree: Path) -> None:
    path = tree / "late.txt"
    dp = opened(path, on_error=ps.Retry(5, backoff=0, errors=FileNotFoundError)).read_from_stream()
    fileio, failures = io.FileIO, []

    def late(name: str) -> io.FileIO:
        if len(failures) == 2:
            path.write_text("at last")
        failures.append(name)
        return fileio(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "FileIO", late)
        assert [content for _, content in dp] == ["at last"]
    assert dp.stats()["open_files"] == {"skipped": 0, "retried": 2, "last_errors": []}


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
    with pytest.raises(ValueError, match="a stream cannot be read again"):
        IterableWrapper([]).read_from_stream(on_error=ps.Retry(2))


@pytest.mark.parametrize("chunk", [None, 2])
def test_reading_what_is_left_resumes(tree: Path, chunk: int | None) -> None:
    (tree / "b.txt").write_bytes(b"content \xff")  # not UTF-8

    def make() -> ps.IterDataPipe[Any]:
        opened = FileLister(str(tree), "?.txt").open_files(encoding="utf-8")
        return opened.read_from_stream(chunk, on_error="skip")

    dp = make()
    assert {Path(path).name for path, _ in dp} == {"a.txt"}
    assert dp.stats()["read_from_stream"]["skipped"] == 1
    assert_resumes_everywhere(make)
