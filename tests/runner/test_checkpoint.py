from __future__ import annotations

import errno
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile
from argparse import Namespace
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from botocore.client import BaseClient  # type: ignore[import-untyped]

from penstock import checkpoint
from penstock.checkpoint import StorageReader, StorageWriter, files, sharded, states
from ranks import run_ranks
from s3 import S3Server

MIB = 2**20


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    (s3_server.root / "bucket").mkdir(exist_ok=True)
    return "s3://bucket"


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty folder, or of what is not there until something is in it."""
    url = {"local": str(tmp_path / "new"), "memory": "memory://checkpoints", "s3": "s3://bucket/" + tmp_path.name}[
        request.param
    ]
    if request.param == "s3":
        request.getfixturevalue("bucket")
    yield url
    if request.param == "memory":
        fsspec.filesystem("memory").rm("/checkpoints", recursive=True)


def model_and_optimizer(seed: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def run(code: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50)


# States go out and come back


def test_states_come_back_into_objects_of_another_run(folder: str) -> None:
    model, optimizer = model_and_optimizer(0)
    checkpoint.save(f"{folder}/deep/er/last.pt", model=model, optimizer=optimizer, step=7)
    another, its_optimizer = model_and_optimizer(1)
    assert not same(another.state_dict(), model.state_dict())
    states = checkpoint.load(f"{folder}/deep/er/last.pt", model=another, optimizer=its_optimizer)
    assert same(another.state_dict(), model.state_dict())
    assert same(its_optimizer.state_dict(), optimizer.state_dict())
    assert list(states) == ["model", "optimizer", "step"]
    assert states["step"] == 7


def test_a_checkpoint_is_replaced(folder: str) -> None:
    for step in range(2):
        checkpoint.save(f"{folder}/last.pt", step=step, weight=torch.full((10 * MIB,), step, dtype=torch.uint8))
    assert checkpoint.load(f"{folder}/last.pt")["step"] == 1
    assert [path.rpartition("/")[2] for path in fsspec.url_to_fs(folder)[0].ls(folder, detail=False)] == ["last.pt"]


def test_tensors_of_many_pieces_come_back(folder: str) -> None:
    tensors = {"large": torch.arange(5 * MIB), "small": torch.arange(3), "part": torch.arange(10)[2:7]}
    checkpoint.save(f"{folder}/large.pt", tensors=tensors)
    assert same(checkpoint.load(f"{folder}/large.pt")["tensors"], tensors)


def test_plain_data_comes_back_as_it_is(tmp_path: Path) -> None:
    plain = {
        "nothing": b"",
        "bytes": b"\0\xff",
        "numbers": [0, -1, 2**63, 10**40, 0.5, float("inf"), 1j, True, None],
        "nested": [(1, ("é",)), {1, 2}, {3: {(4, 5): []}}, OrderedDict(a=1)],
        "of torch": [torch.float16, torch.device("cpu"), torch.Size([2])],
    }
    checkpoint.save(tmp_path / "plain.pt", plain=plain)
    loaded = checkpoint.load(tmp_path / "plain.pt")["plain"]
    assert loaded == plain
    assert repr(loaded) == repr(plain)


def test_the_file_is_one_of_torch_save(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "ours.pt", weight=torch.ones(2))
    assert same(torch.load(tmp_path / "ours.pt", weights_only=True), {"weight": torch.ones(2)})
    torch.save({"weight": torch.zeros(2)}, tmp_path / "theirs.pt")
    assert same(checkpoint.load(tmp_path / "theirs.pt"), {"weight": torch.zeros(2)})


def test_the_states_in_objects_of_a_store_need_its_options(tmp_path: Path, s3_server: S3Server) -> None:
    (s3_server.root / "bucket").mkdir(exist_ok=True)
    options = {"key": "another", "secret": "one"}
    with pytest.raises(PermissionError):
        checkpoint.save("s3://bucket/no.pt", step=1, storage_options=options)
    checkpoint.save("s3://bucket/yes.pt", step=1)
    with pytest.raises(PermissionError):
        checkpoint.load("s3://bucket/yes.pt", storage_options=options)


def test_map_location_says_where_tensors_come_to(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last.pt", weight=torch.ones(2), elsewhere=torch.ones(2, device="meta"))
    assert checkpoint.load(tmp_path / "last.pt")["weight"].device.type == "cpu"
    assert checkpoint.load(tmp_path / "last.pt", map_location="meta")["weight"].device.type == "meta"
    assert checkpoint.load(tmp_path / "last.pt", map_location=None)["elsewhere"].device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_tensors_of_a_device_come_to_the_cpu_and_into_objects_on_the_device(tmp_path: Path) -> None:
    model, optimizer = model_and_optimizer()
    model.to("cuda")
    on_device = torch.optim.Adam(model.parameters())
    on_device.load_state_dict(optimizer.state_dict())
    checkpoint.save(tmp_path / "last.pt", model=model, optimizer=on_device)
    another, _ = model_and_optimizer(1)
    another.to("cuda")
    its_optimizer = torch.optim.Adam(another.parameters())
    states = checkpoint.load(tmp_path / "last.pt", model=another, optimizer=its_optimizer)
    assert {value.device.type for value in states["model"].values()} == {"cpu"}
    assert checkpoint.load(tmp_path / "last.pt", map_location=None)["model"]["0.weight"].is_cuda
    assert same(another.state_dict(), model.state_dict())
    assert its_optimizer.state_dict()["state"][0]["exp_avg"].is_cuda


# What cannot be saved


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"lr": [1, np.float64(0.1)]}, r"arguments\['lr'\]\[1\] is of type numpy.float64"),
        ({"x": Namespace(a=1)}, r"arguments\['x'\] is of type argparse.Namespace"),
        (defaultdict(int), r"arguments is of type collections.defaultdict"),
        ([np.zeros(2)], r"arguments\[0\] is of type numpy.ndarray"),
        ({"f": lambda: 1}, r"arguments\['f'\] is of type builtins.function"),
        ({np.int64(3): 1}, r"arguments\[(np.int64\(3\)|3)\] is of type numpy.int64"),
    ],
)
def test_what_could_not_be_loaded_is_refused_before_anything_is_written(
    tmp_path: Path, value: object, said: str
) -> None:
    checkpoint.save(tmp_path / "last.pt", step=1)
    with pytest.raises(TypeError, match=said):
        checkpoint.save(tmp_path / "last.pt", step=2, arguments=value)
    assert checkpoint.load(tmp_path / "last.pt") == {"step": 1}


def test_a_type_that_was_allowed_is_saved(tmp_path: Path) -> None:
    with torch.serialization.safe_globals([Namespace]):
        checkpoint.save(tmp_path / "last.pt", arguments=Namespace(a=1))
        assert checkpoint.load(tmp_path / "last.pt")["arguments"] == Namespace(a=1)


def test_nothing_to_save_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="nothing to save"):
        checkpoint.save(tmp_path / "last.pt")
    assert not (tmp_path / "last.pt").exists()


# What cannot be loaded


def test_a_name_that_is_missing_is_an_error_before_anything_is_loaded(folder: str) -> None:
    checkpoint.save(f"{folder}/last.pt", model=model_and_optimizer(0)[0], step=1)
    model, optimizer = model_and_optimizer(1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(LookupError, match=rf"checkpoint {folder}/last.pt has no 'optimizer': it has 'model', 'step'"):
        checkpoint.load(f"{folder}/last.pt", model=model, optimizer=optimizer)
    assert same(model.state_dict(), before)


def test_an_object_that_takes_no_state_is_an_error(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last.pt", step=1)
    with pytest.raises(TypeError, match=r"'step' has no load_state_dict, as it is of type int.*load\(url\)\['step'\]"):
        checkpoint.load(tmp_path / "last.pt", step=0)


def test_a_state_that_does_not_fit_is_an_error_that_names_it(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last.pt", model=model_and_optimizer()[0])
    with pytest.raises(RuntimeError, match="Missing key") as caught:
        checkpoint.load(tmp_path / "last.pt", model=torch.nn.Bilinear(1, 1, 1))
    assert caught.value.__notes__ == [f"when the state 'model' of the checkpoint {tmp_path}/last.pt was loaded"]


def test_a_checkpoint_that_is_not_there_is_an_error_that_names_it(folder: str) -> None:
    checkpoint.save(f"{folder}/last.pt", step=1)
    with pytest.raises(FileNotFoundError, match="first.pt"):
        checkpoint.load(f"{folder}/first.pt")


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "text")
    return buffer.getvalue()


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a checkpoint"),
        (b"PK", "is not a checkpoint"),
        (b"step: 1\n" * 100, "is not a checkpoint"),
        (pickle.dumps({"step": 1}, protocol=2), "is not a checkpoint"),
        (zipped(), "is not a checkpoint"),
        (saved(torch.ones(2)), "is not a checkpoint of states by name: it holds a Tensor"),
        (saved({1: 2}), "is not a checkpoint of states by name"),
    ],
    ids=["empty", "two bytes", "text", "pickle", "zip", "tensor", "numbered"],
)
def test_what_is_not_a_checkpoint_is_an_error_that_names_it(folder: str, content: bytes, said: str) -> None:
    with fsspec.open(f"{folder}/other.pt", "wb", auto_mkdir=True) as file:
        file.write(content)
    with pytest.raises(ValueError, match=f"{folder}/other.pt {said}"):
        checkpoint.load(f"{folder}/other.pt")


def test_a_checkpoint_that_was_cut_is_an_error_that_names_it(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last.pt", weight=torch.arange(1000))
    content = (tmp_path / "last.pt").read_bytes()
    for length in (4, 5, 100, len(content) // 2, len(content) - 30, len(content) - 1):
        (tmp_path / "cut.pt").write_bytes(content[:length])
        with pytest.raises(ValueError, match=f"{tmp_path}/cut.pt was cut"):
            checkpoint.load(tmp_path / "cut.pt")


def test_a_part_that_is_marked_as_a_folder_is_an_error(tmp_path: Path) -> None:
    """Torch reads nothing for such a part, and leaves the memory of its tensor as it was."""
    path = tmp_path / "c.pt"
    checkpoint.save(path, model=torch.nn.Linear(2, 2))
    content = path.read_bytes()
    entries = [found.start() for found in re.finditer(b"PK\1\2", content)]
    assert len(entries) > 3
    for entry in entries:
        damaged = bytearray(content)
        damaged[entry + 38] ^= 0x10  # the external attributes
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="c.pt is corrupt: .* is marked as a folder"):
            checkpoint.load(path)


def test_a_checkpoint_is_verified_while_it_is_read_and_not_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(io.BytesIO):
        read_in_all = 0

        def readinto(self, buffer: Any) -> int:
            count = super().readinto(buffer)
            Counting.read_in_all += count
            return count

        def read(self, size: int | None = -1) -> bytes:
            content = super().read(size)
            Counting.read_in_all += len(content)
            return content

    content = bytearray(saved({"weight": torch.zeros(2 * MIB)}))
    monkeypatch.setattr(states, "open_to_seek", lambda url, options: Counting(content))
    assert same(checkpoint.load("anywhere.pt"), {"weight": torch.zeros(2 * MIB)})
    assert Counting.read_in_all < 1.1 * len(content)
    content[len(content) // 2] ^= 1
    with pytest.raises(ValueError, match="anywhere.pt is corrupt: .*/data/0'"):
        checkpoint.load("anywhere.pt")


class Harmful:
    def __reduce__(self) -> Any:
        return print, ("harm",)


def test_nothing_but_tensors_and_plain_data_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"step": Harmful()}, tmp_path / "last.pt")
    with pytest.raises(pickle.UnpicklingError, match="print") as caught:
        checkpoint.load(tmp_path / "last.pt")
    assert caught.value.__notes__ == [f"when the checkpoint {tmp_path}/last.pt was read"]
    assert capsys.readouterr().out == ""


# What fails while it is written


def test_a_disk_that_is_full_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    code = """
        import resource, sys, torch
        from penstock import checkpoint
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
        try:
            checkpoint.save(sys.argv[1], step=2, weight=torch.ones(2**20))
        except OSError as error:
            print(type(error), error)
        """
    url = tmp_path / "checkpoints" / "last.pt"
    checkpoint.save(url, step=1)
    result = run(code, url, folder=tmp_path)
    assert "File too large" in result.stdout, result.stderr
    assert [path.name for path in url.parent.iterdir()] == ["last.pt"]
    assert checkpoint.load(url) == {"step": 1}


def test_a_disk_that_is_full_when_it_is_synced_is_named_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/last.pt'"):
        checkpoint.save(tmp_path / "last.pt", step=1)
    assert not any(tmp_path.iterdir())


def test_a_local_checkpoint_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, (tmp_path / "last.pt").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    checkpoint.save(tmp_path / "last.pt", weight=torch.arange(1000))
    assert synced == [((tmp_path / "last.pt").stat().st_size, False)]


def unfinished(bucket: str) -> list[str]:
    answer = fsspec.filesystem("s3").call_s3("list_multipart_uploads", Bucket=bucket)
    return [upload["Key"] for upload in answer.get("Uploads", ())]


def test_an_upload_that_fails_is_taken_back_and_leaves_the_earlier_checkpoint(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PART", 8 * MIB)
    checkpoint.save(f"{bucket}/kept/last.pt", step=1)
    original = BaseClient._make_api_call
    parts = []

    def fail_at_the_third_part(self: Any, method: str, arguments: Any) -> Any:
        if method == "UploadPart":
            parts.append(arguments["PartNumber"])
            if parts[-1] == 3:
                assert unfinished("bucket") != []
                raise ConnectionError("the network is down")
        return original(self, method, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", fail_at_the_third_part)
    with pytest.raises(ConnectionError, match="the network is down"):
        checkpoint.save(f"{bucket}/kept/last.pt", step=2, weight=torch.ones(10 * MIB))
    assert {1, 2, 3} <= {*parts}
    assert parts.count(3) == 6
    assert unfinished("bucket") == []
    assert checkpoint.load(f"{bucket}/kept/last.pt") == {"step": 1}
    with pytest.raises(ConnectionError):
        checkpoint.save(f"{bucket}/kept/new.pt", step=2, weight=torch.ones(10 * MIB))
    assert fsspec.filesystem("s3").ls("bucket/kept", refresh=True) == ["bucket/kept/last.pt"]


@pytest.mark.parametrize("place", ["local", "s3"])
def test_a_process_that_is_killed_leaves_the_earlier_checkpoint(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    code = """
        import os, signal, sys, torch
        from penstock import checkpoint
        from penstock.checkpoint.files import _Pieces
        write = _Pieces.write
        def write_until_killed(self, data):
            if self.tell() > 80 * 2**20:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(self, data)
        _Pieces.write = write_until_killed
        checkpoint.save(sys.argv[1], step=2, weights=[torch.ones(2**20) for _ in range(30)])
        """
    url = str(tmp_path / "killed.pt") if place == "local" else request.getfixturevalue("bucket") + "/killed.pt"
    for before in (False, True):
        assert run(code, url, folder=tmp_path).returncode == -signal.SIGKILL
        if before:
            assert checkpoint.load(url) == {"step": 1}
        else:
            with pytest.raises(FileNotFoundError):
                checkpoint.load(url)
            checkpoint.save(url, step=1)


def test_the_memory_that_it_takes_does_not_grow_with_the_states(bucket: str, tmp_path: Path) -> None:
    code = """
        import resource, sys, torch
        from penstock import checkpoint
        unit = 1 if sys.platform == "darwin" else 1024
        states = [torch.ones(100 * 2**20), torch.ones(2)]
        checkpoint.save(sys.argv[1] + "/small.pt", state=states[1])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        checkpoint.save(sys.argv[1] + "/large.pt", state=states)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
        """
    result = run(code, bucket, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 250 * MIB  # of 400


# Training goes on

TRAINING = """
    import json, sys, torch
    import penstock as ps
    from penstock import checkpoint

    def main(url, first, last):
        dp = (
            ps.iter.IterableWrapper(range(120)).shuffle(buffer_size=50).sharding_filter()
            .map(lambda n: (torch.tensor([n / 120, 1.0]) + torch.rand(2) / 10, torch.tensor([n % 7.0])))
            .batch(5).collate()
        )
        torch.manual_seed(first)  # of another run
        model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
        with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
            parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
            if first:
                step = checkpoint.load(url, **parts)["step"]
                assert step == first
            else:
                loader.seed(5)
                step = 0
            while step < last:
                for inputs, targets in loader:
                    loss = torch.nn.functional.mse_loss(model(inputs), targets)
                    optimizer.zero_grad(); loss.backward(); optimizer.step(); schedule.step()
                    step += 1
                    print(json.dumps([step, inputs.tolist(), targets.tolist(), loss.item()]))
                    if step == 31:
                        checkpoint.save(url, step=step, **parts)
                    if step == last:
                        break

    if __name__ == "__main__":
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    """


@pytest.mark.timeout(180)
def test_training_that_is_resumed_in_another_process_goes_on_as_if_it_had_not_stopped(
    bucket: str, tmp_path: Path
) -> None:
    url = f"{bucket}/training/last.pt"
    whole = run(TRAINING, url, 0, 60, folder=tmp_path)
    assert whole.returncode == 0, whole.stderr
    resumed = run(TRAINING, url, 31, 60, folder=tmp_path)  # in the middle of the second epoch of 24 batches
    assert resumed.returncode == 0, resumed.stderr
    assert len(whole.stdout.splitlines()) == 60
    assert resumed.stdout.splitlines() == whole.stdout.splitlines()[31:]


# torch.distributed.checkpoint

one_process = pytest.mark.filterwarnings("ignore:torch.distributed is", "ignore:Detected an existing checkpoint")


def values(url: str) -> Any:
    state = {"weight": torch.zeros(MIB), "step": -1}
    dcp.load(state, storage_reader=StorageReader(url))
    return state["weight"][0].item(), state["step"]


def write_sharded(url: str, number: int) -> None:
    state = {"weight": torch.full((MIB,), float(number)), "step": number}
    dcp.save(state, storage_writer=StorageWriter(url))


@one_process
def test_a_sharded_checkpoint_comes_back_and_replaces_an_earlier_one(folder: str) -> None:
    for number in range(2):
        write_sharded(f"{folder}/sharded", number)
        assert values(f"{folder}/sharded") == (number, number)
    names = [path.rpartition("/")[2] for path in fsspec.url_to_fs(folder)[0].ls(f"{folder}/sharded", detail=False)]
    assert sorted(name.rpartition(".")[2] for name in names) == ["distcp", "metadata"]


@one_process
@pytest.mark.parametrize("name", ["what?", "run[1]", "st*r", "a b#c"])
def test_the_name_of_a_sharded_checkpoint_is_no_pattern(folder: str, name: str) -> None:
    beside = name.replace("*", "a").replace("?", "t").replace("[1]", "1")
    for number, each in enumerate((beside, name)):
        write_sharded(f"{folder}/{each}", number)
    assert values(f"{folder}/{name}") == (1, 1)
    if beside != name:
        assert values(f"{folder}/{beside}") == (0, 0)


@one_process
def test_what_torch_wrote_is_read_and_the_other_way_round(tmp_path: Path) -> None:
    dcp.save({"weight": torch.ones(MIB), "step": 3}, checkpoint_id=tmp_path / "theirs")
    assert values(str(tmp_path / "theirs")) == (1, 3)
    write_sharded(str(tmp_path / "ours"), 2)
    state = {"weight": torch.zeros(MIB), "step": -1}
    dcp.load(state, checkpoint_id=tmp_path / "ours")
    assert state["step"] == 2


@one_process
def test_a_sharded_checkpoint_that_is_not_there_is_an_error_that_names_it(folder: str) -> None:
    checkpoint.save(f"{folder}/last.pt", step=1)
    with pytest.raises(dcp.CheckpointException, match=f"{folder.rpartition('/')[2]}/none/.metadata"):
        values(f"{folder}/none")


@one_process
def test_a_sharded_checkpoint_that_is_not_finished_leaves_the_earlier(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sharded(f"{folder}/sharded", 1)

    def fail(*args: object) -> None:
        raise ConnectionError("the network is down")

    with monkeypatch.context() as broken:
        broken.setattr(type(StorageWriter(folder).fs), "rename", fail)
        with pytest.raises(dcp.CheckpointException, match="the network is down"):
            write_sharded(f"{folder}/sharded", 2)
    assert values(f"{folder}/sharded") == (1, 1)
    write_sharded(f"{folder}/sharded", 3)
    assert values(f"{folder}/sharded") == (3, 3)


def files_of(url: str) -> list[str]:
    """The names of a checkpoint's files, without what is another one for each save."""
    file_system, folder = fsspec.url_to_fs(url)
    file_system.invalidate_cache()
    names = [name.partition(f"{folder.strip('/')}/")[2] for name in file_system.find(folder)]
    return sorted(re.sub("[0-9a-f-]{36}", "*", name) for name in names)


