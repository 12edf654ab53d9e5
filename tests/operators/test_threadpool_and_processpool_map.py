"""threadpool_map and processpool_map: ordered, bounded, resumed exactly, ended promptly, and nothing is left behind."""

import functools
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from itertools import islice

import psutil
import pytest
import torch

import penstock as ps
import penstock.workers.threads as threads_of_a_pass
from left_behind import collecting_garbage_is_quick, nothing_is_left_behind, our_processes, our_threads  # noqa: F401  (fixtures)
from penstock.workers import calls

pytestmark = pytest.mark.timeout(30)

numbers = ps.iter.IterableWrapper
NAMES = {"threadpool_map": ("max_workers", "scheduled_tasks"), "processpool_map": ("workers", "prefetch")}
"""Of each, how many work at once and how many items are read ahead: torchdata's names, and ours."""
METHODS = tuple(NAMES)
either = pytest.mark.parametrize("method", METHODS)


def mapped(source, method, fn, **options):
    workers, prefetch = NAMES[method]
    if "prefetch" in options:
        options[prefetch] = options.pop("prefetch")
    return getattr(source, method)(fn, **{workers: 2, **options})


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


LARGE = 50_000
"""As many numbers as travel in shared memory."""


def slower_at_first(x):
    time.sleep(0.05 if x % 4 == 0 else 0)
    return x * 10


# what comes out


@either
def test_results_come_in_the_order_of_the_items(method):
    dp = mapped(numbers(range(12)), method, slower_at_first, prefetch=5)
    assert list(dp) == list(dp) == [x * 10 for x in range(12)]
    assert len(dp) == 12


@either
def test_without_order_results_come_as_they_are_ready(method, tmp_path):
    gate = tmp_path / "gate"

    def first_waits_for_the_last(x):
        while x == 0 and not gate.exists():
            time.sleep(0.001)
        if x == 5:
            gate.touch()
        return x

    dp = mapped(numbers(range(6)), method, first_waits_for_the_last, ordered=False)
    seen = list(dp)
    assert seen[0] != 0
    assert sorted(seen) == list(range(6))


@either
def test_columns_as_for_map(method):
    rows = numbers([(1, 2, "a"), (3, 4, "b")])
    assert list(mapped(rows, method, lambda x, y: x + y, input_col=[0, 1], output_col=[-1])) == [
        (1, 2, "a", 3),
        (3, 4, "b", 7),
    ]


@either
def test_the_consumer_pulls_no_more_items_than_are_scheduled(method):
    pulled, readers = [], set()

    def seen(x):
        pulled.append(x)
        readers.add(threading.current_thread())
        return x

    running = iter(mapped(numbers(range(100)).map(seen), method, abs, prefetch=4))
    assert pulled == []
    for handed_out in range(1, 5):
        next(running)
        assert len(pulled) == 3 + handed_out
    assert readers == {threading.current_thread()}


def test_threads_take_what_thread_pool_executor_takes():
    made = []
    dp = numbers(range(3)).threadpool_map(
        lambda _: threading.current_thread().name,
        max_workers=1,
        thread_name_prefix="mine",
        initializer=made.append,
        initargs=(7,),
    )
    assert set(dp) == {"mine_0"}
    assert made == [7]


# errors


def inverse(x):
    return 1 / (x - 2)


@either
@pytest.mark.parametrize("where", ["fn", "source"])
def test_an_error_comes_in_its_turn_and_names_its_item(method, where):
    source = numbers(range(9)).map(inverse) if where == "source" else numbers(range(9))
    dp = mapped(source, method, inverse if where == "fn" else abs)
    running = iter(dp)
    assert len(list(islice(running, 2))) == 2
    with pytest.raises(ZeroDivisionError) as caught:
        next(running)
    operator = type(dp).__name__ if where == "fn" else "Mapper"
    (note,) = caught.value.__notes__
    assert note.startswith(f"penstock: raised in {operator}(inverse")
    assert note.endswith(", on 2")
    assert "in inverse" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(StopIteration):
        next(running)


@either
def test_stop_iteration_out_of_the_function_does_not_end_the_stream(method):
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        list(mapped(numbers(range(4)), method, lambda x: next(iter([])) if x == 2 else x))
    assert caught.value.__notes__[0].endswith(", on 2")


def fails_at_odd(x):
    if x % 2:
        raise ValueError(f"odd: {x}")
    return x


