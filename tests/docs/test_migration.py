"""Each row of the page about torchdata and torchtext is run, and what only its bullets say."""

from __future__ import annotations

import asyncio
import base64
import bz2
import csv
import gzip
import hashlib
import inspect
import io
import json
import lzma
import multiprocessing
import os
import random
import re
import sys
import tarfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import torch
import urllib3
from torch.utils.data import RandomSampler, WeightedRandomSampler
from torch.utils.data.graph_settings import apply_sharding as torchs_apply_sharding

import penstock as ps
from archives import tar_of, zip_of
from forwards import Forwards
from http_server import CONTENT, LARGE
from penstock.registry import apply_sharding, operators
from penstock.storage.local.atomic import lock_beside
from ranks import run_programs

pytestmark = pytest.mark.timeout(50)

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "migration.md").read_text()
IMPORTS = re.findall(r"^\| `(from torchdata[^`]*)` \| `(from penstock[^`]*)`", PAGE, re.MULTILINE)

Row = tuple[str, str]
Test = TypeVar("Test", bound=Callable[..., None])

SHOWN: list[Row] = []
"""The rows that the tests of this file show."""


def row(first: str, *seconds: str) -> Callable[[Test], Test]:
    """Say which rows of the page a test shows, by their first two cells without backticks."""

    def enter(test: Test) -> Test:
        SHOWN.extend((first, second) for second in seconds)
        return test

    return enter


def rows_of_page() -> Iterator[Row]:
    """Yield the first two cells of each row; an empty first cell is that of the row above."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        name = ""
        for line in table.splitlines()[2:]:
            first, second, *_ = (cell.strip() for cell in line[1:-1].replace("`", "").split("|"))
            name = first or name
            yield name, second


def pipe(*items: Any) -> Any:
    return ps.iter.IterableWrapper(items, deepcopy=False)


def stream_of(path: str, content: bytes, way: Callable[[bytes], Any] = io.BytesIO) -> Any:
    return pipe((path, way(content)))


def contents(dp: Any) -> list[tuple[str, bytes]]:
    return [(path, stream.read()) for path, stream in dp]


@pytest.fixture
def under_install(tmp_path: Path) -> Callable[[str], list[Any]]:
    """A function that runs code after `install()` in a process of its own, and returns what the code says."""

    def run(code: str) -> list[Any]:
        start = "import json, penstock as ps, penstock.compat\npenstock.compat.install()\n"
        program = tmp_path / "program.py"
        program.write_text(start + "def say(what): print(json.dumps(what))\n" + code)
        run_programs(program, {tmp_path / "program": {**os.environ}}, seconds=40)
        return [json.loads(line) for line in (tmp_path / "program.out").read_text().splitlines()]

    return run


def test_each_row_has_a_test_and_each_test_a_row() -> None:
    rows = [*rows_of_page()]
    imports = [
        cells for cells in rows if cells[0].startswith("from torchdata") and cells[1].startswith("from penstock")
    ]
    assert {*rows} ^ {*SHOWN, *imports} == set()
    assert len(IMPORTS) == len(imports) >= 10
    assert len(rows) == len({*rows}) == PAGE.count("\n| ") - 2 * PAGE.count("\n| ---")
    assert len(SHOWN) == len({*SHOWN})


# Line by line


@row("PrototypeMultiProcessingReadingService(…)", "MultiProcessingReadingService(…)")
@row(
    "Batcher(datapipe=dp, batch_size=2)",
    "Batcher(dp, batch_size=2), or source=dp: the source is called source everywhere",
)
@row(
    "dp.source_datapipe, dp.datapipe, dp.datapipes",
    "dp.source, dp.sources; under install() the old names do, too",
)
def test_both_columns_import_the_same_and_old_names_do(under_install: Any) -> None:
    imported, old_names = (
        f"""
for lines in {IMPORTS}:
    theirs, ours = {{}}, {{}}
    for line, names in zip(lines, (theirs, ours)):
        exec(line, names)
        del names["__builtins__"]
    say([*lines, theirs.keys() == ours.keys(), [name for name in theirs if theirs[name] is not ours.get(name)]])
""",
        """
from torchdata.dataloader2 import CheckpointableReadingServiceInterface, PrototypeMultiProcessingReadingService
from torchdata.datapipes.iter import Batcher, IterableWrapper
a, b = IterableWrapper("a"), IterableWrapper("b")
batches, pairs = a.batch(2), a.zip(b)
class Own(CheckpointableReadingServiceInterface):
    pass
try:
    Own()
except NotImplementedError as error:
    say(str(error))
