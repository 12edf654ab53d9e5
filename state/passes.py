"""One pass over a pipe: where it begins, what it reads, its state, and its end."""

from __future__ import annotations

import inspect
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from types import GeneratorType
from typing import Any, TypeVar

from .error_context import NO_ITEM, last_item, local_of
from .foreign import OurPipe
from .graph import STEPS_AT_A_TIME, DataPipe, is_one_of_several, let_steps_nest, sources_of, walk
from .node import Node, ReadFrom
from .replay import Checkpointer, Reading, ReplayLog, SavedNodes, after, check_value
from .seeds import PassPath, Seeded, inner_seeds, seed_foreign, seed_inner_chain
from .sources import SourceLink
from .step_text import step_text

T = TypeVar("T")

ENDED_BY_STOP_ITERATION = "a function raised StopIteration, which would have passed for the end of the stream"


class Pass:
    """One pass over a pipe."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = weakref.ref(pipe)
        self.iterator: weakref.ref[GeneratorType[Any, None, None]] | None = None
        self.begun = self.ended = False
        self.error: str | None = None  # the exception itself would keep frames, and with them open files, alive
        self.reader_link: SourceLink | None = None
        """The record of the reader of which this pass is a part; None at the end of the chain."""
        self.resumed = False
        """Whether this is part of a resumed pass, even if this one begins afresh."""
        self.path = PassPath(0)
        self.depth = 0
        self.kept_last_item: tuple[int, Any] | None = None
        """The last item, once the iterator was closed while a reader may still fail with it, and when that was."""
        self._pipes: list[DataPipe] = []  # a record of a source does not keep its pipe alive
        self._links: dict[int, SourceLink] = {}
        """The records of the sources, by the ids of their pipes."""
        self._links_in_order: list[SourceLink] = []
        """The records in the order of the sources; one that is read twice comes twice."""
        self._sources_can_save = True
        """Whether a pass over each source can be resumed."""
        self._checkpointer: Checkpointer | None = None
        """The last snapshot, where a resumed pass runs again from one."""
        self._inner_chains = 0
        """The number of inner chains that were begun: chains that the step, or a function it calls, built."""
        self.expected_last: int | None = None
        """The check value of the last item before the pass was resumed."""
        self._check_of_last: int | None = None
        """The check value of the last item, once the pass was given up."""

    # Beginning

    def start(self, pipe: Any, iterate: Callable[[Any], Iterable[T]]) -> tuple[Iterable[T] | None, Iterable[T]]:
        """Begin, afresh or from the loaded node. Return the operator's own iterator, and the same counted.

        The own iterator is None where the pass resumes at its end.
        """
        self.begun = True
        node = self._enter(pipe)
        if pipe.error_policy.has_counts:
            pipe.error_policy.begin(node.get("skipped", 0))
        if node.get("at") == "end":
            return None, ()
        self.expected_last = node.get("last_given")
        self._begin_fields(pipe, node.get("own", {}))
        if pipes := sources_of(pipe):
            self._attach_sources(pipes, node)
        if pipe.resumes_from_start or not self._sources_can_save:
            kept = node.copy()
            kept.pop("skip", None)
            kept.pop("last_given", None)
            self._checkpointer = Checkpointer(0, {**self._at_start(pipe), **kept})
            self._inner_chains = node.get("inner", 0)
        own = iterate(pipe)
        if not hasattr(own, "__next__"):
            raise TypeError(
                f"__iter__ of {type(pipe).__name__} must yield items, or return an iterator, and returned "
                f"{type(own).__name__}: write `yield item` for each item"
                + (", or `yield from` in place of `return`" if isinstance(own, Iterable) else "")
            )
        if own is pipe:  # its own iterator, which is read by its __next__: iter() would begin another pass
            own = iter(pipe.__next__, object())
        if self._checkpointer is None:
            return own, own
        # What was emitted since the snapshot is made again and discarded.
        return own, after(self._checkpointer.emitted.follow(own), node.get("skip", 0), last=self.expected_last)

    def _enter(self, pipe: Any) -> Node:
        """Find out of which pass this one is a part, and return the node from which it begins."""
        link: SourceLink | None = pipe._reader_link
        if link is None:
            outer = running_pass(self)
            if outer is not None:
                self.depth = outer.depth + 1
                outer._begin_inner_chain(pipe)
            self.path = path_without_reader(pipe, outer)
            pipe._epoch = self.path.epoch + 1
        else:
            self.reader_link, self.path, self.depth = link, link.next_path(), link.depth + 1
            link.passes_begun += 1
            self.resumed, link.resumed = link.resumed, False
            if self.depth % STEPS_AT_A_TIME == 0:
                let_steps_nest()
        node: Node = pipe._take_node()
        self.resumed = self.resumed or bool(node)
        return node

    def _begin_inner_chain(self, chain: Any) -> None:
        pipe: Any = self._pipe()
        number = pipe._number_of_inner_chain()
        if number is None:
            return
        if not isinstance(pipe, Seeded):
            inner_seeds(pipe).begin_random_pass(self.path)
        seed_inner_chain(chain, pipe, number)

    def count_inner_chain(self) -> int | None:
        """Return how many inner chains were begun before, and count one.

        None for a step that does not run again when it resumes: its inner chains need no seeds.
        """
        if self._checkpointer is None:
            return None
        self._inner_chains += 1
        return self._inner_chains - 1

    def inner_chains_again(self) -> Callable[[], None]:
        """Return a function that sets the count of inner chains back to now, before an item is tried again."""

        def again(count: int = self._inner_chains) -> None:
            self._inner_chains = count

        return again

    def _begin_fields(self, pipe: Any, saved: Mapping[str, Any]) -> None:
        """Set the attributes of a pass: to their defaults, or to what the state has."""
        attributes, fields = vars(pipe), type(pipe)._state_fields
        for name, field in fields.items():
            attributes[name] = field.fresh()
        if isinstance(pipe, Seeded):
            if "pass_seed" not in saved:
                pipe.begin_random_pass(self.path)
        elif "_seed_of_chain" in attributes:
            seed_foreign(pipe, self.path)
        pipe.reset()
        for name, value in saved.items():
            attributes[name] = fields[name].load(value)

    def _at_start(self, pipe: Any) -> Node:
        """Return what a pass needs to be run again from its start."""
        node: Node = {}
        if isinstance(pipe, Seeded):
            node["own"] = {"pass_seed": pipe.pass_seed}
        if any(seeds := [link.source()._foreign_seeds() for link in self._links_in_order]):
            node["sources"] = seeds
        return node

    def _attach_sources(self, pipes: list[DataPipe], node: Node) -> None:
        """Let each source be read in this pass, and from its node if there is one."""
        nodes = node.get("sources") or [None] * len(pipes)
        reads = node.get("read") or [None] * len(pipes)
        passes = node.get("passes")
        self._pipes = pipes
        for place, pipe in enumerate(pipes):
            if id(pipe) in self._links:
                self._links_in_order.append(self._links[id(pipe)])
                continue
            resumes = nodes[place] is not None or reads[place] is not None
            begun = passes[place] if passes else int(resumes)
            link = SourceLink(pipe, self.path, self.depth, begun - resumes, self.resumed)
            self._links[id(pipe)] = link
            link.is_read = True
            self._sources_can_save = self._sources_can_save and link.can_save
            self._links_in_order.append(link)
            if resumes:
                link.replay = nodes[place], ReadFrom(*(reads[place] or ()))
            link.begin_at(nodes[place])
            # Reading it from here on is another pass: its branches know then that they are at their ends.
            if link.passes_begun and nodes[place] is None:
                part: Any
                for part in walk(pipe, stop=is_one_of_several):
                    if isinstance(part, OurPipe):
                        part._node_loaded({"at": "end"})

    def link_of(self, pipe: Any) -> SourceLink:
        """Return the record of a source."""
        return self._links[id(pipe)]

    def read(self, pipe: Any, drop: Callable[[Any], object] | None) -> Reading[Any]:
        """Return the numbered items of a source."""
        link = self._links[id(pipe)]
        node, (at, oldest, pulled) = link.replay or (link.source()._foreign_seeds(), ReadFrom())
        link.replay = None
        log = link.log = ReplayLog(link.source(), node, at, oldest)
        link.logged_pass = link.passes_begun + 1
        return Reading(log, pulled, drop)

    # State

    @property
    def items_to_checkpoint(self) -> int:
        """The number of items until a snapshot may be due."""
        return 1 if self._checkpointer is None else self._checkpointer.items_to_go

    def checkpoint(self, pipe: Any, items: int = 1) -> None:
        """Count items, and record where the sources are if it is due. The operator must hold none of their items."""
        if self._checkpointer is not None and self._sources_can_save:
            self._checkpointer.count(items, lambda: self.now(pipe, SavedNodes()))

    def save(self, pipe: Any, saved: SavedNodes) -> Node:
        """Return where the pass is; `saved` has and gets the nodes of sources."""
        if self.error is not None:
            raise RuntimeError(
                f"the last pass over {step_text(pipe)} ended in {self.error}, and the items it had taken are lost: "
                "resume from an earlier state, or begin a new pass"
            )
        if self.ended:
            return {"at": "end", "skipped": skipped} if (skipped := pipe.error_policy.skipped) else {"at": "end"}
        if self._checkpointer is None or (not pipe.resumes_from_start and self._can_restart()):
            node = self.now(pipe, saved)
        else:
            node = self._checkpointer.node()
        if not self._links_in_order:
            last = check_value(last_item(pipe)) if self._check_of_last is None else self._check_of_last
            if last is not None:
                return {**node, "last_given": last}
        return node

    def _can_restart(self) -> bool:
        """Say whether each source has a state or is read with numbers."""
        return all(link.can_save or link.log is not None for link in self._links_in_order)

    def now(self, pipe: Any, saved: SavedNodes) -> Node:
        """Return where the operator is. Its own attributes must be as after its last item."""
        node: Node = {}
        attributes = vars(pipe)
        own = {name: field.save(attributes[name]) for name, field in type(pipe)._state_fields.items() if field.saved}
        if own:
            node["own"] = own
        if pipe.error_policy.skipped:
            node["skipped"] = pipe.error_policy.skipped
        if self._inner_chains:
            node["inner"] = self._inner_chains
        if not self._links_in_order:
            return node
        nodes: list[Node | None] = []
        reads: list[list[int] | None] = []
        passes: list[int] = []
        implied: list[int] = []
        for link in self._links_in_order:
            read: list[int] | None = None
            part, begun, is_begun = link.source(), link.passes_begun, 1
            if (log := link.log) is not None:
                _expect_needed(pipe, log)
                found, position = log.restart()
                read = [*position]
                begun = link.logged_pass
            elif link.is_foreign or self._is_part(part, link):
                found = saved.node_of(part)
            elif (found := link.node) is not None:
                begun += 1
            else:
                is_begun = 0
            nodes.append(found)
            reads.append(read)
            implied.append(is_begun)
            passes.append(is_begun if link.is_foreign else begun)  # passes over others are not counted
        node["sources"] = nodes
        if any(reads):
            node["read"] = reads
        if passes != implied:  # else loading knows it from the nodes
            node["passes"] = passes
        return node

    @staticmethod
    def _is_part(pipe: Any, link: SourceLink) -> bool:
        """Say whether the pass over a source of ours has begun and is part of this one."""
        current: Pass | None = pipe._pass
        return current is not None and current.begun and current.reader_link is link

    def source_ended(self, pipe: Any) -> None:
        """Record that the pass over a source has ended: reading the source again is another pass."""
        current: Pass | None = vars(pipe).get("_pass")
        if current is not None and current.reader_link is self._links.get(id(pipe)):
            current.reader_link = None

    # Ending

    @property
    def live_iterator(self) -> GeneratorType[Any, None, None] | None:
        """The iterator of the pass, while somebody has it."""
        return None if self.iterator is None else self.iterator()

    def is_running(self) -> bool:
        """Say whether an item is being made now, by another thread or by the caller."""
        return (iterator := self.live_iterator) is not None and iterator.gi_running

    def freeze(self) -> None:
        """Replace functions given to `keep_from` by their values, when the pass has ended or was given up.

        Such a function may reference the operator and would keep it alive.
        """
        for link in self._links.values():
            if link.log is not None and link.log.needed is not None:
                link.log.needed = link.log.oldest

    def abandon(self, last: object) -> None:
        """Keep what states and error notes need when the iterator is closed after item `last`."""
        self.freeze()
        self._check_of_last = None if self._links_in_order else check_value(last)
        if self.reader_link is not None and self.reader_link.is_read and last is not NO_ITEM:
            self.kept_last_item = next(_closings), last

    def close(self) -> None:
        """Close the iterators being read, and release the sources to other readers."""
        for link in self._links.values():
            if link.log is not None and (iterator := link.log.iterator()) is not None:
                with suppress(ValueError):  # a thread is making an item, and will close the iterator itself
                    iterator.close()
        for link in self._links.values():
            link.close()


def _expect_needed(pipe: Any, log: ReplayLog) -> None:
    if log.needed is None and log.pulled > log.start:
        raise TypeError(
            f"{step_text(pipe)} has read items by numbers, and not said which it still needs: before each of "
            "its own it calls keep_from, or it does not say resumes_from_start = False"
        )


_closings = count()
"""Numbers the iterators that are closed early."""


def path_without_reader(pipe: Any, outer: Pass | None) -> PassPath:
    """Return the path of a pass that no reader has begun: of the next epoch, or of the pass in which it is read."""
    # One that was read before has epochs of its own.
    is_part = outer is not None and not (pipe._epoch or pipe._counts_epochs)
    return outer.path if outer is not None and is_part else PassPath(pipe._epoch)


def running_pass(but: Pass | None = None) -> Pass | None:
    """Return the innermost pass that makes an item in this thread, other than `but`.

    Only the stack knows it: iterators may be advanced in any thread, and branches and shards have other readers at
    other times. Called once when a pass begins that no reader has begun.
    """
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        found = local_of(frame, "current") if frame.f_code.co_name == "_deliver" else None
        if isinstance(found, Pass) and found is not but:
            return found
    return None


def require_end(pipe: Iterable[Any]) -> None:
    """Raise RuntimeError if a pipe was not read to its end; other libraries' pipes are not checked.

    For `at_end` of operators that return `map` or `filter`: StopIteration in a user's function ends these silently.
    """
    current: Pass | None = vars(pipe).get("_pass")
    if current is not None and not current.ended:
        raise RuntimeError(ENDED_BY_STOP_ITERATION)
