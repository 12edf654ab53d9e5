from __future__ import annotations

import bz2
import gc
import gzip
import io
import lzma
import random
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archives import tar_of, zip_of
from forwards import Forwards
from penstock.pipes.files import compression
from penstock.pipes.iter import FileLister, IterableWrapper
from penstock.pipes.iter.decompress import CompressionType
from resuming import assert_resumes_everywhere

CONTENT = random.Random(0).randbytes(400_000) + bytes(400_000)
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "bz2": bz2.compress, "lzma": lzma.compress}


class Trickling(Forwards):
    """A stream of bytes that cannot seek, and gives few bytes at a time."""

    def readinto(self, buffer: Any) -> int:
        return super().readinto(memoryview(buffer)[:1000])


each = pytest.mark.parametrize("kind", PACKERS)
ways = pytest.mark.parametrize("way", [io.BytesIO, Trickling], ids=["seekable", "forwards"])


TAR, ZIP = tar_of({"a": b"a", "b": b"b"}, ""), zip_of({"a": b"a"})


@cache
def packed(kind: str, content: bytes = CONTENT) -> bytes:
    return PACKERS[kind](content)


def opened(name: str, content: bytes, way: Callable[[bytes], Any] = io.BytesIO) -> Any:
    return IterableWrapper([(name, way(content))], deepcopy=False)


# What comes out


@each
@ways
def test_the_argument_or_the_first_bytes_tell_the_type_before_the_name_does(kind: str, way: Any) -> None:
    content = packed(kind)
    for name, file_type in (
        ("file", None),
        ("file.zip", None),
        ("file.zip", kind.upper()),
        ("f", CompressionType(kind)),
    ):
        [(path, stream)] = opened(name, content, way).decompress(file_type)
        assert (path, stream.read()) == (name, CONTENT)


@pytest.mark.parametrize("suffix", [".LZMA", ".xz"])
def test_where_the_first_bytes_do_not_tell_the_type_the_name_does(suffix: str) -> None:
    settings: Any = [{"id": lzma.FILTER_LZMA1, "lc": 0}]
    old = lzma.compress(b"one", format=lzma.FORMAT_ALONE, filters=settings)  # begins with nothing that marks it
    assert list(opened(f"file{suffix}", old).decompress().read_from_stream()) == [(f"file{suffix}", b"one")]


@ways
@pytest.mark.parametrize("name", ["a.gz/text", "file.rar"])
def test_a_type_that_cannot_be_told_is_an_error(name: str, way: Any) -> None:
    with pytest.raises(RuntimeError, match="give file_type="):
        list(opened(name, b"BZh is how a bzip2 begins", way).decompress())


@pytest.mark.parametrize(
    ("method", "content", "found"),
    [
        ("load_from_tar", TAR, ["a", "b"]),
        ("load_from_tar", packed("lzma", TAR), ["a", "b"]),
        ("load_from_zip", ZIP, ["a"]),
        ("load_from_zip", packed("gzip", ZIP), ["a"]),
    ],
    ids=["tar", "tar in lzma", "zip", "zip in gzip"],
)
@ways
def test_archives_are_loaded_whether_they_are_compressed_or_not(
    method: str, content: bytes, found: list[str], way: Any
) -> None:
    loaded = getattr(opened("pack", content, way).decompress(), method)()
    assert [(path, stream.read().decode()) for path, stream in loaded] == [(f"pack/{name}", name) for name in found]


@ways
@pytest.mark.parametrize("content", [TAR, packed("gzip", TAR)], ids=["tar", "tar.gz"])
def test_a_tar_that_is_asked_for_comes_out_open(content: bytes, way: Any) -> None:
    [(_, pack)] = opened("pack", content, way).decompress("tar")
    assert isinstance(pack, tarfile.TarFile)
    assert [pack.extractfile(member).read() for member in pack] == [b"a", b"b"]  # type: ignore[union-attr]


