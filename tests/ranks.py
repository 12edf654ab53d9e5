"""Programs in processes that are forked off a server; ranks of torch.distributed, and what they do together."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.workers.processes import start_server

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
    """Run a program in processes with these environments. What each prints is in files beside its key, `.out`, `.err`.

    A fork server has imported torch once for all of them: an interpreter of its own takes each 2 s.
    """
    start_server("penstock.runner.worker")
    context = multiprocessing.get_context("forkserver")
    processes = [
        context.Process(target=_run, args=(str(program), environment, str(output)))
        for output, environment in environments.items()
    ]
    for process in processes:
        process.start()
    try:
        ends = time.monotonic() + seconds
        for process in processes:
            process.join(ends - time.monotonic())
    finally:
        late = [number for number, process in enumerate(processes) if process.is_alive()]
        for process in processes:
            process.kill()
            process.join()
    told = [output.with_suffix(".err").read_text() for output in environments]
    failed = [errors for process, errors in zip(processes, told, strict=True) if process.exitcode]
    assert not late, f"processes {late} did not end within {seconds} s\n" + "\n".join(told)
    assert not failed, "\n".join(failed)


def _run(program: str, environment: Mapping[str, str], output: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(os.path.dirname(program))
    for descriptor, ending in (1, ".out"), (2, ".err"):
        with open(output + ending, "w") as file:
            os.dup2(file.fileno(), descriptor)
    runpy.run_path(program, run_name="__main__")
