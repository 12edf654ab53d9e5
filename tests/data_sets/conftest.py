"""A server of files for the tests of data sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import FileServer, serving


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
