"""Arguments that readers, writers and steps on tables refuse, promised lengths, retries and missing packages."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import iter as of_streams
from penstock import map as by_index
from penstock.registry import SHARDING_PRIORITIES

Refused = tuple[Callable[[Any], Any], type[Exception], str]

SCHEMA = pa.schema([("id", pa.int16()), ("text", pa.string())])
LEVELS = SHARDING_PRIORITIES


class OwnFilter(ps.IterDataPipe[Any]):
    """A sharding point that tells nothing of its numbers."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


FILES: list[Refused] = [
    *(
        (lambda dp, mode=mode: dp.load_from_tar(mode=mode), ValueError, r"mode must be 'r:' or 'r\|' and a com")
        for mode in ("w", "rb", "r*", "r|rar", "")
    ),
    (lambda dp: dp.decompress("gz"), ValueError, "file_type must be one of gzip, bz2, lzma, zstd, zip, tar"),
    (lambda dp: dp.decompress(b"gzip"), ValueError, "file_type must be one of"),
    *(
        (lambda dp, hash_type=hash_type: dp.check_hash({}, hash_type), ValueError, "hash_type must be the name of a ha")
        for hash_type in ("sha257", None, "shake_128")
    ),
    (lambda dp: dp.check_hash([("a.txt", "")]), TypeError, "hash_dict must map paths to their digests"),
    (lambda dp: dp.on_disk_cache(str, ["hash"]), TypeError, "hash_dict must map"),
    (lambda dp: dp.on_disk_cache(str, {}, "md6"), ValueError, "hash_type"),
    (lambda dp: dp.end_caching(), ValueError, "needs one on_disk_cache before it, and there are 0"),
    (lambda dp: dp.on_disk_cache(str).end_caching("ab"), ValueError, "mode must be"),
    (lambda dp: dp.on_disk_cache(str).end_caching(filepath_fn=str, same_filepath_fn=True), ValueError, "not both"),
    (lambda dp: dp.on_disk_cache(str).end_caching(timeout=0), ValueError, "timeout must be seconds"),
    (lambda dp: dp.on_disk_cache(str).sharding_filter().end_caching(), ValueError, "do it before on_disk_cache"),
    (lambda dp: dp.on_disk_cache().zip(dp.on_disk_cache()).end_caching(), ValueError, "there are 2"),
    (lambda dp: of_streams.FileLister(b"."), TypeError, "root must be a path"),
    (lambda dp: of_streams.FileLister(["a", 3]), TypeError, "root must be a path"),
    (lambda dp: of_streams.FileLister(path for path in "ab"), TypeError, "root must be a path"),
    (lambda dp: of_streams.FileLister(masks=3), TypeError, "masks must be a pattern"),
    (lambda dp: of_streams.FileLister(masks=["*.txt", None]), TypeError, "masks must be a pattern"),
    (lambda dp: dp.open_files("w"), ValueError, "mode must be 'r', 'rt' or 't' for text, 'rb' or 'b' for bytes"),
    (lambda dp: dp.open_files_by_iopath("w"), ValueError, "mode must be"),
    (lambda dp: dp.open_files("rb", encoding="utf-8"), ValueError, "bytes have no encoding"),
    (lambda dp: dp.routed_decode("rgb16"), ValueError, "no image spec 'rgb16': there are l8, rgb8, "),
    (lambda dp: dp.routed_decode(only="txt"), TypeError, "only must be a list of extensions"),
    (lambda dp: dp.routed_decode(only=[1]), TypeError, "only must be a list of extensions"),
    (
        lambda dp: dp.routed_decode("rgb8", decoder="cv2"),
        ValueError,
        "no decoder 'cv2' .* RGB: there are auto, pil, si",
    ),
    (lambda dp: dp.routed_decode("rgba", decoder="simplejpeg"), ValueError, "of mode RGBA: there are auto, pil$"),
    (lambda dp: dp.routed_decode("pil", decoder="simplejpeg"), ValueError, "of images of Pillow: there are auto, pil$"),
    (lambda dp: dp.routed_decode("rgb8", size=0), ValueError, "size must be at least 1"),
    (lambda dp: dp.routed_decode("rgb8", size=2.5), TypeError, "size must be a whole number"),
    (lambda dp: dp.routed_decode("rgb8", size=(3, 0)), ValueError, "each side of size must be at least 1"),
    (lambda dp: dp.routed_decode("rgb8", size=(3, 2.5)), TypeError, "each side of size must be a whole number"),
    (lambda dp: dp.routed_decode("rgb8", size=(1, 2, 3)), TypeError, r"or \(height, width\), and is \(1, 2, 3\)"),
    (lambda dp: dp.read_images(mode="BGR"), ValueError, "mode must be 'L', 'RGB' or 'RGBA', and is 'BGR'"),
    (lambda dp: dp.read_images(decoder="jpeg"), ValueError, "no decoder '"),
    (lambda dp: dp.read_images(mode="RGBA", decoder="simplejpeg"), ValueError, "no decoder '"),
    (lambda dp: dp.read_text(encoding="utf-7-and-a-half"), LookupError, "unknown encoding"),
    (lambda dp: dp.read_videos(), TypeError, "give frames=16 or seconds=2.0, say"),
    (lambda dp: dp.read_videos(frames=2, seconds=1.0), TypeError, "a number of frames or of seconds"),
    (lambda dp: dp.read_videos(seconds=0), ValueError, "seconds must be seconds, more than 0"),
    (lambda dp: dp.read_videos(seconds="2"), TypeError, "seconds must be a number"),
    (lambda dp: dp.load_files_by_s3(request_timeout_ms=0), ValueError, "request_timeout_ms must be milliseconds"),
    (lambda dp: dp.list_files_by_s3(request_timeout_ms=-2), ValueError, "request_timeout_ms must be milliseconds"),
    (lambda dp: dp.shard_files("tar"), ValueError, "kind must be one of 'parquet'.* 'text', and is 'tar'"),
    (lambda dp: by_index.TarReader("a.tar"), TypeError, "urls must be a sequence of URLs"),
    (lambda dp: by_index.TarReader(["a.tar"], on_error="skip"), ValueError, "cannot be left out"),
    *(
        (lambda dp, template=template: dp.write_tar(template), ValueError, "must have the number of a shard once")
        for template in ("", "a.tar", "{shard}.tar.gz", "{}.tar", "{part}-{shard}.tar", "{shard.tar")
    ),
    *(
        (lambda dp, template=template: dp.write_tar(template), ValueError, "must have the number of a shard once")
        for template in (
            "{shard.real}.tar",
            "{shard}{shard}.tar",
            "{shard!r}.tar",
            "{shard:.0s}.tar",
            "{shard:06q}.tar",
            "{shard:x}.tar",
            "{shard:,}.tar",
            "{shard:6}.tar",
        )
    ),
    *(
        (lambda dp, template=template: dp.write_csv(template), ValueError, r"template must .*'.*\{shard:06d\}\.csv'")
        for template in ("train-{shard}", "train.csv", "{shard}{shard}.csv", "{x}.csv")
    ),
    (lambda dp: dp.write_tar(3), TypeError, "a path must be a string"),
    (lambda dp: OwnFilter(dp).map(str).write_tar("{shard}.tar"), ValueError, "divide the stream by sharding_filter"),
    (
        lambda dp: dp.sharding_round_robin_dispatch(LEVELS.MULTIPROCESSING).map(dict).write_csv("x"),
        ValueError,
        "divide the stream by sharding_filter",
    ),
    (
        lambda dp: dp.write_csv("x", mode="ignore"),
        ValueError,
        "mode must be 'error', 'overwrite' or 'append', and is '",
    ),
    (lambda dp: dp.write_parquet("x", compression="fast"), ValueError, "compression must be one"),
    (lambda dp: dp.write_numpy("{shard}.npy"), ValueError, "an .npy file has one array, which column names"),
    (lambda dp: dp.write_numpy("{shard}.npz", column="id"), ValueError, "and an .npz file all"),
]

