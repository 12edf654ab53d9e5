"""Programs in several processes; ranks of torch.distributed, and what they do together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_PREAMBLE = """
import json, os, sys
import torch.distributed as dist
import penstock as ps
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=ranks)
def say(what):
    print(json.dumps(what), flush=True)
if __name__ == "__main__":
"""

_END = """
dist.destroy_process_group()
"""


def run_ranks(folder: Path, code: str, ranks: int = 2, seconds: float = 45) -> list[list[Any]]:
    """Run code in several ranks, and return what each said with `say(…)`; a rank that fails is shown."""
    program = folder / "rank.py"
    program.write_text(_PREAMBLE + textwrap.indent(textwrap.dedent(code) + _END, "    "))
    environment = {**os.environ, "WORLD_SIZE": str(ranks), "STORE": str(folder / "store")}
    outputs = [folder / f"rank {rank}" for rank in range(ranks)]
    run_programs(program, {output: {**environment, "RANK": str(rank)} for rank, output in enumerate(outputs)}, seconds)
    (folder / "store").unlink(missing_ok=True)
    return [[json.loads(line) for line in output.with_suffix(".out").read_text().splitlines()] for output in outputs]


def run_programs(program: Path, environments: Mapping[Path, Mapping[str, str]], seconds: float) -> None:
    """Run a program in processes with these environments; what each prints is in files beside its key: .out, .err."""
    with ExitStack() as opened:
        processes = [
            subprocess.Popen(
                [sys.executable, str(program)],
                env=environment,
                cwd=program.parent,
                stdout=opened.enter_context(output.with_suffix(".out").open("w")),
                stderr=opened.enter_context(output.with_suffix(".err").open("w")),
            )
            for output, environment in environments.items()
        ]
    late = []
    ends = time.monotonic() + seconds
    for number, process in enumerate(processes):
        try:
            process.wait(ends - time.monotonic())
        except subprocess.TimeoutExpired:
            late.append(number)
    for process in processes:
        process.kill()
        process.wait()
    outputs = [output.with_suffix(".err").read_text() for output in environments]
    failed = [errors for process, errors in zip(processes, outputs, strict=True) if process.returncode]
    assert not late, f"processes {late} did not end within {seconds} s\n" + "\n".join(outputs)
    assert not failed, "\n".join(failed)
