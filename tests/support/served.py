"""Data sets whose resources are small archives that a test makes, served by a real HTTP server."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.datasets import Dataset


class FileServer:
    """Serves files by their names: with ranges, ETags, and the faults that a test asks for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.forget()

    def forget(self) -> None:
        """Serve nothing, without faults."""
        self.files: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.cuts: dict[str, list[int]] = {}
        """How many bytes of a file the next answers give before the connection ends."""
        self.statuses: dict[str, list[int]] = {}
        """The statuses of the next answers."""
        self.etags = True
        self.headers: dict[str, dict[str, str]] = {}
        """What the answers for a file say besides."""
        self.takes_any_range = False


@contextmanager
def serving() -> Iterator[FileServer]:
    """Run a server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.lstrip("/").partition("?")[0]
            server.requests[name] += 1
            if statuses := server.statuses.get(name):
                return self._say(statuses.pop(0), b"an error page")
            if name not in server.files:
                return self._say(404, b"no such page")
            content = server.files[name]
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            headers = ({"ETag": etag} if server.etags else {}) | server.headers.get(name, {})
            status, wanted = 200, self.headers.get("Range")
            if wanted is not None:
                server.ranges.append(wanted)
                first = int(wanted.removeprefix("bytes=").rstrip("-"))
                if first >= len(content):
                    return self._say(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                if server.takes_any_range or self.headers.get("If-Range") == etag:
                    headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
                    status, content = 206, content[first:]
            cut = server.cuts[name].pop(0) if server.cuts.get(name) else None
            return self._say(status, content, headers, cut)

        def _say(
            self, status: int, content: bytes, headers: Mapping[str, str] | None = None, cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a client may hang up at any time
                self.wfile.write(content[:cut])
            self.close_connection = cut is not None

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        server = FileServer(f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        running.shutdown()
        thread.join()


def served(data: Dataset[Any], files: Mapping[str, bytes], server: FileServer, **splits: int) -> Dataset[Any]:
    """Return a data set that is like another, but for its resources: these files, by the names of the resources.

    `splits` are the numbers of items that the small files have; without them the lengths are not known.
    """
    small = copy.copy(data)
    small.resources = {}
    for name, resource in data.resources.items():
        content = files.get(name, b"")
        server.files[f"{data.name}/{resource.name}"] = content
        url = f"{server.url}/{data.name}/{resource.name}"
        digest = hashlib.sha256(content).hexdigest()
        small.resources[name] = replace(resource, url=url, sha256=digest, md5=None, size=len(content))
    small.count = None
    small.splits = {split: splits.get(split) for split in data.splits}
    return small