say([
    PrototypeMultiProcessingReadingService is ps.MultiProcessingReadingService,
    batches.source is batches.datapipe is batches.source_datapipe is a,
    pairs.sources == pairs.datapipes == (a, b),
    list(Batcher(datapipe=IterableWrapper([1, 2]), batch_size=2)) == [[1, 2]],
])
""",
    )
    *said, why, last = under_install(imported + old_names)
    assert [lines[:2] for lines in said] == [[*lines] for lines in IMPORTS]
    for line, _, same_names, others in said:
        assert same_names, line
        assert {*others} <= {"functional_datapipe"}, line  # the old one takes enable_df_api_tracing, too
    assert "derive the service from ReadingServiceInterface" in why
    assert last == [True] * 4
    assert ps.iter.Mapper is sys.modules["penstock.pipes.iter"].Mapper
    dp, new = pipe(1, 2), ps.iter.Batcher
    assert [*new(dp, batch_size=2), *new(source=dp, batch_size=2)] == [[1, 2]] * 2
    with pytest.raises(TypeError):
        new(datapipe=dp, batch_size=2)  # type: ignore[call-arg]


@row("from torchdata.datapipes.utils import StreamWrapper", "streams are Python's own: none is needed")
def test_streams_are_pythons_own(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    ((_, stream),) = pipe(str(tmp_path / "a.txt")).open_files("rb")
    assert isinstance(stream, io.BufferedReader)
    assert not hasattr(stream, "file_obj")
    file = stream.raw
    del stream
    assert file.closed


@row("to_graph(dp)", "dp.visualize(), a [picture](pictures.md) without Graphviz; or print(dp)")
def test_a_chain_is_drawn_without_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    dp = pipe(1, 2).batch(2)
    dp.visualize(tmp_path / "chain.svg")
    assert "batch" in (tmp_path / "chain.svg").read_text()
    assert str(dp) == "IterableWrapper((1, 2), deepcopy=False).batch(2)"


@row(
    "torch.utils.data.graph_settings.apply_sharding(dp, n, i)",
    "the same, or penstock.registry.apply_sharding(dp, n, i)",
)
def test_a_chain_is_sharded_by_torchs_function_and_by_ours() -> None:
    for shard in (torchs_apply_sharding, apply_sharding):
        dp = pipe(*range(5)).sharding_filter()
        shard(dp, 2, 1)
        assert list(dp) == [1, 3]


# Two names for one job


@row(
    "decompress()",
    "extract(), load_from_bz2(), load_from_xz(): the same with a fixed type, or under an older name",
)
def test_one_operator_decompresses() -> None:
    for path, packed, older in (
        ("a.gz", gzip.compress(b"one"), "extract"),
        ("a.bz2", bz2.compress(b"one"), "load_from_bz2"),
        ("a.xz", lzma.compress(b"one"), "load_from_xz"),
    ):
        dp = getattr(stream_of(path, packed), older)()
        assert isinstance(dp, ps.iter.Decompressor)
        assert [content for _, content in contents(dp)] == [b"one"]
        assert contents(stream_of(path, packed).decompress()) == [(path, b"one")]


@row("mix(*others, weights=…)", "SampleMultiplexer({dp: weight, …})")
def test_a_mix_is_a_sample_multiplexer() -> None:
    ones, twos = pipe(*[1] * 20), pipe(*[2] * 20)
    old = ps.iter.SampleMultiplexer({ones: 3, twos: 1}, seed=5)
    assert list(ones.mix(twos, weights=[3, 1]).set_seed(5)) == list(old)


@row('on_error="skip"', "skip_on_error=True of read_from_http, read_from_gdrive, read_from_remote")
@pytest.mark.filterwarnings("ignore:.*skip")
@pytest.mark.parametrize("name", ["read_from_http", "read_from_gdrive", "read_from_remote"])
def test_a_page_that_is_missing_is_skipped(name: str, web: str) -> None:
    for told in ({"on_error": "skip"}, {"skip_on_error": True}):
        dp = getattr(pipe(f"{web}/missing"), name)(**told)
        assert list(dp) == []
        assert [counts["skipped"] for counts in dp.stats().values()] == [1]


@row("open_files_by_fsspec()", "open_files_by_iopath(); open_files() for local files")
def test_three_operators_open_files(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    Path(path).write_text("one")
    for name in ("open_files_by_fsspec", "open_files_by_iopath", "open_files"):
        assert contents(getattr(pipe(path), name)(mode="rb")) == [(path, b"one")]


@row("map(fn)", "collate(fn), where fn is your own")
def test_collate_with_a_function_is_map() -> None:
    assert list(pipe([1, 2]).collate(sum)) == list(pipe([1, 2]).map(sum)) == [3]


@row(
    "bucket_by_length(…), which loses nothing and cuts by length alone",
    "bucketbatch(…), which pools and shuffles too",
)
def test_of_two_ways_to_make_buckets_one_cuts_by_length_alone() -> None:
    words = ["a", "bbb", "cc", "dddd"]
    assert list(pipe(*words).bucket_by_length([3], 2)) == [["a", "cc"], ["bbb", "dddd"]]
    assert len({str(list(pipe(*words).bucketbatch(2).set_seed(seed))) for seed in range(9)}) > 1


# What a pipeline might notice, by operator


@row("add_index", "yields new dicts", "an item that is no dict is a TypeError")
def test_add_index_yields_new_dicts() -> None:
    item = {"x": 1}
    assert [*pipe(item).add_index(), item] == [{"x": 1, "index": 0}, {"x": 1}]
    with pytest.raises(TypeError, match="a number is put into a dict"):
        list(pipe(1).add_index())


@row("async_map_batches", "runs inside a running event loop, too")
def test_async_map_batches_runs_inside_an_event_loop() -> None:
    async def doubled(x: int) -> int:
        return 2 * x

    async def main() -> list[int]:
        return list(pipe(1, 2, 3).async_map_batches(doubled, 2))

    assert asyncio.run(main()) == [2, 4, 6]


@row(
    "bucketbatch",
    "has a length",
    "a sort_key must return a sorted list of all items",
    "with several buckets all batches of a pool are shuffled",
)
def test_bucketbatch_has_all_items_and_shuffles_the_batches_of_a_pool() -> None:
    dp = pipe(*range(7)).bucketbatch(3)
    assert len(dp) == len(list(dp)) == 3
    with pytest.raises(ValueError, match="got a bucket of 7 items and returned 1"):
        list(pipe(*range(7)).bucketbatch(3, sort_key=lambda bucket: bucket[:1]))
    with pytest.raises(TypeError, match="returns it sorted"):
        list(pipe(*range(7)).bucketbatch(3, sort_key=lambda bucket: bucket.sort()))
    buckets: list[set[int]] = []

    def noted(bucket: list[int]) -> list[int]:
        buckets.append({*bucket})
        return sorted(bucket)

    batches = list(pipe(*range(40)).bucketbatch(2, batch_num=10, bucket_num=2, sort_key=noted).set_seed(1))
    came_from = [batch[0] in buckets[0] for batch in batches]
    assert len(buckets) == 2
    assert came_from not in (sorted(came_from), sorted(came_from, reverse=True))


@row(
    "check_hash",
    "takes text, upper-case digests and all of hashlib's hashes of fixed length",
    "a stream goes back to where it stood",
)
def test_check_hash_takes_any_hash_and_sets_a_stream_back() -> None:
    names = [name for name in hashlib.algorithms_guaranteed if hashlib.new(name).digest_size]
    assert len(names) > 8
    for name in names:
        digest = hashlib.new(name, b"one").hexdigest().upper()
        assert list(pipe(("a", "one")).check_hash({"a": digest}, name)) == [("a", "one")]
    stream = io.BytesIO(b"..one")
    stream.seek(2)
    dp = pipe(("a", stream)).check_hash({"a": hashlib.sha256(b"one").hexdigest()})
    assert contents(dp) == [("a", b"one")]


@row("dataframe, load_parquet_as_df", "give pyarrow.Table", "dtype is a pyarrow schema or type, device has no effect")
@row("dataframe, load_parquet_as_df", "a column that a file lacks is a KeyError")
def test_tables_are_those_of_arrow(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "numbers.parquet"), ({"n": 1}, {"n": 2})
    pq.write_table(pa.table({"n": [1, 2]}), path)
    assert [*pipe(*rows).dataframe(), *pipe(path).load_parquet_as_df()] == [pa.table({"n": [1, 2]})] * 2
    schema = pa.schema([("n", pa.int16())])
    for dtype in (schema, pa.struct([("n", pa.int16())]), pa.int16()):
        told = {"dtype": dtype, "columns": ["n"], "device": "anything"}
        made = [*pipe(*rows).dataframe(**told), *pipe(path).load_parquet_as_df(**told)]
        assert [table.schema for table in made] == [schema] * 2
    with pytest.raises(KeyError, match="no column 'm'"):
        list(pipe(path).load_parquet_as_df(columns=["m"]))


@row(
    "decompress",
    "finds the type by content first",
    "damage is an OSError that names the path",
    "gives the decompressed stream of a .tar.gz, and leaves tar and zip as they are, so that "
    ".decompress().load_from_tar() works",
)
def test_decompress_leaves_archives_to_their_loaders() -> None:
    files = {"a": b"one", "b": b"two"}
    tar, packed, zipped = tar_of(files, ""), gzip.compress(tar_of(files, "")), zip_of(files)
    for path, content, expected in (("t.tar.gz", packed, tar), ("t.tar", tar, tar), ("t.zip", zipped, zipped)):
        assert contents(stream_of(path, content).decompress()) == [(path, expected)]
    for path, content in (("t.tar.gz", packed), ("t.tar", tar)):
        assert contents(stream_of(path, content).decompress().load_from_tar()) == [
            (f"{path}/a", b"one"),
            (f"{path}/b", b"two"),
        ]
    ((_, opened),) = stream_of("t.tar.gz", packed).decompress(file_type="tar")
    with opened:
        assert isinstance(opened, tarfile.TarFile)
    assert contents(stream_of("a.bz2", gzip.compress(b"one")).decompress()) == [("a.bz2", b"one")]
    with pytest.raises(OSError, match="folder/a.gz"):
        contents(stream_of("folder/a.gz", gzip.compress(b"one")[:-4]).decompress())


@row(
    "drop, slice, flatten",
    "negative indices count from the end",
    "flatten(0) flattens column 0",
    'slice("missing") gives {} with a warning',
    "items that are strings, arrays or tensors are a TypeError",
)
def test_fields_are_counted_from_both_ends_and_warned_of() -> None:
    assert [*pipe((1, 2, 3)).drop(-1), *pipe((1, 2, 3)).slice([-1])] == [(1, 2), (3,)]
    pairs = pipe(((1, 2), (3, 4)))
    assert [*pairs.flatten(-1), *pairs.flatten(0)] == [((1, 2), 3, 4), (1, 2, (3, 4))]
    for item in ("text", np.zeros(2), torch.zeros(2)):
        for dp in (pipe(item).drop(0), pipe(item).slice(0), pipe(item).flatten()):
            with pytest.raises(TypeError, match="only tuples, lists and dicts have fields"):
                list(dp)
    with pytest.warns(UserWarning, match="lacks fields that were named: 'missing'"):
        assert list(pipe({"x": 1}).slice("missing")) == [{}]


@row("groupby", "buffer_size=0 is refused", "bad arguments are a ValueError")
def test_groupby_refuses_sizes_that_do_not_fit() -> None:
    for wrong in (
        {"buffer_size": 0},
        {"group_size": 0},
        {"group_size": 3, "buffer_size": 2},
        {"guaranteed_group_size": 2},
    ):
        with pytest.raises(ValueError, match="_size must be"):
            pipe(1).groupby(str, **wrong)


@row(
    "in_memory_cache",
    "measures items by their real size",
    "over the limit, what is kept comes from memory and the rest from the source",
)
@row("in_memory_cache", "a full pass never touches the source")
def test_a_cache_keeps_what_fits_by_its_real_size() -> None:
    read: list[int] = []

    def made(number: int) -> Any:
        read.append(number)
        return torch.zeros(400 * 2**10, dtype=torch.uint8)

    dp = pipe(*range(10)).map(made).in_memory_cache(size=1)
    with pytest.warns(UserWarning, match="has room for 2 items"):
        first = list(dp)
    read.clear()
    again = list(dp)
    assert [kept is item for kept, item in zip(first, again, strict=True)] == [True] * 2 + [False] * 8
    assert {*range(2, 10)} <= {*read}
    read.clear()
    dp = pipe(0, 1).map(made).in_memory_cache()
    assert len([*dp, *dp]) == 4
    assert read == [0, 1]


@row("lines_to_paragraphs", "each call of joiner has a list of its own")
def test_each_paragraph_has_a_list_of_its_own() -> None:
    dp = pipe(("a", "one"), ("a", ""), ("a", "two")).lines_to_paragraphs(joiner=lambda lines: lines)
    assert list(dp) == [("a", ["one"]), ("a", ["two"])]


@row("list_files_by_iopath", "sorted, without subfolders")
def test_iopath_lists_files_sorted(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert list(pipe(str(tmp_path)).list_files_by_iopath()) == [str(tmp_path / name) for name in "abc"]


@row("load_from_xz, load_from_bz2", "fizz.xz becomes fizz")
def test_a_path_loses_its_ending_and_no_letter_more() -> None:
    assert contents(stream_of("fizz.xz", lzma.compress(b"")).load_from_xz()) == [("fizz", b"")]
    assert contents(stream_of("b2.bz2", bz2.compress(b"")).load_from_bz2()) == [("b2", b"")]


RAR = base64.b64decode("UmFyIRoHAM+QcwAADQAAAAAAAAAI93QAgCUAAwAAAAMAAAAD8YZsegAAIQAdMAUApIEAAGEudHh0b25lxD17AEAHAA==")
"""An archive of the file a.txt: at 20 the file's header of 37 bytes, and after it the content `one`."""


