"""Estimates how much time untimed items took in each step.

Untimed items are timed as a whole, not step by step. Most resemble the timed items, so the shares of the steps in timed
items apply to them. A long item may be of another kind: a thread samples now and then which step it is in.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from ..state.error_context import local_of

__all__ = ["MeterPart", "Untimed", "holds_meter", "meter_at", "waits_in"]

MeterPart = tuple[Any, str]
"""A meter, and one of its times: "own" or "waiting"."""

_BETWEEN_LOOKS = 0.01
_LOOKS_IN_VAIN = 100
"""Stop sampling a thread after this many samples without an item."""
_LITTLE = 0.001
"""Weight of a timed item that follows no gap: it counts only where no other is known."""

_variables: dict[CodeType, str] = {}
_waits: set[CodeType] = set()
_threads: dict[int, Untimed] = {}
"""The sampled threads, by their ids."""
_starting = threading.Lock()
_looker: threading.Thread | None = None


def holds_meter(function: Callable[..., Any], variable: str) -> None:
    """Declare that a function makes items of a step, and has its meter, or None, in a local variable."""
    _variables[function.__code__] = variable


def waits_in(function: Callable[..., Any]) -> None:
    """Declare that a step in this function waits for its threads or processes."""
    _waits.add(function.__code__)


def meter_at(frame: FrameType | None) -> MeterPart | None:
    """Return the part of the step that a frame works for; None if no step is measured there."""
    what = "own"
    while frame is not None:
        variable = _variables.get(frame.f_code)
        if variable is not None and (meter := local_of(frame, variable)) is not None:
            return meter, what
        if frame.f_code in _waits:
            what = "waiting"
        frame = frame.f_back
    return None


class Untimed:
    """The untimed items of one thread, and how their time is divided among the steps."""

    def __init__(self) -> None:
        self.quick = 0
        """The time of all quick untimed items."""
        self.long = 0
        """The time of all long untimed items."""
        self.began = 0
        """When the present untimed item began; 0 without one."""
        self._timed: defaultdict[MeterPart, float] = defaultdict(float)
        """Time per part in timed items, each weighted by the number of items untimed before it."""
        self._seen: defaultdict[MeterPart, float] = defaultdict(float)
        """Time per part in the samples of long items."""
        self._looks: list[tuple[MeterPart, int, int]] = []
        """The samples of the present item: the part, the beginning and the end."""
        self._of_timed = self._of_seen = 0.0
        """The sums of these times over all parts."""
        self._in_vain = 0

    def end(self, longest: int) -> None:
        """End the present item; it is quick if it took no longer than `longest`."""
        took, self.began = perf_counter_ns() - self.began, 0
        if took <= longest:
            self.quick += took
        else:
            self.long += took
            for part, since, until in self._looks:
                self._seen[part] += until - since
                self._of_seen += until - since
                part[0].spans.add(since, until - since)
        if self._looks:
            self._looks = []

    def told_by(self, parts: Iterable[tuple[MeterPart, float]], times: int) -> None:
        """Add the parts of a timed item to the shares, weighted by `times`, the number of items untimed before it."""
        for part, took in parts:
            weighted = took * (times or _LITTLE)
            self._timed[part] += weighted
            self._of_timed += weighted

    def time_of(self, part: MeterPart) -> float:
        """Return how long a part took in all untimed items."""
        timed = self._timed.get(part, 0.0) / (self._of_timed or 1)
        seen = self._seen.get(part, 0.0) / self._of_seen if self._of_seen else timed
        return self.quick * timed + self.long * seen

    def times(self) -> dict[MeterPart, float]:
        """Return how long each part took in all untimed items."""
        return {part: self.time_of(part) for part in {*self._timed, *self._seen}}

    def watch(self) -> None:
        """Begin to sample this thread."""
        global _looker
        _threads[threading.get_ident()] = self
        with _starting:
            if _looker is None or not _looker.is_alive():
                _looker = threading.Thread(target=_look, name="penstock-looker", daemon=True)
                _looker.start()

    def unwatch(self) -> None:
        """Stop sampling this thread."""
        _threads.pop(threading.get_ident(), None)

    def look(self, frame: FrameType, before: int, now: int) -> bool:
        """Sample which part the present item is in since `before`; False after many samples without an item."""
        began = self.began
        self._in_vain = 0 if began else self._in_vain + 1
        if 0 < began < now and (part := meter_at(frame)) is not None:
            looks, since = self._looks, max(began, before)
            if looks and looks[-1][0] == part:
                since = looks.pop()[1]
            looks.append((part, since, now))
        return self._in_vain < _LOOKS_IN_VAIN


def _look() -> None:
    before = perf_counter_ns()
    while _threads:
        time.sleep(_BETWEEN_LOOKS)
        frames, now = sys._current_frames(), perf_counter_ns()
        for thread, untimed in [*_threads.items()]:
            if thread not in frames or not untimed.look(frames[thread], before, now):
                _threads.pop(thread, None)
        frames.clear()  # frames keep items and iterators alive; this frame is among them, a cycle
        before = now
