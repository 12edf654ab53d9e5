"""Reports what a worker is doing, for the main process's errors about workers that hang or die.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ..errors.notes import add_note, notes_of
from ..state.run import running_step
from ..workers.transport import anonymous_file

__all__ = ["Sighting", "Watch"]

_ROOM = 4096
"""Bytes for what the worker is doing; faulthandler writes after them."""
_EVERY = 0.25
"""Seconds between checks; shorter items may go unseen."""
_CALLER = re.compile(r'Current thread.*\n  File "(.*)", line (\d+) in (.*)')


class Watch:
    """The worker's side: a context in which one item is made, and a thread that checks how long it takes.

    Several threads may make items.
    """

    def __init__(self, takes_crashes: bool = True) -> None:
        self._since: dict[int, float] = {}
        """When each thread began its present item."""
        self._written = False
        self._file = anonymous_file(_ROOM)
        os.lseek(self._file, _ROOM, os.SEEK_SET)
        if takes_crashes:
            faulthandler.enable(self._file)
        threading.Thread(target=self._look, name="penstock-watch", daemon=True).start()

    def descriptor(self) -> int:
        """Return a descriptor of the file, for the caller to close."""
        return os.dup(self._file)

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
            os.pwrite(self._file, at.encode()[:_ROOM].ljust(_ROOM, b"\0"), 0)
        self._written = bool(at)

    def _look(self) -> None:
        while True:
            time.sleep(_EVERY)
            self._look_once()

    def _look_once(self) -> None:
        """Record what a slow item is at. Let go of the frames at once: they keep items, and iterators that end."""
        now = time.monotonic()
        slow = {thread: since for thread, since in [*self._since.items()] if now - since >= _EVERY}
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
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


class Sighting:
    """The main process's side."""

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor of the file."""
        self._file = descriptor

    def __str__(self) -> str:
        """Return what the worker was doing when last seen, and the line that crashed, if any."""
        at = os.pread(self._file, _ROOM, 0).rstrip(b"\0").decode(errors="replace")
        crash = _CALLER.search(os.pread(self._file, 2**16, _ROOM).decode(errors="replace"))
        called = f"the line that crashed was {crash[1]}:{crash[2]}, in {crash[3]}" if crash else ""
        return "".join(f"; {told}" for told in (at and f"it was at {at}", called) if told)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
