"""One pass over a pipe: how its iterator begins, ends, fails and is replaced by a newer one.

Only one plain `for` loop runs per item. All else runs when a pass begins, ends, fails or is replaced, or when its
state is taken.
"""

from __future__ import annotations

import atexit
import itertools
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, GeneratorType
from typing import Any, TypeVar, cast

from .display import step
from .graph import DataPipe, is_one_of_several, sources_of, walk
from .notes import add_error_context, asked_by, describe_item, describe_step, last_item, local_of, shorten_traceback
from .own import NotPlain, Tally
from .reading import Node, Pace, Reading, Trail, Waiting, after, can_capture, capture
from .same_order import check_value
from .seeds import FIRST_PASS, Path, Seeded, seed_other, seed_unseen, seeds_of_unseen
from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["Link", "Pass", "begin_pass", "is_ours", "let_steps_nest", "replace_live_iterator", "require_end"]

T = TypeVar("T")

ENDED_BY_STOP_ITERATION = "a function raised StopIteration, which would have passed for the end of the stream"

_pass_numbers = itertools.count(1)


_STEPS_AT_A_TIME = 100
"""The recursion limit is checked once per this many steps of a chain."""
_MOST_STEPS = 6000
_MOST_FRAMES = 15_400
"""More frames would overflow the C stack and end the process: each takes about half a KB of 8 MB."""
_LIMIT = 20_000
"""Python's recursion limit. Closing steps takes more calls than reading them, but no more C stack."""


def let_steps_nest() -> None:
    """Raise Python's recursion limit for a long chain, whose iterators call each other.

    Raises RecursionError if the C stack may overflow. A limit that is already above `_LIMIT` is left alone.
    """
    limit = sys.getrecursionlimit()
    if limit > _LIMIT:
        return
    frame: FrameType | None = sys._getframe()
    frames = steps = 0
    while frame is not None:
        frames, steps, frame = frames + 1, steps + (frame.f_code is _deliver.__code__), frame.f_back
    if steps > _MOST_STEPS or frames > _MOST_FRAMES:
        raise RecursionError(f"the stack has no room for {steps:,} steps, each of which reads the next, and more")
    if 3 * frames > limit:
        sys.setrecursionlimit(min(4 * frames, _LIMIT))


class Replaced(BaseException):
    """Thrown into an iterator that a newer one replaces. Not an Exception, so that no operator swallows it."""

    def __init__(self, message: str) -> None:
        self.message = message
        """What the next step of the iterator says."""


class Link:
    """Connects a pass to one of its sources: the passes over the source are part of that pass."""

    __slots__ = ("begun", "depth", "goes_on", "node", "outer", "path", "reader")

    def __init__(self, reader: int, path: Path, depth: int, begun: int, goes_on: bool = False) -> None:
        self.reader = reader
        """The number of the reading pass."""
        self.path = path
        self.depth = depth
        """The number of steps from the reader to the end of the chain."""
        self.begun = begun
        """How many passes over the source have begun."""
        self.goes_on = goes_on
        """Whether the next pass over the source is part of a resumed pass."""
        self.node: Node | None = None
        """The node from which the next pass over the source goes on."""
        self.outer: Link | None = None
        """The link of another reader of the source, whose pass outlasts the pass of this reader."""

    def next_path(self) -> Path:
        """Return the path of the next pass over the source."""
        return self.path.next(self.depth, self.begun)


def is_ours(pipe: Any) -> bool:
    """Say whether a pipe is an iterable one of ours."""
    return hasattr(type(pipe), "_stands")


