"""A stand-in for the Hugging Face hub: it answers the requests by which data sets are listed and read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from serving import serving

TOKEN = "hf_the_token"
"""What opens data sets of `private`."""


@contextmanager
def serving_hub(folder: Path) -> Iterator[str]:
    """Serve the data sets in a folder, as `user/name/revision/path`, and give the URL of the server."""
    with serving(__file__, str(folder)) as url:
        yield url


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    asked: set[str] = set()

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        found = re.fullmatch(r"(?:/api)?/datasets/([^/]+/[^/]+)(?:/(revision|tree|paths-info|resolve)/(.*))?", url.path)
        if found is None:
            return self.send(404, b"no such page")
        if found[1].startswith("busy/") and self.path not in self.asked:  # the first time
            self.asked.add(self.path)
            return self.send(503, b"busy")
        name, what, rest = found[1], found[2] or "revision", unquote(found[3] or "main")
        if name.startswith("private/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        if not (self.root / name).is_dir():
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        revision, _, path = rest.partition("/")
        if not (self.root / name / revision).is_dir():
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        place = self.root / name / revision / path
        if what == "revision":
            return self.send_json({"id": name, "sha": sha1(revision.encode()).hexdigest(), "siblings": [], "tags": []})
        if what == "paths-info":
            asked = json.loads(sent)["paths"] if sent.startswith(b"{") else parse_qs(sent.decode())["paths"]
            there = [self.root / name / revision / each for each in asked]
            return self.send_json([self.entry(each, name, revision) for each in there if each.exists()])
        if not place.exists():
            return self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        if what == "tree":
            recursive = parse_qs(url.query).get("recursive", ["false"])[0].lower() in ("true", "1")
            below = sorted(place.rglob("*") if recursive else place.iterdir())
            return self.send_json([self.entry(each, name, revision) for each in below])
        return self.send_file(place.read_bytes())

    def entry(self, place: Path, name: str, revision: str) -> dict[str, Any]:
        path = place.relative_to(self.root / name / revision).as_posix()
        number = sha1(path.encode()).hexdigest()
        if place.is_dir():
            return {"type": "directory", "oid": number, "size": 0, "path": path}
        return {"type": "file", "oid": number, "size": place.stat().st_size, "path": path}

    def send_json(self, answer: Any) -> None:
        self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_file(self, content: bytes) -> None:
        headers = {"ETag": f'"{sha1(content).hexdigest()}"', "Accept-Ranges": "bytes"}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start, stop = int(wanted[1]), min(int(wanted[2] or len(content)) + 1, len(content))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            return self.send(206, content[start:stop], headers)
        return self.send(200, content, headers)

    def send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    Handler.root = Path(sys.stdin.read())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