def rar_of(name: bytes = b"a.txt", flags: int = 0) -> bytes:
    """Return the archive with another name of its file, or more flags."""
    header = bytearray(RAR[20:57])
    header[3] |= flags
    header[32:] = name
    header[:2] = (zlib.crc32(header[2:]) & 0xFFFF).to_bytes(2, "little")
    return RAR[:20] + header + RAR[57:]


@row("load_from_rar", "cut, corrupt and encrypted archives raise", "names that lead out of the archive are refused")
def test_a_broken_rar_is_an_error() -> None:
    rarfile = pytest.importorskip("rarfile")
    assert contents(stream_of("r", rar_of()).load_from_rar()) == [("r/a.txt", b"one")]
    for broken in (RAR[:-7], RAR[:50], RAR.replace(b"one", b"two")):
        with pytest.raises(rarfile.BadRarFile):
            contents(stream_of("r", broken).load_from_rar())
    with pytest.raises(RuntimeError, match=r"'a.txt' is encrypted"):
        list(stream_of("r", rar_of(flags=0x04)).load_from_rar())
    with pytest.raises(ValueError, match="no name within it"):
        list(stream_of("r", rar_of(b"../ab")).load_from_rar())


@row(
    "load_from_tar, load_from_zip",
    "a member can be read as long as a reference to it exists, even after later members",
)
@row("load_from_tar, load_from_zip", "streams close by themselves")
def test_members_are_read_in_any_order_and_archives_close() -> None:
    files = {"a": b"one", "b": b"two"}
    for load, content in (("load_from_tar", tar_of(files, "")), ("load_from_zip", zip_of(files))):
        stream = io.BytesIO(content)
        (_, first), (_, second) = getattr(pipe(("pack", stream)), load)()
        assert (second.read(), first.read()) == (b"two", b"one")
        del first, second
        assert stream.closed


