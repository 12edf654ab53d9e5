"""Whatever breaks under the runner is one error, at once, that says where; and nothing is left behind."""

import ctypes
import gc
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import psutil
import pytest
import torch

import penstock as ps
from passing import Passing
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import SHARDING_PRIORITIES

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("nothing_is_left_behind")]


def loader_over(fn, items=10, workers=2, **options):
    dp = ps.iter.IterableWrapper(range(items)).sharding_filter().map(fn)
    return DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, **options))


def workers_alive():
    return [child for child in multiprocessing.active_children() if child.name.startswith("penstock-worker")]


def at_five(action):
    return lambda x: action() if x == 5 else x


def be_stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)  # a process is stopped a moment later, and its threads run on until then


def test_a_function_that_raises_keeps_its_type_and_says_operator_item_worker_and_shard():
    with loader_over(lambda x: 1 // (x - 5)) as loader:
        running = iter(loader)
        assert [next(running) for _ in range(5)] == [-1] * 5
        with pytest.raises(ZeroDivisionError) as caught:
            next(running)
    where, worker = caught.value.__notes__
    assert where == "penstock: raised in Mapper(<lambda>), on 5"
    assert worker.startswith("penstock: in worker 1 of 2, shard 1 of 2 (process ")
    assert worker.endswith(")")
    assert "in <lambda>" in "".join(traceback.format_exception(caught.value))


def slowly(action):
    """Do it after long enough to be seen at it."""

    def act():
        time.sleep(1)
        action()

    return act


DEATHS = pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os._exit(7), "ended with exit code 7"),
        (lambda: sys.exit(3), r"ended with exit code 3; it was at Mapper\(<lambda>\), on 5"),
        (slowly(lambda: os.kill(os.getpid(), signal.SIGKILL)), r"was killed by SIGKILL; it was at Mapper\(.*\), on 5"),
        (slowly(lambda: os._exit(7)), r"ended with exit code 7; it was at Mapper\(<lambda>\), on 5"),
        (lambda: ctypes.string_at(0), r"was killed by SIGSEGV; the line that crashed was .*ctypes.*, in string_at"),
    ],
    ids=["killed", "exits at once", "exits", "killed at a slow item", "exits at a slow item", "crashes"],
)


@DEATHS
def test_a_worker_that_dies_is_named_with_how_it_ended_and_what_it_was_at(action, said):
    with loader_over(at_five(action)) as loader:
        with pytest.raises(RuntimeError, match=rf"worker 1 of 2 \(process \d+\) {said}") as caught:
            list(loader)
        assert "penstock: waiting for the next item of shard 1 of 2" in caught.value.__notes__
        assert workers_alive() == []