class Pass:
    """One pass over a pipe."""

    def __init__(self) -> None:
        self.iterator: weakref.ref[GeneratorType[Any, None, None]] | None = None
        self.number = next(_pass_numbers)
        self.begun = self.ended = False
        self.error: str | None = None  # the exception itself would keep frames, and with them open files, alive
        self.reader = 0
        """The number of the pass that this one is part of; 0 at the end of the chain."""
        self.goes_on = False
        """Whether this is part of a resumed pass, even if this one begins afresh."""
        self.path = Path(0)
        self._depth = 0
        self._sources: list[DataPipe] = []
        self._links: dict[int, Link] = {}
        self._trails: dict[int, Trail] = {}
        self._passes_read: dict[int, int] = {}
        """For each source with a trail, the number of passes begun, including the current one."""
        self._to_read: dict[int, tuple[Node | None, list[int]]] = {}
        """For each source in the loaded state, the node and numbers from which to read it."""
        self._tally: Tally | None = None
        self._pace: Pace | None = None
        self.last_before: int | None = None
        """The check value of the last item before the pass was resumed."""
        self._last_given: int | None = None
        """The check value of the last item, once the pass was given up."""
        self._mark: Node = {}
        self._emitted_at_mark = 0
        self._unseen = 0
        """The number of passes that this one began over chains outside the graph."""

    # Beginning

    def begins_unseen(self, pipe: Any, chain: DataPipe) -> None:
        """Seed a chain outside the graph that the operator begins to read: a rerun pass must read the same items."""
        number = pipe._number_of_unseen()
        if number is None:
            return
        if not isinstance(pipe, Seeded):
            seeds_of_unseen(pipe).begin_random_pass(self.path)
        seed_unseen(chain, pipe, number)

    def count_unseen(self) -> int | None:
        """Count a chain outside the graph, and return how many were before; None if no pass is run again."""
        if self._tally is None:
            return None
        self._unseen += 1
        return self._unseen - 1

    def start(self, pipe: Any, iterate: Callable[[Any], Iterable[T]]) -> tuple[Iterable[T] | None, Iterable[T]]:
        """Begin, afresh or from the loaded node. Return the operator's own iterator, and the same counted.

        The own iterator is None where the pass resumes at its end.
        """
        self.begun = True
        self._know_place(pipe)
        node = pipe._pop_node()
        self.goes_on = self.goes_on or bool(node)
        if pipe.guard.counts:
            pipe.guard.begin(node.get("skipped", 0))
        if node.get("at") == "end":
            return None, ()
        self.last_before = node.get("last_given")
        self._begin_own(pipe, node)
        self._sources = sources_of(pipe)
        if self._sources:
            self._tell_sources(node)
        if not pipe.holds_items and all(map(can_capture, self._sources)):
            own = _own_iterator(pipe, iterate)
            return own, own
        self._pace, self._tally = Pace(), Tally()
        skip, self._unseen = node.get("skip", 0), node.get("unseen", 0)
        kept = {name: value for name, value in node.items() if name not in ("skip", "last_given")}
        self._mark = {**self._at_start(pipe), **kept}
        own = _own_iterator(pipe, iterate)
        # What was emitted since the mark is made again and discarded.
        return own, after(self._tally.follow(own), skip, last=self.last_before)

    def _know_place(self, pipe: Any) -> None:
        link: Link | None = vars(pipe).get("_link")
        if link is None:
            reader = _told_step_that_runs(pipe)
            # A chain that an operator builds to read its source is read in the operator's pass.
            self.path = reader.path if reader is not None and not pipe._epoch else Path(pipe._epoch)
            pipe._epoch = self.path.epoch + 1
        else:
            self.reader, self.path, self._depth = link.reader, link.next_path(), link.depth + 1
            link.begun += 1
            self.goes_on, link.goes_on = link.goes_on, False
            if self._depth % _STEPS_AT_A_TIME == 0:
                let_steps_nest()

    def _begin_own(self, pipe: Any, node: Node) -> None:
        held, owned = vars(pipe), type(pipe)._own
        for name, attribute in owned.items():
            held[name] = attribute.fresh()
        own = node.get("own", {})
        if isinstance(pipe, Seeded):
            if "pass_seed" not in own:
                pipe.begin_random_pass(self.path)
        elif "_seed_of_chain" in held:
            seed_other(pipe, self.path)
        pipe.reset()
        if own:
            for name, value in own.items():
                held[name] = owned[name].load(value)

    def _at_start(self, pipe: TorchIterDataPipe[Any]) -> Node:
        """Return what a pass needs to be run again from its start."""
        node: Node = {}
        if isinstance(pipe, Seeded):
            node["own"] = {"pass_seed": pipe.pass_seed}
        if any(given := [_seeds_of_others(source) for source in self._sources]):
            node["sources"] = given
        return node

    def _tell_sources(self, node: Node) -> None:
        """Give each source its link to this pass, and the node from which it goes on."""
        sources = self._sources
        nodes = node.get("sources") or [None] * len(sources)
        reads = node.get("read") or [None] * len(sources)
        passes = node.get("passes")
        for place, source in enumerate(sources):
            key = id(source)
            if key in self._links:
                continue
            goes_on = nodes[place] is not None or reads[place] is not None
            begun = passes[place] if passes else int(goes_on)
            link = self._links[key] = Link(self.number, self.path, self._depth, begun - goes_on, self.goes_on)
            if goes_on:
                self._to_read[key] = nodes[place], reads[place] or [0, 0, 0]
            give(source, link, nodes[place])
            if link.begun and nodes[place] is None:  # reading it from here on is another pass
                part: Any
                for part in walk(source, stop=is_one_of_several):
                    if is_ours(part):
                        part._is_to_go_on_from({"at": "end"})

    def as_the_first(self) -> None:
        """Let the sources be read as in the first pass over the chain, whatever pass this is."""
        for source in self._sources:
            link = self._links[id(source)]
            link.path = FIRST_PASS
            give(source, link, None)

    def begin_at(self, source: Any, node: Node | None) -> None:
        """Let a source be read on from a node."""
        give(source, self._links[id(source)], node)

    def read(self, source: Any, drop: Callable[[Any], object] | None) -> Reading[Any]:
        """Return the numbered items of a source."""
        node, [at, first, pulled] = self._to_read.pop(id(source), (_seeds_of_others(source), [0, 0, 0]))
        trail = self._trails[id(source)] = Trail(source, node, at, first)
        self._passes_read[id(source)] = self._links[id(source)].begun + 1
        return Reading(trail, pulled, drop)

    # State

    @property
    def items_to_mark(self) -> int:
        """The number of items until the next mark is due."""
        return 1 if self._pace is None else self._pace.items_to_go

    def mark(self, pipe: TorchIterDataPipe[Any], items: int = 1) -> None:
        """Record where the sources stand. The operator must hold none of their items."""
        if self._tally is None or self._pace is None or not self._pace.due(items):
            return
        started = time.perf_counter()
        with suppress(NotPlain):
            if all(map(can_capture, self._sources)):
                self._mark, self._emitted_at_mark = self._whole(pipe), self._tally.items
        self._pace.taken(started)

    def node(self, pipe: Any, waiting: Waiting) -> Node:
        """Return where the pass stands."""
        if self.error is not None:
            raise RuntimeError(
                f"the last pass over {step(pipe)} ended in {self.error}, and the items it had taken are lost: resume "
                "from an earlier state, or begin a new pass"
            )
        if self.ended:
            return {"at": "end", "skipped": pipe.guard.skipped} if pipe.guard.skipped else {"at": "end"}
        if self._tally is None or (not pipe.holds_items and self._knows_its_way_back()):
            node = self.now(pipe, waiting)
        else:
            skip = self._tally.items - self._emitted_at_mark
            node = {**self._mark, "skip": skip} if skip else self._mark
        if self._sources:
            return node
        last = check_value(last_item(pipe)) if self._last_given is None else self._last_given
        return node if last is None else {**node, "last_given": last}

    def _knows_its_way_back(self) -> bool:
        """Say whether each source has a state or is read through a trail."""
        return all(can_capture(source) or id(source) in self._trails for source in self._sources)

    def _whole(self, pipe: TorchIterDataPipe[Any]) -> Node:
        waiting: Waiting = []
        node = self.now(pipe, waiting)
        for nodes, place, source in waiting:
            nodes[place] = capture(source)
        return node

    def now(self, pipe: Any, waiting: Waiting) -> Node:
        """Return where the operator stands. Its own attributes must be as after its last item."""
        node: Node = {}
        held = vars(pipe)
        own = {name: attribute.save(held[name]) for name, attribute in type(pipe)._own.items() if attribute.saved}
        if own:
            node["own"] = own
        if pipe.guard.skipped:
            node["skipped"] = pipe.guard.skipped
        if self._unseen:
            node["unseen"] = self._unseen
        if self._sources:
            self._add_sources(pipe, node, waiting)
        return node

    def _add_sources(self, pipe: TorchIterDataPipe[Any], node: Node, waiting: Waiting) -> None:
        sources = self._sources
        nodes: list[Node | None] = [None] * len(sources)
        reads: list[list[int] | None] = [None] * len(sources)
        passes = [0] * len(sources)
        usual = [0] * len(sources)
        for place, source in enumerate(sources):
            key = id(source)
            link, trail = self._links[key], self._trails.get(key)
            passes[place] = link.begun
            if trail is not None:
                if trail.needed is None and trail.pulled > trail.start:
                    raise TypeError(
                        f"{step(pipe)} has read items by numbers, and not said which it still needs: before each of "
                        "its own it calls keep_from, or it does not say holds_items = False"
                    )
                nodes[place], reads[place] = trail.way_back()
                usual[place], passes[place] = 1, self._passes_read[key]
            elif not is_ours(source) or self._is_part(source):
                waiting.append((nodes, place, source))
                usual[place] = 1
            elif link.node is not None:
                nodes[place] = link.node
                usual[place], passes[place] = 1, link.begun + 1
            if not is_ours(source):
                passes[place] = usual[place]  # the passes of other libraries' pipes are not counted
        node["sources"] = nodes
        if any(reads):
            node["read"] = reads
        if passes != usual:
            node["passes"] = passes

    def _is_part(self, source: Any) -> bool:
        """Say whether the pass over a source of ours has begun and is part of this one."""
        current: Pass | None = vars(source).get("_pass")
        return current is not None and current.begun and current.reader == self.number

    def is_done_with(self, source: Any) -> None:
        """Record that the pass over a source has ended: reading the source again is another pass."""
        current: Pass | None = vars(source).get("_pass")
        if current is not None and current.reader == self.number:
            current.reader = -1

    # Ending

    def is_running(self) -> bool:
        """Say whether an item is being made now, by another thread or by the caller."""
        iterator = None if self.iterator is None else self.iterator()
        return iterator is not None and iterator.gi_running

    def freeze(self) -> None:
        """Replace functions given to `keep_from` by their values, when the pass has ended or was given up.

        Such a function may reference the operator and would keep it alive.
        """
        for trail in self._trails.values():
            if trail.needed is not None:
                trail.needed = trail.oldest

    def give_up(self, last: object) -> None:
        """Keep what states need when the iterator is closed after item `last`."""
        self.freeze()
        self._last_given = None if self._sources else check_value(last)

    def let_go(self) -> None:
        """Close the iterators being read, and release the sources to other readers."""
        for trail in self._trails.values():
            if (iterator := trail.reading()) is not None:
                with suppress(ValueError):  # a thread is making an item, and will close the iterator itself
                    iterator.close()
        for source in self._sources:
            take_back(source, self._links[id(source)])


