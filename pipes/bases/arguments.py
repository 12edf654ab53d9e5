"""Argument checks shared by operator families."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...registry import expect_whole
from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe


def expect_pipes(name: str, sources: Sequence[object], kind: type) -> None:
    """Raise ValueError without sources, and TypeError for a source that is no `kind` of pipe."""
    if not sources:
        raise ValueError(f"{name} needs at least one source")
    for position, source in enumerate(sources):
        if not isinstance(source, kind):
            raise TypeError(
                f"{name} reads {kind.__name__}s, and sources[{position}] is of type {type(source).__name__}: "
                f"{how_to_make(kind, source)}"
            )


def how_to_make(kind: type, value: object) -> str:
    """Return the end of an error message: how a pipe of a kind is made of a value."""
    if issubclass(kind, TorchIterDataPipe):
        by_index = isinstance(value, TorchMapDataPipe)
        return "convert it, as in .to_iter_datapipe()" if by_index else "wrap it, as in IterableWrapper(items)"
    if isinstance(value, TorchIterDataPipe):
        return "convert it, as in .enumerate().to_map_datapipe(), or .to_map_datapipe() for pairs of a key and a value"
    return "wrap it, as in penstock.map.SequenceWrapper(items), where a dict will do for items"


def expect_batching(batch_size: int, wrapper_class: object) -> None:
    """Raise TypeError or ValueError for an invalid `batch_size`, TypeError for a class that is not callable."""
    expect_whole("batch_size", batch_size)
    if not callable(wrapper_class):
        raise TypeError(f"wrapper_class must make a batch out of a list, and is {wrapper_class!r:.100}")


def expect_indices(indices: Iterable[Any]) -> None:
    """Raise TypeError where not every pass can read the indices again."""
    if isinstance(indices, TorchIterDataPipe):
        raise TypeError("indices cannot be a pipe: write indices.map(dp.__getitem__), with dp the map-style pipe")
    if iter(indices) is indices:
        raise TypeError(
            f"indices are read by each pass, and a {type(indices).__name__} can be read only once: give a list"
        )


def expect_urls(urls: object) -> None:
    """Raise TypeError where the URLs are no sequence."""
    if isinstance(urls, (str, bytes)) or not (hasattr(urls, "__getitem__") and hasattr(urls, "__len__")):
        raise TypeError(f"urls must be a sequence of URLs, such as a list, and is {urls!r:.100}")


def expect_names(names: object, argument: str = "columns") -> None:
    """Raise TypeError unless an argument is a list of names, or None; ValueError for a duplicate name."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument} must be a list of names, and is {names!r:.100}")
    if len({*names}) < len(names):
        raise ValueError(f"{argument} has a name twice: {names!r:.100}")


def expect_weights(weights: Any, sources: int) -> None:
    """Raise TypeError unless weights are a list of numbers, ValueError unless each source has a finite one above 0."""
    try:
        if isinstance(weights, Mapping) or not hasattr(weights, "__getitem__"):
            raise TypeError
        finite = [*map(math.isfinite, weights)]
    except TypeError:
        raise TypeError(f"weights must be a list of numbers, one for each source, and is {weights!r:.100}") from None
    if len(weights) != sources:
        raise ValueError(f"there are {sources} sources, the first included, and {len(weights)} weights")
    for source, weight in enumerate(weights):
        if not finite[source] or weight <= 0:
            raise ValueError(
                f"weights must be finite and greater than 0, and weights[{source}] is {weight!r}: leave out a source "
                "that is not to be read"
            )
