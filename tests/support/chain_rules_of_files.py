"""Rules for the steps of random chains that read, open, decode and write files, and for those on tables and rows."""

from __future__ import annotations

import atexit
import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import tarfile
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import torch
from PIL import Image

import videos
from archives import tar_of
from chain_rules import FOLDERS, flag, mark, of, root, small, step
from penstock.registry import operators

ObjectReader = operators["ObjectReader"].cls
TarReader = operators["TarReader"].cls
HuggingFaceHubReader = operators["HuggingFaceHubReader"].cls
FileLister = operators["list_files"].cls

FILES = 4
"""How many files there are of each kind."""
TABLES = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=2),
    "csv": lambda table, path: pa.csv.write_csv(table, path),
    "jsonl": lambda table, path: Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist())),
    "arrow": lambda table, path: pa.feather.write_feather(table, path),
    "orc": lambda table, path: pa.orc.write_table(table, path),
    "npy": lambda table, path: np.save(path, table["id"].to_numpy()),
    "png": lambda table, path: Image.new("RGB", (1 + len(table), 2), (len(table), 0, 0)).save(path),
    "txt": lambda table, path: Path(path).write_text("\n".join(map(str, table["id"].to_pylist()))),
    "tar": lambda table, path: Path(path).write_bytes(tar_of({f"{x}.cls": b"1" for x in table["id"].to_pylist()}, "")),
}
if not videos.LACKING:
    TABLES["mp4"] = lambda table, path: videos.write_grey(path, len(table))


def _lay_out(folder: Path) -> None:
    for kind, write in TABLES.items():
        (folder / kind).mkdir()
        for number in range(FILES):
            ids = [*range(10 * number, 10 * number + 2 * number + 1)]
            write(pa.table({"id": ids, "text": [str(x % 3) for x in ids]}), str(folder / kind / f"{number}.{kind}"))
    (folder / "unlike").mkdir()
    for number in range(FILES):
        ids = pa.array(range(number + 1), [pa.int32(), pa.int64()][number % 2])
        more = {"more": [f"{number}"] * (number + 1)} if number > 1 else {}
        pq.write_table(pa.table({"id": ids, **more}), str(folder / "unlike" / f"{number}.unlike"), row_group_size=2)
    for number in range(FILES):
        (folder / "classes" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "png" / f"{number}.png", folder / "classes" / "ab"[number % 2])


def _files() -> Path:
    """Return a folder with the files to read: one name in all processes, with this file's present content."""
    version = zlib.crc32(Path(__file__).read_bytes())
    folder = Path(tempfile.gettempdir()) / f"{FOLDERS}{os.getuid()}-{version:08x}"
    if not folder.exists():
        made = Path(tempfile.mkdtemp())
        _lay_out(made)
        try:
            made.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(made)
    return folder


FOLDER = _files()


def path_of(kind: str) -> Callable[[Any], str]:
    return lambda item: str(FOLDER / kind / f"{mark(item) % FILES}.{kind}")


@cache
def _scratch() -> str:
    folder = tempfile.mkdtemp(prefix=f"{FOLDERS}scratch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def new_folder() -> str:
    """A folder of the chain's own, that is removed when the process ends."""
    return tempfile.mkdtemp(dir=_scratch())


# Sources


@root(covers="iter.list_files")
def files() -> Any:
    return FileLister(str(FOLDER), recursive=True).map(lambda path: os.path.relpath(path, FOLDER))


@root(small(0, 4), covers="map.ObjectReader map.shuffle")
def objects(n: int) -> Any:
    urls = [(FOLDER / "txt" / f"{number % FILES}.txt").as_uri() for number in range(n)]
    return ObjectReader(urls, workers=2).shuffle()


@root(small(0, 4), covers="map.TarReader")
def samples(n: int) -> Any:
    return TarReader([str(FOLDER / "tar" / f"{number % FILES}.tar") for number in range(n)], workers=2).shuffle()


@root(covers="iter.HuggingFaceHubReader", gives="row", slow=True, elsewhere=False)
def hub() -> Any:
    paths = [str(FOLDER / "jsonl" / f"{number}.jsonl") for number in range(FILES)]
    return HuggingFaceHubReader("json", data_files=paths, split="train")


# Rows, columns and fields


def to_columns(item: Any) -> Any:
    number = mark(item)
    ids = [number % 50 + place for place in range(number % 3 + 1)]
    return pa.record_batch({"id": ids, "text": [str(x % 7) for x in ids]})


def to_tensors_of_columns(item: Any) -> Any:
    return {"id": torch.arange(mark(item) % 3 + 1) + mark(item) % 50}


def to_stream(item: Any) -> Any:
    return f"a/{mark(item) % 10}.txt", io.BytesIO(f"{mark(item) % 10}\nsome\n\ntext\n".encode())


CONTENT = {f"{number}.txt": str(number).encode() for number in range(10)}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


def to_file(item: Any) -> Any:
    name = f"{mark(item) % 10}.txt"
    return name, CONTENT[name]


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "item": mark,
    "list": lambda item: [mark(item) % 10, item],
    "row": lambda item: {"id": mark(item) % 50, "text": str(mark(item) % 7)},
    "fields": lambda item: (mark(item) % 10, str(mark(item) % 7), (1, mark(item) % 3)),
    "columns": to_columns,
    "tensors": to_tensors_of_columns,
    "stream": to_stream,
    "file": to_file,
}
"""What makes any item one of a kind."""