TEXTS: list[Refused] = [
    *(
        (lambda dp, name=name: getattr(dp, name)(encoding="utf-9"), LookupError, "unknown encoding: utf-9")
        for name in ("readlines", "parse_csv", "parse_csv_as_dict")
    ),
    *(
        (lambda dp, name=name: getattr(dp, name)(errors="x"), LookupError, "unknown error handler name 'x'")
        for name in ("readlines", "parse_csv", "parse_csv_as_dict")
    ),
    *(
        (lambda dp, name=name, given=given: getattr(dp, name)(**given), error, keyword)
        for name in ("parse_csv", "parse_csv_as_dict")
        for given, error, keyword in (
            ({"delimeter": ";"}, TypeError, "delimeter"),
            ({"delimiter": "ab"}, TypeError, "delimiter"),
            ({"dialect": "lotus"}, csv.Error, "unknown dialect"),
            ({"quoting": 17}, TypeError, "quoting"),
        )
    ),
    (lambda dp: dp.parse_csv(fieldnames=["a"]), TypeError, "fieldnames"),
    (lambda dp: dp.parse_json_files(parse_flaot=str), TypeError, "parse_flaot"),
    (lambda dp: dp.parse_json(parse=int), TypeError, "unexpected keyword argument 'parse'"),
]

