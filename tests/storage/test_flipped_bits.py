"""Every wrong bit in a file gives what is right, or an error of a type that is documented, which names the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.distributed.checkpoint as dcp

import penstock as ps
from archives import tar_of
from forwards import Forwards
from penstock import checkpoint
from penstock.pipes.files import members
from penstock.pipes.iter import IterableWrapper
from penstock.storage.streaming.decompression_limit import TooLarge

FLIPS = 250

RANDOM = random.Random(0)
FILES = {
    "a.txt": b"first",
    "folder/" + "n" * 120 + ".bin": RANDOM.randbytes(700),
    "empty": b"",
    "ü.txt": b"text " * 200,
    "z.bin": RANDOM.randbytes(300),
}


def flipped(content: bytes, count: int = FLIPS) -> Iterator[tuple[int, bytes]]:
    """Copies of a file with one wrong bit each, and the number of the byte that has it."""
    rng = random.Random(1)
    for _ in range(count):
        at = rng.randrange(len(content))
        yield at, content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def told_by(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def check(
    content: bytes,
    read: Callable[[bytes], Iterator[Any]],
    expected: list[Any],
    errors: tuple[type[Exception], ...],
    name: str,
    same: Callable[[Any, Any], bool] = lambda one, other: one == other,
    unverified: Callable[[int], bool] = lambda at: False,
) -> int:
    """Read a file with one wrong bit after another; return how many of them were errors, each of one of the types."""
    raised = 0
    for at, wrong in flipped(content):
        seen: list[Any] = []
        failure: Exception | None = None
        try:
            seen.extend(read(wrong))
        except Exception as error:
            failure = error
        if failure is not None:
            raised += 1
            assert type(failure) in errors, f"byte {at}: {failure!r}"
            assert name in told_by(failure), f"byte {at}: {failure!r}"
        if not unverified(at):
            assert failure is not None or len(seen) == len(expected), f"byte {at}: {len(seen)} of {len(expected)}"
            assert all(map(same, seen, expected)), f"byte {at}: wrong items and no error"
    return raised


ways = pytest.mark.parametrize("way", [io.BytesIO, Forwards], ids=["seekable", "forwards"])


def packed(kind: str, plain: bytes) -> bytes:
    if kind == "zstd":
        zstd = pytest.importorskip("backports.zstd")
        return zstd.compress(plain, options={zstd.CompressionParameter.checksum_flag: 1})
    return {"gzip": gzip.compress, "bz2": bz2.compress, "lzma": lzma.compress}[kind](plain)


def halves(kind: str, plain: bytes) -> bytes:
    return packed(kind, plain[: len(plain) // 2]) + packed(kind, plain[len(plain) // 2 :])


compressions = pytest.mark.parametrize("kind", ["gzip", "bz2", "lzma", "zstd"])


def contents(method: str, way: Any, content: bytes, **arguments: Any) -> Iterator[tuple[str, bytes]]:
    source: Any = IterableWrapper([("at/pack", way(content))], deepcopy=False)
    for path, stream in getattr(source, method)(**arguments):
        yield path, stream.read()


PATHS = [("at/pack/" + name, content) for name, content in FILES.items()]


# Tars


@compressions
@pytest.mark.parametrize("parts", [packed, halves])
@ways
def test_a_compressed_tar(kind: str, parts: Any, way: Any) -> None:
    content = parts(kind, tar_of(FILES, ""))
    assert list(contents("load_from_tar", way, content)) == PATHS
    raised = check(content, partial(contents, "load_from_tar", way), PATHS, (tarfile.ReadError,), "at/pack")
    assert raised > 0.9 * FLIPS


@compressions
@ways
def test_a_compressed_tar_that_is_cut_anywhere(kind: str, way: Any) -> None:
    content = packed(kind, tar_of(FILES, ""))
    for cut in [*range(0, len(content) - 20, 13), *range(len(content) - 20, len(content))]:
        with pytest.raises(tarfile.ReadError):
            list(contents("load_from_tar", way, content[:cut]))


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@ways
def test_a_plain_tar_has_checksums_of_its_headers_alone(layout: int, way: Any) -> None:
    errors = (tarfile.ReadError, ValueError)
    read = partial(contents, "load_from_tar", way)
    check(tar_of(FILES, "", format=layout), read, PATHS, errors, "at/pack", unverified=lambda at: True)


# Parquet


def rows_of(path: Path, content: bytes) -> Iterator[Any]:
    path.write_bytes(content)
    source: Any = IterableWrapper([str(path)])
    yield from source.read_parquet()


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
def test_a_compressed_file_that_was_written_here(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    content = np.random.default_rng(0).bytes(3000)
    list(IterableWrapper([(str(path), content)]).save_by_fsspec("wb", kwargs_for_open={"compression": "infer"}))
    packed = path.read_bytes()
    [(_, expected)] = contents("decompress", io.BytesIO, packed)
    assert expected == content
    for place in range(0, len(packed), 40):
        flipped = bytearray(packed)
        flipped[place] ^= 4
        try:
            [(_, found)] = contents("decompress", io.BytesIO, bytes(flipped))
        except (OSError, RuntimeError):  # the latter where the beginning does not tell how it is compressed
            continue
        assert found == content, place  # as where the bit is in a header's time


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("bit", [20, 31])
def test_an_offset_in_an_arrow_file_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, kind: str, bit: int
) -> None:
    table = pa.table({"text": [f"text{number:04}" for number in range(1000)]})
    path = tmp_path / "a.arrow"
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table)
    content = bytearray(path.read_bytes())
    place = content.find(struct.pack("<4i", 0, 8, 16, 24)) + 4 * 500
    [offset] = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, offset ^ 1 << bit)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="offset") as caught:
        list(ps.read_ipc(str(path)).rows())
    assert "a.arrow" in "".join([str(caught.value), *caught.value.__notes__])


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("written", ["here", "elsewhere"])
def test_a_parquet_file(tmp_path: Path, compression: str, written: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 2**63, 2000)
    table = pa.table({"number": numbers, "text": [f"{n % 7} times" for n in range(2000)]})
    path = tmp_path / "0.parquet"
    if written == "here":
        source: Any = IterableWrapper(table.to_batches())
        list(source.write_parquet(str(tmp_path / "{shard}.parquet"), rows_per_file=2000, compression=compression))
    else:
        pq.write_table(table, path, compression=compression, use_dictionary=False, write_page_checksum=True)
    content = path.read_bytes()
    [expected] = rows_of(path, content)
    column = pq.read_metadata(path).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    pages, end = start + 100, start + 8000  # what is before a page, and the footer, have no checksum
    raised = check(
        content,
        partial(rows_of, path),
        [expected],
        (OSError, pa.ArrowInvalid),
        str(path),
        lambda one, other: one.equals(other),
        unverified=lambda at: not pages <= at < end,
    )
    assert raised > 0.8 * FLIPS


def footers_with_fewer_rows(content: bytes) -> Iterator[bytes]:
    """Yield a Parquet file with each wrong bit in its footer by which a row group has other rows than were written."""
    length = int.from_bytes(content[-8:-4], "little")
    for bit in range(8 * length):
        flipped = bytearray(content)
        flipped[len(content) - 8 - length + bit // 8] ^= 1 << bit % 8
        try:
            footer = pq.read_metadata(io.BytesIO(flipped))
        except (OSError, ValueError, OverflowError, pa.ArrowException):
            continue
        if footer.num_rows != sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups)):
            yield bytes(flipped)


def test_a_parquet_file_loses_no_rows_by_a_wrong_bit_in_its_footer(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"number": range(3000), "text": [f"{n % 7} times" for n in range(3000)]}), path)
    tried = 0
    for content in footers_with_fewer_rows(path.read_bytes()):
        with pytest.raises(pa.ArrowInvalid) as caught:
            list(rows_of(path, content))
        assert str(path) in caught.value.__notes__[-1]
        tried += "the footer is corrupt: it counts" in str(caught.value)
    assert tried > 5


# States of torch


def states() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    weights = {f"layer.{n}": torch.randn(100, generator=generator) for n in range(4)}
    return {"model": weights, "half": torch.ones(30, dtype=torch.bfloat16), "steps": [1, 2.5, "three", None]}


def same_states(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and [*one] == [*other] and all(same_states(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def saved(value: object, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    if compression == zipfile.ZIP_STORED:
        return buffer.getvalue()
    again = io.BytesIO()
    with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(again, "w", compression) as other:
        for part in archive.infolist():
            other.writestr(part.filename, archive.read(part), compression)
    return again.getvalue()


def loaded(path: Path, content: bytes) -> Iterator[Any]:
    path.write_bytes(content)
    yield checkpoint.load(path)


def decoded(name: str, content: bytes) -> Iterator[Any]:
    for _, value in IterableWrapper([(name, content)]).routed_decode():
        yield value


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_a_checkpoint(tmp_path: Path, compression: int) -> None:
    content, path = saved(states(), compression), tmp_path / "last.pt"
    raised = check(content, partial(loaded, path), [states()], (ValueError, TooLarge), str(path), same_states)
    assert raised > 0.4 * FLIPS


def loaded_sharded(folder: Path, path: Path, content: bytes) -> Iterator[Any]:
    path.write_bytes(content)
    found = {name: torch.zeros_like(value) if torch.is_tensor(value) else None for name, value in flat().items()}
    try:
        dcp.load(found, storage_reader=checkpoint.StorageReader(folder))
    except dcp.CheckpointException as error:
        failure, _ = error.failures[0]
        raise failure from error
    yield found


def flat() -> dict[str, Any]:
    return {**states()["model"], "half": states()["half"], "steps": states()["steps"]}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_sharded_checkpoint(tmp_path: Path) -> None:
    dcp.save(flat(), storage_writer=checkpoint.StorageWriter(tmp_path))
    (path,) = tmp_path.glob("*.distcp")
    content = path.read_bytes()
    raised = check(content, partial(loaded_sharded, tmp_path, path), [flat()], (ValueError,), str(path), same_states)
    assert raised > 0.4 * FLIPS


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_a_decoded_pt(compression: int) -> None:
    content, name = saved(states(), compression), "at/0.pt"
    raised = check(content, partial(decoded, name), [states()], (ValueError, TooLarge), name, same_states)
    assert raised > 0.4 * FLIPS


# Arrays


ARRAYS = {
    "counts": np.arange(200),
    "mask": np.zeros((30, 30), bool),
    "names": np.array(["one", "two"]),
    "fields": np.zeros(5, [("a", "<i4"), ("b", "<f8", (2,))]),
}


def same_arrays(one: Any, other: Any) -> bool:
    return [*one] == [*other] and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one
    )


def written(write: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arrays, **named)
    return buffer.getvalue()


def columns(path: Path, content: bytes) -> Iterator[Any]:
    path.write_bytes(content)
    source: Any = IterableWrapper([str(path)])
    yield from source.read_numpy()


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_decoded_npz(write: Any) -> None:
    content, name = written(write, **ARRAYS), "at/0.npz"
    raised = check(content, partial(decoded, name), [ARRAYS], (ValueError, TooLarge), name, same_arrays)
    assert raised > 0.4 * FLIPS


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_npz_that_is_read(tmp_path: Path, write: Any) -> None:
    arrays = {"counts": np.arange(200), "floats": np.random.default_rng(0).random((200, 3))}
    content, path = written(write, **arrays), tmp_path / "0.npz"
    [expected] = columns(path, content)
    raised = check(content, partial(columns, path), [expected], (ValueError, TooLarge), str(path))
    assert raised > 0.4 * FLIPS


@pytest.mark.filterwarnings("ignore")  # NumPy and Python warn of odd headers
def test_an_npy_has_no_checksum(tmp_path: Path) -> None:
    content, path = written(np.save, np.arange(8, dtype=np.int16).reshape(2, 4)), tmp_path / "0.npy"
    check(content, partial(decoded, "at/0.npy"), [], (ValueError,), "at/0.npy", unverified=lambda at: True)
    check(content, partial(columns, path), [], (ValueError, TypeError), str(path), unverified=lambda at: True)


# Zips


def test_a_file_that_a_wrong_bit_makes_a_folder_is_an_error() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.info", b"one")
    content = buffer.getvalue()
    at = content.rindex(b"a.info") + 5
    wrong = content[:at] + b"/" + content[at + 1 :]
    with pytest.raises(zipfile.BadZipFile, match="header"):
        list(contents("load_from_zip", io.BytesIO, wrong))


@pytest.mark.parametrize("comment", [b"", b"what it is"])
def test_an_end_of_zeros_is_not_that_of_an_empty_archive(comment: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", b"one")
        archive.comment = comment
    whole = buffer.getvalue()
    end = len(whole) - 22 - len(comment)
    for count in (3, 6, 12, 22 - 4):
        for start in range(end + 4, end + 22 - count + 1):
            try:
                found = list(
                    contents("load_from_zip", io.BytesIO, whole[:start] + bytes(count) + whole[start + count :])
                )
            except zipfile.BadZipFile:
                continue
            assert found, f"{count} zeros from byte {start - end} of the end"
    zeros = whole[:end] + b"PK\5\6" + bytes(18) + whole[end + 22 :]
    with pytest.raises(zipfile.BadZipFile, match="the archive is corrupt: its end counts no"):
        list(contents("load_from_zip", io.BytesIO, zeros))


def test_an_archive_with_nothing_in_it_is_one() -> None:
    for comment in (b"", b"nothing is in it"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.comment = comment
        assert list(contents("load_from_zip", io.BytesIO, buffer.getvalue())) == []


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("large", [16 * 2**20, 100], ids=["in memory", "large"])
@ways
def test_a_zip(compression: int, large: int, way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "LARGE", large)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as pack:
        for name, file in FILES.items():
            pack.writestr(name, file)
    errors = (zipfile.BadZipFile, RuntimeError, ValueError, TooLarge)
    read = partial(contents, "load_from_zip", way)
    raised = check(buffer.getvalue(), read, PATHS, errors, "at/pack")
    assert raised > 0.4 * FLIPS