@row(
    "load_from_tar, load_from_zip",
    "the rest of a compressed tar is read, so that its checksum is verified, also where it cannot seek",
)
@pytest.mark.parametrize("way", [io.BytesIO, Forwards])
def test_the_checksum_after_a_tar_is_verified(way: Any) -> None:
    rest = random.Random(0).randbytes(2**20)  # after the tar's end mark
    content = bytearray(gzip.compress(tar_of({"a": b"one"}, "") + rest, 1))
    content[-8] ^= 1
    with pytest.raises(tarfile.ReadError):
        list(stream_of("pack", bytes(content), way).load_from_tar())


@row("load_from_tar, load_from_zip", "names and headers of a tar, and what a zip grows to, are bounded by max_bytes")
def test_archives_cannot_grow_without_bounds() -> None:
    for tar in (tar_of({"a" * 5000: b""}, ""), tar_of({"a": b""}, "", pax_headers={"comment": "x" * 5000})):
        assert len(list(stream_of("pack", tar).load_from_tar())) == 1
        with pytest.raises(ValueError, match="max_bytes"):
            list(stream_of("pack", tar).load_from_tar(max_bytes=3000))
    zipped = zip_of({"zeros": bytes(17 * 2**20)})
    ((_, stream),) = stream_of("pack", zipped).load_from_zip(max_bytes=3000)
    with pytest.raises(ValueError, match="max_bytes"):
        stream.read()


