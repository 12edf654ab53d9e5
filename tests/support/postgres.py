"""A PostgreSQL server of the tests' own, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 30.0
"""Seconds that the server may take to begin."""


def programs() -> Path | None:
    """Return the folder with the programs of the server; None where it is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "postgres").exists() else None


@contextmanager
def serving_postgres() -> Iterator[str]:
    """Run a server, which refuses to run as root, and yield the address of its database."""
    of_server = programs()
    assert of_server is not None
    user: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}
    folder = tempfile.mkdtemp(prefix="penstock-postgres-")
    if user:
        shutil.chown(folder, "nobody")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    data = f"{folder}/data"
    try:
        made = [of_server / "initdb", "-D", data, "-U", "me", "--no-sync", "--auth=trust", "-E", "UTF8"]
        subprocess.run(made, check=True, **user, **quiet)
        options = ["-D", data, "-k", folder, "-h", "127.0.0.1", "-p", str(port), "-F"]
        server = subprocess.Popen([of_server / "postgres", *options], **user, **quiet)
        try:
            _wait_for(port, server)
            yield f"postgresql://me@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    end = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(f"postgresql://me@127.0.0.1:{port}/postgres").close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > end or server.poll() is not None:
                raise
            time.sleep(0.05)
