"""A node: the position of one step and its sources in a pass."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict


class ReadFrom(NamedTuple):
    """The position in a source that is read with numbers."""

    at: int = 0
    """The number of the first item after the node of the source."""
    oldest: int = 0
    """The number of the oldest item that is still needed."""
    pulled: int = 0
    """The number of the next item to pull."""


class Node(TypedDict, total=False):
    """The position of a step in a pass; None stands for a pass that has not begun. In states, it is a step."""

    own: dict[str, Any]
    """The attributes that the operator declares with `own`, after its last item or at an earlier snapshot."""
    skip: int
    """The number of items emitted since that snapshot, which are made again and discarded."""
    sources: list[Any]
    """For each source, its node, or None; in states, the number of its step."""
    read: list[Any]
    """For each source that is read with numbers, its `ReadFrom`; else None."""
    passes: list[int]
    """For each source, the number of passes begun over it, if other keys do not imply it."""
    at: str
    """"end" if the pass has ended."""
    skipped: int
    """The number of failed items left out."""
    inner: int
    """The number of inner chains begun, by which they are seeded."""
    last_given: int
    """A check value of the last item of a step without sources, which shows another order."""
    seeds: list[Any]
    """The seeds of this pass over a source of another library."""
    state: Any
    """The result of `state_dict` of a source of another library."""


KEYS_OF_A_NODE = frozenset(Node.__annotations__)
