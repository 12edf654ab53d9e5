"""Random chains of all operators, as plain data that rebuilds them, and random places to stop them at.

A chain follows from a seed. So does a case: a chain, and where it is stopped and resumed. The text of a case is what
rebuilds it, in any process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import chain_rules_of_files  # noqa: F401  (its rules are entered)
import chain_rules_of_items  # noqa: F401
from chain_rules import ANY, ITEM, ROOTS, SAME, STEPS, Rule, Spec, build, text

__all__ = [
    "EXCEPTIONS",
    "Case",
    "Drawer",
    "WorkerCase",
    "build",
    "chain_of",
    "is_refused",
    "is_unordered",
    "shorter",
    "text",
]

EXCEPTIONS = {
    "iter.random_sample": "refuses rows whose place is unknown, as after a shuffle; tests/operators/test_sample.py",
    "iter.list_files_by_ais": "needs a cluster of AIStore",
    "iter.load_files_by_ais": "needs a cluster of AIStore",
    "iter.list_files_by_s3": "needs a server of S3",
    "iter.read_from_gdrive": "needs Google Drive",
}
"""The operators that no rule adds, with the reason."""

STREAM = "stream"
MOST_ITEMS = 150
"""About as many items as a chain may give, by what its steps say of themselves."""
UNORDERED = "unordered"
AT_THE_END = (UNORDERED, UNORDERED, "to_device", "pin_memory")
"""Steps that have their place at the end of what is read under a loader."""
SHARDING = ("sharding_filter", "sharding_filter", "sharding_files", "sharding_round_robin_dispatch")
IN_STEP = ("map", "enumerate", "to")
"""Steps of branches that are read in step: one item of one, at once."""
REFUSALS = {
    "a pass over another branch began anew": ("by_index", "in_memory_cache"),  # in later epochs: docs/loading.md
    "belongs in the main process, and after it the chain meets another": ("limit",),
    "which run on each rank after the ranks have agreed who has an item": ("limit",),
    "a source that is divided among the readers, and one that is not": ("sharding_",),
    "a dispatched stream is read once only": ("unlike_schemas",),
    "none of the": ("'slice'",),  # of all readers together, while each has some of the keys
}
"""Errors that chains with these steps may raise: one branch is kept while another goes by, or items are counted."""
COMMON = ("shuffle", "batch", "filter", "flatmap", "prefetch", "fork", "demux", "cycle", "in_memory_cache", "by_index")
"""Steps that hold the most, or read the most; they come up more often."""


class Drawer:
    """Draws chains, all of them from one generator."""

    def __init__(self, generator: random.Random, elsewhere: bool, depth: int = 0) -> None:
        self.random = generator
        self.elsewhere = elsewhere
        """Whether the chain is to be read in worker processes, which costs more, and which not every step can be in."""
        self.depth = depth
        self.divided = False
        """Whether a step before the next one divides the items among readers."""
        self.items = 1.0
        """About how many items come."""
        self.beside = 0.0
        """About how many come from the chains that were drawn beside, for the step that is drawn."""

    def chain(self, most_steps: int, needs: str | None = None) -> Spec:
        """Draw a whole chain; where it needs a step, that is one of them."""
        rules = [rule for rule in ROOTS.values() if self._fits(rule)]
        (rule,) = self.random.choices(rules, [0.1 if rule.slow else 1 for rule in rules])
        source = self._drawn(rule)
        self.items = self.beside or max((part for part in source[1:] if isinstance(part, int)), default=32)
        count = self.random.randint(0, most_steps)
        place = self.random.randint(0, count)
        steps, kind = self._steps(place, rule.gives)
        if needs is not None:
            if kind == STREAM:
                steps.append(["to", kind := ITEM])
            steps.append(self.step(needs))
            self.divided = True
        more, kind = self._steps(count - place, kind)
        spec = [source, *steps, *more, *self._not_read_twice(kind)]
        if "write_" in repr(spec):  # behind the other one, writers do not know which part of a stream they write
            spec = [["sharding_filter"] if part[0] == "sharding_round_robin_dispatch" else part for part in spec]
        return spec

    def chain_beside(self) -> Spec:
        inner = Drawer(self.random, self.elsewhere, self.depth + 1)
        spec = inner.chain(2)
        self.beside += inner.items
        return [*spec, ["sharding_filter"]] if self.divided and self.random.random() < 0.8 else spec

    def steps_of_branch(self, one_to_one: bool) -> list[Any]:
        inner = Drawer(self.random, self.elsewhere, self.depth + 1)
        inner.items, inner.divided = self.items, self.divided
        steps, kind = inner._steps(
            self.random.randint(0, 2), ITEM, lambda rule: rule.name in IN_STEP if one_to_one else rule.in_branch
        )
        return [*steps, *inner._not_read_twice(kind)]

    def _steps(
        self, count: int, kind: str, allowed: Callable[[Rule], bool] = lambda rule: True
    ) -> tuple[list[Any], str]:
        steps = []
        rules = [rule for rule in STEPS.values() if self._fits(rule) and allowed(rule) and rule.name != UNORDERED]
        weights = [0.1 if rule.slow else 3 if rule.name in COMMON else 1 for rule in rules]
        for _ in range(count):
            (rule,) = self.random.choices(rules, weights)
            if self.items * rule.grows > MOST_ITEMS:
                continue
            self.items *= rule.grows
            if kind == STREAM and rule.takes not in (ANY, STREAM):
                steps.append(["to", kind := ITEM])
            if rule.takes not in (ANY, ITEM, kind):
                steps.append(["to", kind := rule.takes])
            steps.append(drawn := self._drawn(rule))
            self.items += self.beside
            kind = drawn[1] if rule.name == "to" else kind if rule.gives == SAME else rule.gives
        return steps, kind

    def _not_read_twice(self, kind: str) -> list[Any]:
        """What a chain ends with that others go on from: they may look at an item several times."""
        return [["to", ITEM]] if kind == STREAM and self.depth else []

    def step(self, name: str) -> list[Any]:
        """Draw the arguments of a step, or of a source."""
        return self._drawn(ROOTS[name] if name in ROOTS else STEPS[name])

    def _drawn(self, rule: Rule) -> list[Any]:
        self.beside = 0
        return [rule.name, *(draw(self) for draw in rule.draws)]

    def _fits(self, rule: Rule) -> bool:
        nests = any(draw.__module__ != "chain_rules" for draw in rule.draws)
        divides_again = self.elsewhere and rule.name in SHARDING
        return (rule.elsewhere or not self.elsewhere) and not divides_again and not (nests and self.depth >= 2)


def chain_of(generator: random.Random, elsewhere: bool = False) -> Spec:
    """Draw a chain; one to be read elsewhere has a sharding point, and may give its items in any order."""
    drawer = Drawer(generator, elsewhere)
    if not elsewhere:
        return drawer.chain(5)
    spec = drawer.chain(3, generator.choice(SHARDING))
    return [*spec, drawer.step(generator.choice(AT_THE_END))] if generator.random() < 0.2 else spec


def is_unordered(spec: Spec) -> bool:
    """Say whether the chain gives its items in any order."""
    return bool(spec[-1][0] == UNORDERED)


def is_refused(spec: Spec, error: object) -> bool:
    """Say whether an error is one that the chain is documented to raise where it is divided or resumed."""
    return any(said in str(error) and any(name in repr(spec) for name in names) for said, names in REFUSALS.items())


@dataclass(frozen=True)
class Case:
    """A chain, and where it is stopped and resumed, twice."""

    spec: Spec
    epoch: int = 0
    """How many epochs are read before."""
    first: int = 3
    """How many items of the next are read before the first state is taken, modulo as many as there are."""
    second: int = 2
    """How many are read after it, before the second state is taken, in the same way."""
    share: float = 0.01
    """The share of the time that snapshots may take."""
    shard: tuple[int, int] = (1, 0)
    """In how many shards the chain is read, and which of them this is."""

    @classmethod
    def drawn(cls, seed: int) -> Case:
        generator = random.Random(seed)
        shards = generator.choice([1, 1, 2, 3])
        spec = chain_of(generator)
        if repr(spec).count("sharding_") > 1:  # which would lose items, and is refused
            shards = 1
        return cls(
            spec=spec,
            epoch=generator.randint(0, 2),
            first=_stop(generator),
            second=_stop(generator),
            share=generator.choice([0.01, float("inf"), float("inf"), 1e-15]),
            shard=(shards, generator.randrange(shards)),
        )


@dataclass(frozen=True)
class WorkerCase:
    """A chain with a sharding point, and the workers that read it before, between and after two states."""

    spec: Spec
    shards: int = 2
    workers: tuple[int, int, int] = (2, 0, 0)
    prefetch: tuple[int, int, int] = (1, 1, 1)
    epoch: int = 0
    first: int = 3
    second: int = 2
    always_due: bool = False
    """Whether workers report their position after each item."""
    seed: int = field(default=0)

    @classmethod
    def drawn(cls, seed: int) -> WorkerCase:
        generator = random.Random(seed)
        usual = [(1, 0, 0), (2, 0, 0), (3, 0, 0), (2, 0, 2)]
        several = generator.choice(usual) if generator.random() < 0.6 else None
        shards = generator.randint(1, 5)
        return cls(
            spec=chain_of(generator, elsewhere=True),
            shards=shards,
            workers=several or (generator.randint(0, 3), generator.randint(0, 3), generator.randint(0, 3)),
            prefetch=(generator.choice([0, 1, 5]), generator.choice([0, 1, 5]), generator.choice([0, 1, 5])),
            epoch=generator.choice([0, 0, 1, 2]),
            # Often before each shard has yielded an item, or as many as the others.
            first=generator.randint(0, 3 * shards) if generator.random() < 0.6 else _stop(generator),
            second=generator.randint(0, shards) if generator.random() < 0.5 else _stop(generator),
            always_due=generator.random() < 0.5,
            seed=generator.randint(0, 3),
        )


def _stop(generator: random.Random) -> int:
    """Draw how far to read: more often a few items, sometimes all of them."""
    return generator.choice([generator.randint(0, 6), generator.randint(0, 40), generator.randint(0, 400), -1])


def shorter(case: Case, still_fails: Callable[[Case], bool], seconds: float = 10) -> Case:
    """Return a case that fails as well and has as few steps as can be found in so many seconds."""
    found, end = True, time.monotonic() + seconds
    while found:
        found = False
        for spec in _with_one_step_less(case.spec):
            if time.monotonic() > end:
                return case
            if still_fails(replace(case, spec=spec)):
                case, found = replace(case, spec=spec), True
                break
    return case


def _with_one_step_less(spec: Any) -> Iterator[Any]:
    """Yield a chain, or what is like one in it, less one step or one branch somewhere."""
    for place, part in enumerate(spec):
        if place or not _begins_a_chain(spec):
            yield [*spec[:place], *spec[place + 1 :]]
        if isinstance(part, list):
            yield from ([*spec[:place], smaller, *spec[place + 1 :]] for smaller in _smaller_arguments(part))


def _smaller_arguments(part: list[Any]) -> Iterator[list[Any]]:
    if not part or not isinstance(part[0], str):  # the steps of a branch
        yield from _with_one_step_less(part)
        return
    for number, argument in enumerate(part):
        if isinstance(argument, list) and argument and isinstance(argument[0], list):
            yield from ([*part[:number], smaller, *part[number + 1 :]] for smaller in _with_one_step_less(argument))


def _begins_a_chain(spec: Any) -> bool:
    first = spec[0]
    return bool(first) and isinstance(first[0], str) and first[0] in ROOTS