@ways
def test_a_zip_that_is_asked_for_comes_out_open(way: Any) -> None:
    stream = way(ZIP)
    [(_, pack)] = IterableWrapper([("at/pack", stream)], deepcopy=False).extract("zip")
    assert isinstance(pack, zipfile.ZipFile)
    with pytest.raises(KeyError, match="no item named 'b'") as caught:
        pack.open("b")
    assert "at/pack" in caught.value.__notes__[0]
    file = pack.open("a")
    del pack, caught
    assert file.read() == b"a"
    del file
    gc.collect()
    assert stream.closed


def test_a_wrong_bit_in_a_zip_that_is_open_is_an_error_that_names_the_file() -> None:
    expected = random.Random(1).randbytes(500)
    raised = []
    for at in range(0, 500, 7):
        content = bytearray(zip_of({"a": expected}))
        content[at] ^= 4
        [(_, pack)] = opened("at/pack", bytes(content)).decompress("zip")
        try:
            assert pack.read("a") == expected, at
        except zipfile.BadZipFile as error:
            raised.append(error.__notes__[0])
    assert len(raised) > 60
    assert all("at/pack" in note for note in raised)


@pytest.mark.parametrize(
    ("method", "kind", "name", "expected"),
    [
        ("load_from_xz", "lzma", "a/xz.xz", "a/xz"),
        ("load_from_xz", "lzma", "fizz", "fizz"),
        ("load_from_bz2", "bz2", "jazz2.bz2", "jazz2"),
        ("load_from_bz2", "bz2", "b.xz", "b.xz"),
    ],
)
def test_a_suffix_and_no_letter_more_is_taken_off_the_path(method: str, kind: str, name: str, expected: str) -> None:
    load = getattr(opened(name, packed(kind, b"one")), method)
    assert list(load().read_from_stream()) == [(expected, b"one")]
    assert [len(load()), len(load(length=5))] == [1, 5]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself has zstd")
def test_zstd_says_what_to_install_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(ImportError, match=r'pip install "penstock\[zstd\]"'):
        IterableWrapper([]).decompress("zstd")
    with pytest.raises(ImportError, match=r'pip install "penstock\[zstd\]"'):
        list(opened("a.zst", b"\x28\xb5\x2f\xfd").decompress().read_from_stream())


def test_zstd_is_decompressed() -> None:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        zstd = pytest.importorskip("backports.zstd")
    content = zstd.compress(CONTENT[:1000]) + zstd.compress(CONTENT[1000:])
    for file_type in ("zstd", None):
        [(_, stream)] = opened("file", content).decompress(file_type)
        assert stream.read() == CONTENT
        assert stream.seek(999) == 999
        assert stream.read(2) == CONTENT[999:1001]


# The streams


@each
@ways
def test_several_parts_one_after_another_are_read_as_one(kind: str, way: Any) -> None:
    parts = [b"one", b"", CONTENT, b"end"]
    compressed = [packed(kind, part) for part in parts]
    for padding in (b"", bytes(4), bytes(300_000)):
        [(_, stream)] = opened("file", padding.join(compressed) + padding, way).decompress()
        assert stream.read() == b"".join(parts)


@each
def test_a_stream_is_a_file_that_seeks_in_what_was_compressed(kind: str) -> None:
    buffer = io.BytesIO(b"before" + packed(kind))
    buffer.seek(6)
    [(_, stream)] = IterableWrapper([("file", buffer)], deepcopy=False).decompress(kind)
    assert stream.name == "file"
    assert stream.seek(300_000) == stream.tell() == 300_000
    assert stream.read(10) == CONTENT[300_000:300_010]
    assert stream.seek(-5, io.SEEK_CUR) == 300_005
    assert stream.read(5) == CONTENT[300_005:300_010]
    assert stream.seek(-3, io.SEEK_END) == len(CONTENT) - 3
    assert stream.read() == CONTENT[-3:]
    assert stream.seek(len(CONTENT) + 5) == len(CONTENT)
    assert stream.seek(0) == 0
    assert stream.read() == CONTENT
    with pytest.raises(ValueError, match="there is no position -1|negative seek"):
        stream.seek(-1)


