"""Chains as a loader reads them: those of our own iterable pipes, of map-style pipes, and of other libraries' pipes."""

from __future__ import annotations

from typing import Any

from ...pipes.iter.convert import MapToIterConverter
from ...pipes.iter.shard import ShardingFilter
from ...pipes.iter.transform import StreamMapper
from ...registry import IterDataPipe
from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe


def readable(chain: Any) -> IterDataPipe[Any]:
    """Return a chain as one of our own iterable pipes; TypeError for anything else."""
    expect_pipe(chain)
    pipe: Any = as_iterable(chain)
    # Another library's pipe resumes by reading the earlier items again.
    ours: IterDataPipe[Any] = pipe if isinstance(pipe, IterDataPipe) else StreamMapper(pipe, iter)
    return ours


def as_iterable(chain: Any) -> Any:
    """Return a chain, or the iterable chain over a map-style one's indices."""
    is_read_by_index = isinstance(chain, TorchMapDataPipe)
    return ShardingFilter(MapToIterConverter(chain)) if is_read_by_index else chain


def expect_pipe(chain: object) -> None:
    """Raise TypeError for anything but a chain of pipes."""
    if not isinstance(chain, (TorchIterDataPipe, TorchMapDataPipe)):
        raise TypeError(
            f"a DataLoader2 reads a chain of pipes, and this is of type {type(chain).__name__}: wrap a list, as in "
            "penstock.iter.IterableWrapper(items), and a data set of torch by penstock.from_torch(dataset)"
        )
