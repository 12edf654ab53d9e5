"""Measures the steps of a chain, and collects what was measured. Times are in seconds."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any, TypeVar

from ...errors.observer import Measurements, Observer
from ...state.foreign import TorchMapDataPipe, declared, declares
from ...state.graph import DataPipe, sources_first, sources_of
from ...state.step_text import arguments_of, is_data_set

T = TypeVar("T")

_LONGEST_ARGUMENTS = 30
_RUNS, _TRIALS = 8, 50
_NO_ITEM: Any = object()


@dataclass(kw_only=True, slots=True)
class StepTimes(Measurements):
    """What a step did, in all the processes that run it."""

    name: str
    """Its method, or its class if it has none."""
    label: str
    """The same with its arguments, if these are short."""
    sources: list[int] = field(default_factory=list)
    """The places of the steps that it reads."""
    works_in: str | None = None
    is_cache: bool = False
    hint: str | None = None
    """A way to make it faster."""
    tuned: str | None = None
    """What it has found so far for arguments given as "auto"."""
    busy: float = 0.0
    """The time that its threads worked, all together."""
    skipped: int = 0
    retried: int = 0
    processes: int = 1
    """How many chains these times cover."""
    spans: list[tuple[int, float, float]] = field(default_factory=list)
    """The last calls, for a time line: a thread's number, 0 for the reader's, the beginning and the duration."""

    @property
    def work(self) -> float:
        """All the time that it took, in its reader's thread and its own."""
        return self.own + self.busy

    @property
    def fill(self) -> float | None:
        """How full its buffer was when an item was wanted, from 0 to 1."""
        return None if not (self.looks and self.capacity) else min(self.ready / self.looks / self.capacity, 1.0)


