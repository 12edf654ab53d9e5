"""Select, drop and rename columns: of rows that are dicts, and of column batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...registry import IterDataPipe, functional_datapipe
from ..bases.one_to_one import OneToOne
from ..columns.batch_rows import as_batch
from ..columns.schema import schema_with
from ..columns.tensors import names_of


class _ColumnChooser(OneToOne[Any]):
    """Yield each item with some of its columns, perhaps under other names: a base class."""

    gives = "same"
    keeps_rows = True

    def _names(self, there: list[str]) -> dict[str, str]:
        """Return the old name of each column of an output by its new name, given the names in the item."""
        raise NotImplementedError(f"{type(self).__name__} must define _names")

    def schema_after(self, schema: Any) -> Any:
        """Return the schema of the items of a source with some schema."""
        return schema_with(schema, self._names(schema.names))

    def _output(self, item: Any) -> Any:
        batch = as_batch(item)
        chosen = self._names(names_of(batch))
        if isinstance(batch, dict):
            return {new: batch[old] for new, old in chosen.items()}
        return batch.select([*chosen.values()]).rename_columns([*chosen])


@functional_datapipe("select_columns")
class ColumnSelector(_ColumnChooser):
    """Yield each row or column batch with some columns only, in the order of `columns`, a name or a list of names.

    An item is a dict, a `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. Readers take
    `columns` themselves, and then read only these. `slice` does the same for tuples and lists.

    Raises KeyError for a column that an item lacks, and TypeError for an item without columns.

    >>> dp = IterableWrapper([{"id": 1, "text": "one", "url": "…"}]).select_columns(["text", "id"])
    >>> list(dp)
    [{'text': 'one', 'id': 1}]
    """

    def __init__(self, source: IterDataPipe[Any], columns: str | Sequence[str]) -> None:
        self.source = source
        self._columns = _as_names("columns", columns)

    def _names(self, there: list[str]) -> dict[str, str]:
        _expect_columns(self._columns, there)
        return {name: name for name in self._columns}


@functional_datapipe("drop_columns")
class ColumnDropper(_ColumnChooser):
    """Yield each row or column batch without some columns; `columns` is a name or a list of names.

    An item is a dict, a `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. `drop` does the
    same for tuples and lists.

    Raises KeyError for a column that an item lacks, and TypeError for an item without columns.

    >>> dp = IterableWrapper([{"id": 1, "text": "one", "url": "…"}]).drop_columns("url")
    >>> list(dp)
    [{'id': 1, 'text': 'one'}]
    """

    def __init__(self, source: IterDataPipe[Any], columns: str | Sequence[str]) -> None:
        self.source = source
        self._columns = _as_names("columns", columns)

    def _names(self, there: list[str]) -> dict[str, str]:
        _expect_columns(self._columns, there)
        return {name: name for name in there if name not in self._columns}


@functional_datapipe("rename_columns")
class ColumnRenamer(_ColumnChooser):
    """Yield each row or column batch with other names of columns.

    `names` is a dict from old to new names, or a list with a new name for each column. An item is a dict, a
    `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. Columns keep their places.

    Raises KeyError for a column that an item lacks, ValueError for a list of another length and where two columns would
    have one name, and TypeError for an item without columns.

    >>> dp = IterableWrapper([{"id": 1, "text": "one"}]).rename_columns({"text": "words"})
    >>> list(dp)
    [{'id': 1, 'words': 'one'}]
    """

    def __init__(self, source: IterDataPipe[Any], names: Mapping[str, str] | Sequence[str]) -> None:
        if not isinstance(names, Mapping):
            names = _as_names("names", names)
        self.source = source
        self.names = names

    def _names(self, there: list[str]) -> dict[str, str]:
        if isinstance(self.names, Mapping):
            _expect_columns([*self.names], there)
            new = [self.names.get(name, name) for name in there]
        else:
            new = [*self.names]
        if len(new) != len(there):
            raise ValueError(f"names has {len(new)} names, and the item has {len(there)} columns: {there}")
        if len({*new}) < len(new):
            raise ValueError(f"two columns would have one name: {new}")
        return dict(zip(new, there, strict=True))


def _as_names(argument: str, names: object) -> list[str]:
    """Return a name, or a sequence of different names, as a list."""
    some = [names] if isinstance(names, str) else names
    if not isinstance(some, Sequence) or not some or not all(isinstance(name, str) for name in some):
        raise TypeError(f"{argument} must be the name of a column, or a list of names, and is {names!r:.100}")
    if len({*some}) < len(some):
        raise ValueError(f"{argument} has a name twice: {names!r:.100}")
    return [*some]


def _expect_columns(wanted: Sequence[str], there: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in there]:
        raise KeyError(f"an item has no column {', '.join(map(repr, missing))}: its columns are {[*there]}")
