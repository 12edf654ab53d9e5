"""Starts processes that do not import the main program; reports how they ended, and passes on their errors."""

from __future__ import annotations

import csv
import functools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection as mp_connection
from multiprocessing import forkserver, parent_process, process, resource_tracker, spawn
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import torch

from ..errors.notes import all_notes_of
from ..errors.optional import PREPARATIONS
from ..errors.tracebacks import RemoteTraceback, folded_traceback
from .transport import reducers_of_program

START_METHOD = "forkserver"
"""Not fork: it breaks Rust and C++ clients that the parent may have used. Spawn costs an import per process."""


def processors() -> int:
    """Return the number of processors that this process may use, where the system reports it, or else of all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def preparations() -> list[Callable[[], object]]:
    """Return what a process started now calls first: it adopts this environment, csv's limit, and own reducers."""
    limit = functools.partial(csv.field_size_limit, csv.field_size_limit())
    reducers = [functools.partial(ForkingPickler.register, *pair) for pair in reducers_of_program().items()]
    return [functools.partial(_take_environment, dict(os.environ)), limit, *reducers, *PREPARATIONS]


def _take_environment(environment: dict[str, str]) -> None:
    """Adopt the program's present environment: a fork server keeps the one from its start."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


lock = threading.RLock()
"""Held to start, end or poll a process: multiprocessing supports one thread at a time there."""

_FIRST, _LAST = "penstock_server", "penstock_server.frozen"
"""What a fork server imports first and last of ours; the program's own modules come before."""

_starting = threading.local()
_preparation_data = spawn.get_preparation_data


def _preparation_data_without_main(name: str) -> dict[str, Any]:
    """Leave out the main module when one of our processes starts.

    The process gets all it runs by cloudpickle. Importing the main module would rerun a script without
    `if __name__ == "__main__"`.
    """
    data = _preparation_data(name)
    if getattr(_starting, "ours", False):
        data.pop("init_main_from_path", None)
        data.pop("init_main_from_name", None)
    return data


spawn.get_preparation_data = _preparation_data_without_main


def context_for(start_method: str | None, preload: str) -> BaseContext:
    """Return the multiprocessing context of a start method; ValueError if the platform lacks it.

    `preload` is the module that processes run; a fork server imports it once for all.
    """
    method = start_method or START_METHOD
    if method not in multiprocessing.get_all_start_methods():
        known = ", ".join(multiprocessing.get_all_start_methods())
        raise ValueError(f"multiprocessing_context {method!r} is not available on this platform: {known}")
    if method == "forkserver":
        # The default preloads the main module, which would rerun a script without a guard in the server.
        preloaded: list[str] = forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
        others = [module for module in preloaded if module not in ("__main__", _LAST)]
        forkserver.set_forkserver_preload([*dict.fromkeys([*others, _FIRST, preload]), _LAST])
    return multiprocessing.get_context(method)


_started: weakref.WeakSet[BaseProcess] = weakref.WeakSet()


def _leave_processes_to_parent() -> None:
    """Give a forked process, such as a worker of torch's DataLoader, its own fork server.

    Otherwise multiprocessing would end the parent's processes when the forked process ends.
    """
    forkserver._forkserver.__init__()  # type: ignore[misc]
    process._children.difference_update(_started)  # type: ignore[attr-defined]
    lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_processes_to_parent)


def _start_fork_server() -> None:
    """Start the fork server, if none runs, with Ctrl-C blocked; `_LAST` unblocks it there.

    Ctrl-C goes to the whole process group, and would end the server while it imports.
    """
    resource_tracker.ensure_running()  # it unblocks Ctrl-C
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def start_server(preload: str) -> None:
    """Start the fork server early, so that it imports a module before the first process is needed."""
    context_for(None, preload)
    with lock:
        _start_fork_server()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: a fork server ends where a request to it is cut."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *interrupt: held.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


def start(starting: BaseProcess) -> None:
    """Start a process, also from a daemon, such as a loader's worker.

    Daemons may not have children, which they would leave behind; ours end with their parent.
    """
    me = multiprocessing.current_process()
    with lock, _interrupts_held():
        daemon = me.daemon
        _starting.ours = True
        try:
            if daemon:
                me.daemon = False
            if getattr(starting, "_start_method", "") == "forkserver":
                _start_fork_server()
            starting.start()
            _started.add(starting)
        finally:
            _starting.ours = False
            if daemon:
                me.daemon = True


def become_worker() -> None:
    """Let this process work for its parent alone, with one thread of torch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    _end_with_parent()
    _refuse_breakpoints()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End this process when its parent ends, even while a user's function hangs."""
    parent = parent_process()
    if parent is not None:
        with suppress(ImportError, AttributeError, OSError):  # other platforms have the thread
            _end_by_signal(parent.sentinel)
        threading.Thread(target=_exit_after, args=(parent.sentinel,), name="penstock-watch-parent", daemon=True).start()


