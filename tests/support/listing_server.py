"""A server that lists buckets as S3 does, in a process of its own: of a million keys, or of keys that no folder has."""

from __future__ import annotations

import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

from serving import serving

PAGE = 1000
"""Keys in an answer."""

OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
    "<Size>{size}</Size></Contents>"
)
ANSWER = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{bucket}</Name><KeyCount>{count}</KeyCount>'
    "<EncodingType>url</EncodingType>{objects}<IsTruncated>{more}</IsTruncated>{token}</ListBucketResult>"
)


@contextmanager
def serving_lists(buckets: Mapping[str, Mapping[str, int] | int]) -> Iterator[str]:
    """Run the server, and give its endpoint; a bucket has the sizes of its objects by their keys, or is so many."""
    with serving(__file__, json.dumps(buckets) + "\n") as url:
        yield url


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    buckets: Mapping[str, Mapping[str, int]]
    keys: Mapping[str, Sequence[str]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        bucket = url.path.strip("/")
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        keys, prefix = self.keys[bucket], asked.get("prefix", "")
        after = asked.get("continuation-token") or asked.get("start-after", "")
        start = max(bisect_left(keys, prefix), bisect_right(keys, after))
        found = [key for key in keys[start : start + int(asked.get("max-keys", PAGE))] if key.startswith(prefix)]
        following = keys[start + len(found)] if found and start + len(found) < len(keys) else None
        is_cut = following is not None and following.startswith(prefix)
        written = quote if asked.get("encoding-type") == "url" else escaped
        body = ANSWER.format(
            bucket=bucket,
            count=len(found),
            objects="".join(OBJECT.format(key=written(key), size=self.buckets[bucket][key]) for key in found),
            more=str(is_cut).lower(),
            token=f"<NextContinuationToken>{escaped(found[-1])}</NextContinuationToken>" if is_cut else "",
        ).encode()
        if written is escaped:
            body = body.replace(b"<EncodingType>url</EncodingType>", b"")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def escaped(key: str) -> str:
    return "".join(f"&#{ord(letter)};" if letter in "<>&\"'" or letter < " " else letter for letter in key)


if __name__ == "__main__":
    given = json.loads(sys.stdin.readline())
    Handler.buckets = {
        name: {f"{number:07}.jpg": 1 for number in range(objects)} if isinstance(objects, int) else objects
        for name, objects in given.items()
    }
    Handler.keys = {name: sorted(objects, key=str.encode) for name, objects in Handler.buckets.items()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
