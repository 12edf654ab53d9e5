"""Functions called in other processes.

`transport` carries their arguments and results from one process to the other.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import random
import select
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from ..errors.notes import add_note
from .captured import MUCH_TO_SEND, culprit_in, warn_of_copies
from .processes import (
    become_worker,
    context_for,
    describe_exit,
    lock,
    pickled_error,
    preparations,
    start,
    unpickled_error,
)
from .threads import Threads
from .transport import Inbox, Outbox, Parcel, blocks_for_each, receive_parcel_descriptor, send_parcel

_PATIENCE_WITH_ITEM = 5.0
"""Seconds that a process may continue with an abandoned item before it is killed."""
_PATIENCE_WITH_PROCESS = 2.0
"""Seconds for the system to report how a process ended."""

_CANNOT_TRAVEL = "{} cannot be pickled, so it cannot be sent to another process"

_Packed = tuple[Parcel, int | None]
"""A value in transit, and the descriptor of its block if that is new."""


def is_made_once(fn: object) -> bool:
    """Say whether each process makes the function itself: a class with callable instances, or a partial of one.

    >>> is_made_once(str), is_made_once(torch.nn.Identity), is_made_once(functools.partial(torch.nn.Linear, 2, 1))
    (False, True, True)
    """
    made = fn.func if isinstance(fn, functools.partial) else fn
    return isinstance(made, type) and any("__call__" in vars(base) for base in made.__mro__)


class Processes:
    """Up to `most` processes, each with a copy of a function, kept from one pass to the next.

    `name` says in a warning whose the function is.
    """

    def __init__(self, fn: Callable[..., Any], most: int, name: str = "fn") -> None:
        self._fn = _pickled_for_process(fn, "fn")
        if (
            len(self._fn) >= MUCH_TO_SEND and multiprocessing.parent_process() is None
        ):  # a loader warns before it starts workers
            warn_of_copies([(name, fn)], len(self._fn), most)
        self._max_blocks = blocks_for_each(most)
        self._owner = os.getpid()
        self._callers: list[Caller] = []
        self._free: list[Caller] = []

    def are_ours(self) -> bool:
        """Say whether this process started them: a copy made by fork must leave them alone."""
        return self._owner == os.getpid()

    def threads(self, wrap: Callable[[Callable[..., Any]], Callable[[Any], Any]], most: int) -> Threads:
        """Return up to `most` threads for a pass, each of which calls a process through the function of `wrap`."""
        self._free = [*self._callers]
        name = "penstock-processpool"
        return Threads(lambda: wrap(self._take().call), most, name, _PATIENCE_WITH_ITEM, self._kill_busy)

    def _take(self) -> Caller:
        """Return a free process, ready to be called. Raises what making its function raises."""
        try:
            caller = self._free.pop()
        except IndexError:
            caller = Caller(self._fn, self._max_blocks)
            self._callers.append(caller)
        caller.make_ready()
        return caller

    def _kill_busy(self) -> None:
        """Kill the busy processes; they restart when needed."""
        for caller in self._callers:
            if caller.busy:
                caller.kill()

    def close(self) -> None:
        """End all processes."""
        if not self.are_ours():
            return
        for caller in self._callers:
            caller.kill()
        for caller in self._callers:
            caller.end()


class _CallLine:
    """One end of the line between two processes: values travel along a connection, and in shared memory.

    The memory belongs to the sending end. It is reused once the other end reports that no array there refers to it: a
    function may keep its arguments, and a consumer its results.
    """

    def __init__(self, connection: Connection, max_blocks: int) -> None:
        self._connection = connection
        self._outbox = Outbox(max_blocks)
        self._inbox = Inbox()

    def packed(self, value: object, what: str) -> _Packed:
        """Return a value packed for sending. Raises what pickle raises."""
        try:
            return self._outbox.pack(value)
        except Exception as error:
            add_note(error, _CANNOT_TRAVEL.format(what))
            raise

    def send(self, packed: _Packed) -> None:
        """Send a value, and report the blocks no longer used here. Raises what a connection raises."""
        parcel, descriptor = packed
        message = pickle.dumps((tuple(parcel), self._inbox.unused_blocks()), protocol=5)
        send_parcel(self._connection, message, descriptor)

    def receive(self, wait: Callable[[], None]) -> _Packed:
        """Return what was sent; `wait` is called before each part. Raises what `wait` or a connection raises."""
        wait()
        fields, blocks = pickle.loads(self._connection.recv_bytes())
        self._outbox.take_back(blocks)
        parcel = Parcel(*fields)
        if not parcel.new_block_bytes:
            return parcel, None
        wait()
        return parcel, receive_parcel_descriptor(self._connection)

    def unpacked(self, packed: _Packed) -> Any:
        """Return a received value. Raises what pickle raises."""
        return self._inbox.unpack(*packed)


class Caller:
    """A function in a process of its own, called by one thread at a time."""

    def __init__(self, fn: bytes, max_blocks: int, start_method: str | None = None) -> None:
        self._fn = fn
        self._max_blocks = max_blocks
        self._start_method = start_method
        self._process: Any = None
        self._connection: Any = None
        self._line: Any = None
        self._events: Any = None
        self.busy = False

    def make_ready(self) -> None:
        """Start the process if there is none, and wait until it has made its function."""
        if self._process is not None:
            return
        with lock:  # also policies the fork server's preload list
            context: Any = context_for(self._start_method, __name__)
            self._connection, theirs = context.Pipe()
            arguments = (theirs, self._max_blocks)
            process = context.Process(target=_serve, args=arguments, name="penstock-processpool", daemon=True)
            try:
                start(process)
            except BaseException:
                self.end()
                raise
            finally:
                theirs.close()
            self._process = process
            self._line = _CallLine(self._connection, self._max_blocks)
            self._events = select.poll()
            self._events.register(self._connection, select.POLLIN)
            self._events.register(process.sentinel, select.POLLIN)
        prepared = _pickled_for_process(preparations(), "what prepares a process")
        try:
            self._exchange(_as_parcel(prepared))
            self._exchange(_as_parcel(self._fn))
        except BaseException:
            self.end()
            raise

    def call(self, *args: Any) -> Any:
        """Call the function there. Raises what it raises, and RuntimeError if its process ends."""
        self.make_ready()
        return self._exchange(self._line.packed(args, "what fn is to be called with"))

    def kill(self) -> None:
        """Kill the process, whatever it is doing; its caller gets an error."""
        with lock:
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """End the process, and release all that belongs to it."""
        with lock:
            process, self._process = self._process, None
            self._line = None
            if self._connection is not None:
                self._connection.close()
            if process is not None:
                process.kill()
                process.join(_PATIENCE_WITH_PROCESS)
                if process.exitcode is not None:
                    process.close()

    def _exchange(self, packed: _Packed) -> Any:
        line = self._line
        self.busy = True
        try:
            line.send(packed)
            answer = line.receive(self._wait)
        except (EOFError, ConnectionError):
            raise self._death() from None
        except BaseException:  # half a message was sent or read
            self.end()
            raise
        finally:
            self.busy = False
        result, pickled = line.unpacked(answer)
        if pickled is not None:
            raise unpickled_error(pickled)
        return result

    def _wait(self) -> None:
        """Wait for an arrival; raise EOFError if the process has ended without one."""
        # Children of the process may keep its end open, so there may be no end of file.
        ready = {descriptor for descriptor, _ in self._events.poll()}
        if self._connection.fileno() not in ready and not self._connection.poll():
            raise EOFError

    def _death(self) -> RuntimeError:
        with lock:
            self._process.join(_PATIENCE_WITH_PROCESS)
            how = f"the process that fn was called in ({self._process.pid}) {describe_exit(self._process.exitcode)}"
            self.end()
        return RuntimeError(f"{how}; what it printed, or the system's log, may say why")


def _serve(connection: Connection, max_blocks: int) -> None:
    """Receive preparations, a function, and then its arguments call by call, until the caller is gone."""
    become_worker()
    random.seed()  # processes of one fork server start with the same random state
    np.random.seed()
    torch.seed()
    line = _CallLine(connection, max_blocks)
    with suppress(EOFError, ConnectionError):
        _answer(line, _prepare)
        made: list[Callable[..., Any]] = []
        _answer(line, lambda fn: made.append(fn() if is_made_once(fn) else fn))
        while True:
            _answer(line, lambda args: made[0](*args))


def _answer(line: _CallLine, act: Callable[[Any], Any]) -> None:
    line.send(_packed_answer(line, act, line.receive(lambda: None)))


def _packed_answer(line: _CallLine, act: Callable[[Any], Any], packed: _Packed) -> _Packed:
    """Return the packed answer; afterwards only the function can hold its arguments."""
    try:
        result = act(line.unpacked(packed))
        return line.packed((result, None), "what fn returned")
    except SystemExit:
        raise
    except BaseException as error:
        return _as_parcel(cloudpickle.dumps((None, pickled_error(error))))


def _prepare(preparations: list[Callable[[], object]]) -> None:
    for prepare in preparations:
        prepare()


def _as_parcel(pickled: bytes) -> _Packed:
    """Return pickled bytes, packed for the connection."""
    return Parcel([pickled], []), None


def _pickled_for_process(value: object, what: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        add_note(error, _CANNOT_TRAVEL.format(culprit_in(what, value)))
        raise