TFRECORD = bytes.fromhex("1e00000000000000d9dc12320a1c0a0b0a016e12061a040a0203070a0d0a016212080a060a01780a01790838cdf2")
"""A file of one example, in which `n` is [3, 7], and `b` is x and y."""


@row("load_from_tfrecord", "checksums are verified", "names come sorted, or in the order of spec")
@row("load_from_tfrecord", "bytes keep their shape", "needs no TensorFlow")
def test_a_tfrecord_is_verified_and_read_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google_crc32c")
    pytest.importorskip("google.protobuf")
    monkeypatch.setitem(sys.modules, "tensorflow", None)

    def read(content: bytes, *spec: Any) -> Any:
        [example] = stream_of("a", content).load_from_tfrecord(*spec)
        return example

    assert read(TFRECORD)["n"].tolist() == [3, 7]
    assert ([*read(TFRECORD)], [*read(TFRECORD, {"n": None, "b": None})]) == (["b", "n"], ["n", "b"])
    assert read(TFRECORD, {"b": ((2, 1), None)}) == {"b": [[b"x"], [b"y"]]}
    for at in (8, -4):
        content = bytearray(TFRECORD)
        content[at : at + 4 or None] = bytes(4)
        with pytest.raises(RuntimeError, match="checksum"):
            read(bytes(content))