@either
def test_items_that_fail_are_skipped_and_counted_in_order(method):
    dp = mapped(numbers(range(6)), method, fails_at_odd, on_error=ps.Skip(2))
    running = iter(dp)
    assert list(islice(running, 3)) == [0, 2, 4]
    with pytest.raises(ValueError, match="odd: 5") as caught:
        next(running)
    assert any(note.endswith(", on 5") for note in caught.value.__notes__)
    assert dp.stats()[method]["skipped"] == 2
    assert dp.stats()[method]["last_errors"][0] == "ValueError: odd: 1, on 1"
    with pytest.raises(TypeError, match="length is unknown"):
        len(dp)


@either
def test_attempts_are_made_again_and_counted_in_this_process(method, tmp_path):
    def works_the_second_time(x):
        seen = tmp_path / str(x)
        if not seen.exists():
            seen.touch()
            raise OSError("not yet")
        return x

    dp = mapped(numbers(range(5)), method, works_the_second_time, on_error=ps.Retry(2, backoff=0))
    assert list(dp) == list(range(5))
    assert dp.stats()[method]["retried"] == 5


# processes


class Model:
    """Costly to make: says in a file that it was."""

    def __init__(self, folder, factor=1):
        self.factor = factor
        (folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()

    def __call__(self, x):
        return x * self.factor, os.getpid()


def test_a_class_is_made_once_in_each_process_and_kept_from_pass_to_pass(tmp_path):
    class Here(Model):
        def __init__(self):
            super().__init__(tmp_path)

    dp = numbers(range(20)).processpool_map(Here, workers=2)
    processes = {process for _ in range(3) for _, process in dp}
    assert len(list(tmp_path.iterdir())) == len(processes) == len(our_processes()) == 2
    assert os.getpid() not in processes
    with_arguments = numbers([2]).processpool_map(functools.partial(Model, tmp_path, factor=3), workers=1)
    assert [x for x, _ in with_arguments] == [6]
    assert list(numbers(["1"]).processpool_map(int, workers=1)) == [1]  # its instances cannot be called


def test_a_class_that_cannot_be_made_is_an_error_of_no_item():
    class Broken:
        def __init__(self):
            raise OSError("no weights")

        def __call__(self, x):
            return x

    with pytest.raises(OSError, match="no weights") as caught:
        list(numbers(range(3)).processpool_map(Broken, workers=1, on_error="skip"))
    (note,) = caught.value.__notes__
    assert note.startswith("penstock: raised in ProcessPoolMapper(")
    assert note.endswith("before it was ready for items")


@pytest.mark.parametrize(
    ("die", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os._exit(7), "ended with exit code 7"),
        (lambda: sys.exit(3), "ended with exit code 3"),
    ],
    ids=["killed", "exits at once", "exits"],
)
def test_the_death_of_a_process_is_an_error_that_says_how_and_on_which_item(die, how):
    dp = numbers(range(9)).processpool_map(lambda x: die() if x == 4 else x, workers=2)
    for _ in range(2):  # the pass after it begins with a new process
        running = iter(dp)
        assert list(islice(running, 4)) == [0, 1, 2, 3]
        with pytest.raises(RuntimeError, match=how) as caught:
            next(running)
        assert caught.value.__notes__[0].endswith(", on 4")


def test_a_death_is_seen_while_a_child_of_the_process_lives_on(tmp_path):
    def dies_as_a_parent(x):
        child = os.fork()
        if child == 0:
            time.sleep(100)
            os._exit(0)
        (tmp_path / "child").write_text(str(child))
        os._exit(1)

    with pytest.raises(RuntimeError, match="ended with exit code 1"):
        list(numbers([1]).processpool_map(dies_as_a_parent, workers=1))
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_large_item_on_which_the_process_dies_is_skipped_like_any_failure():
    class Point:
        def __init__(self, x):
            self.x = x

    def fn(point):
        if point.x[0] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return Point(point.x + 1)

    items = numbers(range(5)).map(lambda x: Point(torch.full((LARGE,), x)))
    dp = items.processpool_map(fn, workers=2, on_error="skip")
    assert [set(point.x.tolist()) for point in dp] == [{1}, {2}, {4}, {5}]
    assert dp.stats()["processpool_map"]["skipped"] == 1


@pytest.mark.parametrize(
    ("items", "fn", "what"),
    [
        ([1], functools.partial(pow, threading.Lock()), "fn captures 'base', which cannot be pickled"),
        ([threading.Lock()], id, "what fn is to be called with cannot be pickled"),
        ([1], lambda x: (y for y in [x]), "what fn returned cannot be pickled"),
    ],
    ids=["fn", "item", "result"],
)
def test_what_cannot_be_pickled_is_named(items, fn, what):
    with pytest.raises((TypeError, pickle.PicklingError)) as caught:
        list(numbers(items, deepcopy=False).processpool_map(fn, workers=1))
    assert any(what in note for note in caught.value.__notes__)