@dataclass
class Consumer:
    """What the user of the items did."""

    items: int = 0
    first: float = 0.0
    """The time that it waited for the first item of each pass, while workers start."""
    waited: float = 0.0
    """The time that it waited for the other items."""
    worked: float = 0.0
    """The time between an item and the request for the next."""

    def follow(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items, and measure how long they are waited for."""
        iterator = iter(items)
        yielded_at: float | None = None
        while True:
            asked = time.perf_counter()
            item = next(iterator, _NO_ITEM)
            arrived = time.perf_counter()
            if yielded_at is None:
                self.first += arrived - asked
            else:
                self.worked += asked - yielded_at
                self.waited += arrived - asked
            if item is _NO_ITEM:
                return
            yielded_at = arrived
            self.items += 1
            yield item


@dataclass
class WorkerTimes:
    """What a worker process did."""

    name: str
    items: int = 0
    busy: float = 0.0
    """Reading the chains of its shards."""
    sending: float = 0.0
    idle: float = 0.0
    """Waiting until the main process wants more."""

    @property
    def total(self) -> float:
        """All its time; never 0, so that shares of it can be taken."""
        return self.busy + self.sending + self.idle or 1.0


def measure(chain: DataPipe) -> None:
    """Measure the steps of a chain from now on; a data set, and a step of another library, is part of what reads it."""
    cost = _cost_of_timing()
    parts: list[Any] = sources_first(chain, stop=is_data_set)
    for pipe in parts:
        if declares(pipe, "_observer"):
            pipe._observer = Observer(cost=cost)
            kind: Any = type(pipe)
            if issubclass(kind, TorchMapDataPipe):
                pipe.__class__ = _measuring(kind)


def _cost_of_timing() -> tuple[float, float]:
    """Measure what timing an item adds to the time of its step, and to that of the step's reader.

    The least of several runs of trials: other processes only add to it.
    """
    of_steps, of_readers = zip(*(_cost_in_trials() for _ in range(_RUNS)), strict=True)
    return min(of_steps), min(of_readers)


def _cost_in_trials() -> tuple[float, float]:
    of_steps, of_readers = [], []
    for _ in range(_TRIALS):
        reader, step = Observer(), Observer()
        reader.enter()
        step.enter()
        step.leave(1)
        reader.leave(1)
        of_steps.append(step.own)
        of_readers.append(reader.own)
    # A reader is timed itself, which adds as much to it as to any step.
    return median(of_steps), median(of_readers) - median(of_steps)


@functools.cache
def _measuring(cls: Any) -> Any:
    """Return a subclass of map-style pipes that measures each call. Other pipes' calls cost no more."""
    if "_is_measuring" in vars(cls):
        return _measuring(cls.__base__)  # afresh: cloudpickle leaves out the name, which the base has too

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807
        return self._observer.time(cls.__getitem__, 1, self, index)

    def __getitems__(self: Any) -> Any:  # noqa: N807
        fetch = super(measuring, self).__getitems__  # AttributeError if the source of this pipe has none
        return lambda indices: self._observer.time(fetch, len(indices), indices)

    own = {"_is_measuring": True, "__getitem__": __getitem__, "functional_name": vars(cls).get("functional_name")}
    if hasattr(cls, "__getitems__"):
        own["__getitems__"] = property(__getitems__)
    measuring = type(cls)(cls.__name__, (cls,), own)
    return measuring


def measured_steps(*chains: DataPipe) -> list[Any]:
    """Return the measured steps of chains, sources first."""
    return [pipe for pipe in sources_first(*chains) if vars(pipe).get("_observer") is not None]


def times_of_steps(*chains: DataPipe) -> list[StepTimes]:
    """Return what the measured steps of chains took."""
    pipes = measured_steps(*chains)
    places = {id(pipe): place for place, pipe in enumerate(pipes)}
    return [_times_of(pipe, places) for pipe in pipes]


def _times_of(pipe: Any, places: dict[int, int]) -> StepTimes:
    observer: Observer = pipe._observer
    everywhere = [observer, *observer.helpers]
    name = vars(type(pipe)).get("functional_name") or type(pipe).__name__
    arguments = f"({', '.join(arguments_of(pipe))})"
    times = StepTimes(
        name=name,
        label=pipe.in_a_chain() if is_data_set(pipe) else name + arguments * (len(arguments) <= _LONGEST_ARGUMENTS),
        sources=sorted({places[id(source)] for source in sources_of(pipe) if id(source) in places}),
        works_in=getattr(pipe, "works_in", None),
        is_cache="caches" in declared(pipe, "traits", ()),
        hint=pipe.faster,
        tuned=pipe.tuned,
        busy=sum(each.own for each in observer.helpers),
        skipped=pipe.error_policy.stats["skipped"],
        retried=pipe.error_policy.retried,
        spans=[(number, *span) for number, each in enumerate(everywhere) for span in each.spans],
        **{each.name: getattr(observer, each.name) for each in fields(Measurements)},
    )
    times.own = max(times.own, 0.0)  # the cost of timing is not known exactly
    for what in ("retrying", "blocked", "cpu", "bytes"):
        setattr(times, what, sum(getattr(each, what) for each in everywhere))
    return times


def reading_threads(steps: list[StepTimes]) -> list[int | None]:
    """Return for each step the place of the step whose thread reads it; None if no step reads ahead of it."""
    found: list[int | None] = [None] * len(steps)
    for place, step in reversed([*enumerate(steps)]):
        for source in step.sources:
            found[source] = place if step.reads_ahead else found[place]
    return found


def add_up_times(chains: Iterable[list[StepTimes]]) -> list[StepTimes]:
    """Return the times of steps, summed over equal chains: those of several shards."""
    total: list[StepTimes] = []
    for steps in chains:
        if [step.name for step in steps] != [step.name for step in total]:
            total = steps  # at first, and if a user's function made another chain: the last one counts
        else:
            for before, step in zip(total, steps, strict=True):
                add(before, step)
    return total


def add(total: Any, more: Any) -> None:
    """Add the numbers of a dataclass to those of another."""
    for each in fields(total):
        if each.type in ("int", "float") and each.name != "capacity":
            setattr(total, each.name, getattr(total, each.name) + getattr(more, each.name))
