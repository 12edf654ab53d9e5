"""What a lint is: a function that finds one known mistake in chains, with its fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ...registry.traits import Trait
from ..chain_info import ChainInfo, ReadPlan, StepInfo

__all__ = ["LINTS", "Mistake", "lint", "lint_of_loader", "mistakes_in"]


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


StepLint = Callable[[StepInfo], Iterable[Mistake]]
LoaderLint = Callable[[ChainInfo, ReadPlan], Iterable[Mistake]]

LINTS: dict[str, Callable[[ChainInfo], Iterable[Mistake]]] = {}
"""By the name of a lint: what finds its mistakes in a chain. It yields nothing where it is not sure."""


def lint(*traits: Trait) -> Callable[[StepLint], StepLint]:
    """Enter a lint of a step: it is run on each step that has one of the traits, or on all steps without traits."""

    def enter(find: StepLint) -> StepLint:
        def find_in_chain(chain: ChainInfo) -> Iterator[Mistake]:
            for step in chain.with_trait(*traits) if traits else chain.steps:
                yield from find(step)

        LINTS[find.__name__] = find_in_chain
        return find

    return enter


def lint_of_loader(find: LoaderLint) -> LoaderLint:
    """Enter a lint of a chain that a loader reads by a plan."""
    LINTS[find.__name__] = lambda chain: () if chain.plan is None else find(chain, chain.plan)
    return find


def mistakes_in(chain: ChainInfo) -> Iterator[Mistake]:
    """Yield the mistakes that lints find in a chain, named for the lints."""
    for name, find in LINTS.items():
        for mistake in find(chain):
            yield replace(mistake, name=name)
