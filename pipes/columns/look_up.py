"""A small table whose rows are found by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ..arrow import pa, pc
from .batch_rows import as_batch, row_dicts, values_of_arrow
from .to_arrow import array_of, batch_of, is_frame
from .writing import columns_of_rows

Key = tuple[Any, ...]
Places = dict[Key, int]
"""The row of the table by key."""

_PLAIN = {int, float, str, bytes}
"""The types of values that compare without a cast with columns of their kind."""


def table_by(table: Any, on: Sequence[str]) -> pa.Table:
    """Return a table, a data frame, a dict of columns or a list of rows as a table that has each key once.

    Raises TypeError for other values, KeyError for a key column that it lacks, ValueError for a key that comes twice,
    and what is raised for columns that Arrow cannot hold.
    """
    if is_frame(table):
        for name in on:
            if name in table.index.names and name not in table.columns:
                raise KeyError(f"{name!r} is in the index of the data frame: give frame.reset_index()")
    made: pa.Table = table if isinstance(table, pa.Table) else pa.Table.from_batches([_as_batch(table)])
    if len({*made.column_names}) < made.num_columns:
        raise ValueError(f"the table has several columns of one name: {made.column_names}")
    if missing := [name for name in on if name not in made.column_names]:
        raise KeyError(f"the table has no column {missing[0]!r}: its columns are {made.column_names}")
    for name in on:
        kind = made.schema.field(name).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise TypeError(f"the column {name!r} is {kind}, which cannot be a key: make it text or a number")
    keys = pa.table({name: _compared(made[name]) for name in on}).drop_null()
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
    if not (isinstance(table, (pa.RecordBatch, Mapping)) or is_frame(table)):
        raise TypeError(
            "table must be a pyarrow.Table, a data frame, a dict of columns or a list of rows that are dicts, and is "
            f"of type {type(table).__name__}"
        )
    batch = as_batch(table)
    return batch_of(batch) if isinstance(batch, dict) else batch


def key_in_words(on: Sequence[str], key: Sequence[Any]) -> str:
    """Return a key as text.

    >>> key_in_words(["shop", "day"], ["a", 3])
    "shop 'a', day 3"
    """
    return ", ".join(f"{name} {value!r:.100}" for name, value in zip(on, key, strict=True))


class LookUp:
    """Finds rows of a table that has each key once. A null or NaN is in no key.

    Keys compare as Python's values, so that rows and batches find the same: numbers exactly, whatever their types.
    Where types differ otherwise, such as in the unit of a time, keys are cast to a common type first.
    """

    def __init__(self, table: pa.Table, on: Sequence[str]) -> None:
        self.on = on
        self._keys = [_decoded(array_of(table[name], name)) for name in on]
        self.columns: pa.RecordBatch = as_batch(table.drop_columns([*on]))
        self._casts: dict[Sequence[pa.DataType], Sequence[pa.DataType | None]] = {}
        self._places: dict[Sequence[pa.DataType | None], Places] = {}
        self._places_of_plain: dict[tuple[type, ...], Places] = {}
        self._rows: list[dict[str, Any]] | None = None
        kinds = self.columns.schema.types
        self._copied = any(pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) for kind in kinds)

    def places(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the row of the table for each row of some key columns, null where there is none."""
        columns = [*map(_decoded, columns)]
        casts = self._casts_for(columns)
        return pa.array(map(self._places_after(casts).get, self._as_keys(columns, casts)), pa.int64())

    def place(self, key: Key) -> int | None:
        """Return the row of the table with a key, None where there is none."""
        if None in key:
            return None
        types = (*map(type, key),)
        if types in self._places_of_plain:
            return self._places_of_plain[types].get(key)
        if _PLAIN.issuperset(types):
            casts = self._casts_for([array_of([kind()], name) for name, kind in zip(self.on, types, strict=True)])
            if not any(casts):
                self._places_of_plain[types] = self._places_after(casts)
                return self.place(key)
        columns = [array_of([value], name) for name, value in zip(self.on, key, strict=True)]
        return self.places(columns)[0].as_py()  # type: ignore[no-any-return]

    def row(self, place: int) -> dict[str, Any]:
        """Return the other columns of a row of the table as a dict, with nested values of its own."""
        if self._rows is None:
            self._rows = [*row_dicts(self.columns)]
        return deepcopy(self._rows[place]) if self._copied else self._rows[place]

    def _casts_for(self, columns: Sequence[pa.Array]) -> Sequence[pa.DataType | None]:
        types = (*(column.type for column in columns),)
        if types not in self._casts:
            self._casts[types] = (*map(_cast_for, self.on, types, (key.type for key in self._keys)),)
        return self._casts[types]

    def _places_after(self, casts: Sequence[pa.DataType | None]) -> Places:
        if casts not in self._places:
            keys = enumerate(self._as_keys(self._keys, casts))
            self._places[casts] = {
                key: place for place, key in keys if not any(value is None or value != value for value in key)
            }
        return self._places[casts]

    def _as_keys(self, columns: Sequence[pa.Array], casts: Sequence[pa.DataType | None]) -> Iterator[Key]:
        return zip(*map(_values, self.on, columns, casts), strict=True)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _compared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a key column with null for NaN and 0.0 for -0.0, as keys compare."""
    if not pa.types.is_floating(column.type):
        return column
    column = column.cast(pa.float64())
    return pc.if_else(pc.is_nan(column), None, pc.add(column, 0.0))


def _values(name: str, column: pa.Array, cast: pa.DataType | None) -> Sequence[Any]:
    """Return the values of a key column after a cast; times as whole numbers, which compare without regard to zones."""
    if cast is not None:
        try:
            column = column.cast(cast)
        except pa.ArrowInvalid as error:
            raise ValueError(f"the column {name!r} is compared with the table's as {cast}: {error}") from error
        if pa.types.is_temporal(cast) and cast.bit_width in (32, 64):
            column = column.view(pa.int32() if cast.bit_width == 32 else pa.int64())
    return values_of_arrow(name, column)


def _cast_for(name: str, kind: pa.DataType, of_table: pa.DataType) -> pa.DataType | None:
    """Return the type to which keys of two types are cast, None where their values compare as they are."""
    if _family(kind) == _family(of_table) is not None:
        return None
    try:
        schemas = [pa.schema([(name, _in_utc(each))]) for each in (kind, of_table)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        raise TypeError(
            f"the column {name!r} is {kind}, and in the table {of_table}: cast one of them, so that they compare"
        ) from None


def _family(kind: pa.DataType) -> str | None:
    """Return what the values of a type are, where they compare with all others that are the same."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return (
        "bytes" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else None
    )


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type of times with any zone as one in UTC: the same instant is the same key."""
    return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind
