"""How the tests ask whether a chain resumes exactly, and how often snapshots are taken meanwhile."""

from __future__ import annotations

import base64
import json
import multiprocessing
from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest import mock

from penstock import DataLoader2, IterDataPipe, MultiProcessingReadingService
from penstock.registry import Throttle, seed_graph
from penstock.state import replay as reading

Make = Callable[[], Any]
"""Makes a chain, the same one each time."""

ALWAYS, NEVER = 1, 10**9
"""After how many items a snapshot of a source is due."""


def passed_on(pipe: IterDataPipe[Any]) -> dict[str, Any]:
    """Return the state of a pipe the way a checkpoint file gives it back."""
    state: dict[str, Any] = json.loads(json.dumps(pipe.state_dict()))
    return state


def snapshots(share: float) -> Any:
    """Let snapshots of sources take another share of the time, for the body of a `with`."""
    return mock.patch.object(reading, "SNAPSHOT_SHARE", share)


def always_due(chain: Any, _: Any) -> Any:
    """Let a worker report its position after each item; usually it does where that costs little of the time."""
    if multiprocessing.parent_process() is not None:
        mock.patch.object(Throttle, "step", ALWAYS).start()
    return chain


def as_json(state: dict[str, Any]) -> str:
    """Return a state as text, as a user may keep it; bytes, which JSON has none of, are spelled in letters."""
    return json.dumps(state, default=_spelled)


def _spelled(value: object) -> dict[str, str]:
    assert isinstance(value, bytes), f"the state is not plain data: it holds {value!r}"
    return {"bytes": base64.b64encode(value).decode()}


def from_json(text: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(text, object_hook=_with_bytes)
    return state


def _with_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if value.keys() == {"bytes"} else value


def assert_resumes_everywhere(make: Callable[[], IterDataPipe[Any]], passes: int = 3) -> None:
    """Check that a chain, stopped after any item of any pass, goes on as it would have: to the end of its last pass.

    Both where snapshots of the sources are taken at every chance and where they are never taken.
    """
    for always_due in (True, False):
        with mock.patch.object(Throttle, "step", ALWAYS if always_due else NEVER):
            _assert_resumes(make, passes)


def _assert_resumes(make: Callable[[], IterDataPipe[Any]], passes: int) -> None:
    uninterrupted = make()
    expected = [list(uninterrupted) for _ in range(passes)]
    for number, items in enumerate(expected):
        for handed_out in range(len(items) + 1):
            interrupted = make()
            for _ in range(number):
                list(interrupted)
            iterator = iter(interrupted)
            assert list(islice(iterator, handed_out)) == items[:handed_out]
            where = f"after {handed_out} items of pass {number}"
            resumed = make()
            resumed.load_state_dict(passed_on(interrupted))
            half = (len(items) - handed_out) // 2
            begun = iter(resumed)
            assert list(islice(begun, half)) == items[handed_out : handed_out + half], where
            once_more = make()
            once_more.load_state_dict(passed_on(resumed))
            for going_on, rest in ((begun, resumed), (once_more, once_more)):
                assert list(going_on) == items[handed_out + half :], where
                assert [list(rest) for _ in range(number + 1, passes)] == expected[number + 1 :], where
            assert list(iterator) == items[handed_out:], "asking for the state changed the pass"
        if number + 1 < passes:
            finished = make()
            for _ in range(number + 1):
                list(finished)
            resumed = make()
            resumed.load_state_dict(passed_on(finished))
            assert [list(resumed) for _ in range(number + 1, passes)] == expected[number + 1 :]


def seeded(make: Make, seed: int = 0) -> Any:
    dp = make()
    seed_graph(dp, seed)
    return dp


def resumed_chain(make: Make, state: dict[str, Any]) -> Any:
    """A fresh chain, seeded otherwise, that goes on from a state."""
    dp = seeded(make, 1)
    dp.load_state_dict(from_json(as_json(state)))
    return dp


def assert_resumes_twice_everywhere(make: Make) -> None:
    """Check that a chain that is stopped after any item, and again after any item, goes on with the same items."""
    whole = seeded(make)
    epochs = [[*whole] for _ in range(3)]
    for epoch, expected in enumerate(epochs[:2]):
        dp = seeded(make)
        assert [[*dp] for _ in range(epoch)] == epochs[:epoch]
        iterator = iter(dp)
        for first in range(len(expected) + 1):
            state = dp.state_dict()
            between = resumed_chain(make, state)
            its_iterator = iter(between)
            for second in range(first, len(expected) + 1):
                last = resumed_chain(make, between.state_dict())
                where = f"epoch {epoch}, stopped after {first} items, and after {second}"
                assert [*last] == expected[second:], where
                assert [*last] == epochs[epoch + 1], f"the epoch after {where}"
                assert [*islice(its_iterator, 1)] == expected[second : second + 1], where
            assert [*islice(iterator, 1)] == expected[first : first + 1]


def loader_over(make: Make, workers: int, shards: int | None = None, seed: int = 0) -> DataLoader2[Any]:
    loader: DataLoader2[Any] = DataLoader2(
        make(), reading_service=MultiProcessingReadingService(workers, num_shards=shards)
    )
    loader.seed(seed)
    return loader


def loader_resumed(make: Make, workers: int, state: dict[str, Any]) -> DataLoader2[Any]:
    loader = loader_over(make, workers, seed=99)
    loader.load_state_dict(from_json(as_json(state)))
    return loader


def states_along(loader: DataLoader2[Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Read an epoch; return its items and the states before the first and after each."""
    items, states = [], [loader.state_dict()]
    for item in loader:
        items.append(item)
        states.append(from_json(as_json(loader.state_dict())))
    return items, states
