"""Checkpoints of Lightning's Trainer at any URL."""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from torch.utils.data import DataLoader

from penstock.checkpoint import LightningCheckpoint
from penstock.compat.s3torchconnector.lightning import S3LightningCheckpoint
from s3 import S3Server


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        (request.getfixturevalue("s3_server").root / "bucket").mkdir(exist_ok=True)
    return {"local": str(tmp_path), "memory": f"memory://{tmp_path.name}", "s3": f"s3://bucket/{tmp_path.name}"}[
        request.param
    ]


def test_a_checkpoint_is_saved_loaded_and_removed(folder: str) -> None:
    files, path = LightningCheckpoint(), f"{folder}/epoch=1-step=2.ckpt"
    for epoch in range(2):
        files.save_checkpoint({"epoch": epoch, "state_dict": {"weight": torch.ones(3)}}, path)
        loaded = files.load_checkpoint(path)
        assert (loaded["epoch"], loaded["state_dict"]["weight"].tolist()) == (epoch, [1, 1, 1])
    assert files.load_checkpoint(path, map_location="meta")["state_dict"]["weight"].is_meta
    files.remove_checkpoint(path)
    with pytest.raises(FileNotFoundError, match="step=2"):
        files.load_checkpoint(path)
    files.remove_checkpoint(path)
    files.teardown()


@pytest.mark.parametrize("folder", ["local", "s3"], indirect=True)  # a memory:// file is written in place
def test_a_save_that_fails_leaves_the_earlier_checkpoint(folder: str) -> None:
    files, path = LightningCheckpoint(), f"{folder}/last.ckpt"
    files.save_checkpoint({"epoch": 1}, path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        files.save_checkpoint({"weight": torch.ones(2**16), "function": lambda: 1}, path)
    assert files.load_checkpoint(path) == {"epoch": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"PK\3\4 and no more", "last.ckpt was cut"), (b"text", "last.ckpt is not a checkpoint: those are what save")],
)
def test_what_is_no_checkpoint_is_an_error_that_names_it(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "last.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        LightningCheckpoint().load_checkpoint(tmp_path / "last.ckpt")


def test_a_wrong_bit_is_an_error(tmp_path: Path) -> None:
    LightningCheckpoint().save_checkpoint({"weight": torch.zeros(1000)}, tmp_path / "last.ckpt")
    content = bytearray((tmp_path / "last.ckpt").read_bytes())
    content[content.index(bytes(2000)) + 1000] = 1
    (tmp_path / "last.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=r"last\.ckpt is corrupt"):
        LightningCheckpoint().load_checkpoint(tmp_path / "last.ckpt")


class Own:
    pass


def test_more_than_plain_data_is_loaded_only_where_that_is_asked_for(tmp_path: Path) -> None:
    files = LightningCheckpoint()
    files.save_checkpoint({"own": Own()}, tmp_path / "last.ckpt")
    with pytest.raises(pickle.UnpicklingError, match="Own"):
        files.load_checkpoint(tmp_path / "last.ckpt")
    assert isinstance(files.load_checkpoint(tmp_path / "last.ckpt", weights_only=False)["own"], Own)


def test_options_reach_the_store(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (s3_server.root / "bucket").mkdir(exist_ok=True)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = {"endpoint_url": s3_server.endpoint}
    LightningCheckpoint(options).save_checkpoint({"epoch": 1}, "s3://bucket/a.ckpt")
    nowhere = LightningCheckpoint({"endpoint_url": "http://127.0.0.1:9"})
    nowhere.save_checkpoint({"epoch": 2}, "s3://bucket/b.ckpt", storage_options=options)
    connectors = S3LightningCheckpoint("us-east-1", endpoint=s3_server.endpoint)
    assert [connectors.load_checkpoint(f"s3://bucket/{name}.ckpt")["epoch"] for name in "ab"] == [1, 2]
    assert "the-secret" not in repr(vars(LightningCheckpoint({"secret": "the-secret"})))


@pytest.mark.filterwarnings("ignore")  # Lightning's own, of a loader without workers and the like
@pytest.mark.parametrize(("library", "start"), [("lightning.pytorch", "memory://"), ("pytorch_lightning", "")])
def test_a_trainer_of_either_library_keeps_its_checkpoints_there(library: str, start: str, tmp_path: Path) -> None:
    lightning: Any = import_module(library)

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def train_dataloader(self) -> Any:
            return DataLoader(torch.ones(4, 1))  # type: ignore[arg-type]  # enough of a data set

        def training_step(self, batch: Any, number: int) -> Any:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    folder = start + str(tmp_path / "runs")
    quiet: Any = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "logger": False}

    def trainer(files: LightningCheckpoint) -> Any:
        return lightning.Trainer(plugins=[files], default_root_dir=folder, max_epochs=2, **quiet)

    model, written = Model(), list[str]()

    class Watched(LightningCheckpoint):
        def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
            super().save_checkpoint(checkpoint, path, storage_options)
            written.append(str(path))

    trainer(Watched()).fit(model)
    first, last = written
    file_system = fsspec.url_to_fs(folder)[0]
    assert [file_system.exists(path) for path in (first, last)] == [False, True]  # Trainer keeps the last epoch's
    resumed = Model()
    trainer(LightningCheckpoint()).fit(resumed, ckpt_path=last)
    assert torch.equal(resumed.layer.weight, model.layer.weight)


def test_without_lightning_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'lightning is needed for this: pip install "penstock\[lightning\]"'):
        LightningCheckpoint()
