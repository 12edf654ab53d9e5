"""Files read by parts, some ahead; each part gives many items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from ....registry import IterDataPipe, R, add_error_context, own
from ....state.replay import after, expect_no_fewer
from ....workers.reading import Readers
from ...columns.files import ColumnFile
from ..ahead.works_ahead import until_error


class ReadsParts(IterDataPipe[R]):
    """Yield the items of the parts of each file in turn: a base class.

    Up to `prefetch` files are read at once, each by a thread. A state records the current file, its current part,
    and how many items of that part were yielded; earlier parts are not read again.
    """

    resumes_from_start = False
    source: IterDataPipe[Any]
    _prefetch: int

    part: int = own(0)
    """The number of the current part."""
    given: int = own(0)
    """How many items of that part were yielded."""
    _readers: Readers[Any, Any] | None = own(None, saved=False)
    _open_files: set[ColumnFile] = own(set, saved=False)

    def _parts(self, item: Any, first: int) -> Iterator[tuple[int, Any]]:
        """Yield the (number, part) pairs of a file from `first` on; a part may be a failure from the policy's `wrap`.

        Called in a thread. A file that cannot be opened gives one failure, with the number `first`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _parts")

    def _items(self, item: Any, number: int, part: Any) -> Iterable[R]:
        """Return the items of a part; called in the consumer's thread."""
        raise NotImplementedError(f"{type(self).__name__} must define _items")

    def interrupt(self) -> None:
        super().interrupt()
        if self._readers is not None:
            self._readers.interrupt()

    def __iter__(self) -> Iterator[R]:
        failures: list[Exception] = []
        given_up = self.error_policy.given_up  # that of this pass: another thread may close it when the next has begun
        items = self.read(self.source)
        to_read = until_error(items, failures)
        first_part = self.part
        places = chain(((*place, first_part) for place in islice(to_read, 1)), ((*place, 0) for place in to_read))
        readers = self._readers = self._in_threads(lambda place: self._parts(*place[1:]), self._open_files)
        try:
            for (number, item, _), parts in readers.read(places):
                if not self.resumes_from_start:
                    items.keep_from(number)
                yield from self._of_file(item, parts)
                self.part = self.given = 0
        finally:
            given_up.set()
            readers.stop()
        if failures:
            raise failures.pop()

    def _in_threads(self, outputs_of: Callable[[Any], Iterator[Any]], files: set[ColumnFile]) -> Readers[Any, Any]:
        """Return readers that call `outputs_of` in threads, and give up `files` at the end."""

        def give_up() -> None:
            for file in [*files]:
                file.give_up()

        return Readers(outputs_of, self._prefetch, "penstock-columns", give_up)

    def _of_file(self, item: Any, parts: Iterable[tuple[int, Any]]) -> Iterator[R]:
        try:
            for number, part in parts:
                if number != self.part:  # parts without matching rows were skipped
                    expect_no_fewer(self.given)
                    self.part = number
                if self.error_policy.keep(part):
                    for output in self._checked(item, number, part):
                        self.given += 1
                        yield output
                self.part, self.given = number + 1, 0
            expect_no_fewer(self.given)  # of a part that the file no longer has
        except Exception as error:
            add_error_context(error, self, item)  # name it: the source has read ahead
            raise

    def _checked(self, item: Any, number: int, part: Any) -> Iterator[R]:
        try:
            items = self._items(item, number, part)
        except Exception as error:
            self.error_policy.refuse(error, item)
            return iter(())
        return after(iter(items), self.given)
