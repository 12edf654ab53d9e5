"""The layout of a picture: rows of boxes from the sources down, side by side where the chain branches.

Each box lies just above the first box that reads it. An edge that passes rows has a place in each of them, so it
crosses no box. A high picture is cut into columns where one edge alone connects the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Box", "Edge", "Layout", "lay_out", "set_rows"]

_BETWEEN = 18.0
"""The least space between two boxes of a row."""
_GUTTER = 34.0
"""The space between two columns, where the edge that connects them runs."""
_BEND = 16.0
"""The extra space between two rows if an edge bends there."""
_HIGHEST, _COLUMN_HEIGHT, _MOST_COLUMNS = 1100.0, 850.0, 3
"""A picture may be as high as the first; a higher one gets columns of about the second."""
_SWEEPS = 4


@dataclass
class Box:
    """A rectangle to place; `x` is its middle, `y` its upper edge. `sources` are places in the list of boxes."""

    width: float
    height: float
    sources: Sequence[int] = ()
    space_above: float = 0
    x: float = 0
    y: float = 0
    row: int = 0


@dataclass
class Edge:
    """A line from a source to its reader, as the points between which it bends."""

    source: int
    reader: int
    points: list[tuple[float, float]] = field(default_factory=list)
    changes_column: bool = False


@dataclass
class Layout:
    """The edges between the placed boxes, and the size of the whole."""

    edges: list[Edge]
    width: float
    height: float
    columns: list[tuple[int, int]]
    """The first row of each column, and the row after its last."""


def lay_out(boxes: list[Box], gap: float) -> Layout:
    """Place boxes, which are listed sources first, with a vertical `gap` between rows."""
    set_rows(boxes)
    rows, edges = _rows_of(boxes)
    _set_middles(rows, _neighbours(rows, edges))
    below = _spaces_below(rows, edges, gap)
    columns = _columns(rows, edges, below)
    width, height = _set_places(rows, columns, below)
    return Layout([_drawn(places, boxes, rows, columns) for places in edges], width, height, columns)


@dataclass
class _Place:
    """A place in a row: of a box, or of an edge that passes."""

    row: int
    box: Box | None
    number: int
    x: float = 0

    @property
    def width(self) -> float:
        return 10.0 if self.box is None else self.box.width

    @property
    def height(self) -> float:
        return 0.0 if self.box is None else self.box.height


def set_rows(boxes: list[Box]) -> None:
    """Set the rows of boxes, which are listed sources first."""
    below = [0] * len(boxes)  # the rows below each box
    for number, box in reversed([*enumerate(boxes)]):
        for source in box.sources:
            below[source] = max(below[source], below[number] + 1)
    for number in _unread(boxes):
        below[number] = min((below[source] - 1 for source in boxes[number].sources), default=0)
    deepest = max(below)
    for number, box in enumerate(boxes):
        box.row = deepest - below[number]


def _unread(boxes: list[Box]) -> list[int]:
    """Return the boxes that nothing reads, but the last: branches, which end just below their source."""
    read = {source for box in boxes for source in box.sources}
    return [number for number in range(len(boxes) - 1) if number not in read]


def _rows_of(boxes: list[Box]) -> tuple[list[list[_Place]], list[list[_Place]]]:
    """Return the places in each row from left to right, and the places of each edge from its source to its reader."""
    rows: list[list[_Place]] = [[] for _ in range(max(box.row for box in boxes) + 1)]
    place_of: dict[int, _Place] = {}
    edges: list[list[_Place]] = []

    def add(row: int, number: int, box: Box | None) -> _Place:
        place = _Place(row, box, number)
        rows[row].append(place)
        return place

    dangling: dict[int, list[int]] = {}
    for number in _unread(boxes):
        for source in boxes[number].sources:
            dangling.setdefault(source, []).append(number)
    waiting: list[tuple[_Place | None, int]] = [(None, len(boxes) - 1)]
    while waiting:
        reader, number = waiting.pop()
        passed = []
        if reader is not None:
            passed = [add(row, number, None) for row in range(reader.row - 1, boxes[number].row, -1)]
        place = place_of.get(number)
        if place is None:
            place = place_of[number] = add(boxes[number].row, number, boxes[number])
            waiting.extend((place, source) for source in reversed(boxes[number].sources))
            for end in dangling.get(number, ()):
                edges.append([place, add(boxes[end].row, end, boxes[end])])
        if reader is not None:
            edges.append([place, *reversed(passed), reader])
    return rows, edges


def _neighbours(rows: list[list[_Place]], edges: list[list[_Place]]) -> dict[int, tuple[list[_Place], list[_Place]]]:
    """Return the places above and below that each place, by its id, is connected with."""
    found: dict[int, tuple[list[_Place], list[_Place]]] = {id(place): ([], []) for row in rows for place in row}
    for places in edges:
        for upper, lower in pairwise(places):
            found[id(lower)][0].append(upper)
            found[id(upper)][1].append(lower)
    return found


def _set_middles(rows: list[list[_Place]], neighbours: dict[int, tuple[list[_Place], list[_Place]]]) -> None:
    """Put each place below or above the middle of what it is connected with."""
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS + 1):
        upwards = sweep % 2 == 0
        for row in reversed(rows) if upwards else rows:
            wanted = []
            for place in row:
                near = neighbours[id(place)][1 if upwards else 0]
                wanted.append(sum(other.x for other in near) / len(near) if near else place.x)
            _spread(row, wanted)


def _spread(row: list[_Place], wanted: list[float]) -> None:
    """Set the middles of a row as near to the wanted ones as order and space allow (pooled adjacent violators)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + _BETWEEN)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        total, count = want - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            earlier, members = pools.pop()
            total, count = total + earlier, count + members
        pools.append((total, count))
    middles = [total / count for total, count in pools for _ in range(count)]
    for place, middle, offset in zip(row, middles, offsets, strict=False):
        place.x = middle + offset