@row(
    "max_token_bucketize",
    'an item longer than max_token_count is a ValueError, unless max_len or on_error="skip" leaves it out',
    "items of one length come in the order of arrival",
)
@pytest.mark.filterwarnings("ignore:.*skip")
def test_an_item_that_fits_no_batch_is_an_error_or_left_out() -> None:
    with pytest.raises(ValueError, match="fits no batch"):
        list(pipe("aaa", "b").max_token_bucketize(2))
    assert list(pipe("aaa", "b").max_token_bucketize(2, max_len=2)) == [["b"]]
    assert list(pipe("aaa", "b").max_token_bucketize(2, on_error="skip")) == [["b"]]
    items = [{"n": n} for n in (5, 1, 4, 2)]  # which cannot be compared
    assert list(pipe(*items).max_token_bucketize(2, len_fn=len)) == [items[:2], items[2:]]


def cached(folder: Path, steps: Callable[[Any], Any], source: Any) -> Any:
    """A chain of names whose files the steps make in a folder."""
    return steps(source.on_disk_cache(lambda name: str(folder / name))).end_caching(same_filepath_fn=True)


@row(
    "on_disk_cache … end_caching",
    "items come in the order of the source",
    "sharding_filter between is refused",
    "the steps between run once for each missing item, so that prefetch or threadpool_map there does not overlap "
    "items: put sharding_filter before and read with workers",
)
def test_the_steps_between_run_for_one_item_at_a_time(tmp_path: Path) -> None:
    there: list[list[str]] = []

    def noted(name: str) -> tuple[str, bytes]:
        there.append(sorted(name for name in os.listdir(tmp_path) if not name.startswith(".penstock-")))
        return name, b""

    def steps(missing: Any) -> Any:
        return missing.threadpool_map(noted, max_workers=3).prefetch(3)

    for part in range(2):
        dp = cached(tmp_path, steps, pipe("a", "b", "c").sharding_filter())
        apply_sharding(dp, 2, part)
        assert list(dp) == [str(tmp_path / name) for name in "abc"[part::2]]
    assert there == [[], ["a"], ["a", "c"]]  # each item begins when the file of the one before is whole
    (tmp_path / "a").unlink()
    assert list(cached(tmp_path, steps, pipe("a", "b", "c"))) == [str(tmp_path / name) for name in "abc"]
    with pytest.raises(ValueError, match="do it before on_disk_cache"):
        cached(tmp_path, lambda missing: missing.sharding_filter(), pipe("a"))


@row("on_disk_cache … end_caching", "no promise files: a lock dies with its owner, and files appear whole")
def test_a_cache_needs_no_promise_files(tmp_path: Path) -> None:
    def pieces(of: list[Any]) -> Iterator[bytes]:
        yield b"half"
        yield of[0]

    for path in (f"{tmp_path}/a.promise", lock_beside(f"{tmp_path}/a")):
        Path(path).touch()  # as an owner leaves it that is dead
    content: list[Any] = []
    dp = cached(tmp_path, lambda missing: missing.map(lambda name: (name, pieces(content))), pipe("a"))
    with pytest.raises(IndexError):
        list(dp)
    assert not (tmp_path / "a").exists()
    content.append(b" and half")
    assert [Path(path).read_bytes() for path in dp] == [b"half and half"]
    assert sorted(os.listdir(tmp_path)) == ["a", "a.promise"]


PARSERS = ("parse_csv", "parse_csv_as_dict", "readlines")