TABLES: list[Refused] = [
    (lambda dp: dp.dataframe(dtype_generator=SCHEMA), TypeError, "dtype_generator must be a function"),
    (lambda dp: dp.dataframe(columns="id"), TypeError, "columns must be a list of names"),
    (lambda dp: dp.dataframe(columns=[1]), TypeError, "columns must be a list of names"),
    (lambda dp: dp.dataframe(dtype="int"), TypeError, "dtype must be a pyarrow.Schema or a type of pyarrow"),
    (lambda dp: dp.dataframe(dtype=SCHEMA, columns=["id", "x", "y"]), ValueError, "dtype has no field 'x', 'y'"),
    (lambda dp: dp.load_parquet_as_df(columns=["a", "a"]), ValueError, "columns has a name twice"),
    (lambda dp: dp.load_parquet_as_df(pa.int8()), ValueError, "dtype is int8, a type for all columns: name these"),
    (lambda dp: dp.read_parquet("id"), TypeError, "columns must be a list of names"),
    (lambda dp: dp.read_parquet(["id", "id"]), ValueError, "columns has a name twice"),
    (lambda dp: dp.read_parquet(filter="id >"), ValueError, "cannot be read"),
    (lambda dp: dp.read_parquet(on_error="ignore"), ValueError, "on_error"),
    (lambda dp: dp.read_parquet(unify="yes"), TypeError, "unify must be True, False or a pyarrow.Schema"),
    (lambda dp: dp.read_csv(sep=";"), TypeError, "there is no option 'sep': it is called delimiter; the"),
    (lambda dp: dp.to_tensors("id"), TypeError, "columns must be a list of names, and is 'id'"),
    (lambda dp: dp.to_tensors(["a", "a"]), ValueError, "columns has a name twice"),
    (lambda dp: dp.to_tensors(dtypes={"a": float}), TypeError, "dtypes must be a torch.dtype, or a dict"),
    (lambda dp: dp.with_format("tf"), ValueError, "format must be one of 'torch', 'numpy', 'pandas', 'arrow', and is"),
    (lambda dp: dp.join({"id": [1, 2, 1]}, "id"), ValueError, "has 2 rows with id 1, and may have one"),
    (lambda dp: dp.join({"id": [0.0, -0.0]}, "id"), ValueError, r"has 2 rows with id 0\.0, and may have one"),
    (lambda dp: dp.join({"id": [1]}, "name"), KeyError, "the table has no column 'name': its columns are"),
    (lambda dp: dp.join({"id": [[1]]}, "id"), TypeError, "the column 'id' is list<.*>, which cannot be a key"),
    (lambda dp: dp.join({"id": [1]}, []), ValueError, "on names no column"),
    (lambda dp: dp.join({"id": [1]}, "id", how="outer"), ValueError, "how must be 'inner', 'left' or None"),
    (lambda dp: dp.join(3, "id"), TypeError, "table must be a pyarrow.Table, .*, and is of type int"),
    (lambda dp: dp.join([{"id": 1}, {"ix": 1}], "id"), ValueError, "give all rows the same ones"),
    (lambda dp: dp.join({"id": [1, 2], "x": ["a", 1]}, "id"), TypeError, "column 'x', row 1"),
]


