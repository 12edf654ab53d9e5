"""Fixtures of files whose tests may leave nothing behind: no thread, no process of a pool, no open descriptor."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Iterator

import psutil
import pytest

import penstock as ps


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock")]


def our_processes() -> list[int | None]:
    return [child.pid for child in multiprocessing.active_children() if child.name == "penstock-processpool"]


@pytest.fixture(scope="module", autouse=True)
def collecting_garbage_is_quick() -> Iterator[None]:
    """What the modules hold is not looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    list(ps.iter.IterableWrapper([1]).processpool_map(abs, workers=1))  # the fork server stays for the next pool
    gc.collect()
    before = psutil.Process().num_fds()
    yield
    gc.collect()
    assert our_threads() == []
    assert our_processes() == []
    assert psutil.Process().num_fds() <= before