@row(
    "parse_csv, parse_csv_as_dict, readlines",
    "bytes are decoded as a stream: UTF-16 and a BOM work",
    "readlines strips line ends at the end only",
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_bytes_are_decoded_as_a_stream(encoding: str) -> None:
    assert list(stream_of("a", b"\rone\r\n").readlines()) == [("a", b"\rone")]

    def dp() -> Any:
        return stream_of("a", "x,y\nĊ,2\n".encode(encoding))  # in UTF-16, one byte of this letter is a line feed

    assert list(dp().parse_csv(encoding=encoding)) == [["x", "y"], ["Ċ", "2"]]
    assert list(dp().parse_csv_as_dict(encoding=encoding)) == [{"x": "Ċ", "y": "2"}]
    assert list(dp().readlines(decode=True, encoding=encoding)) == [("a", "x,y"), ("a", "Ċ,2")]


@row(
    "parse_csv, parse_csv_as_dict, readlines",
    "wrong arguments raise when the operator is made",
    "errors name the path, and those of CSV the line",
)
@row("parse_json_files", "invalid JSON is an error that names the path")
def test_errors_of_parsers_name_the_path() -> None:
    text = {"decode": True, "errors": "strict"}
    for name, content, options, error in [
        *((name, b"x\n\xff\n", text, UnicodeDecodeError) for name in PARSERS),
        *((name, b'x\n"y', {"strict": True}, csv.Error) for name in PARSERS[:2]),
        ("parse_json_files", b"{", {}, json.JSONDecodeError),
    ]:
        with pytest.raises(error, match="line 2: " if error is csv.Error else None) as caught:
            list(getattr(stream_of("folder/a", content), name)(**options))
        assert "folder/a" in caught.value.__notes__[0]
    for name in PARSERS:
        with pytest.raises(LookupError, match="no-such-code"):
            getattr(pipe(), name)(encoding="no-such-code")
        with pytest.raises(TypeError, match="delimeter"):
            getattr(pipe(), name)(delimeter=";")


@row("read_from_http", "timeout=None is 60 s of silence")
def test_a_silent_server_is_waited_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Any] = []

    def get(session: Any, url: str, **arguments: Any) -> None:
        waits.append(arguments["timeout"])
        raise requests.ConnectionError

    monkeypatch.setattr(requests.Session, "get", get)
    for timeout in (None, (None, None)):
        with pytest.raises(requests.ConnectionError):
            list(pipe("http://a").read_from_http(timeout=timeout))
    assert waits == [60, (None, None)]


@row("read_from_http", "content-encodings are decoded", "a body that breaks off is an error")
@row("read_from_gdrive", "sharing links and today's confirmation page work")
def test_pages_of_the_web_are_decoded_whole_and_confirmed(web: str) -> None:
    assert contents(pipe(f"{web}/gzip").read_from_http()) == [(f"{web}/gzip", CONTENT)]
    ((_, stream),) = pipe(f"{web}/truncated").read_from_http()
    with pytest.raises(urllib3.exceptions.ProtocolError):
        stream.read()
    # The server stands in for Google's: as a proxy, it is asked for their URLs.
    dp = pipe("http://drive.google.com/file/d/large/view").read_from_gdrive(proxies={"http": web})
    assert contents(dp) == [("large.txt", LARGE)]


@row("rows2columnar", "a missing key is named", "a row of the wrong length is a ValueError")
def test_rows_that_do_not_fit_the_columns_are_errors() -> None:
    with pytest.raises(KeyError, match="a row has no 'b': it has 'a'"):
        list(pipe([{"a": 1}]).rows2columnar(["a", "b"]))
    with pytest.raises(ValueError, match="a row has 1 values"):
        list(pipe([(1, 2), (1,)]).rows2columnar(["a", "b"]))


@row("HuggingFaceHubReader", "several splits without split= are a ValueError")
def test_of_several_splits_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = SimpleNamespace(load_dataset=lambda **_: {"train": [], "test": []})
    monkeypatch.setitem(sys.modules, "datasets", splits)
    with pytest.raises(ValueError, match="give the split to read, as in split='train'"):
        list(ps.iter.HuggingFaceHubReader("any"))


@row("load_files_by_s3", "buffer_size and multi_part_download have no effect")
def test_settings_of_the_old_client_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    url = (tmp_path / "a").as_uri()
    assert contents(pipe(url).load_files_by_s3(buffer_size=1, multi_part_download=True)) == [(url, b"one")]


@row("Sampler", "sampler_args and samplers without a data source work")
def test_samplers_of_any_arguments_work() -> None:
    assert sorted(ps.iter.Sampler("abc", RandomSampler, sampler_args=(False,))) == [0, 1, 2]
    drawn = ps.iter.Sampler("abc", WeightedRandomSampler, sampler_args=([0.0, 1.0, 0.0], 4))
    assert list(drawn) == [1, 1, 1, 1]


@row("save_to_disk, save_by_fsspec, save_by_iopath", "local files appear whole or not at all", "folders are made")
@pytest.mark.parametrize("name", ["save_to_disk", "save_by_fsspec", "save_by_iopath"])
def test_a_saved_file_appears_whole_and_folders_are_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "a"
    assert list(getattr(pipe((str(path), "one")), name)()) == [str(path)]
    assert path.read_text() == "one"

    def fail(*paths: str) -> None:
        raise OSError("the last step fails")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the last step fails"):
        list(getattr(pipe((str(tmp_path / "b"), "one")), name)())
    assert os.listdir(tmp_path) == ["folder"]


@row(
    "zip_with_iter",
    "a key that the reference does not have is a KeyError that names it",
    "the error for a duplicate key names it",
)
def test_a_key_without_a_match_or_twice_is_named() -> None:
    with pytest.raises(KeyError, match="no item with the key 3"):
        list(pipe(1, 3).zip_with_iter(pipe(1, 2), key_fn=int))
    with pytest.raises(ValueError, match="has the key 1 twice"):
        list(pipe(2).zip_with_iter(pipe(1, 1, 2), key_fn=int))


