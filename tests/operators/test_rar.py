from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forwards import Forwards
from penstock.pipes.files import members
from penstock.pipes.iter import FileLister, IterableWrapper
from resuming import assert_resumes_everywhere

rarfile = pytest.importorskip("rarfile")

FILES = {"a.txt": b"first", "folder/b.bin": random.Random(0).randbytes(700), "empty": b"", "z.txt": b"last" * 128}
PATHS = [("pack/" + name, content) for name, content in FILES.items()]

STORED, PACKED = 0x30, 0x33
ENCRYPTED, SPLIT_BEFORE, SPLIT_AFTER = 0x04, 0x01, 0x02


# Archives, laid out by hand: files that are only stored need no program


def rar4(files: dict[str, bytes] = FILES, **arguments: Any) -> bytes:
    return rar4_of(*(file4(name, content, **arguments) for name, content in files.items()))


def rar4_of(*blocks: bytes, flags: int = 0, end: bytes | None = None) -> bytes:
    return b"Rar!\x1a\x07\x00" + block4(0x73, flags, bytes(6)) + b"".join(blocks) + (END4 if end is None else end)


def block4(kind: int, flags: int, fields: bytes, data: bytes = b"") -> bytes:
    header = struct.pack("<BHH", kind, flags, 7 + len(fields)) + fields
    return struct.pack("<H", zlib.crc32(header) & 0xFFFF) + header + data


def file4(
    name: str, content: bytes, method: int = STORED, flags: int = 0, mode: int = 0o100644, version: int = 29
) -> bytes:
    encoded = name.encode("latin-1")
    size = len(content)
    numbers = (size, size, 3, zlib.crc32(content), 0, version, method, len(encoded), mode)
    return block4(0x74, 0x8000 | flags, struct.pack("<IIBIIBBHI", *numbers) + encoded, content)


def rar5(files: dict[str, bytes] = FILES) -> bytes:
    return rar5_of(*(file5(name, content) for name, content in files.items()))


def rar5_of(*blocks: bytes, end: bytes | None = None) -> bytes:
    return b"Rar!\x1a\x07\x01\x00" + block5(bytes([1, 0, 0])) + b"".join(blocks) + (END5 if end is None else end)


def block5(header: bytes, data: bytes = b"") -> bytes:
    sized = number5(len(header)) + header
    return struct.pack("<I", zlib.crc32(sized)) + sized + data


