"""A picture of a chain as SVG, without scripts, and without fonts or images from elsewhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle

from ..text import cut, escaped, length
from .layout import Box, Edge, lay_out, set_rows
from .nodes import DIVIDES, PictureNode
from .palette import paint, rules

__all__ = ["svg_of"]

_LEAST_BAR = 0.02
"""A smaller share would show beside the round corner."""
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
_NAME, _CODE, _SMALL = 7.9, 6.7, 5.7
"""The widths of a character: of a name in 13 px, of arguments in 11 px, of marks in 10 px."""
_MARGIN, _GAP, _BELOW_LAST = 22.0, 24.0, 34.0
_LEFT, _RIGHT, _TOP, _LINE, _MARK_LINE = 13.0, 8.0, 5.0, 15.0, 18.0
_BETWEEN_MARKS = 4.0
_ZONE_TITLE, _ZONE_SIDE = 26.0, 9.0
_NARROWEST = 140.0
_WIDEST = (330.0, 270.0, 230.0, 190.0, 150.0)
"""The width that a node may have if it is alone in its row, if there are two, and so on."""
_STRANDS = (-4.0, 0.0, 4.0)
"""Three lines side by side show a stream that is divided among shards."""
_AROUND = [(1, 0), (1, -1), (-1, -1), (-1, -1), (1, -1), (1, 0)]
"""To which side the strands lie, where a line runs down, to the right, up, to the right and down."""
_STRAIGHT = 14
"""The length that a line runs down before it bends: the item type is written beside it."""


def svg_of(nodes: Sequence[PictureNode], workers: str | None = None) -> str:
    """Return the picture of nodes. `workers` names the place of those that the main process does not run."""
    return _Drawing(nodes, workers).svg()


class _Drawing:
    def __init__(self, nodes: Sequence[PictureNode], workers: str | None) -> None:
        self.nodes = nodes
        widths = _widths(nodes)
        self.lines = [_lines_of(node, width) for node, width in zip(nodes, widths, strict=True)]
        self.boxes = [
            Box(width, _height(node, lines), node.sources)
            for node, lines, width in zip(nodes, self.lines, widths, strict=True)
        ]
        self.zones = _zones(nodes, workers)
        self.readers: dict[int, list[int]] = {}
        for reader, node in enumerate(nodes):
            for source in node.sources:
                self.readers.setdefault(source, []).append(reader)
        for _, members in self.zones:
            for place in members:
                if members.isdisjoint(nodes[place].sources):
                    self.boxes[place].space_above = _ZONE_TITLE
        self.layout = lay_out(self.boxes, _GAP)

    def svg(self) -> str:
        width = self.layout.width + 2 * _MARGIN
        height = self.layout.height + _BELOW_LAST + 2 * _MARGIN
        body = "".join(self._body(width, height))
        name = f"penstock-{hashlib.sha256(body.encode()).hexdigest()[:8]}"
        label = escaped(f"A chain of {len(self.nodes)} steps, from {self.nodes[0].name} to {self.nodes[-1].name}")
        style = (
            f".{name} text{{font-family:{_SANS};white-space:pre;direction:ltr;unicode-bidi:isolate}}"
            f".{name} .code{{font-family:{_MONO}}}{rules(f'.{name}')}"
        )
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        scaled = f"min-width:{0.6 * width:.0f}px;max-width:100%;height:auto"  # smaller text would be hard to read
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" aria-label="{label}" {size} '
            f'style="{scaled}" font-family="{_SANS}"><style>{style}</style>\n{body}</svg>\n'
        )

    def _body(self, width: float, height: float) -> Iterator[str]:
        yield f'<rect {paint("canvas")} width="{width:.0f}" height="{height:.0f}" rx="8"/>\n'
        yield f'<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">\n'
        for title, members in self.zones:
            yield from self._zone(title, members)
        for edge in self.layout.edges:
            yield from self._edge(edge)
        last = self.boxes[-1]
        below = last.y + last.height
        yield from _line([(last.x, below), (last.x, below + _BELOW_LAST)], self.nodes[-1].is_divided)
        for place, node in enumerate(self.nodes):
            yield from self._node(node, self.boxes[place], self.lines[place])
            yield from self._item(place)
        yield "</g>\n"

    def _zone(self, title: str, members: set[int]) -> Iterator[str]:
        for first, end in self.layout.columns:
            boxes = [self.boxes[place] for place in members if first <= self.boxes[place].row < end]
            if not boxes:
                continue
            left = min(box.x - box.width / 2 for box in boxes) - _ZONE_SIDE
            right = max(box.x + box.width / 2 for box in boxes) + _ZONE_SIDE
            begins = any(box.space_above for box in boxes)
            top = min(box.y for box in boxes) - (_ZONE_TITLE - 4 if begins else 8)
            bottom = max(box.y + box.height for box in boxes) + 8
            yield (
                f'<rect {paint("zone", "zone-edge")} x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{bottom - top:.1f}" rx="9" stroke-dasharray="4 3"/>\n'
            )
            if begins:
                yield _text(left + 9, top + 14, title, "on-zone", 10.5, weight=600)

    def _edge(self, edge: Edge) -> Iterator[str]:
        divided = self.nodes[edge.source].is_divided
        (x, y), (to_x, to_y) = edge.points[0], edge.points[-1]
        if edge.changes_column:
            row = self.boxes[edge.reader].row
            first, end = next(column for column in self.layout.columns if column[0] <= row < column[1])
            left = min(box.x - box.width / 2 for box in self.boxes if first <= box.row < end) - 17
            low, high = y + 24, to_y - self.boxes[edge.reader].space_above - 15
            around = [(x, y), (x, low), (left, low), (left, high), (to_x, high), (to_x, to_y)]
            yield from _line(around, divided, sides=_AROUND)
            return
        yield from _line(edge.points, divided, curved=True)
        if edge.source in self.nodes[edge.reader].reads_twice:
            yield _text(to_x + 9, to_y - 9, "read twice", "faint", 10)

    def _item(self, place: int) -> Iterator[str]:
        """Yield the item type below a node, if it differs from its sources' and at most one line leaves the node."""
        node, box = self.nodes[place], self.boxes[place]
        readers = self.readers.get(place, [])
        is_news = not readers or all(self.nodes[source].item != node.item for source in node.sources)
        if node.item and is_news and len(readers) <= 1:
            leaves_zone = any(place in members and members.isdisjoint(readers) for _, members in self.zones)
            y = box.y + box.height + (22 if leaves_zone else 15)
            yield _text(box.x + 9, y, cut(node.item, (box.width / 2 + 4) / _SMALL), "faint", 10, title=node.item)

    def _node(self, node: PictureNode, box: Box, lines: list[list[str]]) -> Iterator[str]:
        left, right = box.x - box.width / 2, box.x + box.width / 2
        size = f'x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        yield f"<g><title>{escaped(node.text)}</title>"
        if _is_small(node):
            dashes = ' stroke-dasharray="3 3"' if node.kind == "unread" else ""
            yield f'<rect {paint("box", "outline")} {size} rx="9"{dashes}/>'
            yield _text(box.x, box.y + 12.5, node.name, "faint" if dashes else "plain", 10, anchor="middle")
            yield "</g>\n"
            return
        corner = 2 if node.kind == "map-style" else 7
        dashes = ' stroke-dasharray="3 3"' if node.kind == "omitted" else ""
        yield f'<rect {paint("box")} {size} rx="{corner}"/>'
        if node.share is not None and node.share[0] >= _LEAST_BAR:
            part = min(max(node.share[0], 0.0), 1.0) * box.width
            yield (
                f'<rect {paint("share")} x="{left:.1f}" y="{box.y:.1f}" width="{part:.1f}" '
                f'height="{box.height:.1f}" rx="{min(corner, part / 2):.1f}"/>'
            )
        yield f'<rect {paint("outline")} fill="none" {size} rx="{corner}"{dashes}/>'
        if node.kind in ("iterable", "map-style"):
            yield (
                f'<rect {paint(node.kind)} x="{left + 4:.1f}" y="{box.y + 5:.1f}" width="3" '
                f'height="{box.height - 10:.1f}" rx="1.5"/>'
            )
        y = box.y + _TOP + 12
        room = box.width - _LEFT - _RIGHT
        marks = _width_of_marks(lines[0])
        yield _text(left + _LEFT, y, cut(node.name, (room - marks) / _NAME), "name", 13, code=True, weight=600)
        yield from _marks(lines[0], right - _RIGHT - marks + _BETWEEN_MARKS, y)
        if _has_second_line(node):
            y += _LINE
            label = "" if node.share is None else node.share[1]
            left_over = room - (length(label) + 2) * _SMALL if label else room
            yield _text(left + _LEFT, y, cut(node.arguments, left_over / _CODE), "plain", 11, code=True)
            if label:
                yield _text(right - _RIGHT, y, label, "plain", 10, anchor="end", weight=600)
        for line in node.lines:
            y += _LINE
            yield _text(left + _LEFT, y, cut(line, room / _CODE), "plain", 11, code=True, title=line)
        for marked in lines[1:]:
            y += _MARK_LINE
            yield from _marks(marked, left + _LEFT, y)
        yield "</g>\n"