def write_beside(url: str, number: int, **arguments: Any) -> None:
    state = {"weight": torch.full((MIB,), float(number)), "step": number}
    dcp.save(state, storage_writer=StorageWriter(url, **arguments))


def in_hex(rank: int) -> str:
    return f"{rank:02x}/part_"


@one_process
@pytest.mark.parametrize(
    ("strategy", "beginning"),
    [
        (checkpoint.RoundRobinPrefixes(["a", "b/c"]), "a/__0_"),
        (checkpoint.BinaryPrefixes(epoch=3), "0000000000/epoch_3/__0_"),
        (in_hex, "00/part_"),
    ],
)
def test_names_of_a_sharded_checkpoint_begin_as_a_strategy_says_and_are_read(
    folder: str, strategy: Any, beginning: str
) -> None:
    url = f"{folder}/sharded"
    write_sharded(url, 1)
    for number in (2, 3):
        write_beside(url, number, prefix_strategy=strategy)
        assert values(url) == (number, number)
        assert files_of(url) == [".metadata", f"{beginning}*_0.distcp"]
    write_sharded(url, 4)
    assert (values(url), files_of(url)) == ((4, 4), [".metadata", "__0_*_0.distcp"])


@one_process
def test_a_checkpoint_in_a_folder_of_another_stays(folder: str) -> None:
    write_beside(f"{folder}/run/last", 1, prefix_strategy=in_hex)
    for number in (2, 3):
        write_beside(f"{folder}/run", number, prefix_strategy=in_hex)
    assert (values(f"{folder}/run/last"), values(f"{folder}/run")) == ((1, 1), (3, 3))