@step(of(*CONVERSIONS), gives="drawn", covers="iter.map")
def to(dp: Any, kind: str) -> Any:
    return dp.map(CONVERSIONS[kind])


@step(takes="fields")
def slice_(dp: Any) -> Any:
    return dp.slice(0, 2)


@step(takes="fields")
def drop(dp: Any) -> Any:
    return dp.drop(1)


@step(takes="fields")
def flatten(dp: Any) -> Any:
    return dp.flatten(2)


@step(small(1, 3), takes="row")
def rows2columnar(dp: Any, n: int) -> Any:
    return dp.batch(n).rows2columnar()


@step(small(1, 4), takes="row")
def dataframe(dp: Any, n: int) -> Any:
    return dp.dataframe(dataframe_size=n)


@step(small(1, 5), flag, takes="columns", gives="columns", grows=2)
def rebatch(dp: Any, n: int, drop_last: bool) -> Any:
    return dp.rebatch(n, drop_last)


@step(small(1, 5), takes="tensors", gives="tensors", grows=2, covers="iter.rebatch")
def rebatch_tensors(dp: Any, n: int) -> Any:
    return dp.rebatch(n)


@step(small(0, 5), takes="columns", gives="tensors", grows=2, covers="iter.rebatch iter.map_batches")
def map_batches_of_columns(dp: Any, n: int) -> Any:
    return dp.rebatch(3).map_batches(without_the_first, batch_size=n or None, batch_format="torch")


def without_the_first(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: column[1:] for name, column in batch.items()}


@step(small(0, 12), takes="columns", gives="columns", covers="iter.limit")
def limit_rows(dp: Any, n: int) -> Any:
    return dp.limit(n)


@step(takes="columns", gives="row", grows=2)
def rows(dp: Any) -> Any:
    return dp.rows()


@step(small(1, 8), takes="columns", gives="columns")
def shuffle_rows(dp: Any, n: int) -> Any:
    return dp.shuffle_rows(n)


@step(small(1, 8), takes="tensors", gives="tensors", covers="iter.shuffle_rows")
def shuffle_rows_of_tensors(dp: Any, n: int) -> Any:
    return dp.shuffle_rows(n)


@step(takes="columns")
def to_tensors(dp: Any) -> Any:
    return dp.to_tensors()


@step(of("torch", "numpy", "arrow", "pandas"), takes="columns")
def with_format(dp: Any, form: str) -> Any:
    made = dp.with_format(form)
    return made.map(lambda frame: frame.to_dict("list")) if form == "pandas" else made


# Streams, and what is in them


@step(of(None, 2, 5), takes="stream", gives="file", grows=3)
def read_from_stream(dp: Any, chunk: int | None) -> Any:
    return dp.read_from_stream(chunk)


@step(takes="stream", grows=4)
def readlines(dp: Any) -> Any:
    return dp.readlines(decode=True)


@step(grows=3)
def parse_csv(dp: Any) -> Any:
    return dp.map(lambda item: ("a.csv", io.StringIO(f"id,text\n{mark(item) % 9},one\n"))).parse_csv()