def _zones(nodes: Sequence[PictureNode], workers: str | None) -> list[tuple[str, set[int]]]:
    """Return the places that run nodes, each with the numbers of its nodes; none if they are unknown."""
    here = {place for place, node in enumerate(nodes) if node.in_main_process}
    there = {*range(len(nodes))} - here if workers else set()
    zones = [(workers or "", there), ("in the main process", here)]
    return [(title, members) for title, members in zones if members]


def _widths(nodes: Sequence[PictureNode]) -> list[float]:
    """Return the widths of nodes: the same along an unbranched part, and where as many lie side by side."""
    boxes = [Box(0, 0, node.sources) for node in nodes]
    set_rows(boxes)
    in_row = Counter(box.row for box, node in zip(boxes, nodes, strict=True) if not _is_small(node))
    readers = Counter(source for node in nodes for source in node.sources)
    parts: list[int] = []  # the first node of the unbranched part that a node is in
    beside: Counter[int] = Counter()
    for place, (node, box) in enumerate(zip(nodes, boxes, strict=True)):
        goes_on = len(node.sources) == 1 and readers[node.sources[0]] == 1
        parts.append(parts[node.sources[0]] if goes_on else place)
        beside[parts[place]] = max(beside[parts[place]], min(in_row[box.row], len(_WIDEST)))
    wanted: dict[int, float] = {}
    for node, part in zip(nodes, parts, strict=True):
        if not _is_small(node):
            most = _WIDEST[beside[part] - 1]
            wanted[beside[part]] = min(max(wanted.get(beside[part], _NARROWEST), _wanted_width(node)), most)
    return [
        length(node.name) * _SMALL + 16 if _is_small(node) else wanted[beside[part]]
        for node, part in zip(nodes, parts, strict=True)
    ]