@each
def test_a_stream_over_one_that_cannot_seek_cannot_either(kind: str) -> None:
    [(_, stream)] = opened("file", packed(kind), Forwards).decompress()
    assert not stream.seekable()
    with pytest.raises(io.UnsupportedOperation):
        stream.seek(0)


def test_numpy_does_not_read_the_compressed_file(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "numbers.npy.gz", "wb") as file:
        np.save(file, np.arange(1000))
    [(_, numbers)] = FileLister(str(tmp_path)).open_files("b").decompress()
    np.testing.assert_array_equal(np.load(numbers), np.arange(1000))


def test_what_is_highly_compressed_is_decompressed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    decompress = compression._Gunzip.decompress

    def recording(self: Any, data: bytes, max_length: int) -> bytes:
        sizes.append(len(content := decompress(self, data, max_length)))
        return content

    monkeypatch.setattr(compression._Gunzip, "decompress", recording)
    [(_, stream)] = opened("file", gzip.compress(bytes(10**7))).decompress()
    assert stream.read(10) == bytes(10)
    assert sum(sizes) == compression._CHUNK
    assert stream.read() == bytes(10**7 - 10)
    assert max(sizes) == compression._CHUNK


def test_a_stream_is_closed_when_it_is_dropped_or_closed() -> None:
    for drop in (False, True):
        inner = io.BytesIO(gzip.compress(b"content"))
        [(_, stream)] = IterableWrapper([("file", inner)], deepcopy=False).decompress()
        if not drop:
            stream.close()
        del stream
        gc.collect()
        assert inner.closed


# What is cut or corrupt


@each
@ways
def test_a_cut_stream_raises_an_error_that_names_its_path(kind: str, way: Any) -> None:
    content = packed(kind, b"a few words")
    for damaged in [*(content[:cut] for cut in range(len(content))), content + b"garbage"]:
        [(_, stream)] = opened("data/file", damaged, way).decompress(kind)
        with pytest.raises(OSError, match="'data/file' is cut or corrupt"):
            stream.read()


def test_an_error_of_the_compressed_stream_passes_as_it_is() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise TimeoutError("the network is gone")
            return super().read(10 if size else 0)

    [(_, stream)] = IterableWrapper([("file", Broken(packed("gzip")))], deepcopy=False).decompress("gzip")
    with pytest.raises(TimeoutError, match="the network is gone"):
        stream.read()


# Arguments, and what is left out


@pytest.mark.parametrize("method", ["decompress", "load_from_xz", "load_from_bz2"])
def test_a_stream_of_text_is_an_error(method: str) -> None:
    with pytest.raises(TypeError, match="the stream is open as text, and its bytes are needed"):
        list(getattr(IterableWrapper([("a", io.StringIO("text"))]), method)())


def test_what_cannot_be_told_or_read_can_be_left_out() -> None:
    content = packed("bz2", b"content" * 3)
    items = [("a", content), ("b", b"text"), ("c", content[: len(content) // 2]), ("d", content)]

    def make() -> Any:
        source = IterableWrapper([(name, io.BytesIO(each)) for name, each in items])
        return source.decompress(on_error="skip").read_from_stream(on_error="skip")

    dp = make()
    assert list(dp) == [("a", b"content" * 3), ("d", b"content" * 3)]
    assert {name: counts["skipped"] for name, counts in dp.stats().items()} == {"decompress": 1, "read_from_stream": 1}
    assert_resumes_everywhere(make, passes=2)


def test_every_compression_is_one_that_file_type_can_be() -> None:
    assert {*CompressionType} == {*compression.KINDS}
