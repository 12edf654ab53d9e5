"""States in which what stands in several places is written once."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["fold", "unfold"]

Node = dict[str, Any]

_SHARED = "$shared"


def fold(node: Node | None) -> Node | None:
    """Return a node in which every dict that stands in several places is written once, in a list; see `unfold`."""
    times: Counter[int] = Counter()
    _count(node, times)
    if not any(number > 1 for number in times.values()):
        return node
    shared: list[Any] = []
    numbers: dict[int, int] = {}

    def folded(value: Any) -> Any:
        if isinstance(value, list):
            return [folded(part) for part in value]
        if not isinstance(value, dict):
            return value
        if times[id(value)] < 2:
            return {key: folded(part) for key, part in value.items()}
        if id(value) not in numbers:
            shared.append({key: folded(part) for key, part in value.items()})  # after those that it holds itself
            numbers[id(value)] = len(shared) - 1
        return {_SHARED: numbers[id(value)]}

    return {"node": folded(node), _SHARED: shared}


def unfold(node: Node | None) -> Any:
    """Return the node that `fold` wrote."""
    if not node or not isinstance(node.get(_SHARED), list):
        return node
    shared: list[Any] = []

    def unfolded(value: Any) -> Any:
        if isinstance(value, list):
            return [unfolded(part) for part in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {_SHARED}:
            return shared[value[_SHARED]]
        return {key: unfolded(part) for key, part in value.items()}

    shared.extend(map(unfolded, node[_SHARED]))
    return unfolded(node["node"])


def _count(value: Any, times: Counter[int]) -> None:
    if isinstance(value, list):
        for part in value:
            _count(part, times)
    elif isinstance(value, dict) and value:
        times[id(value)] += 1
        if times[id(value)] == 1:
            for part in value.values():
                _count(part, times)
