"""The progress bar of a loader: one for each epoch."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.bases import progress_bar as progress
from terminal import Terminal, writing_to_terminal

pytestmark = pytest.mark.timeout(60)


def loader(chain: Any = None, **options: Any) -> ps.DataLoader2[Any]:
    chain = ps.iter.IterableWrapper(range(6)).sharding_filter() if chain is None else chain
    return ps.DataLoader2(chain, progress=True, **options)


def bars(terminal: Terminal) -> list[str]:
    """The bars as they were left."""
    return [line.rpartition("\r")[2].strip() for line in terminal.getvalue().split("\n") if line.strip()]


@writing_to_terminal
def test_each_epoch_has_a_bar_with_its_number(terminal: Terminal) -> None:
    with loader() as ours:
        assert [list(ours) for _ in range(2)] == [[*range(6)]] * 2
    first, second = bars(terminal)
    assert re.match(r"epoch 1: 100%\|.*\| 6/6 \[00:00<00:00, +[\d.]+ items/s\]", first)
    assert second.startswith("epoch 2: 100%|")


@writing_to_terminal
def test_epochs_are_counted_also_where_each_has_a_seed_of_its_own(terminal: Terminal) -> None:
    with loader() as ours:
        for epoch in range(2):
            ours.seed(epoch)
            list(ours)
        state = ours.state_dict()
    assert [bar[:8] for bar in bars(terminal)] == ["epoch 1:", "epoch 2:"]
    with loader() as ours:
        ours.load_state_dict(state)
        ours.seed(2)
        list(ours)
    assert bars(terminal)[2].startswith("epoch 2:")  # one since the last seed


@writing_to_terminal
def test_without_a_length_the_bar_counts_and_tells_what_was_skipped(terminal: Terminal) -> None:
    numbers = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
    with loader(numbers) as ours:
        assert list(ours) == [1, 3]
    assert bars(terminal)[0].startswith("epoch 1: 2 items [")
    assert bars(terminal)[0].endswith("skipped 1]")


@writing_to_terminal
def test_it_is_off_unless_asked_for(terminal: Terminal) -> None:
    with ps.DataLoader2(ps.iter.IterableWrapper(range(3))) as ours:
        assert list(ours) == [0, 1, 2]
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("workers", [0, 1])
@writing_to_terminal
def test_a_resumed_epoch_goes_on_counting(workers: int, terminal: Terminal) -> None:
    def service() -> ps.MultiProcessingReadingService:
        return ps.MultiProcessingReadingService(num_workers=workers, num_shards=4)

    with loader(reading_service=service()) as ours:
        iterator = iter(ours)
        assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]  # two of four shards are at their end
        state = ours.state_dict()
    terminal.truncate(0)
    with loader(reading_service=service()) as resumed:
        resumed.load_state_dict(state)
        assert list(resumed) == [5]
        assert list(resumed) == [*range(6)]
    assert "epoch 1:  83%|" in terminal.getvalue()
    assert "epoch 1:   0%|" not in terminal.getvalue()
    assert "epoch 2:   0%|" in terminal.getvalue()
    assert ["6/6" in bar for bar in bars(terminal)] == [True, True]


@writing_to_terminal
def test_a_resumed_epoch_without_a_length_counts_from_there(terminal: Terminal) -> None:
    even = ps.iter.IterableWrapper(range(6)).filter(lambda number: number % 2 == 0)
    with loader(even) as ours:
        next(iter(ours))
        state = ours.state_dict()
    with loader(even) as resumed:
        resumed.load_state_dict(state)
        assert list(resumed) == [2, 4]
    assert bars(terminal)[-1].startswith("epoch 1: 2 items [")


@writing_to_terminal
def test_the_bar_of_a_paused_epoch_stands_still(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with loader() as ours:
        iterator: Any = iter(ours)
        iterator.limit(2)
        assert list(iterator) == [0, 1]
        assert terminal.shown("2/6")
        paused = len(terminal.getvalue())
        iterator.resume()
        assert list(iterator) == [2, 3]
        assert terminal.shown("4/6")
        assert "2/6" not in terminal.getvalue()[paused:]
        iterator.limit(None)
        assert list(iterator) == [4, 5]
    assert len(bars(terminal)) == 1


@pytest.mark.parametrize("end", ["close", "drop", "shutdown", "replace"])
@writing_to_terminal
def test_an_epoch_that_is_given_up_ends_its_bar(end: str, terminal: Terminal) -> None:
    with loader() as ours:
        iterator: Any = iter(ours)
        next(iterator)
        if end == "close":
            iterator.close()
        elif end == "drop":
            iterator = None
        elif end == "shutdown":
            ours.shutdown()
        else:
            assert len(list(ours)) == 6
    if end in ("shutdown", "replace"):
        with pytest.raises(RuntimeError):
            next(iterator)
    assert "penstock-progress" not in {thread.name for thread in threading.enumerate()}
    assert terminal.getvalue().endswith("\n")


@writing_to_terminal
def test_the_bar_tells_how_long_the_program_waited(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOOKS_FOR_A_SHARE", 1)

    def slow(number: int) -> int:
        if number == 5:
            assert terminal.shown("5/6")
            assert terminal.shown("waiting for input")
        return number

    with loader(ps.iter.IterableWrapper(range(6)).map(slow)) as ours:
        for _ in ours:
            pass
    assert re.search(r", waiting for input \d+ %\]$", bars(terminal)[0])
