"""Several streams become one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar

from ...registry import IterDataPipe, Node, capture, functional_datapipe
from ...registry.state import node_before_pass
from ...registry.torch_pipes import TorchIterDataPipe
from ..arguments import expect_pipes

T = TypeVar("T")


@functional_datapipe("zip")
class Zipper(IterDataPipe[tuple[Any, ...]]):
    """Yield tuples of one item from each source, until the shortest is exhausted.

    As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
    itself, fork it or build it twice: a pipe has one live iterator.

    >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
    >>> list(dp)
    [('a', 0), ('b', 1), ('c', 2)]
    """

    holds_items = False

    def __init__(self, *sources: IterDataPipe[Any]) -> None:
        expect_pipes("Zipper", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.sources, strict=False)

    def __len__(self) -> int:
        return min(map(len, self.sources))


@functional_datapipe("concat")
class Concater(IterDataPipe[T]):
    """Yield the items of the first source, then those of the second, and so on.

    The same pipe may stand several times: it is read anew each time.

    >>> dp = IterableWrapper("ab").concat(IterableWrapper("cd"))
    >>> list(dp)
    ['a', 'b', 'c', 'd']
    """

    holds_items = False
    transient = ("_number",)

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("Concater", sources, TorchIterDataPipe)
        self.sources = sources

    def reset(self) -> None:
        self._number = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        current = self.sources[self._number]
        # A source that is not being read has its pass still to come: if it stands here twice, it has been at its end.
        nodes = [capture(source) if source is current else node_before_pass(source) for source in self.sources]
        return {"number": self._number}, nodes

    def set_state(self, state: dict[str, Any]) -> None:
        self._number = state["number"]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._from_current_on())

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def _from_current_on(self) -> Iterator[IterDataPipe[T]]:
        while self._number < len(self.sources):
            yield self.sources[self._number]
            self._number += 1
