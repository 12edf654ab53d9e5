"""Base of readers whose files have one schema, also where the files are divided among several readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from typing import Any, ClassVar

from ....registry import SHARDING_PRIORITIES, IterDataPipe, T, own, seed_graph, walk
from ....registry.sharding import part_read
from ....state.copying import copy_to_look_at
from ....state.foreign import declared
from ...arrow import pa
from ...columns.files import first_difference
from ...columns.schema import schema_of_text, schema_text


class OneSchema(IterDataPipe[T]):
    """Yield batches whose schemas all equal that of the first file: a base class.

    Where the files are divided, it is the first file of all readers. A loader settles its schema before it divides
    them, and the loader's state has it. A pass that resumes looks at that file again.
    """

    transient: ClassVar[tuple[str, ...]] = ("settled", "_known")
    source: IterDataPipe[Any]
    settled: list[str] | None = None
    """What `settle` returned before the files were divided; None where it was not called."""
    _known: list[str] | None = None
    """What `settle` returned in an earlier epoch."""
    _first: tuple[str, pa.Schema] | None = own(None, saved=False)
    """The first file and its schema, once they are known."""
    _advice = "give columns that are the same in all files"

    def _schema_in(self, item: Any) -> tuple[str, pa.Schema] | None:
        """Return the URL and the schema of a file; None for one without rows."""
        raise NotImplementedError(f"{type(self).__name__} must define _schema_in")

    def settle(self, shards: Collection[tuple[int, int]]) -> list[str] | None:
        """Return as plain data the first file and its schema; None for one reader, and for a file that cannot be read.

        `shards` are those that the files will be divided into, each as number of shards and shard.
        """
        if part_read(self.source)[0] * next(iter(shards))[0] == 1:
            return None
        if self._known is None and (first := self._first_if_readable()) is not None:
            self._known = [first[0], schema_text(first[1])]
        return self._known

    def _first_if_readable(self) -> tuple[str, pa.Schema] | None:
        with suppress(Exception):  # the pass itself raises it
            for item in all_items(self.source, self.functional_name or type(self).__name__):
                try:
                    found = self._schema_in(item)
                except Exception:
                    if not self.error_policy.skips:
                        raise
                else:
                    if found is not None:
                        return found
        return None

    def _begin_schema(self) -> None:
        """Find out the first file and its schema, where this pass may not be the one that reads it."""
        settled, self.settled = self.settled, None  # of this pass alone
        if settled is None and part_read(self.source)[0] > 1:  # torch's DataLoader settles nothing
            settled = self.settle([(1, 0)])
        if settled is not None:
            if not isinstance(settled, list) or [*map(type, settled)] != [str, str]:
                raise ValueError(f"the state has no first file and schema for {type(self).__name__}: {settled!r:.100}")
            self._first = settled[0], schema_of_text(settled[1])
        elif self._pass is not None and self._pass.resumed and all(map(_can_be_read_again, walk(self.source))):
            self._first = self._first_if_readable()

    def _expect_schema(self, url: str, schema: pa.Schema) -> None:
        """Raise ValueError for a schema that differs from that of the first file."""
        if self._first is None:
            self._first = url, schema
        first, expected = self._first
        if not schema.equals(expected):
            raise ValueError(f"{first_difference(schema, expected)}, as in {first!r}, the first file: {self._advice}")


def _can_be_read_again(step: object) -> bool:
    """Say whether a second pass leaves the items of the first alone; a step of others may take them from a queue."""
    return type(step).__module__.startswith("penstock.")


def all_items(source: IterDataPipe[Any], reader: str) -> Iterator[Any]:
    """Yield the items of all shards of a source, from a copy: the source keeps its position.

    A random order is the same in each process and run, and draws no seed.
    """
    if any(declared(step, "dispatches", False) for step in walk(source)):
        raise TypeError(
            f"{reader} looks at the files in a copy of the chain, and a dispatched stream is read once only: give "
            "unify a pyarrow.Schema, or leave it out"
        )
    copy = copy_to_look_at(source, reader)
    seed_graph(copy, 0)
    pipe: Any
    for pipe in walk(copy):
        if declared(pipe, "is_sharding_filter", False):
            for group in pipe.shares():
                pipe.apply_sharding(1, 0, SHARDING_PRIORITIES(group))
    with closing(iter(copy)) as items:
        yield from items
