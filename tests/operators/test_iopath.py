from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from iopath.common.file_io import PathHandler, PathManager

from http_server import CONTENT
from penstock.pipes.iter import IoPathFileLister, IterableWrapper

FILES = {"b.txt": b"two", "a.txt": b"one", "c.bin": b"\xff", "sub/d.txt": b"four"}


class ShelfHandler(PathHandler):  # type: ignore[misc]
    """Keeps files in memory, under paths that begin with shelf:."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()

    def _get_supported_prefixes(self) -> list[str]:
        return ["shelf:"]

    def _isfile(self, path: str, **kwargs: Any) -> bool:
        return path in self.files

    def _ls(self, path: str, **kwargs: Any) -> list[str]:
        rest = [name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/")]
        return [*dict.fromkeys(name.partition("/")[0] for name in rest)]

    def _mkdirs(self, path: str, **kwargs: Any) -> None:
        self.folders.add(path)

    def _open(self, path: str, mode: str = "r", buffering: int = -1, **kwargs: Any) -> Any:
        if mode == "rb":
            return io.BytesIO(self.files[path])
        if path.rpartition("/")[0] not in self.folders:
            raise FileNotFoundError(path)
        return Sheet(self.files, path, mode)


class Sheet(io.BytesIO):
    def __init__(self, files: dict[str, bytes], path: str, mode: str) -> None:
        super().__init__()
        self.files, self.path = files, path
        self.write(files.get(path, b"") if mode == "ab" else b"")

    def close(self) -> None:
        if not self.closed:
            self.files[self.path] = self.getvalue()
        super().close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "shelf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "shelf"


@pytest.fixture
def shelf() -> ShelfHandler:
    handler = ShelfHandler()
    handler.files.update({f"shelf:/{name}": content for name, content in FILES.items()})
    return handler


# Listing


@pytest.mark.parametrize(("masks", "expected"), [("", ["a.txt", "b.txt", "c.bin"]), (["c*", "a*"], ["a.txt", "c.bin"])])
def test_files_of_a_folder_come_sorted_and_without_subfolders(folder: Path, masks: Any, expected: list[str]) -> None:
    found = IoPathFileLister(str(folder), masks=masks)
    assert [str(Path(path).relative_to(folder)) for path in found] == expected


def test_roots_come_as_a_list_or_a_pipe_and_may_be_files(folder: Path) -> None:
    roots = [str(folder / "sub"), str(folder / "a.txt"), str(folder / "c.bin")]
    expected = [str(folder / "sub" / "d.txt"), str(folder / "a.txt")]
    assert list(IoPathFileLister(roots, "*.txt")) == expected
    assert list(IterableWrapper(roots).list_files_by_iopath("*.txt")) == expected


def test_a_missing_root_is_an_error_that_names_it(folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        list(IoPathFileLister([str(folder / "nowhere")]))
    assert "nowhere" in caught.value.__notes__[0]


# Opening


@pytest.mark.parametrize(("mode", "expected"), [("r", "one"), ("b", b"one")])
def test_the_mode_says_whether_text_or_bytes_are_read(folder: Path, mode: str, expected: Any) -> None:
    path = str(folder / "a.txt")
    assert list(IterableWrapper([path]).open_files_by_iopath(mode).read_from_stream()) == [(path, expected)]


def test_a_file_that_cannot_be_opened_is_an_error(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(IterableWrapper([str(folder / "nowhere")]).open_files_by_iopath())


def test_urls_are_opened_by_the_default_path_manager(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FVCORE_CACHE", str(tmp_path))  # where the handler keeps what it downloads
    url = f"{web}/file/a.txt"
    assert list(IterableWrapper([url]).open_files_by_iopath("rb").read_from_stream()) == [(url, CONTENT)]


# Path managers and handlers


@pytest.mark.parametrize("given", ["handler", "pathmgr", "both", "registered"])
def test_a_handler_is_used_however_it_is_given(shelf: ShelfHandler, given: str) -> None:
    arguments: dict[str, Any] = {}
    if given in ("pathmgr", "both"):
        arguments["pathmgr"] = PathManager()
    if given == "pathmgr":
        arguments["pathmgr"].register_handler(shelf)
    if given in ("handler", "both"):
        arguments["handler"] = shelf
    lister = IoPathFileLister("shelf:", "*.txt", **arguments)
    opener = IterableWrapper(["shelf:/a.txt"]).open_files_by_iopath("b", **arguments)
    saver = IterableWrapper([("shelf:/new/e.txt", b"five")]).save_by_iopath("wb", **arguments)
    if given == "registered":
        for pipe in (lister, opener, saver):
            pipe.register_handler(shelf)
    assert list(lister) == ["shelf:/a.txt", "shelf:/b.txt"]
    assert list(opener.read_from_stream()) == [("shelf:/a.txt", b"one")]
    assert list(saver) == ["shelf:/new/e.txt"]
    assert shelf.files["shelf:/new/e.txt"] == b"five"


def test_a_handler_is_registered_with_its_pipe_alone_and_replaces_an_earlier_one(shelf: ShelfHandler) -> None:
    manager = PathManager()
    manager.register_handler(ShelfHandler())
    assert len(list(IoPathFileLister("shelf:", pathmgr=manager, handler=shelf))) == 3
    with pytest.raises(KeyError, match="already registered"):
        IoPathFileLister("shelf:", pathmgr=manager).register_handler(ShelfHandler())
    with pytest.raises(FileNotFoundError):
        list(IoPathFileLister("shelf:"))


def test_a_handler_appends(shelf: ShelfHandler) -> None:
    list(IterableWrapper([("shelf:/new", b"x")] * 2).save_by_iopath("ab", handler=shelf))
    assert shelf.files["shelf:/new"] == b"xx"


def test_a_relative_path_is_written_where_the_path_manager_stands(tmp_path: Path) -> None:
    manager = PathManager()
    manager.set_cwd(str(tmp_path))
    list(IterableWrapper([("sub/a.txt", "one")]).save_by_iopath(pathmgr=manager))
    assert (tmp_path / "sub" / "a.txt").read_text() == "one"
