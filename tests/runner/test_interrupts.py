"""Stopping a program that reads a loader at any instruction: the position is kept, and one call has it."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from penstock.registry import own

# Python drops an interrupt that falls in a callback of the garbage collector, such as Hypothesis's, and pytest warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SERVICES: dict[str, Callable[[], Any]] = {
    "here": ps.InProcessReadingService,
    "reading ahead": lambda: ps.InProcessReadingService(prefetch_cnt=5),
    "one worker": lambda: ps.MultiProcessingReadingService(num_workers=1, num_shards=3),
    "two workers": lambda: ps.MultiProcessingReadingService(num_workers=2, num_shards=3),
    "three workers": lambda: ps.MultiProcessingReadingService(num_workers=3, num_shards=3),
}


MANY = max(int(os.environ.get("PENSTOCK_CASES", "100")) // 100, 1)
TRIALS = [("here", 60 * MANY), ("reading ahead", 20 * MANY), ("two workers", 3 * MANY)]
"""How often scripts are interrupted: with 2,000 cases, 3,320 times in two tests."""


def chain(items: int = 600) -> ps.IterDataPipe[Any]:
    return ps.iter.IterableWrapper(range(items)).shuffle(buffer_size=50).sharding_filter().map(str).batch(2)


def loader_of(service: str = "here", dp: Any = None) -> ps.DataLoader2[Any]:
    loader = ps.DataLoader2(chain() if dp is None else dp, reading_service=SERVICES[service]())
    loader.seed(3)
    return loader


def rest_of(state: Any, service: str = "here", dp: Any = None) -> list[Any]:
    """Return what a loader like those of `loader_of` reads from a state on."""
    with loader_of(service, dp) as resumed:
        resumed.load_state_dict(json.loads(json.dumps(state)))
        return list(resumed)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def use(loader: ps.DataLoader2[Any], stop: int, act: Callable[[], object] = interrupt) -> None:
    """Read a loader, and act while an item is in use."""
    for number, _ in enumerate(loader):
        if number == stop:
            act()


def use_all(loader: ps.DataLoader2[Any], used: list[Any]) -> None:
    for item in loader:
        used.append(item)


def fail() -> None:
    raise OverflowError


def interrupted_within(seconds: float, act: Callable[[], object]) -> None:
    """Call a function, and send Ctrl-C while it runs, or at its end."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        act()
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        timer.join()


@pytest.mark.parametrize(("service", "times"), TRIALS)
def test_an_iterator_reads_on_after_interrupts_at_any_instruction(service: str, times: int) -> None:
    generator, dp = random.Random(service), chain(20_000)
    with loader_of(service, dp) as loader:
        expected = list(loader)
    with loader_of(service, dp) as loader:
        iterator, read = iter(loader), list[Any]()
        for _ in range(times):
            # In C: what the iterator has handed out is in the list.
            interrupted_within(generator.random() * 0.02, lambda: read.extend(iterator))
        read.extend(iterator)
    assert read == expected


@pytest.mark.parametrize(("service", "times"), TRIALS)
def test_the_state_after_an_interrupt_at_any_instruction_has_what_the_program_is_done_with(
    service: str, times: int
) -> None:
    generator, dp = random.Random(service), chain(6_000)
    with loader_of(service, dp) as loader:
        expected = list(loader)
    for _ in range(times):
        read: list[Any] = []
        with loader_of(service, dp) as loader:
            interrupted_within(generator.random() * 0.05, lambda: use_all(loader, read))  # noqa: B023
            state = loader.state_dict()
        rest = rest_of(state, service, dp) if not state["epoch"] else []
        done = len(expected) - len(rest)
        assert read[:done] + rest == expected
        assert len(read) - done in (0, 1)  # the last item was in use


