"""The state of a chain: taking it between two items, and going on from it.

A node describes one pipe and nests the nodes of its sources. What it holds depends on where the pipe is:

- before a pass: nothing, or the seeds of the coming pass, `at` the start
- in a pass, operator without hidden items: its own small state and where its sources stand
- in a pass, operator that holds items: where its sources stood at its last mark, and how many items of its own
  it has handed out since; resuming runs it again from there and drops those
- after a pass: that it stands `at` the end, and the seeds of the coming pass

Where a source is shared by several branches, each branch's node nests the source's as the branch needs it, so that it
can be read on alone. What is one object in several places of a node is saved once.
"""

from __future__ import annotations

import difflib
import itertools
import math
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .folding import fold, unfold
from .graph import DataPipe, sources_of, walk
from .seeds import Seeded, set_seeds, upcoming_seeds
from .torch_pipes import TorchMapDataPipe

if TYPE_CHECKING:
    from .base import IterDataPipe

__all__ = [
    "SNAPSHOT_SHARE",
    "Node",
    "Pace",
    "Tally",
    "Trail",
    "can_capture",
    "capture",
    "chain_shape",
    "hand_down",
    "node_of_repetition",
    "take_seeds",
]

T = TypeVar("T")
Node = dict[str, Any]

VERSION = 1
SNAPSHOT_SHARE = 0.01
"""The share of the running time that taking snapshots of sources may take, all who take them together.

What they cost is to stay below 2 %, and there is more to it than their own time: others wait for them meanwhile, and
find the caches cold after them.
"""
_COST_OF_THE_FIRST = 1e-5
"""Seconds that the first snapshot of a pass is taken to cost, until it is known."""
_MOST_SNAPSHOTS = 512
"""More than a trail keeps: an item that is never done with would have them pile up."""


class Tally:
    """Count the items of an iterator at the speed of C: `compress` takes one number for each item it lets through."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def follow(self, iterator: Iterable[T]) -> Iterator[T]:
        """Return an iterator over the same items that counts them here."""
        return itertools.compress(iterator, self._numbers)

    @property
    def items(self) -> int:
        """How many items went by. Its repr is the only public way to read a counter without moving it."""
        return int(repr(self._numbers).removeprefix("count(").removesuffix(")")) - 1


_taking_snapshots: weakref.WeakSet[Pace] = weakref.WeakSet()


class Pace:
    """Say when the next snapshot of a source is due: as often as costs at most `SNAPSHOT_SHARE` of the time.

    The paces of a process share that: of the passes of twelve shards, each may spend a twelfth. The clock is looked at
    when as many items have gone by as should take that long, and at twice as many at most, as the first may have been
    the slow ones.
    """

    def __init__(self, at_least: int = 1) -> None:
        self._at_least = self._step = at_least
        self._items = 0
        self._since = time.perf_counter()
        self._rest = self._rest_after(_COST_OF_THE_FIRST)

    @property
    def step(self) -> int:
        """After how many items from the last snapshot on the next may be due."""
        return self._step

    @property
    def items_to_go(self) -> int:
        """After how many items from now on the next snapshot may be due."""
        return max(self.step - self._items, 1)

    def due(self, items: int = 1) -> bool:
        """Count one item, or several, and say whether a snapshot should be taken now."""
        self._items += items
        if self._items >= self.step:
            self._look_at_the_clock()
        return self._items >= self.step

    def taken(self, started: float) -> None:
        """Learn that a snapshot was taken, from `started` (of `time.perf_counter`) until now."""
        now = time.perf_counter()
        _taking_snapshots.add(self)
        self._rest = self._rest_after(now - started)
        self._step = self._items_in(self._rest, started - self._since)
        self._items, self._since = 0, now

    def _look_at_the_clock(self) -> None:
        rested = time.perf_counter() - self._since
        if rested < self._rest:
            self._step = self._items + self._items_in(self._rest - rested, rested)

    def _items_in(self, seconds: float, seconds_until_now: float) -> int:
        """Return how many items should take so many seconds, at the rate of those since the last snapshot."""
        at_this_rate = self._items * seconds / max(seconds_until_now, 1e-9)
        return max(self._at_least, int(min(at_this_rate, 2 * self._items)), 1)

    @staticmethod
    def _rest_after(seconds: float) -> float:
        return seconds * max(len(_taking_snapshots), 1) / SNAPSHOT_SHARE if SNAPSHOT_SHARE else math.inf


class Trail(Generic[T]):
    """Read a source ahead of what is handed out, and know how to get back to the oldest item still held.

    Items are numbered from 0 at the state where the trail began. `oldest()` says which is the first that is still
    needed; states of the source that lie before it are forgotten.
    """

    def __init__(self, source: Iterable[T], oldest: Callable[[], int], snapshot_every: int = 1) -> None:
        self._source = source
        self._oldest = oldest
        self._pace = Pace(snapshot_every) if can_capture(source) else None
        # Replaced as a whole, never changed: the thread that reads may not be the one that asks for the way back.
        self._snapshots = [(0, capture(source))]
        self._tally = Tally()

    @property
    def pulled(self) -> int:
        """How many items were pulled."""
        return self._tally.items

    def __iter__(self) -> Iterator[T]:
        items = self._tally.follow(self._source)
        if self._pace is None:
            yield from items
            return
        while True:
            step = self._pace.items_to_go
            expected = self.pulled + step
            yield from itertools.islice(items, step)
            if self.pulled < expected:
                return
            if not self._pace.due(step):
                continue
            started = time.perf_counter()
            snapshots = [*self._needed(self._oldest()), (self.pulled, capture(self._source))]
            # Where an item is needed for very long, every second will do.
            self._snapshots = snapshots if len(snapshots) <= _MOST_SNAPSHOTS else snapshots[::2]
            self._pace.taken(started)

    def way_back(self) -> tuple[Node, int]:
        """Return a state of the source, and how many items after it the oldest one needed comes."""
        oldest = self._oldest()
        at, node = self._needed(oldest)[0]
        return node, oldest - at

    def last_needed(self) -> tuple[int, Node]:
        """Return the last state of the source from which the oldest item can be reached, and that state's number."""
        return self._needed(self._oldest())[0]

    def _needed(self, oldest: int) -> list[tuple[int, Node]]:
        """The snapshots without those that lie before the last one from which the oldest item can be reached."""
        snapshots = self._snapshots
        before = sum(at <= oldest for at, _ in snapshots)
        return snapshots[max(before - 1, 0) :]