def lies_in_shared_memory(tensor):
    with open("/proc/self/maps") as maps:
        areas = [line.split()[0].split("-") for line in maps if "memfd:penstock" in line]
    return any(int(low, 16) <= tensor.data_ptr() < int(high, 16) for low, high in areas)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux tells what lies where")
def test_large_tensors_go_both_ways_in_shared_memory_that_is_used_again():
    def fn(tensor):
        return tensor + 1, lies_in_shared_memory(tensor), tensor.data_ptr()

    items = numbers(range(20)).map(lambda x: torch.full((LARGE,), x))
    places = set()
    for number, (result, shared, place) in enumerate(items.processpool_map(fn, workers=1, prefetch=1)):
        assert (result == number + 1).all()
        assert shared
        assert lies_in_shared_memory(result)
        places.add(place)
    assert len(places) <= 2  # the process had let go of all of them


def test_a_function_may_keep_what_it_was_called_with():
    class Keeps:
        def __init__(self):
            self.kept = []

        def __call__(self, tensor):
            self.kept.append(tensor[:10])
            return [part.tolist() for part in self.kept[-100:]]

    items = numbers(range(90)).map(lambda x: torch.full((LARGE,), x))  # more than there may be blocks
    assert list(items.processpool_map(Keeps, workers=1))[-1] == [[x] * 10 for x in range(90)]


class BreaksAtArrival:
    """Raises where it is unpickled, and has much to carry."""

    def __init__(self, process):
        self.process = process
        self.load = torch.zeros(LARGE)

    def __setstate__(self, state):
        if os.getpid() != state["process"]:
            raise ValueError("broken on the way")


def test_what_cannot_be_unpickled_is_an_error_of_its_item_and_the_process_goes_on():
    here = os.getpid()
    dp = numbers([BreaksAtArrival(here), 1, 2], deepcopy=False).processpool_map(
        lambda x: BreaksAtArrival(os.getpid()) if x == 1 else os.getpid(), workers=1, on_error=ps.Skip(2)
    )
    first = list(dp)
    assert first == list(dp)
    assert first[0] != here
    assert dp.stats()["processpool_map"]["last_errors"][0].startswith("ValueError: broken on the way")
    assert dp.stats()["processpool_map"]["skipped"] == 2


def test_processes_do_not_draw_the_same_random_numbers(tmp_path):
    def draws(_):
        (tmp_path / str(os.getpid())).touch()
        wait_until(lambda: len(os.listdir(tmp_path)) == 2)  # so that each process gets some
        return os.getpid(), torch.rand(()).item()

    seen = list(numbers(range(6)).processpool_map(draws, workers=2))
    assert len({process for process, _ in seen}) == 2
    assert len({number for _, number in seen}) == 6


def test_the_processes_end_with_their_pipe():
    dp = numbers(range(3)).processpool_map(abs, workers=2)
    running = iter(dp)
    next(running)
    gc.disable()
    try:
        pids = our_processes()  # maybe the first only: the other may still be starting
        assert pids
        del dp, running
        assert our_processes() == []
        assert not any(map(psutil.pid_exists, pids))
    finally:
        gc.enable()


def test_a_copy_of_the_pipe_by_fork_leaves_the_processes_alone():
    dp = numbers(range(4)).processpool_map(lambda x: (x, os.getpid()), workers=1)
    [process] = {process for _, process in dp}
    loader = torch.utils.data.DataLoader(dp, batch_size=None, num_workers=1, multiprocessing_context="fork", timeout=20)
    seen = [(int(x), int(pid)) for x, pid in loader]
    assert [x for x, _ in seen] == [0, 1, 2, 3]
    assert process not in {pid for _, pid in seen}
    assert {pid for _, pid in dp} == {process}


def test_inside_the_workers_of_a_loader_each_has_its_processes():
    dp = numbers(range(8)).sharding_filter().processpool_map(lambda x: x * 10, workers=1)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        assert sorted(loader) == sorted(loader) == [x * 10 for x in range(8)]
        workers = [
            psutil.Process(child.pid)
            for child in multiprocessing.active_children()
            if child.name.startswith("penstock-worker")
        ]
        theirs = [child for worker in workers for child in worker.children(recursive=True)]
    assert len(workers) == 2
    assert theirs
    _, alive = psutil.wait_procs(theirs, timeout=10)
    assert alive == []


# giving up


@pytest.mark.parametrize(
    ("method", "end"),
    [
        ("threadpool_map", "close"),
        ("threadpool_map", "prefetch"),
        ("processpool_map", "drop"),
        ("processpool_map", "replace"),
    ],
)
def test_giving_up_drops_what_has_not_begun(method, end, tmp_path):
    def fn(x):
        (tmp_path / str(x)).touch()
        time.sleep(0.02)
        return x

    dp = mapped(numbers(range(1000)), method, fn)
    if end == "prefetch":
        dp = dp.prefetch(1)
    running = iter(dp)
    next(running)
    if end in ("close", "prefetch"):
        running.close()
    elif end == "replace":
        iter(dp)
    del running
    assert our_threads() == []
    begun = len(list(tmp_path.iterdir()))
    assert begun < 60
    time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) == begun


