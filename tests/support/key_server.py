"""A server that keeps objects under any key, as S3 does: rclone's takes keys for paths, and refuses some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

from listing_server import escaped
from serving import serving

OBJECT = "<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
LISTING = (
    "<ListBucketResult><KeyCount>{count}</KeyCount>{encoding}<IsTruncated>false</IsTruncated>{content}"
    "</ListBucketResult>"
)
TIME = "2024-01-01T00:00:00.000Z"
OBJECTS: dict[str, bytes] = {}
"""Contents by bucket, slash and key."""


@contextmanager
def serving_keys() -> Iterator[str]:
    """Run the server, which is empty and has every bucket, and give its endpoint."""
    with serving(__file__) as url:
        yield url


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url, name = self._asked()
        bucket, _, key = name.partition("/")
        if not key:
            self._list(bucket, {name: values[0] for name, values in parse_qs(url, keep_blank_values=True).items()})
        elif name not in OBJECTS:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif asked := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or ""):
            start, whole = int(asked[1]), OBJECTS[name]
            content = whole[start : int(asked[2]) + 1]
            place = {"Content-Range": f"bytes {start}-{start + len(content) - 1}/{len(whole)}"}
            self._answer(206, content, ETag=_tag(name), **place)
        else:
            self._answer(200, OBJECTS[name], ETag=_tag(name))

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def do_PUT(self) -> None:
        _, name = self._asked()
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if source := self.headers["x-amz-copy-source"]:
            content = OBJECTS[unquote(source).removeprefix("/")]
        OBJECTS[name] = content
        tag = _tag(name)
        copied = f"<CopyObjectResult><ETag>{tag}</ETag><LastModified>{TIME}</LastModified></CopyObjectResult>".encode()
        self._answer(200, copied if source else b"", ETag=tag)

    def do_DELETE(self) -> None:
        OBJECTS.pop(self._asked()[1], None)
        self._answer(204, b"")

    def _asked(self) -> tuple[str, str]:
        url = urlsplit(self.path)
        return url.query, unquote(url.path[1:])

    def _list(self, bucket: str, asked: dict[str, str]) -> None:
        prefix, after = asked.get("prefix", ""), asked.get("start-after", "")
        keys = sorted((name.partition("/")[2] for name in OBJECTS if name.startswith(f"{bucket}/")), key=str.encode)
        found = [key for key in keys if key.startswith(prefix) and key.encode() > after.encode()]
        folders: dict[str, None] = {}
        if asked.get("delimiter"):
            below = [key for key in found if "/" in key[len(prefix) :]]
            folders = dict.fromkeys(prefix + key[len(prefix) :].partition("/")[0] + "/" for key in below)
            found = [key for key in found if key not in below]
        found = found[: int(asked.get("max-keys", 1000))]
        name_of, encoding = escaped, ""
        if asked.get("encoding-type") == "url":
            name_of, encoding = quote, "<EncodingType>url</EncodingType>"
        written = [
            OBJECT.format(
                key=name_of(key), time=TIME, tag=_tag(f"{bucket}/{key}"), size=len(OBJECTS[f"{bucket}/{key}"])
            )
            for key in found
        ] + [f"<CommonPrefixes><Prefix>{name_of(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        self._answer(200, LISTING.format(count=len(written), encoding=encoding, content="".join(written)).encode())

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _tag(name: str) -> str:
    return f'"{md5(OBJECTS[name]).hexdigest()}"'


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
