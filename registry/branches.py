"""One of the pipes through which a stream is read; `Splitter` makes them, and says how they belong together."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from .base import IterDataPipe
from .generations import Generation, Waiting
from .notes import say_where
from .state import Node, node_before_pass

if TYPE_CHECKING:
    from .splitter import Splitter

__all__ = ["Branch"]

T = TypeVar("T")


class Branch(IterDataPipe[T]):
    """Yield what a splitter deals to one of its branches."""

    holds_items = False
    is_one_of_several = True
    transient = ("waiting", "generation", "joined", "_left", "_begins_from")
    source: Splitter

    def __init__(self, source: Splitter, number: int) -> None:
        self.source = source
        self.number = number
        self._prepare()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "number" in state:  # as in every copy, but not where torch only looks for the pipes
            self._prepare()

    def _prepare(self) -> None:
        self.waiting: Waiting | None = None
        self.generation: Generation | None = None
        self.joined: weakref.ref[Generation] | None = None
        self._left: tuple[int, dict[str, Any], Node] | None = None
        self._begins_from: tuple[int, Node | None] = (0, None)
        self.source.know(self)

    def __iter__(self) -> Iterator[T]:
        source, convert = self.source, self.source.conversion(self.number)
        generation, waiting = source.begin(self, *self._begins_from)
        entries = waiting.entries
        try:
            while entries or source.pull(self, generation, waiting):
                try:
                    _, item = entries.popleft()
                except IndexError:
                    continue  # a new generation took it back, which pull tells
                yield item if convert is None else self._converted(convert, item)
        except GeneratorExit:
            # Where it stood stays known, though nothing waits for it any more.
            self._left = None if generation.over else self._way_back(generation, waiting)
            raise
        finally:
            waiting.give_up()
            if self.waiting is waiting:
                self.waiting = self.generation = None

    def _converted(self, convert: Callable[[Any], T], item: Any) -> T:
        try:
            return convert(item)
        except Exception as error:
            say_where(error, self.source, item)
            raise

    def __len__(self) -> int:
        return self.source.length(self.number)

    def has_begun(self) -> bool:
        """Say whether the pass that it last joined with has begun."""
        return self._pass is not None and self._pass.begun

    def has_read(self) -> bool:
        """Say whether it has read, or had read before a state was taken, in the generation under way."""
        return self.has_begun() or self.source.has_left(self)

    def goes_on(self) -> bool:
        """Say whether it was told from where its next pass is to go on."""
        return self._handed_down is not None

    def go_on_from(self, node: Node) -> None:
        """Learn from where the next pass is to go on, in the generation under way."""
        self._pass, self._handed_down = None, node

    def forget_to_join(self) -> None:
        """Learn that the generation is over that a state said the next pass was to join."""
        if self._handed_down is not None and self._handed_down.get("at") == "start":
            self._handed_down = None

    def begin_anew(self) -> None:
        """Learn that the next pass is not to be part of what the branch has read already."""
        self.source.end(self)

    def _iterator_made(self) -> None:
        self.source.join(self)

    # State

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        left = self._left
        if self.waiting is not None and self.generation is not None:
            left = self._way_back(self.generation, self.waiting)
        if left is None:
            return super().snapshot()
        place, own, state = left
        return {"place": place}, [self.source.node_from(own, state)]

    @staticmethod
    def _way_back(generation: Generation, waiting: Waiting) -> tuple[int, dict[str, Any], Node]:
        own, state = generation.way_back()
        return waiting.place(generation.dealt), own, state

    def node_to_join(self) -> Node:
        """Return the node before a pass that belongs to the generation under way, if the next one does."""
        return self.source.node_of_coming_pass(self)

    def _node(self) -> Node:
        in_a_pass = self._pass is not None and self._pass.begun and not self._pass.ended
        stale = in_a_pass and self.source.is_replaced(self.joined)
        return node_before_pass(self) if stale else super()._node()

    def _pop_node(self) -> Node:
        node = super()._pop_node()
        self._left = None
        self._begins_from = (0, None)
        if node.get("at") == "end":
            if self.generation is not None:
                self.generation.read.add(self.number)
            self.waiting = self.generation = None
            return node
        if "sources" in node:
            self._begins_from = (node.get("own", {}).get("place", 0), node["sources"][0] or None)
        return {}
