"""Known mistakes in chains: each is found by a small function, and comes with its mend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from .known import Known

__all__ = ["Mistake", "Rule", "found_by"]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a chain.

    >>> print(Mistake("It is cold.", "People freeze.", "stove.light()"))
    It is cold. People freeze. Mend: stove.light()
    """

    what: str
    """What the chain does, as a sentence."""
    why: str
    """Why that matters, as a sentence."""
    mend: str
    """What to write instead."""
    name: str = ""
    """The name of the rule, as in `"shuffle_after_batch"`."""

    def __str__(self) -> str:
        return f"{self.what} {self.why} Mend: {self.mend}"


Rule = Callable[[Known], Iterable[Mistake]]
"""Finds one kind of mistake. Its name is that of the mistake. It is silent where it is not sure."""


def found_by(rules: Iterable[Rule], chain: Known) -> Iterator[Mistake]:
    """Yield the mistakes that rules find in a chain, named for the rules."""
    for rule in rules:
        for mistake in rule(chain):
            yield replace(mistake, name=rule.__name__)
