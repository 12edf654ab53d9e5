"""The runner: `DataLoader2` and its reading services."""

from .loader import DataLoader2
from .seeds import SeedGenerator
from .services import InProcessReadingService, MultiProcessingReadingService, ReadingServiceInterface
from .worker import WorkerInfo

__all__ = [
    "DataLoader2",
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "ReadingServiceInterface",
    "SeedGenerator",
    "WorkerInfo",
]
