"""Chains of thousands of steps are read, saved, resumed, and sent to workers."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

import penstock as ps

pytestmark = pytest.mark.timeout(100)


def chain(steps: int, kinds: str = "maps") -> Any:
    dp: Any = ps.iter.IterableWrapper(range(12)).sharding_filter()
    for number in range(steps):
        if kinds == "maps" or number % 4:
            dp = dp.map(abs)
        else:
            dp = dp.batch(1).unbatch() if number % 8 else dp.filter(lambda item: item >= 0)
    return dp


@pytest.mark.parametrize("kinds", ["maps", "several kinds"])
@pytest.mark.parametrize("steps", [200, 5000])
def test_a_long_chain_goes_on_from_its_state(steps: int, kinds: str) -> None:
    dp = chain(steps, kinds)
    iterator = iter(dp)
    assert list(islice(iterator, 5)) == [0, 1, 2, 3, 4]
    state = json.loads(json.dumps(dp.state_dict()))
    resumed = chain(steps, kinds)
    resumed.load_state_dict(state)
    assert list(resumed) == list(iterator) == [*range(5, 12)]
    assert list(resumed) == [*range(12)]


def test_a_long_chain_is_read_through_a_thread() -> None:
    assert list(chain(5000).prefetch(2)) == [*range(12)]


def test_a_state_of_another_long_chain_is_an_error_of_a_few_lines() -> None:
    state = chain(5000).state_dict()
    with pytest.raises(ValueError, match="another chain") as caught:
        chain(5000).batch(2).load_state_dict(state)
    assert len(str(caught.value).splitlines()) < 20
    assert "+ Batcher" in str(caught.value)


@pytest.mark.parametrize("steps", [200, 5000])
def test_a_long_chain_is_read_by_workers_and_goes_on(steps: int) -> None:
    def load() -> Any:
        return ps.DataLoader2(chain(steps), reading_service=ps.MultiProcessingReadingService(2))

    with load() as loader:
        iterator = iter(loader)
        begun = list(islice(iterator, 5))
        state = json.loads(json.dumps(loader.state_dict()))
    with load() as resumed:
        resumed.load_state_dict(state)
        assert sorted([*begun, *resumed]) == [*range(12)]
