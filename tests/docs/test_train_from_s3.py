"""The program and the rows of the page about training from S3 run against a server."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from ranks import run_programs
from s3 import S3Server
from watched import watched_program

pytestmark = pytest.mark.timeout(60)

PAGE = (Path(__file__).parents[2] / "docs" / "train_from_s3.md").read_text()


@pytest.fixture
def images(s3_server: S3Server) -> str:
    """Images of two labels in a bucket; return their prefix."""
    for number in range(18):
        content = io.BytesIO()
        np.save(content, np.full((8, 8), number * 14, dtype=np.uint8))
        path = s3_server.root / "lake" / "images" / "train" / str(number % 2) / f"{number:02}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.getvalue())
    return "s3://lake/images"


def test_the_program_goes_on_exactly_from_its_checkpoint_in_the_bucket(images: str, tmp_path: Path) -> None:
    [program] = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "train.py").write_text(watched_program(program))
    run_programs(tmp_path / "train.py", {tmp_path / "train": {**os.environ, "S3_PREFIX": images}}, seconds=50)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_each_row_about_the_connector_does_what_it_says(images: str) -> None:
    rows = re.findall(r"^\| `([^`]*)` \| `(.*)` \| .* \|$", PAGE, re.MULTILINE)
    right = {re.sub(r"\(.*?\)|=.*", "", there): here for there, here in rows}
    model, checkpoint = torch.nn.Linear(2, 2), f"{images}/model"

    def made(row: str, **names: Any) -> Any:
        code = right.pop(row).replace("s3://bucket/images", f"{images}/train").replace("eu-west-1", "us-east-1")
        return eval(code, {"IterableWrapper": IterableWrapper, "ps": ps, "model": model, **names})

    read = [(url, stream.read()) for url, stream in made("S3IterableDataset.from_prefix")]
    assert len(read) == 18
    urls = [url for url, _ in read]
    named = [*made("S3MapDataset.from_objects", urls=urls)]
    assert named == read
    assert [f"s3://{item.bucket}/{item.key}" for item in named] == urls

    dp = IterableWrapper(range(6))
    with made("DataLoader", dp=dp.sharding_filter()) as loader:
        assert [*loader] == [0, 1, 2, 3, 4, 5]

    saved = {name: value.clone() for name, value in model.state_dict().items()}
    made("S3Checkpoint.writer", url=checkpoint)
    torch.nn.init.zeros_(model.weight)
    made("S3Checkpoint.reader", url=checkpoint)
    assert torch.equal(model.weight, saved["weight"])

    dcp.save(model.state_dict(), storage_writer=made("S3StorageWriter", url=f"{images}/sharded"))
    state = {"weight": torch.zeros(2, 2)}
    dcp.load(state, storage_reader=ps.checkpoint.StorageReader(f"{images}/sharded"))
    assert torch.equal(state["weight"], model.weight)

    made("S3LightningCheckpoint").save_checkpoint({"epoch": 1}, f"{images}/last.ckpt")
    assert ps.checkpoint.LightningCheckpoint().load_checkpoint(f"{images}/last.ckpt") == {"epoch": 1}
    assert not right
