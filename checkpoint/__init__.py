"""Checkpoints: the states of models, optimizers and loaders, in one file at any URL.

>>> import penstock as ps
>>> from penstock import checkpoint
>>> def chain():
...     return ps.iter.IterableWrapper(range(6)).shuffle()
>>> loader = ps.DataLoader2(chain())
>>> running = iter(loader)
>>> begun = [next(running) for _ in range(2)]
>>> checkpoint.save("memory://run/last.pt", loader=loader, step=2)
>>> resumed = ps.DataLoader2(chain())
>>> checkpoint.load("memory://run/last.pt", loader=resumed)["step"]
2
>>> list(resumed) == list(running)
True
"""

from typing import TYPE_CHECKING, Any

from .lightning import LightningCheckpoint
from .prefixes import BinaryPrefixes, HexPrefixes, RoundRobinPrefixes
from .states import load, save

if TYPE_CHECKING:
    from .sharded import StorageReader, StorageWriter

__all__ = [
    "BinaryPrefixes",
    "HexPrefixes",
    "LightningCheckpoint",
    "RoundRobinPrefixes",
    "StorageReader",
    "StorageWriter",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import sharded  # torch.distributed.checkpoint takes seconds to import

    return getattr(sharded, name)
