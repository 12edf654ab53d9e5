"""What a worker is at, told to the main process: an error about a worker that hangs or died can say it.

A worker that has been at one item for a while writes down, in a file in memory that it shares with the main process,
which operator that is and on which item. So it is known after it was killed, too. Quick items cost no more than that
their beginning is noted. Where C code crashes, faulthandler adds the line of Python that called it.
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

from ..registry.iteration import running_step
from ..registry.notes import add_note, notes_of
from ..workers.transport import anonymous_file

__all__ = ["Sighting", "Watch"]

_ROOM = 4096
"""Bytes for what the worker is at; what faulthandler writes comes behind."""
_EVERY = 0.25
"""Seconds between looks; an item that takes less may not be seen."""
_CALLER = re.compile(r'Current thread.*\n  File "(.*)", line (\d+) in (.*)')


class Watch:
    """The worker's side: a context in which one item is made, and a thread that looks how long that takes.

    Several threads may make items.
    """

    def __init__(self, takes_crashes: bool = True) -> None:
        self._since: dict[int, float] = {}
        """When each thread began with the item that it is at."""
        self._written = False
        self._file = anonymous_file(_ROOM)
        os.lseek(self._file, _ROOM, os.SEEK_SET)
        if takes_crashes:
            faulthandler.enable(self._file)
        threading.Thread(target=self._look, name="penstock-watch", daemon=True).start()

    def descriptor(self) -> int:
        """Return a descriptor of the file, which is the caller's to close."""
        return os.dup(self._file)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Be at something else than an item; an error tells of it."""
        self._write(what)
        try:
            yield
        except BaseException as error:  # SystemExit, which ends the worker, leaves it written
            add_note(error, f"penstock: raised in {what}")
            if isinstance(error, Exception):
                self._write("")
            raise
        self._write("")

    def __enter__(self) -> None:
        self._since[threading.get_ident()] = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._since.pop(threading.get_ident(), None)
        if isinstance(error, SystemExit):  # which ends the worker
            self._write(" ".join(notes_of(error)).removeprefix("penstock: raised in "))
        elif self._written:
            self._write("")

    def _write(self, at: str) -> None:
        with suppress(OSError):  # no disk may be left, nor files be allowed to be so long
            os.pwrite(self._file, at.encode()[:_ROOM].ljust(_ROOM, b"\0"), 0)
        self._written = bool(at)

    def _look(self) -> None:
        while True:
            time.sleep(_EVERY)
            now, frames = time.monotonic(), sys._current_frames()
            slow = {thread: since for thread, since in [*self._since.items()] if now - since >= _EVERY}
            # Others wait for the thread that is deepest in the chain.
            for thread in sorted(slow, key=lambda each: _depth(frames.get(each)), reverse=True)[:1]:
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
        """What the worker was at when it was seen at one item for a while, and what it called when it crashed."""
        at = os.pread(self._file, _ROOM, 0).rstrip(b"\0").decode(errors="replace")
        crash = _CALLER.search(os.pread(self._file, 2**16, _ROOM).decode(errors="replace"))
        called = f"the line that crashed was {crash[1]}:{crash[2]}, in {crash[3]}" if crash else ""
        return "".join(f"; {told}" for told in (at and f"it was at {at}", called) if told)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
