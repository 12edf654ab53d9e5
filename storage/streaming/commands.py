"""Addresses that are commands: `pipe:curl -s https://host/a.tar` is what the command writes."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, Any

from ...errors.secrets import without_secrets
from ..addresses import COMMAND
from .streams import stream_over

_SHOWN = 500
"""Characters of what a failed command said that its error shows."""


def open_command(url: str, text: Mapping[str, Any] | None) -> IO[Any]:
    """Return the stream of what a command writes: bytes, or text if `text` has arguments for TextIOWrapper.

    The shell runs it. Reading raises OSError at the end if the command has failed. Closing the stream ends it.
    """
    return stream_over(_Output(url), url, text)


class _Output(io.RawIOBase):
    """The output of a command."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._process = subprocess.Popen(
            url.removeprefix(COMMAND),
            shell=True,
            bufsize=0,  # else a read waits until its buffer is full
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # to end all programs of the command
        )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        output: Any = self._process.stdout
        size: int = output.readinto(buffer)
        if len(buffer) and not size and (status := self._process.wait()):
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-_SHOWN:]
            raise OSError(
                errno.EIO,
                without_secrets(f"the command ended with status {status}: {said}"),
                without_secrets(self._url),
            )
        return size

    def close(self) -> None:
        if not self.closed:
            if self._process.poll() is None:  # in a process that was forked since, it is not
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.kill()
            with self._process:  # closes its output, and waits
                pass
        self._said.close()
        super().close()
