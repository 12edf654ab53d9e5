"""The status of a worker: its present activity and its end, for errors about workers that hang or die.

A worker that takes a while over an item writes the operator and the item to a file in memory, which it shares with
the main process. The file outlives the worker. For quick items, only the start is recorded. If C code crashes,
faulthandler adds the line of Python that called it.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from ...errors.notes import add_note, notes_of
from ...state.run import running_step
from ...workers.transport import anonymous_file

_SIZE = 4096
"""Bytes for the activity; faulthandler writes after them."""
_INTERVAL = 0.25
"""Seconds between checks; shorter items may go unseen."""
_CALLER = re.compile(r'Current thread.*\n  File "(.*)", line (\d+) in (.*)')


@dataclass(frozen=True)
class WorkerStatus:
    """The status of a worker, as `WorkerHandle.status` returns it."""

    activity: str = ""
    """What it is doing, or was when it ended, as the rest of a sentence; empty if unknown."""
    ended: str | None = None
    """How it ended, with its activity."""
    is_stopped: bool = False
    """Whether it is stopped, as by SIGSTOP."""


def new_status_file() -> int:
    """Return the descriptor of a file for a worker's `StatusWriter`."""
    return anonymous_file(_SIZE)


def read_activity(descriptor: int) -> str:
    """Return the activity in a status file, and the line that crashed, if any, as the rest of a sentence."""
    at = os.pread(descriptor, _SIZE, 0).rstrip(b"\0").decode(errors="replace")
    crash = _CALLER.search(os.pread(descriptor, 2**16, _SIZE).decode(errors="replace"))
    called = f"the line that crashed was {crash[1]}:{crash[2]}, in {crash[3]}" if crash else ""
    return "".join(f"; {text}" for text in (at and f"it was at {at}", called) if text)


class StatusWriter:
    """The worker's side: a context in which one item is made, and a thread that checks how long it takes.

    Several threads may make items.
    """

    def __init__(self, file: int, records_crashes: bool = True) -> None:
        self._since: dict[int, float] = {}
        """When each thread began its present item."""
        self._written = False
        self._file = file
        os.lseek(file, _SIZE, os.SEEK_SET)
        if records_crashes:
            faulthandler.enable(file)
        threading.Thread(target=self._check_regularly, name="penstock-watch", daemon=True).start()

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Record work other than an item; errors name it."""
        self._write(what)
        try:
            yield
        except BaseException as error:  # SystemExit ends the worker, so the record stays
            add_note(error, f"penstock: raised in {what}")
            if isinstance(error, Exception):
                self._write("")
            raise
        self._write("")

    def __enter__(self) -> None:
        self._since[threading.get_ident()] = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._since.pop(threading.get_ident(), None)
        if isinstance(error, SystemExit):  # it ends the worker
            self._write(" ".join(notes_of(error)).removeprefix("penstock: raised in "))
        elif self._written:
            self._write("")

    def _write(self, at: str) -> None:
        with suppress(OSError):  # the disk may be full, or file sizes limited
            os.pwrite(self._file, at.encode()[:_SIZE].ljust(_SIZE, b"\0"), 0)
        self._written = bool(at)

    def _check_regularly(self) -> None:
        while True:
            time.sleep(_INTERVAL)
            self._check()

    def _check(self) -> None:
        """Record the step of a slow item. The frames are released at once: they keep items, and iterators that end."""
        now = time.monotonic()
        slow = {thread: since for thread, since in [*self._since.items()] if now - since >= _INTERVAL}
        if not slow:
            return
        frames = sys._current_frames()
        # The other threads wait for the one deepest in the chain.
        thread = max(slow, key=lambda each: _depth(frames.get(each)))
        frames.clear()  # this frame is among them: a cycle
        at = running_step(thread)
        if at is not None and self._since.get(thread) == slow[thread]:
            self._write(at)


def _depth(frame: FrameType | None) -> int:
    return 0 if frame is None else sum(1 for _ in traceback.walk_stack(frame))
