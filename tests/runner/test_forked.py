"""A process that is forked off in the middle of a pass: it is told so at once, and may begin anew."""

import os
import signal
import time

import pytest

import penstock as ps
from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def numbers():
    return ps.iter.IterableWrapper(range(1000)).sharding_filter()


async def same(number):
    return number


LOADERS = {
    "workers": lambda: DataLoader2(numbers(), reading_service=MultiProcessingReadingService(2)),
    "workers, nothing read ahead": lambda: DataLoader2(
        numbers(), reading_service=MultiProcessingReadingService(2, main_prefetch_cnt=0)
    ),
    "in process, read ahead": lambda: DataLoader2(numbers(), reading_service=InProcessReadingService(prefetch_cnt=2)),
}
PIPES = {
    "prefetch": lambda: numbers().prefetch(2),
    "threadpool_map": lambda: numbers().threadpool_map(abs, scheduled_tasks=4),
    "processpool_map": lambda: numbers().processpool_map(abs, workers=1, prefetch=4),
    "async_map": lambda: numbers().async_map_batches(same, 4),
}


def how_child_ends(child, patience=30):
    """How a process ended; one that hangs is killed."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


@pytest.mark.parametrize("make", [*LOADERS.values(), *PIPES.values()], ids=[*LOADERS, *PIPES])
def test_reading_on_in_a_process_that_was_forked_off_is_an_error_at_once(make):
    whole = make()
    running = iter(whole)
    assert next(running) == 0
    time.sleep(0.2)  # what is read ahead is there
    if (child := os.fork()) == 0:
        code = 1
        try:
            began = time.monotonic()
            try:
                [next(running) for _ in range(2)]
            except RuntimeError as error:
                code = 5 if "forked off" in str(error) and time.monotonic() - began < 5 else 2
            if code == 5:
                fresh = iter(whole)
                code = 5 if [next(fresh) for _ in range(3)] == [0, 1, 2] else 3
        finally:
            os._exit(code)
    assert how_child_ends(child) == 5
    assert [next(running) for _ in range(3)] == [1, 2, 3], "its parent reads on"
    if hasattr(whole, "shutdown"):
        whole.shutdown()
