from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.map import ObjectReader
from penstock.testing import check_operator
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
def test_several_are_read_at_once_by_no_more_threads_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3, timeout=10)
    at_a_time, most = 0, 0
    counting = threading.Lock()
    attempt = ObjectReader._attempt

    def read(self: ObjectReader, url: str) -> bytes:
        nonlocal at_a_time, most
        with counting:
            at_a_time += 1
            most = max(at_a_time, most)
        together.wait()
        content = attempt(self, url)
        together.wait()
        with counting:
            at_a_time -= 1
        return content

    monkeypatch.setattr(ObjectReader, "_attempt", read)
    dp: Any = ObjectReader(URLS, workers=3)
    assert dp.__getitems__([5, 3, -1, 3, 0, 8]) == [b"55555", b"333", b"19" * 19, b"333", b"", b"88888888"]
    assert most == 3
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
    assert caught.value.__notes__ == [
        "penstock: raised in ObjectReader(['s3://objects/0', 's3://objects/1', 's3://objects/2', 's3://objects/3', "
        "… 20 in all]), on 3"
    ]


@pytest.mark.parametrize("index", [20, -21])
def test_an_index_beyond_is_an_error(index: int) -> None:
    dp: Any = ObjectReader(URLS)
    for read in (lambda: dp[index], lambda: dp.__getitems__([0, index])):
        with pytest.raises(IndexError, match=f"there are 20 objects, and index {index}"):
            read()


@pytest.mark.parametrize("urls", ["s3://objects/1", iter(URLS), {*URLS}])
def test_urls_that_are_no_sequence_are_refused(urls: Any) -> None:
    with pytest.raises(TypeError, match="urls must be a sequence of URLs, such as a list"):
        ObjectReader(urls)


def test_other_arguments_that_are_wrong_are_refused() -> None:
    with pytest.raises(ValueError, match="workers"):
        ObjectReader(URLS, workers=0)
    with pytest.raises(ValueError, match="cannot be left out"):
        ObjectReader(URLS, on_error="skip")
    with pytest.raises(TypeError, match="path must be a string"):
        ObjectReader([1])[0]  # type: ignore[list-item]


@pytest.mark.usefixtures("bucket")
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


@pytest.mark.usefixtures("bucket")
def test_options_go_before_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"key": "the-key", "secret": "the-secret"}
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    dp = ObjectReader(URLS, storage_options=options)
    assert dp[2] == b"22"
    assert "the-secret" not in repr(dp)
    with pytest.raises(PermissionError):
        ObjectReader(URLS)[2]


@pytest.mark.usefixtures("bucket")
def test_it_can_be_pickled_when_it_has_read() -> None:
    dp = ObjectReader(URLS)
    assert dp[1] == b"1"
    assert pickle.loads(pickle.dumps(dp))[2] == b"22"


def test_local_files_and_whatever_fsspec_speaks_are_read_too(tmp_path: Path) -> None:
    import fsspec

    (tmp_path / "a").write_bytes(b"one")
    fsspec.filesystem("memory").pipe("/objects/b", b"two")
    urls = [f"file://{tmp_path}/a", str(tmp_path / "a"), "memory://objects/b"]
    dp: Any = ObjectReader(urls)
    assert dp.__getitems__([0, 1, 2]) == [b"one", b"one", b"two"]


@pytest.mark.usefixtures("bucket")
def test_workers_of_torchs_loader_read() -> None:
    loader = DataLoader(
        ObjectReader(URLS),
        batch_size=5,
        shuffle=False,
        num_workers=2,
        collate_fn=list,
        multiprocessing_context="spawn",  # a fork server has the environment of the time when it was started
    )
    assert [content for batch in loader for content in batch] == [*CONTENTS.values()]


@pytest.mark.usefixtures("bucket")
def test_workers_of_our_loader_read() -> None:
    dp = ObjectReader(URLS).shuffle().set_seed(0).sharding_filter().batch(4)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        found = [content for batch in loader for content in batch]
    assert sorted(found) == sorted(CONTENTS.values())
    assert found != [*CONTENTS.values()]


@pytest.mark.usefixtures("bucket")
def test_it_holds_the_laws() -> None:
    check_operator(lambda: ObjectReader(URLS[:4]))
