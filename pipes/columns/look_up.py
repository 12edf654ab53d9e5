"""A small table whose rows are found by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .batch_rows import as_batch, row_dicts
from .to_arrow import array_of, batch_of
from .writing import columns_of_rows

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["LookUp", "key_in_words", "table_by"]

Places = Callable[[Sequence[Any]], Any]
"""A function of key columns that returns the row of the table for each of their rows, or null."""


def table_by(table: Any, on: Sequence[str]) -> pa.Table:
    """Return a table, a data frame, a dict of columns or a list of rows as a table that has each key once.

    Raises TypeError for other values, KeyError for a key column that it lacks, ValueError for a key that comes twice.
    """
    import pyarrow as pa

    made: pa.Table = table if isinstance(table, pa.Table) else pa.Table.from_batches([_as_batch(table)])
    if len({*made.column_names}) < made.num_columns:
        raise ValueError(f"the table has several columns of one name: {made.column_names}")
    if missing := [name for name in on if name not in made.column_names]:
        raise KeyError(f"the table has no column {missing[0]!r}: its columns are {made.column_names}")
    keys = made.select([*on]).drop_null()
    for row in keys.group_by([*on]).aggregate([([], "count_all")]).to_pylist() if keys.num_rows else ():
        if row["count_all"] > 1:
            key = key_in_words(on, [row[name] for name in on])
            raise ValueError(
                f"the table has {row['count_all']} rows with {key}, and may have one: leave out the others"
            )
    return made.combine_chunks()


def _as_batch(table: Any) -> pa.RecordBatch:
    if isinstance(table, list) and all(isinstance(row, Mapping) for row in table):
        return batch_of(columns_of_rows(table) if table else {})
    try:
        batch = as_batch(table)
    except TypeError:
        raise TypeError(
            "table must be a pyarrow.Table, a data frame, a dict of columns or a list of rows that are dicts, and is "
            f"of type {type(table).__name__}"
        ) from None
    return batch_of(batch) if isinstance(batch, dict) else batch


def key_in_words(on: Sequence[str], key: Sequence[Any]) -> str:
    """Return a key as text.

    >>> key_in_words(["shop", "day"], ["a", 3])
    "shop 'a', day 3"
    """
    return ", ".join(f"{name} {value!r:.100}" for name, value in zip(on, key, strict=True))


class LookUp:
    """Finds rows of a table that has each key once. A null is in no key."""

    def __init__(self, table: pa.Table, on: Sequence[str]) -> None:
        self.on = on
        self._keys = [_decoded(array_of(table[name], name)) for name in on]
        self.columns: pa.RecordBatch = as_batch(table.drop_columns([*on]))
        self._places: dict[tuple[Any, ...], Places] = {}

    def places(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the row of the table for each row of some key columns, null where there is none."""
        columns = [*map(_decoded, columns)]
        types = (*(column.type for column in columns),)
        if types not in self._places:
            self._places[types] = self._places_of(types)
        return self._places[types](columns)

    def rows_by_key(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Return the other columns of each row of the table as a dict, by the key."""
        keys = zip(*(key.to_pylist() for key in self._keys), strict=True)
        return {key: row for key, row in zip(keys, row_dicts(self.columns), strict=True) if None not in key}

    def _places_of(self, types: Sequence[pa.DataType]) -> Places:
        """Return the function for key columns of some types, which may differ from those of the table."""
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        common = [*map(_common_type, self.on, types, (key.type for key in self._keys))]
        keys = [key.cast(kind) for key, kind in zip(self._keys, common, strict=True)]

        def cast(columns: Sequence[Any]) -> list[Any]:
            return [column.cast(kind) for column, kind in zip(columns, common, strict=True)]

        if len(keys) == 1:
            return lambda columns: pc.index_in(cast(columns)[0], keys[0], skip_nulls=True)
        values = [key.unique() for key in keys]

        def coded(columns: Sequence[Any]) -> Any:
            """Return one number for each key of several columns: pyarrow looks up single columns."""
            code: Any = 0
            for column, among in zip(columns, values, strict=True):
                place = pc.index_in(column, among, skip_nulls=True).cast("int64")
                code = pc.add_checked(pc.multiply_checked(code, len(among)), place)
            return code

        codes = coded(keys)
        return lambda columns: pc.index_in(coded(cast(columns)), codes, skip_nulls=True)


def _decoded(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _common_type(name: str, kind: pa.DataType, of_table: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    try:
        schemas = [pa.schema([(name, each)]) for each in (kind, of_table)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        raise TypeError(
            f"the column {name!r} is {kind}, and in the table {of_table}: cast one of them, so that they compare"
        ) from None
