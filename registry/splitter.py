"""One stream read through several pipes, its branches.

A `Splitter` reads the source, and deals each item to the branches that get it, where it waits until it is read. Items
are numbered as they come from the source, and a branch stands at a number. Passes over the branches with one path are
a generation, and read one pass over the source: the branch that is read first begins it. A pass with another path, or
another one with the same, begins a new generation; then those who still read in the old one are told.

A state is a branch's own: the number at which it stands, and a state of the source from which all branches can go on.
On resuming, the branch that is read first begins the source there. One that stands before that begins it once more.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any, TypeVar

from .base import IterDataPipe
from .graph import walk
from .iteration import Link, let_steps_nest, replace_live_iterator
from .notes import say_where
from .own import NotPlain, own
from .reading import Node, Waiting, capture
from .seeds import Path

__all__ = ["Branch", "Entry", "Queue", "Splitter"]

T = TypeVar("T")

Entry = tuple[int, Any]
"""An item, after its number."""

_numbers = count()


class Queue:
    """What waits for one branch. Its branch alone holds it, so that nothing waits for one that is gone."""

    __slots__ = ("__weakref__", "entries", "number", "since", "takes_from")

    def __init__(self, number: int, since: float) -> None:
        self.number = number
        """The branch's."""
        self.since = since
        """The number of the item from which on the branch has missed nothing."""
        self.takes_from = since
        """The number of the first item that is to be added; those before it are here, or are not wanted."""
        self.entries: deque[Entry] = deque()

    def place(self, dealt: int) -> int:
        """Return the number of the first item that the branch has still to get, where all before `dealt` were dealt.

        Right for the thread that reads the branch, while another deals; others may get a number too low.
        """
        try:
            return self.entries[0][0]
        except IndexError:
            takes_from = self.takes_from
            return dealt if takes_from == inf else max(dealt, int(takes_from))  # given up, perhaps, a moment ago

    def skip_to(self, place: int) -> None:
        """Leave out what comes before a number."""
        while self.entries and self.entries[0][0] < place:
            self.entries.popleft()
        self.takes_from = max(self.takes_from, place)
        self.since = place

    def give_up(self) -> None:
        """Take no more items. It may be there for long: the traceback of an error holds it."""
        self.since = self.takes_from = inf
        self.entries.clear()


class _Generation:
    """One pass over the source, and those over the branches that read it. It is held by the branches alone."""

    def __init__(self, path: Path) -> None:
        self.number = next(_numbers)
        self.path = path
        self.joined: set[int] = set()
        """The branches of which there have been iterators."""
        self.gone: set[int] = set()
        """Those whose passes have ended or were given up."""
        self.queues: dict[int, weakref.ref[Queue]] = {}
        self.items: Iterator[Any] | None = None
        self.dealt = 0
        self.over = self.ended = False
        self._room = 0
        self._error: BaseException | None = None

    def readers(self) -> list[Queue]:
        """Return what waits for each branch that is there and may read on."""
        found = [reference() for reference in [*self.queues.values()]]
        return [queue for queue in found if queue is not None and queue.takes_from < inf]

    def queue_for(self, number: int) -> Queue:
        """Return what is to wait for a branch."""
        queue = Queue(number, 0 if self.items is None else self.dealt)
        self.queues[number] = weakref.ref(queue)
        self._room = 0
        return queue

    def end(self) -> None:
        """Be over. Who still reads asks for more, since nothing is there any more, and is told."""
        self.over = True
        for queue in self.readers():
            queue.entries.clear()

    def pull(self, deal: Callable[[Any, dict[int, weakref.ref[Queue]]], int]) -> bool:
        """Pull one item and deal it, or return False where there is none."""
        if self._error is not None:
            raise (
                self._error
                if isinstance(self._error, (Exception, SystemExit))  # a process that is to end is, for all who read
                else RuntimeError(f"the pass over the source of these branches ended in {self._error!r}")
            )
        if self.items is None or self.ended:
            return False
        try:
            dealt = next(self.items)
        except StopIteration:
            self.ended = True
            return False
        except BaseException as error:
            self._error = error
            raise
        self.dealt = deal(dealt, self.queues) + 1  # after it waits: who finds nothing waiting stands here
        return True

    def find_room(
        self, reader: Queue, size: int, number_waiting: Callable[[Iterable[int]], int]
    ) -> tuple[int, int] | None:
        """Take the room of one item in a buffer; if there is none, return the slowest branch and how much waits for it.

        How many items wait is found out only when there may be too many.
        """
        self._room -= 1
        if self._room >= 0:
            return None
        waiting = {each.number: len(each.entries) for each in self.readers() if each is not reader}
        self._room = size - number_waiting(waiting.values())
        return None if self._room >= 0 else max(waiting.items(), key=lambda pair: pair[1])

    def oldest(self) -> int:
        """Return the number of the first item that a branch has still to get."""
        dealt = self.dealt
        return min((queue.place(dealt) for queue in self.readers()), default=dealt)


