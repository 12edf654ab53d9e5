"""The layout of a picture: rows of boxes from the sources down, side by side where the chain branches.

Each box lies just above the first box that reads it. A line that passes rows has a place in each of them, and lines
bend between rows only, so none crosses a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_BETWEEN = 18.0
"""The least space between two boxes of a row."""
_SWEEPS = 4
_PASSING = 10.0
"""The width of the place of a line that passes a row."""

Point = tuple[float, float]


@dataclass
class Box:
    """A rectangle to place, or a line that passes a row; `x` is its middle, `y` its upper edge."""

    width: float
    height: float
    x: float = 0
    y: float = 0


@dataclass
class Layout:
    """The lines between placed boxes, and the size of the whole."""

    lines: dict[tuple[int, int], list[Point]]
    """By a source and its reader: the points where a line bends, row by row."""
    width: float
    height: float


def row_numbers(sources: Sequence[Sequence[int]]) -> list[int]:
    """Return the rows of boxes, which are listed sources first and all lead to the last; each has its `sources`."""
    below = [0] * len(sources)  # the rows below each box
    for reader in reversed(range(len(sources))):
        for source in sources[reader]:
            below[source] = max(below[source], below[reader] + 1)
    return [max(below) - rows for rows in below]


def lay_out(boxes: list[Box], sources: Sequence[Sequence[int]], gap: float) -> Layout:
    """Place boxes, which are listed sources first and all lead to the last, with a vertical `gap` between rows."""
    rows, paths = _ordered(boxes, sources)
    _set_middles(rows, list(paths.values()))
    members = [box for row in rows for box in row]
    left = min(box.x - box.width / 2 for box in members)
    edges: dict[int, tuple[float, float]] = {}  # the upper and the lower edge of the row, by the id of a box in it
    top = 0.0
    for row in rows:
        height = max(box.height for box in row)
        for box in row:
            box.x, box.y = box.x - left, top + (height - box.height) / 2
            edges[id(box)] = top, top + height
        top += height + gap
    lines = {ends: [(box.x, y) for box in path for y in edges[id(box)]] for ends, path in paths.items()}
    for (source, reader), points in lines.items():
        points[0] = boxes[source].x, boxes[source].y + boxes[source].height
        points[-1] = boxes[reader].x, boxes[reader].y
    return Layout(lines, max(box.x + box.width / 2 for box in members), top - gap)


def _ordered(
    boxes: list[Box], sources: Sequence[Sequence[int]]
) -> tuple[list[list[Box]], dict[tuple[int, int], list[Box]]]:
    """Return the boxes of each row from left to right, and those on the way of each line, by its source and reader."""
    row_of = row_numbers(sources)
    rows: list[list[Box]] = [[] for _ in range(max(row_of) + 1)]
    paths: dict[tuple[int, int], list[Box]] = {}
    seen: set[int] = set()
    last = len(boxes) - 1
    waiting = [(last, last)]
    while waiting:
        reader, source = waiting.pop()
        passed = [Box(_PASSING, 0) for _ in range(row_of[source] + 1, row_of[reader])]
        for row, box in zip(rows[row_of[source] + 1 :], passed, strict=False):
            row.append(box)
        if source != reader:
            paths[source, reader] = [boxes[source], *passed, boxes[reader]]
        if source not in seen:
            seen.add(source)
            rows[row_of[source]].append(boxes[source])
            waiting.extend((source, each) for each in reversed(sources[source]))
    return rows, paths


def _set_middles(rows: list[list[Box]], paths: list[list[Box]]) -> None:
    """Put each box below or above the middle of what it is connected with."""
    above: dict[int, list[Box]] = {id(box): [] for row in rows for box in row}
    below: dict[int, list[Box]] = {id(box): [] for row in rows for box in row}
    for upper, lower in (pair for path in paths for pair in pairwise(path)):
        above[id(lower)].append(upper)
        below[id(upper)].append(lower)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS + 1):
        upwards = sweep % 2 == 0
        for row in reversed(rows) if upwards else rows:
            near = [(below if upwards else above)[id(box)] or [box] for box in row]
            _spread(row, [sum(other.x for other in others) / len(others) for others in near])


def _spread(row: list[Box], wanted: list[float]) -> None:
    """Set the middles of a row as near to the wanted ones as order and space allow (pooled adjacent violators)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + _BETWEEN)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            earlier, members = pools.pop()
            total, count = total + earlier, count + members
        pools.append((total, count))
    middles = [total / count for total, count in pools for _ in range(count)]
    for box, middle, offset in zip(row, middles, offsets, strict=True):
        box.x = middle + offset
