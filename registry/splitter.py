"""One stream read through several pipes, its branches.

A `Splitter` reads the source, and deals each item to the branches that get it, where it waits until it is read. Items
are numbered as they come from the source, and a branch stands at a number. Passes over the branches that read one pass
over the source are a generation: a branch that begins a pass joins the generation under way, unless it has read in it
before; then a new generation begins, and those who still read in the old one are told.

A state is a branch's own: the source's state at some number, and the number at which the branch stands. On resuming,
the branch that is read first begins the source there; one that stands before that begins it once more. So it
does not matter when which branch was asked, or whether all are read on. What makes two states one of the same
generation is that the seeds were the same when it began: the source gives the same items then.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .base import IterDataPipe
from .branches import Branch
from .generations import Entry, Generation, Waiting
from .iteration import Pass, is_live, replace_live_iterator
from .notes import say_where
from .state import Node, Trail, node_before_pass, with_present_seeds

__all__ = ["Entry", "Splitter", "Waiting"]


class Splitter(IterDataPipe[Any]):
    """The base of operators that give several pipes, each of which yields some or all of the source's items.

    Such an operator returns its `branches(number)` from `outcome`, and says in `deal` which of them get an item. Its
    `__iter__` may make something else of the entries of `numbered()`, each a number and an item, for `deal` to get.
    It keeps its argument `buffer_size`, which is -1 where any number of items may wait.
    """

    holds_items = False
    transient = ("_known", "_generation", "_last_node", "_lock", "_start")
    source: IterDataPipe[Any]
    buffer_size: int

    def branches(self, number: int) -> list[Branch[Any]]:
        """Return that many new branches."""
        return [Branch(self, place) for place in range(number)]

    # What a subclass defines

    def deal(self, dealt: Any, waiting: dict[int, weakref.ref[Waiting]]) -> int:
        """Add one item of `__iter__` to what waits for the branches that get it, and return the item's number."""
        number: int = dealt[0]
        for reference in waiting.values():
            each = reference()
            if each is not None and number >= each.takes_from:
                each.entries.append(dealt)
        return number

    def number_waiting(self, numbers: Iterable[int]) -> int:
        """Return how full the buffer is, from the numbers of items that wait for each branch."""
        return max(numbers, default=0)

    def conversion(self, number: int) -> Callable[[Any], Any] | None:
        """Return what makes the item that a branch hands out of one that was dealt to it, if anything does."""
        return None

    def length(self, number: int) -> int:
        """Return the length of a branch, or raise TypeError."""
        return len(self.source)

    # The pass over the source

    def __iter__(self) -> Iterator[Any]:
        return self.numbered()

    def numbered(self) -> Iterator[Entry]:
        """Return the source's items, each after its number."""
        generation = self._live()
        trail = Trail(self.source, self._oldest)
        if generation is not None:
            generation.trail = (trail, self._start)
        return enumerate(trail, self._start)

    def skipped_at(self, number: int) -> None:
        """Learn that the item with a number was skipped, so that it is not counted twice after resuming."""
        generation = self._live()
        if generation is not None:
            generation.skip(number)

    def _oldest(self) -> int:
        generation = self._live()  # which the trail must not keep, since it is of the generation
        return 0 if generation is None else generation.oldest()

    def reset(self) -> None:
        self._start = 0

    def set_state(self, state: dict[str, Any]) -> None:
        self._start = state["at"]
        self.guard.skipped -= state.get("skipped_since", 0)

    def _take_node(self, node: Node | None) -> None:
        """Nothing: a branch that begins a pass brings the node along, and may find that the source is in a pass."""

    # Which passes belong together

    def know(self, branch: Branch[Any]) -> None:
        """Learn of a branch, without keeping it."""
        if "_known" not in vars(self):
            self._known: weakref.WeakValueDictionary[int, Branch[Any]] = weakref.WeakValueDictionary()
            self._generation: weakref.ref[Generation] | None = None
            self._last_node: Node = {}
            # Reentrant, since a source that reads from its own branch should find an error and not wait for itself.
            self._lock = threading.RLock()
        self._known[branch.number] = branch

    def _live(self) -> Generation | None:
        generation = self._generation() if self._generation is not None else None
        return None if generation is None or generation.over else generation

    def has_left(self, branch: Branch[Any]) -> bool:
        """Say whether a branch had been read in the generation under way before the state that it goes on from."""
        generation = self._live()
        return generation is not None and branch.number in generation.left

    def is_being_read(self) -> bool:
        """Say whether there is an iterator of a branch that can be read on."""
        return any(map(is_live, [*self._known.values()]))

    def is_replaced(self, joined: weakref.ref[Generation] | None) -> bool:
        """Say whether another generation has followed that which a branch had joined."""
        live = self._live()
        return live is not None and (joined is None or joined() is not live)

    def join(self, branch: Branch[Any]) -> None:
        """Let a branch, of which an iterator was made, be one of those that read; in a new generation if need be."""
        with self._lock:
            generation = self._live()
            has_read = self.has_left(branch) and not branch.goes_on()
            if generation is None or branch.number in generation.joined or has_read:
                generation = self._begin_generation()
            self._add(branch, generation)
            if branch.waiting is None:
                branch.waiting, branch.generation = generation.let_wait(branch.number, generation.dealt), generation

    def end(self, branch: Branch[Any]) -> None:
        """End the generation under way if a branch has joined it: the branch is to begin another pass."""
        with self._lock:
            generation = self._live()
            if generation is not None and branch.number in generation.joined:
                self._end(generation)

    def read_again(self, branch: Branch[Any], node: Node) -> None:
        """Let a branch that has read in the generation under way go back in it, to where a node says."""
        with self._lock:
            replace_live_iterator(branch)
            generation = self._live()
            if generation is not None:
                generation.joined.discard(branch.number)
            branch.go_on_from(node)

    def _begin_generation(self) -> Generation:
        earlier = self._live()
        if earlier is not None:
            self._end(earlier)
        generation = Generation()
        self._generation = weakref.ref(generation)
        for branch in [*self._known.values()]:
            branch.waiting, branch.generation = generation.let_wait(branch.number, 0), generation
            if earlier is not None:
                branch.forget_to_join()
        return generation

    def _add(self, branch: Branch[Any], generation: Generation) -> None:
        generation.joined.add(branch.number)
        generation.left.discard(branch.number)
        branch.joined = self._generation

    def _end(self, generation: Generation) -> None:
        generation.end()
        replace_live_iterator(self)

    # Reading

    def begin(self, branch: Branch[Any], place: int, node: Node | None) -> tuple[Generation, Waiting]:
        """Let a branch read on from a number, with a node of this pipe from which it can be reached, or afresh."""
        with self._lock:
            generation, waiting = branch.generation, branch.waiting
            if generation is None or waiting is None or self.is_replaced(branch.joined):
                raise self._replaced(branch)
            own = (node or {}).get("own")
            if own and generation.begun_from is not None and own.get("seeds", {}) != generation.begun_from:
                # Its place is one in another order of the items.
                self._add(branch, self._begin_generation())
                return self.begin(branch, place, node)
            if generation.begun_from is None:
                start = self._begin_source(generation, node)
                for each in generation.readers():
                    each.since = each.takes_from = start
            elif place < waiting.since or (generation.items is None and not generation.ended):
                for each in generation.readers():
                    each.takes_from = max(each.takes_from, generation.dealt)
                waiting.entries.clear()
                waiting.takes_from = place
                self._begin_source(generation, node if own else generation.begun_from or None)
            waiting.skip_to(place)
            generation.read.add(branch.number)
            return generation, waiting

    def _begin_source(self, generation: Generation, node: Node | None) -> int:
        """Begin a pass over the source from a node of this pipe, and return the number of its first item."""
        super()._take_node(node)
        own = (node or {}).get("own", {})
        if own:
            generation.begun_from = own.get("seeds", {})
            generation.left = {*own["read"]} - generation.joined
            for branch in [*self._known.values()]:
                if branch.number in generation.left:
                    branch.waiting = branch.generation = None
        elif generation.begun_from is None:
            generation.begun_from = node or node_before_pass(self)
        generation.go_on(iter(self), own.get("at", 0))
        return generation.dealt

    def pull(self, branch: Branch[Any], generation: Generation, waiting: Waiting) -> bool:
        """Pull from the source until something waits for a branch, and say whether it does; or there is no more."""
        with self._lock:
            while not waiting.entries:
                if generation.over:
                    raise self._replaced(branch)
                if not generation.pull(self.deal):
                    return False
                if self.buffer_size >= 0:
                    found = generation.find_room(waiting, self.buffer_size, self.number_waiting)
                    if found is not None:
                        raise self._full(branch, *found)
            return True

    def _replaced(self, branch: Branch[Any]) -> RuntimeError:
        return RuntimeError(
            f"this iterator of branch {branch.number} of {self.functional_name} was replaced: a pass over another "
            "branch began anew, and all branches with it, since they read one stream"
        )

    def _full(self, branch: Branch[Any], slow: int, number_waiting: int) -> BufferError:
        error = BufferError(
            f"branch {slow} of {self.functional_name} has not read {number_waiting} items that wait for it, while "
            f"branch {branch.number} reads on, and buffer_size is {self.buffer_size}: read the branches in step, drop "
            "one that is not to be read, or let more wait (-1 is no limit). A branch that is read ahead, as by "
            "prefetch or shuffle, needs room for what is read ahead"
        )
        say_where(error, self)
        return error

    # State

    def node_from(self, own: dict[str, Any], state: Node) -> Node:
        """Return the node of this pipe at a way back: one object for all the branches that ask at one moment."""
        node = Pass.open_node(self, own, [state])
        if node != self._last_node:
            self._last_node = node
        return self._last_node

    def node_of_coming_pass(self, branch: Branch[Any]) -> Node:
        """Return the node of a branch before a pass of the generation under way; empty where a new one is to begin."""
        generation = self._live()
        if generation is None or generation.begun_from is None or self.has_left(branch):
            return {}
        if branch.number in generation.joined and branch.has_begun():
            return {}
        return with_present_seeds({"at": "start", "sources": [generation.begun_from]}, branch)
