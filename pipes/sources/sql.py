"""Queries of databases, read by ranges of a key through ADBC or Python's DB-API."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar
from uuid import UUID

from ...errors.checks import takes_only
from ...errors.notes import add_note
from ...errors.optional import require
from ...errors.secrets import without_secrets
from ...registry import OnError, expect_whole
from ..arrow import pa, pc
from ..bases.rows.column_reader import BATCH_SIZE, PREFETCH
from ..columns.formats import ColumnFormat
from ..columns.origins import Fragment
from ..columns.schema import schema_of_text, schema_text
from .table_versions import ROWS, FragmentLister, FragmentReader, LibraryFormat, plain_schema, reading_fragments

RangeKey = int | float | str
"""A key in a state; those of other types are text, as SQL writes them."""

_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "sqlite": "adbc_driver_sqlite",
}
"""The ADBC driver of the addresses with a scheme."""


class QueryLister(FragmentLister):
    """Yield the ranges of the rows of a query: what `read_sql` begins with.

    What a pass keeps, in place of a version, is the keys that divide the ranges, the last key, and the schema.
    """

    _looked_up: ClassVar[str] = "the ranges of keys: give partitions=[…], the keys at which they begin"

    def __init__(
        self,
        query: str,
        connection: str | Callable[[], Any],
        partition_on: str | None = None,
        partitions: int | Sequence[Any] = 1,
        schema: pa.Schema | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        if not isinstance(query, str):
            raise TypeError(f"query must be text, and is {query!r:.100}")
        if isinstance(connection, str):
            scheme = connection.partition("://")[0]
            if scheme not in _DRIVERS:
                raise ValueError(
                    f"connection must be an address of {', '.join(f'{name}://' for name in _DRIVERS)}, or a function "
                    f"that returns a connection, and is {without_secrets(connection)!r:.100}"
                )
            require(_DRIVERS[scheme], "sql")
        elif not callable(connection):
            raise TypeError(
                "connection must be a function that returns a connection, since each reader makes its own, or the "
                f"address of a database, and is of type {type(connection).__name__}"
            )
        if partition_on is not None and not re.fullmatch(r"[^\W\d]\w*", partition_on):
            raise ValueError(
                f"partition_on must be the plain name of a column, and is {partition_on!r}: name it in the query, as "
                'in SELECT "order id" AS id'
            )
        given = None
        if isinstance(partitions, (str, int)):
            expect_whole("partitions", partitions)
        else:
            given = _in_order(partitions)
        if partition_on is None and partitions != 1:
            raise ValueError("partitions needs partition_on=…, the column with a key of each row")
        expect_whole("batch_size", batch_size)
        self.query = query
        self.connection = connection
        self.partition_on = partition_on
        self.partitions = partitions
        self._schema = schema
        self.batch_size = batch_size
        self.version = None if partition_on is not None and given is None else 0
        self._given = given
        self._filter = None

    def pinned(self) -> list[Any]:
        """Return the keys at which ranges begin after the first, the last key or None, and the schema as text."""
        cuts, last = self._given or [], None
        if self.version is None:
            cuts, last = self._divided()
        schema = self._schema_found(cuts, last) if self._schema is None else self._schema
        if self.partition_on is not None and self.partition_on not in schema.names:
            raise ValueError(f"the query has no column {self.partition_on!r} to partition on: it has {schema.names}")
        return [cuts, last, schema_text(plain_schema(schema))]

    def _schema_found(self, cuts: Sequence[RangeKey], last: RangeKey | None) -> pa.Schema:
        """Return the schema of the first range with rows, or that of none."""
        for _, query in self._ranges(cuts, last):
            with closing(self._batches(query, None)) as batches:
                batch = next((batch for batch in batches if batch.num_rows), None)
            if batch is not None:
                return batch.schema
        with closing(self._batches(self._bare, None)) as batches:
            return next(batches).schema

    def schema_of(self, version: Sequence[Any]) -> pa.Schema:
        return schema_of_text(version[2])

    def fragments(
        self, version: Sequence[Any], filter: Callable[[pa.Schema], pc.Expression] | None
    ) -> Iterable[Fragment]:
        cuts, last, _ = version
        schema = self.schema_of(version)
        for name, query in self._ranges(cuts, last):
            yield Fragment(name, partial(self._opened, query, schema), schema)

    def _ranges(self, cuts: Sequence[RangeKey], last: RangeKey | None) -> Iterator[tuple[str, str]]:
        """Yield a name and a query for each range of keys."""
        key = self.partition_on
        if key is None:
            yield "the rows", self._bare
            return
        for start, stop in pairwise([None, *cuts, None]):
            conditions = [] if start is None else [f"{key} >= {_literal(start)}"]
            if stop is not None:
                conditions.append(f"{key} < {_literal(stop)}")
            elif last is not None:
                conditions.append(f"{key} <= {_literal(last)}")
            text = " AND ".join(conditions) or "1 = 1"
            condition = f"({text}) OR {key} IS NULL" if start is None else text  # rows without a key are refused
            yield f"the rows with {text}", f"SELECT * FROM ({self._bare}) AS part WHERE {condition} ORDER BY {key}"

    @property
    def _bare(self) -> str:
        return self.query.strip().rstrip(";") + "\n"  # which ends a comment

    def _opened(self, query: str, schema: pa.Schema, open_stream: Callable[[], Any]) -> ColumnFormat:
        return LibraryFormat(schema, partial(self._read, query, schema), self._rows)

    @property
    def _rows(self) -> int:
        return min(ROWS, self.batch_size)

    def _divided(self) -> tuple[list[RangeKey], RangeKey | None]:
        """Return the keys at which ranges with equally many rows begin, without the first, and the last key."""
        name = self.partition_on
        # Keys are found by their places: MIN and MAX of text may have another order than ORDER BY and comparisons.
        order = f"OVER (ORDER BY {name})"
        placed = f"SELECT {name} AS id_, NTILE({self.partitions}) {order} AS part, ROW_NUMBER() {order} AS place"
        places = "SELECT {}(place) FROM placed_ WHERE id_ IS NOT NULL"
        first, last = places.format("MIN") + " GROUP BY part", places.format("MAX")
        query = (
            f"WITH placed_ AS ({placed} FROM ({self._bare}) AS rows_) "
            f"SELECT id_, CASE WHEN place IN ({first}) THEN 1 ELSE 0 END AS begins FROM placed_ "
            f"WHERE place IN ({first}) OR place = ({last}) ORDER BY place"
        )
        with closing(self._connected()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            found = cursor.fetchall()
        cuts = [_plain_key(key) for key, begins in found if begins]
        return cuts[1:], _plain_key(found[-1][0]) if found else None

    def _read(self, query: str, schema: pa.Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        last = None
        for batch in self._batches(query, schema):
            if self.partition_on is not None and batch.num_rows:
                last = self._expect_keys(batch.column(self.partition_on), last)
            yield batch.select([*columns])

    def _expect_keys(self, keys: pa.Array, before: pa.Scalar | None) -> pa.Scalar:
        """Return the last of some keys in order; ValueError unless each row has one of its own."""
        if keys.null_count:
            raise ValueError(f"a row has no {self.partition_on}, which each row needs as its key: leave such rows out")
        if before is not None:
            keys = pa.concat_arrays([pa.array([before.as_py()], keys.type), keys])
        if (place := pc.index(pc.equal(keys[1:], keys[:-1]), True).as_py()) >= 0:
            raise ValueError(
                f"several rows have the {self.partition_on} {keys[place].as_py()!r}, and may come in another order "
                "next time: partition_on a column with a key of each row, such as row_number() OVER (ORDER BY …) AS n"
            )
        return keys[-1]

    def _batches(self, query: str, schema: pa.Schema | None) -> Generator[pa.RecordBatch]:
        """Yield the batches of a query, at least one without the schema, which its rows then decide."""
        with closing(self._connected()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            if hasattr(cursor, "fetch_record_batch"):
                with closing(cursor.fetch_record_batch()) as reader:
                    if schema is None:
                        yield pa.RecordBatch.from_pylist([], schema=reader.schema)
                    yield from reader
                return
            if cursor.description is None:
                raise ValueError("the query has no result: read_sql takes a SELECT")
            names = [column[0] for column in cursor.description]
            while (rows := cursor.fetchmany(self._rows)) or schema is None:
                batch = _batch(names, rows, schema)
                schema = batch.schema
                yield batch

    def _connected(self) -> Any:
        if not isinstance(self.connection, str):
            return self.connection()
        scheme, _, place = self.connection.partition("://")
        address = place if scheme == "sqlite" else self.connection
        return require(f"{_DRIVERS[scheme]}.dbapi", "sql").connect(address)


def _batch(names: Sequence[str], rows: Sequence[Sequence[Any]], schema: pa.Schema | None) -> pa.RecordBatch:
    """Return rows as a batch of a schema, or of the types that suit them."""
    arrays = []
    for number, name in enumerate(names):
        kind = None if schema is None else schema.field(name).type
        try:
            arrays.append(pa.array([row[number] for row in rows], kind))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            why = "no type suits all of its values" if kind is None else f"it is {kind} by the schema or its first rows"
            add_note(error, f"in column {name!r}: {why}; give schema=…, a pyarrow.Schema, or cast it in the query")
            raise
    return pa.RecordBatch.from_arrays(arrays, names)


def _plain_key(key: Any) -> RangeKey:
    """Return a key as a state keeps it; TypeError for one of a type that SQL has no plain text of."""
    if type(key) in (int, float, str):
        plain: RangeKey = key
        return plain
    if isinstance(key, date):
        return str(key)
    if isinstance(key, (Decimal, UUID)):
        return str(key)
    raise TypeError(
        f"a key must be a number, text, a date, a time or a UUID, and {key!r:.100} is a {type(key).__name__}"
    )


def _in_order(keys: Sequence[Any]) -> list[RangeKey]:
    """Return the keys that a user gives; TypeError for text, of which databases have orders of their own."""
    if any(isinstance(key, str) for key in keys):
        raise TypeError("partitions are numbers, dates or times, not text, which each database has in its own order")
    if not all(one < other for one, other in pairwise(keys)):
        raise ValueError(f"partitions must ascend, and are {keys!r:.100}")
    return [*map(_plain_key, keys)]


def _literal(key: RangeKey) -> str:
    """Return a key as SQL writes it; a state may hold any text."""
    if isinstance(key, str):
        if "\\" in key or "\0" in key:
            raise ValueError(
                f"the key {key!r} cannot be written in SQL alike everywhere: give partition_on another column"
            )
        return "'" + key.replace("'", "''") + "'"
    return repr(key + 0)


@takes_only(
    sql="it is query", con="it is connection", columns="select them in the query", filter="write it in the query"
)
def read_sql(
    query: str,
    connection: str | Callable[[], Any],
    batch_size: int = BATCH_SIZE,
    *,
    partition_on: str | None = None,
    partitions: int | Sequence[Any] = 1,
    schema: pa.Schema | None = None,
    prefetch: int = PREFETCH,
    on_error: OnError = "raise",
) -> FragmentReader:
    """Return a chain that yields the rows of a query as record batches.

    `connection` is a function that makes a connection of Python's DB-API, of ADBC or of DuckDB; each reader calls it.
    Or it is an address, `postgresql://…` or `sqlite://` and a path, which ADBC reads as Arrow; that is faster.

    With `partition_on`, a column with a key of each row, readers share `partitions` ranges of it, with equally many
    rows. A pass finds them when it begins, and its state has them. Or `partitions` are the keys at which ranges begin
    after the first, and the last has no end. Rows come in the order of the key. Resuming queries the current range
    again, and leaves out the rows that were given: it is exact where these did not change, also where rows with greater
    keys came. Up to `prefetch` ranges are queried at once. A DB-API connection may hold all rows of a range in memory:
    give more ranges. Without `partition_on`, one reader has all rows, and the query must order them for a state to be
    exact.

    Types are those of ADBC. With the DB-API, the first rows decide them, unless `schema` is given.

    Raises ImportError for an address without the driver, ValueError for rows that share a key or have none,
    `pyarrow.ArrowInvalid`, a ValueError, for values of another type than the first, and what the driver raises.

    >>> import os, sqlite3, tempfile
    >>> from functools import partial
    >>> import penstock as ps
    >>> connect = partial(sqlite3.connect, os.path.join(tempfile.mkdtemp(), "shop.db"))
    >>> connection = connect()
    >>> _ = connection.execute("CREATE TABLE orders AS SELECT 1 AS id, 'a' AS kind UNION SELECT 2, 'b'")
    >>> connection.close()
    >>> dp = ps.read_sql("SELECT * FROM orders", connect, partition_on="id", partitions=2)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [1], 'kind': ['a']}, {'id': [2], 'kind': ['b']}]
    """
    lister = QueryLister(query, connection, partition_on, partitions, schema, batch_size)
    return reading_fragments(lister, None, None, batch_size, prefetch, None, on_error)