@one_process
def test_a_checkpoint_in_a_folder_with_the_name_of_a_prefix_stays(tmp_path: Path) -> None:
    write_beside(f"{tmp_path}/00", 1)
    write_beside(str(tmp_path), 2, prefix_strategy=in_hex)
    assert (values(f"{tmp_path}/00"), values(str(tmp_path))) == ((1, 1), (2, 2))


@one_process
def test_what_an_unfinished_save_left_in_folders_of_a_strategy_is_removed(tmp_path: Path) -> None:
    (tmp_path / "00").mkdir()
    (tmp_path / "00" / "part_rest_0.distcp").touch()
    (tmp_path / ".metadata").write_bytes(b"of no pickle")
    write_beside(str(tmp_path), 1, prefix_strategy=in_hex)
    assert (values(str(tmp_path)), files_of(str(tmp_path))) == ((1, 1), [".metadata", "00/part_*_0.distcp"])


def test_prefixes_differ_first_in_their_first_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    hexadecimal = checkpoint.HexPrefixes(least_length=1, count=257)
    assert [hexadecimal(rank) for rank in (0, 1, 16, 256, 257)] == [
        "000/__0_", "100/__1_", "010/__16_", "001/__256_", "000/__257_"
    ]  # fmt: skip
    assert checkpoint.BinaryPrefixes(least_length=2)(7) == "00/__7_"
    of_eight = Namespace(is_initialized=lambda: True, get_world_size=lambda: 8)
    monkeypatch.setattr("penstock.checkpoint.prefixes.distributed", of_eight)
    assert checkpoint.BinaryPrefixes(least_length=2)(6) == "011/__6_"


