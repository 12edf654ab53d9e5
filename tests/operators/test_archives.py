from __future__ import annotations

import io
import lzma
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from archives import tar_of
from forwards import Forwards
from penstock.pipes.files import members
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import NEVER, assert_resumes_everywhere

LONG = "folder/" + "n" * 120 + ".bin"
FILES = {"a.txt": b"first", LONG: random.Random(0).randbytes(700), "empty": b"", "z.txt": b"last" * 128}
PATHS = [("pack/" + name, content) for name, content in FILES.items()]


def tar(files: dict[str, bytes] = FILES, compression: str = "", **options: Any) -> bytes:
    return tar_of(files, compression, **options)


def header(name: str, **attributes: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


def tar_with(*headers: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as pack:
        for each in headers:
            pack.addfile(each, io.BytesIO(bytes(each.size)))
    return buffer.getvalue()


def zipped(files: dict[str, bytes] = FILES, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        for name, content in files.items():
            pack.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def loading(kind: str, items: list[Any], **arguments: Any) -> Any:
    return getattr(IterableWrapper(items, deepcopy=False), f"load_from_{kind}")(**arguments)


def load(kind: str, content: bytes, way: Callable[[bytes], Any] = io.BytesIO, **arguments: Any) -> Any:
    return loading(kind, [("pack", way(content))], **arguments)


def contents(dp: Any) -> list[tuple[str, bytes]]:
    return [(path, stream.read()) for path, stream in dp]


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be large from 101 bytes on."""
    monkeypatch.setattr(members, "LARGE", 100)


both = pytest.mark.parametrize(("kind", "pack"), [("tar", tar), ("zip", zipped)], ids=["tar", "zip"])
ways = pytest.mark.parametrize("way", [io.BytesIO, Forwards], ids=["seekable", "forwards"])


# What comes out


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
@pytest.mark.parametrize("mode", ["r", "r:*", "r|*", "r:{}", "r|{}"])
@ways
def test_each_compression_and_mode_is_read(compression: str, mode: str, way: Any) -> None:
    assert contents(load("tar", tar(compression=compression), way, mode=mode.format(compression))) == PATHS


@ways
def test_the_older_format_of_lzma_is_found_by_its_beginning(way: Any) -> None:
    assert contents(load("tar", lzma.compress(tar(), format=lzma.FORMAT_ALONE), way)) == PATHS


@both
def test_archives_follow_one_another_and_their_urls_stay_as_they_are(kind: str, pack: Any) -> None:
    urls = ("s3://bucket/one", "./two", "a/../three")
    dp = loading(kind, [(url, io.BytesIO(pack({"./in//a.txt": b"a"}))) for url in urls])
    assert contents(dp) == [(f"{url}/in/a.txt", b"a") for url in urls]


def test_a_tar_gives_its_files_and_hard_links() -> None:
    pack = tar_with(
        header("folder", type=tarfile.DIRTYPE),
        header("folder/file", size=3),
        header("symbolic", type=tarfile.SYMTYPE, linkname="folder/file"),
        header("outside", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        header("hard", type=tarfile.LNKTYPE, linkname="folder/file"),
        header("hard to hard", type=tarfile.LNKTYPE, linkname="hard"),
        header("queue", type=tarfile.FIFOTYPE),
        header("device", type=tarfile.CHRTYPE),
        header("after", size=1),
    )
    names = ["folder/file", "hard", "hard to hard"]
    with pytest.warns(UserWarning, match="4 links or special files are left out .*: the first is 'symbolic' to 'fold"):
        found = contents(load("tar", pack))
    assert found == [*((f"pack/{name}", bytes(3)) for name in names), ("pack/after", bytes(1))]


@pytest.mark.parametrize(
    ("target", "way", "text"),
    [
        ("nowhere", io.BytesIO, "'hard' is a hard link to 'nowhere', and no such file comes before it"),
        ("file", Forwards, "'hard' is a hard link to 'file', and the archive cannot seek back to that"),
    ],
)
def test_a_hard_link_without_its_file_is_an_error(target: str, way: Any, text: str) -> None:
    pack = tar_with(header("file", size=3), header("hard", type=tarfile.LNKTYPE, linkname=target))
    with pytest.raises(tarfile.ReadError, match=text):
        contents(load("tar", pack, way))


def test_a_zip_gives_its_files_and_links_as_files() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        pack.writestr("folder/", b"")
        pack.writestr("file", b"content")
        link = zipfile.ZipInfo("link")  # one wrong bit makes a file a link
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        pack.writestr(link, "/etc/passwd")
    assert contents(load("zip", buffer.getvalue())) == [("pack/file", b"content"), ("pack/link", b"/etc/passwd")]


# Streams that are read late


@both
@ways
def test_files_can_be_read_in_any_order_after_the_archive_has_moved_on(kind: str, pack: Any, way: Any) -> None:
    held = list(load(kind, pack(), way))
    assert [(path, stream.read()) for path, stream in reversed(held)] == PATHS[::-1]


@pytest.mark.parametrize(("kind", "content"), [("tar", tar()), ("tar", tar(compression="gz")), ("zip", zipped())])
@pytest.mark.usefixtures("small_is_large")
def test_large_files_too_where_the_archive_can_seek(kind: str, content: bytes) -> None:
    held = list(load(kind, content))
    for (path, stream), expected in reversed([*zip(held, PATHS, strict=True)]):
        assert (path, stream.read(10), stream.read()) == (expected[0], expected[1][:10], expected[1][10:])
        assert stream.seek(2) == 2
        assert stream.read() == expected[1][2:]


@pytest.mark.usefixtures("small_is_large")
def test_a_large_file_of_a_tar_that_cannot_seek_is_read_in_its_turn_or_not_at_all() -> None:
    assert contents(load("tar", tar(), Forwards)) == PATHS
    (_, first), (_, large), *_ = load("tar", tar(), Forwards)
    assert first.read() == b"first"
    assert not large.seekable()
    with pytest.raises(io.UnsupportedOperation):
        large.seek(0)
    with pytest.raises(tarfile.StreamError, match="the archive cannot seek, and has moved past this file"):
        large.read()


@pytest.mark.usefixtures("small_is_large")
def test_a_large_file_is_not_read_before_it_is_asked_for() -> None:
    stream = io.BytesIO(tar({"large": bytes(10**6), "small": b"s"}))
    iterator = iter(loading("tar", [("pack", stream)]))
    _, large = next(iterator)
    assert stream.tell() < 10**5
    assert next(iterator)[1].read() == b"s"
    assert large.read(7) == bytes(7)


@both
@pytest.mark.usefixtures("small_is_large")
def test_an_archive_is_closed_when_it_was_read_and_no_large_file_of_it_is_held(kind: str, pack: Any) -> None:
    stream = io.BytesIO(pack())
    held = [file for _, file in loading(kind, [("pack", stream)])]
    held[1].close()
    assert not stream.closed
    del held
    assert stream.closed


@both
def test_archives_that_are_read_past_on_resuming_are_closed(
    kind: str, pack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Throttle, "step", NEVER)

    def loaded() -> tuple[list[io.BytesIO], Any]:
        packs = [io.BytesIO(pack()) for _ in range(3)]
        return packs, loading(kind, [(str(number), each) for number, each in enumerate(packs)])

    _, dp = loaded()
    assert len(list(islice(dp, 5))) == 5
    packs, resumed = loaded()
    resumed.load_state_dict(dp.state_dict())
    iterator = iter(resumed)
    assert next(iterator)[0] == f"1/{LONG}"
    assert packs[0].closed
    assert not packs[2].closed


@both
@pytest.mark.parametrize("taken", [1, 9])
def test_an_archive_is_closed_at_its_end_and_when_reading_is_given_up(kind: str, pack: Any, taken: int) -> None:
    stream = io.BytesIO(pack())
    iterator = iter(loading(kind, [("pack", stream)]))
    held = list(islice(iterator, taken))
    iterator.close()
    assert stream.closed
    assert held[0][1].read() == b"first"


# Archives that are cut, corrupt, or not to be trusted


def outcome(dp: Any) -> tuple[list[tuple[str, bytes]], Exception | None]:
    """What comes out, and the error that ends it."""
    seen = []
    try:
        for path, stream in dp:
            seen.append((path, stream.read()))
    except Exception as error:
        return seen, error
    return seen, None


LAYOUTS = {"pax": tar(), "gnu": tar(format=tarfile.GNU_FORMAT)}


def end_of_files(content: bytes) -> int:
    """Where, in a tar, its last file ends."""
    with tarfile.open(fileobj=io.BytesIO(content)) as pack:
        return pack.getmembers()[-1].offset_data + -(-len(FILES["z.txt"]) // 512) * 512


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("large", [16 * 2**20, 100], ids=["in memory", "large"])
@ways
def test_a_cut_tar_raises_or_gives_all_its_files(
    content: bytes, large: int, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "LARGE", large)
    blocks = range(0, len(content), 512)
    for cut in sorted({near for at in blocks for near in (at - 1, at, at + 1, at + 300) if near >= 0}):
        seen, error = outcome(load("tar", content[:cut], way))
        assert error is None or isinstance(error, tarfile.ReadError), f"cut at {cut} of {len(content)}: {error!r}"
        assert (error is None) == (cut >= end_of_files(content) + 512), f"cut at {cut} of {len(content)}"
        assert seen == (PATHS if error is None else PATHS[: len(seen)]), f"cut at {cut} of {len(content)}"


@ways
def test_a_corrupt_header_in_the_midst_of_a_tar_is_an_error(way: Any) -> None:
    content = bytearray(tar({"a": b"a", "b": b"b", "c": b"c"}))
    content[1024 + 3] ^= 0xFF
    with pytest.raises(tarfile.ReadError, match="the archive is cut or corrupt: bad checksum at byte 1024"):
        contents(load("tar", bytes(content), way))


@pytest.mark.parametrize("content", [tar()[:3000], tar(compression="gz")[:-20]], ids=["tar", "tar.gz"])
def test_an_error_names_the_archive_and_closes_it(content: bytes) -> None:
    stream = io.BytesIO(content)
    with pytest.raises(tarfile.ReadError) as caught:
        list(loading("tar", [("a/1.tar", stream)]))
    assert "'a/1.tar'" in "".join(caught.value.__notes__)
    assert stream.closed  # though the error is held


@ways
def test_a_cut_zip_raises(way: Any) -> None:
    content = zipped()
    for cut in [*range(0, len(content), 20), *range(len(content) - 60, len(content))]:
        with pytest.raises(zipfile.BadZipFile):
            contents(load("zip", content[:cut], way))


def test_a_zip_among_tars_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", b"a")
    with pytest.raises(tarfile.ReadError, match="the archive is a zip, and no tar: load_from_zip reads it"):
        list(IterableWrapper([str(path)]).open_files("rb").load_from_tar())


def test_an_encrypted_zip_raises() -> None:
    content = bytearray(zipped({"secret": b"content"}))
    content[6] |= 1  # in the file's own header, and in the archive's directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(RuntimeError, match="'secret' is encrypted, and no password can be given"):
        contents(load("zip", bytes(content)))


@pytest.mark.parametrize("content", [b"", b"no archive at all", bytes(100)])
@ways
def test_what_is_no_archive_raises(content: bytes, way: Any) -> None:
    with pytest.raises(tarfile.ReadError):
        contents(load("tar", content, way))
    with pytest.raises(zipfile.BadZipFile):
        contents(load("zip", content, way))


@both
@pytest.mark.parametrize(
    "name",
    ["/root", "../up", "a/../../up", "a/..", "..", "C:\\drive", "c:drive", "\\root", "\\\\host\\share", "..\\up", "."],
)
def test_a_name_that_leads_out_of_the_archive_is_an_error(kind: str, pack: Any, name: str) -> None:
    dp = load(kind, pack({"good": b"g", name: b"evil"}))
    with pytest.raises(ValueError, match="which is no name within it") as caught:
        contents(dp)
    assert repr(name) in str(caught.value)
    assert "'pack'" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("name", ["..a/b..", "ab:c/d e", "...", "a\\b", "~/x", "\udcff"])
def test_an_odd_name_is_none_that_leads_out(name: str) -> None:
    assert contents(load("tar", tar({name: b"x"}))) == [(f"pack/{name}", b"x")]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_what_is_no_pair_of_path_and_stream_of_bytes_is_an_error(kind: str) -> None:
    for content, text in ((io.StringIO("text"), "open as text.*mode='rb'"), (b"bytes", "with the path comes a bytes")):
        with pytest.raises(TypeError, match=text):
            contents(loading(kind, [("pack", content)]))


# Arguments and resuming


def test_resuming_does_not_read_again_what_was_handed_out(tmp_path: Path) -> None:
    content = zipped({name: name.encode() * 50 for name in "abc"}, zipfile.ZIP_STORED)
    path = tmp_path / "pack.zip"

    def make() -> Any:
        return IterableWrapper([str(path)]).open_files("b").load_from_zip().read_from_stream()

    path.write_bytes(content)
    dp = make()
    iterator = iter(dp)
    assert [next(iterator)[1][:1], next(iterator)[1][:1]] == [b"a", b"b"]
    path.write_bytes(content.replace(b"a" * 50, b"x" * 50))  # reading that would raise for its checksum
    resumed = make()
    resumed.load_state_dict(dp.state_dict())
    assert [content[:1] for _, content in resumed] == [b"c"]


# What becomes of an archive that fails


@both
@pytest.mark.parametrize("as_error", ["cut", "evil"])
def test_what_is_left_of_an_archive_that_fails_can_be_left_out(kind: str, pack: Any, as_error: str) -> None:
    good = pack({name: name.encode() for name in "ab"})
    if as_error == "evil":
        bad, before = pack({"x": b"x", "../up": b"evil", "y": b"y"}), [b"x"]
    elif kind == "tar":
        bad, before = good[:1024], [b"a"]
    else:
        bad, before = good[:-4], []

    def make() -> Any:
        archives = [good, bad, good, bad, b"no archive"]
        source = IterableWrapper([(str(number), io.BytesIO(each)) for number, each in enumerate(archives)])
        return getattr(source, f"load_from_{kind}")(on_error="skip").read_from_stream()

    dp = make()
    assert [content for _, content in dp] == [b"a", b"b", *before, b"a", b"b", *before]
    stats = dp.stats()[f"load_from_{kind}"]
    assert stats["skipped"] == 3
    assert "'1'" in stats["last_errors"][0]
    assert_resumes_everywhere(make, passes=2)


@both
def test_an_archive_that_is_left_out_is_closed(kind: str, pack: Any) -> None:
    streams = [io.BytesIO(b"no archive"), io.BytesIO(pack({"../up": b"evil"}))]
    assert loading(kind, [("pack", stream) for stream in streams], on_error="skip").count() == 0
    assert [stream.closed for stream in streams] == [True, True]