def test_a_function_that_hangs_in_a_thread_is_an_error_at_close(monkeypatch):
    monkeypatch.setattr(threads_of_a_pass.Threads.__init__, "__defaults__", (0.2, None))
    hanging, release = threading.Event(), threading.Event()
    dp = numbers(["a", "b"]).threadpool_map(
        lambda x: (hanging.set(), release.wait(20)) if x == "b" else x, max_workers=2
    )
    running = iter(dp)
    next(running)
    assert hanging.wait(10)
    with pytest.raises(RuntimeError, match=r"still running 0.2 s after it was cancelled: 'b'"):
        running.close()
    release.set()
    [thread.join(10) for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_a_function_that_hangs_in_a_process_is_killed_at_close(monkeypatch, tmp_path):
    monkeypatch.setattr(calls, "_PATIENCE_WITH_ITEM", 0.2)

    def fn(x):
        if x == 1:
            (tmp_path / "hangs").touch()
            time.sleep(100)
        return x, os.getpid()

    dp = numbers(range(2)).processpool_map(fn, workers=2)
    running = iter(dp)
    next(running)
    wait_until((tmp_path / "hangs").exists)
    running.close()
    assert our_threads() == []
    assert next(iter(dp))[0] == 0


@either
def test_a_wait_before_another_attempt_ends_with_the_pass(method):
    def fails(x):
        if x:
            raise OSError("down")
        return x

    dp = mapped(numbers(range(2)), method, fails, on_error=ps.Retry(9, backoff=1000))
    running = iter(dp)
    next(running)
    wait_until(lambda: dp.stats()[method]["retried"])
    running.close()
    assert our_threads() == []


def test_a_consumer_in_another_thread_is_woken_when_it_gives_up(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(threads_of_a_pass.Threads.__init__, "__defaults__", (0.2, None))
    dp = numbers(range(2)).threadpool_map(lambda x: release.wait(100) if x else x, max_workers=2).prefetch(1)
    running = iter(dp)
    next(running)
    time.sleep(0.05)  # the thread that prefetches waits for the second item
    running.close()
    assert "penstock-prefetch" not in our_threads()
    release.set()
    [thread.join(10) for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_a_program_that_ends_with_live_iterators_ends(tmp_path):
    script = tmp_path / "script.py"  # without `if __name__ == "__main__"`
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, time, torch
            import penstock as ps
            print("run")
            async def waits(x):
                await asyncio.sleep(x * 100)
            source = ps.iter.IterableWrapper(range(10000))
            live = [
                iter(source.threadpool_map(lambda x: time.sleep(0.05), max_workers=2)),
                iter(source.processpool_map(lambda x: time.sleep(0.05), workers=1)),
                iter(source.processpool_map(lambda x: time.sleep(60 if x else 0), workers=2)),
                iter(source.async_map_batches(waits, 5)),
                iter(source.map(lambda x: torch.rand(300, 300) @ torch.rand(300, 300)).prefetch(3).prefetch(100)),
            ]
            for running in live:
                next(running)
            time.sleep(0.3)
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stdout, done.stderr) == (0, "run\n", "")


def test_processes_end_when_their_parent_is_killed():
    script = textwrap.dedent(
        """
        import multiprocessing, time
        import penstock as ps
        source = ps.iter.IterableWrapper(range(9))
        running = iter(source.processpool_map(lambda x: time.sleep(99 if x else 0), workers=2))
        next(running)
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
        time.sleep(99)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        parent.wait(20)
    assert children
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_ctrl_c_ends_a_pass_and_its_processes(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, threading, time
        import penstock as ps
        source = ps.iter.IterableWrapper(range(9))
        running = iter(source.processpool_map(lambda x: time.sleep(99 if x else 0), workers=2))
        next(running)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            next(running)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_thread_that_is_being_started_is_waited_for_when_all_are_stopped(monkeypatch):
    start, begun = threading.Thread.start, threading.Event()

    def start_slowly(thread):
        if thread.name.startswith("penstock-crew"):
            begun.set()
            time.sleep(0.3)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    threads = threads_of_a_pass.Threads(lambda: abs, 4, "penstock-crew")
    submitting = threading.Thread(target=threads.submit, args=(0, -1))
    submitting.start()
    assert begun.wait(20)
    threads.stop()
    assert our_threads() == []
    submitting.join()
