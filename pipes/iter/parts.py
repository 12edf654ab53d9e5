"""Files that are read by parts, some of them ahead, of which each gives many items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from ...registry import IterDataPipe, Node, Trail, say_where
from ..column_files import ColumnFile
from ..flows import Flows
from .parallel import until_error

__all__ = ["ReadsParts"]

R = TypeVar("R")


class ReadsParts(IterDataPipe[R]):
    """Yield the items of the parts of one file after another: the base of the operators that do.

    Up to `read_ahead` files are read at once, each by a thread. A state tells which file is read, which of its parts,
    and how many of the items of that part went out; the parts before it are not read again.
    """

    holds_items = False
    transient: ClassVar[tuple[str, ...]] = ("_trail", "_flows", "_open_files")
    payload: ClassVar[tuple[str, ...]] = ("_open_files",)
    source: IterDataPipe[Any]
    read_ahead: int

    def _parts(self, item: Any, first: int) -> Iterator[tuple[int, Any]]:
        """Yield the parts of a file from one on, each with its number, or what the guard's `wrap` made of one.

        Called in a thread. A part of a file that cannot be opened is that number.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _parts")

    def _items(self, item: Any, number: int, part: Any) -> Iterable[R]:
        """Return the items of a part; called in the consumer's thread."""
        raise NotImplementedError(f"{type(self).__name__} must define _items")

    def reset(self) -> None:
        super().reset()
        self._trail: Trail[Any] | None = None
        self._flows: Flows[Any, Any] | None = None
        self._open_files: set[ColumnFile] = set()
        self._file = self._part = self._given = 0

    def get_state(self) -> dict[str, Any]:
        return {"files": 0, "part": 0, "given": 0}

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        return {**self.get_state(), "files": skip, "part": self._part, "given": self._given}, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._file, self._part, self._given = state["files"], state["part"], state["given"]

    def interrupt(self) -> None:
        super().interrupt()
        if self._flows is not None:
            self._flows.interrupt()

    def __iter__(self) -> Iterator[R]:
        failures: list[Exception] = []
        self._trail = Trail(self.source, lambda: self._file)
        first_part = self._part
        with closing(iter(self._trail)) as items:  # type: ignore[type-var]
            to_read = islice(until_error(items, failures), self._file, None)
            begun = ((item, first_part) for item in islice(to_read, 1))
            places = chain(begun, ((item, 0) for item in to_read))
            flows = self._flows = self._in_threads(lambda place: self._parts(*place), self._open_files)
            try:
                for (item, _), parts in flows.read(places):
                    yield from self._of_file(item, parts)
                    self._file, self._part, self._given = self._file + 1, 0, 0
            finally:
                self.guard.give_up()
                flows.stop()
        if failures:
            raise failures.pop()

    def _in_threads(self, outputs_of: Callable[[Any], Iterator[Any]], files: set[ColumnFile]) -> Flows[Any, Any]:
        """Return what calls a function that gives outputs of an item in threads, and at the end gives files up."""

        def give_up() -> None:
            for file in [*files]:
                file.give_up()

        return Flows(outputs_of, self.read_ahead, "penstock-columns", give_up)

    def _of_file(self, item: Any, parts: Iterator[tuple[int, Any]]) -> Iterator[R]:
        try:
            for number, part in parts:
                if number != self._part:  # some were left out, as none of their rows match
                    self._part, self._given = number, 0
                if self.guard.keep(part):
                    for output in self._checked(item, number, part):
                        self._given += 1
                        yield output
                self._part, self._given = number + 1, 0
        except Exception as error:
            say_where(error, self, item)  # the newest item of the source is another
            raise

    def _checked(self, item: Any, number: int, part: Any) -> Iterator[R]:
        try:
            items = self._items(item, number, part)
        except Exception as error:
            self.guard.refuse(error, item)
            return iter(())
        return islice(items, self._given, None)
