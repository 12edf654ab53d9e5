"""The law that an abandoned pass closes its files, and names those that it does not."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from passing import Passing
from penstock.testing import check_operator
from penstock.testing import reading as laws_of_reading

LAW = ["abandoned_pass_closes_its_files"]

_opened: list[Any] = []


@pytest.fixture(autouse=True)
def _all_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(laws_of_reading, "_CLOSES_WITHIN", 0.2)
    yield
    for file in _opened:
        if isinstance(file, int):
            os.close(file)
        else:
            file.close()
    _opened.clear()


def a_socket() -> socket.socket:
    opened = socket.socket()
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    return opened


class Opens(Passing):
    def __init__(self, source: Any, fn: Callable[[], Any]) -> None:
        super().__init__(source)
        self.fn = fn

    def __iter__(self) -> Iterator[Any]:
        _opened.append(self.fn())
        yield from self.source


class OpensAFileAtTheThirdItem(Opens):
    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self.source):
            if number == 2:
                _opened.append(self.fn())
            yield item


class KeepsItsFile(Opens):
    transient = ("file",)

    def __iter__(self) -> Iterator[Any]:
        self.file = self.fn()
        yield from self.source


class ClosesInAThread(Opens):
    def __iter__(self) -> Iterator[Any]:
        file = self.fn()
        try:
            yield from self.source
        finally:
            threading.Timer(0.02, file.close).start()


def this() -> Any:
    return open(__file__, "rb")


@pytest.mark.parametrize(
    ("kind", "fn", "named"),
    [
        (Opens, this, f"closed after 1 items, but this is still open: {__file__}"),
        (Opens, lambda: os.open(__file__, os.O_RDONLY), f"still open: {__file__}"),
        (
            Opens,
            lambda: tempfile.NamedTemporaryFile(prefix="of-the-law-"),  # noqa: SIM115
            f"still open: {tempfile.gettempdir()}/of-the",
        ),
        (Opens, tempfile.TemporaryFile, "still open: a file without a name"),
        (Opens, lambda: os.open(Path(__file__).parent, os.O_RDONLY), "still open: a folder"),
        (Opens, a_socket, "still open: a socket of 127.0.0.1:"),
        (Opens, socket.socket, "still open: a socket"),
        (OpensAFileAtTheThirdItem, this, f"closed after 3 items, but this is still open: {__file__}"),
        (KeepsItsFile, lambda: os.open(__file__, os.O_RDONLY), f"still open: {__file__}"),
    ],
)
def test_what_stays_open_is_named(kind: type[Opens], fn: Callable[[], Any], named: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_operator(lambda: kind(ps.iter.IterableWrapper(range(6)), fn), LAW)
    assert named in str(caught.value)


def test_a_file_that_is_closed_soon_is_closed() -> None:
    check_operator(lambda: ClosesInAThread(ps.iter.IterableWrapper(range(6)), this), LAW)


def test_files_that_a_process_opens_once_do_not_matter() -> None:
    def once() -> Any:
        if not _opened:
            _opened.append(this())
        return _opened[0]

    check_operator(lambda: ps.iter.IterableWrapper(range(6)).map(lambda item: (item, once().name)), LAW)


def test_what_the_sources_open_is_closed_with_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    check_operator(lambda: ps.iter.IterableWrapper([str(tmp_path / "a.txt")]).open_files("rt").readlines(), LAW)
