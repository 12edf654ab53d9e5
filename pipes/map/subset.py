"""Some items of a map-style pipe, chosen by index."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from ...registry import MapDataPipe, T, functional_datapipe
from ..bases.indexing import Renumbered, from_start


@functional_datapipe("subset")
class Subset(Renumbered[T]):
    """Give the items of the source at `indices`, a sequence of integers such as a list, an array or a range.

    `dp[10:20]` and `dp[::2]` are short for it. Negative indices of the result count from its end.

    Indices are not divided among readers: put `sharding_filter` behind it. Behind a source that is divided, a reader
    may lack the keys.

    Raises TypeError for indices that are no sequence, or a mask of booleans.

    >>> dp = SequenceWrapper("abcdef").subset([4, 0])
    >>> list(dp), list(SequenceWrapper("abcdef")[1:5][::2])
    (['e', 'a'], ['b', 'd'])
    """

    payload = ("indices",)
    empty_arguments: ClassVar[dict[str, Any]] = {"indices": []}

    def __init__(self, source: MapDataPipe[T], indices: Sequence[int]) -> None:
        is_sequence = hasattr(indices, "__getitem__") and hasattr(indices, "__len__")
        if not is_sequence or isinstance(indices, (str, bytes, Mapping)):
            raise TypeError(f"indices must be a sequence of integers, such as a list or range, not {indices!r:.100}")
        if isinstance(indices, torch.Tensor):
            indices = indices.numpy()  # a tensor has no slices with negative steps
        if len(indices) and isinstance(indices[0], (bool, np.bool_)):
            raise TypeError("indices are numbers, and these are booleans: give np.flatnonzero(mask) for a mask")
        self.source = source
        self.indices: Any = indices

    def _sliced(self, part: slice) -> Subset[T]:
        return type(self)(self.source, self.indices[part])

    def _at(self, index: Any) -> int:
        return operator.index(self.indices[from_start(index, len(self.indices))])

    def __len__(self) -> int:
        return len(self.indices)