def give(source: Any, link: Link, node: Node | None) -> None:
    """Give a source its link and node, and likewise pipes of ours behind other libraries' pipes."""
    if is_ours(source):
        source._begin_part(link, node)
        return
    if isinstance(source, TorchMapDataPipe):
        _tell_maps(source)
        return
    seeds = iter((node or {}).get("seeds", ()))
    part: Any
    for part in walk(source, stop=is_ours):
        if is_ours(part):
            part._begin_part(Link(link.reader, link.path, link.depth, link.begun, link.goes_on), None)
        elif hasattr(type(part), "set_seed"):
            seed_other(part, link.next_path(), next(seeds, None))
    if node and "state" in node:
        source.load_state_dict(node["state"])
    _tell_maps(source)


def _tell_maps(source: Any) -> None:
    """Notify map-style pipes of ours that a pass begins. All seeds must be set before."""
    part: Any
    for part in walk(source, stop=is_ours):
        if hasattr(type(part), "_pass_begins"):
            part._pass_begins()


@contextmanager
def first_pass_over(source: Any) -> Iterator[None]:
    """Let a reader that is not an iterable pipe read a source as in the first pass over the chain."""
    link = Link(0, FIRST_PASS, 0, 0)
    give(source, link, None)
    let_steps_nest()
    try:
        yield
    finally:
        take_back(source, link)