def number5(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number5(value >> 7)


def file5(name: str, content: bytes, method: int = 0, flags: int = 0, file_flags: int = 0, extra: bytes = b"") -> bytes:
    encoded = name.encode()
    size = number5(len(content))
    header = b"\x02" + number5(2 | bool(extra) | flags) + (number5(len(extra)) if extra else b"") + size
    header += bytes([4 | file_flags]) + size + number5(0o100644) + struct.pack("<I", zlib.crc32(content))
    return block5(header + number5(method << 7) + b"\x01" + number5(len(encoded)) + encoded + extra, content)


END4 = block4(0x7B, 0x4000, b"")
END5 = block5(bytes([5, 0, 0]))
LINK4 = file4("link", b"a.txt", mode=0o120777)
FOLDER4 = file4("folder", b"", flags=0xE0, mode=0o040755)
LINK5 = file5("link", b"", extra=number5(10) + bytes([5, 1, 0, 5]) + b"a.txt" + b"\0")
FOLDER5 = file5("folder", b"", file_flags=1)


def load(content: bytes, way: Callable[[bytes], Any] = io.BytesIO, **arguments: Any) -> Any:
    return IterableWrapper([("pack", way(content))], deepcopy=False).load_from_rar(**arguments)


def contents(dp: Any) -> list[tuple[str, bytes]]:
    return [(path, stream.read()) for path, stream in dp]


both = pytest.mark.parametrize("pack", [rar4, rar5])
ways = pytest.mark.parametrize("way", [io.BytesIO, Forwards], ids=["seekable", "forwards"])


@both
@ways
def test_each_file_comes_out_with_its_path_in_the_order_of_the_archive(pack: Any, way: Any) -> None:
    assert contents(load(pack(), way)) == PATHS
    assert contents(load(pack({}), way)) == []
    assert len(load(pack(), length=4)) == 4


@pytest.mark.parametrize(
    "content",
    [
        rar4_of(FOLDER4, file4("folder\\a.txt", b"a"), LINK4, file4("b", b"b")),
        rar5_of(FOLDER5, file5("folder/a.txt", b"a"), LINK5, file5("b", b"b")),
    ],
    ids=["rar4", "rar5"],
)
def test_folders_and_links_are_left_out_and_slashes_lean_forwards(content: bytes) -> None:
    assert contents(load(content)) == [("pack/folder/a.txt", b"a"), ("pack/b", b"b")]


@both
@pytest.mark.parametrize("large", [16 * 2**20, 100], ids=["in memory", "large"])
def test_files_can_be_read_after_the_archive_has_moved_on(
    pack: Any, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "LARGE", large)
    held = list(load(pack()))
    for (path, stream), expected in reversed([*zip(held, PATHS, strict=True)]):
        assert (path, stream.read(10)) == (expected[0], expected[1][:10])
    for (_, stream), expected in zip(held, PATHS, strict=True):
        assert stream.read() == expected[1][10:]
        stream.seek(2)
        assert stream.read() == expected[1][2:]


@both
def test_an_archive_is_closed_when_reading_is_given_up(pack: Any) -> None:
    stream = io.BytesIO(pack())
    iterator: Any = iter(IterableWrapper([("pack", stream)], deepcopy=False).load_from_rar())
    _, held = next(iterator)
    iterator.close()
    assert stream.closed
    assert held.read() == b"first"


# Archives that are cut, corrupt, or not to be trusted


@both
@ways
def test_a_cut_archive_raises(pack: Any, way: Any) -> None:
    content = pack()
    between_two_files = len(pack({"a.txt": b"first"})) - len(END4 if pack is rar4 else END5)
    for cut in [*range(0, len(content), 11), between_two_files, *range(len(content) - 30, len(content))]:
        with pytest.raises(rarfile.BadRarFile):
            contents(load(content[:cut], way))


def test_an_archive_of_a_time_before_there_were_end_marks_is_read() -> None:
    old = rar4_of(file4("a", b"a", version=20), end=b"\xff")  # what follows is not even a header
    with pytest.raises(rarfile.BadRarFile):
        contents(load(old))
    assert contents(load(rar4_of(file4("a", b"a", version=20)))) == [("pack/a", b"a")]


@both
@pytest.mark.parametrize("large", [16 * 2**20, 100], ids=["in memory", "large"])
def test_a_wrong_bit_raises_or_gives_all_files(pack: Any, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "LARGE", large)
    content, raised = bytearray(pack({"a": b"0123456789" * 20, "b": b"b"})), 0
    expected = [("pack/a", b"0123456789" * 20), ("pack/b", b"b")]
    for at in range(len(content)):
        content[at] ^= 4
        try:
            found: Any = contents(load(bytes(content)))
        except rarfile.BadRarFile:
            found = None
            raised += 1
        assert found in (expected, None), f"at byte {at}"
        content[at] ^= 4
    assert raised > 0.9 * len(content)


@ways
@pytest.mark.parametrize("content", [b"", bytes(100)], ids=["empty", "zeros"])
def test_what_is_no_archive_raises(content: bytes, way: Any) -> None:
    with pytest.raises(rarfile.BadRarFile, match="this is no RAR archive"):
        contents(load(content, way))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (rar4_of(file4("a", b"a"), file4("s", b"s", flags=ENCRYPTED)), "'s' is encrypted, and no password"),
        (b"Rar!\x1a\x07\x00" + block4(0x73, 0x80, bytes(6)) + bytes(64), "the names in the archive are encrypted"),
        (
            b"Rar!\x1a\x07\x01\x00" + block5(bytes([4, 0, 0, 0, 15]) + bytes(16)) + random.Random(0).randbytes(64),
            "the names in the archive are encrypted",
        ),
        (rar4_of(file4("a", b"a", flags=SPLIT_AFTER)), "the archive is one volume of several"),
        (rar4_of(file4("a", b"a", flags=SPLIT_BEFORE)), "the archive is one volume of several"),
        (rar4_of(file4("a", b"a"), end=block4(0x7B, 0x4001, b"")), "the archive is one volume of several"),
        (rar5_of(file5("a", b"a", flags=0x10)), "the archive is one volume of several"),
        (rar5_of(file5("a", b"a"), end=block5(bytes([5, 0, 1]))), "the archive is one volume of several"),
    ],
    ids=str.split("file names names-5 after before end after-5 end-5"),
)
def test_what_is_encrypted_or_in_parts_is_an_error(content: bytes, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        contents(load(content))


def test_a_compressed_file_without_a_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(rarfile, "CURRENT_SETUP", None)
    dp = load(rar4_of(file4("stored", b"s"), file4("packed", b"p", method=PACKED)))
    iterator = iter(dp)
    assert next(iterator)[1].read() == b"s"
    with pytest.raises(rarfile.RarCannotExec, match="'packed' is compressed, and there is no program here"):
        next(iterator)


@both
@pytest.mark.parametrize("name", ["/root", "../up", "a/../../up", "..", "C:\\drive"])
def test_a_name_that_leads_out_of_the_archive_is_an_error(pack: Any, name: str) -> None:
    with pytest.raises(ValueError, match="which is no name within it"):
        contents(load(pack({"good": b"g", name: b"evil"})))


# Length, resuming, and what is left out


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for number, pack in enumerate([rar4, rar5, rar4]):
        files = {f"{number}{letter}": f"{number}{letter}".encode() for letter in "abc"[: 3 - number % 2]}
        (tmp_path / f"{number}.rar").write_bytes(pack(files))
    return tmp_path


def test_the_rest_of_a_failing_archive_is_left_out(shards: Path) -> None:
    (shards / "1 cut.rar").write_bytes(rar4({"a": b"a"})[:-9])
    (shards / "1 secret.rar").write_bytes(rar4_of(file4("a", b"a"), file4("s", b"s", flags=ENCRYPTED)))

    def make() -> Any:
        return FileLister(str(shards)).open_files("b").load_from_rar(on_error="skip").read_from_stream()

    dp = make()
    assert [content for _, content in dp] == [b"0a", b"0b", b"0c", b"a", b"1a", b"1b", b"2a", b"2b", b"2c"]
    assert dp.stats()["load_from_rar"]["skipped"] == 2
    assert_resumes_everywhere(make, passes=2)
