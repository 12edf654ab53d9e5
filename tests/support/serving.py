"""Servers of tests, each a process of its own: a file that prints its port when it is ready."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 30.0
"""Seconds that the process may take to begin, and to end."""


@contextmanager
def serving(file: str, request: str = "") -> Iterator[str]:
    """Run a file, which may read a request from its standard input, and give the URL of its server."""
    with subprocess.Popen([sys.executable, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(request)
            process.stdin.close()
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert ready, f"the server did not begin within {PATIENCE} s"
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
            process.wait(PATIENCE)
