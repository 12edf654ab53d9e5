"""Code that is run in fresh processes: they have imported torch, which takes two seconds, and nothing of Penstock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

_PROGRAM = """
import multiprocessing, sys
import torch.utils.data
for code in sys.argv[1:]:
    process = multiprocessing.get_context("fork").Process(target=exec, args=(code, {"__name__": "__main__"}))
    process.start()
    process.join()
    print(end="\\0", flush=True)
    if process.exitcode:
        sys.exit(f"this ended with {process.exitcode}:\\n{code}")
"""


def outputs_of(*codes: str, path: Path | None = None) -> list[str]:
    """Run each code in a process of its own, and return what each printed; imports are looked for in `path` first."""
    paths = [*([str(path)] if path else []), os.environ["PYTHONPATH"]]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *map(dedent, codes)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")[:-1]
