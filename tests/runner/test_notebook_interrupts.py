"""The stop button of a notebook, in a real kernel."""

from __future__ import annotations

import os
import queue
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

CASES = int(os.environ.get("PENSTOCK_CASES", "100"))
"""2,000 make it 500 interrupts."""

SETUP = """
import penstock as ps
def made(workers):
    dp = ps.iter.IterableWrapper(range(40_000)).shuffle(buffer_size=100).sharding_filter().map(str).batch(2)
    service = ps.MultiProcessingReadingService(num_workers=workers, num_shards=3)
    loader = ps.DataLoader2(dp, reading_service=service)
    loader.seed(1)
    return loader
with made(0) as loader:
    expected = list(loader)
"""


class Notebook:
    """A kernel whose cells may be interrupted."""

    def __init__(self) -> None:
        self.manager = KernelManager()
        self.manager.start_kernel()
        self.client: Any = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, cell: str, interrupted_after: float | None = None) -> str:
        """Run a cell, and return its error's name, or what the expression at its end is, as text."""
        last = {"last": "repr(last) if 'last' in globals() else ''"}
        request = self.client.execute(cell, user_expressions=last, stop_on_error=False)
        if interrupted_after is not None:
            while self.client.get_iopub_msg(timeout=60)["parent_header"].get("msg_id") != request:
                pass  # the kernel has begun with the cell
            time.sleep(interrupted_after)
            self.manager.interrupt_kernel()
        try:
            while (reply := self.client.get_shell_msg(timeout=5 if interrupted_after else 60))["parent_header"][
                "msg_id"
            ] != request:
                pass
        except queue.Empty:  # the stop fell between two cells, where the kernel drops it with its answer
            return "lost"
        content = reply["content"]
        if content["status"] == "error":
            return str(content["ename"])
        return str(content["user_expressions"]["last"]["data"]["text/plain"])

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    made = Notebook()
    assert made.run(SETUP) != "error"
    yield made
    made.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("workers", "times"), [(0, CASES // 5), (2, max(CASES // 20, 3))])
def test_the_next_cell_reads_on_where_the_stop_button_fell(notebook: Notebook, workers: int, times: int) -> None:
    generator, stopped = random.Random(workers), 0
    begin = f"loader = made({workers}); iterator = iter(loader); read = []"
    end = "read.extend(iterator); are_right.append(read == expected); loader.shutdown()"
    notebook.run(f"are_right = []; {begin}")
    for _ in range(times):
        if notebook.run("read.extend(iterator)", generator.random() * 0.03) == "KeyboardInterrupt":
            stopped += 1
        else:  # the epoch was over, or the stop fell between two cells
            notebook.run(f"{end}; {begin}")
    notebook.run(f"{end}; last = all(are_right)")
    assert notebook.run("pass") == "'True'"
    assert stopped >= times // 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("workers", "times"), [(0, CASES // 10), (2, max(CASES // 50, 2))])
def test_the_state_in_the_next_cell_has_what_was_done(notebook: Notebook, workers: int, times: int) -> None:
    generator = random.Random(workers)
    for _ in range(times):
        notebook.run(f"loader = made({workers}); done = []")
        loop = "for item in loader:\n    if done: done[-1][1] = True\n    done.append([item, False])"
        notebook.run(loop, generator.random() * 0.05)
        # Those after which the loop came back are done; the last may be, if the interrupt fell before it came back.
        notebook.run(
            "state = loader.state_dict(); loader.shutdown()\n"
            "again = made(0)\nagain.load_state_dict(state)\nrest = list(again) if not state['epoch'] else []\n"
            "before = [item for item, is_done in done if is_done or len(rest) + len(done) == len(expected)]\n"
            "last = before + rest == expected"
        )
        assert notebook.run("pass") == "'True'"