@pytest.mark.parametrize(("make", "error", "keyword"), [*FILES, *TEXTS, *TABLES])
def test_a_bad_argument_is_refused_and_named(make: Callable[[Any], Any], error: type[Exception], keyword: str) -> None:
    with pytest.raises(error, match=keyword):
        make(of_streams.IterableWrapper([1]))


LENGTHS: list[Callable[[Any], Any]] = [
    lambda dp: dp.load_from_tar(length=-2),
    lambda dp: dp.load_from_zip(length=-2),
    lambda dp: dp.load_from_xz(length=-2),
    lambda dp: dp.open_files(length=-2),
    lambda dp: dp.list_files(length=-2),
    lambda dp: dp.list_files_by_s3(length=-2),
]


@pytest.mark.parametrize("make", LENGTHS)
def test_no_length_below_none_is_promised(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="length must be"):
        make(of_streams.IterableWrapper([1]))


NOT_AGAIN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["load_from_tar", "load_from_zip", "load_from_bz2", "decompress", "read_from_stream"], ()),
    **dict.fromkeys(["readlines", "parse_csv", "parse_csv_as_dict", "parse_json_files", "parse_json"], ()),
    "routed_decode": (),
    "write_tar": ("{shard}.tar",),
}


@pytest.mark.parametrize("name", NOT_AGAIN)
def test_what_is_read_once_is_not_tried_again(name: str) -> None:
    with pytest.raises(ValueError, match="on_error cannot be a Retry"):
        getattr(of_streams.IterableWrapper([]), name)(*NOT_AGAIN[name], on_error=ps.Retry(2))


PACKAGES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "rarfile": ("rar", "", lambda dp: dp.load_from_rar()),
    "google.protobuf": ("tfrecord", "", lambda dp: dp.load_from_tfrecord()),
    "google_crc32c": ("tfrecord", "", lambda dp: dp.load_from_tfrecord()),
    "requests": ("http", "", lambda dp: dp.read_from_http()),
    "iopath": ("iopath", "", lambda dp: dp.open_files_by_iopath()),
    "aistore": ("aistore", "", lambda dp: (dp.list_files_by_ais("http://x"), dp.load_files_by_ais("http://x"))),
    "datasets": ("datasets", "", lambda dp: of_streams.HuggingFaceHubReader("somebody/something")),
    "deltalake": ("delta", "", lambda dp: ps.read_delta("table")),
    "pyiceberg": ("iceberg", "", lambda dp: ps.read_iceberg("table")),
    "lance": ("lance", "", lambda dp: ps.read_lance("table")),
    "adbc_driver_postgresql": ("sql", "", lambda dp: ps.read_sql("SELECT 1", "postgresql://host/db")),
    "torchcodec.decoders": ("video", ".*apt-get install ffmpeg", lambda dp: dp.read_videos(frames=4)),
}


@pytest.mark.parametrize("module", PACKAGES)
def test_a_missing_package_says_how_to_install_it(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, more, make = PACKAGES[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "penstock\[{extra}\]"{more}'):
        make(of_streams.IterableWrapper([1]))