@pytest.mark.parametrize(
    ("prefixes", "said"),
    [
        (["../a_"], "names of folders below the checkpoint, and not '../a_'"),
        (["/a_"], "names of folders below the checkpoint, and not '/a_'"),
        (["a/", "b/", "a/"], r"gives 'a/' to the ranks 0 and 2: put the rank at its end, as in f'a/__\{rank\}_'"),
        ([None], "must return text, such as 'shard1/__0_', and returned None"),
    ],
)
def test_a_prefix_that_would_lose_files_is_refused(tmp_path: Path, prefixes: list[Any], said: str) -> None:
    writer = StorageWriter(tmp_path, prefix_strategy=prefixes.__getitem__)
    with pytest.raises((TypeError, ValueError), match=said):
        writer.prepare_global_plan([writer.prepare_local_plan(dcp.SavePlan([])) for _ in prefixes])


@one_process
def test_several_threads_write_files_of_which_none_is_lost(folder: str) -> None:
    state = {f"weight{number}": torch.full((MIB,), float(number)) for number in range(5)}
    dcp.save({**state, "step": 1}, storage_writer=StorageWriter(f"{folder}/sharded", thread_count=3))
    assert files_of(f"{folder}/sharded") == [".metadata", *(f"__0_*_{number}.distcp" for number in range(3))]
    read = {name: torch.zeros(MIB) for name in state}
    dcp.load(read, storage_reader=StorageReader(f"{folder}/sharded"))
    assert all(torch.equal(read[name], state[name]) for name in state)


