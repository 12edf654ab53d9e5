"""Information on a chain and its steps, known before anything is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..pipes.bases.progress_bar import known_length
from ..registry.traits import IN_BYTES, Trait, buffers_of, is_endless
from ..state.foreign import TorchMapDataPipe, declares
from ..state.graph import DataPipe, is_one_of_several, sources_first, sources_of
from ..state.seeds import Seeded


@dataclass(frozen=True)
class ReadPlan:
    """The way a loader reads a chain."""

    workers: int = 0
    """The number of worker processes or actors on each rank; 0 reads in the program's own process."""
    shards: int = 1
    """The number of shards over all ranks."""
    ahead_in_each_worker: int = 0
    """The number of items that each worker reads ahead."""
    ahead_in_main: int = 0
    """The number of items that the main process reads ahead."""
    ranks: int = 1
    """The number of ranks that share the chain."""
    may_repeat: bool = False
    """Each shard may read the whole of a chain that is not divided."""
    worker: str = "process"
    """The kind of worker: "process" or "actor"."""

    @property
    def readers(self) -> int:
        """The number of readers over all ranks."""
        return self.ranks * max(self.workers, 1)

    @property
    def workers_in_words(self) -> str:
        """The workers of a rank, such as "2 worker processes"."""
        plural = "" if self.workers == 1 else "es" if self.worker == "process" else "s"
        return f"{self.workers} worker {self.worker}{plural}"


class StepInfo:
    """A step of a chain, as its class and its arguments declare it. As text, it is its name."""

    def __init__(self, pipe: Any, sources: Sequence[StepInfo] = ()) -> None:
        kind = type(pipe)
        self.pipe = pipe
        self.attributes: dict[str, Any] = vars(pipe)
        self.sources = [*sources]
        self.readers: list[StepInfo] = []
        self.method = _method_of(pipe)
        """Its method, or its class, as it is written."""
        self.name = self.method
        """Its method with a number, from the source on, where several steps have the same."""
        self.traits = frozenset[Trait](getattr(kind, "traits", ()))
        self.is_branch = is_one_of_several(pipe)
        self.is_map_style = isinstance(pipe, TorchMapDataPipe)
        self.is_random: bool = isinstance(pipe, Seeded) and pipe.is_random
        """It draws random numbers. A shuffle that is switched off does not."""
        self.is_ordered = self.attributes.get("ordered") is not False and not self.attributes.get("non_deterministic")
        """A seed fixes its order. It does not if items come as they are ready."""
        self.is_sharding_point = hasattr(kind, "apply_sharding")
        self.dispatches: bool = getattr(kind, "dispatches", False)
        """One process reads the steps before it, for all shards."""
        self.in_main_process: bool = getattr(kind, "in_main_process", False)
        """It runs in the process that uses the items, even if workers read."""
        self.works_in: str | None = getattr(pipe, "works_in", None)
        """"a thread", "threads", "processes" or "actors", if it does not work in its reader's thread."""
        self.buffers = buffers_of(pipe)
        """The parameters that bound how much it buffers, each with its argument; None is unbounded."""
        self.unit: str = getattr(kind, "buffered", "items")
        """The unit of `max_buffered`."""
        self.gives: str | None = getattr(pipe, "gives", None)
        """"rows", "batches" of columns or the "same" as its sources; None if unknown."""
        self.passes_items = self.gives == "same" and declares(pipe, "keeps_schema") and bool(pipe.keeps_schema)
        """Its items are those of its sources, unchanged."""
        self.reads_stream_by_index = self.is_map_style and not all(source.is_map_style for source in sources)
        """It is read by index, and reads a stream for that."""
        self.is_endless: bool = is_endless(pipe, [source.is_endless for source in sources])
        """It is known to give items for ever."""
        self._has_cheap_length: bool = not self.reads_stream_by_index and (
            self.has_trait("sets_length") or all(source._has_cheap_length for source in sources)
        )

    def __str__(self) -> str:
        return self.name

    def has_trait(self, *traits: Trait) -> bool:
        """Say whether a step has one of these traits."""
        return not self.traits.isdisjoint(traits)

    @property
    def shuffles(self) -> bool:
        """It shuffles, and is not switched off."""
        return self.has_trait("shuffles") and self.is_random

    @cached_property
    def max_buffered(self) -> int | None:
        """The most that it buffers, in `unit`: 0 without buffers, None if only bytes bound it, or nothing."""
        most: int | None = self.pipe.most_held() if declares(self.pipe, "most_held") else 0
        return most

    @property
    def max_bytes(self) -> int | None:
        """The most bytes that it buffers, where a parameter bounds them."""
        bounds = [int(bound * IN_BYTES[name]) for name, bound in self.buffers.items() if bound and name in IN_BYTES]
        return min(bounds, default=None)

    @property
    def starts_again(self) -> bool:
        """A resumed pass over it runs again from its start."""
        if not getattr(self.pipe, "resumes_from_start", False):
            return False
        iterate = getattr(type(self.pipe).__iter__, "__wrapped__", type(self.pipe).__iter__)
        # What reads its source by `outputs_of_each` resumes near the last item.
        return "outputs_of_each" not in getattr(getattr(iterate, "__code__", None), "co_names", ())

    @property
    def skips_failures(self) -> bool:
        """It leaves out items that fail."""
        return declares(self.pipe, "error_policy") and self.pipe.error_policy.skips

    @cached_property
    def length(self) -> int | None:
        """The number of its items; None if it is unknown before they are read."""
        return known_length(self.pipe) if self._has_cheap_length else None

    @property
    def source(self) -> StepInfo | None:
        """Its first source."""
        return self.sources[0] if self.sources else None

    @property
    def source_length(self) -> int | None:
        """The number of items of its first source, if known."""
        return self.sources[0].length if self.sources else None

    def above(self, stop: Callable[[StepInfo], bool] = lambda step: False) -> Iterator[StepInfo]:
        """Yield all that a step reads from, branch by branch, and nothing behind steps for which `stop` is true."""
        return _walk(self, lambda step: [] if stop(step) else step.sources)

    def below(self) -> Iterator[StepInfo]:
        """Yield all steps that read from a step, also through others, branch by branch."""
        return _walk(self, lambda step: step.readers)

    def line(self) -> Iterator[StepInfo]:
        """Yield the steps that a step reads from, nearest first, as long as each has one source."""
        step = self
        while len(step.sources) == 1:
            [step] = step.sources
            yield step

    def maker(self) -> StepInfo:
        """Return the step that made the items which a step gives: others on the way pass them on unchanged."""
        step = self
        while step.passes_items and len(step.sources) == 1:
            [step] = step.sources
        return step

    def read_by_every_shard(self) -> list[StepInfo]:
        """Return the steps before a sharding point that each shard runs on all items, nearest first."""
        if self.dispatches:
            return []
        reached = self.above(stop=lambda step: step.is_map_style and not step.reads_stream_by_index)
        return [step for step in reached if not step.is_map_style]


