"""However a loader, its program or another process of it ends, and however long it is read: nothing piles up."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import SHARDING_PRIORITIES

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("nothing_is_left_behind")]

BEFORE = """
import os, sys, warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # of forks, from Python 3.12 on
print(os.getsid(0), file=sys.stderr)
"""

DIVIDED = {
    "sharded": lambda dp: dp.sharding_filter(),
    "dispatched": lambda dp: dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
}


def batch(numbers):
    return {"tensor": torch.full((100, 100), numbers[0]), "array": np.full((100, 100), numbers[-1])}


def held():
    """What this process and its workers hold: bytes, descriptors and threads of each."""
    gc.collect()
    processes = [psutil.Process(), *map(psutil.Process, sorted(each.pid for each in multiprocessing.active_children()))]
    return [(each.memory_full_info().uss, each.num_fds(), each.num_threads()) for each in processes]


made = []


def made_slowly(number):
    item = np.zeros(number)
    made.append(weakref.ref(item))
    time.sleep(0.7)  # the worker's watch looks every 0.25 s
    return number


def is_gone(number):
    time.sleep(0.02)  # it may be looking at this moment
    return made[-1]() is None


def test_what_a_worker_makes_is_gone_when_it_is_done_whoever_watches():
    dp = ps.iter.IterableWrapper([1, 2]).map(made_slowly).map(is_gone)
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(1)) as loader:
        assert list(loader) == [True, True]


@pytest.mark.parametrize("divide", DIVIDED.values(), ids=DIVIDED)
def test_over_200_epochs_nothing_grows(divide):
    dp = divide(ps.iter.IterableWrapper(range(48)).shuffle()).map(abs).batch(4).map(batch)
    service = MultiProcessingReadingService(2, worker_prefetch_cnt=2, main_prefetch_cnt=2)
    samples = []
    with DataLoader2(dp, reading_service=service) as loader:
        for epoch in range(200):
            for taken, _ in enumerate(loader):
                if epoch % 4 == 3 and taken == 2:
                    break
            if epoch in (
                25,
                50,
                75,
                100,
            ):  # in one of them, few items may be in flight
                samples.append(held())
        list(loader)
        after = held()
    before = [tuple(map(max, *of_process)) for of_process in zip(*samples, strict=True)]
    assert len(after) == len(before) >= 3
    for (bytes_before, *counts_before), (bytes_after, *counts_after) in zip(before, after, strict=True):
        assert bytes_after - bytes_before < 5 * 2**20
        # A descriptor for each block, of which there are as many as items in flight: those given up, and the next.
        assert all(now <= then + 10 for now, then in zip(counts_after, counts_before, strict=True))


def test_giving_up_epochs_of_large_items_with_full_queues_leaves_nothing():
    dp = ps.iter.IterableWrapper(range(1000)).sharding_filter().map(lambda x: torch.full((500, 500), x))
    gc.disable()  # what an epoch held goes with it, not when garbage is collected
    try:
        with DataLoader2(dp, reading_service=MultiProcessingReadingService(2, worker_prefetch_cnt=4)) as loader:
            for epoch in range(100):
                assert [int(item[0, 0]) for item in islice(loader, 3)] == [0, 1, 2]
                if epoch == 10:
                    before = held()
            after = held()
    finally:
        gc.enable()
    for (bytes_before, *counts_before), (bytes_after, *counts_after) in zip(before, after, strict=True):
        assert bytes_after - bytes_before < 40 * 2**20  # 20 items: fewer than there were epochs
        assert all(now <= then + 15 for now, then in zip(counts_after, counts_before, strict=True))


PROGRAM = """
import atexit, ctypes, os, signal, sys, threading, time
import torch
import penstock as ps
from penstock.registry import SHARDING_PRIORITIES as P

def loader_over(fn=lambda x: torch.full((100, 100), x), prefetch=10):
    dp = ps.iter.IterableWrapper(range(100_000)){divided}.map(fn)
    return ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2, main_prefetch_cnt=prefetch))

def read(loader):
    for _ in loader:
        read_some.set()

read_some = threading.Event()
flag = "{flag}"

def stuck_at_60(x):
    if x == 60:
        open(flag, "w").close()
        ctypes.PyDLL(None).sleep(99)
    return x

def until_stuck():
    iterator = iter(loader_over(stuck_at_60))
    while not os.path.exists(flag):
        next(iterator)
        time.sleep(0.02)
    return iterator

"""

ENDS = {
    "with an iterator held by a global": ("iterator = iter(loader_over())\nnext(iterator)", 0, ""),
    "in a loop": ("for _ in loader_over():\n    sys.exit(3)", 3, ""),
    "by an error": ("for _ in loader_over():\n    raise KeyError('mine')", 1, "KeyError: 'mine'"),
    # Numbers: before Python 3.14, a daemon thread that ends inside torch's C++ aborts the program, with any loader.
    "while a thread reads": (
        "threading.Thread(target=read, args=(loader_over(abs, prefetch=0),), daemon=True).start()\nread_some.wait()",
        0,
        None,  # the thread may see its workers end
    ),
    "while a worker is stuck": (
        """
