"""Draw the pictures of docs/concepts as rows of boxes: what the items in them are, the chains themselves tell."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import penstock as ps
from penstock.views.pictures.picture import Picture

COLOURS = ("#7cb5ec", "#f2b36b", "#8fce8f", "#d6a3e0")
NONE = "#b9c0c7"
WIDTH, HEIGHT, LABEL = 44, 30, 190
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#24292f}.in{fill:#14181c;text-anchor:middle}"
    "@media(prefers-color-scheme:dark){text{fill:#d3dae2}.in{fill:#14181c}}"
)


class Row(NamedTuple):
    """A row of boxes: its label, the text of each box, and the number of each box's colour, -1 for grey."""

    label: str
    items: list[Any]
    colours: list[int]


def rows(title: str, *drawn: Row) -> str:
    """Return rows of boxes as SVG, with colours for light and for dark pages."""
    width = LABEL + max(len(row.items) for row in drawn) * WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(drawn) * (HEIGHT + 12)}" width="{width}" '
        f'role="img" aria-label="{escape(title)}"><style>{STYLE}</style>'
    ]
    for number, row in enumerate(drawn):
        top = number * (HEIGHT + 12) + 4
        parts.append(f'<text x="0" y="{top + 20}">{escape(row.label)}</text>')
        for place, (item, colour) in enumerate(zip(row.items, row.colours, strict=True)):
            left, fill = LABEL + place * WIDTH, NONE if colour < 0 else COLOURS[colour]
            parts.append(f'<rect x="{left}" y="{top}" width="{WIDTH - 4}" height="{HEIGHT}" rx="5" fill="{fill}"/>')
            middle = left + (WIDTH - 4) / 2
            parts.append(f'<text class="in" x="{middle:g}" y="{top + 20}">{escape(str(item))}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def numbers(count: int = 12) -> Any:
    """Return the chain that the pictures show."""
    return ps.iter.IterableWrapper(range(count)).shuffle().sharding_filter()


def epochs(seed: int, count: int, num_workers: int = 0) -> list[list[int]]:
    """Return the items of the first epochs of a loader with three shards."""
    service = ps.MultiProcessingReadingService(num_workers, num_shards=3)
    with ps.DataLoader2(numbers(), reading_service=service) as loader:
        loader.seed(seed)
        return [list(loader) for _ in range(count)]


def by_shard(items: list[int]) -> list[int]:
    """Return the shard of each item: the shards have equally many, and give one each in turn."""
    return [place % 3 for place in range(len(items))]


def chain() -> str:
    """Return a chain of five steps."""
    words = ps.iter.IterableWrapper(["a b", "c", "d e f"])
    return Picture(words.map(str.split).filter(len).shuffle().batch(2)).svg


def passes() -> str:
    """Return two passes over one chain."""
    drawn = [Row(f"pass {n}", items, [n - 1] * 12) for n, items in enumerate(epochs(0, 2), 1)]
    return rows("Two passes give the same items in different orders", *drawn)


def state() -> str:
    """Return a pass that was stopped, and the pass that resumed."""
    stopped, resumed = (ps.iter.IterableWrapper(range(12)).shuffle().set_seed(0) for _ in range(2))
    running = iter(stopped)
    begun = [next(running) for _ in range(5)]
    resumed.load_state_dict(stopped.state_dict())
    rest = list(resumed)
    return rows(
        "A resumed pass gives exactly the rest",
        Row("not stopped", begun + list(running), [0] * 12),
        Row("before the state", begun, [1] * 5),
        Row("after the state", [""] * 5 + rest, [-1] * 5 + [2] * 7),
    )


def shards() -> str:
    """Return three shards, and what the loader gives."""
    (items,) = epochs(0, 1)
    parts = [Row(f"shard {n}", items[n::3], [n] * 4) for n in range(3)]
    return rows("Three shards take turns", *parts, Row("the loader gives", items, by_shard(items)))


def seeds() -> str:
    """Return what the seed and the epoch decide."""
    first, second = epochs(0, 2)
    (again,), (other,) = epochs(0, 1), epochs(1, 1)
    return rows(
        "The seed and the epoch decide the order",
        Row("seed 0, epoch 0", first, [0] * 12),
        Row("seed 0, epoch 1", second, [1] * 12),
        Row("seed 0, epoch 0 again", again, [0] * 12),
        Row("seed 1, epoch 0", other, [2] * 12),
    )


def errors() -> str:
    """Return what comes out if items that fail are skipped."""
    texts = ["1", "2", "x", "4", "5"]
    kept = list(ps.iter.IterableWrapper(texts).map(int, on_error="skip"))
    colours = [0 if text.isdecimal() else 1 for text in texts]
    return rows("The item that fails is left out", Row("items", texts, colours), Row('on_error="skip"', kept, [0] * 4))


def workers() -> str:
    """Return the shards of two workers, and the same items from none, two and three workers."""
    (items,) = epochs(0, 1)
    hosts = [
        Row("worker 0: shards 0, 2", items[0::3] + items[2::3], [0] * 4 + [2] * 4),
        Row("worker 1: shard 1", items[1::3], [1] * 4),
    ]
    same = [Row(f"{n} workers give", epochs(0, 1, n)[0], by_shard(items)) for n in (0, 2, 3)]
    return rows("Any number of workers gives the same items in the same order", *hosts, *same)


def ranks() -> str:
    """Return the shards of two ranks."""
    service = ps.MultiProcessingReadingService(0, num_shards=4)
    with ps.DataLoader2(numbers(), reading_service=service) as loader:
        loader.seed(0)
        items = list(loader)
    drawn = []
    for rank in range(2):
        places = [place for place in range(12) if place % 4 % 2 == rank]
        label = f"rank {rank}: shards {rank}, {rank + 2}"
        drawn.append(Row(label, [items[place] for place in places], [place % 4 for place in places]))
    return rows("Each of two ranks reads two of four shards", *drawn)


def concepts() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    drawn = {"chain": chain, "state": state, "shards": shards, "seeds": seeds, "errors": errors}
    return {name: draw() for name, draw in {**drawn, "pass": passes, "workers": workers, "ranks": ranks}.items()}