def can_capture(pipe: Any) -> bool:
    """Say whether a pipe can tell where it stands; torch's own cannot, and are read again from the start.

    One that is read by index stands nowhere, and needs not tell.
    """
    return hasattr(pipe, "_node") or hasattr(type(pipe), "state_dict") or isinstance(pipe, TorchMapDataPipe)


def capture(pipe: Any) -> Node:
    """Return the node of a pipe: where it stands now."""
    if hasattr(pipe, "_node"):
        node: Node = pipe._node()
        return node
    return {"state": pipe.state_dict()} if hasattr(type(pipe), "state_dict") else node_before_pass(pipe)


def hand_down(pipe: Any, node: Node | None) -> None:
    """Let the next pass over a chain begin from a node, or afresh where there is none."""
    node = unfold(node)
    # To set a seed after a state was loaded works where the state is of the time before a pass.
    afresh = node is None or (node.get("at") == "start" and not _joins_a_generation(node, set()))
    for part in walk(pipe):
        if isinstance(part, Seeded):
            part.forget_furthest()
    take_seeds(pipe, node or {}, behind_branches=True)
    begin_from(pipe, None if afresh and hasattr(pipe, "_take_node") else node)
    if not afresh and hasattr(pipe, "_resumes"):
        pipe._resumes = True


def begin_from(pipe: Any, node: Node | None) -> None:
    """Let the next pass over one of the sources of a pipe begin from a node, or afresh where there is none."""
    if hasattr(pipe, "_take_node"):
        pipe._take_node(node)
    elif node and "state" in node:
        pipe.load_state_dict(node["state"])
    elif node:
        take_seeds(pipe, node)


def is_branch(pipe: Any) -> bool:
    """Say whether a pipe is one of the branches of a source that they share; what it shares, others read too."""
    return hasattr(type(pipe), "node_to_join")


def begin_branches_anew(pipe: DataPipe) -> None:
    """Tell the branches that a pipe reads through that their passes are over, since it is to begin a new one."""
    for part in walk(pipe, stop=is_branch):
        if is_branch(part):
            part.begin_anew()


def node_before_pass(pipe: Any, known: dict[int, Node] | None = None, read: Collection[int] = ()) -> Node:
    """Return the node of a pipe whose next pass has not begun: only seeds are to be known of it and of its sources.

    `read` are the ids of the splitters of which the next pass over a branch begins another pass over their source.
    """
    known = {} if known is None else known  # what several pipes share is asked once
    if id(pipe) not in known:
        joins = is_branch(pipe) and id(pipe.source) not in read
        known[id(pipe)] = (joins and pipe.node_to_join()) or _node_before_new_pass(pipe, known, read)
    return known[id(pipe)]


def node_after_pass(pipe: Any) -> Node:
    """Return the node of a pipe whose pass has ended: its next one reads anew what it has read."""
    branches: list[Any] = [part for part in walk(pipe) if is_branch(part)]
    return node_before_pass(pipe, read={id(branch.source) for branch in branches if branch.has_read()})


def _node_before_new_pass(pipe: Any, known: dict[int, Node], read: Collection[int]) -> Node:
    if (again := _node_of_repeated_pass(pipe)) is not None:
        return again
    random = upcoming_seeds(pipe)
    node: Node = {"random": random} if random else {}
    if any(sources := [node_before_pass(source, known, read) for source in sources_of(pipe)]):
        node["sources"] = sources
    # Of a branch it must be told even where there are no seeds: it may belong to a pass that its siblings have begun.
    return {"at": "start", **node} if node or is_branch(pipe) else {}


def _node_of_repeated_pass(pipe: Any) -> Node | None:
    node: Node | None = pipe.node_of_repeated_pass() if hasattr(pipe, "node_of_repeated_pass") else None
    return node


