"""Select items."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ...errors.notes import notes_of
from ...errors.secrets import without_secrets
from ...registry import (
    IterDataPipe,
    OnError,
    Skip,
    T,
    Tally,
    expect_whole,
    functional_datapipe,
    own,
    require_end,
)
from ..bases.input_columns import Columns, check_function, taking_columns
from ..bases.one_to_one import SameItems

_logger = logging.getLogger("penstock")


@functional_datapipe("filter")
class Filter(SameItems[T]):
    """Yield the items for which `filter_fn(item)` is true.

    The truth of the result counts, as for the builtin `filter`: NumPy bools and tensors of one element work too. With
    `input_col`, an index or key or a list of them, `filter_fn` takes these columns as arguments; the complete item is
    yielded. `on_error` handles an item for which `filter_fn` raises.

    Raises TypeError for a `filter_fn` that is not callable, and ValueError for one that does not take that many
    columns.

    >>> dp = IterableWrapper(range(6)).filter(lambda x: x % 2 == 0)
    >>> list(dp)
    [0, 2, 4]
    >>> list(IterableWrapper([("a", 1), ("b", 5)]).filter(lambda x: x > 3, input_col=1))
    [('b', 5)]
    """

    traits = ("drops",)
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[T],
        filter_fn: Callable[..., Any],
        input_col: Columns | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("filter_fn", filter_fn, input_col)
        self.source = source
        self.filter_fn = filter_fn
        self.input_col = input_col
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[T]:
        test = taking_columns(self.filter_fn, self.input_col)
        # An error of bool() is a failure too; where errors are raised, the builtin filter calls bool().
        function = (
            test if self.error_policy.raises else self._tested(self.error_policy.wrap(lambda item: bool(test(item))))
        )
        if isinstance(self.source, IterDataPipe):
            return filter(function, self.source)
        # Other libraries' pipes cannot report to `at_end`; a generator turns a StopIteration into an error.
        return (item for item in self.source if function(item))

    def _tested(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if not self.error_policy.skips:
            return function
        keep = self.error_policy.keep
        return lambda item: keep(result := function(item)) and result

    def at_end(self) -> None:
        require_end(self.source)


@functional_datapipe("header")
class Header(SameItems[T]):
    """Yield the first `limit` items, or all if it is None. No item after them is pulled.

    `len` is exact, so it raises TypeError where the length of the source is unknown.

    >>> dp = IterableWrapper(range(10)).header(3)
    >>> list(dp)
    [0, 1, 2]
    """

    traits = ("limits",)
    resumes_from_start = False
    given: Tally = own(Tally)

    def __init__(self, source: IterDataPipe[T], limit: int | None = 10) -> None:
        expect_whole("limit", limit, least=0, optional=True)
        self.source = source
        self._limit = limit  # `limit` would hide the method

    def __iter__(self) -> Iterator[T]:
        left = None if self._limit is None else max(self._limit - self.given.items, 0)
        return self.given.follow(islice(self.source, left))

    def __len__(self) -> int:
        length = len(self.source)
        return length if self._limit is None else min(length, self._limit)


@functional_datapipe("until_error")
class ErrorStopper(SameItems[T]):
    """Yield items until a step before fails, and end there, with a warning in the log of `penstock`.

    Take it where the rest of a stream is worth nothing once something has failed; `on_error="skip"` of a step leaves
    out the items that fail, and goes on. `errors` are the types of error that end the stream: an exception type, or a
    tuple of them. All others are raised. In a `DataLoader2`, each shard ends by itself.

    Raises TypeError for `errors` that are no exception types.

    >>> dp = IterableWrapper(["1", "2", "x", "4"]).map(int).until_error(ValueError)
    >>> list(dp)
    [1, 2]
    """

    resumes_from_start = False

    def __init__(
        self, source: IterDataPipe[T], errors: type[Exception] | tuple[type[Exception], ...] = Exception
    ) -> None:
        Skip(errors=errors)  # raises TypeError
        self.source = source
        self.errors = errors
        self.handle_errors("raise")  # it counts the error

    def __iter__(self) -> Iterator[T]:
        try:
            yield from self.source
        except self.errors as error:
            text = without_secrets("\n".join([f"{type(error).__name__}: {error}", *notes_of(error)]))
            self.error_policy.leave_out(text)
            _logger.warning("the stream ends at an error: %s", text)
