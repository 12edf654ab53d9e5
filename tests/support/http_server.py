"""A server that speaks HTTP, well and badly, in a process of its own; it plays the pages of Google Drive, too."""

from __future__ import annotations

import gzip
import json
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from serving import serving

PATIENCE = 30.0
"""Seconds that the server may take to begin, and to end, and that it is silent at most where it is to be silent."""

CONTENT = b"one\ntwo\nthree\n"
LARGE = bytes(range(256)) * 4000

DRIVE_FORM = """<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title></head><body>
<form id="download-form" action="/download" method="get"><input type="submit" value="Download anyway"/>
<input type="hidden" name="id" value="{id}"><input type="hidden" name="export" value="download">
<input type="hidden" name="confirm" value="t"><input type="hidden" name="uuid" value="12&amp;34"></form>
</body></html>"""
DRIVE_PAGES = {
    "quota": "<html><head><title>Google Drive - Quota exceeded</title></head><body>Too many users.</body></html>",
    "private": "<html><head><title>Sign in</title></head><body><form action='/login'></form></body></html>",
}


@contextmanager
def serving_http() -> Iterator[str]:
    """Run the server, and give its URL, without a slash at the end."""
    with serving(__file__) as url:
        yield url


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: Counter[str] = Counter()
        self.counting = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers each path with what its name says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client may hang up at any time
            super().handle()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        _, name, *arguments = url.path.split("/")
        with self.server.counting:
            self.server.requests[url.path] += 1
        answer = getattr(self, f"answer_{name}", None)
        if answer is None:
            self.send(b"no such page", status=404)
        else:
            answer(*arguments)

    def send(self, content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def answer_file(self, *path: str) -> None:
        self.send(LARGE if path[-1:] == ("large",) else CONTENT)

    def answer_echo(self) -> None:
        seen = {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}}
        self.send(json.dumps(seen).encode())

    def answer_counts(self) -> None:
        """How often each path was asked for."""
        self.send(json.dumps(self.server.requests).encode())

    def answer_redirect(self, times: str) -> None:
        to = f"/redirect/{int(times) - 1}" if int(times) > 1 else "/file/a.txt"
        self.send(b"this is not it", status=302, headers={"Location": to})

    def answer_status(self, status: str) -> None:
        self.send(b"an error page", status=int(status))

    def answer_flaky(self, name: str, times: str, fault: str) -> None:
        """Fails as often as `times` says, then does not."""
        if self.server.requests[self.path] > int(times):
            self.send(CONTENT)
        elif fault == "reset":
            self.reset()
        else:
            self.send(b"an error page", status=int(fault))

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def answer_truncated(self) -> None:
        self.send(CONTENT, headers={"Content-Length": "1000"})
        self.close_connection = True

    def answer_chunked(self, end: str = "whole") -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in CONTENT.splitlines(keepends=True):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n" if end == "whole" else b"")
        self.close_connection = end != "whole"

    def answer_gzip(self) -> None:
        self.send(gzip.compress(CONTENT), headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})

    def answer_archive(self, name: str) -> None:
        """A file that is packed itself, said to be packed for the way, as Apache does by default."""
        self.send(gzip.compress(CONTENT), headers={"Content-Encoding": "x-gzip", "Content-Type": "application/x-gzip"})

    def answer_silent(self, when: str) -> None:
        if when == "inside":
            self.send(CONTENT, headers={"Content-Length": "1000"})
        select.select([self.connection], [], [], PATIENCE)  # until the client hangs up
        self.close_connection = True

    # Google Drive

    def answer_uc(self) -> None:
        name = self.query.get("id", "")
        if name in DRIVE_PAGES:
            self.send(DRIVE_PAGES[name].encode(), headers={"Content-Type": "text/html; charset=utf-8"})
        elif name.startswith("large"):
            self.send(DRIVE_FORM.format(id=name).encode(), headers={"Content-Type": "text/html; charset=utf-8"})
        elif name == "missing":
            self.send(b"no such file", status=404)
        else:
            self.send_drive_file(name)

    def answer_download(self) -> None:
        if self.query.get("confirm") == "t" and self.query.get("uuid") == "12&34":
            self.send_drive_file(self.query["id"])
        else:
            self.send(b"not confirmed", status=400)

    def send_drive_file(self, name: str) -> None:
        dispositions = {
            "nameless": "attachment",
            "dots": 'attachment; filename="a/.."',
            "umlaut": "attachment; filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt",
            "climber": 'attachment; filename="../../etc/climber.txt"',
        }
        disposition = dispositions.get(name, f'attachment; filename="{name}.txt"')
        headers = {"Content-Disposition": disposition, "Content-Type": "application/octet-stream"}
        self.send(LARGE if name.startswith("large") else self.path.encode(), headers=headers)

    def log_message(self, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    with Server() as server:
        print(server.server_port, flush=True)
        server.serve_forever()
