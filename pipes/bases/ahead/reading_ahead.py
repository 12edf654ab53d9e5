"""A thread that reads a source ahead of its consumer."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....errors.observer import here
from ....registry import IterDataPipe, MapDataPipe, walk
from ....state.graph import is_one_of_several
from ....workers.reading import Reader


def reader_of(source: IterDataPipe[Any], capacity: int) -> Reader[Any]:
    """Return a thread, not yet started, to read the items of a source up to `capacity` items ahead."""
    if here.observer is not None:
        here.observer.reads_ahead, here.observer.capacity = True, capacity
    return Reader(capacity, "penstock-prefetch", partial(_interrupt, source))


def _interrupt(source: IterDataPipe[Any]) -> None:
    # Others may still read what is behind a branch, and an exhausted source may be read again.
    for pipe in walk(source, stop=is_one_of_several):
        if isinstance(pipe, (IterDataPipe, MapDataPipe)):
            pipe.interrupt()
