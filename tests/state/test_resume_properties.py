"""Any chain, stopped anywhere, goes on exactly: random chains of all operators, at random places, again and again.

How many cases are tried can be said by the environment: PENSTOCK_CASES, 150 where it is not there. A failure tells the
shortest case that was found to fail; `check(…)` of it tries it again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from chain_rules import ANY, ITEM, ROOTS, STEPS
from penstock.registry import apply_sharding, operators, seed_graph, walk
from random_chains import EXCEPTIONS, Case, Drawer, build, chain_of, is_refused, is_unordered, shorter, text
from resuming import as_json, from_json, snapshots

CASES = int(os.environ.get("PENSTOCK_CASES", "150"))
MOST = 5_000
"""More items than any of these chains gives."""

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:the source of random_split", "ignore:in_memory_cache", "ignore:.*keeps"),
]


def read(dp: Any, number: int = MOST) -> list[str]:
    return [text(item) for item in islice(dp, number)]


def made(case: Case, seed: int) -> Any:
    dp = build(case.spec)
    if case.shard[0] > 1:
        apply_sharding(dp, *case.shard)
    seed_graph(dp, seed, case.shard[1])
    return dp


def resumed(case: Case, saved: str, seed: int) -> Any:
    """A fresh chain that goes on from a state; what the state does not bring along would show by the seed."""
    dp = made(case, seed)
    dp.load_state_dict(from_json(saved), strict=False)  # what it writes is elsewhere
    return dp


def agree(seen: list[str], expected: list[str], when: str, unordered: bool = False) -> None:
    if unordered:
        seen, expected = sorted(seen), sorted(expected)
    if seen == expected:
        return
    pairs = enumerate(zip(seen, expected, strict=False))
    place = next((number for number, pair in pairs if pair[0] != pair[1]), min(len(seen), len(expected)))
    raise AssertionError(
        f"{when}: from item {place} on, {len(expected)} items are expected: {expected[place : place + 4]}, "
        f"and these {len(seen)} came: {seen[place : place + 4]}"
    )


class Uninterrupted(Exception):
    """The chain does not even work without a break, so that it says nothing about resuming."""


def check(case: Case) -> None:
    """Read epochs whole; then one in three legs, each by a fresh chain from the state before, and the next epoch."""
    unordered = is_unordered(case.spec)
    with snapshots(case.share):
        try:
            dp = made(case, 0)
            epochs = [read(dp) for _ in range(case.epoch + 2)]
        except Exception as error:
            raise Uninterrupted from error
        expected, following = epochs[-2:]

        dp = made(case, 0)
        for items in epochs[:-2]:
            agree(read(dp), items, "another chain of the same seed", unordered)
        iterator = iter(dp)
        first = read(iterator, case.first % (len(expected) + 2))
        state = dp.state_dict()
        saved = as_json(state)
        agree([*first, *read(iterator)], expected, "the pass that the state was taken in", unordered)
        assert as_json(state) == saved, "the state changed when the pass went on"

        # At the end of an epoch, one item more is asked for to hear of the end; then the next epoch is resumed.
        ended = len(first) < case.first % (len(expected) + 2)
        try:
            go_on_twice(case, saved, *(([], following, None) if ended else (first, expected, following)))
        except RuntimeError as error:
            if not ((case.epoch > 0 or ended) and is_refused(case.spec, error)):
                raise


def go_on_twice(case: Case, saved: str, begun: list[str], whole: list[str], after: list[str] | None) -> None:
    """From a state after the items `begun` of an epoch, read on twice, and the epoch after it."""
    unordered = is_unordered(case.spec)
    dp = resumed(case, saved, 1)
    iterator = iter(dp)
    second = read(iterator, case.second % (len(whole) - len(begun) + 1))
    saved = as_json(dp.state_dict())

    dp = resumed(case, saved, 2)
    rest = read(dp)
    agree([*begun, *second, *rest], whole, f"after {len(begun)} items, and {len(second)} more", unordered)
    if after is not None:
        try:
            agree(read(dp), after, f"the epoch after {len(begun)} items, and {len(second)} more", unordered)
        except RuntimeError as error:
            if not is_refused(case.spec, error):
                raise


def fails(case: Case) -> bool:
    try:
        check(case)
    except Uninterrupted:
        return False
    except Exception:
        return True
    return False


@pytest.mark.parametrize("seed", range(CASES))
def test_any_chain_stopped_anywhere_twice_goes_on_exactly(seed: int) -> None:
    case = Case.drawn(seed)
    try:
        check(case)
    except Uninterrupted as error:
        if is_refused(case.spec, error.__cause__):
            pytest.skip("the chain is refused: an error")
        raise
    except Exception as error:
        raise AssertionError(f"it fails with check({shorter(case, fails)!r})") from error


def alone(name: str, seed: int) -> Case:
    """Draw a case of one step over few items in random order."""
    generator = random.Random(f"{name} {seed}")
    drawer, takes = Drawer(generator, elsewhere=False), STEPS[name].takes
    source = [["numbers", generator.randint(0, 12)], ["shuffle", 3]]
    kind = [["to", takes]] if takes not in (ANY, ITEM) else []
    return Case(
        [*source, *kind, drawer.step(name)],
        epoch=seed % 2,
        first=generator.randint(0, 13),
        second=generator.randint(0, 5),
        share=generator.choice([float("inf"), 1e-15]),
    )


@pytest.mark.parametrize("name", STEPS)
def test_each_step_alone_goes_on_exactly(name: str) -> None:
    for seed in range(4 if STEPS[name].slow else 12):
        try:
            check(case := alone(name, seed))
        except Exception as error:
            raise AssertionError(f"it fails with check({case!r})") from error


@pytest.mark.parametrize("seed", range(max(CASES // 10, 1)))
def test_the_shards_of_any_chain_are_together_the_whole(seed: int) -> None:
    generator = random.Random(f"shards {seed}")
    spec = chain_of(generator)
    while "sharding_" in repr(spec):
        spec = chain_of(generator)  # a stream that is divided twice is not whole
    number = generator.randint(1, 5)
    spec = [*spec, ["sharding_filter"]]
    union: Counter[str] = Counter()
    for shard in range(number):
        union.update(read(made(Case(spec, shard=(number, shard)), 0)))
    assert union == Counter(read(made(Case(spec), 0))), spec


def test_random_chains_have_each_operator_of_ours_or_a_reason() -> None:
    rules = {**ROOTS, **STEPS}
    covered = {operator for rule in rules.values() for operator in rule.covers}
    ours = {name for name, each in operators.items() if each.cls.__module__.startswith("penstock.pipes.")}
    missing = ours - covered - EXCEPTIONS.keys()
    assert not missing, (
        f"enter a @step with {missing} in chain_rules_of_items.py or chain_rules_of_files.py of tests/support"
    )
    assert covered | EXCEPTIONS.keys() == ours  # examples enter some of their own
    assert not covered & EXCEPTIONS.keys()


@pytest.mark.parametrize("name", [*ROOTS, *STEPS])
def test_a_rule_adds_the_operators_that_it_says(name: str) -> None:
    found: set[str] = set()
    for seed in range(20):
        drawer = Drawer(random.Random(seed), elsewhere=False)
        if name in ROOTS:
            rule, spec = ROOTS[name], [drawer.step(name)]
        else:
            rule = STEPS[name]
            spec = [["numbers", 8], ["to", rule.takes if rule.takes != "any" else "item"], drawer.step(name)]
        dp = build(spec)
        kinds = {type(pipe) for pipe in walk(dp)}
        found |= {key for key, operator in operators.items() if operator.cls in kinds}
        if seed == 0:
            assert 0 < len(read(dp)) < MOST, spec
        if found >= {*rule.covers}:
            return
    raise AssertionError(f"{name} does not add {sorted({*rule.covers} - found)}")


def test_a_case_is_the_same_for_the_same_seed_and_its_text_rebuilds_it() -> None:
    for seed in range(20):
        case = Case.drawn(seed)
        assert Case.drawn(seed) == case
        assert eval(repr(case), {"Case": Case, "inf": float("inf")}) == case


def test_a_failing_case_loses_the_steps_that_do_not_matter() -> None:
    case = Case([["numbers", 9], ["map"], ["fork", [[["map"]], [["shuffle", 3]]], "zip"], ["batch", 2, False]])
    found = shorter(case, lambda case: "shuffle" in repr(case.spec))
    assert found.spec == [["numbers", 9], ["fork", [[["shuffle", 3]]], "zip"]]
