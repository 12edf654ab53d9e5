"""Explains chains when they are read, and collects the mistakes that are found in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.registry import walk
from penstock.runner.loading import loader
from penstock.state.passes import Pass
from penstock.views.explanation import explained

_PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from watched import Watched
watched = Watched()
if __name__ == "__main__":
    watched.begin(setattr)
{code}
assert not watched.mistakes, "\\n".join(watched.mistakes.values())
"""


def watched_program(code: str) -> str:
    """Return a program that fails in the end if explain finds mistakes in its chains."""
    return _PROGRAM.format(folder=str(Path(__file__).parent), code=code)


class Watched:
    """What was found in the chains that were read, and how many these were."""

    def __init__(self) -> None:
        self.chains = 0
        self.mistakes: dict[str, str] = {}
        self._seen: dict[int, Any] = {}

    def see(self, chain: Any) -> None:
        """Explain a chain, unless it is part of one that was seen."""
        if id(chain) in self._seen:
            return
        self._seen.update((id(step), step) for step in walk(chain))
        self.chains += 1
        explanation = explained(chain)
        assert str(explanation)
        for mistake in explanation.warnings:
            self.mistakes.setdefault(mistake.name, f"{mistake} In:\n{chain!r}")

    def begin(self, set_attribute: Callable[[Any, str, Any], None]) -> None:
        """See all chains that are read from now on in this process."""
        begin, initialize = Pass.__init__, loader.DataLoader2.__init__

        def seen_pass(self_: Any, pipe: Any) -> None:
            self.see(pipe)
            begin(self_, pipe)

        def seen_loader(self_: Any, datapipe: Any, *args: Any, **kwargs: Any) -> None:
            self.see(datapipe)
            initialize(self_, datapipe, *args, **kwargs)

        set_attribute(Pass, "__init__", seen_pass)
        set_attribute(loader.DataLoader2, "__init__", seen_loader)