def _end_by_signal(sentinel: int) -> None:
    """Let SIGIO end this process: it needs no Python thread to run, which C code may prevent."""
    import fcntl

    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)


def _exit_after(sentinel: int) -> None:
    mp_connection.wait([sentinel])
    os._exit(1)


def _refuse_breakpoints() -> None:
    """Let `breakpoint()` raise RuntimeError in this process, which has no terminal, unless a debugger is configured.

    pdb would end by an error of its own there, at which a notebook's cell ends as if nothing had happened.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if "PYTHONBREAKPOINT" in os.environ:
            return sys.__breakpointhook__(*args, **kwargs)
        raise RuntimeError(
            "breakpoint() needs a terminal, which worker processes do not have: read with num_workers=0, or without a "
            "reading service, and call the function by map"
        )

    sys.breakpointhook = refuse


def describe_exit(exit_code: int | None) -> str:
    """Return how a process ended, in words.

    >>> describe_exit(-9), describe_exit(3)
    ('was killed by SIGKILL', 'ended with exit code 3')
    """
    if exit_code is not None and exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


def pickled_error(error: BaseException) -> bytes:
    """Return, as bytes, an error and a cause that shows its traceback as text.

    A RuntimeError that describes it replaces an error that cannot be pickled.
    """
    try:
        return _pickled(error)
    except Exception as failure:  # its class fails to look up attributes
        text = f"{type(error).__name__}: the error could not be pickled, nor described: {type(failure).__name__}"
        return bytes(cloudpickle.dumps((RuntimeError(text), None)))


def unpickled_error(pickled: bytes) -> BaseException:
    """Return the error, with its cause."""
    error: BaseException
    error, error.__cause__ = cloudpickle.loads(pickled)
    return error


def _pickled(error: BaseException) -> bytes:
    error.__traceback__ = folded_traceback(error.__traceback__)
    shown = traceback.TracebackException.from_exception(error)
    # Without the last lines, which repeat the error's message.
    cause = RemoteTraceback("".join([*shown.format()][: -len([*shown.format_exception_only()])]))
    notes = all_notes_of(error)
    with suppress(Exception):
        pickled = bytes(cloudpickle.dumps((_Call(_with_notes, error, notes), cause)))
        if _as_text(cloudpickle.loads(pickled)[0]) == _as_text(error):
            return pickled
    with suppress(Exception):
        pickled = bytes(cloudpickle.dumps((_value_of(error), cause)))
        cloudpickle.loads(pickled)
        return pickled
    stand_in = RuntimeError(f"{''.join(shown.format_exception_only())}(the error could not be pickled)")
    return bytes(cloudpickle.dumps((stand_in, cause)))


class _Call:
    """Pickles as the result of a call."""

    def __init__(self, make: Callable[..., BaseException], *arguments: Any) -> None:
        self._parts = make, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._parts


def _with_notes(error: BaseException, notes: list[str]) -> BaseException:
    """Return an error with notes, which a `__reduce__` of its class may have left out."""
    if notes:
        error.__notes__ = notes
    return error


def _by_value(
    kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any], notes: Any
) -> BaseException:
    """Return an error without calling its `__init__`, which may take other arguments than its `args`."""
    builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    # A group takes a text and errors, whatever else its subclass takes.
    taken = arguments[:2] if issubclass(kind, BaseExceptionGroup) else arguments
    error: BaseException = builtin.__new__(kind, *taken)
    error.args = arguments
    for name, value in attributes.items():
        with suppress(AttributeError, TypeError):  # read-only
            object.__setattr__(error, name, value)
    return _with_notes(error, notes)


def _value_of(part: Any) -> Any:
    """Return an error to pickle by value, or a list with such errors, as in an ExceptionGroup."""
    if isinstance(part, list):
        return [*map(_value_of, part)]
    if not isinstance(part, BaseException):
        return part
    attributes = {name: value for name, value in _attributes(part).items() if _pickles(value)}
    arguments = (*map(_value_of, part.args),)
    return _Call(_by_value, type(part), arguments, attributes, all_notes_of(part))


def _attributes(error: BaseException) -> dict[str, Any]:
    """Return the attributes of an error: its own, those in slots, and those of Python's errors, such as `errno`."""
    places = {
        name
        for base in type(error).__mro__
        for name, place in vars(base).items()
        if isinstance(place, (MemberDescriptorType, GetSetDescriptorType)) and not name.startswith("__")
    }
    found = {name: getattr(error, name, None) for name in sorted(places - {"args"})}
    found = {name: value for name, value in found.items() if value is not None}  # a filename2 of None would be shown
    return {**found, **{name: value for name, value in vars(error).items() if name != "__notes__"}}


def _pickles(value: object) -> bool:
    try:
        cloudpickle.loads(cloudpickle.dumps(value))
    except Exception:
        return False
    return True


def _as_text(error: BaseException) -> str:
    return f"{type(error).__qualname__}: {error}, {error.args!r}, {_attributes(error)!r}"
