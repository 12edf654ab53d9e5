"""What docs/trainers.md says of each trainer, and docs/several_machines.md, done for real in several processes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate import skip_first_batches
from accelerate.data_loader import IterableDatasetShard

import penstock as ps
from penstock.registry import apply_sharding
from ranks import run_world
from watched import watched_program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trainers.md").read_text()
BATCHES = 24
"""Of 64 items in 12 shards: two of each, of four items at most."""


def program_of(heading: str, folder: Path) -> Path:
    """Write the program below a heading of the page into a folder."""
    (block,) = re.findall(rf"## {heading}\n.*?```python\n(.*?)```", PAGE, re.DOTALL)
    program = folder / "train.py"
    program.write_text(block)
    return program


@pytest.mark.timeout(120)
def test_a_loop_of_ones_own_goes_on_on_another_number_of_ranks(tmp_path: Path) -> None:
    program = program_of("A loop of your own, under torchrun", tmp_path)
    assert run_world(program, 2, str(tmp_path), "3") == ["steps 3"] * 2
    assert run_world(program, 3, str(tmp_path)) == [f"steps {(BATCHES - 2 * 3) // 3}"] * 3


@pytest.mark.timeout(150)
def test_ranks_that_are_killed_go_on_as_one_and_as_three() -> None:
    tutorial = ROOT / "tutorials" / "distributed_training.py"
    done = subprocess.run([sys.executable, str(tutorial)], capture_output=True, text=True, timeout=140)
    assert done.returncode == 0, done.stderr
    killed, one, three = done.stdout.splitlines()
    assert killed.startswith("2 ranks were killed; their last checkpoint came after")
    assert one == "resumed on 1, to the end of the epoch: 1797 images, once each"
    assert three == "resumed on 3, to the end of the epoch: 1797 images, once each"


@pytest.mark.timeout(120)
def test_two_machines_that_stop_go_on_as_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "several_machines.md").read_text()
    [program] = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    [commands] = re.findall(r"## Try it on one machine\n.*?```sh\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(watched_program(program))
    (tmp_path / "tutorials").symlink_to(ROOT / "tutorials")
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    commands = commands.replace("torchrun", f"{sys.executable} -m torch.distributed.run").replace("29500", str(port))
    done = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, timeout=110, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = [tuple(map(int, found)) for found in re.findall(r"rank (\d) of (\d): (\d+) images", done.stdout)]
    before, after = ({rank: images for rank, ranks, images in seen if ranks == each} for each in (4, 2))
    assert before == dict.fromkeys(range(4), 300), done.stderr
    assert after.keys() == {0, 1}, done.stderr
    assert sum(before.values()) + sum(after.values()) == 2 * 1797


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trainer", ["Lightning", "accelerate", "transformers"])
def test_a_trainer_goes_on_in_the_middle_of_an_epoch_on_another_number_of_ranks(tmp_path: Path, trainer: str) -> None:
    program, checkpoints = program_of(trainer, tmp_path), str(tmp_path / "checkpoints")
    seen: list[int] = []
    for ranks, steps in ((2, 3), (1, -1)):
        said = "\n".join(run_world(program, ranks, checkpoints, str(steps)))  # a progress bar may stand before it
        lines = [json.loads(found) for found in re.findall(r"seen (\[[\d, ]*\])", said)]
        assert len(lines) == ranks
        seen += [number for line in lines for number in line]
        if steps > 0:
            assert len(seen) == 2 * 3 * 4
    assert sorted(seen) == list(range(64))


RAY_TRAIN = """
import sys
import ray
from train import fit
ray.init("local", num_cpus=4, include_dashboard=False, object_store_memory=2**27, logging_level="ERROR")
fit(sys.argv[1], 2, 3)
print("then", flush=True)
fit(sys.argv[1], 1)
"""


@pytest.mark.timeout(200)
def test_ray_train_goes_on_in_the_middle_of_an_epoch_on_another_number_of_ranks(tmp_path: Path) -> None:
    program_of("Ray Train", tmp_path)
    (tmp_path / "drive.py").write_text(RAY_TRAIN)
    ray = {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}
    environment = {**os.environ, **ray}  # each report waits for the next of its health checks
    command = [sys.executable, str(tmp_path / "drive.py"), str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=190, env=environment)
    assert done.returncode == 0, done.stderr
    # What ranks print may come twice.
    seen = [json.loads(found) for found in {*re.findall(r"seen (\[[\d, ]*\])", done.stdout)}]
    assert len(seen) == 2 + 1
    assert sorted(number for each in seen for number in each) == list(range(64))


def test_what_is_divided_already_is_not_divided_once_more() -> None:
    dp = ps.iter.IterableWrapper(range(80)).sharding_filter()
    assert len([*IterableDatasetShard(dp, num_processes=2, process_index=0)]) == 40
    assert len([*IterableDatasetShard(dp, num_processes=1)]) == 80
    apply_sharding(dp, 2, 0)
    assert len([*dp]) == 40
    with pytest.raises(RuntimeError, match="accelerate divides it again among 2 processes"):
        list(IterableDatasetShard(dp, num_processes=2, process_index=0))


READ_BY_ONE = """
import os
import torch
from accelerate import Accelerator
import penstock as ps

accelerator = Accelerator(cpu=True)
dp = ps.iter.IterableWrapper(range(64)).sharding_filter().map(lambda x: torch.tensor(x))
loader = accelerator.prepare(torch.utils.data.DataLoader(dp, batch_size=4))
try:
    list(loader)
except Exception as error:
    print(error, flush=True)
os._exit(0)  # the other rank waits for what this would send
"""


@pytest.mark.timeout(120)
def test_a_chain_that_is_divided_is_not_read_by_one_rank_for_all(tmp_path: Path) -> None:
    program = tmp_path / "read.py"
    program.write_text(READ_BY_ONE)
    assert any("accelerate divides it again among 2 processes" in line for line in run_world(program, 2))


def test_what_skips_batches_is_told_to_load_the_state() -> None:
    loader = ps.DataLoader2(ps.iter.IterableWrapper(range(8)).batch(2))
    assert not hasattr(loader, "dataset")  # Lightning asks
    with pytest.raises(AttributeError, match="ignore_data_skip=True"):
        skip_first_batches(loader, 1)
