"""Items that fail: `on_error`, and the counts of what was skipped and tried again."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, Literal, TypeVar

from .arguments import expect_whole
from .notes import add_note, describe_item
from .secrets import without_secrets

__all__ = ["Guard", "OnError", "Retry", "Skip"]

R = TypeVar("R")
ErrorTypes = type[Exception] | tuple[type[Exception], ...]

_LONGEST_WAIT = 60.0
"""Seconds that are waited at most before an item is tried again."""

_END = object()
_logger = logging.getLogger("penstock")


@dataclass(frozen=True)
class Skip:
    """What `on_error` can be: leave out the items that fail, and count them.

    After `limit` items in one pass the next error is raised; with None there is no limit. Only errors of the given
    types are skipped. `handler(error, item)` is called for each, and may raise.

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
        if self.limit is not None:
            expect_whole("limit", self.limit, least=0)
        _check_error_types(self.errors)
        if self.handler is not None:
            _check_handler(self.handler)


@dataclass(frozen=True)
class Retry:
    """What `on_error` can be: try an item up to `times` more when it fails, and count that.

    Before each new attempt a random time is waited, of up to `backoff` seconds before the first, and up to twice as
    long before each one after it, but no more than a minute. Only errors of the given types are tried again. `then` is
    what `on_error` can be when all attempts have failed: `"raise"`, `"skip"`, a `Skip` or a handler.

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
"""What an operator does about an item that fails.

