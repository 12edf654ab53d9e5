from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.map import ObjectReader
from penstock.pipes.map.objects import NamedObject
from s3 import S3Server

CONTENTS = {f"s3://objects/{number}": b"%d" % number * number for number in range(20)}
URLS = [*CONTENTS]


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[Path]:
    folder = s3_server.root / "objects"
    folder.mkdir(exist_ok=True)
    for url, content in CONTENTS.items():
        (folder / url.rpartition("/")[2]).write_bytes(content)
    yield folder
    (folder / "3").unlink(missing_ok=True)


@pytest.mark.usefixtures("bucket")
def test_each_object_is_read_by_its_index() -> None:
    dp = ObjectReader(URLS)
    assert len(dp) == 20
    assert dp[0] == b""
    assert dp[7] == b"7777777"
    assert dp[-1] == dp[torch.tensor(19)] == b"19" * 19
    assert list(dp) == [*CONTENTS.values()]


@pytest.mark.usefixtures("bucket")
def test_several_are_read_at_once_by_as_many_threads_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    together, readers = threading.Barrier(3, timeout=10), set()
    attempt = ObjectReader._attempt

    def read(self: ObjectReader, url: str) -> bytes:
        readers.add(threading.get_ident())
        together.wait()
        return attempt(self, url)

    monkeypatch.setattr(ObjectReader, "_attempt", read)
    dp: Any = ObjectReader(URLS, workers=3)
    assert dp.__getitems__([5, 3, -1, 3, 0, 8]) == [b"55555", b"333", b"19" * 19, b"333", b"", b"88888888"]
    assert len(readers) == 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-objects")]
    assert dp.__getitems__([]) == []


@pytest.mark.usefixtures("bucket")
def test_steps_behind_it_ask_for_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    fetch = ObjectReader._fetch
    monkeypatch.setattr(ObjectReader, "_fetch", lambda self, indices: asked.append(indices) or fetch(self, indices))
    dp: Any = ObjectReader(URLS).map(len)
    assert dp.__getitems__([2, 1]) == [2, 1]
    assert asked == [[2, 1]]


@pytest.mark.parametrize("several", [False, True])
def test_an_object_that_there_is_not_is_an_error_that_names_it(bucket: Path, several: bool) -> None:
    (bucket / "3").unlink()
    dp: Any = ObjectReader(URLS)
    with pytest.raises(FileNotFoundError, match="s3://objects/3") as caught:
        dp.__getitems__([1, 3, 2]) if several else dp[3]
    [note] = caught.value.__notes__
    assert note.endswith("… 20 in all]), on 3")


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: ObjectReader("s3://objects/1"), TypeError, "urls must be a sequence of URLs"),
        (lambda: ObjectReader(URLS, workers=0), ValueError, "workers"),
        (lambda: ObjectReader(URLS, on_error="skip"), ValueError, "cannot be left out"),
        (lambda: ObjectReader([1])[0], TypeError, "path must be a string"),  # type: ignore[list-item]
        (lambda: ObjectReader(URLS)[20], IndexError, "there are 20 objects, and index 20"),
        (lambda: ObjectReader(URLS).__getitems__([0, -21]), IndexError, "index -21"),
    ],
)
def test_wrong_arguments_and_indices_are_errors(use: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use()


@pytest.mark.usefixtures("bucket")
@pytest.mark.usefixtures("bucket")
def test_an_item_has_the_name_of_its_object() -> None:
    dp = ObjectReader(URLS, with_name=True)
    assert (dp[3].bucket, dp[3].key, dp[3].url, dp[3].content) == ("objects", "3", "s3://objects/3", b"333")
    items = next(iter(dp.batch(3)))
    assert [(item.key, item.content) for item in items] == [("0", b""), ("1", b"1"), ("2", b"22")]
    assert pickle.loads(pickle.dumps(items)) == items
    with ps.DataLoader2(dp.to_iter_datapipe(), reading_service=ps.MultiProcessingReadingService(0)) as loader:
        assert [item.key for item in loader] == [str(number) for number in range(20)]


def test_an_item_with_a_name_is_decoded_by_its_extension(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.txt", "b.json")]
    for path in paths:
        Path(path).write_bytes(b"12")
    assert [*ObjectReader(paths, with_name=True).to_iter_datapipe().routed_decode()] == [
        (paths[0], "12"), (paths[1], 12)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "bucket", "key"),
    [
        ("s3a://anonymous@b/folder//a", "b", "folder//a"),
        ("gs://b/a b.txt", "b", "a b.txt"),
        ("https://host/folder/a", "host", "folder/a"),
        ("/folder/a", "", "/folder/a"),
        ("zip://a.txt::s3://b/c.zip", "", "zip://a.txt::s3://b/c.zip"),
    ],
)
def test_the_name_of_an_object_has_the_parts_of_its_address(url: str, bucket: str, key: str) -> None:
    item = NamedObject(url, b"")
    assert (item.bucket, item.key, tuple(item)) == (bucket, key, (url, b""))


def test_what_fails_for_a_while_is_tried_again_and_counted(fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("status", times=2))
    dp: Any = ObjectReader(URLS, on_error=ps.Retry(2, backoff=0, errors=ConnectionError))
    assert dp.__getitems__([4, 5]) == [b"4444", b"55555"]
    assert dp.stats()["ObjectReader"]["retried"] == 4
    fault_proxy.play(Fault("reset", times=1))
    assert ObjectReader(URLS)[6] == b"666666"
    fault_proxy.play(Fault("status"))
    with pytest.raises(ConnectionError, match="SlowDown.*s3://objects/7"):
        dp[7]


def test_local_files_and_whatever_fsspec_speaks_are_read_too(tmp_path: Path) -> None:
    import fsspec

    (tmp_path / "a").write_bytes(b"one")
    fsspec.filesystem("memory").pipe("/objects/b", b"two")
    urls = [f"file://{tmp_path}/a", str(tmp_path / "a"), "memory://objects/b"]
    dp: Any = ObjectReader(urls)
    assert dp.__getitems__([0, 1, 2]) == [b"one", b"one", b"two"]
