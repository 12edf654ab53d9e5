"""One item in, one result out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...registry import MapDataPipe, OnError, R, T, add_error_context, functional_datapipe
from ..bases.indexing import Fetching
from ..bases.input_columns import as_it_is, check_function


@functional_datapipe("map")
class Mapper(Fetching[R]):
    """Give fn(item) for each item, computed on each access.

    Indices and keys, negative ones included, go to the source as they are. `on_error` is `"raise"` or a `Retry`: items
    read by index cannot be left out.

    >>> dp = SequenceWrapper(range(3)).map(lambda x: x * 10)
    >>> dp[2], list(dp)
    (20, [0, 10, 20])
    """

    gives = "same"

    def __init__(
        self,
        source: MapDataPipe[T],
        fn: Callable[[T], R] = as_it_is,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("fn", fn)
        self.source: MapDataPipe[Any] = source
        self.fn = fn
        self.handle_errors(on_error, can_skip=False)

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self._call(self.source[index])
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[R]:
        results: list[R] = []
        items = self.source.__getitems__(indices)  # type: ignore[attr-defined]
        try:
            for item in items:
                results.append(self._call(item))
        except Exception as error:
            add_error_context(error, self, indices[len(results)])
            raise
        return results

    @functools.cached_property
    def _call(self) -> Callable[[Any], R]:
        function: Callable[[Any], Any] = self.error_policy.wrap(self.fn)
        return function

    def __len__(self) -> int:
        return len(self.source)