@step(grows=2)
def parse_csv_as_dict(dp: Any) -> Any:
    return dp.map(
        lambda item: ("a.csv", io.StringIO("id,text\n" + f"{mark(item) % 9},one\n" * (mark(item) % 3)))
    ).parse_csv_as_dict()


@step()
def parse_json_files(dp: Any) -> Any:
    return dp.map(lambda item: ("a.json", io.StringIO(f"[{mark(item) % 9}]"))).parse_json_files()


@step()
def parse_json(dp: Any) -> Any:
    return dp.map(lambda item: ("a.jsonl", f'{{"n": {mark(item) % 9}}}')).parse_json()


@step()
def lines_to_paragraphs(dp: Any) -> Any:
    return dp.map(
        lambda item: (f"{mark(item) // 7 % 2}.txt", str(mark(item) % 9) if mark(item) % 3 else "")
    ).lines_to_paragraphs()


# A stream of a file in an archive, or a decompressed one, is closed when the next is asked for: it is read at once.


def compressed(compress: Callable[[bytes], bytes], ending: str) -> Callable[[Any], Any]:
    return lambda item: (f"a.txt.{ending}", io.BytesIO(compress(str(mark(item) % 9).encode())))


@step(gives="file")
def decompress(dp: Any) -> Any:
    return dp.map(compressed(gzip.compress, "gz")).decompress().read_from_stream()


@step(gives="file")
def extract(dp: Any) -> Any:
    return dp.map(compressed(bz2.compress, "bz2")).extract().read_from_stream()


@step(gives="file")
def load_from_bz2(dp: Any) -> Any:
    return dp.map(compressed(bz2.compress, "bz2")).load_from_bz2().read_from_stream()


@step(gives="file")
def load_from_xz(dp: Any) -> Any:
    return dp.map(compressed(partial(lzma.compress, preset=0), "xz")).load_from_xz().read_from_stream()


def a_tar(item: Any) -> Any:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for number in range(mark(item) % 3):
            header = tarfile.TarInfo(f"{number}.txt")
            content = str(mark(item) % 97).encode()
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return "a.tar", io.BytesIO(packed.getvalue())


def a_zip(item: Any) -> Any:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(mark(item) % 3):
            archive.writestr(f"{number}.txt", str(mark(item) % 97))
    return "a.zip", io.BytesIO(packed.getvalue())


@step(gives="file", grows=2)
def load_from_tar(dp: Any) -> Any:
    return dp.map(a_tar).load_from_tar().read_from_stream()


@step(gives="file", grows=2)
def load_from_zip(dp: Any) -> Any:
    return dp.map(a_zip).load_from_zip().read_from_stream()


RAR = base64.b64decode("UmFyIRoHAM+QcwAADQAAAAAAAAAI93QAgCUAAwAAAAMAAAAD8YZsegAAIQAdMAUApIEAAGEudHh0b25lxD17AEAHAA==")
TFRECORD = bytes.fromhex("0f000000000000006d532b090a0d0a0b0a016e12061a040a020307499e3a8f")


@step(gives="file", slow=True)
def load_from_rar(dp: Any) -> Any:
    return dp.map(lambda item: (f"{mark(item) % 9}.rar", io.BytesIO(RAR))).load_from_rar().read_from_stream()


@step(grows=2)
def load_from_tfrecord(dp: Any) -> Any:
    return dp.map(lambda item: ("a.tfrecord", io.BytesIO(TFRECORD * (mark(item) % 3)))).load_from_tfrecord()


@step(takes="file", gives="file")
def check_hash(dp: Any) -> Any:
    return dp.map(to_file).check_hash(DIGESTS)


@step(takes="file")
def routed_decode(dp: Any) -> Any:
    return dp.routed_decode()


@step()
def webdataset(dp: Any) -> Any:
    # Three neighbours in one sample, whatever came before.
    return dp.enumerate().map(lambda pair: (f"t/{pair[0] // 3}.{pair[0] % 3}", b"x")).webdataset()


# Lists of files, and files


def named(dp: Any) -> Any:
    """The name alone of each path."""
    return dp.map(os.path.basename)


@step(grows=4)
def list_files(dp: Any) -> Any:
    return named(dp.map(lambda item: str(FOLDER / list(TABLES)[mark(item) % 3])).list_files())


