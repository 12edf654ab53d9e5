"""Chains of thousands of steps are read, saved, resumed and sent to workers."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

import penstock as ps
from long_chains import (
    MOST,
    STEPS,
    branched,
    converted,
    diamonds,
    forked,
    grouped,
    maps,
    mixed,
    numbers,
    shuffled,
    skipping,
)
from penstock.registry import SHARDING_PRIORITIES, sources_first

pytestmark = pytest.mark.timeout(120)  # on a busy machine; each takes a few seconds at most


CHAINS = pytest.mark.parametrize("lengthen", [maps, mixed, branched, forked, converted, shuffled, grouped])


@CHAINS
def test_a_chain_is_read_measured_given_up_and_goes_on_from_a_state(lengthen: Callable[[Any], Any]) -> None:
    whole = [0, 1, 2, 3, 4, 5]
    dp = lengthen(numbers())
    profile = dp.profile()
    assert len(profile.steps) == len(sources_first(dp))
    assert {step.items for step in (profile.steps[0], profile.steps[-1])} == {6}
    assert "of the time is in" in str(profile)
    given_up = iter(dp)
    assert next(given_up) == 0
    iterator = iter(dp)
    resumed = lengthen(numbers())
    for taken in (3, 6):
        assert [*islice(iterator, 3)] == whole[taken - 3 : taken]
        saved = json.dumps(dp.state_dict())
        assert len(saved) < 300 * STEPS
        resumed.load_state_dict(json.loads(saved))
        assert [list(resumed), list(resumed)] == [whole[taken:], whole]
    with pytest.raises(RuntimeError, match="replaced by a newer one"):
        next(given_up)
    assert [[*iterator], [*dp]] == [[], whole]


@pytest.mark.parametrize("lengthen", [maps, converted, diamonds, grouped, skipping])
def test_a_longer_chain_than_c_has_stack_for_is_an_error_and_does_not_end_the_process(
    lengthen: Callable[..., Any],
) -> None:
    with pytest.raises(RecursionError):
        for _ in lengthen(numbers(), 10_000):
            pass


def test_what_is_asked_of_a_chain_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for lengthen in (maps, forked, diamonds):
        assert len(lengthen(numbers())) == 6
    with pytest.raises(TypeError):
        len(mixed(numbers()))
    dp = maps(ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip"))
    dp.show(2)
    assert capsys.readouterr().out.splitlines()[STEPS + 1 :] == ["    .map(abs)", "0: 1", "1: 3"]
    assert list(dp) == [1, 3]
    assert dp.stats()["map"]["skipped"] == 1
    with pytest.raises(ValueError, match="the state is of another chain"):
        maps(numbers(), STEPS - 1).batch(2).load_state_dict(dp.state_dict())


def test_a_chain_is_read_in_another_thread_and_ahead() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(maps(numbers())))
    thread.start()
    thread.join()
    assert found == [0, 1, 2, 3, 4, 5]
    half = STEPS // 2
    assert list(maps(maps(numbers(), half).prefetch(2), half)) == [0, 1, 2, 3, 4, 5]


def fail(item: Any) -> Any:
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("lengthen", "place"), [(maps, "first"), (mixed, "last"), (branched, "last"), (forked, "first")]
)
def test_an_error_has_one_note_and_a_short_traceback(lengthen: Callable[[Any], Any], place: str) -> None:
    source = ps.iter.IterableWrapper([("a.txt", 1), ("b.txt", 2)])
    dp = lengthen(source.map(fail)) if place == "first" else lengthen(source.map(second)).map(fail)
    with pytest.raises(LookupError, match="no such thing") as caught:
        list(dp)
    (note,) = caught.value.__notes__
    assert note.startswith("penstock: raised in Mapper(fail), on ")
    assert "a.txt" in note
    assert len(traceback.extract_tb(caught.value.__traceback__)) < 10


def second(pair: tuple[str, int]) -> int:
    return pair[1]


def service(num_workers: int) -> Any:
    return ps.MultiProcessingReadingService(num_workers, num_shards=2)


@pytest.mark.parametrize(
    ("lengthen", "num_workers"),
    [(maps, 0), (branched, 0), (forked, 2), (converted, 2), (grouped, 2)],
)
def test_a_loader_reads_and_goes_on(lengthen: Callable[[Any], Any], num_workers: int) -> None:
    def loader(workers: int) -> Any:
        return ps.DataLoader2(lengthen(numbers().sharding_filter()), reading_service=service(workers))

    with loader(num_workers) as whole:
        assert [*whole] == [0, 1, 2, 3, 4, 5]
        iterator = iter(whole)
        assert [*islice(iterator, 3)] == [0, 1, 2]
        state = json.loads(json.dumps(whole.state_dict()))
        assert [*iterator] == [3, 4, 5]
    with loader(2 - num_workers) as resumed:
        resumed.load_state_dict(state)
        assert [*resumed] == [3, 4, 5]


def test_as_many_steps_as_a_chain_may_have() -> None:
    def loader(workers: int) -> Any:
        return ps.DataLoader2(mixed(numbers().sharding_filter(), MOST), reading_service=service(workers))

    with loader(2) as stopped:
        assert [*islice(stopped, 3)] == [0, 1, 2]
        state = json.dumps(stopped.state_dict())
    with loader(0) as resumed:
        resumed.load_state_dict(json.loads(state))
        assert [*resumed] == [3, 4, 5]
        assert str(resumed.datapipe).count(".map(abs)") == MOST // 4


def test_a_long_stream_is_read_once_for_all_workers() -> None:
    half = STEPS // 2
    dp = maps(maps(numbers(), half).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING), half)
    with ps.DataLoader2(dp, reading_service=service(2)) as loader:
        assert [*loader] == [0, 1, 2, 3, 4, 5]