class Splitter(IterDataPipe[Any]):
    """The base of operators that give several pipes, each of which yields some or all of the source's items.

    Such an operator returns its `branches(number)` from `outcome`, and says in `deal` which of them get an item. Its
    `__iter__` may make something else of the entries of `numbered()`, each a number and an item, for `deal` to get.
    It keeps its argument `buffer_size`, which is -1 where any number of items may wait.
    """

    holds_items = False
    transient = ("_known", "_generation", "_lock", "_places")
    source: IterDataPipe[Any]
    buffer_size: int
    gone: set[int] = own(set, save=sorted)
    """The branches whose passes have ended or were given up: nothing waits for them."""
    _is_asked_after_its_end = True

    def branches(self, number: int) -> list[Branch[Any]]:
        """Return that many new branches."""
        return [Branch(self, place) for place in range(number)]

    # What a subclass defines

    def deal(self, dealt: Any, queues: dict[int, weakref.ref[Queue]]) -> int:
        """Add one item of `__iter__` to what waits for the branches that get it, and return the item's number."""
        number: int = dealt[0]
        for reference in queues.values():
            queue = reference()
            if queue is not None and number >= queue.takes_from:
                queue.entries.append(dealt)
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
        items = self.read(self.source)
        itself = weakref.ref(self)  # which the pass must not keep
        items.keep_from(lambda: 0 if (splitter := itself()) is None else splitter._oldest())
        generation = self._live()
        if generation is not None:
            generation.gone.update(self.gone)
            self.gone = generation.gone
        return iter(items)

    def _stands(self, waiting: Waiting) -> Node | None:
        current = self._pass
        if current is None or not current.begun:
            return super()._stands(waiting)
        return current.now(self, waiting)  # even at its end, or after an error, since items may wait

    def _oldest(self) -> int:
        generation = self._live()
        return 0 if generation is None else generation.oldest()

    # Which passes belong together

    def know(self, branch: Branch[Any]) -> None:
        """Learn of a branch, without keeping it."""
        if "_known" not in vars(self):
            self._known: weakref.WeakValueDictionary[int, Branch[Any]] = weakref.WeakValueDictionary()
            self._generation: weakref.ref[_Generation] | None = None
            self._places: dict[int, float] = {}
            # Reentrant, since a source that reads from its own branch should find an error and not wait for itself.
            self._lock = threading.RLock()
        self._known[branch.number] = branch

    def _live(self) -> _Generation | None:
        generation = self._generation() if self._generation is not None else None
        return None if generation is None or generation.over else generation

    def join(self, branch: Branch[Any], path: Path) -> None:
        """Let a branch, of which an iterator was made, be one of those that read; in a new generation if need be."""
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
        """Let a branch that has read in the generation under way be read once more in it."""
        with self._lock:
            generation = self._live()  # held here, since the iterator may be the last that holds it
            replace_live_iterator(branch)
            if generation is not None:
                generation.joined.discard(branch.number)

    def end_generation(self) -> None:
        """End the generation under way: all branches are to begin another pass."""
        with self._lock:
            generation = self._live()
            if generation is not None:
                generation.end()
                replace_live_iterator(self)

    def _begin_generation(self, path: Path) -> _Generation:
        self.end_generation()
        generation = _Generation(path)
        self._generation = weakref.ref(generation)
        for branch in [*self._known.values()]:
            branch.queue, branch.generation = generation.queue_for(branch.number), generation
        return generation

    def _begin_part(self, link: Link, node: Node | None) -> None:
        """Nothing: which pass over the source is wanted, a branch says that is read."""

    def _forget_passes(self) -> None:
        self.end_generation()
        super()._forget_passes()

    def expect_at(self, branch: Branch[Any], place: float) -> None:
        """Learn where a branch is to go on: nothing is to wait for it before that."""
        self._places[branch.number] = min(place, self._places.get(branch.number, place))

    # Reading

    def begin(self, branch: Branch[Any], node: Node | None) -> tuple[_Generation, Queue]:
        """Let a branch read on from its place, with a node of this pipe from which it can be reached, or afresh."""
        goes_on = branch._pass is not None and branch._pass.goes_on
        with self._lock:
            generation, queue = branch.generation, branch.queue
            if generation is None or queue is None or generation.over or generation.number != branch.joined:
                raise self._replaced(branch)
            if generation.items is None:
                if goes_on:  # an earlier generation, of which nothing is left, may have read the source
                    self._let_source_be_read_again()
                self._begin_source(generation, node, goes_on)
                start, places = generation.dealt, self._places if goes_on else {}
                for each in generation.readers():
                    if each.number in generation.gone and each.number not in generation.joined:
                        each.give_up()
                    else:
                        each.since = each.takes_from = max(start, places.get(each.number, start))
                self._places.clear()
            place = max(
                branch.place, _first_of(node)
            )  # what is before that was dealt to others when the state was taken
            if place < queue.since:
                dealt = generation.dealt
                if place < dealt:  # else the source is still to give what this branch misses, gone back for another
                    for each in generation.readers():
                        each.takes_from = max(each.takes_from, dealt)
                    node = self._from_where_all_go_on(node)
                    replace_live_iterator(self)  # which ends what reads ahead between here and other branches
                    self._let_source_be_read_again()
                    self._begin_source(generation, node, goes_on=True)
                queue.entries.clear()
                queue.takes_from = place
            queue.skip_to(place)
            return generation, queue

    def _let_source_be_read_again(self) -> None:
        """Let the branches of others that the source reads be read once more in the pass under way."""
        for part in walk(self.source, stop=lambda pipe: isinstance(pipe, Branch)):
            if isinstance(part, Branch):
                part.source.read_again(part)

    def _from_where_all_go_on(self, node: Node | None) -> Node | None:
        """Return the node that a branch goes back to, or where the source stands, if another branch waits for less."""
        with suppress(NotPlain):
            now = capture(self)
            if _first_of(now) < _first_of(node):
                return now
        return node

    def _begin_source(self, generation: _Generation, node: Node | None, goes_on: bool) -> None:
        """Begin a pass over the source where a node of this pipe says."""
        super()._begin_part(Link(0, generation.path, 0, 0, goes_on), node)
        let_steps_nest()
        generation.gone.update((node or {}).get("own", {}).get("gone", ()))
        generation.items, generation.ended = iter(self), False
        generation.dealt = _first_of(node)

    def pull(self, branch: Branch[Any], generation: _Generation, queue: Queue) -> bool:
        """Pull from the source until something waits for a branch, and say whether it does; or there is no more."""
        with self._lock:
            while not queue.entries:
                if generation.over:
                    raise self._replaced(branch)
                if not generation.pull(self.deal):
                    return False
                if self.buffer_size >= 0:
                    found = generation.find_room(queue, self.buffer_size, self.number_waiting)
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


