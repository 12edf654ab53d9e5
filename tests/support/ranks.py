"""Programs in several processes; ranks of torch.distributed, and what they do together."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import socket
import sys
import textwrap
import time
from collections.abc import Mapping
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


def run_world(program: Path, ranks: int, *arguments: str, seconds: float = 100) -> list[str]:
    """Run a program in several ranks with the environment that torchrun gives, and return the lines they print."""
    with socket.create_server(("localhost", 0)) as server:
        port = str(server.getsockname()[1])
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    environment = {**os.environ, **world, "TORCHELASTIC_RUN_ID": "tests", "GROUP_RANK": "0", "OMP_NUM_THREADS": "1"}
    outputs = [program.with_name(f"rank {rank}") for rank in range(ranks)]
    numbered = {
        output: {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank, output in enumerate(outputs)
    }
    run_programs(program, numbered, seconds, *arguments)
    return [line for output in outputs for line in output.with_suffix(".out").read_text().splitlines()]


def run_programs(
    program: Path, environments: Mapping[Path, Mapping[str, str]], seconds: float, *arguments: str
) -> None:
    """Run a program in processes with these environments; what each prints is in files beside its key: .out, .err.

    A fork server has imported torch for all of them: each import takes two seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "penstock.runner"])
    processes = [
        context.Process(target=_run, args=(program, environment, output, arguments))
        for output, environment in environments.items()
    ]
    for process in processes:
        process.start()
    ends = time.monotonic() + seconds
    for process in processes:
        process.join(max(ends - time.monotonic(), 0))
    late = [number for number, process in enumerate(processes) if process.exitcode is None]
    for process in processes:
        process.kill()
        process.join()
    outputs = [output.with_suffix(".err").read_text() for output in environments]
    failed = [errors for process, errors in zip(processes, outputs, strict=True) if process.exitcode]
    assert not late, f"processes {late} did not end within {seconds} s\n" + "\n".join(outputs)
    assert not failed, "\n".join(failed)


def _run(program: Path, environment: Mapping[str, str], output: Path, arguments: tuple[str, ...]) -> None:
    """Run a program as the main module of this process, which the fork server has made."""
    for number, suffix in ((1, ".out"), (2, ".err")):
        file = os.open(output.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    multiprocessing.set_start_method(None, force=True)  # workers start as those of a program, not as this process did
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program), *arguments]
    runpy.run_path(str(program), run_name="__main__")
