"""Collects what the meters of a chain have measured."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ...state.foreign import TorchMapDataPipe, declared, declares
from ...state.graph import DataPipe, sources_first, sources_of
from ...state.step_text import arguments_of, is_data_set
from ...state.step_text import step as show_step
from .meter import Meter, allow_for_timing

__all__ = [
    "Consumer",
    "StepTimes",
    "Times",
    "WorkerTimes",
    "add_up_times",
    "measure",
    "measured_steps",
    "times_of_steps",
]

T = TypeVar("T")

_SECOND = 1e9
_LONGEST_ARGUMENTS = 30


@dataclass
class StepTimes:
    """What a step did, in all the processes that run it. Times are in seconds."""

    name: str
    """Its method, or its class if it has none."""
    label: str
    """The same with its arguments, if these are short."""
    text: str
    """The step as `print` shows it."""
    sources: list[int]
    """The places of the steps that it reads."""
    thread_of: int | None
    """The place of the step whose thread reads it; None if no step reads ahead of it."""
    works_in: str | None
    is_cache: bool
    hint: str | None
    """A way to make it faster."""
    tuned: str | None
    """What it has found so far for arguments given as "auto"."""
    items: int = 0
    """How many items it gave."""
    own: float = 0.0
    """The time that it took itself, in the thread of its reader."""
    waiting: float = 0.0
    """The time that its reader waited in it for its threads or processes."""
    retrying: float = 0.0
    """The time between attempts."""
    blocked: float = 0.0
    """The time that its threads waited for room."""
    busy: float = 0.0
    """The time that its threads worked, all together."""
    cpu: float = 0.0
    """The processor time of its threads; less than `busy` if they waited, for the GIL, a network or another process."""
    threads: int = 0
    """How many threads worked for it at once."""
    bytes: float = 0.0
    """How much it read from files and objects."""
    capacity: int = 0
    """How many items it reads ahead."""
    looks: int = 0
    ready: int = 0
    empty: int = 0
    skipped: int = 0
    retried: int = 0
    processes: int = 1
    """How many chains these times cover."""
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """Some calls, for a time line: a thread's number, 0 for the reader's, the beginning and the duration, in ns."""

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
    """What the user of the items did. Times are in seconds."""

    items: int = 0
    first: float = 0.0
    """The time that it waited for the first item of each pass, while workers start."""
    waited: float = 0.0
    """The time that it waited for the other items."""
    worked: float = 0.0
    """The time between an item and the request for the next."""

    def follow(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items, and measure how long they are waited for."""
        items = iter(items)
        yielded_at: float | None = None
        while True:
            asked = time.perf_counter()
            if yielded_at is not None:
                self.worked += asked - yielded_at
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                arrived = time.perf_counter()
                if yielded_at is None:
                    self.first += arrived - asked
                else:
                    self.waited += arrived - asked
                yielded_at = arrived
            self.items += 1
            yield item


@dataclass
class WorkerTimes:
    """What a worker process did. Times are in seconds."""

    name: str
    items: int = 0
    busy: float = 0.0
    """Reading the chains of its shards."""
    sending: float = 0.0
    idle: float = 0.0
    """Waiting until the main process wants more."""


@dataclass
class Times:
    """What the steps of a chain took, in all processes and threads."""

    seconds: float
    """How long the items were read."""
    consumer: Consumer
    main: list[StepTimes]
    """The steps in the process that uses the items, sources first."""
    in_workers: list[StepTimes] = field(default_factory=list)
    """The steps in workers, sources first, all shards together."""
    workers: list[WorkerTimes] = field(default_factory=list)
    is_loader: bool = False

    @property
    def steps(self) -> list[StepTimes]:
        """All steps, sources first."""
        return [*self.in_workers, *self.main]

    def share(self, step: StepTimes) -> float:
        """Return the share of a step in the work of all steps, from 0 to 1."""
        return step.work / self._work if self._work else 0.0

    @functools.cached_property
    def _work(self) -> float:
        return sum(step.work for step in self.steps)


_SUMMED = [each.name for each in fields(StepTimes) if each.type in ("int", "float") and each.name != "capacity"]


def measure(chain: DataPipe) -> None:
    """Measure the steps of a chain from now on; those of other libraries count with the step that reads them."""
    allow_for_timing()
    parts: list[Any] = sources_first(chain)
    for pipe in parts:
        if declares(pipe, "_observer"):
            pipe._observer = Meter()
            kind: Any = type(pipe)
            if issubclass(kind, TorchMapDataPipe):
                pipe.__class__ = _measuring(kind)


