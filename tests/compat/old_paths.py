"""Programs that use torchdata's old import paths, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def run_code(code: str, **environment: str) -> str:
    """The output of a program that begins with `install()`."""
    result = run("-c", "import penstock.compat\n" + textwrap.dedent(code), **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def script(folder: Path, code: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path