def take_back(source: Any, link: Link) -> None:
    """Release a source from a pass that has ended, so that others can read it."""
    parts = [source] if is_ours(source) else walk(source, stop=is_ours)
    for part in parts:
        held = vars(part)
        found, inner = held.get("_link"), None
        while found is not None and found.reader != link.reader:
            found, inner = found.outer, found
        if found is None:
            continue
        if inner is not None:
            inner.outer = found.outer
        elif found.outer is not None:
            held["_link"] = found.outer
        else:
            del held["_link"]


def _seeds_of_others(source: Any) -> Node | None:
    """Return a node with the seeds of other libraries' pipes for a pass, or None."""
    if is_ours(source) or isinstance(source, TorchMapDataPipe):
        return None
    parts: Iterator[Any] = walk(source, stop=is_ours)
    seeds = [vars(part).get("_seed") for part in parts if not is_ours(part) and hasattr(type(part), "set_seed")]
    return {"seeds": seeds} if seeds else None


def begin_pass(pipe: Any, iterate: Callable[[Any], Iterable[T]]) -> Iterator[T]:
    """Return the iterator of a new pass over a pipe, and close a live iterator of an earlier pass."""
    replace_live_iterator(pipe)
    pipe._iterator_made()
    current = Pass()
    pipe._pass = current
    iterator = cast("GeneratorType[T, None, None]", _deliver(pipe, current, iterate))
    next(iterator)  # start the generator, so that a newer iterator can throw into it; nothing is pulled
    current.iterator = weakref.ref(iterator)
    if threading.get_ident() == threading.main_thread().ident:
        _open.add(iterator)
    return iterator


