"""Small files that would grow to fill the memory are errors that name the file, its bound, and how to raise it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from forwards import Forwards
from penstock import checkpoint
from penstock.errors.optional import zstandard
from penstock.pipes.files import tars
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.iter import archive as archives

MIB = 2**20


@contextmanager
def little_memory(most: int = 16 * MIB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@contextmanager
def refused(text: str, name: str) -> Iterator[None]:
    with little_memory(), pytest.raises(ValueError, match=text) as caught:
        yield
    assert name in "\n".join([str(caught.value), *caught.value.__notes__])


def source(path: str, stream: Any) -> Any:
    return IterableWrapper([(path, stream)], deepcopy=False)


def with_name_of(size: int, kind: bytes) -> bytes:
    """A tar of a file whose name has so many bytes, after what stands for it in one of the formats."""
    name = b"n" * size
    if kind != tarfile.GNUTYPE_LONGNAME:
        length = size + len(b" path=\n")
        name = b"%d path=%s\n" % (length + len(str(length + len(str(length)))), name)
    before = tarfile.TarInfo("before")
    before.type, before.size = kind, len(name)
    file = tarfile.TarInfo("file")
    file.size = 3
    blocks = [(before, name), (file, b"one"), *([(file, b"two")] if kind == tarfile.XGLTYPE else [])]
    return b"".join(
        [
            *(header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512) for header, content in blocks),
            bytes(1024),
        ]
    )


def many_names(size: int, count: int) -> bytes:
    """A tar with many names of a file, one after another."""
    one = with_name_of(size, tarfile.GNUTYPE_LONGNAME)[: 512 + size + -size % 512]
    return one * count + with_name_of(1, tarfile.GNUTYPE_LONGNAME)


kinds = pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
ways = pytest.mark.parametrize("way", [io.BytesIO, Forwards], ids=["seekable", "forwards"])


@kinds
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@ways
def test_a_long_name_in_a_tar(kind: bytes, packed: Callable[[bytes], bytes], way: Any) -> None:
    content = packed(with_name_of(50 * MIB, kind))
    with refused("more than 1,048,576 bytes: .* give load_from_tar a larger max_bytes", "'at/0.tar'"):
        list(source("at/0.tar", way(content)).load_from_tar())


@ways
def test_many_names_of_one_file_in_a_tar(way: Any) -> None:
    content = gzip.compress(many_names(MIB // 2, 100))
    with refused("more than 1,048,576 bytes: .* give load_from_tar a larger max_bytes", "'at/0.tar'"):
        list(source("at/0.tar", way(content)).load_from_tar())


@kinds
@ways
def test_a_long_name_that_is_right(kind: bytes, way: Any) -> None:
    content = with_name_of(2 * MIB, kind)
    found = [(path, stream.read()) for path, stream in source("0", way(content)).load_from_tar(max_bytes=4 * MIB)]
    assert found[0] == ("0/" + "n" * 2 * MIB, b"one")


def test_a_sparse_file_in_a_tar(tmp_path: Path) -> None:
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(6 * 2**30)
    subprocess.run(["tar", "--sparse", "--format=pax", "-cf", "0.tar", "holes"], cwd=tmp_path, check=True)
    dp = IterableWrapper([str(tmp_path / "0.tar")]).open_files("rb").load_from_tar()
    [(_, stream)] = islice(dp, 1)
    with refused("give a larger max_bytes", "0.tar/holes"):
        stream.read()


@ways
def test_a_large_file_in_a_compressed_tar(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tars, "MAX_BYTES", MIB)
    monkeypatch.setattr(tars, "_LARGE_READ", MIB)
    file = tarfile.TarInfo("a.txt")
    file.size = 100 * MIB
    content = gzip.compress(file.tobuf() + bytes(file.size + 1024))
    [(_, stream)] = islice(source("at/0.tar", way(content)).load_from_tar(), 1)
    with refused("give a larger max_bytes", "'at/0.tar/a.txt'"):
        stream.read()
    [(_, stream)] = islice(source("at/0.tar", way(content)).load_from_tar(), 1)
    with little_memory():
        assert sum(map(len, iter(lambda: stream.read(MIB), b""))) == file.size
    [(_, tar)] = source("at/0.tar", way(content)).decompress("tar")
    with pytest.raises(ValueError, match="give a larger max_bytes"):
        tar.extractfile(tar.next()).read()


# Arrays and tensors


def grown_npz(size: int = 32 * MIB) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, zeros=np.zeros(size, np.uint8))
    return buffer.getvalue()


def told_to_have(content: bytes, size: int) -> bytes:
    """A zip of one file that is said to have so many bytes."""
    changed, at = bytearray(content), content.index(b"PK\1\2")
    changed[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(changed)


def read_numpy(path: Path, content: bytes, **arguments: Any) -> Any:
    path.write_bytes(content)
    chain: Any = IterableWrapper([str(path)])
    return chain.read_numpy(workers=1, **arguments)


@pytest.mark.parametrize(("content", "arguments"), [
    (grown_npz(), {"max_bytes": MIB}),
    (told_to_have(grown_npz(1000), 2**30 + 1), {}),
], ids=["given", "default"])  # fmt: skip
def test_an_npz_that_grows_a_thousandfold(tmp_path: Path, content: bytes, arguments: Any) -> None:
    text = r"bytes grow to [\d,]+ or more, and max_bytes is [\d,]+: .* give a larger max_bytes"
    with refused(text, "at/0.npz"):
        list(source("at/0.npz", content).routed_decode(**arguments))
    with refused(text, str(tmp_path / "0.npz")):
        list(read_numpy(tmp_path / "0.npz", content, **arguments))


def test_an_npz_of_which_much_is_on_disk_has_no_bound() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, numbers=np.arange(10_000))
    [(_, arrays)] = source("0.npz", buffer.getvalue()).routed_decode(max_bytes=1)
    assert arrays["numbers"].size == 10_000


def test_an_npz_that_is_packed_as_numpy_packs_none() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("zeros.npy", bytes(32 * MIB))
    with refused("'zeros.npy' is packed in a way that NumPy does not write", "at/0.npz"):
        list(source("at/0.npz", told_to_have(buffer.getvalue(), 10)).routed_decode())


@pytest.mark.parametrize("shape", [(2**40, 2**40), (-1,), (3,)])
def test_an_npy_that_tells_another_size_than_it_has(tmp_path: Path, shape: tuple[int, ...]) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    content = buffer.getvalue() + bytes(16)
    with refused("the file is cut or corrupt: float64 of shape .* and it has 16 for them", "at/0.npy"):
        list(source("at/0.npy", content).routed_decode())
    with refused("the file is cut or corrupt", str(tmp_path / "0.npy")):
        list(read_numpy(tmp_path / "0.npy", content))


def test_a_pt_that_grows_a_thousandfold(tmp_path: Path) -> None:
    buffer, again = io.BytesIO(), io.BytesIO()
    torch.save({"weight": torch.zeros(8 * MIB)}, buffer)
    with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(again, "w", zipfile.ZIP_DEFLATED) as other:
        for part in archive.infolist():
            other.writestr(part.filename, archive.read(part))
    with refused("give a larger max_bytes", "at/0.pt"):
        list(source("at/0.pt", again.getvalue()).routed_decode(max_bytes=MIB))
    (tmp_path / "0.pt").write_bytes(again.getvalue())
    with refused("give a larger max_bytes", str(tmp_path / "0.pt")):
        checkpoint.load(tmp_path / "0.pt", max_bytes=MIB)
    assert checkpoint.load(tmp_path / "0.pt")["weight"].numel() == 8 * MIB


# Compressed files that are read at once


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_a_compressed_file(compress: Any) -> None:
    content = compress(bytes(32 * MIB))
    [(_, stream)] = source("at/0.txt", io.BytesIO(content)).decompress(max_bytes=MIB)
    with refused("give a larger max_bytes", "'at/0.txt'"):
        stream.read()
    with refused("give a larger max_bytes", "'at/0.txt'"):
        list(source("at/0.txt", io.BytesIO(content)).decompress(max_bytes=MIB).routed_decode())
    [(_, stream)] = source("at/0.txt", io.BytesIO(content)).decompress(max_bytes=MIB)
    with little_memory():
        assert sum(map(len, iter(lambda: stream.read(MIB), b""))) == 32 * MIB


# Lines without an end


PACKED = pytest.mark.parametrize(
    ("name", "compress"),
    [("a.gz", gzip.compress), ("b.bz2", bz2.compress), ("c.xz", lzma.compress), ("d.zst", zstandard().compress)],
)
CALLS: dict[str, Callable[[Any], Any]] = {
    "read": lambda stream: stream.read(18 * MIB),
    "readinto": lambda stream: stream.readinto(bytearray(18 * MIB)),
    "readline": lambda stream: stream.readline(),
    "readlines": lambda stream: stream.readlines(),
    "next": next,
    "list": list,
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@PACKED
@calls
def test_a_call_of_a_compressed_stream(name: str, compress: Any, call: Callable[[Any], Any]) -> None:
    content = compress(bytes(3 * MIB)) * 10
    [(_, stream)] = source(f"at/{name}", io.BytesIO(content)).decompress(max_bytes=4 * MIB)
    with little_memory(48 * MIB), pytest.raises(ValueError, match="give a larger max_bytes") as caught:
        call(stream)
    assert f"'at/{name}'" in caught.value.__notes__[0]


@PACKED
def test_calls_of_a_compressed_stream_that_return_little_have_no_bound(name: str, compress: Any) -> None:
    content = compress(bytes(MIB - 1) + b"\n") * 20
    [(_, stream)] = source(name, io.BytesIO(content)).decompress(max_bytes=2 * MIB)
    assert sum(map(len, stream)) == 20 * MIB
    stream.seek(0)
    with pytest.raises(ValueError, match="give a larger max_bytes"):
        stream.readlines()
    stream.seek(0)
    assert sum(iter(partial(stream.readinto, bytearray(MIB)), 0)) == 20 * MIB
    stream.seek(0)
    assert sum(map(len, iter(partial(stream.read, MIB), b""))) == 20 * MIB
    stream.seek(0)
    while piece := stream.peek():
        assert stream.read1(len(piece)) == piece


def in_a_zip(content: bytes) -> Any:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", content)
    return source("at/0.zip", buffer).load_from_zip(max_bytes=MIB), "'at/0.zip/a.txt'"


def in_a_tar(compress: Callable[[bytes], bytes]) -> Callable[[bytes], Any]:
    def made(content: bytes) -> Any:
        header = tarfile.TarInfo("a.txt")
        header.size = len(content)
        packed = io.BytesIO(compress(header.tobuf() + content + bytes(1024)))
        return source("at/0.tar", packed).load_from_tar(), "'at/0.tar/a.txt'"

    return made


@pytest.mark.parametrize(
    "made", [in_a_zip, in_a_tar(gzip.compress), in_a_tar(lzma.compress)], ids=["zip", "tar.gz", "tar.xz"]
)
@calls
def test_a_call_of_a_file_in_an_archive(
    made: Callable[[bytes], Any], call: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", MIB)
    monkeypatch.setattr(tars, "MAX_BYTES", MIB)
    dp, name = made(bytes(20 * MIB))
    [(_, stream)] = islice(dp, 1)
    with little_memory(48 * MIB), pytest.raises(ValueError, match="give a larger max_bytes") as caught:
        call(stream)
    assert name in caught.value.__notes__[0]


LINES: dict[str, Callable[..., Any]] = {
    "readlines": lambda dp, **more: dp.readlines(**more),
    "readlines of text": lambda dp, **more: dp.readlines(decode=True, **more),
    "parse_csv": lambda dp, **more: dp.parse_csv(**more),
    "parse_csv_as_dict": lambda dp, **more: dp.parse_csv_as_dict(fieldnames=["a"], **more),
    "parse_json": lambda dp, **more: dp.readlines(**more).parse_json(),
}
lines = pytest.mark.parametrize("read", LINES.values(), ids=LINES)


@PACKED
@lines
def test_a_line_without_an_end(name: str, compress: Any, read: Callable[..., Any]) -> None:
    packed = io.BytesIO(compress(bytes(3 * MIB)) * 10)
    with refused("a line has more than 1,000,000 (bytes|characters): .* give a larger max_bytes", f"'at/{name}'"):
        list(read(source(f"at/{name}", packed).decompress(), max_bytes=10**6))


@lines
def test_a_line_of_just_the_bound(read: Callable[..., Any]) -> None:
    dp = read(source("at/0.txt", io.BytesIO(b"123456\n1234567\r\n12")), max_bytes=9)
    assert len(list(dp)) == 3
    with pytest.raises(ValueError, match="a line has more than 8 (bytes|characters)"):
        list(read(source("at/0.txt", io.BytesIO(b"123456\n1234567\r\n12")), max_bytes=8))


def test_a_line_without_an_end_of_a_stream_of_text_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "0.txt").write_bytes(b"one\n" + bytes(20 * MIB))
    paths: Any = IterableWrapper([str(tmp_path / "0.txt")])
    with refused("a line has more than 1,048,576 characters: .* give a larger max_bytes", "0.txt"):
        list(paths.open_files("r").readlines(max_bytes=MIB))
    with refused("a line has more than 1,048,576 characters: .* give a larger max_bytes", "0.txt"):
        list(ps.read_text(str(tmp_path / "0.txt"), max_bytes=MIB))
    skipping = paths.open_files("rb").readlines(max_bytes=MIB, on_error="skip", return_path=False)
    assert list(skipping) == [b"one"]
    assert skipping.stats()["readlines"]["skipped"] == 1


MEASURED = """
import resource, sys
import penstock as ps

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

