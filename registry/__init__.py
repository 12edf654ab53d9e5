"""The base classes of pipes, the registry of operators, and their foundations."""

from ..errors.checks import expect_whole
from ..errors.closing import close
from ..errors.optional import PREPARATIONS
from ..errors.policy import ErrorPolicy, OnError, Retry, Skip
from ..errors.provenance import Provenance, ReadRows, joined_provenance
from ..state.copying import copy_of
from ..state.error_context import add_error_context, provenance_of
from ..state.fields import Tally, own
from ..state.foreign import SHARDING_PRIORITIES, DataChunk
from ..state.graph import sources_first, sources_of, walk
from ..state.header import chain_shape, check_state, header
from ..state.node import Node
from ..state.passes import require_end
from ..state.replay import Reading, SavedNodes, Throttle
from ..state.run import replace_live_iterator
from ..state.save import flatten, hand_down, load_place, node_in, place_of
from ..state.seeds import PassPath, Seeded, derive_seed, seed_graph, uniform_draws
from ..state.sources import can_capture, capture
from .base import P, R, T
from .lazy_methods import later
from .map_pipe import MapDataPipe
from .pipe import IterDataPipe
from .registration import Operator, functional_datapipe, operators
from .sharding import apply_sharding, expect_alike_sources, sharding_points

__all__ = [
    "PREPARATIONS",
    "SHARDING_PRIORITIES",
    "DataChunk",
    "ErrorPolicy",
    "IterDataPipe",
    "MapDataPipe",
    "Node",
    "OnError",
    "Operator",
    "P",
    "PassPath",
    "Provenance",
    "R",
    "ReadRows",
    "Reading",
    "Retry",
    "SavedNodes",
    "Seeded",
    "Skip",
    "T",
    "Tally",
    "Throttle",
    "add_error_context",
    "apply_sharding",
    "can_capture",
    "capture",
    "chain_shape",
    "check_state",
    "close",
    "copy_of",
    "derive_seed",
    "expect_alike_sources",
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
