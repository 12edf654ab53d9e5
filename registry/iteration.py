"""One pass over a pipe: the iterator that is handed out, its beginning, its end, and being replaced by a newer one.

Nothing here runs for each item but one plain `for` loop; everything else happens when a pass begins, ends, fails, is
replaced, or when its state is asked for.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .display import step
from .graph import DataPipe, sources_of, walk
from .notes import local_of, place_of, say_where, shorten_traceback
from .seeds import Seeded
from .state import Node, Pace, Tally, begin_from, can_capture, capture, is_branch, node_after_pass, with_present_seeds

if TYPE_CHECKING:
    from .base import IterDataPipe

__all__ = ["Pass", "begin_pass", "close", "replace_live_iterator", "require_end", "snapshot"]

T = TypeVar("T")

ENDED_BY_STOP_ITERATION = "a function raised StopIteration, which would have passed for the end of the stream"


class Replaced(BaseException):
    """Thrown into an iterator that a newer one replaces. Not an Exception, so that no operator swallows it."""


class Pass:
    """What is known of one pass over a pipe."""

    def __init__(self) -> None:
        self.iterator: weakref.ref[GeneratorType[Any, None, None]] | None = None
        self.begun = self.ended = self.resumes = False
        self.error: str | None = None  # the exception itself would keep frames, and with them open files, alive
        self.sources: list[DataPipe] = []
        self._tally: Tally | None = None
        self._pace = Pace()
        self._mark: Node = {}
        self._emitted_at_mark = 0

    def start(
        self, pipe: IterDataPipe[Any], iterate: Callable[[Any], Iterable[T]]
    ) -> tuple[Iterable[T] | None, Iterable[T]]:
        """Begin, afresh or from the node that was handed down. Return the operator's own iterator, and it counted.

        There is none of its own where the pass goes on from its end.
        """
        self.begun = True
        self.resumes, pipe._resumes = pipe._resumes, False
        self.sources = sources_of(pipe)
        node = pipe._pop_node()
        if node.get("at") == "end":
            if not pipe.guard.raises:
                pipe.guard.begin(node.get("skipped", 0))
            return None, ()
        if node.get("at") == "start":  # its seeds were taken; from where its sources are to begin, they are told below
            node = {"sources": node["sources"]} if "sources" in node else {}
        if isinstance(pipe, Seeded):
            if "random" in node:
                pipe.set_random_state(node["random"])
            else:
                pipe.begin_random_pass()
        pipe.reset()
        if not pipe.guard.raises:
            pipe.guard.begin(node.get("skipped", 0))
        nodes = node.get("sources", [None] * len(self.sources))
        for source, source_node in zip(self.sources, nodes, strict=True):
            begin_from(source, source_node)
        if "own" in node:
            pipe.set_state(node["own"])
        if not pipe.holds_items and all(map(can_capture, self.sources)):
            own = _own_iterator(pipe, iterate)
            return own, own
        self._tally = Tally()
        self._mark = self.open_node(pipe, pipe.get_state(), [capture(source) for source in self.sources])
        own = _own_iterator(pipe, iterate)
        counted = self._tally.follow(own)
        skip = node.get("skip", 0)
        next(islice(counted, skip, skip), None)  # hand out anew, to nobody, what had been handed out since the mark
        return own, counted

    @property
    def items_to_mark(self) -> int:
        """After how many items it is worth while to mark."""
        return self._pace.items_to_go

    def mark(self, pipe: IterDataPipe[Any], items: int = 1) -> None:
        """Note where the sources stand, now that the operator holds none of their items."""
        if self._tally is None or not self._pace.due(items):
            return
        started = time.perf_counter()
        if all(map(can_capture, self.sources)):
            self._mark = self.open_node(pipe, pipe.get_state(), [capture(source) for source in self.sources])
            self._emitted_at_mark = self._tally.items
        self._pace.taken(started)

    def node(self, pipe: IterDataPipe[Any]) -> Node:
        """Return where the pass stands."""
        if self.error is not None:
            raise RuntimeError(
                f"the last pass over {step(pipe)} ended in {self.error}, and what it took from its source is "
                "lost with it: go on from a state taken before that, or begin a new pass"
            )
        if self.ended:
            return node_at_end(pipe, pipe.guard.skipped)
        if self._tally is None:
            own, nodes = pipe.snapshot()
            node = self.open_node(pipe, own, nodes)
            return node if type(pipe).snapshot is snapshot else with_present_seeds(node, pipe)
        skip = self._tally.items - self._emitted_at_mark
        return with_present_seeds({**self._mark, "skip": skip} if skip else self._mark, pipe)

    @staticmethod
    def open_node(pipe: IterDataPipe[Any], own: dict[str, Any], nodes: list[Node]) -> Node:
        """Return the node of a pipe in a pass: its own state, and the nodes of its sources that go with it."""
        node: Node = {"random": pipe.random_state()} if isinstance(pipe, Seeded) else {}
        if own:
            node["own"] = own
        if pipe.guard.skipped:
            node["skipped"] = pipe.guard.skipped
        if nodes:
            node["sources"] = nodes
        return node


def has_not_begun(pipe: Any) -> bool:
    """Say whether a pipe of ours is still before its first pass, or before the one that a state tells of."""
    current: Pass | None = vars(pipe).get("_pass")
    return hasattr(pipe, "_node") and (current is None or not current.begun)


def node_at_end(pipe: IterDataPipe[Any], skipped: int) -> Node:
    """Return the node of a pipe whose pass has ended, in which so many items were skipped."""
    return {**node_after_pass(pipe), "at": "end", **({"skipped": skipped} if skipped else {})}


def snapshot(self: IterDataPipe[Any]) -> tuple[dict[str, Any], list[Node]]:
    """Return `get_state()`, and the states of the sources that go with it: where they stand now.

    An operator that reads ahead returns earlier states of its sources, and its own to match.
    """
    return self.get_state(), [capture(source) for source in self._pass.sources] if self._pass is not None else []


def begin_pass(pipe: IterDataPipe[Any], iterate: Callable[[Any], Iterable[T]]) -> Iterator[T]:
    """Return the iterator of a new pass over a pipe. The iterator of an earlier pass, if alive, is closed."""
    replace_live_iterator(pipe)
    if pipe._pass is not None and pipe._pass.resumes:
        catch_up(pipe)
    pipe._iterator_made()
    current = Pass()
    pipe._pass = current
    iterator = cast("GeneratorType[T, None, None]", _deliver(pipe, current, iterate))
    next(iterator)  # up to the first line, so that a newer iterator can reach it; nothing is pulled
    current.iterator = weakref.ref(iterator)
    return iterator


def _deliver(
    pipe: IterDataPipe[Any], current: Pass, iterate: Callable[[Any], Iterable[T]]
) -> Generator[Any, None, None]:
    own: Any = None
    counted: Any = None
    try:
        yield
        own, counted = current.start(pipe, iterate)
        # Not `yield from`: the frame's `item` is how an error below tells which item it was on.
        for item in counted:  # noqa: UP028
            yield item
        if own is not None:
            pipe.at_end()
        current.ended = True
    except Replaced:
        close(own)
        own = counted = item = None
        yield  # the answer to throw(); whoever holds this iterator is told at the next step
        raise RuntimeError(
            f"this iterator of {step(pipe)} was replaced by a newer one: a pipe has one live iterator; "
            "to read a pipe twice at once, fork it or build the chain twice"
        ) from None
    except Exception as error:
        current.error = repr(error)
        say_where(error, pipe)
        shorten_traceback(error, _deliver.__code__)
        raise
    except GeneratorExit:
        raise
    except BaseException as error:  # Ctrl-C, or what a signal handler raised: the item under way is lost
        current.error = repr(error)
        if isinstance(error, SystemExit):  # it comes from a function of the user's, and ends a worker
            say_where(error, pipe)
        raise
    finally:
        close(own)
        own = counted = None  # an error's traceback keeps this frame, which must not keep the sources open
        if current.ended and current.resumes:
            catch_up(pipe)


def catch_up(pipe: IterDataPipe[Any]) -> None:
    """Let the pass over a chain that follows a resumed one begin as though that had been read at one go."""
    branches: list[Any] = [part for part in walk(pipe, stop=is_branch) if is_branch(part)]
    others_read = [branch for branch in branches if branch.source.is_being_read()]
    for part in walk(pipe, stop=lambda part: any(part is branch for branch in others_read)):
        if isinstance(part, Seeded):
            part.catch_up()


def is_live(pipe: Any) -> bool:
    """Say whether a pipe of ours is in a pass that can be read on."""
    current: Pass | None = vars(pipe).get("_pass")
    return current is not None and current.iterator is not None and current.iterator() is not None


def running_step(thread_id: int) -> str | None:
    """Return, in words, which operator a thread runs, and on which item; None where it runs none."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code is not _deliver.__code__:
        frame = frame.f_back
    return None if frame is None else place_of(local_of(frame, "pipe"))