iterator = until_stuck()
""",
        0,
        "",
    ),
    "by kill -9": ("iterator = iter(loader_over())\nnext(iterator)\nos.kill(os.getpid(), 9)", -9, ""),
    "by kill -9 while a worker is stuck in C": (
        """
iterator = until_stuck()
os.kill(os.getpid(), 9)
""",
        -9,
        "",
    ),
    "after a fork": (
        """
loader = loader_over()
iterator = iter(loader)
next(iterator)
if os.fork() == 0:
    del iterator, loader
    sys.exit(0)
assert os.wait()[1] == 0
for expected in range(1, 200):
    assert int(next(iterator)[0, 0]) == expected
""",
        0,
        "",
    ),
}


def processes_of(session):
    alive = []
    for each in psutil.pids():
        try:
            if os.getsid(each) == session and psutil.Process(each).status() != psutil.STATUS_ZOMBIE:
                alive.append(each)
        except (OSError, psutil.NoSuchProcess):
            pass
    return alive


def run(code):
    """Run a program in a session of its own, and return its exit code and what it said, when all of it has ended."""
    command = [sys.executable, "-c", BEFORE + code]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        session = int(run.stderr.readline())
        try:
            # Its processes have the same standard error: this waits for their ends, too.
            _, said = run.communicate(timeout=60)
            deadline = time.monotonic() + 10
            while processes_of(session) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert processes_of(session) == []
        finally:
            for process in processes_of(session):
                os.kill(process, signal.SIGKILL)
        return run.returncode, said


@pytest.mark.parametrize(
    "divided", [".sharding_filter()", ".sharding_round_robin_dispatch(P.MULTIPROCESSING)"], ids=[*DIVIDED]
)
@pytest.mark.parametrize(("code", "exit_code", "said"), ENDS.values(), ids=ENDS)
def test_a_program_ends_with_all_its_processes(divided, code, exit_code, said, tmp_path):
    program = PROGRAM.replace("{divided}", divided).replace("{flag}", str(tmp_path / "stuck"))
    ended, errors = run(program + code)
    assert ended == exit_code, errors
    if said is not None:
        assert (errors.splitlines() or [""])[-1] == said


KILLED = {
    "a loader with workers": "iterator = iter(loader_over())",
    "a pool of processes": "iterator = iter(ps.iter.IterableWrapper(range(100)).processpool_map(abs, workers=2))",
    "a large file of columns": """
import fsspec
fsspec.filesystem("memory").pipe("/numbers.csv", b"a\\n" + b"1\\n" * 2**25)
iterator = iter(ps.iter.IterableWrapper(["memory://numbers.csv"]).read_csv())
""",
}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere shared memory is on disk")
@pytest.mark.parametrize("code", KILLED.values(), ids=KILLED)
def test_kill_9_leaves_no_files(code, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="killed", dir="/tmp") as name:  # short, as the paths of sockets must be
        leave_no_files(code, Path(name), monkeypatch)


def leave_no_files(code, folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(folder))
    shared_before = {*os.listdir("/dev/shm")}
    program = PROGRAM.replace("{divided}", ".sharding_filter()").replace("{flag}", "")
    ended, errors = run(program + code + "\nnext(iterator)\nos.kill(os.getpid(), 9)")
    assert ended == -9, errors
    assert [path for path in folder.iterdir() if not path.name.startswith("pymp-")] == []  # multiprocessing's socket
    assert {name for name in os.listdir("/dev/shm") if "torch" in name or "penstock" in name} <= shared_before


def test_torchs_loader_forks_while_ours_is_read():
    numbers = ps.iter.IterableWrapper(range(500)).sharding_filter().map(lambda x: torch.full((100, 100), x))
    with DataLoader2(numbers, reading_service=MultiProcessingReadingService(2)) as loader:
        running = iter(loader)
        assert int(next(running)[0, 0]) == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks while there are threads
            theirs = torch.utils.data.DataLoader(range(20), num_workers=2, multiprocessing_context="fork")
            assert [int(item) for item in theirs] == [*range(20)]
        assert [int(item[0, 0]) for item in running] == [*range(1, 500)]


def test_loaders_in_threads_that_start_at_once():
    seen, go = {}, threading.Barrier(3)

    def read(number):
        dp = ps.iter.IterableWrapper(range(100)).sharding_filter().map(lambda x: x * number)
        go.wait()
        with DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as loader:
            seen[number] = [list(loader) for _ in range(2)]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == {number: [[x * number for x in range(100)]] * 2 for number in range(3)}


def test_how_workers_of_several_threads_ended_is_told_to_each():
    """Asking how a process ended, from two threads at once, could give another exit code."""
    said, go = [], threading.Barrier(4)

    def read(code):
        dp = ps.iter.IterableWrapper(range(10)).sharding_filter().map(lambda x: os._exit(code) if x == 5 else x)
        go.wait()
        for _ in range(5):
            with DataLoader2(dp, reading_service=MultiProcessingReadingService(1)) as loader:
                try:
                    list(loader)
                except RuntimeError as error:
                    said.append(f"exit code {code}" in str(error))

    threads = [threading.Thread(target=read, args=(code,)) for code in range(11, 15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert said == [True] * 20
