"""A server of one object, by threads of this process, which on request answers other than it should."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from penstock.storage.objects import LARGE

SECRET = "ThisIsSecret"
SIZE = LARGE + 3 * 2**20
OLD, NEW = (np.random.default_rng(seed).bytes(SIZE) for seed in (0, 1))
SMALL = OLD[:100_000]
PORTAL = b"<html>Please log in.</html>"


class Server(ThreadingHTTPServer):
    """A server of one object, which answers its requests as `plays` says, the first with the first; then well."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.content = SMALL
        self.version: dict[str, str] = {"ETag": '"1"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        self.plays: dict[str, list[str]] = {}
        self.knows_ranges = True
        self.packs = False
        self.befalls: Callable[[str, int], str] | None = None
        """Says what to play, in place of `plays`, of a range that is asked for, and how often it was."""
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.host}"

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients hang up."""

    def replace(self) -> None:
        self.content = NEW[: len(self.content)]
        self.version = {name: value.replace("1", "2") for name, value in self.version.items()}

    def count(self, method: str) -> int:
        return sum(asked.partition(" ")[0] == method for asked, _ in self.asked)

    def count_of_range(self, span: str) -> int:
        return sum(asked.startswith("GET") and headers.get("range", "") == span for asked, headers in self.asked)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((f"{self.command} {self.path}", headers))
        plays = self.server.plays.get(self.command, [])
        play = (plays.pop(0) if len(plays) > 1 or not plays[0].startswith("ever ") else plays[0][5:]) if plays else ""
        if self.server.befalls and self.command == "GET":
            asked = headers.get("range", "")
            play = self.server.befalls(asked, self.server.count_of_range(asked))
        if play == "replace":
            self.server.replace()
        content, told = self.server.content, {**self.server.version}
        if self.server.packs:
            content, told["Content-Encoding"] = gzip.compress(content, 0), "gzip"
        status, first, last = 200, 0, len(content) - 1
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if span and self.server.knows_ranges:
            status, first, last = 206, int(span[1]), min(int(span[2] or last), last)
            told["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            if first >= len(content):
                status, told["Content-Range"] = 416, f"bytes */{len(content)}"
        body = content[first : last + 1]
        if play.startswith("to "):
            status, body, told = int(play[3:6]), b"", {"Location": play[7:] + self.path}
        elif play == "503":
            status, body, told = 503, b"", {}
        elif play == "portal":
            status, body, told = 200, PORTAL, {}
        elif play == "another range":
            told["Content-Range"] = f"bytes {first + 1}-{last}/{len(content)}"
        elif play == "half a range":
            last = (first + last) // 2
            body, told["Content-Range"] = content[first : last + 1], f"bytes {first}-{last}/{len(content)}"
        elif play == "another version":
            told["ETag"] = '"2"'
        elif play == "silent":
            time.sleep(3)
            self.close_connection = True
            return
        self.send_response(status)
        if play not in ("no length", "half, no length"):
            told["Content-Length"] = str(len(body))
        for name, value in told.items():
            self.send_header(name, value)
        self.close_connection = play in ("cut", "no length", "half, no length")
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):
                half = len(body) // 2
                if play == "wait":
                    self.wfile.write(body[:half])
                    self.server.begun.set()
                    assert self.server.go_on.wait(30)
                    body = body[half:]
                self.wfile.write(body[:half] if play in ("cut", "half, no length") else body)
        if self.close_connection:
            with suppress(OSError):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815


@contextmanager
def running() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def keys_for(server: Server) -> dict[str, Any]:
    return {"key": "the-key", "secret": "the-secret", "token": SECRET, "endpoint_url": server.url}