def _is_small(node: PictureNode) -> bool:
    return node.kind in ("branch", "unread")


def _height(node: PictureNode, marks: list[list[str]]) -> float:
    if _is_small(node):
        return 18
    return 2 * _TOP + _LINE * (1 + _has_second_line(node) + len(node.lines)) + _MARK_LINE * (len(marks) - 1)


def _marks_of(node: PictureNode) -> list[str]:
    return (["map-style"] if node.kind == "map-style" else []) + node.marks


def _has_second_line(node: PictureNode) -> bool:
    return bool(node.arguments) or node.share is not None


def _wanted_width(node: PictureNode) -> float:
    texts = [length(node.arguments) * _CODE, *(length(line) * _CODE for line in node.lines)]
    name = length(node.name) * _NAME + (_width_of_marks(_marks_of(node)) + 10 if _marks_of(node) else 0)
    return _LEFT + _RIGHT + max(name, *texts, 0.0)


def _width_of_marks(marks: list[str]) -> float:
    return sum(map(_width_of_mark, marks)) + _BETWEEN_MARKS * len(marks)


def _width_of_mark(mark: str) -> float:
    """Return the width of a mark with space around its text, for a wide font."""
    wide, narrow = sum(map("mwMW".count, mark)), sum(map("ijlftr ,.".count, mark))
    return length(mark) * _SMALL + 3.4 * wide - 2 * narrow + 16


