"""Where the time of a chain goes: a table, a sentence, a dict, a picture, a time line."""

from __future__ import annotations

import io
import json
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...state.seeds import generators_kept
from ..pictures.nodes import Share
from ..pictures.picture import Picture
from ..text import in_words, sentence_in_page
from .bottleneck import verdict
from .times import StepTimes, Times

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Profile"]

_HTML = """<pre style="font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace;line-height:1.3;white-space:pre;\
overflow-x:auto">{code}</pre>"""

_NARROWEST, _WIDEST = 100, 140
"""The columns of the table as text; its sentence is never wider than the terminal."""


@dataclass
class Profile(Times):
    """What the steps of a chain took, in all processes and threads.

    `print` shows a table and a sentence that names the bottleneck. A notebook shows the same in HTML.
    """

    picture: Picture | None = None
    """The chain, with a bar on each step."""

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

        Of a step with very many calls, only some are shown.
        """
        Path(path).write_text(json.dumps({"traceEvents": [*_events(self)], "displayTimeUnit": "ms"}))

    def __str__(self) -> str:
        terminal = shutil.get_terminal_size((_WIDEST, 24)).columns
        console = _console(min(max(terminal, _NARROWEST), _WIDEST))
        console.print(self._table())
        table = [line.rstrip() for line in console.export_text().splitlines()]
        sentence = textwrap.wrap(self.verdict, min(terminal, _WIDEST), break_long_words=False, break_on_hyphens=False)
        return "\n".join([*table, "", *sentence])

    __repr__ = __str__

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        return Group(self._table(), Text(""), Text(self.verdict))

    def _table(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        columns = [
            "step",
            "items",
            "in",
            "per item",
            "time",
            "share",
            "waiting",
            "buffer",
            "read",
            "retried",
            "skipped",
        ]
        shown = [self._row(step, _items_in(step, those)) for those in (self.in_workers, self.main) for step in those]
        used = [place for place, _ in enumerate(columns) if place < 6 or any(row[place] for row in shown)]
        for place in used:
            # The column of the steps alone gets narrower where there is less room.
            table.add_column(columns[place], justify="left" if place == 0 else "right", no_wrap=place > 0)
        for row in shown:
            table.add_row(*[Text(row[place], no_wrap=True, overflow="ellipsis") for place in used])
        return Group(*map(Text, self._before()), table)

    def _repr_html_(self) -> str:
        console = _console(_WIDEST)
        console.print(self._table())
        table = console.export_html(inline_styles=True, code_format=_HTML)
        table += f'<p style="max-width:80ch">{sentence_in_page(self.verdict)}</p>'
        return table if self.picture is None else self.picture._repr_mimebundle_()["text/html"] + table

    def _before(self) -> list[str]:
        items = self.consumer.items
        rate = f", {_rate(items, self.seconds)}" if items else ""
        lines = [f"{in_words(items)} in {_time(self.seconds)}{rate}"]
        if self.is_loader and self.seconds:
            waited = self.consumer.waited / self.seconds
            lines.append(f"waiting for input {waited:.0%}, the program itself {1 - waited:.0%}")
        for worker in self.workers:
            total = worker.busy + worker.sending + worker.idle or 1.0
            lines.append(
                f"{worker.name}: {in_words(worker.items)}, reading {worker.busy / total:.0%}, "
                f"sending {worker.sending / total:.0%}, idle {worker.idle / total:.0%}"
            )
        return lines

    def _row(self, step: StepTimes, items_in: int | None) -> list[str]:
        where = f" ({step.threads // step.processes} {_of_threads(step)})" if step.threads else ""
        fill = step.fill
        return [
            _short(step.text) + where,
            f"{step.items:,}",
            "" if items_in is None else f"{items_in:,}",
            _time(step.work / step.items) if step.items else "",
            _time(step.work),
            f"{self.share(step):.0%}",
            _time(step.waiting) if step.waiting else "",
            "" if fill is None else f"{fill:.0%} of {step.capacity}",
            _bytes(step.bytes) if step.bytes else "",
            f"{step.retried:,}" if step.retried else "",
            f"{step.skipped:,}" if step.skipped else "",
        ]


def _items_in(step: StepTimes, steps: list[StepTimes]) -> int | None:
    """Return how many items the sources of a step gave it; None if it has none."""
    return sum(steps[place].items for place in step.sources) if step.sources else None


def _console(width: int) -> Console:
    """Return a console that records what it would print."""
    with generators_kept():  # the import draws from Python's
        from rich.console import Console
    # Not for Jupyter: it would print there at once.
    return Console(file=io.StringIO(), record=True, width=width, force_jupyter=False)


def _of_threads(step: StepTimes) -> str:
    return step.works_in if step.works_in in ("processes", "actors") else "threads"


def _short(text: str) -> str:
    return text if len(text) <= 48 else text[:47] + "…"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _rate(items: int, seconds: float) -> str:
    return f"{items / seconds:,.0f} a second" if items >= seconds > 0 else f"{_time(seconds / items)} each"


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"


def _events(profile: Profile) -> list[Mapping[str, Any]]:
    events: list[Mapping[str, Any]] = []
    for process, steps in (("main process", profile.main), ("workers", profile.in_workers)):
        if steps:
            number = 1 if process == "main process" else 2
            events.append({"ph": "M", "pid": number, "name": "process_name", "args": {"name": process}})
            events += _events_of(steps, number)
    return events


def _events_of(steps: list[StepTimes], process: int) -> list[Mapping[str, Any]]:
    events: list[Mapping[str, Any]] = []
    named: set[int] = set()
    for place, step in enumerate(steps):
        for thread, began, took in step.spans:
            # A thread that reads ahead, and each thread of a pool, has a line of its own.
            line = (place + 1) * 1000 + thread if thread else 0 if step.thread_of is None else step.thread_of + 1
            if line not in named:
                named.add(line)
                whose = "reader" if line == 0 else step.name if thread else f"thread of {steps[line - 1].name}"
                name = f"{whose} {thread}" if thread else whose
                events.append({"ph": "M", "pid": process, "tid": line, "name": "thread_name", "args": {"name": name}})
            events.append(
                {"ph": "X", "pid": process, "tid": line, "name": step.name, "ts": began / 1e3, "dur": took / 1e3}
            )
    return events
