"""One stream read through several pipes, its branches.

A `Splitter` reads the source and deals each item to some branches. The item waits there until it is read. Items are
numbered in source order, and a branch is at a number. Branch passes with the same path form a generation and read
one pass over the source. The first branch read begins that pass. A branch read with another path, or again with the
same path, begins a new generation. Iterators of the old generation then raise RuntimeError.

A state belongs to one branch: its number, and a state of the source from which all branches can go on. On resuming,
the first branch read begins the source there. A branch that is before that begins the source again.

A full buffer is an error in a fresh pass. In a resumed pass one branch may read far on before the next is read, since
the steps behind branches read again what they buffered. So items stop waiting for a slow branch, which begins the
source again when it comes to them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ....registry import (
    IterDataPipe,
    Node,
    PassPath,
    SavedNodes,
    add_error_context,
    capture,
    own,
    replace_live_iterator,
    walk,
)
from ....state.fields import NotPlain
from ....state.graph import let_steps_nest
from ....state.sources import SourceLink
from .branch import Branch
from .generation import Entry, Generation, Queue

if TYPE_CHECKING:  # Python 3.11 has no defaults of type variables
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Splitter(IterDataPipe[T]):
    """The base of operators that give several pipes, the branches, and share out the items of the source among them.

    Such an operator defines `result`, which returns `self.branches(number)`, and `branch_of`, which says for each item
    which branch yields it. Where the lengths of branches are known, it defines `length`.

    The source is read once for all branches. Items wait until their branch is read, at most `buffer_size` in all; -1 is
    no limit. `buffer_size` may be an argument, which the operator keeps, or an attribute of its class.

    >>> import penstock as ps
    >>> class HoldOut(ps.Splitter):
    ...     def __init__(self, source, n):
    ...         self.source, self.n = source, n
    ...     def result(self):
    ...         return self.branches(2)
    ...     def branch_of(self, number, item):
    ...         return 1 if number % self.n == self.n - 1 else 0
    >>> train, test = HoldOut(ps.iter.IterableWrapper("abcdefg"), 3)
    >>> list(train), list(test)
    (['a', 'b', 'd', 'e', 'g'], ['c', 'f'])
    """

    buffer_size: int = 1000
    buffers = ("buffer_size",)
    gives: ClassVar[Literal["rows", "batches", "same"] | None] = "same"
    resumes_from_start = False
    _not_compared = ("buffer_size",)  # the error for a full buffer advises a larger one
    transient = ("_known", "_generation", "_lock", "_places")
    source: IterDataPipe[T]
    gone: set[int] = own(set, save=sorted)
    """The branches whose passes ended or were given up. No items wait for them."""
    _is_asked_after_its_end = True

    # What a subclass defines

    def result(self) -> list[IterDataPipe[T]]:
        """Return the branches: the result of calling the class."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say how many pipes it gives: write `def result(self)`, with "
            "`return self.branches(2)`"
        )

    def branch_of(self, number: int, item: T) -> int | None:
        """Return the number of the branch that yields an item, from 0 on, or None to leave the item out.

        Items are numbered from 0 in each pass. The result must follow from the number, the item and the arguments: a
        resumed pass asks again.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say which pipe gets an item: write `def branch_of(self, number, item)`, "
            "which returns the number of the pipe"
        )

    def length(self, number: int) -> int:
        """Return the length of a branch, or raise TypeError."""
        raise TypeError(f"the length of a branch of {self._name} is unknown before its items are read")

    def branches(self, number: int) -> list[IterDataPipe[T]]:
        """Return that many new branches."""
        self.number_of_branches = number
        return [Branch(self, place) for place in range(number)]

    # What `Forking` defines in another way

    def deal(self, dealt: Any, queues: dict[int, weakref.ref[Queue]]) -> int:
        """Add what `__iter__` yielded to the queues of the branches that get it, and return the item's number."""
        branch, entry = dealt
        number: int = entry[0]
        queue = queues[branch]() if branch in queues else None
        if queue is not None and number >= queue.takes_from:
            queue.entries.append(entry)
        return number

    def number_waiting(self, numbers: Iterable[int]) -> int:
        """Return how full the buffer is, from the queue length of each branch."""
        return sum(numbers)

    def conversion(self, number: int) -> Callable[[Any], Any] | None:
        """Return the function that a branch applies to its items, or None."""
        return None

    @property
    def _name(self) -> str:
        return self.functional_name or type(self).__name__

    # The pass over the source

    def __iter__(self) -> Iterator[Any]:
        """Yield pairs of a branch's number and an entry that it gets."""
        branch_of, numbers = self.branch_of, range(self.number_of_branches)
        for entry in self.numbered():
            number, item = entry
            if (said := branch_of(number, item)) is None:
                continue
            try:
                branch = numbers.index(said)  # a plain integer, even for a tensor
            except ValueError:
                raise ValueError(
                    f"branch_of returned {said!r:.100}, and there are pipes 0 … {numbers[-1]}; None leaves an item out"
                ) from None
            yield branch, entry

    def numbered(self) -> Iterator[Entry]:
        """Return the source's items as pairs of a number and an item."""
        items = self.read(self.source)
        itself = weakref.ref(self)  # the pass must not keep the splitter alive
        items.keep_from(lambda: 0 if (splitter := itself()) is None else splitter._oldest())
        generation = self._live()
        if generation is not None:
            generation.gone.update(self.gone)
            self.gone = generation.gone
        return iter(items)

    def _save_node(self, saved: SavedNodes) -> Node | None:
        current = self._pass
        if current is None or not current.begun:
            return super()._save_node(saved)
        return current.now(self, saved)  # items may wait even after the end or an error

    def _oldest(self) -> int:
        generation = self._live()
        return 0 if generation is None else generation.oldest()

    # Which passes belong together

    def know(self, branch: Branch[Any]) -> None:
        """Record a branch, without keeping it alive."""
        if "_known" not in vars(self):
            self._known: weakref.WeakValueDictionary[int, Branch[Any]] = weakref.WeakValueDictionary()
            self._generation: weakref.ref[Generation] | None = None
            self._places: dict[int, float] = {}
            # Reentrant: a source that reads its own branch should raise an error, not deadlock.
            self._lock = threading.RLock()
        self._known[branch.number] = branch

    def _live(self) -> Generation | None:
        generation = self._generation() if self._generation is not None else None
        return None if generation is None or generation.over else generation

    def add_reader(self, branch: Branch[Any], path: PassPath) -> None:
        """Add a branch with a new iterator to the readers, in a new generation if needed."""
        with self._lock:
            generation = self._live()
            if generation is None or generation.path != path or branch.number in generation.joined:
                generation = self._begin_generation(path)
            generation.joined.add(branch.number)
            generation.gone.discard(branch.number)
            if branch.queue is None:
                branch.queue, branch.generation = generation.queue_for(branch.number), generation
            branch.joined = generation.number

    def read_again(self, branch: Branch[Any]) -> None:
        """Let a branch be read again in the current generation."""
        with self._lock:
            generation = self._live()  # the iterator may hold the last other reference
            replace_live_iterator(branch)
            if generation is not None:
                generation.joined.discard(branch.number)

    def end_generation(self) -> None:
        """End the current generation: all branches must begin another pass."""
        with self._lock:
            generation = self._live()
            if generation is not None:
                generation.end()
                replace_live_iterator(self)

    def _begin_generation(self, path: PassPath) -> Generation:
        self.end_generation()
        generation = Generation(path)
        self._generation = weakref.ref(generation)
        for branch in [*self._known.values()]:
            branch.queue, branch.generation = generation.queue_for(branch.number), generation
        return generation

    def _attach_reader(self, link: SourceLink, node: Node | None) -> None:
        """Do nothing: a branch begins the pass over the source when it is read."""

    def _reset_passes(self) -> None:
        self.end_generation()
        super()._reset_passes()

    def expect_at(self, branch: Branch[Any], place: float) -> None:
        """Record where a branch will go on: earlier items do not wait for it."""
        self._places[branch.number] = min(place, self._places.get(branch.number, place))

    # Reading

    def begin(self, branch: Branch[Any], node: Node | None) -> tuple[Generation, Queue]:
        """Let a branch read on from its place: from a node of this pipe that precedes the place, or afresh."""
        goes_on = branch._pass is not None and branch._pass.resumed
        with self._lock:
            generation, queue = branch.generation, branch.queue
            if generation is None or queue is None or generation.over or generation.number != branch.joined:
                if branch._pass is not None:  # it has read nothing: the next pass is of the same epoch
                    branch._epoch = branch._pass.path.epoch
                raise self._replaced(branch)
            if generation.items is None:
                if goes_on:  # an earlier generation, now gone, may have read the source
                    self._let_source_be_read_again()
                generation.goes_on = goes_on
                self._begin_source(generation, node, goes_on)
                start, places = generation.dealt, self._places if goes_on else {}
                for each in generation.readers():
                    if each.number in generation.gone and each.number not in generation.joined:
                        each.give_up()
                    else:
                        each.since = each.takes_from = max(start, places.get(each.number, start))
                self._places.clear()
            # Items before the node went to other branches when the state was taken.
            place = max(branch.place, _first_of(node))
            if place < queue.since:
                if place < generation.dealt:  # else the source, begun again for another branch, will still give them
                    self._begin_source_again(generation, self._from_where_all_go_on(node))
                queue.take_again_from(place)
            queue.skip_to(place)
            return generation, queue

    def _begin_source_again(self, generation: Generation, node: Node | None) -> None:
        """Read the source again from a node, for a branch that needs earlier items; others take what is new."""
        for each in generation.readers():
            each.takes_from = max(each.takes_from, generation.dealt)
        replace_live_iterator(self)  # ends read-ahead between here and branches upstream
        self._let_source_be_read_again()
        self._begin_source(generation, node, goes_on=True)

    def _let_source_be_read_again(self) -> None:
        """Let the source read other splitters' branches again in the current pass."""
        for part in walk(self.source, stop=lambda pipe: isinstance(pipe, Branch)):
            if isinstance(part, Branch):
                part.source.read_again(part)

    def _from_where_all_go_on(self, node: Node | None) -> Node | None:
        """Return `node`, or the current node of this pipe if another branch needs earlier items."""
        now = self._node_now()
        return now if now is not None and _first_of(now) < _first_of(node) else node

    def _node_now(self) -> Node | None:
        """Return where this pipe is, or None, the beginning, where a state of the source cannot be taken now."""
        with suppress(NotPlain):
            return capture(self)
        return None

    def _begin_source(self, generation: Generation, node: Node | None, goes_on: bool) -> None:
        """Begin a pass over the source at a node of this pipe."""
        super()._attach_reader(SourceLink(self, generation.path, resumed=goes_on), node)
        let_steps_nest()
        generation.gone.update((node or {}).get("own", {}).get("gone", ()))
        generation.items, generation.ended = iter(self), False
        generation.dealt = _first_of(node)

    def pull(self, branch: Branch[Any], generation: Generation, queue: Queue) -> bool:
        """Pull from the source until an item waits for a branch; return False at the end of the source."""
        with self._lock:
            while not queue.entries:
                if generation.over:
                    raise self._replaced(branch)
                if queue.missed_from is not None:
                    place = queue.missed_from
                    self._begin_source_again(generation, self._node_now())
                    queue.take_again_from(place)
                if not generation.pull(self.deal):
                    return False
                if self.buffer_size >= 0:
                    found = generation.find_room(queue, self.buffer_size, self.number_waiting)
                    if found is not None and not generation.goes_on:
                        raise self._full(branch, *found)
                    if found is not None:
                        generation.stop_queueing(found[0])
            return True

    def _replaced(self, branch: Branch[Any]) -> RuntimeError:
        return RuntimeError(
            f"this iterator of branch {branch.number} of {self._name} was replaced: a pass over another "
            "branch began anew, and all branches with it, since they read one stream"
        )

    def _full(self, branch: Branch[Any], slow: int, number_waiting: int) -> BufferError:
        error = BufferError(
            f"branch {slow} of {self._name} has not read {number_waiting} items that wait for it, "
            f"while branch {branch.number} reads on, and buffer_size is {self.buffer_size}: read the branches in step, "
            "drop one that is not to be read, or let more wait (-1 is no limit). A branch that is read ahead, as by "
            "prefetch or shuffle, needs room for what is read ahead"
        )
        add_error_context(error, self)
        return error


class Forking(Splitter):
    """The base of splitters that give each item to all branches."""

    traits = ("forks",)
    resumes_from_start = False

    def __iter__(self) -> Iterator[Entry]:
        return self.numbered()

    def deal(self, dealt: Entry, queues: dict[int, weakref.ref[Queue]]) -> int:
        number = dealt[0]
        for reference in queues.values():
            queue = reference()
            if queue is not None and number >= queue.takes_from:
                queue.entries.append(dealt)
        return number

    def number_waiting(self, numbers: Iterable[int]) -> int:
        return max(numbers, default=0)

    def length(self, number: int) -> int:
        return len(self.source)


def _first_of(node: Node | None) -> int:
    """Return the number of the first item after a node of a splitter."""
    reads = (node or {}).get("read")
    return reads[0][1] if reads else 0
