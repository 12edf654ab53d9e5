"""The base classes of pipes, the registry of operators, and what they rest on."""

from .base import IterDataPipe, MapDataPipe
from .functional import Operator, functional_datapipe, operators
from .graph import sources_of, walk
from .iteration import close
from .seeds import Seeded, derive_seed, seed_graph, uniform_draws
from .state import Node, Tally, Trail
from .torch_pipes import SHARDING_PRIORITIES, DataChunk

__all__ = [
    "SHARDING_PRIORITIES",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "Node",
    "Operator",
    "Seeded",
    "Tally",
    "Trail",
    "close",
    "derive_seed",
    "functional_datapipe",
    "operators",
    "seed_graph",
    "sources_of",
    "uniform_draws",
    "walk",
]