before = peak()
for path in sys.argv[1:]:
    opened = ps.iter.IterableWrapper([path]).open_files("rb")
    files = opened.load_from_tar() if ".tar" in path else opened.decompress()
    for lines in (files.readlines(), files.parse_csv()):
        try:
            list(lines)
        except ValueError as error:
            assert "give a larger max_bytes" in str(error)
        else:
            raise AssertionError(path)
print(peak() - before)
"""


def test_the_memory_that_a_line_without_an_end_takes(tmp_path: Path) -> None:
    """The files have 640 MiB; a line of 64 MiB is in memory three times: in pieces, as a whole and as text."""
    header = tarfile.TarInfo("a.txt")
    header.size = 640 * MIB
    zeros = bytes(20 * MIB)
    (tmp_path / "a.gz").write_bytes(gzip.compress(zeros) * 32)
    (tmp_path / "d.tar.gz").write_bytes(gzip.compress(header.tobuf()) + gzip.compress(zeros) * 32)
    command = [sys.executable, "-c", MEASURED, *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50)
    assert int(done.stdout) < 320 * MIB


@pytest.mark.parametrize("mode", ["r:*", "r|*"])
def test_a_file_of_a_tar_that_tells_of_more_than_there_is(mode: str) -> None:
    header = tarfile.TarInfo("a.bin")
    header.size = 2**40
    content = header.tobuf() + bytes(10_000)
    [(_, stream)] = islice(source("at/0.tar", io.BytesIO(content)).load_from_tar(mode), 1)
    with little_memory(), pytest.raises(tarfile.ReadError, match="unexpected end of data") as caught:
        stream.read()
    assert "'at/0.tar/a.bin'" in caught.value.__notes__[0]
    with little_memory(), pytest.raises(tarfile.ReadError, match="unexpected end of data"):
        list(source("at/0.tar", io.BytesIO(content)).load_from_tar(mode))


@pytest.mark.parametrize("mode", ["r:*", "r|*"])
def test_a_file_of_a_tar_with_less_than_no_bytes_does_not_come_again_and_again(mode: str) -> None:
    header = tarfile.TarInfo("a.bin")
    header.size = -512
    content = tarfile.TarInfo("0").tobuf() + header.tobuf(tarfile.GNU_FORMAT) + bytes(10_240)
    with pytest.raises(tarfile.ReadError, match="cut or corrupt: a file of -512 bytes"):
        list(islice(source("at/0.tar", io.BytesIO(content)).load_from_tar(mode), 9))


def zipped(size: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", bytes(size))
    return buffer.getvalue()


def test_a_large_file_in_a_zip() -> None:
    content = zipped(32 * MIB)
    [(_, stream)] = source("at/0.zip", io.BytesIO(content)).load_from_zip(max_bytes=MIB)
    with refused("give a larger max_bytes", "'at/0.zip/a.txt'"):
        stream.read()
    with little_memory():
        assert sum(map(len, iter(lambda: stream.read(MIB), b""))) == 32 * MIB
    [(_, archive)] = source("at/0.zip", io.BytesIO(content)).decompress("zip", max_bytes=MIB)
    with refused("give a larger max_bytes", "'at/0.zip/a.txt'"):
        archive.read("a.txt")
    with little_memory():
        assert sum(map(len, iter(partial(archive.open("a.txt").read, MIB), b""))) == 32 * MIB


def test_a_file_in_a_zip_that_is_larger_than_it_tells() -> None:
    content = told_to_have(zipped(64 * MIB), 10)
    with little_memory(), pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        list(source("at/0.zip", io.BytesIO(content)).load_from_zip())


# What others bound


def test_a_document_that_is_nested_too_deeply() -> None:
    with refused("nested too deeply", "'at/0.json'"):
        list(source("at/0.json", b"[" * 100_000).routed_decode())
