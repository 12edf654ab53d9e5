"""Cases for `benchmarks.resuming_again` of operators that read or write files, streams and tables."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import threading
import zipfile
from collections.abc import Callable
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from .again_feeds import Case, Feed

FILES = 6000
"""The number of files that keep an operator busy for about as long as a million numbers."""
LINES = 98
TEXT = b"the quick brown fox\n" * 20
RECORD = bytes.fromhex("0f000000000000006d532b090a0d0a0b0a016e12061a040a020307499e3a8f")
RAR = base64.b64decode("UmFyIRoHAM+QcwAADQAAAAAAAAAI93QAgCUAAwAAAAMAAAAD8YZsegAAIQAdMAUApIEAAGEudHh0b25lxD17AEAHAA==")


def stream(content: bytes, ending: str) -> Callable[[int], Any]:
    return lambda x: (f"{x}.{ending}", io.BytesIO(content))


def lines(x: int) -> str:
    return f"line of {x}\n" * LINES


def table_rows(x: int) -> str:
    return "id,name\n" + f"{x},a row\n" * LINES


def as_stream(text: Callable[[int], str]) -> Callable[[int], Any]:
    return lambda x: (f"{x}.txt", io.StringIO(text(x)))


def as_bytes(text: Callable[[int], str]) -> Callable[[int], bytes]:
    return lambda x: text(x).encode()


def one_file(feed: Feed, text: Callable[[int], str]) -> Any:
    """Return a pipe of one stream, with more lines than will be read."""
    times = feed.items // LINES + 100
    return feed.source(lambda x: (f"{x}.txt", io.StringIO(text(x) * times)), length=1)


def tar() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        for number in range(9):
            header = tarfile.TarInfo(f"{number}.txt")
            header.size = len(TEXT)
            writer.addfile(header, io.BytesIO(TEXT))
    return archive.getvalue()


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        for number in range(9):
            writer.writestr(f"{number}.txt", TEXT)
    return archive.getvalue()


def table(x: int) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.table({"id": np.full(100, x)})


def written(write: Callable[[Any, Any], Any], x: int) -> bytes:
    file = io.BytesIO()
    write(table(x), file)
    return file.getvalue()


def parquet(x: int) -> bytes:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    return written(partial(pq.write_table, row_group_size=25), x)


def ipc(x: int) -> bytes:
    from pyarrow import feather

    return written(feather.write_feather, x)


def orc(x: int) -> bytes:
    from pyarrow import orc as pa_orc

    return written(pa_orc.write_table, x)


def npy(x: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.full(100, x))
    return file.getvalue()


def json_lines(x: int) -> str:
    return f'{{"id": {x}}}\n' * LINES


@cache
def png() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "png")
    return file.getvalue()


class Answer(BaseHTTPRequestHandler):
    """Answers every request with a few bytes."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(TEXT)))
        self.end_headers()
        self.wfile.write(TEXT)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@cache
def server() -> str:
    answering = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=answering.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{answering.server_port}"


def urls(feed: Feed) -> Any:
    where = server()
    return feed.source(lambda x: f"{where}/{x}.txt")


def folder(feed: Feed, times: int | None = None) -> Any:
    """Return a pipe that yields one folder with ten files many times."""
    name = feed.folder / "shelf"
    name.mkdir(exist_ok=True)
    for number in range(10):
        (name / f"{number}.parquet").write_bytes(TEXT)
    return feed.source(lambda _: str(name), times)


def to_write(feed: Feed) -> Any:
    return feed.source(lambda x: (feed.path(f"{x}.txt"), TEXT))


def a_row(x: int) -> dict[str, int]:
    return {"id": x}


def a_sample(x: int) -> dict[str, Any]:
    return {"__key__": str(x), "txt": TEXT}


def written_to(feed: Feed, ending: str) -> str:
    return feed.path("{shard:06d}." + ending)


def through_cache(feed: Feed) -> Any:
    def path(name: str) -> str:
        return feed.path(f"cached-{name}")

    missing = feed.source(str).on_disk_cache(path)
    return missing.map(lambda name: (name, TEXT)).end_caching(filepath_fn=path)


def one(_: int) -> int:
    return 1


def all_of_them(pulled: int) -> int:
    return pulled


DIGEST = hashlib.sha256(TEXT).hexdigest()