@pytest.mark.parametrize("service", SERVICES)
def test_an_item_in_use_comes_again_and_one_that_is_done_does_not(service: str) -> None:
    with loader_of(service) as loader:
        expected = list(loader)
    with loader_of(service) as loader:
        with pytest.raises(KeyboardInterrupt):
            use(loader, 7)
        assert rest_of(loader.state_dict(), service) == expected[7:]
        loader.load_state_dict(loader.state_dict())
        assert list(loader) == expected[7:]
    with loader_of(service) as loader:
        iterator = iter(loader)
        assert [next(iterator) for _ in range(8)] == expected[:8]
        assert rest_of(loader.state_dict(), service) == expected[8:]
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert rest_of(loader.state_dict(), service) == expected[7:]
        assert next(iterator) == expected[8]
        assert rest_of(loader.state_dict(), service) == expected[9:]


@pytest.mark.parametrize("service", SERVICES)
def test_a_step_that_is_interrupted_makes_its_item_again(service: str, tmp_path: Path) -> None:
    flag = tmp_path / "interrupted"

    def interrupted_once(item: Any) -> Any:
        if item == ["40", "41"] and not flag.exists():
            flag.touch()
            raise KeyboardInterrupt
        return item

    dp = ps.iter.IterableWrapper(range(60)).sharding_filter().map(str).batch(2).map(interrupted_once)
    with loader_of(service, dp) as loader:
        read = list[Any]()
        iterator = iter(loader)
        if "worker" not in service:  # its shards' batches have other items
            with pytest.raises(KeyboardInterrupt) as caught:
                read.extend(iterator)
            assert "raised in Mapper(" in caught.value.__notes__[0]
            assert ", on ['40', '41']" in caught.value.__notes__[0]
            assert len(read) == 20
            state = loader.state_dict()
            assert read + rest_of(state, service, dp) == [*dp]
        read.extend(iterator)
        assert sorted(x for pair in read for x in pair) == sorted(map(str, range(60)))


