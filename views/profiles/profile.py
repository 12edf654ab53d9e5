"""Where the time of a chain goes: a table, a sentence, a dict, a picture, a time line."""

from __future__ import annotations

import html
import json
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from ..pictures.nodes import Share
from ..pictures.picture import Picture
from ..text import in_words, sentence_in_page, with_unit
from .bottleneck import verdict
from .times import Consumer, StepTimes, WorkerTimes, reading_threads

_HTML = """<pre style="font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace;line-height:1.3;white-space:pre;\
overflow-x:auto">{table}</pre><p style="max-width:80ch">{sentence}</p>"""

_WIDEST = 140
"""The most columns of the sentence."""

_COLUMNS = ("step", "items", "in", "per item", "time", "share", "waiting", "buffer", "read", "retried", "skipped")
_ALWAYS_SHOWN = 6
"""So many columns are shown even if they are empty."""


@dataclass
class Profile:
    """What the steps of a chain took, in all processes and threads.

    `print` shows a table and a sentence that names the bottleneck. A notebook shows the same in HTML.
    """

    seconds: float
    """How long the items were read."""
    consumer: Consumer
    main: list[StepTimes]
    """The steps in the process that uses the items, sources first."""
    in_workers: list[StepTimes] = field(default_factory=list)
    """The steps in workers, sources first, all shards together."""
    workers: list[WorkerTimes] = field(default_factory=list)
    is_loader: bool = False
    picture: Picture | None = None
    """The chain, with a bar on each step."""

    @property
    def steps(self) -> list[StepTimes]:
        """All steps, sources first."""
        return [*self.in_workers, *self.main]

    @cached_property
    def _work(self) -> float:
        return sum(step.work for step in self.steps)

    def share(self, step: StepTimes) -> float:
        """Return the share of a step in the work of all steps, from 0 to 1."""
        return step.work / self._work if self._work else 0.0

    def shares(self, pipes: list[Any]) -> dict[int, Share]:
        """Return the bars of a picture: by the ids of the measured pipes of a chain, sources first, what they took."""
        steps = [step for step in self.steps if step.name not in ("workers", "loader")]
        return {
            id(pipe): (self.share(step), f"{self.share(step):.0%} · {_time(step.work / max(step.items, 1))}")
            for pipe, step in zip(pipes, steps, strict=False)
        }

    @property
    def verdict(self) -> str:
        """What limits the rate, and what may be done about it."""
        return verdict(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain data."""
        steps = []
        for place, those in (("workers", self.in_workers), ("main", self.main)):
            for step in those:
                row = {name: value for name, value in asdict(step).items() if name != "spans"}
                steps.append({**row, "place": place, "items_in": _items_in(step, those), "share": self.share(step)})
        return {
            "seconds": self.seconds,
            "consumer": asdict(self.consumer),
            "steps": steps,
            "workers": [asdict(worker) for worker in self.workers],
            "verdict": self.verdict,
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write a time line in the format of Chrome's traces, which https://ui.perfetto.dev opens.

        Of each thread of a step, the last 500 calls of more than 10 µs are shown.
        """
        events = [*_events("main process", 1, self.main), *_events("workers", 2, self.in_workers)]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))

    def __str__(self) -> str:
        columns = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
        sentence = textwrap.wrap(self.verdict, columns, break_long_words=False, break_on_hyphens=False)
        return "\n".join([*self._table(), "", *sentence])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = html.escape("\n".join(self._table()))
        text = _HTML.format(table=table, sentence=sentence_in_page(self.verdict))
        return text if self.picture is None else self.picture._repr_mimebundle_()["text/html"] + text

    def _table(self) -> list[str]:
        rows = [self._row(step, _items_in(step, those)) for those in (self.in_workers, self.main) for step in those]
        columns = [
            [name, *cells]
            for place, (name, *cells) in enumerate(zip(_COLUMNS, *rows, strict=True))
            if place < _ALWAYS_SHOWN or any(cells)
        ]
        widths = [max(map(len, column)) for column in columns]
        lines = self._before()
        for first, *others in zip(*columns, strict=True):
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return lines

    def _before(self) -> list[str]:
        items = self.consumer.items
        rate = f", {_rate(items, self.seconds)}" if items else ""
        lines = [f"{in_words(items)} in {_time(self.seconds)}{rate}"]
        if self.is_loader and self.seconds:
            waited = self.consumer.waited / self.seconds
            lines.append(f"waiting for input {waited:.0%}, the program itself {1 - waited:.0%}")
        for worker in self.workers:
            lines.append(
                f"{worker.name}: {in_words(worker.items)}, reading {worker.busy / worker.total:.0%}, "
                f"sending {worker.sending / worker.total:.0%}, idle {worker.idle / worker.total:.0%}"
            )
        return lines

    def _row(self, step: StepTimes, items_in: int | None) -> list[str]:
        where = f" ({step.threads // step.processes} {step.works_in or 'threads'})" if step.threads else ""
        fill = step.fill
        return [
            step.label + where,
            f"{step.items:,}",
            "" if items_in is None else f"{items_in:,}",
            _time(step.work / step.items) if step.items else "",
            _time(step.work),
            f"{self.share(step):.0%}",
            _time(step.waiting) if step.waiting else "",
            "" if fill is None else f"{fill:.0%} of {step.capacity}",
            with_unit(step.bytes) if step.bytes else "",
            f"{step.retried:,}" if step.retried else "",
            f"{step.skipped:,}" if step.skipped else "",
        ]


def _items_in(step: StepTimes, steps: list[StepTimes]) -> int | None:
    """Return how many items the sources of a step gave it; None if it has none."""
    return sum(steps[place].items for place in step.sources) if step.sources else None


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _rate(items: int, seconds: float) -> str:
    return f"{items / seconds:,.0f} a second" if items >= seconds > 0 else f"{_time(seconds / items)} each"


def _events(process: str, number: int, steps: list[StepTimes]) -> Iterator[dict[str, Any]]:
    """Yield the calls of steps; a thread that reads ahead, and each thread of a pool, has a line of its own."""
    lines: dict[tuple[int | None, int], int] = {}
    yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": process}}
    for place, (step, reader) in enumerate(zip(steps, reading_threads(steps), strict=True)):
        for thread, began, took in step.spans:
            key = (place, thread) if thread else (reader, 0)
            if key not in lines:
                lines[key] = len(lines)
                name = "reader" if reader is None else f"thread of {steps[reader].name}"
                name = f"{step.name} {thread}" if thread else name
                yield {"ph": "M", "pid": number, "tid": lines[key], "name": "thread_name", "args": {"name": name}}
            call = {"ph": "X", "pid": number, "tid": lines[key], "name": step.name}
            yield {**call, "ts": began * 1e6, "dur": took * 1e6}