`"raise"` raises the error, `"skip"` leaves the item out and counts it, `Skip` and `Retry` do so with conditions, and a
function `handler(error, item)` is called, after which the item is left out: it raises where it should not be.
"""


@dataclass
class Skipped:
    """What comes out for an item that is to be left out."""

    error: Exception
    item: Any


class Guard:
    """Carry out an operator's `on_error`, and count. The operator keeps it as its attribute `guard`.

    A function of one item is called through `wrap`, and `keep` says of each result, in order, whether it is handed out.
    One that gives many outputs for an item is called through `outputs`, which leaves out the rest of a failing item's.

    What a part of the operator tries again, which may be given up alone, has a guard of its own, `counted_by` this one.
    """

    _counted_by: Guard | None = None

    def __init__(
        self, on_error: OnError, can_skip: bool = True, can_retry: bool = True, counted_by: Guard | None = None
    ) -> None:
        self._retry = on_error if isinstance(on_error, Retry) else None
        self._skip = _as_skip("on_error", on_error.then if isinstance(on_error, Retry) else on_error)
        if self._retry is not None and not can_retry:
            raise ValueError(
                "on_error cannot be a Retry here: what was read of a stream cannot be read again; "
                "give it to the operator that opens the stream"
            )
        if self._skip is not None and not can_skip:
            raise ValueError("on_error can be 'raise' or a Retry here: an index that has no item cannot be left out")
        self._counted_by = counted_by
        self.begin()

    def begin(self, skipped: int = 0) -> None:
        """Begin a pass, in which so many items have been skipped before it was resumed."""
        self.skipped = skipped
        self.last_errors: deque[str] = deque(maxlen=10)
        self.take_up()

    def take_up(self) -> None:
        """Count attempts anew, and make them again, even where an earlier pass was given up."""
        self.retried = 0
        self._counting = threading.Lock()  # attempts are made by several threads
        self._given_up = threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        return {"_retry": self._retry, "_skip": self._skip}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.begin()

    @property
    def raises(self) -> bool:
        """Whether every error is raised at once, so that nothing needs to be wrapped."""
        return self._retry is None and self._skip is None

    @property
    def counts(self) -> bool:
        """Whether it has anything to tell: uploads are tried again by themselves."""
        return not self.raises or self.retried > 0

    @property
    def skips(self) -> bool:
        """Whether items may be left out, so that their number is not known before."""
        return self._skip is not None

    @property
    def stats(self) -> dict[str, Any]:
        """What was counted in this pass, and the last errors that were skipped, each with its item."""
        return {"skipped": self.skipped, "retried": self.retried, "last_errors": [*self.last_errors]}

    def give_up(self) -> None:
        """Let whoever waits before another attempt end soon."""
        self._given_up.set()

    def wrap(self, function: Callable[[Any], R]) -> Callable[[Any], R | Skipped]:
        """Return a function of an item that tries again, and returns a `Skipped` for an item to be left out."""
        attempt = self._trying_again(function)
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
        """Say whether a result is handed out; count it if not, and raise its error if there were too many."""
        if not isinstance(result, Skipped):
            return True
        skip, error = self._skip, result.error
        if skip is None:
            raise error
        if skip.limit is not None and self.skipped >= skip.limit:
            add_note(
                error, f"on_error: {self.skipped} items of this pass were skipped before it, and that is the limit"
            )
            raise error
        if skip.handler is not None:
            skip.handler(error, result.item)
        self.skipped += 1
        self.last_errors.append(f"{_text_of(error)}, on {describe_item(result.item)}")
        _logger.log(logging.INFO if self.skipped > 1 else logging.WARNING, "skipped: %s", self.last_errors[-1])
        return False

    def refuse(self, error: Exception, item: object) -> None:
        """Do with an item what is done where it fails for good: no other attempt would change that error."""
        if self._skip is None or not isinstance(error, self._skip.errors):
            raise error
        self.keep(Skipped(error, item))

    def outputs(self, function: Callable[[Any], Iterable[R]]) -> Callable[[Any], Iterable[R]]:
        """Return a function of an item that gives its outputs up to an error that is skipped."""
        return function if self.raises else lambda item: self._outputs(function, item)

    def _outputs(self, function: Callable[[Any], Iterable[R]], item: Any) -> Iterator[R]:
        given = 0
        outputs: Iterator[R] | None = None

        def advance(item: Any) -> Any:
            nonlocal outputs
            try:
                if outputs is None:  # at the beginning, or after an error: what had been given is not given again
                    outputs = islice(function(item), given, None)
                return next(outputs, _END)
            except Exception:
                outputs = None
                raise

        attempt: Callable[[Any], Any] = self.wrap(advance)
        while (output := attempt(item)) is not _END and self.keep(output):
            given += 1
            yield output

    def _trying_again(self, function: Callable[[Any], R]) -> Callable[[Any], R]:
        if self._retry is None:
            return function
        errors = self._retry.errors

        def attempt(item: Any) -> R:
            try:
                return function(item)  # tenacity takes longer than many functions
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
        # Only where something has failed, since importing it takes a while.
        from tenacity import Retrying, retry_if_exception_type, wait_random_exponential

        assert self._retry is not None
        times = self._retry.times
        return Retrying(
            retry=retry_if_exception_type(self._retry.errors),
            # The event is that of the pass, of which what is read by index sees several with one function.
            stop=lambda state: state.attempt_number > times or self._given_up.is_set(),
            wait=wait_random_exponential(multiplier=self._retry.backoff, max=_LONGEST_WAIT),
            sleep=self._wait,
            before_sleep=self._count_retry,
            reraise=True,
        )

    def _wait(self, seconds: float) -> None:
        self._given_up.wait(seconds)

    def _count_retry(self, attempts: object) -> None:
        with self._counting:
            self.retried += 1
        if self._counted_by is not None:
            self._counted_by._count_retry(attempts)


def _text_of(error: Exception) -> str:
    try:
        return without_secrets(f"{type(error).__name__}: {error}")
    except Exception:  # its text is made by a user's code
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
    except ValueError:  # of functions written in C nothing may be known
        pass


def _check_error_types(errors: object) -> None:
    types = errors if isinstance(errors, tuple) else (errors,)
    if not types or not all(isinstance(each, type) and issubclass(each, Exception) for each in types):
        raise TypeError(f"errors must be an exception type, or a tuple of them, and is {errors!r:.100}")
