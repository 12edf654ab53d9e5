"""How the tests ask whether a chain resumes exactly, and how often snapshots are taken meanwhile."""

from __future__ import annotations

import base64
import json
import multiprocessing
from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest import mock

from penstock import IterDataPipe
from penstock.registry import Throttle
from penstock.state import replay as reading

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
    """Let a worker tell where it stands after each item; usually it does where that costs little of the time."""
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
