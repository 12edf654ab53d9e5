"""A chain as a node of `torchdata.nodes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from torchdata.nodes import BaseNode  # type: ignore[import-untyped, unused-ignore]

from ...registry import IterDataPipe, T, close
from ...state.save import begin_afresh, load_state, state_of


class ChainNode(BaseNode[T]):  # type: ignore[misc, unused-ignore]
    """Yields the items of a chain; each `reset` without a state begins a new pass."""

    def __init__(self, chain: IterDataPipe[T]) -> None:
        super().__init__()
        self.chain = chain
        chain._counts_epochs = True  # a `NodeReader` may read the node in a pass of another chain
        self._it: Iterator[T] | None = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        super().reset(initial_state)
        # Also without a state: the state of an earlier reset may be unused.
        if initial_state is None:
            begin_afresh(self.chain)
        else:
            load_state(self.chain, initial_state)
        self._it = iter(self.chain)

    def next(self) -> T:
        return next(self._it)  # type: ignore[arg-type]  # set by reset, which comes first

    def get_state(self) -> dict[str, Any]:
        # Not state_dict(), which at the end of a pass reports the next one: nodes request one item more to see the
        # end, then reset.
        return state_of(self.chain, after_the_end=False)

    def shutdown(self) -> None:
        """Release the resources of the pass. `NodeReader` calls this, as do the nodes of torchdata after 0.11."""
        with suppress(ValueError):  # a thread is still producing an item, and releases the rest itself
            close(self._it)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.chain,)
