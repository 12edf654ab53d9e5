"""A server of files for the tests of data sets."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from penstock.datasets.files import _opened_once
from served import FileServer, serving


@pytest.fixture(autouse=True)
def no_archive_stays_open() -> Iterator[None]:
    """An archive that is read by path stays open in its process, with the threads that fetch it from a store."""
    yield
    _opened_once.cache_clear()
    gc.collect()


@pytest.fixture(scope="module")
def server_process() -> Iterator[FileServer]:
    with serving() as server:
        yield server


@pytest.fixture
def server(server_process: FileServer, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """The server of a module, without files, and an environment that says nothing about data sets."""
    for name in ("PENSTOCK_DATASETS", "PENSTOCK_MIRROR", "PENSTOCK_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    server_process.forget()
    return server_process