class ChainInfo:
    """The steps of a chain, sources first, and the plan by which a loader reads it, if one does."""

    def __init__(
        self, end: DataPipe, plan: ReadPlan | None = None, stop: Callable[[DataPipe], bool] = lambda pipe: False
    ) -> None:
        steps: dict[int, StepInfo] = {}
        for pipe in sources_first(end, stop=stop):
            sources = [] if stop(pipe) else sources_of(pipe)
            step = steps[id(pipe)] = StepInfo(pipe, [steps[id(source)] for source in sources])
            for source in step.sources:
                source.readers.append(step)
        self.steps = [*steps.values()]
        self.end = self.steps[-1]
        self.plan = plan
        self.sharding_points = [step for step in self.steps if step.is_sharding_point]
        uses, seen = Counter(step.method for step in self.steps), Counter[str]()
        for step in self.steps:
            seen[step.method] += 1
            if uses[step.method] > 1:
                step.name = f"{step.method} {seen[step.method]}"

    def with_trait(self, *traits: Trait) -> Iterator[StepInfo]:
        """Yield the steps that have one of these traits."""
        return (step for step in self.steps if step.has_trait(*traits))

    def in_main_process(self) -> list[StepInfo]:
        """Return the steps from the first that must run in the main process on, where loaders cut the chain."""
        line = [self.end, *self.end.line()]
        last = max((place + 1 for place, step in enumerate(line) if step.in_main_process), default=0)
        return line[:last][::-1]


def first(steps: Iterable[StepInfo], *traits: Trait) -> StepInfo | None:
    """Return the first of some steps that has one of these traits."""
    return next((step for step in steps if step.has_trait(*traits)), None)


def never_ends(chain: DataPipe) -> bool:
    """Say whether a chain is known to give items for ever."""
    return ChainInfo(chain).end.is_endless


def _walk(start: StepInfo, following: Callable[[StepInfo], list[StepInfo]]) -> Iterator[StepInfo]:
    """Yield the steps that follow a step, also through others, depth first, each once."""
    seen, waiting = {start}, following(start)[::-1]
    while waiting:
        step = waiting.pop()
        if step not in seen:
            seen.add(step)
            yield step
            waiting += reversed(following(step))


def _method_of(pipe: Any) -> str:
    if is_one_of_several(pipe):
        return f"{_method_of(pipe.source)}[{pipe.number}]"
    # Not inherited: a subclass is another operator.
    return vars(type(pipe)).get("functional_name") or type(pipe).__name__
