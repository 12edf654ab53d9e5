"""The runner: `DataLoader2` and its reading services."""

from .actors import RayFleet
from .loader import DataLoader2
from .loader_iterator import DataLoader2Iterator, PauseIteration
from .merging import merge_state_dicts
from .options import WorkerInfo
from .ranks import DistributedReadingService, SequentialReadingService
from .seeds import SeedGenerator
from .services import InProcessReadingService, ReadingServiceInterface
from .torch_batches import iter_torch_batches
from .worker_services import MultiProcessingReadingService, RayReadingService

__all__ = [
    "DataLoader2",
    "DataLoader2Iterator",
    "DistributedReadingService",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "PauseIteration",
    "RayFleet",
    "RayReadingService",
    "ReadingServiceInterface",
    "SeedGenerator",
    "SequentialReadingService",
    "WorkerInfo",
    "iter_torch_batches",
    "merge_state_dicts",
]
