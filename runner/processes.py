"""Starting worker processes that need nothing of the main program."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing import forkserver, spawn
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

__all__ = ["PREPARATIONS", "START_METHOD", "context_for", "describe_exit", "start"]

START_METHOD = "forkserver"
"""Not fork: it breaks the Rust and C++ clients that the parent may have used. Spawn costs an import for each worker."""

PRELOAD = "penstock.runner.worker"

PREPARATIONS: list[Callable[[], object]] = []
"""What every worker calls before it loads anything of the program's."""

_starting = threading.local()
_preparation_data = spawn.get_preparation_data


def _preparation_data_without_main(name: str) -> dict[str, Any]:
    """Leave out the main module where one of our workers is being started.

    A worker gets all it runs by cloudpickle. Importing the main module would run a script once more that has no
    `if __name__ == "__main__"`.
    """
    data = _preparation_data(name)
    if getattr(_starting, "worker", False):
        data.pop("init_main_from_path", None)
        data.pop("init_main_from_name", None)
    return data


spawn.get_preparation_data = _preparation_data_without_main


def context_for(start_method: str | None) -> BaseContext:
    """Return the multiprocessing context of a start method; ValueError where the platform does not have it."""
    method = start_method or START_METHOD
    if method not in multiprocessing.get_all_start_methods():
        known = ", ".join(multiprocessing.get_all_start_methods())
        raise ValueError(f"multiprocessing_context {method!r} is not one of this platform's: {known}")
    if method == "forkserver":
        # The default preloads the main module, which runs a script without a guard once more, in the server.
        preloaded: list[str] = forkserver._forkserver._preload_modules  # type: ignore[attr-defined]
        others = [module for module in preloaded if module != "__main__"]
        forkserver.set_forkserver_preload([*dict.fromkeys([*others, PRELOAD])])
    return multiprocessing.get_context(method)


def start(process: BaseProcess) -> None:
    """Start a worker process."""
    _starting.worker = True
    try:
        process.start()
    finally:
        _starting.worker = False


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
