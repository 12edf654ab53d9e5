"""The public names of torchdata's old modules, and their replacements. Operators come from the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from .. import runner
from ..pipes import iter as iter_pipes
from ..pipes import map as map_pipes
from ..pipes.collect import operator_class
from ..pipes.iter.device import pin_memory_fn
from ..registry import DataChunk, IterDataPipe, MapDataPipe
from ..registry import functional_datapipe as register
from ..registry import graph as graph_functions
from ..runner import seeds
from . import adapter, services, streams

__all__ = ["FACES", "ROOTS", "Face"]

ROOTS = ("torchdata.datapipes", "torchdata.dataloader2")


@dataclass(frozen=True)
class Face:
    """The names of one module, and a lookup for all others."""

    names: Callable[[], Mapping[str, Any]]
    later: Callable[[str], Any] | None = None


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable[[type], type]:
    """Register a pipe class as a method; `enable_df_api_tracing` is ignored, as it only affected tracing."""
    return register(name)


def _operators(package: ModuleType, base: type) -> Face:
    """The operator classes of a kind, including those of plug-ins and the program, and the base class."""
    kind = package.__name__

    def names() -> Mapping[str, Any]:
        return {**{name: getattr(package, name) for name in package.__all__}, base.__name__: base}

    def later(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"no {name!r} in penstock.compat, which has the public names only", name=name)
        return operator_class(kind, name)

    return Face(names, later)


def _these(*things: Any, **others: Any) -> Face:
    return Face(partial(dict, **{thing.__name__: thing for thing in things}, **others))


def _all_of(module: ModuleType, *names: str) -> Face:
    return _these(**{name: getattr(module, name) for name in names or module.__all__})


_SERVICES = (
    runner.DistributedReadingService,
    runner.InProcessReadingService,
    runner.MultiProcessingReadingService,
    runner.ReadingServiceInterface,
    runner.SequentialReadingService,
    services.CheckpointableReadingServiceInterface,
)
_PROTOTYPE = {"PrototypeMultiProcessingReadingService": runner.MultiProcessingReadingService}
_LOADER = (runner.DataLoader2, runner.DataLoader2Iterator)
_EMPTY = Face(dict)

FACES: dict[str, Face] = {
    "torchdata.datapipes": _these(DataChunk, functional_datapipe),
    "torchdata.datapipes.iter": _operators(iter_pipes, IterDataPipe),
    "torchdata.datapipes.iter.load": _EMPTY,
    "torchdata.datapipes.iter.transform": _EMPTY,
    "torchdata.datapipes.iter.util": _EMPTY,
    "torchdata.datapipes.map": _operators(map_pipes, MapDataPipe),
    "torchdata.datapipes.map.load": _EMPTY,
    "torchdata.datapipes.map.transform": _EMPTY,
    "torchdata.datapipes.map.util": _EMPTY,
    "torchdata.datapipes.utils": _these(streams.StreamWrapper, streams.janitor, streams.to_graph, pin_memory_fn),
    "torchdata.dataloader2": _these(*_SERVICES, *_LOADER, runner.PauseIteration, services.ShuffleSpec, **_PROTOTYPE),
    "torchdata.dataloader2.adapter": _all_of(adapter),
    "torchdata.dataloader2.dataloader2": _these(*_LOADER),
    "torchdata.dataloader2.error": _these(runner.PauseIteration),
    "torchdata.dataloader2.graph": _these(
        graph_functions.find_dps,
        graph_functions.list_dps,
        graph_functions.remove_dp,
        graph_functions.replace_dp,
        graph_functions.traverse_dps,
        seeds.set_datapipes_seed,
        seeds.set_graph_random_seed,
        DataPipe=graph_functions.DataPipe,
        DataPipeGraph=graph_functions.DataPipeGraph,
    ),
    "torchdata.dataloader2.random": _these(seeds.SeedGenerator, seeds.dist_share_seed),
    "torchdata.dataloader2.reading_service": _these(*_SERVICES, **_PROTOTYPE),
    "torchdata.dataloader2.shuffle_spec": _these(services.ShuffleSpec),
    "torchdata.dataloader2.utils": _these(runner.WorkerInfo),
}
"""Module name → face, sorted: packages come before their submodules."""
