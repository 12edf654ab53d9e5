"""Items that fail: `on_error`, and the counts of skipped items and retries."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from .checks import expect_whole
from .notes import add_note, describe_item
from .observer import pause_of_retry
from .secrets import without_secrets

R = TypeVar("R")
ErrorTypes = type[Exception] | tuple[type[Exception], ...]

_LONGEST_WAIT = 60.0
"""The longest wait before a retry, in seconds."""

_NO_OUTPUT = object()
_logger = logging.getLogger("penstock")


@dataclass(frozen=True)
class Skip:
    """A value of `on_error`: skip the items that fail, and count them.

    After `limit` skipped items in one pass the next error is raised; None is no limit. Only the given error types are
    skipped. `handler(error, item)` is called for each, and may raise.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error=ps.Skip(limit=10, errors=ValueError))
    >>> list(dp)
    [1, 3]
    >>> dp.stats()["map"]["skipped"]
    1
    """

    limit: int | None = None
    _: KW_ONLY
    errors: ErrorTypes = Exception
    handler: Callable[[Exception, Any], object] | None = None

    def __post_init__(self) -> None:
        expect_whole("limit", self.limit, least=0, optional=True)
        _check_error_types(self.errors)
        if self.handler is not None:
            _check_handler(self.handler)


@dataclass(frozen=True)
class Retry:
    """A value of `on_error`: retry an item that fails up to `times` times, and count the retries.

    The wait before the first retry is random, up to `backoff` seconds. The maximum doubles for each further retry, up
    to a minute. Only the given error types are retried. `then` is the `on_error` after all attempts have failed:
    `"raise"`, `"skip"`, a `Skip` or a handler.

    >>> import penstock as ps
    >>> attempts = iter(["not yet", "1"])
    >>> dp = ps.iter.IterableWrapper(["a"]).map(lambda _: int(next(attempts)), on_error=ps.Retry(3, backoff=0))
    >>> list(dp)
    [1]
    """

    times: int
    backoff: float = 0.1
    _: KW_ONLY
    errors: ErrorTypes = Exception
    then: Literal["raise", "skip"] | Skip | Callable[[Exception, Any], object] = "raise"

    def __post_init__(self) -> None:
        expect_whole("times", self.times)
        if not 0 <= self.backoff < math.inf:
            raise ValueError(f"backoff must be seconds, and is {self.backoff}")
        _check_error_types(self.errors)
        _as_skip("then", self.then)


OnError = Literal["raise", "skip"] | Skip | Retry | Callable[[Exception, Any], object]
"""How an operator handles an item that fails.