@step(grows=4)
def list_files_by_fsspec(dp: Any) -> Any:
    return named(dp.map(lambda item: str(FOLDER / list(TABLES)[mark(item) % 3])).list_files_by_fsspec())


@step(grows=4)
def list_files_by_iopath(dp: Any) -> Any:
    return named(dp.map(lambda item: str(FOLDER / list(TABLES)[mark(item) % 3])).list_files_by_iopath())


@step(grows=4)
def list_table_files(dp: Any) -> Any:
    return named(dp.map(lambda item: str(FOLDER / "parquet")).list_table_files("parquet"))


def labelled(dp: Any) -> Any:
    return dp.map(lambda file: (os.path.basename(file.url), file.label))


@step(grows=4)
def list_image_folder(dp: Any) -> Any:
    return labelled(dp.map(lambda item: str(FOLDER / "classes")).list_image_folder())


@step(grows=4)
def shuffle_image_folder(dp: Any) -> Any:
    return labelled(dp.map(lambda item: str(FOLDER / "classes")).shuffle_image_folder())


@step(gives="file")
def open_files(dp: Any) -> Any:
    return dp.map(path_of("txt")).open_files("rb").read_from_stream()


@step(gives="file")
def open_files_by_fsspec(dp: Any) -> Any:
    return dp.map(path_of("txt")).open_files_by_fsspec("rb").read_from_stream()


@step(gives="file")
def open_files_by_iopath(dp: Any) -> Any:
    return dp.map(path_of("txt")).open_files_by_iopath("rb").read_from_stream()


@step(small(1, 3), gives="file")
def load_files_by_s3(dp: Any, workers: int) -> Any:
    urls = dp.map(lambda item: f"file://{path_of('txt')(item)}")
    return urls.load_files_by_s3(workers=workers).read_from_stream()


@step(small(1, 3), gives="file")
def cache_files(dp: Any, workers: int) -> Any:
    urls = dp.map(lambda item: f"file://{path_of('txt')(item)}")
    return urls.cache_files(new_folder(), max_bytes=10**9, workers=workers).read_from_stream()


@step(grows=3)
def read_text(dp: Any) -> Any:
    return dp.map(path_of("txt")).read_text()


@step()
def read_images(dp: Any) -> Any:
    return dp.map(path_of("png")).read_images(workers=2)


if not videos.LACKING:

    @step(small(1, 3), grows=3)
    def read_videos(dp: Any, frames: int) -> Any:
        return dp.map(path_of("mp4")).read_videos(frames=frames)


@step(small(0, 2), gives="columns")
def read_numpy(dp: Any, workers: int) -> Any:
    return dp.map(path_of("npy")).read_numpy(workers=workers).map(lambda batch: batch.rename_columns(["id"]))


@step(small(1, 4), of(None, "text != '1' and id > 11"), gives="columns", grows=3)
def read_parquet(dp: Any, size: int, condition: str | None) -> Any:
    return dp.map(path_of("parquet")).read_parquet(batch_size=size, filter=condition)


@step(flag, covers="iter.read_parquet", gives="columns", grows=3)
def files_of_unlike_schemas(dp: Any, divided: bool) -> Any:
    files = dp.map(path_of("unlike"))
    return (files.list_row_groups() if divided else files).read_parquet(unify=True)


@step(small(1, 4), of(None, "text != 1 and id > 11"), gives="columns", grows=3)
def read_csv(dp: Any, size: int, condition: str | None) -> Any:
    return dp.map(path_of("csv")).read_csv(batch_size=size, filter=condition)


@step(small(1, 4), gives="columns", grows=3)
def read_json(dp: Any, size: int) -> Any:
    return dp.map(path_of("jsonl")).read_json(batch_size=size)


@step(small(1, 4), gives="columns", grows=3)
def read_ipc(dp: Any, size: int) -> Any:
    return dp.map(path_of("arrow")).read_ipc(batch_size=size)


@step(small(1, 4), gives="columns", grows=3)
def read_orc(dp: Any, size: int) -> Any:
    return dp.map(path_of("orc")).read_orc(batch_size=size)


@step(grows=3)
def load_parquet_as_df(dp: Any) -> Any:
    return dp.map(path_of("parquet")).load_parquet_as_df()


