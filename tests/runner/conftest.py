"""What a test of the runner must leave as it found it."""

import gc
import multiprocessing
import os
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService

SHARED_MEMORY = Path("/dev/shm")


def left():
    """All that could be left behind, by kind, apart from descriptors."""
    server = forkserver._forkserver._forkserver_pid
    return {
        "children": {child.name for child in multiprocessing.active_children() if child.name.startswith("penstock")},
        "processes": {child.pid for child in psutil.Process(server).children(recursive=True)} if server else set(),
        "threads": {each.name for each in threading.enumerate() if each.name.startswith("penstock")},
        "shared memory": segments(),
        "blocks": {fd for fd in os.listdir("/proc/self/fd") if is_block(fd)}
        if os.path.isdir("/proc/self/fd")
        else set(),
    }


def segments():
    """The names in shared memory but those of semaphores: they lose theirs when they are made, whoever does so."""
    found = SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ()
    return {path.name for path in found if not path.name.startswith("sem.")}


def is_block(descriptor):
    try:
        return "memfd:penstock" in os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the listing itself
        return False


def left_since(before):
    return {kind: now - before[kind] for kind, now in left().items() if now - before[kind]}


@pytest.fixture
def nothing_is_left_behind():
    """After the test: no process, no thread of ours, no shared memory, no more descriptors than before."""
    dp = ps.iter.IterableWrapper(range(2)).sharding_filter()
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(1)) as warm:
        list(warm)  # the fork server and its pipes stay for the next loader
    gc.collect()
    before, descriptors = left(), psutil.Process().num_fds()
    yield
    gc.collect()
    assert left_since(before).keys() <= {"processes", "shared memory"}
    deadline = time.monotonic() + 10  # the fork server may hear of an end later, and others use shared memory, too
    while left_since(before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_since(before) == {}
    assert psutil.Process().num_fds() <= descriptors