@pytest.mark.parametrize("prefetch", [0, 10])
def test_a_function_that_hangs_is_waited_for_as_long_as_the_timeout_says(prefetch):
    with loader_over(at_five(lambda: time.sleep(99)), timeout=1.5, main_prefetch_cnt=prefetch) as loader:
        running = iter(loader)
        assert [next(running) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(TimeoutError, match=r"worker 1 of 2 .* no item for timeout=1.5 s; it was at Mapper.*, on 5"):
            next(running)
        assert workers_alive() == []
        assert next(iter(loader)) == 0


def test_a_slow_item_is_waited_for_without_a_timeout_and_is_not_told_of_later():
    def slow_then_dead(x):
        if x == 1:
            time.sleep(3)
        if x == 3:
            os._exit(1)
        return x

    with loader_over(slow_then_dead) as loader:
        running = iter(loader)
        assert [next(running) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(RuntimeError, match="ended with exit code 1; what it printed"):
            next(running)


def test_a_worker_that_was_stopped_is_an_error():
    with loader_over(at_five(be_stopped)) as loader:
        running = iter(loader)
        assert [next(running) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(RuntimeError, match=r"worker 1 of 2 \(process \d+\) was stopped, as by SIGSTOP"):
            next(running)
        assert workers_alive() == []
        assert next(iter(loader)) == 0


def test_a_worker_killed_from_outside_ends_the_epoch_and_the_next_has_new_workers():
    with loader_over(lambda x: time.sleep(0.01) or x, items=500) as loader:
        running = iter(loader)
        next(running)
        victim = workers_alive()[0]
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
            list(running)
        assert next(iter(loader)) == 0


def test_an_item_that_cannot_be_pickled_is_named():
    with loader_over(at_five(threading.Lock)) as loader, pytest.raises(TypeError, match="cannot pickle") as caught:
        list(loader)
    notes = "\n".join(caught.value.__notes__)
    assert "could not be pickled" in notes
    assert "raised in Mapper(<lambda>), on <unlocked _thread.lock" in notes


def raising(error):
    raise error("on purpose")


@pytest.mark.parametrize("error", [EOFError, ConnectionResetError, StopIteration])
def test_an_item_that_cannot_be_unpickled_is_named(error):
    class Item:
        def __reduce__(self):
            return raising, (error,)

    with (
        loader_over(lambda _: Item(), workers=1) as loader,
        pytest.raises(RuntimeError, match=rf"an item of shard 0 cannot be unpickled: {error.__name__}"),
    ):
        list(loader)


def test_a_chain_that_cannot_be_pickled_is_an_error_at_the_first_item():
    lock = threading.Lock()
    with loader_over(lambda x: lock) as loader, pytest.raises(TypeError, match="cannot pickle") as caught:
        next(iter(loader))
    assert caught.value.__notes__ == [
        "penstock: the fn of Mapper(<lambda>) captures 'lock', which cannot be pickled, so it cannot be sent "
        "to worker processes"
    ]


def stop_here(item):
    os.environ.pop("PYTHONBREAKPOINT", None)  # Ray sets it in its drivers, whose fork server keeps it
    breakpoint()


def test_a_breakpoint_in_a_worker_is_an_error():
    with loader_over(stop_here) as loader, pytest.raises(RuntimeError, match="read with num_workers=0"):
        list(loader)
    with pytest.raises(RuntimeError, match="or without a reading service, and call the function by map"):
        list(ps.iter.IterableWrapper([1]).processpool_map(stop_here, workers=1))


def test_an_iterator_cannot_be_sent_to_workers():
    dp = ps.iter.IterableWrapper(iter(lambda: 1, 2)).zip(ps.iter.IterableWrapper(n for n in range(3)))
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(1))
    with loader, pytest.raises(TypeError, match="cannot pickle 'generator' object") as caught:
        next(iter(loader))
    assert "the iterable of IterableWrapper(<genexpr>)" in caught.value.__notes__[0]


@pytest.mark.parametrize("which", ["worker_init_fn", "worker_reset_fn"])
def test_a_failing_worker_function_is_an_error(which):
    def fail(*args):
        raise KeyError("no such thing")

    with loader_over(abs, **{which: fail}) as loader, pytest.raises(KeyError, match="no such thing") as caught:
        list(loader)
    where, worker = caught.value.__notes__
    assert where == f"penstock: raised in {which}"
    assert worker.startswith("penstock: in worker 0 of 2, shard 0 of 2 (process ")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("which", ["worker_init_fn", "worker_reset_fn"])
def test_a_stop_iteration_of_a_worker_function_is_an_error(which, workers):
    with (
        loader_over(abs, workers=workers, **{which: lambda *_: next(iter(()))}) as loader,
        pytest.raises(RuntimeError, match=f"{which} raised StopIteration"),
    ):
        list(loader)


@pytest.mark.parametrize("which", ["worker_init_fn", "worker_reset_fn"])
def test_a_worker_function_that_returns_no_chain_is_an_error(which):
    with loader_over(abs, **{which: lambda *args: None}) as loader, pytest.raises(TypeError, match=f"{which} must ret"):
        list(loader)


@pytest.mark.parametrize("which", ["worker_init_fn", "worker_reset_fn"])
@pytest.mark.parametrize(
    ("action", "error", "said"),
    [
        (lambda: time.sleep(99), TimeoutError, "gave no item for timeout=3 s; it was at {}"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), RuntimeError, "was killed by SIGKILL; it was at {}"),
        (lambda: sys.exit(3), RuntimeError, "ended with exit code 3; it was at {}"),
    ],
    ids=["hangs", "killed", "exits"],
)
def test_a_worker_that_dies_or_hangs_before_its_first_item_is_named(which, action, error, said):
    with (
        loader_over(abs, **{which: lambda *args: action()}, timeout=3) as loader,
        pytest.raises(error, match=r"worker 0 of 2 \(process \d+\) " + said.format(which)),
    ):
        list(loader)


def test_a_worker_killed_between_epochs_is_one_error_and_the_next_epoch_has_new_workers():
    with loader_over(abs) as loader:
        list(loader)
        os.kill(workers_alive()[0].pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="was killed by SIGKILL"):
            list(loader)
        assert list(loader) == list(range(10))


def test_control_c_while_the_workers_start_ends_at_once():
    script = """
        import os, signal, threading, penstock as ps
        dp = ps.iter.IterableWrapper(range(4)).sharding_filter()
        loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2))
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                list(loader)
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def raise_from(x):
    try:
        raise KeyError("the true reason")
    except KeyError as error:
        raise ValueError("what it led to") from error


def test_what_an_error_came_from_is_told_too():
    with loader_over(raise_from) as loader, pytest.raises(ValueError, match="what it led to") as caught:
        list(loader)
    shown = "".join(traceback.format_exception(caught.value))
    assert "the true reason" in shown
    assert shown.count("ValueError: what it led to") == 1


class WrongState(Passing):
    resumes_from_start = False
    lock = ps.own(threading.Lock)

    def __iter__(self):
        return iter(self.source)


def test_a_state_that_cannot_be_taken_is_no_matter_to_a_worker_that_nobody_asked_for_one():
    slow = ps.iter.IterableWrapper(range(40)).sharding_filter().map(lambda number: time.sleep(0.01) or number)
    dp = WrongState(slow)
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(2))
    with loader:
        assert len(list(loader)) == 40


def limited(kind, limit):
    """A worker_init_fn that sets a limit of the process; `limit` is called there."""

    def init(dp, worker):
        resource.setrlimit(kind, (limit(), resource.getrlimit(kind)[1]))
        return dp

    return init


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="limits work differently elsewhere")


@linux_only
def test_a_worker_without_memory_is_an_error_at_the_item_and_the_next_epoch_begins_anew():
    some_more = limited(resource.RLIMIT_AS, lambda: psutil.Process().memory_info().vms + 300 * 2**20)
    with loader_over(lambda x: bytes(2**30) if x == 5 else x, worker_init_fn=some_more) as loader:
        for _ in range(2):
            running = iter(loader)
            assert [next(running) for _ in range(5)] == [0, 1, 2, 3, 4]
            with pytest.raises(MemoryError) as caught:
                next(running)
            assert caught.value.__notes__[0] == "penstock: raised in Mapper(<lambda>), on 5"
            assert "in worker 1 of 2, shard 1 of 2" in caught.value.__notes__[1]


@linux_only
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (resource.RLIMIT_FSIZE, lambda: 10_000),
        (resource.RLIMIT_NOFILE, lambda: psutil.Process().num_fds()),
    ],
    ids=["no file so long", "no file descriptors"],
)
def test_without_shared_memory_items_come_all_the_same(kind, limit):
    with loader_over(lambda x: torch.full((50_000,), x), worker_init_fn=limited(kind, limit), workers=1) as loader:
        assert [int(item[-1]) for item in loader] == [*range(10)]


@pytest.mark.parametrize(
    ("workers", "num_shards", "items"), [(5, 2, 10), (5, None, 2), (3, 7, 0), (2, None, 0)], ids=str
)
def test_more_workers_than_there_is_to_do(workers, num_shards, items):
    with loader_over(abs, items=items, workers=workers, num_shards=num_shards) as loader:
        for _ in range(2):
            assert list(loader) == [*range(items)]


def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(99)


STUCK = pytest.mark.parametrize("stuck", [lambda: time.sleep(99), hold_the_interpreter], ids=["waits", "in C"])


def dispatched_over(fn, items=10, **options):
    dp = (
        ps.iter.IterableWrapper(range(items)).map(fn).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    )
    return DataLoader2(dp.map(lambda x: x), reading_service=MultiProcessingReadingService(2, **options))


MAKERS = pytest.mark.parametrize("make", [loader_over, dispatched_over], ids=["workers", "dispatched"])


@STUCK
@MAKERS
def test_a_loader_whose_processes_are_stuck_is_shut_down_and_collected(make, stuck, tmp_path):
    for way, prefetch in (("shutdown", 0), ("collected", 10)):
        flag = tmp_path / way

        def stuck_at_60(x, flag=flag):
            if x == 60:  # and not sooner, so that items of all workers have come before
                flag.touch()
                stuck()
            return x

        loader = make(stuck_at_60, items=200, main_prefetch_cnt=prefetch)
        running = iter(loader)
        while not flag.exists():
            next(running)
            time.sleep(0.02)
        started = time.monotonic()
        if way == "shutdown":
            loader.shutdown()
        del loader, running
        gc.collect()
        assert workers_alive() == []
        assert time.monotonic() - started < 20


def test_a_process_that_takes_long_to_end_is_left_to_itself(monkeypatch):
    loader = loader_over(str)
    assert len(list(loader)) == 10
    monkeypatch.setattr(
        "penstock.runner.workers.processes.end_processes", lambda processes: None
    )  # as where it is killed in vain
    loader.shutdown()
    deadline = time.monotonic() + 20
    while workers_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers_alive() == []


@STUCK
@MAKERS
def test_control_c_ends_the_wait_for_processes_that_are_stuck(make, stuck):
    with make(at_five(stuck), timeout=40) as loader:
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            list(loader)


@DEATHS
def test_how_the_process_that_reads_a_dispatched_stream_ended_is_told(action, said):
    with dispatched_over(at_five(action)) as loader:
        with pytest.raises(RuntimeError, match="the process that reads the dispatched stream has ended") as caught:
            list(loader)
        assert re.search(rf"the dispatched stream \(process \d+\) {said}", caught.value.__notes__[-1])


def test_a_dispatched_stream_that_hangs_is_told_of_when_time_is_out():
    with dispatched_over(at_five(lambda: time.sleep(99)), timeout=2) as loader:
        with pytest.raises(TimeoutError, match=r"worker \d of 2 .* no item for timeout=2 s") as caught:
            list(loader)
        assert re.search(
            r"the dispatched stream \(process \d+\); it was at Mapper\(<lambda>\), on 5", caught.value.__notes__[-1]
        )


def test_a_stopped_reader_of_a_dispatched_stream_is_an_error():
    loader = dispatched_over(at_five(be_stopped))
    said = r"the dispatched stream \(process \d+\) was stopped, as by SIGSTOP"
    with loader, pytest.raises(RuntimeError, match=said):
        list(loader)


def test_a_dispatched_stream_that_cannot_be_pickled_is_an_error():
    lock = threading.Lock()
    with dispatched_over(lambda x: lock) as loader, pytest.raises(TypeError, match="cannot pickle") as caught:
        list(loader)
    assert "the fn of Mapper(<lambda>) captures 'lock', which cannot be pickled" in caught.value.__notes__[0]


def test_a_worker_whose_connection_lives_on_in_a_process_of_its_own_is_an_error():
    def fork_and_die(x):
        if x == 5:
            if os.fork() == 0:
                time.sleep(8)
            os._exit(7)
        return x

    with loader_over(fork_and_die) as loader, pytest.raises(RuntimeError, match="worker 1 of 2 .* exit code 7"):
        list(loader)


@STUCK
@pytest.mark.parametrize(("make", "prefetch"), [(loader_over, 0), (dispatched_over, 10)], ids=["workers", "dispatched"])
def test_an_epoch_after_one_in_which_processes_are_stuck_begins_soon(make, stuck, prefetch, tmp_path):
    def stuck_once(x):
        if x == 60 and not (tmp_path / "stuck").exists():
            while not (tmp_path / "given up").exists():  # what comes before it is still to be sent
                time.sleep(0.01)
            (tmp_path / "stuck").touch()
            stuck()
        return x

    with make(stuck_once, items=200, main_prefetch_cnt=prefetch) as loader:
        for x in loader:
            if x == 54:  # so that 60 is wanted
                break
        (tmp_path / "given up").touch()
        while not (tmp_path / "stuck").exists():
            time.sleep(0.01)
        started = time.monotonic()
        assert list(loader) == [*range(200)]
        assert time.monotonic() - started < 40
