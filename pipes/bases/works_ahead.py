"""Base of operators that work on many items at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from ...registry import (
    IterDataPipe,
    Provenance,
    Reading,
    own,
    provenance_of,
    say_where,
)
from ...registry.display import step
from ...registry.metering import as_step
from ...registry.notes import add_note
from ...workers.threads import Arrivals, Interrupted, Outcome

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """Works on items in the background; results go into the queue of the operator."""

    def submit(self, number: int, item: Any) -> None: ...

    def stop(self) -> None: ...


class WorksAhead(IterDataPipe[R]):
    """Base of operators that work on many items at once; each item gives one result.

    The consumer's thread reads the source. Failures, also of the source, are raised after the items before them.
    """

    holds_items = False
    ordered: bool = True
    source: IterDataPipe[Any]

    done: int = own(0, saved=False)
    """All items before this number are done."""
    done_beyond: set[int] = own(set, save=sorted)
    """The numbers of later items that are done."""
    _arrivals: Arrivals[Outcome] = own(Arrivals, saved=False)
    _provenance: Provenance | None = own(None, saved=False)

    def provenance(self) -> Provenance | None:
        return self._provenance if self._provenance is None else self._provenance.changed()

    def interrupt(self) -> None:
        super().interrupt()
        self._arrivals.put((None, None, Interrupted()))

    def __len__(self) -> int:
        if self.guard.skips:
            raise TypeError(f"{type(self).__name__} leaves out items that fail, so its length is unknown")
        return len(self.source)

    def _results(self, workers_for: Callable[[Arrivals[Outcome]], Workers], room: int) -> Iterator[R]:
        """Yield the results; the workers have at most `room` items at a time."""
        self.done_beyond = {*self.done_beyond}
        items = self.read(self.source)
        self.done = items.first
        self._move_on()
        outcomes, failures = self._outcomes(), list[Exception]()
        under_way: dict[int, tuple[Any, Provenance | None]] = {}
        if self.meter is not None:
            self.meter.room = room
        with as_step(self.meter):
            workers = workers_for(self._arrivals)
        given_up = self.guard.given_up  # that of this pass: another thread may close it when the next has begun
        try:
            for number, item in until_error(items, failures):
                if number < self.done or number in self.done_beyond:
                    continue
                under_way[number] = item, provenance_of(self.source)
                workers.submit(number, item)
                if len(under_way) == room:
                    yield from self._next(items, outcomes, under_way)
            while under_way:
                yield from self._next(items, outcomes, under_way)
        finally:
            given_up.set()
            workers.stop()
        if failures:
            raise failures.pop()

    def _outcomes(self) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Yield the outcomes in output order."""
        early: dict[int, tuple[int, Any, BaseException | None]] = {}
        while True:
            number, result, error = self._arrivals.get()
            if number is None:
                if isinstance(error, Exception):
                    add_note(error, f"penstock: raised in {step(self)}, before it was ready for items")
                raise error or Interrupted
            if not self.ordered:
                yield number, result, error
                continue
            early[number] = number, result, error
            while (outcome := early.pop(self.done, None)) is not None:
                yield outcome

    def _next(
        self,
        items: Reading[Any],
        outcomes: Iterator[tuple[int, Any, BaseException | None]],
        under_way: dict[int, tuple[Any, Provenance | None]],
    ) -> Iterator[R]:
        """Yield the next result, unless the guard drops it."""
        number, result, error = next(outcomes)
        item, provenance = under_way.pop(number)
        try:
            if isinstance(error, StopIteration):  # a generator would replace it, without naming the item
                raise RuntimeError("a function raised StopIteration, which has no meaning here") from error
            if error is not None:
                raise error
            kept = self.guard.keep(result)
        except Exception as raised:
            say_where(raised, self, item, provenance)  # name it: the source has read ahead
            raise
        self.done_beyond.add(number)
        self._move_on()
        items.keep_from(self.done)
        if kept:
            self._provenance = provenance
            yield result

    def _move_on(self) -> None:
        while self.done in self.done_beyond:
            self.done_beyond.remove(self.done)
            self.done += 1


def until_error(items: Iterable[T], failures: list[Exception]) -> Iterator[T]:
    """Yield items up to an error, which goes into `failures`."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)
