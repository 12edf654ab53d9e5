"""Where the steps of a picture lie: no two in one place, no line through a step, all readable."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from penstock.views.pictures.layout import Box, Layout, lay_out

GAP = 20.0


def chain(n: int) -> list[Box]:
    return [Box(100, 30, [place - 1] if place else []) for place in range(n)]


def random_boxes(seed: int, n: int = 25) -> list[Box]:
    """Boxes that all lead to the last, some of them read by several, and some by none."""
    drawn = random.Random(seed)
    boxes: list[Box] = []
    unread: list[int] = []
    for place in range(n):
        sources = drawn.sample(range(place), min(place, drawn.choice([0, 1, 1, 1, 2, 3])))
        boxes.append(Box(drawn.choice([40, 100, 180]), drawn.choice([18, 30, 60]), sources))
        unread = [*(each for each in unread if each not in sources), place]
    ends = [place for place in unread if not boxes[place].sources]
    boxes.append(Box(100, 30, ends or [n - 1]))
    reached: set[int] = set()
    waiting = [len(boxes) - 1]
    while waiting:
        place = waiting.pop()
        if place not in reached:
            reached.add(place)
            waiting += boxes[place].sources
    missing = [place for place in unread if place not in reached]
    boxes[-1].sources = [*boxes[-1].sources, *missing]
    return boxes


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
    for edge in layout.edges:
        points = edge.points
        assert points[0] == (boxes[edge.source].x, boxes[edge.source].y + boxes[edge.source].height)
        assert points[-1] == (boxes[edge.reader].x, boxes[edge.reader].y)
        if edge.changes_column:
            continue
        for (x, y), (to_x, to_y) in pairwise(points):
            assert to_y >= y
            if abs(x - to_x) < 0.01:  # other parts bend between two rows
                assert not any(contains(box, x, y + (to_y - y) * part / 9) for box in boxes for part in range(10))


@pytest.mark.parametrize("seed", range(40))
def test_no_step_covers_another_or_a_line(seed: int) -> None:
    boxes = random_boxes(seed)
    expect_readable(boxes, lay_out(boxes, GAP))


def test_each_edge_is_there_once() -> None:
    boxes = random_boxes(1)
    edges = lay_out(boxes, GAP).edges
    assert sorted((edge.source, edge.reader) for edge in edges) == sorted(
        (source, reader) for reader, box in enumerate(boxes) for source in box.sources
    )


def test_a_chain_runs_straight_down() -> None:
    boxes = chain(5)
    layout = lay_out(boxes, GAP)
    assert [box.x for box in boxes] == [50] * 5
    assert [box.y for box in boxes] == [0, 50, 100, 150, 200]
    assert (layout.width, layout.height) == (100, 230)


def test_branches_lie_side_by_side_and_meet_in_the_middle() -> None:
    boxes = [Box(100, 30), Box(100, 30, [0]), Box(100, 30, [0]), Box(100, 30, [1, 2])]
    lay_out(boxes, GAP)
    start, left, right, end = boxes
    assert left.y == right.y
    assert left.x < start.x == end.x < right.x


def test_a_short_branch_lies_just_above_what_reads_it() -> None:
    boxes = [*chain(4), Box(100, 30), Box(100, 30, [3, 4])]
    lay_out(boxes, GAP)
    assert boxes[4].y == boxes[3].y


def test_a_branch_that_nothing_reads_ends_below_its_source() -> None:
    boxes = [Box(100, 30), Box(100, 30, [0]), Box(100, 30, [0]), Box(100, 30, [2])]
    layout = lay_out(boxes, GAP)
    assert boxes[1].y == boxes[2].y
    expect_readable(boxes, layout)


@pytest.mark.parametrize(("steps", "columns"), [(12, 1), (40, 2), (60, 3), (200, 3)])
def test_a_high_picture_has_columns_of_about_one_height(steps: int, columns: int) -> None:
    boxes = chain(steps)
    layout = lay_out(boxes, GAP)
    assert len(layout.columns) == columns
    assert sum(edge.changes_column for edge in layout.edges) == columns - 1
    sizes = [end - first for first, end in layout.columns]
    assert max(sizes) - min(sizes) < steps / 4
    expect_readable(boxes, layout)


def test_branches_are_not_cut_into_columns() -> None:
    boxes = [*chain(30), *(Box(100, 30, [place - 1]) for place in range(31, 60))]
    boxes.insert(30, Box(100, 30))
    boxes.append(Box(100, 30, [29, 59]))
    layout = lay_out(boxes, GAP)
    assert len(layout.columns) == 1
