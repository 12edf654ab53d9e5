"""Penstock: small, composable DataPipes for PyTorch.

>>> import penstock as ps
>>> dp = ps.iter.IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).map(lambda x: x * x).batch(2)
>>> list(dp)
[[0, 4], [16, 36], [64]]
"""

from pathlib import Path as _Path

# In the source tree the rooms lie beside this folder, not in it. There it is read before an installed penstock.
if not (_Path(__file__).parent / "registry").is_dir():
    __path__.append(str(_Path(__file__).parents[1]))

from . import checkpoint
from .pipes import iter, map
from .pipes.file_sources import read_images, read_numpy, read_text
from .pipes.iter.ray_data import from_ray_dataset
from .pipes.schema import schema
from .pipes.sources import read_csv, read_ipc, read_json, read_orc, read_parquet
from .pipes.table_sources import from_arrow, from_items, from_numpy, from_pandas, from_torch
from .registry import IterDataPipe, MapDataPipe, Retry, Seeded, Skip, Tally, check_operator, functional_datapipe, own
from .runner import (
    DataLoader2,
    DistributedReadingService,
    InProcessReadingService,
    MultiProcessingReadingService,
    RayFleet,
    RayReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    iter_torch_batches,
    merge_state_dicts,
)
from .runner.ray_data import to_ray_dataset

__all__ = [
    "DataLoader2",
    "DistributedReadingService",
    "InProcessReadingService",
    "IterDataPipe",
    "MapDataPipe",
    "MultiProcessingReadingService",
    "RayFleet",
    "RayReadingService",
    "ReadingServiceInterface",
    "Retry",
    "Seeded",
    "SequentialReadingService",
    "Skip",
    "Tally",
    "check_operator",
    "checkpoint",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "from_ray_dataset",
    "from_torch",
    "functional_datapipe",
    "iter",
    "iter_torch_batches",
    "map",
    "merge_state_dicts",
    "own",
    "read_csv",
    "read_images",
    "read_ipc",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_text",
    "schema",
    "to_ray_dataset",
]
