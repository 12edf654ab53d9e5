"""shard_files: few large files are divided at row groups and lines, so that readers share the rows of one file."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
import json
import re
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain as chain_of
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader, graph_settings

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.pipes.columns.text_formats import lines_in_range
from penstock.pipes.iter import IterableWrapper
from s3 import S3Server

pytestmark = pytest.mark.timeout(60)

ROWS = 1000
TABLE = pa.table({"id": range(ROWS), "text": [f"é{number}" * (number % 7) for number in range(ROWS)]})


def write_ipc(path: Path) -> None:
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=50)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda path: pq.write_table(TABLE, path, row_group_size=50),
    "orc": lambda path: pa.orc.write_table(TABLE, path, stripe_size=100),
    "ipc": write_ipc,
    "csv": lambda path: pa.csv.write_csv(TABLE, path),
    "json": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist())),
    "text": lambda path: path.write_text("".join(f"{number}\n" for number in range(ROWS))),
}
TEXT = ("csv", "json", "text")
KINDS = pytest.mark.parametrize("kind", WRITERS)


def written(folder: Path, kind: str, name: str = "one") -> str:
    path = folder / name
    WRITERS[kind](path)
    return str(path)


def reader(kind: str, *paths: str, size: int = 500) -> Any:
    """Return a chain of what is in files, in blocks and parts of some bytes."""
    files = IterableWrapper([*paths]).shard_files(kind, min_bytes=size)
    if kind == "text":
        return files.read_text()
    return getattr(files, f"read_{kind}")(**{"block_size": size} if kind in TEXT else {})


def chain(kind: str, *paths: str) -> Any:
    """Return a chain of the numbers of the rows."""
    rows = reader(kind, *paths)
    return rows.map(lambda row: int(row["text"])) if kind == "text" else rows.rows().map(lambda row: int(row["id"]))


def loader(dp: Any, workers: int = 0, shards: int | None = None) -> Any:
    return DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, num_shards=shards))


def csv(path: Path, size: int, **options: Any) -> Any:
    return IterableWrapper([str(path)]).shard_files("csv", min_bytes=size).read_csv(block_size=size, **options)


def json_lines(path: Path, size: int) -> Any:
    return IterableWrapper([str(path)]).shard_files("json", min_bytes=size).read_json(block_size=size)


def shards_of(make: Callable[[], Any], parts: int) -> list[list[Any]]:
    shards = []
    for part in range(parts):
        dp = make()
        ps.registry.apply_sharding(dp, parts, part)
        shards.append(list(dp))
    return shards


@KINDS
def test_readers_share_the_rows_of_one_file(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    for parts in (1, 2, 3, 7):
        shards = shards_of(lambda: chain(kind, path), parts)
        assert sorted(chain_of.from_iterable(shards)) == [*range(ROWS)]
        if kind != "orc":  # whose least stripe has 1,024 rows
            assert min(map(len, shards)) > ROWS / parts / 2


def test_readers_share_the_stripes_of_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "one.orc")
    pa.orc.write_table(pa.table({"id": range(9000)}), path, stripe_size=1000)
    first, second = shards_of(lambda: chain("orc", path), 2)
    assert sorted(first + second) == [*range(9000)]
    assert min(len(first), len(second)) > 2000


@KINDS
def test_a_reader_alone_gets_the_files_as_they_are_and_resumes(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    files = IterableWrapper([path]).shard_files(kind, min_bytes=100)
    assert list(files) == [path]
    assert len(files) == 1
    dp = chain(kind, path)
    ps.registry.apply_sharding(dp, 2, 1)
    expected = list(dp)
    iterator = iter(dp)
    begun = [*islice(iterator, len(expected) // 3)]
    again = chain(kind, path)
    ps.registry.apply_sharding(again, 2, 1)
    again.load_state_dict(json.loads(json.dumps(dp.state_dict())))
    assert begun + list(again) == expected


def test_the_workers_of_torch_share_the_rows_of_one_file(tmp_path: Path) -> None:
    path = written(tmp_path, "json")
    ids = [int(number) for number in DataLoader(chain("json", path), batch_size=None, num_workers=2)]
    assert sorted(ids) == [*range(ROWS)]
    assert ids != sorted(ids)


def test_many_files_are_divided_as_files_and_the_rest_is_not_opened(tmp_path: Path) -> None:
    paths = [written(tmp_path, "parquet", f"{number}.parquet") for number in range(8)]
    dp = IterableWrapper([*paths, "missing.parquet"]).shard_files("parquet")
    dp.apply_sharding(2, 1)
    assert list(dp) == paths[1::2]


def test_a_small_text_file_stays_whole_and_so_does_a_compressed_one(tmp_path: Path) -> None:
    path = written(tmp_path, "json")
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    for each, size in ((path, 2**20), (path, Path(path).stat().st_size // 2 + 1), (str(packed), 10)):
        make = functools.partial(IterableWrapper([each]).shard_files, "json", min_bytes=size)
        assert shards_of(make, 2) == [[each], []]


def test_files_that_cannot_be_read_are_said_by_one_reader_and_skipped_by_it(tmp_path: Path) -> None:
    good, bad = written(tmp_path, "parquet"), tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 and no more")

    def dp(**options: Any) -> Any:
        files = IterableWrapper([good, str(bad), str(tmp_path / "missing")]).shard_files("parquet")
        return files.read_parquet(**options).rows()

    with loader(dp(on_error="skip"), 2) as skipping:
        assert sorted(row["id"] for row in skipping) == [*range(ROWS)]
        assert skipping.stats()["read_parquet"]["skipped"] == 2
    with loader(dp(), 0, 2) as raising, pytest.raises(pa.ArrowInvalid, match=r"(?s)magic bytes|Parquet"):
        list(raising)


def test_types_are_those_of_the_first_block_of_the_file_in_every_part(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("id,price\n" + "".join(f"{number},{number}.5\n" for number in range(100)) + "100,7\n" * 100)
    shards = shards_of(lambda: csv(path, 200), 3)
    assert {batch.schema.field("price").type for shard in shards for batch in shard} == {pa.float64()}
    path.write_text("id,price\n" + "1,7\n" * 300 + "2,7.5\n" * 100)
    with pytest.raises(pa.ArrowInvalid, match=re.escape("conversion error to int64: invalid value '7.5'")):
        shards_of(lambda: csv(path, 200), 3)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n' * 100 + '{"a": 1, "late": 2}\n' * 100)
    for parts in (1, 3):
        with pytest.raises(pa.ArrowInvalid, match="unexpected field") as caught:
            shards_of(lambda: json_lines(rows, 200), parts)
        assert "explicit_schema" in "".join(caught.value.__notes__)


def test_a_part_that_ends_in_a_value_with_a_line_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("id,text\n" + "".join(f'{number},"one\ntwo"\n' for number in range(200)))
    with pytest.raises(ValueError, match=r"ends in a quoted value.*put sharding_filter|out of sync with chunker"):
        shards_of(lambda: csv(path, 300), 4)
    files = IterableWrapper([str(path)]).shard_files("csv", min_bytes=300)
    with pytest.raises(ValueError, match="cannot be divided: put sharding_filter in place of shard_files"):
        shards_of(lambda: files.read_csv(newlines_in_values=True), 2)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ('6" pipe', {}),
        ('"', {"quote_char": False}),
        ("o'clock", {"quote_char": "'"}),
        ('"a ""quoted"" word"', {}),
        ("\ufeffmark", {}),
        ('""', {"quote_char": None}),
        ("a;b", {"delimiter": "|"}),
    ],
)
def test_rows_of_parts_are_those_of_the_whole(value: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    delimiter = options.get("delimiter", ",")
    rows = [f"{number}{delimiter}{value if number % 50 == 7 else 'plain'}" for number in range(400)]
    path.write_text("\n".join([f"id{delimiter}text", *rows]))
    expected = [*csv(path, 300, **options).rows()]
    shards = shards_of(lambda: csv(path, 300, **options).rows(), 3)
    assert sorted(chain_of.from_iterable(shards), key=str) == sorted(expected, key=str)
    assert min(map(len, shards)) > 50


def test_columns_that_are_not_read_may_change_their_type(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1, "other": 1}\n' * 100 + '{"id": 1, "other": "x", "late": 1}\n' * 100)
    files = IterableWrapper([str(path)]).shard_files("json", min_bytes=300)
    shards = shards_of(lambda: files.read_json(block_size=300, columns=["id"]).rows(), 3)
    assert [*chain_of.from_iterable(shards)] == [{"id": 1}] * 200


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "shift_jis"])
def test_text_of_encodings_with_other_line_ends_is_refused(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("ab\n" * 2**10, encoding=encoding)
    files = IterableWrapper([str(path)]).shard_files("text", min_bytes=300)
    with pytest.raises(ValueError, match=f"a file in {encoding} cannot be divided"):
        shards_of(lambda: files.read_text(encoding=encoding), 2)


def test_lines_of_ranges_are_all_lines_once() -> None:
    draws = np.random.default_rng(0)
    for _ in range(300):
        content = bytes(draws.choice(np.frombuffer(b"ab\r\n", np.uint8), draws.integers(1, 40)))
        cuts = sorted({0, len(content), *draws.integers(0, len(content), 5).tolist()})
        ranges = [lines_in_range(io.BytesIO(content), *cut, len(content)) for cut in pairwise(cuts)]
        assert b"".join(ranges) == content
        assert all(each.endswith(b"\n") for each in ranges[:-1] if each and each != content[-len(each) :])


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "text")
    with loader(chain("text", path), 0, 2) as stopped:
        next(iter(stopped))
        state = stopped.state_dict()
    Path(path).write_text("1\n2\n")
    with loader(chain("text", path), 0, 2) as resumed:
        resumed.load_state_dict(state)
        with pytest.raises(RuntimeError, match=r"had \d+ when it was divided.*begin anew"):
            list(resumed)


def test_an_error_says_in_which_part_of_the_file_it_is(tmp_path: Path) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_text('{"a": 1}\n' * 300 + "{\n")
    with loader(json_lines(path, 300), 0, 2) as reading, pytest.raises(pa.ArrowInvalid) as caught:
        list(reading)
    assert "in block 2 after byte 2,100" in "\n".join(caught.value.__notes__)
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"one\n" * 99 + b"\xff\n" + b"one\n" * 99)
    dp = IterableWrapper([str(lines)]).shard_files("text", min_bytes=100).read_text().map(lambda row: row["text"])
    with loader(dp, 0, 2) as reading, pytest.raises(UnicodeDecodeError):
        list(reading)


@pytest.mark.parametrize("kind", ["parquet", "csv", "text"])
def test_readers_share_the_rows_of_one_object_of_s3(
    kind: str,
    s3_server: S3Server,
    fault_proxy: FaultProxy,  # which sends ranges with status 206, as rclone does not
) -> None:
    bucket = s3_server.empty_bucket(f"divided-{kind}")
    written(bucket, kind)
    first, second = shards_of(lambda: chain(kind, f"s3://{bucket.name}/one"), 2)
    assert sorted(first + second) == [*range(ROWS)]
    assert min(len(first), len(second)) > ROWS / 4


def test_a_file_of_a_server_without_ranges_is_read_once(tmp_path: Path) -> None:
    written(tmp_path, "csv")
    asked: list[str] = []

    class WithoutRanges(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            asked.append(self.command)

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(WithoutRanges, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/one"
        with loader(chain("csv", url), 0, 3) as reading:
            assert sorted(reading) == [*range(ROWS)]
    finally:
        server.shutdown()
        server.server_close()
    assert asked.count("GET") <= 4  # one to see that there are no ranges, one for the schema, and one to read


def test_an_object_that_cannot_be_reached_is_an_error_of_all_readers(
    s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    bucket = s3_server.empty_bucket("divided-faults")
    written(bucket, "text")
    url = f"s3://{bucket.name}/one"
    for times, reads in ((2, True), (None, False)):
        fault_proxy.play(Fault("status", times=times))
        for options in ({}, {"on_error": "skip"}):
            dp = IterableWrapper([url]).shard_files("text", min_bytes=500).read_text(**options)
            with loader(dp, 0, 2) as reading:
                if reads:
                    assert sorted(int(row["text"]) for row in reading) == [*range(ROWS)]
                else:
                    with pytest.raises(ConnectionError, match=r"(?s)SlowDown.*raised in FileSharder"):
                        list(reading)


def test_a_part_of_files_has_no_length() -> None:
    dp = IterableWrapper(["a"]).shard_files("csv")
    dp.apply_sharding(2, 0)
    with pytest.raises(TypeError, match="no length"):
        len(dp)


def test_a_part_of_blank_values_is_read(tmp_path: Path) -> None:
    path = tmp_path / "blank.tsv"
    path.write_text("a\tb\n" + "1\tx\n" * 100 + "\t\n" * 900)
    shards = shards_of(lambda: csv(path, 200, delimiter="\t").rows(), 3)
    assert sum(map(len, shards)) == 1000


@pytest.mark.parametrize("name", ["list_row_groups", "shuffle_row_groups"])
def test_row_groups_of_parts_are_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, "parquet")
    dp = getattr(IterableWrapper([path]).shard_files("parquet"), name)()
    with loader(dp, 0, 2) as reading, pytest.raises(TypeError, match=f"{name} lists the row groups of whole files"):
        list(reading)


@pytest.mark.parametrize("pair", [lambda a, b: a.zip(b), lambda a, b: a.map(str).zip_longest(b)])
def test_files_of_sources_that_are_paired_stay_whole(pair: Any, tmp_path: Path) -> None:
    paths = [written(tmp_path, kind, kind) for kind in ("parquet", "csv")]

    def pairs() -> Any:
        return pair(chain("parquet", paths[0]), chain("csv", paths[1]))

    expected = list(pairs())
    assert [(int(first), int(second)) for first, second in expected] == [(number, number) for number in range(ROWS)]
    with loader(pairs(), 0, 2) as reading:
        assert list(reading) == expected
    with loader(pairs(), 2) as reading:
        begun = [*islice(reading, 300)]
        state = reading.state_dict()
    with loader(pairs(), 0, 2) as resumed:
        resumed.load_state_dict(state)
        assert begun + list(resumed) == expected
    assert [tuple(each) for each in DataLoader(pairs(), batch_size=None, num_workers=2)] == expected


@pytest.mark.parametrize("join", [lambda a, b: a.mux(b), lambda a, b: a.concat(b)])
def test_files_of_sources_that_are_merged_stay_whole(join: Any, tmp_path: Path) -> None:
    paths = [written(tmp_path, kind, kind) for kind in ("csv", "json")]
    dp = join(chain("csv", *paths[:1]), chain("json", *paths[1:]))
    expected = list(join(chain("csv", *paths[:1]), chain("json", *paths[1:])))
    assert shards_of(lambda: dp, 2) == [expected, []]


def test_files_beside_others_that_are_divided_as_files_stay_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet")
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(ROWS))

    def dp() -> Any:
        arrays = ps.read_numpy([str(tmp_path / f"{number}.npy") for number in range(2)]).rows()
        return chain("parquet", path, path).zip(arrays.map(lambda row: int(row["data"])))

    shards = shards_of(dp, 2)
    assert shards == [[(number, number) for number in range(ROWS)]] * 2


def test_points_that_are_told_nothing_of_the_chain_divide_whole_files(tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    dp = chain("csv", path)
    graph_settings.apply_sharding(dp, 2, 0)  # torch's, which knows nothing of parts
    assert len(list(dp)) == ROWS


@pytest.mark.parametrize("kind", ["csv", "json", "text"])
def test_rows_of_parts_of_text_are_not_sampled(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    dp = reader(kind, path).random_sample(0.5, seed=1)
    assert list(dp)
    with pytest.raises(ValueError, match="divided into shards"):
        shards_of(lambda: dp, 2)


def test_row_groups_are_sampled_alike_by_any_number_of_readers(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet")

    def sampled() -> Any:
        return reader("parquet", path).random_sample(0.5, seed=1).rows()

    shards = shards_of(sampled, 3)
    assert sorted(row["id"] for row in chain_of.from_iterable(shards)) == [row["id"] for row in sampled()]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "text"])
def test_a_file_that_grows_is_an_error(kind: str, tmp_path: Path) -> None:
    path = Path(written(tmp_path, kind))
    if kind in TEXT:  # to whole blocks
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 500 * 500])
    with loader(chain(kind, str(path)), 0, 3) as stopped:
        next(iter(stopped))
        state = stopped.state_dict()
    if kind in TEXT:
        path.write_bytes(path.read_bytes() * 2)
    else:
        pq.write_table(pa.concat_tables([TABLE, TABLE]), path, row_group_size=50)
    with loader(chain(kind, str(path)), 0, 3) as resumed:
        resumed.load_state_dict(state)
        with pytest.raises(RuntimeError, match="when it was divided"):
            list(resumed)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_line_longer_than_a_block_is_an_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "long"
    short, long = ("1,x\n", "1," + "x" * 900 + "\n") if kind == "csv" else ('{"a": 1}\n', '{"a": ' + "1" * 900 + "}\n")
    make = functools.partial(csv if kind == "csv" else json_lines, path, 300)
    for before in (60, 70, 80, 90):
        path.write_text(("a,b\n" if kind == "csv" else "") + short * before + long + short * 200)
        for parts in (1, 2, 3):
            with pytest.raises(ValueError, match="straddling|longer than a block"):
                shards_of(make, parts)


@pytest.mark.parametrize("blank", ["\n", "  \n", "\t\r\n"])
def test_blank_lines_of_json_have_no_rows(blank: str, tmp_path: Path) -> None:
    path = tmp_path / "blank.jsonl"
    path.write_text('{"a": 1}\n' * 50 + blank * 900 + '{"a": 2}\n' * 50)
    shards = shards_of(lambda: json_lines(path, 300).rows(), 3)
    assert sum(map(len, shards)) == 100


def test_a_mark_is_taken_from_the_beginning_of_a_file_only(tmp_path: Path) -> None:
    path = tmp_path / "marks.txt"
    path.write_bytes(codecs.BOM_UTF8 * 2 + (codecs.BOM_UTF8 + b"a\n") * 200)
    for encoding in ("utf-8-sig", "utf-8"):
        files = IterableWrapper([str(path)]).shard_files("text", min_bytes=100)
        [expected, *_] = [list(files.read_text(encoding=encoding))]
        shards = shards_of(lambda: files.read_text(encoding=encoding), 3)  # noqa: B023
        assert sorted(map(str, chain_of.from_iterable(shards))) == sorted(map(str, expected))


def test_branches_of_a_stream_that_is_divided_in_parts_are_paired(tmp_path: Path) -> None:
    first, second = chain("parquet", written(tmp_path, "parquet")).fork(2)
    with loader(first.zip(second.map(str)), 0, 2) as reading:
        pairs = list(reading)
    assert sorted(pairs) == [(number, str(number)) for number in range(ROWS)]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_part_smaller_than_a_block_is_refused(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    dp = getattr(IterableWrapper([path]).shard_files(kind, min_bytes=100), f"read_{kind}")()
    with (
        loader(dp, 0, 2) as reading,
        pytest.raises(ValueError, match=r"no whole blocks of 1048576: give shard_files min_bytes"),
    ):
        list(reading)
