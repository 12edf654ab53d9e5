"""Ranks of torch.distributed, as real processes, for tests of what they do together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
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
    processes = [
        subprocess.Popen(
            [sys.executable, str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    failed = [errors for process, (_, errors) in zip(processes, outputs, strict=True) if process.returncode]
    assert not failed, "\n".join(failed)
    (folder / "store").unlink(missing_ok=True)
    return [[json.loads(line) for line in said.splitlines()] for said, _ in outputs]