def _spaces_below(rows: list[list[_Place]], edges: list[list[_Place]], gap: float) -> list[float]:
    spaces = [gap] * len(rows)
    for places in edges:
        for upper, lower in pairwise(places):
            if abs(upper.x - lower.x) > 1:
                spaces[upper.row] = gap + _BEND
    return spaces


def _columns(rows: list[list[_Place]], edges: list[list[_Place]], below: list[float]) -> list[tuple[int, int]]:
    heights = [_space_above(row) + _height(row) + space for row, space in zip(rows, below, strict=True)]
    number = min(_MOST_COLUMNS, round(sum(heights) / _COLUMN_HEIGHT)) if sum(heights) > _HIGHEST else 1
    crossing = [0] * len(rows)  # the number of edges that leave each row downwards
    for places in edges:
        for upper, _ in pairwise(places):
            crossing[upper.row] += 1
    column, begins = 0.0, 0
    columns: list[tuple[int, int]] = []
    for row, height in enumerate(heights[:-1]):
        column += height
        if column >= 0.95 * sum(heights) / number and crossing[row] == 1 and len(columns) + 1 < number:
            columns.append((begins, row + 1))
            column, begins = 0.0, row + 1
    return [*columns, (begins, len(rows))]


def _height(row: list[_Place]) -> float:
    return max(place.height for place in row)


def _space_above(row: list[_Place]) -> float:
    return max((place.box.space_above for place in row if place.box is not None), default=0)


def _set_places(rows: list[list[_Place]], columns: list[tuple[int, int]], below: list[float]) -> tuple[float, float]:
    """Move each column to its place, set the vertical places, and return the size of the whole."""
    left, lowest = 0.0, 0.0
    for first, end in columns:
        members = [place for row in rows[first:end] for place in row]
        leftmost = min(place.x - place.width / 2 for place in members)
        for place in members:
            place.x += left - leftmost
        y = 0.0
        for row, space in zip(rows[first:end], below[first:end], strict=True):
            y += _space_above(row)
            height = _height(row)
            for place in row:
                if place.box is not None:
                    place.box.x, place.box.y = place.x, y + (height - place.box.height) / 2
            lowest = max(lowest, y + height)
            y += height + space
        left = max(place.x + place.width / 2 for place in members) + _GUTTER
    return left - _GUTTER, lowest


def _drawn(places: list[_Place], boxes: list[Box], rows: list[list[_Place]], columns: list[tuple[int, int]]) -> Edge:
    source, reader = places[0], places[-1]
    edge = Edge(source.number, reader.number)
    assert source.box is not None
    assert reader.box is not None
    edge.points.append((source.box.x, source.box.y + source.box.height))
    for passed in places[1:-1]:
        beside = [place.box for place in rows[passed.row] if place.box is not None]
        edge.points.append((passed.x, min(box.y for box in beside)))
        edge.points.append((passed.x, max(box.y + box.height for box in beside)))
    edge.points.append((reader.box.x, reader.box.y))
    edge.changes_column = any(source.row < first <= reader.row for first, _ in columns[1:])
    return edge
