"""The public names of torchdata 0.9's modules, and their replacements. Operators come from the registry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from .. import runner
from ..pipes import iter as iter_pipes
from ..pipes import map as map_pipes
from ..pipes.collect import operator_class
from ..pipes.iter import decompress
from ..pipes.iter.device import pin_memory_fn
from ..registry import DataChunk, IterDataPipe, MapDataPipe
from ..registry import functional_datapipe as register
from ..runner import graph as graph_functions
from ..runner import seeds
from . import adapter, streams

ROOTS = ("torchdata.datapipes", "torchdata.dataloader2")

NAMES: dict[str, list[str]] = json.loads(Path(__file__).with_name("names_0_9.json").read_text())
"""The public names of each public module, sorted; packages come before their submodules."""

_IMPORTS: dict[str, dict[str, str | list[Any]]] = json.loads(Path(__file__).with_name("imports_0_9.json").read_text())
"""What else could be imported from each: `module` or `module:name` where it came from, or a list of one constant."""


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable[[type], type]:
    """Register a pipe class as a method; `enable_df_api_tracing` is ignored, as it only affected tracing."""
    return register(name)


_OPERATORS = {"torchdata.datapipes.iter": iter_pipes, "torchdata.datapipes.map": map_pipes}
_SHORT_NAMES = {
    "Flatten": "Flattener",
    "HTTPReader": "HttpReader",
    "ParquetDFLoader": "ParquetDataFrameLoader",
    "Slice": "Slicer",
}
"""The names of operators that are not their long names without the ending."""

_THINGS = {
    **{
        thing.__name__: thing
        for thing in (
            *(DataChunk, IterDataPipe, MapDataPipe, functional_datapipe, pin_memory_fn, decompress.CompressionType),
            *(streams.StreamWrapper, streams.janitor, streams.to_graph, streams.validate_pathname_binary_tuple),
            *(adapter.Adapter, adapter.CacheTimeout, adapter.Shuffle),
            *(graph_functions.find_dps, graph_functions.list_dps, graph_functions.traverse_dps),
            *(graph_functions.remove_dp, graph_functions.replace_dp),
            *(seeds.SeedGenerator, seeds.dist_share_seed, seeds.set_datapipes_seed, seeds.set_graph_random_seed),
            *(runner.DataLoader2, runner.DataLoader2Iterator, runner.PauseIteration, runner.WorkerInfo),
            *(runner.DistributedReadingService, runner.InProcessReadingService, runner.MultiProcessingReadingService),
            *(runner.ReadingServiceInterface, runner.SequentialReadingService),
        )
    },
    "DataPipe": graph_functions.DataPipe,
    "DataPipeGraph": graph_functions.DataPipeGraph,
    "PrefetchTimeoutError": RuntimeError,  # which `fullsync` raises
    "PrototypeMultiProcessingReadingService": runner.MultiProcessingReadingService,
}
_IN_PLACE = {
    "CheckpointableReadingServiceInterface": ": derive the service from ReadingServiceInterface, since "
    "DataLoader2.state_dict() saves the chain's position"
}
_ERRORS = {"EmptyQueue", "InvalidStateResetRequired", "NotAvailable", "TerminateRequired"}


def replacement(module: str, name: str) -> Any:
    """Return what replaces a public name of one of torchdata's modules."""
    if name in _THINGS:
        return _THINGS[name]
    if (part := f"{module}.{name}") in NAMES:
        return import_module(part)
    if module in _OPERATORS:
        return getattr(_OPERATORS[module], name)
    if module.startswith(tuple(_OPERATORS)) and name.endswith("DataPipe"):
        short = re.sub("(Iter|Map)?DataPipe$", "", name)
        return getattr(map_pipes if name.endswith("MapDataPipe") else iter_pipes, _SHORT_NAMES.get(short, short))
    return _without_replacement(name)


def other_name(module: str, name: str) -> Any:
    """Return what one of torchdata's modules had imported, or an operator that torchdata did not have."""
    if name in _IMPORTS.get(module, ()):
        return _imported(name, _IMPORTS[module][name])
    if module not in _OPERATORS or name.startswith("_"):
        raise AttributeError(f"no {name!r} in {module}: penstock.compat has the public names of 0.9 only", name=name)
    return operator_class(_OPERATORS[module].__name__, name)


def _imported(name: str, origin: str | list[Any]) -> Any:
    if isinstance(origin, list):
        return origin[0]
    if name in _THINGS:
        return _THINGS[name]
    if origin == "typing:TypeVar":
        return TypeVar(name)
    module, _, attribute = origin.partition(":")
    if attribute.endswith("IterDataPipe") and attribute != name:
        return getattr(iter_pipes, name)
    if module.startswith("torchdata") and module not in NAMES:
        return _without_replacement(name)
    return getattr(import_module(module), attribute) if attribute else import_module(module)


@cache
def _without_replacement(name: str) -> type:
    """Return a class that a program can import and name, such as in `except`; calling it raises an error."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        advice = _IN_PLACE.get(name, "")
        raise NotImplementedError(f"{name} is a part of how torchdata worked, and Penstock works without it{advice}")

    return type(name, (Exception,) if name in _ERRORS else (), {"__new__": __new__, "__module__": __name__})