@one_process
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # torch lets its threads die
def test_a_thread_that_fails_leaves_the_earlier_checkpoint(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sharded(f"{folder}/sharded", 1)
    inner, failed = sharded.writing, threading.Event()

    def broken(url: str, options: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            assert failed.wait(30)
            return inner(url, options)
        failed.set()
        raise ConnectionError("the network is down")

    monkeypatch.setattr(sharded, "writing", broken)
    with pytest.raises(dcp.CheckpointException, match="the network is down"):
        write_beside(f"{folder}/sharded", 2, thread_count=2)
    assert values(f"{folder}/sharded") == (1, 1)


IN_RANKS = """
    import re, torch, fsspec, warnings
    from botocore.client import BaseClient
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from penstock.checkpoint import StorageReader, StorageWriter, files as files_of_checkpoints

    warnings.simplefilter("ignore")
    url = "s3://bucket/ranks"
    files_of_checkpoints._PART = 8 * 2**20
    mesh = init_device_mesh("cpu", (ranks,))

    def state_of(number):
        weight = torch.tensor([[0.0], [1.0]]).expand(2, 6 * 2**20) + number
        return {"weight": distribute_tensor(weight, mesh, [Shard(0)]), "step": number}

    def read():
        state = state_of(-1)
        dcp.load(state, storage_reader=StorageReader(url))
        return state["weight"].to_local()[0, 0].item() - rank, state["step"]

    def files():
        dist.barrier()
        names = fsspec.filesystem("s3").ls("bucket/ranks", refresh=True)
        dist.barrier()
        return sorted(re.sub("_[0-9a-f-]{36}_", "_", name.rpartition("/")[2]) for name in names)

    original, failing = BaseClient._make_api_call, False
    def call(self, method, arguments):
        if failing and arguments.get("PartNumber") == 2:
            raise ConnectionError("the network is down")
        return original(self, method, arguments)
    BaseClient._make_api_call = call

    dcp.save(state_of(1), storage_writer=StorageWriter(url))
    say([read(), files()])
    failing = rank == 1
    try:
        dcp.save(state_of(2), storage_writer=StorageWriter(url))
    except dcp.CheckpointException as error:
        say("the network is down" in str(error))
    failing = False
    uploads = fsspec.filesystem("s3").call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", [])
    say([read(), files(), len([each for each in uploads if each["Key"].startswith("ranks/")])])
    dcp.save(state_of(3), storage_writer=StorageWriter(url))
    say([read(), files()])
    """


@pytest.mark.timeout(120)
def test_ranks_write_and_read_a_checkpoint_of_which_a_failed_one_leaves_the_earlier(
    bucket: str, tmp_path: Path
) -> None:
    whole = [".metadata", "__0_0.distcp", "__1_0.distcp"]
    with_rest = [".metadata", "__0_0.distcp", "__0_0.distcp", "__1_0.distcp"]
    for said in run_ranks(tmp_path, IN_RANKS, seconds=100):
        assert said == [[[1, 1], whole], True, [[1, 1], with_rest, 0], [[3, 3], whole]]


# The package


def test_torch_distributed_is_imported_when_it_is_asked_for(tmp_path: Path) -> None:
    code = """
        import sys
        from penstock import checkpoint
        checkpoint.save(sys.argv[1], step=1)
        checkpoint.load(sys.argv[1])
        assert "torch.distributed.checkpoint" not in sys.modules
        assert checkpoint.StorageWriter.__module__ == "penstock.checkpoint.sharded"
        """
    result = run(code, tmp_path / "last.pt", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        checkpoint.nothing  # noqa: B018
