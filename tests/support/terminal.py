"""Terminals for tests: one that this process seems to write to, and real ones for other processes."""

from __future__ import annotations

import errno
import fcntl
import functools
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any


def writing_to_terminal(test: Callable[..., None]) -> Callable[..., None]:
    """Let a test write its errors to the fixture `terminal`; pytest sets sys.stderr itself before each test."""

    @functools.wraps(test)
    def run(*args: Any, terminal: Terminal, **kwargs: Any) -> None:
        with redirect_stderr(terminal):
            test(*args, terminal=terminal, **kwargs)

    return run


class Terminal(io.StringIO):
    """Takes what is written to it, as a terminal; `shown` waits for a text."""

    def __init__(self) -> None:
        super().__init__()
        self._written = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._written:
            self._written.notify_all()
            return super().write(text)

    def shown(self, text: str, seconds: float = 20.0) -> bool:
        """Say whether a text appears within some seconds."""
        with self._written:
            return self._written.wait_for(lambda: text in self.getvalue(), seconds)

    @property
    def last_line(self) -> str:
        """The last line that is not empty, as the carriage returns leave it; tqdm writes spaces over a longer one."""
        lines = (line.rstrip() for line in self.getvalue().replace("\r", "\n").splitlines()[::-1])
        return next(line for line in lines if line)


def on_terminal(
    *command: str, cwd: Path, env: Mapping[str, str] | None = None, columns: int = 120, seconds: float = 50
) -> tuple[int, str]:
    """Run a Python command with a terminal for all three streams; return its exit status and what it wrote."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    process = subprocess.Popen(
        [sys.executable, *command], cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    ended = threading.Timer(seconds, process.kill)
    ended.start()
    written = b""
    try:
        while piece := _read(ours):
            written += piece
        return process.wait(seconds), written.decode()
    finally:
        ended.cancel()
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # nobody has the other end any more
            return b""
        raise
