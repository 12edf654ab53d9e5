"""Where the steps of a picture lie: no two in one place, no line through a step, all readable."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from penstock.views.pictures.layout import Box, Layout, lay_out

GAP = 20.0
Sources = list[list[int]]


def random_sources(seed: int, n: int = 25) -> Sources:
    """Boxes that all lead to the last, some of them read by several."""
    drawn = random.Random(seed)
    sources: Sources = [drawn.sample(range(place), min(place, drawn.choice([0, 1, 1, 1, 2, 3]))) for place in range(n)]
    read = {source for several in sources for source in several}
    return [*sources, [place for place in range(n) if place not in read]]


def random_boxes(seed: int, n: int) -> list[Box]:
    drawn = random.Random(seed)
    return [Box(drawn.choice([40, 100, 180]), drawn.choice([18, 30, 60])) for _ in range(n)]


def overlap(one: Box, other: Box) -> bool:
    beside = abs(one.x - other.x) >= (one.width + other.width) / 2 - 0.01
    return not beside and one.y < other.y + other.height and other.y < one.y + one.height


def contains(box: Box, x: float, y: float) -> bool:
    return abs(box.x - x) < box.width / 2 - 0.01 and box.y + 0.01 < y < box.y + box.height - 0.01


def expect_readable(boxes: list[Box], layout: Layout) -> None:
    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    assert all(box.x - box.width / 2 >= -0.01 and box.y >= 0 for box in boxes)
    assert all(box.x + box.width / 2 <= layout.width + 0.01 for box in boxes)
    assert all(box.y + box.height <= layout.height + 0.01 for box in boxes)
    for (source, reader), points in layout.lines.items():
        assert points[0] == (boxes[source].x, boxes[source].y + boxes[source].height)
        assert points[-1] == (boxes[reader].x, boxes[reader].y)
        for (x, y), (to_x, to_y) in pairwise(points):
            assert to_y >= y
            along = [(x + (to_x - x) * part / 9, y + (to_y - y) * part / 9) for part in range(10)]
            assert not any(contains(box, *point) for box in boxes for point in along)


@pytest.mark.parametrize("seed", range(20))
def test_no_step_covers_another_or_a_line(seed: int) -> None:
    sources = random_sources(seed)
    boxes = random_boxes(seed, len(sources))
    layout = lay_out(boxes, sources, GAP)
    expect_readable(boxes, layout)
    assert {*layout.lines} == {(source, reader) for reader, several in enumerate(sources) for source in several}


def test_branches_lie_side_by_side_and_meet_in_the_middle() -> None:
    boxes = [Box(100, 30) for _ in range(4)]
    lay_out(boxes, [[], [0], [0], [1, 2]], GAP)
    start, left, right, end = boxes
    assert left.y == right.y
    assert left.x < start.x == end.x < right.x


def test_a_chain_runs_straight_down_and_a_short_branch_lies_just_above_its_reader() -> None:
    boxes = [Box(100, 30) for _ in range(6)]
    layout = lay_out(boxes, [[], [0], [1], [2], [], [3, 4]], GAP)
    assert len({box.x for box in boxes[:4]}) == 1
    assert [box.y for box in boxes] == [0, 50, 100, 150, 150, 200]
    assert layout.height == 230