def _first_of(node: Node | None) -> int:
    """Return the number of the first item that a node of a splitter goes on with."""
    reads = (node or {}).get("read")
    return reads[0][1] if reads else 0


class Branch(IterDataPipe[T]):
    """Yield what a splitter deals to one of its branches."""

    holds_items = False
    is_one_of_several = True
    transient = ("queue", "generation", "joined", "_left", "_begins_from")
    source: Splitter
    place: int = own(0)
    """The number of the first item to be handed out, when a pass goes on from a state."""

    def __init__(self, source: Splitter, number: int) -> None:
        self.source = source
        self.number = number
        self._prepare()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "number" in state:  # as in every copy, but not where torch only looks for the pipes
            self._prepare()

    def _prepare(self) -> None:
        self.queue: Queue | None = None
        self.generation: _Generation | None = None
        self.joined = -1
        """The number of the generation that the last iterator has joined."""
        self._left: Node | None = None
        """Where it stood when the pass was given up."""
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
                    continue  # a new generation took it back, which pull tells
                yield item if convert is None else self._converted(convert, item)
        except GeneratorExit:
            # Where it stood stays known, though nothing waits for it any more.
            if not generation.over:
                try:  # noqa: SIM105 - what it would take is lost, too
                    self._left = self._now(generation, queue, [capture(source)])
                except TypeError:
                    pass  # it is not plain, or the interpreter is about to end
            raise
        finally:
            self._give_up(generation, queue)

    def _iterator_closed_unread(self) -> None:
        if self.generation is not None and self.queue is not None:
            self._give_up(self.generation, self.queue)

    def _give_up(self, generation: _Generation, queue: Queue) -> None:
        """Let nothing wait for the branch any more in a generation."""
        queue.give_up()
        generation.gone.add(self.number)
        if self.queue is queue:
            self.queue = self.generation = None

    def _converted(self, convert: Callable[[Any], T], item: Any) -> T:
        try:
            return convert(item)
        except Exception as error:
            say_where(error, self.source, item)
            raise

    def __len__(self) -> int:
        return self.source.length(self.number)

    def _iterator_made(self) -> None:
        link: Link | None = vars(self).get("_link")
        if link is None:  # read by itself, it reads what its siblings read, unless a state says otherwise
            self._epoch = self._next_epoch()
        self.source.join(self, Path(self._epoch) if link is None else link.next_path())

    def _next_epoch(self) -> int:
        live = self.source._live()
        if self._handed_down is not None or live is None:
            return self._epoch
        begins_another = self.number in live.joined and live.items is not None
        return max(live.path.epoch + begins_another, self._epoch)

    # State

    def _stands(self, waiting: Waiting) -> Node | None:
        current = self._pass
        if current is None or not current.begun or current.ended:
            return super()._stands(waiting)
        live, generation, queue = self.source._live(), self.generation, self.queue
        if live is not None and live.number != self.joined:
            return None  # another generation has begun
        if self._left is not None:
            return self._left
        if generation is None or queue is None:
            return super()._stands(waiting)
        nodes: list[Node | None] = [None]
        waiting.append((nodes, 0, self.source))
        return self._now(generation, queue, nodes)

    @staticmethod
    def _now(generation: _Generation, queue: Queue, nodes: list[Node | None]) -> Node:
        return {"own": {"place": queue.place(generation.dealt)}, "sources": nodes}

    def _epoch_of_state(self) -> int:
        live = self.source._live()
        if live is None or self.number in live.joined or self._handed_down is not None:
            return super()._epoch_of_state()
        return max(live.path.epoch, self._epoch)

    def _pop_node(self) -> Node:
        node = super()._pop_node()
        self._left, self._begins_from = None, next(iter(node.get("sources", ())), None)
        if node.get("at") == "end" and self.queue is not None and self.generation is not None:
            self._give_up(self.generation, self.queue)
        return {name: value for name, value in node.items() if name != "sources"}

    def _forget_passes(self) -> None:
        super()._forget_passes()
        self.source._places.pop(self.number, None)
        self.queue = self.generation = self._left = None
        self.joined = -1

    def _is_to_go_on_from(self, node: Node) -> None:
        if node.get("at") == "end":
            self.source.expect_at(self, inf)
        elif "own" in node:
            self.source.expect_at(self, node["own"].get("place", 0))
