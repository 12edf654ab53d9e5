"""Any chain, read on any number of ranks and workers and stopped anywhere, goes on exactly on any other number of both.

How many cases are tried can be said by the environment: three in twenty of PENSTOCK_CASES, 150 where it is not there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_resume_anywhere import loader_of, told

from random_chains import chain_of, is_refused, is_unordered

CASES = int(os.environ.get("PENSTOCK_CASES", "150"))
MOST = 4

pytestmark = pytest.mark.filterwarnings("ignore:the source of random_split")


class Ranks:
    """Processes that are ranks of one world after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worlds = 0
        command = [sys.executable, str(Path(__file__).parents[1] / "support" / "rank_server.py")]
        self._processes = [
            subprocess.Popen([*command, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for rank in range(MOST)
        ]

    def __call__(self, **told: Any) -> list[dict[str, Any]]:
        """Return what each rank of a world answers."""
        self._worlds += 1
        line = json.dumps({**told, "store": str(self._folder / str(self._worlds))}) + "\n"
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for process in self._processes if process.stdout]
        return answers[: told["ranks"]]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    found = Ranks(tmp_path_factory.mktemp("worlds"))
    yield found
    found.end()


def is_part_in_order(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


def drawn(seed: int) -> dict[str, Any]:
    generator = random.Random(f"ranks {seed}")
    worlds = [(generator.randint(1, MOST), generator.randint(0, 2)) for _ in range(3)]
    return {
        "spec": chain_of(generator, elsewhere=True),
        "worlds": worlds,
        "shards": generator.randint(max(ranks * max(workers, 1) for ranks, workers in worlds), 12),
        "epochs": generator.choice([0, 0, 1]),
        "stops": [generator.choice([0, 1, 2, 5, 20, 100]), generator.choice([0, 1, 3, 10])],
        "before_last": generator.random() < 0.3,
        "prefetch": generator.choice([0, 1, 5]),
        "always_due": generator.random() < 0.5,
        "seed": generator.randint(0, 3),
    }


def read_on(ranks: Ranks, case: dict[str, Any], number: int, state: str | None, stop: int | None) -> list[Any]:
    size, workers = case["worlds"][number]
    usual = {name: case[name] for name in ("spec", "shards", "prefetch", "always_due", "seed", "before_last")}
    epochs = case["epochs"] if state is None else 0
    return ranks(**usual, ranks=size, workers=workers, state=state, stop=stop, epochs=epochs)


def repeated_before(state: str | None, size: int) -> list[int]:
    """Return how many items of the epoch each of so many ranks had repeated when a state was taken."""
    steps = json.loads(state)["state"]["steps"] if state else []
    found: list[int] = steps[-1].get("own", {}).get("repeated", []) if steps else []
    return found if len(found) == size else [0] * size


def check(ranks: Ranks, case: dict[str, Any]) -> bool:
    """Read an epoch in three legs, and the next; say whether there was enough to read for all ranks."""
    with loader_of(case["spec"], 0, case["shards"], 0, case["seed"]) as alone:
        *_, expected, following = [told(alone, case["spec"]) for _ in range(case["epochs"] + 2)]
    epochs: list[list[str]] = [[], []]
    state: str | None = None
    ended = 0
    for number, stop in enumerate([*case["stops"], None]):
        answers = read_on(ranks, case, number, state, stop)
        errors = [answer.get("error", "") for answer in answers]
        if all("a rank has nothing to read" in error for error in errors):
            return False
        if any(is_refused(case["spec"], error) for error in errors):
            return False
        assert not any("error" in answer for answer in answers), answers
        assert len({len(answer["items"]) for answer in answers}) == 1, "the ranks did not end together"
        if stop is not None:
            assert len({answer["state"] for answer in answers}) == 1, "the state differs by rank"
        if case["before_last"] and answers[0].get("before"):
            again = read_on(ranks, case, number, answers[0]["before"], 1)
            assert [answer["items"] for answer in again] == [answer["items"][-1:] for answer in answers], "before_last"
        repeated = repeated_before(state, len(answers))
        for rank, answer in enumerate(answers):
            part = answer["items"][: len(answer["items"]) - answer["repeated"] + repeated[rank]]
            assert is_unordered(case["spec"]) or is_part_in_order(part, [expected, following][ended]), "the order"
            epochs[ended] += part
            if stop is None and not ended:
                epochs[1] += answer["next"][: len(answer["next"]) - answer["next repeated"]]
        state = answers[0].get("state")
        if stop is not None and len(answers[0]["items"]) < stop:
            if ended:  # and nothing is known of the one after it
                break
            ended = 1
    assert Counter(epochs[0]) == Counter(expected), "the union of all legs"
    assert Counter(epochs[1]) == Counter(following), "the next epoch"
    return True


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(max(CASES * 3 // 20, 1)))
def test_ranks_that_stop_anywhere_go_on_exactly_on_any_number_of_ranks(ranks: Ranks, seed: int) -> None:
    case = drawn(seed)
    try:
        if not check(ranks, case):
            pytest.skip("a rank has nothing to read, or the chain is refused: errors")
    except Exception as error:
        if is_refused(case["spec"], error):
            pytest.skip("the chain is refused: errors")
        raise AssertionError(f"it fails with check(ranks, {case!r})") from error