@step(small(1, 3), flag, grows=3)
def list_row_groups(dp: Any, ahead: int, read: bool) -> Any:
    groups = dp.map(path_of("parquet")).list_row_groups(prefetch=ahead)
    return groups.read_parquet() if read else groups


@step(of("parquet", "csv", "json", "ipc", "orc", "text"), covers="iter.shard_files", grows=3)
def sharding_files(dp: Any, kind: str) -> Any:
    folder = {"json": "jsonl", "ipc": "arrow", "text": "txt"}.get(kind, kind)
    files = dp.map(path_of(folder)).header(FILES).shard_files(kind, min_bytes=64)
    return getattr(files, f"read_{kind}")(**{"block_size": 64} if kind in ("csv", "json") else {})


@step(grows=3)
def shuffle_row_groups(dp: Any) -> Any:
    return dp.map(path_of("parquet")).shuffle_row_groups(prefetch=2).map(lambda group: [group.number, group.rows])


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@cache
def _server() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(FOLDER)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="random-chains-http").start()
    return f"http://127.0.0.1:{server.server_port}"


@step(gives="file", slow=True, elsewhere=False)
def read_from_http(dp: Any) -> Any:
    url = _server()
    return dp.map(lambda item: f"{url}/txt/{mark(item) % FILES}.txt").read_from_http().read_from_stream()


@step(gives="file", slow=True, elsewhere=False)
def read_from_remote(dp: Any) -> Any:
    url = _server()
    return dp.map(lambda item: f"{url}/txt/{mark(item) % FILES}.txt").read_from_remote().read_from_stream()


# Writers: what they yield is compared, less the folder, which is new for each chain


def contents(item: Any) -> Any:
    return f"{mark(item) % 7}.txt", str(mark(item) % 7)


def saved_in(folder: str) -> Callable[[Any], str]:
    return lambda name: os.path.join(folder, name)


@step()
def save_to_disk(dp: Any) -> Any:
    return named(dp.map(contents).save_to_disk(filepath_fn=saved_in(new_folder())))


@step()
def save_by_fsspec(dp: Any) -> Any:
    return named(dp.map(contents).save_by_fsspec(filepath_fn=saved_in(new_folder())))


@step()
def save_by_iopath(dp: Any) -> Any:
    return named(dp.map(contents).save_by_iopath(filepath_fn=saved_in(new_folder())))


@step(covers="iter.on_disk_cache iter.end_caching")
def disk_cache(dp: Any) -> Any:
    folder = new_folder()
    missing = dp.map(lambda item: f"{mark(item) % 20}.txt").on_disk_cache(saved_in(folder))
    made = missing.map(lambda name: (name, name.encode()))
    return named(made.end_caching(same_filepath_fn=True))


def counted(dp: Any) -> Any:
    return dp.map(lambda pair: [os.path.basename(pair[0]), pair[1]])


@step(small(1, 4), takes="row")
def write_csv(dp: Any, n: int) -> Any:
    return counted(
        dp.write_csv(os.path.join(new_folder(), "{shard:04d}.csv"), rows_per_file=n, mode="overwrite", batched=False)
    )


@step(small(1, 4), takes="row")
def write_json(dp: Any, n: int) -> Any:
    return counted(
        dp.write_json(os.path.join(new_folder(), "{shard:04d}.jsonl"), rows_per_file=n, mode="overwrite", batched=False)
    )


@step(small(1, 4), takes="columns", grows=2)
def write_parquet(dp: Any, n: int) -> Any:
    return counted(
        dp.write_parquet(
            os.path.join(new_folder(), "{shard:04d}.parquet"), rows_per_file=n, mode="overwrite", batched=True
        )
    )


@step(small(1, 4), takes="tensors", grows=2)
def write_numpy(dp: Any, n: int) -> Any:
    url = os.path.join(new_folder(), "{shard:04d}.npy")
    return counted(dp.write_numpy(url, rows_per_file=n, mode="overwrite", column="id", batched=True))


@step(small(1, 4))
def write_tar(dp: Any, n: int) -> Any:
    samples = dp.enumerate().map(lambda pair: {"__key__": f"{pair[0]:05d}", "cls": mark(pair[1]) % 9})
    return counted(
        samples.write_tar(os.path.join(new_folder(), "{shard:04d}.tar"), samples_per_shard=n, mode="overwrite")
    )
