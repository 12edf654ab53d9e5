"""A process that answers the requests that the aistore package sends for listing and reading objects.

It is no AIStore, which cannot be installed from PyPI: a cluster of its own kind would redirect to targets, check tokens
and fetch from clouds. What is tested against it is our use of the package, over real connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from serving import serving

PAGE = 2
"""Objects in a page of a listing."""

OBJECTS = {
    ("ais", "shelf", "a.txt"): b"one",
    ("ais", "shelf", "b.txt"): b"two",
    ("ais", "shelf", "empty"): b"",
    ("ais", "shelf", "sub/c.txt"): b"three",
    ("ais", "shelf", "sub/what is #1?"): b"four",
    ("ais", "large", "bytes"): bytes(range(256)) * 4000,
    ("aws", "cloud", "a.txt"): b"from a cloud",
}


@contextmanager
def serving_ais() -> Iterator[str]:
    """Run the server, and give its URL."""
    with serving(__file__) as url:
        yield url


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        _, version, kind, bucket, *name = unquote(url.path).split("/", 4)
        provider = {"s3": "aws", "gs": "gcp"}.get(said := parse_qs(url.query)["provider"][0], said)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if version != "v1" or not any(key[:2] == (provider, bucket) for key in OBJECTS):
            self.refuse(f'bucket "{provider}://{bucket}" does not exist')
        elif kind == "buckets":
            message = json.loads(body)
            assert message["action"] == "list", message
            self.list_objects(provider, bucket, message["value"])
        elif kind == "objects":
            content = OBJECTS.get((provider, bucket, name[0]))
            if content is None:
                self.refuse(f"{provider}://{bucket}/{name[0]} does not exist")
            else:
                self.send(content)

    def list_objects(self, provider: str, bucket: str, asked: dict[str, str]) -> None:
        names = sorted(key[2] for key in OBJECTS if key[:2] == (provider, bucket))
        start = asked.get("continuation_token", "")
        rest = [name for name in names if name.startswith(asked.get("prefix", "")) and name > start]
        page = rest[:PAGE]
        answer = {
            "UUID": asked.get("uuid") or "a-listing",
            "ContinuationToken": page[-1] if len(rest) > PAGE else "",
            "Flags": 0,
            "Entries": [{"n": name} for name in page],
        }
        self.send(msgspec.msgpack.encode(answer), content_type="application/msgpack")

    def refuse(self, why: str) -> None:
        error = {"status": 404, "message": why, "method": "GET", "url_path": self.path, "remote_addr": "", "trace": ""}
        self.send(json.dumps(error).encode(), 404, "application/json")

    def send(self, content: bytes, status: int = 200, content_type: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", content_type)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