def _lines_of(node: PictureNode, width: float) -> list[list[str]]:
    """Return the marks of a node: those beside its name, then those of each line below."""
    beside = width - _LEFT - _RIGHT - length(node.name) * _NAME - 10
    lines: list[list[str]] = [[]]
    rooms = [beside]
    for mark in _marks_of(node):
        needed = _width_of_marks([mark])
        if needed > rooms[-1]:
            lines.append([])
            rooms.append(width - _LEFT - _RIGHT)
        lines[-1].append(mark)
        rooms[-1] -= needed
    return lines


def _marks(marks: list[str], x: float, y: float) -> Iterator[str]:
    for mark in marks:
        width = _width_of_mark(mark)
        kind = "divides" if mark == DIVIDES else "mark"
        yield f'<rect {paint(kind)} x="{x:.1f}" y="{y - 11:.1f}" width="{width:.1f}" height="15" rx="7.5"/>'
        yield _text(x + width / 2, y, mark, f"on-{kind}", 10, anchor="middle")
        x += width + _BETWEEN_MARKS


def _line(
    points: Sequence[tuple[float, float]],
    divided: bool,
    curved: bool = False,
    sides: Sequence[tuple[int, int]] = ((1, 0),),
) -> Iterator[str]:
    """Yield a line that ends in a tip, with a path for each strand; `sides` say where the strands lie at each point."""
    paths = []
    for strand in _STRANDS if divided else (0.0,):
        along = [(x + dx * strand, y + dy * strand) for (x, y), (dx, dy) in zip(points, cycle(sides), strict=False)]
        x, y = along[0]
        paths.append(f"M{x:.1f} {y:.1f}")
        for to_x, to_y in [*along[1:-1], (along[-1][0], along[-1][1] - 5)]:
            if curved and abs(to_x - x) > 1:
                middle = (y + _STRAIGHT + to_y) / 2
                paths.append(f"v{_STRAIGHT}C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
            else:
                paths.append(f"L{to_x:.1f} {to_y:.1f}")
            x, y = to_x, to_y
    yield f'<path {paint("line")} fill="none" stroke-width="1.3" stroke-linejoin="round" d="{"".join(paths)}"/>'
    x, y = points[-1]
    half = 7 if divided else 4
    yield f'<path {paint("tip")} d="M{x - half:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}L{x + half:.1f} {y - 6:.1f}z"/>\n'


def _text(
    x: float,
    y: float,
    text: str,
    colour: str,
    size: float,
    *,
    anchor: str = "",
    weight: int = 0,
    code: bool = False,
    title: str = "",
) -> str:
    attributes = paint(colour)
    if code:
        attributes = attributes.replace('class="', 'font-family="monospace" class="code ', 1)
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    weighed = f' font-weight="{weight}"' if weight else ""
    hint = f"<title>{escaped(title)}</title>" if title else ""
    return (
        f'<text {attributes} x="{x:.1f}" y="{y:.1f}" font-size="{size}"{anchored}{weighed}>{escaped(text)}{hint}</text>'
    )
