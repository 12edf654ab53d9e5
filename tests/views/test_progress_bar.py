"""Progress bars: what they say, and to whom."""

from __future__ import annotations

import itertools
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.pipes.bases import progress_bar as progress
from penstock.pipes.bases.progress_bar import is_watched, losses_and_waits, progress_bar
from terminal import Terminal, writing_to_terminal

pytestmark = pytest.mark.timeout(30)


class Sampled:
    """Whether something runs, by the terms of a cycle; `.looked(n)` waits until it was asked so many times."""

    def __init__(self, *answers: bool) -> None:
        self._answers = itertools.cycle(answers)
        self._looks = 0
        self._asked = threading.Condition()

    def __call__(self) -> bool:
        with self._asked:
            self._looks += 1
            self._asked.notify_all()
            return next(self._answers)

    def looked(self, times: int) -> bool:
        with self._asked:
            until = self._looks + times
            return self._asked.wait_for(lambda: self._looks >= until, 20)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@writing_to_terminal
def test_an_inner_bar_is_below_and_does_not_stay(terminal: Terminal) -> None:
    with progress_bar("outer", lambda: 1, leave=None):
        for _ in range(2):
            with progress_bar("inner", lambda: 2, leave=None):
                pass
    assert terminal.getvalue().count("\n\rinner: ") >= 2  # drawn on the line below
    assert terminal.last_line.startswith("outer: 1 items")


@writing_to_terminal
def test_a_bar_stands_still_while_nothing_runs(terminal: Terminal) -> None:
    idle = Sampled(False)
    with progress_bar("idle", lambda: 1, is_running=idle):
        assert idle.looked(2)
        before = terminal.getvalue()
        assert idle.looked(5 * progress._LOOKS_PER_UPDATE)
        assert terminal.getvalue() == before


@writing_to_terminal
def test_the_share_of_time_spent_waiting_is_told_once_it_is_known(terminal: Terminal) -> None:
    waits = Sampled(True, False, False, False)
    with progress_bar(
        "", lambda: 1, is_running=waits, notes=lambda share: losses_and_waits({"map": {"skipped": 3}}, share)
    ):
        assert terminal.shown("waiting for input 25 %]")
    first = terminal.getvalue().index("skipped 3")
    assert first < terminal.getvalue().index("skipped 3, waiting for input")


@writing_to_terminal
def test_a_block_that_ends_in_the_bars_own_thread_does_not_wait_for_itself(terminal: Terminal) -> None:
    entered, ended = threading.Event(), threading.Event()
    block: list[Any] = [progress_bar("", lambda: 1, is_running=lambda: end_of_block())]

    def end_of_block() -> bool:
        if block and entered.wait(20):  # the block cannot end before it has begun
            block.pop().__exit__(None, None, None)
            ended.set()
        return False

    block[0].__enter__()
    entered.set()
    assert ended.wait(20)


def test_without_a_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert not is_watched()
    with progress_bar("unseen", lambda: 1):
        assert "penstock-progress" not in threads()
    monkeypatch.setattr(sys, "stderr", None)  # as of programs without a console
    assert not is_watched()
    assert capfd.readouterr() == ("", "")


@writing_to_terminal
def test_workers_and_later_ranks_have_no_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_watched()
    monkeypatch.setattr(progress, "parent_process", object)
    assert not is_watched()  # another process of this program
    monkeypatch.setattr(progress, "dist", ranks := Ranks(0))
    assert is_watched()  # the first rank, which torch.multiprocessing.spawn has started
    ranks.rank = 1
    assert not is_watched()
    ranks.rank = 0
    monkeypatch.setattr(progress, "current_process", lambda: SimpleNamespace(daemon=True))
    assert not is_watched()  # a worker of the first rank


class Ranks:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_rank(self) -> int:
        return self.rank
