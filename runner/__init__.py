"""The runner: `DataLoader2` and its reading services."""

from .loading.iterator import DataLoader2Iterator, PauseIteration
from .loading.loader import DataLoader2
from .loading.merging import merge_state_dicts
from .loading.torch_batches import iter_torch_batches
from .on_ray.actors import RayFleet
from .options import WorkerInfo
from .ranks import DistributedReadingService, SequentialReadingService
from .seeds import SeedGenerator
from .services import InProcessReadingService, ReadingServiceInterface
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
