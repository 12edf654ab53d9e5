"""One of several pipes that read one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from ....registry import IterDataPipe, Node, SavedNodes, T, add_error_context, capture, own
from ....state.passes import path_without_reader, running_pass
from .generation import Generation, Queue

if TYPE_CHECKING:
    from .splitter import Splitter


class Branch(IterDataPipe[T]):
    """Yield the items that a splitter deals to one of its branches."""

    resumes_from_start = False
    is_one_of_several = True
    transient = ("queue", "generation", "joined", "_left", "_begins_from")
    source: Splitter
    place: int = own(0)
    """The number of the first item to yield when a pass resumes from a state."""

    def __init__(self, source: Splitter, number: int) -> None:
        self.source = source
        self.number = number
        self._prepare()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "number" in state:  # missing where torch only traverses the graph
            self._prepare()

    def _prepare(self) -> None:
        self.queue: Queue | None = None
        self.generation: Generation | None = None
        self.joined = -1
        """The number of the generation that the last iterator joined."""
        self._left: Node | None = None
        """The node of the branch when its pass was given up."""
        self._begins_from: Node | None = None
        self.source.know(self)

    def __iter__(self) -> Iterator[T]:
        source, convert = self.source, self.source.conversion(self.number)
        generation, queue = source.begin(self, self._begins_from)
        entries = queue.entries
        try:
            while entries or source.pull(self, generation, queue):
                try:
                    _, item = entries.popleft()
                except IndexError:
                    continue  # a new generation emptied the queue: pull raises
                yield item if convert is None else self._converted(convert, item)
        except GeneratorExit:
            # Keep the place for states, though the queue is given up.
            if not generation.over:
                try:  # noqa: SIM105 - `suppress` may be gone during interpreter shutdown
                    self._left = self._now(generation, queue, [capture(source)])
                except TypeError:
                    pass  # not plain, or interpreter shutdown
            raise
        finally:
            self._give_up(generation, queue)

    def _pass_unread(self) -> None:
        if self.generation is not None and self.queue is not None:
            self._give_up(self.generation, self.queue)

    def _detach_reader(self, link: Any) -> None:
        super()._detach_reader(link)
        generation = self.generation
        if generation is not None and generation.path == link.path and self.number not in generation.joined:
            self._pass_unread()  # the reader was closed before it came to this branch

    def _give_up(self, generation: Generation, queue: Queue) -> None:
        """Stop queueing items for the branch in a generation."""
        queue.give_up()
        generation.gone.add(self.number)
        if self.queue is queue:
            self.queue = self.generation = None

    def _converted(self, convert: Callable[[Any], T], item: Any) -> T:
        try:
            return convert(item)
        except Exception as error:
            add_error_context(error, self.source, item)
            raise

    def __len__(self) -> int:
        return self.source.length(self.number)

    def _pass_opened(self) -> None:
        link = self._reader_link
        if link is None:  # read directly: join the pass of the other branches, unless a state was loaded
            self._epoch = self._next_epoch()
        self.source.add_reader(self, path_without_reader(self, running_pass()) if link is None else link.next_path())

    def _next_epoch(self) -> int:
        live = self.source._live()
        if self._resume_node is not None or live is None:
            return self._epoch
        begins_another = self.number in live.joined and live.items is not None
        return max(live.path.epoch + begins_another, self._epoch)

    # State

    def _save_node(self, saved: SavedNodes) -> Node | None:
        current = self._pass
        if current is None or not current.begun or current.ended:
            return super()._save_node(saved)
        live, generation, queue = self.source._live(), self.generation, self.queue
        if live is not None and live.number != self.joined:
            return None  # another generation has begun
        if self._left is not None:
            return self._left
        if generation is None or queue is None:
            return super()._save_node(saved)
        return self._now(generation, queue, [saved.node_of(self.source)])

    @staticmethod
    def _now(generation: Generation, queue: Queue, nodes: list[Node | None]) -> Node:
        return {"own": {"place": queue.place(generation.dealt)}, "sources": nodes}

    def _epoch_of_state(self) -> int:
        live = self.source._live()
        if live is None or self.number in live.joined or self._resume_node is not None:
            return super()._epoch_of_state()
        return max(live.path.epoch, self._epoch)

    def _take_node(self) -> Node:
        node = super()._take_node()
        self._left, self._begins_from = None, next(iter(node.get("sources", ())), None)
        if node.get("at") == "end" and self.queue is not None and self.generation is not None:
            self._give_up(self.generation, self.queue)
        without_sources = node.copy()
        without_sources.pop("sources", None)
        return without_sources

    def _reset_passes(self) -> None:
        super()._reset_passes()
        self.source._places.pop(self.number, None)
        self.queue = self.generation = self._left = None
        self.joined = -1

    def _node_loaded(self, node: Node) -> None:
        if node.get("at") == "end":
            self.source.expect_at(self, inf)
        elif "own" in node:
            self.source.expect_at(self, node["own"].get("place", 0))