_open: weakref.WeakSet[GeneratorType[Any, None, None]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close open iterators at exit, before interpreter shutdown removes what their steps call.

    Iterators of other threads stay open: those threads would mistake a closed iterator for an exhausted one.
    """
    for iterator in [*_open]:
        try:
            iterator.close()
        except Exception as error:
            if not iterator.gi_running:  # it may have been passed to another thread, which runs it
                traceback.print_exception(error)


def _deliver(pipe: Any, current: Pass, iterate: Callable[[Any], Iterable[T]]) -> Generator[Any, None, None]:
    own: Any = None
    counted: Any = None
    observer: Any = None
    try:
        yield
        if (observer := pipe.observer) is None:
            own, counted = current.start(pipe, iterate)
            # Not `yield from`: error notes read this frame's `item`.
            for item in counted:
                yield item
        else:  # here, since another generator would take its part of the stack
            observer.enter()
            own, counted = current.start(pipe, iterate)
            for item in counted:
                observer.leave(1)
                yield item
                observer.enter()
        if own is not None:
            pipe.at_end()
        current.ended = True
        if not pipe._is_asked_after_its_end:
            current.freeze()
    except Replaced as replaced:
        message = replaced.message
        if hasattr(own, "close"):  # inline: saves a frame for each of thousands of steps
            own.close()
        current.let_go()
        own = counted = item = None
        yield  # the result of throw(); the next step of this iterator raises
        raise RuntimeError(message) from None
    except Exception as error:
        current.error = describe_item(error)
        add_error_context(error, pipe)
        shorten_traceback(error, _deliver.__code__)
        raise
    except GeneratorExit:
        current.give_up(locals().get("item", current))  # no item: a value without a check value
        if not current.begun:
            pipe._iterator_closed_unread()
        raise
    except BaseException as error:  # Ctrl-C or a signal handler's error: the current item is lost
        current.error = describe_item(error)
        if isinstance(error, SystemExit):  # from a user's function; ends a worker
            add_error_context(error, pipe)
        raise
    finally:
        if observer is not None:
            observer.leave()
        if hasattr(own, "close"):
            own.close()
        current.let_go()
        own = counted = None  # a traceback may keep this frame, which must not keep the sources open


def running_step(thread_id: int) -> str | None:
    """Return a text with the operator that a thread runs and its item, or None."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code is not _deliver.__code__:
        frame = frame.f_back
    return None if frame is None else describe_step(local_of(frame, "pipe"))


def _told_step_that_runs(chain: Any) -> Pass | None:
    """Tell the step that this thread is running, if any, that it begins to read a chain; return the step's pass."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _deliver.__code__ and (pipe := local_of(frame, "pipe")) is not chain:
            current: Pass = pipe._pass
            current.begins_unseen(pipe, chain)
            return current
        frame = frame.f_back
    return None


def _own_iterator(pipe: Any, iterate: Callable[[Any], Iterable[T]]) -> Iterable[T]:
    own = iterate(pipe)
    if not hasattr(own, "__next__"):
        raise TypeError(
            f"__iter__ of {type(pipe).__name__} must yield items, or return an iterator, and returned "
            f"{type(own).__name__}: write `yield item` for each item"
            + (", or `yield from` in place of `return`" if isinstance(own, Iterable) else "")
        )
    # A pipe that is its own iterator is read by its __next__: iter() would begin another pass.
    return iter(pipe.__next__, object()) if own is pipe else own


def replace_live_iterator(pipe: TorchIterDataPipe[Any], message: str | None = None) -> None:
    """Close the live iterator of a pipe, if any; its next step raises RuntimeError, with a message if one is given."""
    current: Pass | None = vars(pipe).get("_pass")  # other libraries' pipes have none
    earlier = current.iterator() if current is not None and current.iterator is not None else None
    if current is None or earlier is None or earlier.gi_frame is None:
        return
    if earlier.gi_running:
        raise RuntimeError(
            f"{step(pipe)} is already being read, by another thread or by itself: a pipe has one live iterator"
        )
    current.iterator = None  # replaced only once
    if message is None:
        message = (
            f"this iterator of {step(pipe)} was replaced by a newer one{asked_by()}: a pipe has one live iterator; "
            "peek(n) leaves it alone; to read a pipe twice at once, fork it or build the chain twice, or use "
            "itertools.tee in an operator"
        )
    earlier.throw(Replaced(message))


def require_end(pipe: Iterable[Any]) -> None:
    """Raise RuntimeError if a pipe was not read to its end; other libraries' pipes are not checked.

    For `at_end` of operators that return `map` or `filter`: StopIteration in a user's function ends these silently.
    """
    current: Pass | None = vars(pipe).get("_pass")
    if current is not None and not current.ended:
        raise RuntimeError(ENDED_BY_STOP_ITERATION)