@pytest.mark.parametrize("service", ["here", "two workers"])
def test_an_error_leaves_the_position_before_the_item_that_failed(service: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def fail(item: Any) -> Any:
        if item == 20 and broken.exists():
            raise ValueError("broken")
        return item

    dp = ps.iter.IterableWrapper(range(60)).sharding_filter().map(fail)
    with loader_of(service, dp) as loader:
        iterator, read = iter(loader), list[int]()
        with pytest.raises(ValueError, match="broken"):
            read.extend(iterator)
        with pytest.raises(RuntimeError, match=r"ended in ValueError\('broken'\): after load_state_dict"):
            next(iterator)
        state = loader.state_dict()
        broken.unlink()
        assert sorted(read + rest_of(state, service, dp)) == [*range(60)]
        loader.load_state_dict(state)
        assert sorted(read + list(loader)) == [*range(60)]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("before", [0, 1, 9])
def test_the_position_outlives_the_loader(service: str, before: int) -> None:
    with loader_of(service) as loader:
        expected = list(loader)
    with pytest.raises(OverflowError), loader_of(service) as loader:
        use(loader, before, fail)
    assert rest_of(loader.state_dict(), service) == expected[before:]
    with loader_of(service) as loader:
        for number, _ in enumerate(loader):
            if number == before:
                break
    assert rest_of(loader.state_dict(), service) == expected[before + 1 :]
    with loader_of(service) as loader:
        assert list(loader) == expected
    assert loader.state_dict()["epoch"] == 1


def test_a_loader_whose_state_cannot_be_taken_is_shut_down_all_the_same() -> None:
    class Stateless(ps.IterDataPipe[Any]):
        resumes_from_start = False
        held = own(None)

        def __iter__(self) -> Iterator[Any]:
            self.held = object()
            yield from range(3)

    loader = loader_of(dp=Stateless())
    with loader:
        next(iter(loader))
    with pytest.raises(RuntimeError, match="was shut down in the middle of an epoch: NotPlain"):
        loader.state_dict()
    with loader_of() as whole:
        next(iter(whole))
    with pytest.raises(RuntimeError, match="only the last position is kept"):
        whole.state_dict(before_last=True)


def test_an_interrupt_before_the_first_item_leaves_the_beginning() -> None:
    with loader_of() as loader:
        expected = list(loader)
        loader.load_state_dict(loader_of().state_dict())
        iterator = iter(loader)
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert rest_of(loader.state_dict()) == expected
        assert list(iterator) == expected


def test_steps_after_the_workers_that_change_the_number_of_items_have_positions_too() -> None:
    dp = ps.iter.IterableWrapper(range(600)).shuffle().sharding_filter().batch(2).to_device("cpu").unbatch()
    with loader_of(dp=dp) as loader:
        expected = list(loader)
    for stop in (0, 1, 10, 301):
        with loader_of(dp=dp) as loader:
            with pytest.raises(KeyboardInterrupt):
                use(loader, stop)
            assert rest_of(loader.state_dict(), dp=dp) == expected[stop:]
            assert rest_of(loader.state_dict(before_last=True), dp=dp) == expected[stop:]


def test_a_handler_that_only_takes_note_interrupts_nothing() -> None:
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        with loader_of() as loader:
            expected = list(loader)
        loader = loader_of()
        for number, _ in enumerate(loader):
            if number == 3:
                interrupt()
            if noted:
                state = loader.state_dict()
                break
        assert rest_of(state) == expected[4:]
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_programs_handler_comes_back_when_epochs_end() -> None:
    def handler(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        one, other = iter(loader_of()), iter(loader_of())
        next(one), next(other)
        assert signal.getsignal(signal.SIGINT) is not handler
        one.close()
        assert signal.getsignal(signal.SIGINT) is not handler
        assert len(list(other)) == 299
        assert signal.getsignal(signal.SIGINT) is handler
        third = iter(loader_of())
        next(third)
        signal.signal(signal.SIGINT, handler)  # as a notebook does in each cell
        iter(third)
        assert signal.getsignal(signal.SIGINT) is not handler
        list(third)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_loader_has_a_position_while_another_thread_reads_it() -> None:
    being_made, go_on, read = threading.Event(), threading.Event(), list[int]()

    def slow_once(x: int) -> int:
        if x == 5 and not go_on.is_set():
            being_made.set()
            assert go_on.wait(20)
        return x

    dp = ps.iter.IterableWrapper(range(9)).map(slow_once)
    with loader_of(dp=dp) as loader:
        thread = threading.Thread(target=lambda: read.extend(loader))
        thread.start()
        assert being_made.wait(20)
        state = loader.state_dict()
        go_on.set()
        thread.join(20)
        assert read == [*range(9)]
    assert rest_of(state, dp=dp) == [*range(5, 9)]


def test_an_iterator_whose_loader_has_begun_another_epoch_cannot_read_on() -> None:
    interrupts = [KeyboardInterrupt()]

    def interrupted_once(x: int) -> int:
        if interrupts:
            raise interrupts.pop()
        return x

    with ps.DataLoader2(ps.iter.IterableWrapper(range(3)).map(interrupted_once)) as loader:
        iterator = iter(loader)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        assert list(loader) == [0, 1, 2]
        with pytest.raises(RuntimeError, match="the loader has begun another epoch since"):
            next(iterator)


def test_an_interrupt_or_error_writes_the_position_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "made" / "place.pt"
    with loader_of() as loader:
        expected = list(loader)
    for error, act in ((KeyboardInterrupt, interrupt), (OverflowError, fail)):
        loader = loader_of()
        with pytest.raises(error), loader.save_on_interrupt(path):
            use(loader, 5, act)
        assert rest_of_file(path) == expected[5:]
        assert os.listdir(path.parent) == ["place.pt"]
    path.unlink()
    with (loader := loader_of()).save_on_interrupt(path):
        assert list(loader) == expected
    assert not path.exists()


def rest_of_file(path: Path) -> list[Any]:
    with loader_of() as resumed:
        resumed.load_state_dict(torch.load(path))
        return list(resumed)


@pytest.mark.parametrize("skip", [-1, "1", True, None])
def test_a_state_that_leaves_out_what_is_no_number_of_items_is_refused(skip: Any) -> None:
    state = loader_of().state_dict()
    with pytest.raises(ValueError, match="a loader cannot leave out"):
        loader_of().load_state_dict({**state, "state": {**state["state"], "skip": skip}})
