"""A picture of a chain as SVG, without scripts, and without fonts or images from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from ..text import cut, escaped
from .layout import Box, Point, lay_out, row_numbers
from .nodes import DIVIDES, PictureNode
from .palette import paint, rules

_CLASS = "penstock-chain"
_MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
_STYLE = (
    f".{_CLASS} text{{font-family:{_SANS};white-space:pre;direction:ltr;unicode-bidi:isolate}}"
    f".{_CLASS} .code{{font-family:{_MONO}}}{rules(f'.{_CLASS}')}"
)
_NAME, _CODE, _MARK, _SMALL = 7.9, 6.7, 6.0, 5.7
"""The widths of a character: of a name in 13 px, of arguments in 11 px, of marks and of other text in 10 px."""
_MARGIN, _GAP = 28.0, 34.0
_LEFT, _RIGHT, _TOP, _LINE, _MARK_LINE = 13.0, 8.0, 5.0, 15.0, 18.0
_FRAME_TOP, _FRAME_SIDE, _FRAME_BOTTOM = 22.0, 9.0, 6.0
"""The space between a frame and the nodes in it; its title is above them."""
_NARROWEST = 180.0
_WIDEST = (330.0, 270.0, 230.0, 190.0, 180.0)
"""The width that a node may have if it is alone in its row, if there are two, and so on."""
_BETWEEN_MARKS = " · "
_STRANDS = (-4.0, 0.0, 4.0)
"""Three lines side by side show a stream that is divided among shards."""


def svg_of(nodes: Sequence[PictureNode], workers: str | None = None) -> str:
    """Return the picture of nodes. `workers` names the place of those that the main process does not run."""
    sources = [[*node.sources] for node in nodes]
    boxes = [Box(width, _height(node)) for node, width in zip(nodes, _widths(nodes, row_numbers(sources)), strict=True)]
    layout = lay_out(boxes, sources, _GAP)
    width, height = layout.width + 2 * _MARGIN, layout.height + _GAP + 2 * _MARGIN
    body = [
        f'<rect {paint("canvas")} width="{width:.0f}" height="{height:.0f}" rx="8"/>\n',
        f'<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">\n',
        *_frames(nodes, boxes, workers),
    ]
    for node, box in zip(nodes, boxes, strict=True):
        body += _node(node, box)
    x, y = boxes[-1].x, boxes[-1].y + boxes[-1].height
    body += _line([(x, y), (x, y + _GAP)], nodes[-1].is_divided)
    body.append(_beside(x, y + 20, nodes[-1].item, 1, boxes[-1]))
    for (source, reader), points in layout.lines.items():
        body += _line(points, nodes[source].is_divided)
        body += _words_beside(points, nodes, source, reader, boxes[source])
    label = escaped(f"A chain of {len(nodes)} steps, from {nodes[0].name} to {nodes[-1].name}")
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    scaled = f"min-width:{0.6 * width:.0f}px;max-width:100%;height:auto"  # smaller text would be hard to read
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{_CLASS}" role="img" aria-label="{label}" {size} '
        f'style="{scaled}" font-family="{_SANS}"><style>{_STYLE}</style>\n{"".join(body)}</g>\n</svg>\n'
    )


def _widths(nodes: Sequence[PictureNode], rows: list[int]) -> list[float]:
    """Return the widths of nodes: the same in all rows that have as many."""
    in_row = [min(rows.count(row), len(_WIDEST)) for row in rows]
    widths = dict.fromkeys(in_row, _NARROWEST)
    for number, node in zip(in_row, nodes, strict=True):
        widths[number] = min(max(widths[number], _wanted_width(node)), _WIDEST[number - 1])
    return [widths[number] for number in in_row]


def _wanted_width(node: PictureNode) -> float:
    title = cell_len(node.name) * _NAME + (cell_len(node.share[1]) + 2) * _SMALL
    texts = (cell_len(text) * _CODE for text in (node.arguments, *node.lines))
    return math.ceil(_LEFT + _RIGHT + max(title, *texts, _width_of_marks(node)))


def _width_of_marks(node: PictureNode) -> float:
    return cell_len(_BETWEEN_MARKS.join(node.marks)) * _MARK + 16


def _height(node: PictureNode) -> float:
    return 2 * _TOP + _LINE * (1 + bool(node.arguments) + len(node.lines)) + _MARK_LINE * bool(node.marks)


def _frames(nodes: Sequence[PictureNode], boxes: list[Box], workers: str | None) -> Iterator[str]:
    """Yield a frame around the nodes that the workers run, and one around those that the main process runs."""
    for title, in_main in ((workers, False), ("in the main process", True)):
        inside = [box for node, box in zip(nodes, boxes, strict=True) if node.in_main_process == in_main]
        if not title or not inside:
            continue
        left = min(box.x - box.width / 2 for box in inside) - _FRAME_SIDE
        right = max(box.x + box.width / 2 for box in inside) + _FRAME_SIDE
        top = min(box.y for box in inside) - _FRAME_TOP
        bottom = max(box.y + box.height for box in inside) + _FRAME_BOTTOM
        yield (
            f'<rect {paint("zone", "zone-edge")} x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - top:.1f}" rx="9" stroke-dasharray="4 3"/>\n'
        )
        yield _text(left + 9, top + 14, title, "on-zone", 10.5, weight=600)


def _words_beside(
    points: Sequence[Point], nodes: Sequence[PictureNode], source: int, reader: int, box: Box
) -> Iterator[str]:
    """Yield the branches that a line stands for, or else the type of its items if it is another than before."""
    node = nodes[source]
    is_news = all(nodes[before].item != node.item for before in node.sources)
    if branches := nodes[reader].sources[source]:
        (from_x, _), (x, y) = points[1:3]
        yield _beside(x, y - 9, branches, -1 if x < from_x - 1 else 1, box)
    elif is_news and node.in_main_process == nodes[reader].in_main_process:
        (x, y), to_x = points[0], points[2][0]
        yield _beside(x, y + 20, node.item, -1 if x < to_x - 1 else 1, box)


def _beside(x: float, y: float, words: str, side: int, box: Box) -> str:
    """Return words on the side of a line to which it does not bend: 1 is the right one."""
    anchor = "start" if side > 0 else "end"
    return _text(x + 9 * side, y, cut(words, (box.width / 2 + 4) / _SMALL), "faint", 10, anchor=anchor)


def _node(node: PictureNode, box: Box) -> Iterator[str]:
    left, right = box.x - box.width / 2 + _LEFT, box.x + box.width / 2 - _RIGHT
    corner = 2 if node.kind == "map-style" else 7
    yield f"<g><title>{escaped(node.text)}</title>{_rect(box, corner, paint('box'))}"
    if node.share[1]:
        part = min(max(node.share[0], 0.0), 1.0) * box.width
        bar = Box(part, box.height, box.x - (box.width - part) / 2, box.y)
        yield _rect(bar, min(corner, part / 2), paint("share"))
    yield _rect(box, corner, paint("outline") + ' fill="none"')
    if node.kind != "several":
        yield _rect(Box(3, box.height - 10, left - 7.5, box.y + 5), 1.5, paint(node.kind))
    y = box.y + _TOP + 12
    room = right - left - (cell_len(node.share[1]) + 2) * _SMALL
    yield _text(left, y, cut(node.name, room / _NAME), "name", 13, code=True, weight=600)
    yield _text(right, y, node.share[1], "plain", 10, anchor="end", weight=600)
    for line in filter(None, (node.arguments, *node.lines)):
        y += _LINE
        yield _text(left, y, cut(line, (right - left) / _CODE), "plain", 11, code=True)
    if node.marks:
        y += _MARK_LINE
        kind = "divides" if DIVIDES in node.marks else "mark"
        width = min(_width_of_marks(node), right - left)
        words = cut(_BETWEEN_MARKS.join(node.marks), (width - 16) / _MARK)
        yield _rect(Box(width, 15, left + width / 2, y - 11), 7.5, paint(kind))
        yield _text(left + width / 2, y, words, f"on-{kind}", 10, anchor="middle")
    yield "</g>\n"


def _rect(box: Box, corner: float, colours: str) -> str:
    return (
        f'<rect {colours} x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{corner:.1f}"/>'
    )


def _line(points: Sequence[Point], divided: bool) -> Iterator[str]:
    """Yield a line that ends in a tip, with a path for each strand."""
    paths = []
    for strand in _STRANDS if divided else (0.0,):
        x, y = points[0]
        paths.append(f"M{x + strand:.1f} {y:.1f}")
        for to_x, to_y in [*points[1:-1], (points[-1][0], points[-1][1] - 5)]:
            middle = (y + to_y) / 2
            paths.append(
                f"C{x + strand:.1f} {middle:.1f} {to_x + strand:.1f} {middle:.1f} {to_x + strand:.1f} {to_y:.1f}"
                if abs(to_x - x) > 1
                else f"L{to_x + strand:.1f} {to_y:.1f}"
            )
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
    anchor: str = "start",
    weight: int = 400,
    code: bool = False,
) -> str:
    if not text:
        return ""
    attributes = paint(colour)
    if code:
        attributes = attributes.replace('class="', 'class="code ', 1)
    return (
        f'<text {attributes} x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escaped(text)}</text>'
    )
