"""The items that are not timed step by step: how long they took, and in which steps.

A thread knows how long each of these items took. As a rule they are as those that were timed, which tell the shares of
the steps. A long one may be of another kind. Another thread looks now and then which step it is in.
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

from .notes import local_of

__all__ = ["LeftOut", "MeterPart", "holds_meter", "meter_at", "waits_in"]

MeterPart = tuple[Any, str]
"""A meter, and which of its times is meant: "own" or "waiting"."""

_BETWEEN_LOOKS = 0.01
_LOOKS_IN_VAIN = 100
"""After so many in a row that found no item under way, a thread is not looked at any more."""
_LITTLE = 0.001
"""A timed item counts so much in the shares if it follows no gap: it tells them only where nothing else does."""

_variables: dict[CodeType, str] = {}
_waits: set[CodeType] = set()
_threads: dict[int, LeftOut] = {}
"""The threads that are looked at, by their ids."""
_starting = threading.Lock()
_looker: threading.Thread | None = None


def holds_meter(function: Callable[..., Any], variable: str) -> None:
    """Declare that a function makes items of a step, and has its meter, or None, in a local variable."""
    _variables[function.__code__] = variable


def waits_in(function: Callable[..., Any]) -> None:
    """Declare that a step that is in a function waits for its threads or processes."""
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


class LeftOut:
    """What one thread has left out, and how the time of it is divided among the steps."""

    def __init__(self) -> None:
        self.quick = 0
        """The time of all quick items."""
        self.long = 0
        """The time of all long items."""
        self.began = 0
        """When the present item began; 0 if none is under way."""
        self._timed: defaultdict[MeterPart, float] = defaultdict(float)
        """What the parts took of timed items, each as often as it was left out before."""
        self._seen: defaultdict[MeterPart, float] = defaultdict(float)
        """How long long items were seen in each part."""
        self._looks: list[tuple[MeterPart, int, int]] = []
        """The present item: in which part it was seen, since when and until when."""
        self._of_timed = self._of_seen = 0.0
        """The sums of both."""
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
        """Let a timed item tell the shares, by what its parts took, for the items that were left out before it."""
        for part, took in parts:
            weighted = took * (times or _LITTLE)
            self._timed[part] += weighted
            self._of_timed += weighted

    def time_of(self, part: MeterPart) -> float:
        """Return how long a part took, of all items."""
        timed = self._timed.get(part, 0.0) / (self._of_timed or 1)
        seen = self._seen.get(part, 0.0) / self._of_seen if self._of_seen else timed
        return self.quick * timed + self.long * seen

    def times(self) -> dict[MeterPart, float]:
        """Return how long each part took."""
        return {part: self.time_of(part) for part in {*self._timed, *self._seen}}

    def watch(self) -> None:
        """Let this thread be looked at."""
        global _looker
        _threads[threading.get_ident()] = self
        with _starting:
            if _looker is None or not _looker.is_alive():
                _looker = threading.Thread(target=_look, name="penstock-looker", daemon=True)
                _looker.start()

    def unwatch(self) -> None:
        """Let this thread not be looked at any more."""
        _threads.pop(threading.get_ident(), None)

    def look(self, frame: FrameType, before: int, now: int) -> bool:
        """See which part the present item is in since `before`; False if there was none for long."""
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
        for thread, left_out in [*_threads.items()]:
            if thread not in frames or not left_out.look(frames[thread], before, now):
                _threads.pop(thread, None)
        frames.clear()  # they keep items, and iterators that end; this frame is among them: a cycle
        before = now
