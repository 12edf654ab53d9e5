"""Python programs that tests run, each in a process of its own."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

__all__ = ["kill", "process_id", "python", "workers_of_ray_forked"]

FORKED_PYTHON = str(Path(__file__).with_name("forked_python.py"))


@functools.cache
def python() -> str:
    """Return a Python that has imported torch, as an executable file: `[python(), "-c", code]`, `[python(), file]`.

    It starts a program fifty times as fast as `sys.executable`. Pipes, signals and exit status are the same; the
    program has a session of its own, and another process id than what was started. Ask `sys.executable` where a test is
    about what Python imports, its options, or limits of processes.
    """
    if sys.platform != "linux":  # elsewhere there are no descriptors of processes
        return sys.executable
    folder = tempfile.TemporaryDirectory(prefix="python-", dir="/tmp")  # the path of a socket must be short
    command = [sys.executable, FORKED_PYTHON, "--serve", folder.name]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @atexit.register
    def end() -> None:
        with server:
            server.kill()
        folder.cleanup()

    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    file = Path(folder.name, "python")
    file.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", FORKED_PYTHON])} "$0" "$@"\n')
    file.chmod(0o700)
    return str(file)


def process_id(program: subprocess.Popen[str]) -> int:
    """Return the process id of a program that has begun."""
    if sys.platform != "linux":
        return program.pid
    return int(Path(python()).with_name(str(program.pid)).read_text())


def kill(program: subprocess.Popen[str]) -> None:
    """Kill a program that has begun, and wait until it is gone."""
    os.kill(process_id(program), signal.SIGKILL)
    program.wait(20)


@contextmanager
def workers_of_ray_forked() -> Iterator[None]:
    """Let a Ray that is started here start its workers by `python`."""
    with mock.patch.object(sys, "executable", python()):
        yield