def _own_iterator(pipe: IterDataPipe[Any], iterate: Callable[[Any], Iterable[T]]) -> Iterable[T]:
    own = iterate(pipe)
    # A pipe that is its own iterator is read by its __next__: iter() of it would begin another pass.
    return iter(pipe.__next__, object()) if own is pipe else own


def replace_live_iterator(pipe: IterDataPipe[Any]) -> None:
    """Close the iterator of a pipe's pass, if one is alive; its next step will say that it was replaced."""
    current: Pass | None = vars(pipe).get("_pass")  # other libraries' pipes have none
    earlier = current.iterator() if current is not None and current.iterator is not None else None
    if current is None or earlier is None or earlier.gi_frame is None:
        return
    if earlier.gi_running:
        raise RuntimeError(
            f"{step(pipe)} is being read at this moment, by another thread or by itself: a pipe has one live iterator"
        )
    current.iterator = None  # it is told once
    earlier.throw(Replaced())


def close(iterator: object) -> None:
    """Close an iterator that can be closed, such as a generator, so that its resources are released now."""
    closing = getattr(iterator, "close", None)
    if callable(closing):
        closing()


def require_end(pipe: Iterable[Any]) -> None:
    """Raise RuntimeError where a pipe whose items were read has not come to its end.

    For `at_end` of an operator that is a `map` or `filter` object: a StopIteration out of a user's function would end
    such an iterator in silence. Of other libraries' pipes nothing is known.
    """
    current: Pass | None = vars(pipe).get("_pass")
    if current is not None and not current.ended:
        raise RuntimeError(ENDED_BY_STOP_ITERATION)
