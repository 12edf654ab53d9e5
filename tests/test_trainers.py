"""What docs/trainers.md says of each trainer, done for real in several processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "trainers.md").read_text()
BATCHES = 24
"""Of 64 items in 12 shards: two of each, of four items at most."""


def torchrun(ranks: int, program: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run([*command, str(program), *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(120)
def test_a_loop_of_ones_own_goes_on_on_another_number_of_ranks(tmp_path: Path) -> None:
    (block,) = re.findall(r"## A loop of your own.*?```python\n(.*?)```", PAGE, re.DOTALL)
    program = tmp_path / "train.py"
    program.write_text(block)
    assert torchrun(2, program, str(tmp_path), "3") == ["steps 3"] * 2
    assert torchrun(3, program, str(tmp_path)) == [f"steps {(BATCHES - 2 * 3) // 3}"] * 3
