"""The base classes of pipes, the registry of operators, and their foundations."""

from .arguments import expect_whole
from .base import IterDataPipe, MapDataPipe
from .copying import PREPARATIONS, copy_of
from .errors import Guard, OnError, Retry, Skip
from .functional import Operator, functional_datapipe, later, operators
from .graph import sources_first, sources_of, walk
from .iteration import replace_live_iterator, require_end
from .notes import add_error_context
from .own import Tally, own
from .provenance import Provenance, ReadRows, joined_provenance, provenance_of
from .reading import Node, Pace, Reading, can_capture, capture, close
from .seeds import Path, Seeded, derive_seed, seed_graph, uniform_draws
from .sharding import apply_sharding, sharding_points
from .splitter import Splitter
from .state import chain_shape, check_state, flatten, hand_down, header, load_place, node_in, place_of
from .torch_pipes import SHARDING_PRIORITIES, DataChunk

__all__ = [
    "PREPARATIONS",
    "SHARDING_PRIORITIES",
    "DataChunk",
    "Guard",
    "IterDataPipe",
    "MapDataPipe",
    "Node",
    "OnError",
    "Operator",
    "Pace",
    "Path",
    "Provenance",
    "ReadRows",
    "Reading",
    "Retry",
    "Seeded",
    "Skip",
    "Splitter",
    "Tally",
    "add_error_context",
    "apply_sharding",
    "can_capture",
    "capture",
    "chain_shape",
    "check_state",
    "close",
    "copy_of",
    "derive_seed",
    "expect_whole",
    "flatten",
    "functional_datapipe",
    "hand_down",
    "header",
    "joined_provenance",
    "later",
    "load_place",
    "node_in",
    "operators",
    "own",
    "place_of",
    "provenance_of",
    "replace_live_iterator",
    "require_end",
    "seed_graph",
    "sharding_points",
    "sources_first",
    "sources_of",
    "uniform_draws",
    "walk",
]
