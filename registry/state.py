"""The state of a chain: taking it between two items, and going on from it.

A node describes one pipe and nests the nodes of its sources. What it holds depends on where the pipe is:

- before a pass: nothing, or the seeds of the coming pass, `at` the start
- in a pass, operator without hidden items: its own small state and where its sources stand
- in a pass, operator that holds items: where its sources stood at its last mark, and how many items of its own
  it has handed out since; resuming runs it again from there and drops those
- after a pass: that it stands `at` the end, and the seeds of the coming pass
"""

from __future__ import annotations

import difflib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .graph import DataPipe, sources_of
from .seeds import Seeded, set_seeds, upcoming_seeds
from .torch_pipes import TorchMapDataPipe

if TYPE_CHECKING:
    from .base import IterDataPipe

__all__ = ["SNAPSHOT_SHARE", "Node", "Pace", "Tally", "Trail", "can_capture", "capture", "chain_shape", "hand_down"]

T = TypeVar("T")
Node = dict[str, Any]

VERSION = 1
SNAPSHOT_SHARE = 0.02
"""The share of the running time that taking snapshots of sources may cost."""


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


class Pace:
    """Say when the next snapshot of a source is due: as often as costs at most `SNAPSHOT_SHARE` of the time."""

    def __init__(self, at_least: int = 1) -> None:
        self._at_least = at_least
        self._step = self._wait = at_least
        self._since = time.perf_counter()

    def due(self) -> bool:
        """Count one item, and say whether a snapshot should be taken now."""
        self._wait -= 1
        return self._wait <= 0

    def taken(self, started: float) -> None:
        """Learn that a snapshot was taken, from `started` (of `time.perf_counter`) until now."""
        now = time.perf_counter()
        seconds_per_item = (started - self._since) / self._step
        affordable = int((now - started) / SNAPSHOT_SHARE / max(seconds_per_item, 1e-9))
        # Growing by doubling at most keeps the distance short when the first items were the quick ones.
        self._step = self._wait = max(self._at_least, min(affordable, 2 * self._step), 1)
        self._since = now


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
        self.pulled = 0

    def __iter__(self) -> Iterator[T]:
        for item in self._source:
            self.pulled += 1
            yield item
            if self._pace is not None and self._pace.due():
                started = time.perf_counter()
                self._snapshots = [*self._needed(self._oldest()), (self.pulled, capture(self._source))]
                self._pace.taken(started)

    def way_back(self) -> tuple[Node, int]:
        """Return a state of the source, and how many items after it the oldest one needed comes."""
        oldest = self._oldest()
        at, node = self._needed(oldest)[0]
        return node, oldest - at

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
    """Let a pipe's next pass begin from a node, or afresh where there is none."""
    if hasattr(pipe, "_take_node"):
        pipe._take_node(node)
    elif node and "state" in node:
        pipe.load_state_dict(node["state"])
    elif node:
        take_seeds(pipe, node)


def node_before_pass(pipe: Any) -> Node:
    """Return the node of a pipe whose next pass has not begun: only seeds are to be known of it and of its sources."""
    random = upcoming_seeds(pipe)
    node: Node = {"random": random} if random else {}
    if any(sources := [node_before_pass(source) for source in sources_of(pipe)]):
        node["sources"] = sources
    return {"at": "start", **node} if node else {}


def take_seeds(pipe: Any, node: Node) -> None:
    """Give a pipe and its sources the seeds in a node."""
    if "random" in node:
        set_seeds(pipe, node["random"])
    for source, source_node in zip(sources_of(pipe), _seeds_of_sources(node), strict=False):
        take_seeds(source, source_node)


def with_present_seeds(node: Node, sources: list[DataPipe]) -> Node:
    """Return a node with the seeds that its sources have now, where it tells where they stood before a pass of theirs.

    They go on from there only if they are read again. If not, as behind a pipe that has given all it is to give, the
    pass after this one would have the seeds of this one.
    """
    present = [_present_seeds(source) for source in sources]
    if _passes_in({"sources": present}) == _passes_in({"sources": _seeds_of_sources(node)}):
        return node
    return {**node, "seeds": present}


def _seeds_of_sources(node: Node) -> list[Node]:
    nodes: list[Node] = node["seeds"] if "seeds" in node else node.get("sources", [])
    return nodes


def _present_seeds(pipe: Any) -> Node:
    node: Node = {"random": pipe.random_state()} if isinstance(pipe, Seeded) else {}
    if any(sources := [_present_seeds(source) for source in sources_of(pipe)]):
        node["sources"] = sources
    return node


def _passes_in(node: Node) -> list[int]:
    passes = [node["random"]["passes"]] if "passes" in node.get("random", {}) else []
    return passes + [number for source in _seeds_of_sources(node) for number in _passes_in(source)]


def chain_shape(pipe: DataPipe, depth: int = 0) -> list[str]:
    """Return the class names of a chain, one line for each pipe, sources indented below the pipe that reads them."""
    lines = ["  " * depth + type(pipe).__name__]
    for source in sources_of(pipe):
        lines += chain_shape(source, depth + 1)
    return lines


def pack(pipe: DataPipe, node: Node | None) -> dict[str, Any]:
    """Return the public form of a node, with the version and the shape of the chain it belongs to."""
    return {"version": VERSION, "chain": chain_shape(pipe), "state": node}


def unpack(pipe: IterDataPipe[Any], state: dict[str, Any]) -> Node:
    """Return the node in a public state, or raise ValueError where it is of another version or another chain."""
    check_state(pipe, state)
    node: Node = state["state"]
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
