"""Functions called in processes of their own."""

from __future__ import annotations

import functools
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from .processes import context_for, describe_exit, end_with_parent, lock, pickled_error, preparations, start

__all__ = ["Caller", "Processes", "is_made_once"]

_PATIENCE = 2.0
"""Seconds that the system may take to say how a process ended."""


def is_made_once(fn: object) -> bool:
    """Say whether a function is to be made in each process: a class whose instances can be called, or a partial of one.

    >>> is_made_once(str), is_made_once(torch.nn.Identity), is_made_once(functools.partial(torch.nn.Linear, 2, 1))
    (False, True, True)
    """
    made = fn.func if isinstance(fn, functools.partial) else fn
    return isinstance(made, type) and any("__call__" in vars(base) for base in made.__mro__)


class Processes:
    """As many processes as are asked for, each with a copy of a function. They are kept from one pass to the next."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = _pickled(fn, "fn")
        self._owner = os.getpid()
        self._callers: list[Caller] = []
        self._free: list[Caller] = []

    def are_ours(self) -> bool:
        """Say whether they were started by this process: a copy made by fork must leave them alone."""
        return self._owner == os.getpid()

    def begin(self) -> None:
        """Begin a pass: nobody has a process of an earlier one any more."""
        self._free = [*self._callers]

    def take(self) -> Caller:
        """Return a process that is free, ready to be called. Raises what making its function raises."""
        try:
            caller = self._free.pop()
        except IndexError:
            caller = Caller(self._fn)
            self._callers.append(caller)
        caller.make_ready()
        return caller

    def kill_busy(self) -> None:
        """Kill the processes that are at work; they are started again when they are needed."""
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


class Caller:
    """A function in a process of its own, called by one thread at a time."""

    def __init__(self, fn: bytes) -> None:
        self._fn = fn
        self._process: Any = None
        self._connection: Any = None
        self.busy = False

    def make_ready(self) -> None:
        """Start the process if it is not there, and wait until it has made its function."""
        if self._process is not None:
            return
        with lock:  # which also keeps a fork server from being told twice what to preload
            context: Any = context_for(None, __name__)
            self._connection, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), name="penstock-processpool", daemon=True)
            try:
                start(process)
            except BaseException:
                self.end()
                raise
            finally:
                theirs.close()
            self._process = process
        prepared = _pickled(preparations(), "what prepares a process")
        try:
            self._exchange(prepared)
            self._exchange(self._fn)
        except BaseException:
            self.end()
            raise

    def call(self, *args: Any) -> Any:
        """Call the function there. Raises what it raises, and RuntimeError where its process ends."""
        message = _pickled(args, "what fn is to be called with")
        self.make_ready()
        return self._exchange(message)

    def kill(self) -> None:
        """Kill the process, whatever it does; its caller will be told."""
        with lock:
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """End the process, and let go of all that belongs to it."""
        with lock:
            process, self._process = self._process, None
            if self._connection is not None:
                self._connection.close()
            if process is not None:
                process.kill()
                process.join(_PATIENCE)
                if process.exitcode is not None:
                    process.close()

    def _exchange(self, message: bytes) -> Any:
        connection, process = self._connection, self._process
        self.busy = True
        try:
            connection.send_bytes(message)
            # The other end may live on in processes that ours has started, so that there is no end of file.
            mp_connection.wait([connection, process.sentinel])
            if not connection.poll():
                raise EOFError
            reply = connection.recv_bytes()
        except (EOFError, ConnectionError):
            raise self._death() from None
        except BaseException:  # half a message was sent or read
            self.end()
            raise
        finally:
            self.busy = False
        result, pickled = cloudpickle.loads(reply)
        if pickled is not None:
            error, cause = cloudpickle.loads(pickled)
            raise error from cause
        return result

    def _death(self) -> RuntimeError:
        with lock:
            self._process.join(_PATIENCE)
            how = f"the process that fn was called in ({self._process.pid}) {describe_exit(self._process.exitcode)}"
            self.end()
        return RuntimeError(f"{how}; what it printed, or the system's log, may say why")


def _serve(connection: Connection) -> None:
    """Take what prepares this process, a function, and then its arguments call by call, until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    end_with_parent()
    torch.set_num_threads(1)
    random.seed()  # the processes of one fork server begin with the same random numbers
    np.random.seed()
    torch.seed()
    with suppress(EOFError, ConnectionError):
        _answer(connection, _prepare)
        made: list[Callable[..., Any]] = []
        _answer(connection, lambda fn: made.append(fn() if is_made_once(fn) else fn))
        while True:
            _answer(connection, lambda args: made[0](*args))


def _answer(connection: Connection, act: Callable[[Any], Any]) -> None:
    message = connection.recv_bytes()
    try:
        result = act(cloudpickle.loads(message))
        reply = _pickled((result, None), "what fn returned")
    except Exception as error:
        reply = cloudpickle.dumps((None, pickled_error(error)))
    connection.send_bytes(reply)


def _prepare(preparations: list[Callable[[], object]]) -> None:
    for prepare in preparations:
        prepare()


def _pickled(value: object, what: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        error.add_note(f"{what} cannot be pickled, and so not go from one process to another")
        raise
