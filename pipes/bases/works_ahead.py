"""Many items worked on at once: what the operators that do are built on."""

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
from ...registry.notes import add_note
from ...workers.threads import Arrivals, Interrupted, Outcome

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """Works on items in the background, and puts each result into the queue of its operator."""

    def submit(self, number: int, item: Any) -> None: ...

    def stop(self) -> None: ...


class WorksAhead(IterDataPipe[R]):
    """The base of operators that have many items worked on at once, of which each becomes one other.

    The source is read in the thread of the consumer. Failures, the source's too, are raised in their turn, after the
    items before them.
    """

    holds_items = False
    ordered: bool = True
    source: IterDataPipe[Any]

    done: int = own(0, saved=False)
    """All items before this number are done with."""
    done_beyond: set[int] = own(set, save=sorted)
    """The numbers of the items after it that are done with."""
    _arrivals: Arrivals[Outcome] = own(Arrivals, saved=False)
    _provenance: Provenance | None = own(None, saved=False)

    def provenance(self) -> Provenance | None:
        return self._provenance if self._provenance is None else self._provenance.changed()

    def interrupt(self) -> None:
        super().interrupt()
        self._arrivals.put((None, None, Interrupted()))

    def __len__(self) -> int:
        if self.guard.skips:
            raise TypeError(f"{type(self).__name__} leaves out items that fail, so its length is not known")
        return len(self.source)

    def _results(self, workers_for: Callable[[Arrivals[Outcome]], Workers], room: int) -> Iterator[R]:
        """Yield the results; the workers have no more items at a time than there is room for."""
        self.done_beyond = {*self.done_beyond}
        items = self.read(self.source)
        self.done = items.first
        self._move_on()
        outcomes, failures = self._outcomes(), list[Exception]()
        under_way: dict[int, tuple[Any, Provenance | None]] = {}
        workers = workers_for(self._arrivals)
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
            self.guard.give_up()
            workers.stop()
        if failures:
            raise failures.pop()

    def _outcomes(self) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Yield the outcomes in the order in which the operator hands them out."""
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
        """Hand out the next result, if it is one to be handed out."""
        number, result, error = next(outcomes)
        item, provenance = under_way.pop(number)
        try:
            if isinstance(error, StopIteration):  # out of a generator it would come without a word on the item
                raise RuntimeError("a function raised StopIteration, which says nothing here") from error
            if error is not None:
                raise error
            kept = self.guard.keep(result)
        except Exception as raised:
            say_where(raised, self, item, provenance)  # the newest item of the source is another
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
    """Yield items up to an error, which is kept for later."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)
