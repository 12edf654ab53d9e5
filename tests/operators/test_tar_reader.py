from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from archives import tar_of
from fault_proxy import Fault, FaultProxy
from penstock.iter import IterableWrapper
from penstock.map import TarReader
from penstock.testing import check_operator
from s3 import S3Server

FILES = {f"d/{number}.{end}": f"{end}{number}".encode() * number for number in range(7) for end in ("TXT", "seg.png")}
BIG = {"big.bin": bytes(300_000), "big.cls": b"1"}


def two_tars(folder: Path) -> list[str]:
    names = list(FILES)
    folder.mkdir(exist_ok=True)
    (folder / "a.tar").write_bytes(tar_of({"README": b"about", **{name: FILES[name] for name in names[:8]}}, ""))
    long = {f"{'x' * 200}/1.txt": b"long"}
    (folder / "b.tar").write_bytes(tar_of({**{name: FILES[name] for name in names[8:]}, **BIG, **long}, ""))
    return [str(folder / name) for name in ("a.tar", "b.tar")]


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    return two_tars(tmp_path / "tars")


def in_order(urls: list[str]) -> list[dict[str, Any]]:
    tars = IterableWrapper(urls).open_files_by_fsspec("rb").load_from_tar()
    return list(tars.webdataset(with_url=True).routed_decode(only=[]))


def test_samples_are_those_that_are_read_in_order(urls: list[str]) -> None:
    dp: Any = TarReader(urls)
    samples = in_order(urls)
    assert len(dp) == len(samples) == 9
    assert [dp[number] for number in range(9)] == samples
    assert dp[-1] == dp[torch.tensor(8)] == dp[np.int64(8)] == samples[8]
    assert dp.__getitems__([8, 0, 3, 0]) == [samples[8], samples[0], samples[3], samples[0]]
    assert list(dp) == samples
    assert [*TarReader(urls, lower_case=False)[0]] == ["__key__", "__url__", ".TXT", ".seg.png"]
    assert len(TarReader([])) == 0


def test_only_the_files_of_a_sample_are_read(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dp = TarReader(urls)
    assert len(dp) == 9
    monkeypatch.setattr("penstock.pipes.map.tars._samples_in", None)  # the index is made once
    read: list[int] = []
    opened = TarReader._opened

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            read.append(size or 0)
            return super().read(size)

    monkeypatch.setattr(TarReader, "_opened", lambda self, url: Counted(opened(self, url).read()))
    assert dp[3]["__key__"] == "d/3"
    assert len(read) == 1
    assert read[0] < 2000


def test_the_index_is_made_once_for_several_samples(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    headers_of = TarReader._headers_of
    monkeypatch.setattr(TarReader, "_headers_of", lambda self, url: read.append(url) or headers_of(self, url))
    dp: Any = TarReader(urls)
    assert len(dp.__getitems__([*range(9)])) == len(dp) == 9
    assert sorted(read) == urls


def test_the_index_is_pickled_with_the_pipe(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dp = TarReader(urls)
    assert len(pickle.loads(pickle.dumps(dp))) == 9
    assert len(dp) == 9
    content = pickle.dumps(dp)
    monkeypatch.setattr("penstock.pipes.map.tars._samples_in", None)
    assert pickle.loads(content)[3] == dp[3]


def test_tars_in_a_store_are_read_by_ranges(s3_server: S3Server) -> None:
    folder = s3_server.root / "tars"
    two_tars(folder)
    urls = ["s3://tars/a.tar", "s3://tars/b.tar"]
    dp: Any = TarReader(urls)
    assert list(dp) == in_order(urls)
    assert dp.__getitems__([7, 2]) == [in_order(urls)[7], in_order(urls)[2]]
    assert pickle.loads(pickle.dumps(dp))[7][".bin"] == bytes(300_000)


def test_a_read_that_fails_is_tried_again(fault_proxy: FaultProxy, s3_server: S3Server) -> None:
    two_tars(s3_server.root / "tars")
    dp: Any = TarReader(["s3://tars/a.tar"], on_error=ps.Retry(3, backoff=0, errors=ConnectionError))
    fault_proxy.play(Fault("status", times=2))
    assert dp[1]["__key__"] == "d/1"
    assert dp.stats()["TarReader"]["retried"] == 4  # two for the size, and two for the content
    fault_proxy.play(Fault("status"))
    with pytest.raises(ConnectionError, match="s3://tars/a.tar"):
        dp[1]


def of(member: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("1.txt"))
        tar.addfile(member)
    return buffer.getvalue()


def member(name: str, kind: bytes, target: str = "1.txt") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (tar_of(FILES, "gz"), ValueError, "the file is gzip, of which no part can be read alone"),
        (tar_of(FILES, "xz"), ValueError, "the file is lzma"),
        (tar_of(FILES, "")[:2000], tarfile.ReadError, "."),
        (b"no tar at all" * 100, tarfile.ReadError, "."),
        (tar_of({"1.txt": b"", "1.TXT": b""}, ""), ValueError, "the sample '1' has two files '.txt'"),
        (tar_of({"../1.txt": b""}, ""), ValueError, "which is no name within it"),
        (of(member("2.txt", tarfile.LNKTYPE)), tarfile.ReadError, "'2.txt' is a hard link or a sparse file"),
    ],
)
def test_a_tar_that_cannot_be_read_by_index_is_an_error(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    dp = TarReader([str(tmp_path / "a.tar")])
    with pytest.raises(error, match=message) as caught:
        dp[0]
    assert f"while reading the headers of {tmp_path}/a.tar" in caught.value.__notes__[0]


def test_folders_belong_to_no_sample_and_links_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(of(member("./", tarfile.DIRTYPE)))
    assert list(TarReader([str(tmp_path / "a.tar")])) == in_order([str(tmp_path / "a.tar")])
    (tmp_path / "a.tar").write_bytes(of(member("2.txt", tarfile.SYMTYPE)))
    with pytest.warns(UserWarning, match=r"a link or special file is left out of .*a.tar: the first is '2.txt'"):
        assert [sample["__key__"] for sample in TarReader([str(tmp_path / "a.tar")])] == ["1"]


def test_a_tar_that_was_replaced_is_an_error(urls: list[str]) -> None:
    dp = TarReader(urls)
    assert len(dp) == 9
    Path(urls[1]).write_bytes(tar_of({"1.txt": b"other"}, ""))
    with pytest.raises(OSError, match=r"the tar was replaced since its index was made: '.*b.tar'"):
        dp[8]


def test_a_tar_that_was_replaced_by_one_of_the_same_size_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(before := tar_of({f"{key}.txt": b"a" * 600 for key in range(3)}, ""))
    dp = TarReader([str(path)])
    assert len(dp) == 3
    path.write_bytes(after := tar_of({f"{key}.txt": b"b" * 700 for key in range(3)}, ""))
    assert len(before) == len(after)
    for key in range(3):
        with pytest.raises(OSError, match="the tar was replaced since its index was made"):
            dp[key]


def test_an_index_beyond_the_end_is_an_error(urls: list[str]) -> None:
    with pytest.raises(IndexError, match="there are 9 samples, and index 9 is out of range"):
        TarReader(urls)[9]
    with pytest.raises(IndexError, match="index -10"):
        TarReader(urls).__getitems__([0, -10])


def test_it_holds_the_laws(urls: list[str]) -> None:
    check_operator(lambda: TarReader(urls))