def node_of_repetition(pipe: Any) -> Node | None:
    """Return, of the node of a chain before its next pass, only what is given again, whatever seeds the others get."""
    if (again := _node_of_repeated_pass(pipe)) is not None:
        return again
    sources = [node_of_repetition(source) or {} for source in sources_of(pipe)]
    return {"at": "start", "sources": sources} if any(sources) else None


def take_seeds(pipe: Any, node: Node, behind_branches: bool = False, done: set[tuple[int, int]] | None = None) -> None:
    """Give a pipe and its sources the seeds in a node.

    Only where a whole chain begins anew do those behind a branch get theirs: else, its siblings may be in a pass.
    """
    done = set() if done is None else done
    if (id(pipe), id(node)) in done:
        return
    done.add((id(pipe), id(node)))
    if "random" in node:
        set_seeds(pipe, node["random"])
    if node and hasattr(pipe, "seeds_taken"):
        pipe.seeds_taken()
    if behind_branches or not is_branch(pipe):
        for source, source_node in zip(sources_of(pipe), _seeds_of_sources(node), strict=False):
            take_seeds(source, source_node, behind_branches, done)


def with_present_seeds(node: Node, pipe: DataPipe) -> Node:
    """Return a pipe's node with its sources' seeds of now, where it tells where they stood before a pass of theirs.

    They go on from there only if they are read again. If not, as behind a pipe that has given all it is to give, the
    pass after this one would have the seeds of this one.
    """
    present = _present_seeds(pipe, {}).get("sources", [])
    if _same_passes({"sources": present}, {"sources": _seeds_of_sources(node)}, set()):
        return node
    return {**node, "seeds": present}


def _seeds_of_sources(node: Node) -> list[Node]:
    nodes: list[Node] = node["seeds"] if "seeds" in node else node.get("sources", [])
    return nodes


def _present_seeds(pipe: Any, known: dict[int, Node]) -> Node:
    if id(pipe) not in known:
        node = _node_of_repeated_pass(pipe)
        if node is None:
            node = {"random": pipe.furthest_state()} if isinstance(pipe, Seeded) else {}
            if any(sources := [_present_seeds(source, known) for source in sources_of(pipe)]):
                node["sources"] = sources
        known[id(pipe)] = node
    return known[id(pipe)]


def _same_passes(one: Node, other: Node, compared: set[tuple[int, int]]) -> bool:
    if (id(one), id(other)) in compared:
        return True
    compared.add((id(one), id(other)))
    if one.get("random", {}).get("passes") != other.get("random", {}).get("passes"):
        return False
    pairs = itertools.zip_longest(_seeds_of_sources(one), _seeds_of_sources(other), fillvalue=_NOTHING_KNOWN)
    return all(_same_passes(*pair, compared) for pair in pairs)


_NOTHING_KNOWN: Node = {}


def _joins_a_generation(node: Node, seen: set[int]) -> bool:
    """Say whether a branch in the node of a chain before its pass is to join a pass that its siblings have begun."""
    if id(node) in seen:
        return False
    seen.add(id(node))
    return "seeds" in node or any(_joins_a_generation(source, seen) for source in node.get("sources", []))


def chain_shape(pipe: DataPipe, depth: int = 0, seen: set[int] | None = None) -> list[str]:
    """Return the class names of a chain, one line for each pipe, what it reads below it; several sources are indented.

    What several pipes read from is written out once.
    """
    seen = set() if seen is None else seen
    name = "  " * depth + type(pipe).__name__
    sources = sources_of(pipe)
    if id(pipe) in seen and sources:
        return [f"{name}, the same"]
    seen.add(id(pipe))
    below = depth + (len(sources) > 1)  # a plain chain is a plain list, or its length would count twice
    return [name, *(line for source in sources for line in chain_shape(source, below, seen))]


def pack(pipe: DataPipe, node: Node | None) -> dict[str, Any]:
    """Return the public form of a node, with the version and the shape of the chain it belongs to."""
    return {"version": VERSION, "chain": chain_shape(pipe), "state": fold(node)}


def unpack(pipe: IterDataPipe[Any], state: dict[str, Any]) -> Node:
    """Return the node in a public state, or raise ValueError where it is of another version or another chain."""
    check_state(pipe, state)
    node: Node = unfold(state["state"])
    return node


def check_state(pipe: DataPipe, state: dict[str, Any], *entries: str) -> None:
    """Raise ValueError where a state is of another version or another chain than this one, and show the difference.

    `entries` are what it has besides those that `pack` returns.
    """
    if not isinstance(state, dict) or {"version", "chain", "state", *entries} != state.keys():
        of = "a loader" if entries else "a chain"
        raise ValueError(f"not a state of {of}: {state!r:.80}; give what state_dict() of {of} returned")
    if state["version"] != VERSION:
        raise ValueError(f"the state has version {state['version']}, and this penstock reads version {VERSION}")
    here = chain_shape(pipe)
    if here != list(state["chain"]):
        difference = "\n".join(difflib.ndiff(list(state["chain"]), here))
        raise ValueError(f"the state is of another chain (- the state's, + this chain's):\n{difference}")
