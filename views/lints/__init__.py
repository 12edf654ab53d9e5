"""Lints: functions that find known mistakes in chains, each with its fix."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ...registry.traits import Trait
from ..chain_info import ChainInfo, StepInfo

__all__ = ["Lint", "Mistake", "lint", "lint_of_chain", "mistakes_in"]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a chain.

    >>> print(Mistake("It is cold.", "People freeze.", "stove.light()"))
    It is cold. People freeze. Mend: stove.light()
    """

    what: str
    """The mistake, as a sentence."""
    why: str
    """Its effect, as a sentence."""
    mend: str
    """The code to write instead."""
    name: str = ""
    """The name of the lint, as in `"shuffle_after_batch"`."""

    def __str__(self) -> str:
        return f"{self.what} {self.why} Mend: {self.mend}"


Lint = Callable[[ChainInfo], Iterable[Mistake]]
"""Finds one kind of mistake. Its name is that of the mistake. It yields nothing where it is not sure."""


def lint(lints: list[Lint], *traits: Trait) -> Callable[[Callable[[StepInfo], Iterable[Mistake]]], Lint]:
    """Decorate a lint of a step: it is run on each step that has one of the traits, or on all steps without traits."""

    def decorate(find: Callable[[StepInfo], Iterable[Mistake]]) -> Lint:
        @lint_of_chain(lints)
        @functools.wraps(find)
        def find_in_chain(chain: ChainInfo) -> Iterator[Mistake]:
            for step in chain.with_trait(*traits) if traits else chain.steps:
                yield from find(step)

        return find_in_chain

    return decorate


def lint_of_chain(lints: list[Lint]) -> Callable[[Lint], Lint]:
    """Decorate a lint of a whole chain."""

    def decorate(find: Lint) -> Lint:
        lints.append(find)
        return find

    return decorate


def mistakes_in(chain: ChainInfo, lints: Iterable[Lint]) -> Iterator[Mistake]:
    """Yield the mistakes that lints find in a chain, named for the lints."""
    for find in lints:
        for mistake in find(chain):
            yield replace(mistake, name=find.__name__)