FILE_CASES = [
    Case("iter.list_files", lambda f: folder(f).list_files(), most=10 * FILES, buffers=one),
    Case("iter.list_files_by_fsspec", lambda f: folder(f).list_files_by_fsspec(), most=10 * FILES, buffers=one),
    Case("iter.list_files_by_iopath", lambda f: folder(f).list_files_by_iopath(), most=10 * FILES, buffers=one),
    Case("iter.list_table_files", lambda f: folder(f, 100).list_table_files("parquet"), most=100, buffers=all_of_them),
    Case("iter.open_files", lambda f: f.files(as_bytes(lines), "txt").open_files(), most=FILES),
    Case("iter.open_files_by_fsspec", lambda f: f.files(as_bytes(lines), "txt").open_files_by_fsspec(), most=FILES),
    Case("iter.open_files_by_iopath", lambda f: f.files(as_bytes(lines), "txt").open_files_by_iopath(), most=FILES),
    Case("iter.load_files_by_s3", lambda f: f.files(as_bytes(lines), "txt").load_files_by_s3(), most=FILES),
    Case(
        "iter.cache_files",
        lambda f: f.files(as_bytes(lines), "txt").cache_files(f.path("cache"), 10**9),
        most=FILES,
    ),
    Case("iter.read_from_http", lambda f: urls(f).read_from_http(), most=FILES),
    Case("iter.read_from_remote", lambda f: urls(f).read_from_remote(), most=FILES),
    Case("iter.read_from_stream", lambda f: f.source(stream(TEXT, "txt")).read_from_stream(), "whole"),
    Case("iter.read_from_stream", lambda f: f.source(stream(TEXT, "txt")).read_from_stream(chunk=30), "in pieces"),
    Case(
        "iter.check_hash",
        lambda f: f.source(lambda _: ("a.txt", TEXT)).check_hash({"a.txt": DIGEST}),
    ),
    Case("iter.parse_json_files", lambda f: f.source(stream(b"[1]", "json")).parse_json_files()),
    Case("iter.routed_decode", lambda f: f.source(lambda x: (f"{x}.json", b"[1]")).routed_decode()),
    Case("iter.decompress", lambda f: f.source(stream(gzip.compress(TEXT), "gz")).decompress()),
    Case("iter.extract", lambda f: f.source(stream(gzip.compress(TEXT), "gz")).extract()),
    Case("iter.load_from_bz2", lambda f: f.source(stream(bz2.compress(TEXT), "bz2")).load_from_bz2()),
    Case("iter.load_from_xz", lambda f: f.source(stream(lzma.compress(TEXT), "xz")).load_from_xz()),
    # Lines and members
    Case("iter.readlines", lambda f: f.source(as_stream(lines)).readlines(), f"{LINES} a file"),
    Case("iter.readlines", lambda f: one_file(f, lines).readlines(), "one file"),
    Case("iter.parse_csv", lambda f: f.source(as_stream(table_rows)).parse_csv(), f"{LINES} a file"),
    Case("iter.parse_csv", lambda f: one_file(f, table_rows).parse_csv(), "one file"),
    Case("iter.parse_csv_as_dict", lambda f: f.source(as_stream(table_rows)).parse_csv_as_dict(), f"{LINES} a file"),
    Case("iter.load_from_tar", lambda f: f.source(stream(tar(), "tar")).load_from_tar()),
    Case("iter.load_from_zip", lambda f: f.source(stream(zipped(), "zip")).load_from_zip()),
    Case("iter.load_from_rar", lambda f: f.source(stream(RAR, "rar")).load_from_rar()),
    Case(
        "iter.load_from_tfrecord",
        lambda f: f.source(stream(RECORD * LINES, "tfrecord")).load_from_tfrecord(),
        buffers=one,
    ),
    Case("iter.read_text", lambda f: f.files(as_bytes(lines), "txt").read_text(), most=FILES),
    Case("iter.read_images", lambda f: f.files(lambda _: png(), "png").read_images(include_paths=True), most=FILES),
    # Tables
    Case("iter.read_numpy", lambda f: f.files(npy, "npy").read_numpy(), most=FILES),
    Case("iter.read_parquet", lambda f: f.files(parquet, "parquet").read_parquet(), most=FILES),
    Case("iter.read_ipc", lambda f: f.files(ipc, "arrow").read_ipc(batch_size=30), most=FILES),
    Case("iter.read_orc", lambda f: f.files(orc, "orc").read_orc(batch_size=30), most=FILES),
    Case("iter.read_csv", lambda f: f.files(as_bytes(table_rows), "csv").read_csv(batch_size=30), most=FILES),
    Case("iter.read_json", lambda f: f.files(as_bytes(json_lines), "json").read_json(batch_size=30), most=FILES),
    Case("iter.load_parquet_as_df", lambda f: f.files(parquet, "parquet").load_parquet_as_df(), most=FILES),
    Case("iter.list_row_groups", lambda f: f.files(parquet, "parquet").list_row_groups(), most=FILES),
    Case(
        "iter.shuffle_row_groups",
        lambda f: f.files(parquet, "parquet", times=1).shuffle_row_groups(),
        most=FILES,
        buffers=all_of_them,
    ),
    # Written
    Case("iter.save_to_disk", lambda f: to_write(f).save_to_disk("wb"), most=10 * FILES),
    Case("iter.save_by_fsspec", lambda f: to_write(f).save_by_fsspec("wb"), most=10 * FILES),
    Case("iter.save_by_iopath", lambda f: to_write(f).save_by_iopath("wb"), most=10 * FILES),
    Case("iter.on_disk_cache", through_cache, "with end_caching", most=FILES),
    Case("iter.end_caching", through_cache, "with on_disk_cache", most=FILES),
    Case("iter.write_csv", lambda f: f.source(a_row).write_csv(written_to(f, "csv"), 1000, mode="overwrite")),
    Case("iter.write_json", lambda f: f.source(a_row).write_json(written_to(f, "json"), 1000, mode="overwrite")),
    Case(
        "iter.write_numpy",
        lambda f: f.source(a_row).write_numpy(written_to(f, "npy"), 1000, column="id", mode="overwrite"),
    ),
    Case(
        "iter.write_parquet", lambda f: f.source(a_row).write_parquet(written_to(f, "parquet"), 1000, mode="overwrite")
    ),
    Case("iter.write_tar", lambda f: f.source(a_sample).write_tar(written_to(f, "tar"), 100, mode="overwrite")),
]
