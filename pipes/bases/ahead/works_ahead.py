"""Base of operators that work on many items at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ....errors.checks import MOST_AHEAD
from ....errors.notes import add_note
from ....registry import IterDataPipe, Provenance, R, Reading, T, add_error_context, own, provenance_of
from ....state.step_text import step_text
from ....workers.processes import processors
from ....workers.threads import Arrivals, Interrupted, Outcome
from .tuning import FIRST_ROOM, FIRST_WORKERS, Setting, Tuner


class Workers(Protocol):
    """Works on items in the background: threads, which may call processes or actors, or an event loop."""

    arrivals: Arrivals[Outcome]
    """The results, as they are ready."""

    def submit(self, number: int, item: Any) -> None: ...

    def stop(self) -> None: ...


class WorksAhead(IterDataPipe[R]):
    """Base of operators that work on many items at once; each item gives one result.

    The consumer's thread reads the source. Failures, also of the source, are raised after the items before them.
    """

    resumes_from_start = False
    ordered: bool = True
    source: IterDataPipe[Any]
    _at_once: Setting
    """How many workers there are."""
    _room: Setting
    """How many items they have at most."""

    done: int = own(0, saved=False)
    """All items before this number are done."""
    done_beyond: set[int] = own(set, save=sorted)
    """The numbers of later items that are done."""
    _arrivals: Arrivals[Outcome] | None = own(None, saved=False)
    _provenance: Provenance | None = own(None, saved=False)

    def _provenance_of(self, item: Any) -> Provenance | None:
        """Return the files and rows of an item that was just read from the source."""
        return provenance_of(self.source)

    def provenance(self) -> Provenance | None:
        return self._provenance if self._provenance is None else self._provenance.changed()

    def _set_concurrency(self, workers: tuple[str, Any, int], room: tuple[str, Any], may_shrink: bool = True) -> None:
        """Set how many workers there are, and how many items they have; a tuner finds what is "auto".

        `workers` are the parameter, its argument and the most workers; `room` the parameter and its argument.
        """
        name, number, most = workers
        self._at_once = Setting.of(name, number, min(FIRST_WORKERS, processors()), most)
        self._room = Setting.of(*room, FIRST_ROOM * self._at_once.value, MOST_AHEAD)
        if self._at_once.is_open or self._room.is_open:
            owner = self.functional_name or type(self).__name__
            self.tuner = Tuner(owner, self._at_once, self._room, may_shrink=may_shrink)

    def most_held(self) -> int:
        return self._room.most

    def interrupt(self) -> None:
        super().interrupt()
        if self._arrivals is not None:
            self._arrivals.put((None, None, Interrupted()))

    def __len__(self) -> int:
        self._expect_no_skips()
        return len(self.source)

    def _results(self, workers: Workers) -> Iterator[R]:
        """Yield the results of the items of the source."""
        self.done_beyond = {*self.done_beyond}
        items = self.read(self.source)
        self.done = items.first
        self._move_on()
        self._arrivals = workers.arrivals  # not the workers, which refer to the operator
        outcomes, failures, room = self._outcomes(workers.arrivals), list[Exception](), self._room
        under_way: dict[int, tuple[Any, Provenance | None]] = {}
        if self._observer is not None:
            self._observer.capacity = room.value
        if self.tuner is not None:
            at_work: Any = workers
            outcomes = self.tuner.follow(outcomes, lambda: at_work.idle, lambda most, _: at_work.resize(most))
        given_up = self.error_policy.given_up  # that of this pass: another thread may close it when the next has begun
        try:
            for number, item in until_error(items, failures):
                if number < self.done or number in self.done_beyond:
                    continue
                under_way[number] = item, self._provenance_of(item)
                workers.submit(number, item)
                while len(under_way) >= room.value:
                    yield from self._next(items, outcomes, under_way)
            while under_way:
                yield from self._next(items, outcomes, under_way)
        finally:
            given_up.set()
            workers.stop()
        if failures:
            raise failures.pop()

    def _outcomes(self, arrivals: Arrivals[Outcome]) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Yield the outcomes in output order."""
        early: dict[int, tuple[int, Any, BaseException | None]] = {}
        while True:
            number, result, error = arrivals.get()
            if number is None:
                if isinstance(error, Exception):
                    add_note(error, f"penstock: raised in {step_text(self)}, before it was ready for items")
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
        """Yield the next result, unless the policy drops it."""
        number, result, error = next(outcomes)
        item, provenance = under_way.pop(number)
        try:
            if isinstance(error, StopIteration):  # a generator would replace it, without naming the item
                raise RuntimeError("a function raised StopIteration, which has no meaning here") from error
            if error is not None:
                raise error
            kept = self.error_policy.keep(result)
        except BaseException as raised:
            add_error_context(raised, self, item, provenance)  # name it: the source has read ahead
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
