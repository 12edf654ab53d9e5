"""Sources as a pass reads them: pipes of ours, and those of other libraries.

No other file knows how pipes of other libraries are begun, seeded and saved. Map-style pipes are read by index, and
need no state.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from .foreign import OurPipe, TorchMapDataPipe, declares
from .graph import DataPipe, walk
from .node import Node, ReadFrom
from .replay import ReplayLog, SavedNodes
from .seeds import PassPath, derive_seed, seed_foreign


class SourceLink:
    """A source as one pass reads it: the passes over the source are parts of that pass."""

    __slots__ = (
        "can_save",
        "depth",
        "is_foreign",
        "is_read",
        "log",
        "logged_pass",
        "node",
        "outer",
        "passes_begun",
        "path",
        "replay",
        "resumed",
        "source",
    )

    def __init__(self, pipe: Any, path: PassPath, depth: int = 0, begun: int = 0, resumed: bool = False) -> None:
        source = pipe if isinstance(pipe, OurPipe) else ForeignSource(pipe)
        self.is_foreign = source is not pipe
        self.source: Callable[[], Any] = weakref.ref(source) if isinstance(source, OurPipe) else lambda: source
        """Returns the source: a pipe of ours, which refers to this record, or the adapter to another."""
        self.can_save = source._can_save_node
        """Whether a pass over the source can be resumed; else it is read again from the start."""
        self.path = path
        """The path of the reading pass."""
        self.depth = depth
        """The number of steps from the reader to the end of the chain."""
        self.passes_begun = begun
        """The number of passes over the source that have begun."""
        self.resumed = resumed
        """Whether the next pass over the source is part of a resumed pass."""
        self.node: Node | None = None
        """The node from which the next pass over the source resumes."""
        self.replay: tuple[Node | None, ReadFrom] | None = None
        """The node and the numbers from which a resumed pass reads the source with numbers."""
        self.log: ReplayLog | None = None
        """The snapshots of the source, where it is read with numbers."""
        self.logged_pass = 0
        """The number of passes over the source up to the one that is read with numbers."""
        self.is_read = False
        """Whether the pass of a reader may still fail with an item of the source."""
        self.outer: SourceLink | None = None
        """The record of another reader of the source, whose pass outlasts the pass of this reader."""

    def next_path(self) -> PassPath:
        """Return the path of the next pass over the source."""
        epoch, again, before = self.path
        times = self.passes_begun
        return PassPath(epoch, derive_seed(again, self.depth, times), before + times) if times else self.path

    def begin_at(self, node: Node | None) -> None:
        """Let the next pass over the source begin from a node, or afresh."""
        self.source()._attach_reader(self, node)

    def close(self) -> None:
        """Release the source to other readers."""
        self.is_read = False
        if (source := self.source()) is not None:
            source._detach_reader(self)


class ForeignSource:
    """A pipe of another library, or a map-style one, as a pass reads it.

    Pipes of ours behind it are read as parts of the same pass.
    """

    def __init__(self, pipe: Any) -> None:
        self.pipe = pipe
        self._inner: list[tuple[OurPipe, SourceLink]] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.pipe)

    @cached_property
    def _parts(self) -> list[Any]:
        return [*walk(self.pipe, stop=lambda part: isinstance(part, OurPipe))]

    @cached_property
    def _is_map_style(self) -> bool:
        return isinstance(self.pipe, TorchMapDataPipe)

    @property
    def _can_save_node(self) -> bool:
        """Whether a pass over it can be resumed; torch's own iterable pipes are read again from the start."""
        return self._is_map_style or declares(self.pipe, "state_dict")

    def _attach_reader(self, link: SourceLink, node: Node | None) -> None:
        """Let the next pass begin from a node, or afresh."""
        self._detach_reader(link)
        if not self._is_map_style:
            seeds = iter((node or {}).get("seeds", ()))
            for part in self._parts:
                if isinstance(part, OurPipe):
                    inner = SourceLink(part, link.path, link.depth, link.passes_begun, link.resumed)
                    self._inner.append((part, inner))
                    part._attach_reader(inner, None)
                elif declares(part, "set_seed"):
                    seed_foreign(part, link.next_path(), next(seeds, None))
            if node and "state" in node:
                self.pipe.load_state_dict(node["state"])
        for part in self._parts:
            if declares(part, "_pass_begins"):
                part._pass_begins()  # after all seeds are set

    def _detach_reader(self, link: SourceLink) -> None:
        """Release the pipes of ours behind it."""
        for part, inner in self._inner:
            part._detach_reader(inner)
        self._inner.clear()

    def _save_node(self, saved: SavedNodes) -> Node | None:
        """Return its node."""
        return {"state": self.pipe.state_dict()} if not self._is_map_style and self._can_save_node else None

    def _foreign_seeds(self) -> Node | None:
        """Return a node with the seeds of the present pass, or None."""
        if self._is_map_style:
            return None
        seeds = [
            vars(part).get("_seed")
            for part in self._parts
            if not isinstance(part, OurPipe) and declares(part, "set_seed")
        ]
        return {"seeds": seeds} if seeds else None


def source_of(pipe: DataPipe) -> OurPipe | ForeignSource:
    """Return a source as passes read it: itself, or an adapter to what is not ours."""
    return pipe if isinstance(pipe, OurPipe) else ForeignSource(pipe)


def capture(pipe: DataPipe) -> Node | None:
    """Return where a pipe is now."""
    return SavedNodes().node_of(source_of(pipe))


def can_capture(pipe: DataPipe) -> bool:
    """Say whether a pass over a pipe can be resumed; torch's own iterable pipes are read again from the start."""
    return source_of(pipe)._can_save_node