`"raise"` raises the error. `"skip"` skips the item and counts it. `Skip` and `Retry` add conditions. A function
`handler(error, item)` is called, and then the item is skipped unless the function raises.
"""


@dataclass
class Skipped:
    """The result for an item to skip."""

    error: Exception
    item: Any


class ErrorPolicy:
    """Applies an operator's `on_error`, and counts. The operator keeps it as its attribute `error_policy`.

    `wrap` is for functions with one result per item; `keep` then says of each result, in order, whether to emit it.
    `outputs` is for functions with many outputs per item; it skips the outputs after an error.

    A part of an operator that retries, and may be given up alone, has its own policy, `counted_by` this one.
    """

    _counted_by: ErrorPolicy | None = None

    def __init__(
        self, on_error: OnError, can_skip: bool = True, can_retry: bool = True, counted_by: ErrorPolicy | None = None
    ) -> None:
        self._retry = on_error if isinstance(on_error, Retry) else None
        self._skip = _as_skip("on_error", on_error.then if isinstance(on_error, Retry) else on_error)
        if self._retry is not None and not can_retry:
            raise ValueError(
                "on_error cannot be a Retry here: a stream cannot be read again; give it to the operator that opens "
                "the stream"
            )
        if self._skip is not None and not can_skip:
            raise ValueError("on_error can be 'raise' or a Retry here: an index that has no item cannot be left out")
        self.raises = self._retry is None and self._skip is None
        """Whether every error is raised immediately, so that nothing needs wrapping."""
        self.skips = self._skip is not None
        """Whether items may be skipped, so that their number is unknown in advance."""
        self._counted_by = counted_by
        self.begin()

    def begin(self, skipped: int = 0) -> None:
        """Begin a pass; `skipped` items were skipped before it was resumed."""
        self.skipped = skipped
        self.left_out = 0
        self.last_errors: deque[str] = deque(maxlen=10)
        self.take_up()

    def take_up(self) -> None:
        """Reset the count of retries, and allow retries even if an earlier pass was given up."""
        self.retried = 0
        self._counting = threading.Lock()  # several threads may retry
        self._given_up = threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("_retry", "_skip", "raises", "skips")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.begin()

    @property
    def has_counts(self) -> bool:
        """Whether it has counts to report; uploads retry even if `raises`."""
        return not self.raises or self.retried > 0 or self.left_out > 0

    @property
    def stats(self) -> dict[str, Any]:
        """The counts of this pass, and the last skipped errors, each with its item."""
        skipped = self.skipped + self.left_out
        return {"skipped": skipped, "retried": self.retried, "last_errors": [*self.last_errors]}

    @property
    def given_up(self) -> threading.Event:
        """The event set when this pass is given up."""
        return self._given_up

    def give_up(self) -> None:
        """End waits before retries."""
        self._given_up.set()

    def wrap(self, function: Callable[[Any], R]) -> Callable[[Any], R | Skipped]:
        """Return a function of an item that retries, and returns a `Skipped` for an item to skip."""
        attempt = function if self._retry is None else self._trying_again(function, self._retry.errors)
        if self._skip is None:
            return attempt
        errors = self._skip.errors

        def guarded(item: Any) -> R | Skipped:
            try:
                return attempt(item)
            except errors as error:
                return Skipped(error, item)

        return guarded

    def keep(self, result: object) -> bool:
        """Say whether to emit a result; count it if skipped, and raise its error above the limit."""
        if not isinstance(result, Skipped):
            return True
        skip, error = self._skip, result.error
        if skip is None:
            raise error
        if skip.limit is not None and self.skipped >= skip.limit:
            add_note(error, f"on_error: {self.skipped} items of this pass were skipped before, which is the limit")
            raise error
        if skip.handler is not None:
            skip.handler(error, result.item)
        self.skipped += 1
        self.last_errors.append(f"{_text_of(error)}, on {describe_item(result.item)}")
        _logger.log(logging.INFO if self.skipped > 1 else logging.WARNING, "skipped: %s", self.last_errors[-1])
        return False

    def leave_out(self, reason: str) -> None:
        """Count an item that is skipped whatever `on_error`; a resumed pass meets it again, so no state has it."""
        self.left_out += 1
        self.last_errors.append(without_secrets(reason))

    def refuse(self, error: Exception, item: object) -> None:
        """Skip an item or raise its error, without retries, which could not change the error."""
        if self._skip is None or not isinstance(error, self._skip.errors):
            raise error
        self.keep(Skipped(error, item))

    def outputs(self, function: Callable[[Any], Iterable[R]]) -> Callable[[Any], Iterable[R]]:
        """Return a function of an item that yields its outputs, up to a skipped error."""
        return function if self.raises else partial(self._outputs, function)

    def _outputs(self, function: Callable[[Any], Iterable[R]], item: Any) -> Iterator[R]:
        yielded = 0
        outputs: Iterator[R] | None = None

        def advance(item: Any) -> Any:
            nonlocal outputs
            try:
                if outputs is None:  # first call, or after an error: do not repeat earlier outputs
                    outputs = islice(function(item), yielded, None)
                return next(outputs, _NO_OUTPUT)
            except Exception:
                outputs = None
                raise

        attempt: Callable[[Any], Any] = self.wrap(advance)
        while (output := attempt(item)) is not _NO_OUTPUT and self.keep(output):
            yielded += 1
            yield output

    def _trying_again(self, function: Callable[[Any], R], errors: ErrorTypes) -> Callable[[Any], R]:
        def attempt(item: Any) -> R:
            try:
                return function(item)  # fast path: tenacity is slower than many functions
            except errors as error:
                failures = [error]

            def again(item: Any) -> R:
                if failures:
                    raise failures.pop()
                return function(item)

            output: R = self._attempts(again, item)
            return output

        return attempt

    @functools.cached_property
    def _attempts(self) -> Callable[..., Any]:
        # Imported only after a failure: the import is slow.
        from tenacity import Retrying, retry_if_exception_type, wait_random_exponential

        assert self._retry is not None
        times = self._retry.times
        return Retrying(
            retry=retry_if_exception_type(self._retry.errors),
            # Read the event here: it changes per pass, and map-style pipes use one function for several passes.
            stop=lambda state: state.attempt_number > times or self._given_up.is_set(),
            wait=wait_random_exponential(multiplier=self._retry.backoff, max=_LONGEST_WAIT),
            sleep=self._wait,
            before_sleep=self._count_retry,
            reraise=True,
        )

    def _wait(self, seconds: float) -> None:
        pause_of_retry(partial(self._given_up.wait, seconds))

    def _count_retry(self, attempts: object) -> None:
        with self._counting:
            self.retried += 1
        if self._counted_by is not None:
            self._counted_by._count_retry(attempts)


def _text_of(error: Exception) -> str:
    try:
        return without_secrets(f"{type(error).__name__}: {error}")
    except Exception:  # user code makes the text
        return type(error).__name__


def _as_skip(name: str, on_error: object) -> Skip | None:
    if on_error == "raise":
        return None
    if on_error == "skip":
        return Skip()
    if isinstance(on_error, Skip):
        return on_error
    if callable(on_error) and not isinstance(on_error, type):
        return Skip(handler=on_error)
    raise ValueError(
        f"{name} must be 'raise', 'skip', Skip(…), {'Retry(…) ' if name == 'on_error' else ''}"
        f"or a function of an error and an item, and is {on_error!r:.100}"
    )


def _check_handler(handler: Callable[..., object]) -> None:
    if not callable(handler):
        raise TypeError(f"handler must be a function of an error and an item, and is {handler!r:.100}")
    try:
        inspect.signature(handler).bind(Exception(), object())
    except TypeError as error:
        raise TypeError(
            f"a handler is called with an error and an item, and {handler!r:.100} cannot be: {error}"
        ) from None
    except ValueError:  # functions written in C may have no signature
        pass


def _check_error_types(errors: object) -> None:
    types = errors if isinstance(errors, tuple) else (errors,)
    if not types or not all(isinstance(each, type) and issubclass(each, Exception) for each in types):
        raise TypeError(f"errors must be an exception type, or a tuple of them, and is {errors!r:.100}")