# From torchtext


@row('torchtext.datasets.SST2(root, split="train")', 'ps.datasets.SST2(root, "train")')
@row("SST2(root), which gives all splits", 'SST2(root, ("train", "dev", "test")); without a split it is the first')
def test_splits_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        "train": "sentence\tlabel\ngood\t1\n",
        "dev": "sentence\tlabel\nbad\t0\n",
        "test": "n\tsentence\n0\tdull\n",
    }
    content = zip_of({f"SST-2/{split}.tsv": text.encode() for split, text in lines.items()})
    sst2 = ps.datasets.SST2
    ((name, archive),) = sst2.resources.items()
    small = replace(archive, sha256=hashlib.sha256(content).hexdigest(), md5=None, size=len(content))
    monkeypatch.setattr(sst2, "resources", {name: small})
    monkeypatch.setattr(sst2, "splits", dict.fromkeys(lines, 1))
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / archive.name).write_bytes(content)
    splits = sst2(tmp_path, ("train", "dev", "test"))
    assert [list(chain) for chain in splits] == [[("good", 1)], [("bad", 0)], [("dull",)]]
    assert list(sst2(tmp_path, "train")) == list(sst2(tmp_path)) == [("good", 1)]


@row(
    'build_vocab_from_iterator(tokens, min_freq=2, specials=["<unk>"])',
    'ps.build_vocab(tokens, min_freq=2, specials=["<unk>"]), or dp.build_vocab(…) on a chain',
)
@row('vocab.set_default_index(vocab["<unk>"])', 'the same, or build_vocab(…, default="<unk>")')
@row("torch.save(vocab, path)", "vocab.save(url), ps.Vocab.load(url)")
def test_a_vocabulary_is_built_and_saved(tmp_path: Path) -> None:
    tokens = [["a", "b"], ["b", "c"], ["c", "b"]]
    vocab = ps.build_vocab(tokens, min_freq=2, specials=["<unk>"])
    assert vocab.get_itos() == ["<unk>", "b", "c"]
    assert pipe(*tokens).build_vocab(min_freq=2, specials=["<unk>"]) == vocab
    with pytest.raises(KeyError, match="'other'"):
        vocab["other"]
    vocab.set_default_index(vocab["<unk>"])
    assert vocab["other"] == 0
    assert ps.build_vocab(tokens, min_freq=2, specials=["<unk>"], default="<unk>") == vocab
    with pytest.raises(ValueError, match="twice"):
        ps.build_vocab(tokens, specials=["<unk>", "<unk>"])
    vocab.save(str(tmp_path / "vocab.json"))
    assert ps.Vocab.load(str(tmp_path / "vocab.json")) == vocab


@row("vocab(tokens), vocab[token], token in vocab, lookup_token, lookup_tokens, get_itos, get_stoi", "the same")
@row("vocab.lookup_indices(tokens)", "vocab(tokens)")
@row("torchtext.vocab.vocab(ordered_dict)", "ps.Vocab(tokens)")
def test_a_vocabulary_is_asked_as_ever() -> None:
    vocab = ps.Vocab(OrderedDict(b=1, a=5))
    assert (vocab(["a", "b"]), vocab["a"], "a" in vocab, "c" in vocab) == ([1, 0], 1, True, False)
    assert (vocab.lookup_token(1), vocab.lookup_tokens([1, 0])) == ("a", ["a", "b"])
    assert (vocab.get_itos(), vocab.get_stoi()) == (["b", "a"], {"b": 0, "a": 1})


# What only a bullet says


def test_a_lambda_is_called_in_a_worker_of_a_fork_server() -> None:
    dp = pipe(1).map(lambda _: type(multiprocessing.current_process()).__name__)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(1)) as loader:
        assert list(loader) == ["ForkServerProcess"]


def test_operators_that_call_functions_or_read_from_outside_have_on_error() -> None:
    entries: Any = operators.values()
    without = {
        entry.name
        for entry in entries
        if entry.cls.__module__.startswith("penstock.")
        and "on_error" not in (taken := inspect.signature(entry.cls).parameters)
        and (
            any("Callable" in str(each.annotation) for each in taken.values())
            or {"expensive", "opens", "unpacks"}.intersection(entry.cls.traits)
        )
    }
    assert "on_error" in inspect.signature(ps.iter.EndOnDiskCacheHolder).parameters
    assert without == {"batch", "pipe", "pin_memory", "dataframe", "Sampler", "on_disk_cache"}
