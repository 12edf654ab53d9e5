"""Call a function that draws random numbers on items."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from ...registry import IterDataPipe, OnError, Seeded, derive_seed, own
from ..bases.input_columns import Columns, replacing_columns
from ..bases.one_to_one import OneToOne

__all__ = ["RandomMapper"]

R = TypeVar("R")
Rng = bool | Literal["numpy"]


class RandomMapper(Seeded, OneToOne[R]):
    """Yield `fn(item, rng)` for each item: the pipe that `map(fn, rng=True)` makes.

    Each item has a generator of its own, seeded by the seed of the pass and the number of the item in it.
    """

    functional_name = "map"
    gives = "same"
    resumes_from_start = False
    begun: int = own(0)
    """The number of items read in this pass."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns | None = None,
        output_col: Hashable | None = None,
        *,
        rng: Rng,
        on_error: OnError = "raise",
    ) -> None:
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.output_col = output_col
        self.rng = rng
        self.handle_errors(on_error)

    def _function(self) -> Callable[[Any], Any]:
        return replacing_columns(self._drawing, self.input_col, self.output_col)

    def _drawing(self, *columns: Any) -> Any:
        seed = derive_seed(self.pass_seed, self.begun)
        if self.rng == "numpy":
            return self.fn(*columns, np.random.default_rng(seed))
        return self.fn(*columns, torch.Generator().manual_seed(seed))

    def __iter__(self) -> Iterator[R]:
        function: Callable[[Any], Any] = self.error_policy.wrap(self._function())
        for item in self.source:
            self.begun += 1
            result = function(item)
            if self.error_policy.keep(result):
                yield result
