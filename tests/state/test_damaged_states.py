"""Damaged states: what is no state of the chain is an error, and runs no code, fills no memory and does not hang."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

numbers = ps.iter.IterableWrapper

pytestmark = pytest.mark.timeout(60)

ONCE = "a state cannot hold the same list or dict twice"


def nested(levels: int, width: int) -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(levels):
        value = [value] * width
    return value


def steps(state: Any) -> Any:
    return state["state"]["steps"]


DAMAGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "in a circle": (lambda state: state["state"].update(x=state), ONCE),
    "a list in itself": (lambda state: state["chain"].append(state["chain"]), ONCE),
    "arguments shared many times": (lambda state: state.update(arguments=nested(60, 2)), ONCE),
    "items shared many times": (lambda state: steps(state)[-2]["own"].update(held=nested(60, 2)), ONCE),
    "seeds shared many times": (lambda state: state["state"]["random"][0].update(seed=nested(60, 2)), ONCE),
    "deep": (lambda state: state["state"].update(steps=nested(100_000, 1)), "at most 200 levels of lists and dicts"),
    "a float for a step": (lambda state: steps(state)[-1].update(sources=[0.0]), "reads from steps before it, and not"),
    "text for a seed": (lambda state: state["state"]["random"][0].update(seed="x"), "cannot have seeds like"),
    "an unknown entry": (lambda state: steps(state)[-1].update(seen=1), "cannot be at the state's position"),
    "a part that is missing": (lambda state: steps(state)[-2]["own"].pop("drawn"), "has in the state no drawn"),
    "a huge number": (lambda state: steps(state)[-1].update(skip=2**63), "cannot be at the state's position"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("damage", "text"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_a_value_error(damage: Callable[[Any], Any], text: str) -> None:
    def chain() -> Any:
        return numbers(range(9)).shuffle().batch(2)

    dp = chain()
    next(iter(dp))
    state = dp.state_dict()
    damage(state)
    with pytest.raises(ValueError, match=text):
        chain().load_state_dict(state)


@pytest.mark.parametrize("reseeded", ["x", [], {}, -1, False])
def test_a_wrong_seed_for_later_epochs_is_a_value_error(reseeded: Any) -> None:
    loader = ps.DataLoader2(numbers(range(9)).shuffle())
    with pytest.raises(ValueError, match="another seed"):
        loader.load_state_dict({**loader.state_dict(), "reseeded": reseeded})


def test_a_shard_at_two_places_is_a_value_error() -> None:
    service = ps.MultiProcessingReadingService(num_workers=0, num_shards=2)
    loader = ps.DataLoader2(numbers(range(9)).sharding_filter(), reading_service=service)
    next(iter(loader))
    state = loader.state_dict()
    standing = steps(state)[-1]["own"]["standing"]
    standing[1][0] = standing[0][0]
    with pytest.raises(ValueError, match="a state has one position per shard"):
        loader.load_state_dict(state)


@pytest.mark.timeout(20)
def test_results_of_threads_may_be_missing_at_the_start() -> None:
    def chain() -> Any:
        return numbers(range(9)).threadpool_map(abs, max_workers=2)

    dp = chain()
    next(iter(dp))
    state = dp.state_dict()
    steps(state)[-1]["own"]["done_beyond"] = [1, 2, 4]
    resumed = chain()
    resumed.load_state_dict(state)
    assert list(resumed) == [3, 5, 6, 7, 8]


def test_an_output_beyond_the_last_is_an_error() -> None:
    def chain() -> Any:
        return numbers(range(4)).shuffled_flatmap(lambda item: [item] * 3, buffer_size=2).set_seed(0)

    dp = chain()
    next(iter(dp))
    state = dp.state_dict()
    steps(state)[-1]["own"]["opened"][0][1] = 2**61
    resumed = chain()
    resumed.load_state_dict(state)
    with pytest.raises(RuntimeError, match="gave fewer than when the state was taken"):
        next(iter(resumed))


# Any other value at any place

HARMLESS = tuple(
    f": {how}" for how in ("ran", "ValueError", "TypeError", "KeyError", "IndexError", "OverflowError", "RuntimeError")
)
"""What may come of any value: it runs no code, and does not hang or fill the memory."""

TAMPER = Path(__file__).parents[1] / "support" / "tampered_states.py"


@pytest.mark.timeout(200)  # on a busy machine; each value has seconds of its own there
@pytest.mark.parametrize(("chain", "least"), [("linear", 71), ("branched", 60), ("grouped", 60), ("cached", 60)])
def test_any_value_at_any_place_is_harmless(chain: str, least: int) -> None:
    """A program of its own loads the states: it may hang, or fill the memory."""
    command = [sys.executable, str(TAMPER), chain]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) > least, "there are fewer places in the state than there should be"
    assert [line for line in lines if not line.endswith(HARMLESS)] == []
    of_shards = [line for line in lines if "= shards" in line]
    assert len(of_shards) == (6 if chain == "linear" else 0)
    assert all(line.endswith(": ValueError") for line in of_shards)
