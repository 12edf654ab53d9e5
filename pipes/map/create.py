"""Sources of map-style chains."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ...registry import T, add_error_context, functional_datapipe
from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ..bases.arguments import how_to_make
from ..bases.indexing import Fetching


@functional_datapipe(None)
class SequenceWrapper(Fetching[T]):
    """Give the items of anything that has `[…]` and `len`: a list, a dict by its keys, an array, a torch Dataset.

    Indices go to the sequence as they are: negative ones count from the end of a list. Where it has `__getitems__`,
    which reads several items at once, the pipe has it too.

    With `deepcopy` the sequence is copied once, here, so later changes do not show. A sequence that cannot be copied is
    read as is, with a warning; a memory-mapped array is read as is, since a copy would read its file.

    Raises TypeError when the sequence lacks `[…]` or `len`.

    >>> dp = SequenceWrapper("abc")
    >>> dp[1], len(dp), list(dp)
    ('b', 3, ['a', 'b', 'c'])
    """

    payload = ("sequence",)

    def __init__(self, sequence: Sequence[T] | Mapping[Any, T] | Dataset[T], deepcopy: bool = True) -> None:
        if isinstance(sequence, TorchIterDataPipe):
            hint = how_to_make(TorchMapDataPipe, sequence)
            raise TypeError(f"SequenceWrapper needs a sequence, and {type(sequence).__name__} is read in order: {hint}")
        for method in ("__getitem__", "__len__"):
            if not hasattr(type(sequence), method):  # a class itself, such as list, may have it for its instances
                if isinstance(sequence, type):
                    raise TypeError(f"SequenceWrapper needs a sequence, and {sequence.__name__} is a class: call it")
                raise TypeError(f"SequenceWrapper needs a sequence, and {type(sequence).__name__} has no {method}")
        self.sequence = _copy_of_sequence(sequence) if deepcopy else sequence
        self.deepcopy = deepcopy

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self.sequence[index]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        return self.sequence.__getitems__(indices)  # type: ignore[union-attr, no-any-return]

    def _read_from(self) -> Sequence[Any]:
        return [self.sequence]

    def __len__(self) -> int:
        return len(self.sequence)  # type: ignore[arg-type]


def _copy_of_sequence(sequence: Any) -> Any:
    if isinstance(sequence, np.memmap):
        return sequence
    try:
        return copy.deepcopy(sequence)
    except Exception as error:  # each class decides what its copying raises
        warnings.warn(
            f"{type(sequence).__name__} cannot be copied ({error!r}), so later changes to it will show; "
            "deepcopy=False accepts that",
            stacklevel=4,
        )
        return sequence