@functools.lru_cache(maxsize=1000)
def _measuring(cls: Any) -> Any:
    """Return a subclass of map-style pipes that measures each call. Other pipes' calls cost no more."""
    if "_is_measuring" in vars(cls):
        return cls

    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807
        return self._observer.time(cls.__getitem__, 1, self, index)

    def __getitems__(self: Any) -> Any:  # noqa: N807
        fetch = super(measuring, self).__getitems__  # AttributeError if the source of this pipe has none
        return lambda indices: self._observer.time(fetch, len(indices), indices)

    own = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    own |= {"_is_measuring": True, "__getitem__": __getitem__}
    if hasattr(cls, "__getitems__"):
        own["__getitems__"] = property(__getitems__)
    measuring = type(cls)(cls.__name__, (cls,), own)
    return measuring


def measured_steps(*chains: DataPipe) -> list[Any]:
    """Return the measured steps of chains, sources first. A data set is one step."""
    return [pipe for pipe, step in _with_steps(*chains) if pipe is step]


def times_of_steps(*chains: DataPipe) -> list[StepTimes]:
    """Return what the measured steps of chains took."""
    parts = _with_steps(*chains)
    places = {id(step): place for place, step in enumerate(pipe for pipe, step in parts if pipe is step)}
    places = {id(pipe._observer): places[id(step)] for pipe, step in parts}
    times = [_times_of(pipe, places) for pipe, step in parts if pipe is step]
    for pipe, step in parts:
        if pipe is not step:
            _add(times[places[id(pipe._observer)]], _times_of(pipe, places), but=("items",))
    return times


def _with_steps(*chains: DataPipe) -> list[tuple[Any, Any]]:
    """Return the measured pipes, sources first, each with the step that it is part of: itself, or a data set."""
    pipes: list[Any] = [pipe for pipe in sources_first(*chains) if vars(pipe).get("_observer") is not None]
    steps = {id(pipe): pipe for pipe in pipes}
    for pipe in pipes:
        if is_data_set(pipe):
            steps.update(dict.fromkeys(map(id, sources_first(*sources_of(pipe))), pipe))
    return [(pipe, steps[id(pipe)]) for pipe in pipes]


def add_up_times(chains: Iterable[list[StepTimes]], in_turn: bool = False) -> list[StepTimes]:
    """Return the times of steps, summed over equal chains: those of several shards, or `in_turn` those of one."""
    total: list[StepTimes] = []
    for steps in chains:
        if [step.name for step in steps] != [step.name for step in total[: len(steps)]]:
            total = [*steps]  # a user's function made different chains: the last one counts
            continue
        for before, step in zip(total, steps, strict=True):
            _add(before, step, but=("threads", "processes") if in_turn else ())
    return total


def _add(before: StepTimes, more: StepTimes, but: tuple[str, ...] = ()) -> None:
    for name in _SUMMED:
        if name not in but:
            setattr(before, name, getattr(before, name) + getattr(more, name))


def _times_of(pipe: Any, places: dict[int, int]) -> StepTimes:
    meter: Meter = pipe._observer
    helpers = [*meter.all_helpers()]
    everywhere = [meter, *helpers]
    kind = type(pipe).__mro__["_is_measuring" in vars(type(pipe))]
    spans = [(number, *span) for number, each in enumerate(everywhere) for span in each.spans.kept]
    name = vars(kind).get("functional_name") or kind.__name__
    arguments = f"({', '.join(arguments_of(pipe))})"
    shown_as = getattr(kind, "in_a_chain", None)
    place = places[id(meter)]
    sources: list[Any] = [source for source in sources_of(pipe) if _is_measured(source)]
    return StepTimes(
        name=name,
        label=shown_as(pipe) if shown_as else name + arguments * (len(arguments) <= _LONGEST_ARGUMENTS),
        text=shown_as(pipe) if shown_as else show_step(pipe),
        sources=sorted({places[id(source._observer)] for source in sources} - {place}),
        thread_of=None if meter.thread_of is None else places.get(id(meter.thread_of)),
        works_in=getattr(pipe, "works_in", None),
        is_cache="caches" in declared(pipe, "traits", ()),
        hint=pipe.faster,
        tuned=pipe.tuned,
        items=meter.items,
        own=meter.own / _SECOND,
        waiting=meter.waiting / _SECOND,
        retrying=sum(each.retrying for each in everywhere) / _SECOND,
        blocked=sum(each.blocked for each in everywhere) / _SECOND,
        busy=sum(each.own for each in helpers) / _SECOND,
        cpu=sum(each.cpu for each in helpers) / _SECOND,
        threads=meter.threads,
        bytes=sum(each.bytes for each in everywhere),
        capacity=meter.capacity,
        looks=meter.looks,
        ready=meter.ready,
        empty=meter.empty,
        skipped=pipe.error_policy.skipped,
        retried=pipe.error_policy.retried,
        spans=spans,
    )


def _is_measured(pipe: Any) -> bool:
    return getattr(pipe, "_observer", None) is not None
