"""read_sql: SQLite by Python's DB-API and by ADBC, and PostgreSQL by both."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

import penstock as ps
from penstock.registry import apply_sharding
from postgres import programs, serving_postgres
from resuming import passed_on


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed here")
    with serving_postgres() as address:
        yield address


def connected_to(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path)


@contextmanager
def writing(connect: Callable[[], Any]) -> Iterator[Any]:
    with closing(connect()) as connection, connection:
        yield connection


Database = tuple[Callable[[], Any], str | Callable[[], Any]]
"""What makes a connection to write by, and what read_sql is given."""


@pytest.fixture(params=["sqlite", "sqlite by ADBC", "postgres", "postgres by ADBC"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    path = f"{tmp_path}/shop.db"
    if request.param.startswith("sqlite"):
        connect = partial(connected_to, path)
        return connect, connect if request.param == "sqlite" else f"sqlite://{path}"
    address = request.getfixturevalue("postgres")
    connect = partial(psycopg.connect, address)
    with writing(connect) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
    return connect, connect if request.param == "postgres" else address


def filled(database: Database, rows: Iterable[int] = range(20)) -> str | Callable[[], Any]:
    connect, given = database
    with writing(connect) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (id bigint primary key, kind text, price double precision)"
        )
        for n in rows:
            price = "NULL" if n % 3 == 0 else str(n / 2)
            connection.execute(f"INSERT INTO orders VALUES ({n * n}, 'k{n}', {price})")
    return given


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_ranges_of_a_key_have_equally_many_rows_each_in_its_order(database: Database) -> None:
    read = ps.read_sql("SELECT * FROM orders", filled(database), partition_on="id", partitions=3, batch_size=4)
    batches = [*read]
    assert ids(batches) == [n * n for n in range(20)]
    assert [batch.num_rows for batch in batches] == [4, 3, 4, 3, 4, 2]
    assert {batch.schema for batch in batches} == {read.schema()}
    assert read.schema() == pa.schema([("id", pa.int64()), ("kind", pa.string()), ("price", pa.float64())])
    assert pa.Table.from_batches(batches)["price"].to_pylist()[:4] == [None, 0.5, 1.0, None]


def test_a_query_without_a_key_is_one_shard(database: Database) -> None:
    given = filled(database)
    query = "SELECT id, price * 2 AS twice FROM orders WHERE id > 9 ORDER BY id DESC;"
    for part, count in ((0, 16), (1, 0)):
        read = ps.read_sql(query, given, batch_size=5)
        apply_sharding(read, 2, part)
        assert len(ids(read)) == count
    assert ids(ps.read_sql(query, given)) == [n * n for n in range(19, 3, -1)]


def test_resuming_is_exact_though_greater_keys_came(database: Database) -> None:
    make = partial(ps.read_sql, "SELECT * FROM orders", filled(database), partition_on="id", partitions=3, batch_size=4)
    read, states, given = make(), [], []
    for batch in read:
        given.append(ids([batch]))
        states.append(passed_on(read))
    filled(database, range(20, 25))
    for number, state in enumerate(states, 1):
        resumed = make()
        resumed.load_state_dict(state)
        assert [ids([batch]) for batch in resumed] == given[number:]
    assert len(ids(make())) == 25


def test_workers_share_the_ranges(database: Database) -> None:
    read = ps.read_sql("SELECT * FROM orders", filled(database), partition_on="id", partitions=5, batch_size=3)
    with ps.DataLoader2(read, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        batches = iter(loader)
        first = ids([next(batches)])
        state = loader.state_dict()
        rest = ids(batches)
        assert sorted(first + rest) == [n * n for n in range(20)]
        loader.load_state_dict(state)
        assert ids(loader) == rest


def test_the_same_ranges_are_given_to_several_ranks(database: Database) -> None:
    given = filled(database)
    make = partial(ps.read_sql, "SELECT * FROM orders", given, partition_on="id")
    with pytest.raises(RuntimeError, match=r"look up the ranges of keys: give partitions=\[…\], the keys at which"):
        make(partitions=3).settle([(2, 0)])
    read = make(partitions=[10, 100])
    read.settle([(2, 0)])
    assert [ids([batch]) for batch in read] == [
        [0, 1, 4, 9],
        [n * n for n in range(4, 10)],
        [n * n for n in range(10, 20)],
    ]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("text", ["a'b", "ä", "", "zz"]),
        ("date", [datetime.date(2024, 1, day) for day in range(1, 5)]),
        ("timestamp", [datetime.datetime(2024, 1, 1, hour, 30) for hour in range(4)]),
        ("timestamptz", [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.UTC) for hour in range(4)]),
        ("uuid", [UUID(int=n << 100) for n in range(4)]),
        ("numeric", [Decimal(n) / 7 for n in range(4)]),
        ("double precision", [0.1, -1e300, 3.5, 1e-9]),
    ],
)
def test_keys_of_other_types_divide_rows(kind: str, keys: list[Any], postgres: str) -> None:
    with writing(partial(psycopg.connect, postgres)) as connection:
        connection.execute("DROP TABLE IF EXISTS keys")
        connection.execute(f"CREATE TABLE keys (key {kind}, n int)")
        for n, key in enumerate(keys):
            connection.execute("INSERT INTO keys VALUES (%s, %s)", [key, n])
        stored = connection.execute("SELECT n FROM keys ORDER BY key").fetchall()
    query = "SELECT key, n FROM keys" if kind != "uuid" else "SELECT CAST(key AS text) AS key, n FROM keys"
    read = ps.read_sql(query, partial(psycopg.connect, postgres), partition_on="key", partitions=3, batch_size=2)
    batches = iter(read)
    first = next(batches)
    state = passed_on(read)
    rest = [*batches]
    assert [n for batch in [first, *rest] for n in batch["n"].to_pylist()] == [n for (n,) in stored]
    resumed = ps.read_sql(query, partial(psycopg.connect, postgres), partition_on="key", partitions=3, batch_size=2)
    resumed.load_state_dict(state)
    assert [*resumed] == rest


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("(1), (2), (2), (3)", "several rows have the id 2, and may come in another order"),
        ("(1), (2), (NULL)", "a row has no id, which each row needs as its key"),
    ],
)
def test_rows_that_share_a_key_or_have_none_are_refused(rows: str, message: str, tmp_path: Path) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with writing(connect) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
        connection.execute(f"INSERT INTO orders VALUES {rows}")
    for partitions in (1, 2, [2]):
        for size in (1, 100):
            with pytest.raises(ValueError, match=message):
                list(ps.read_sql("SELECT * FROM orders", connect, size, partition_on="id", partitions=partitions))


def test_types_are_those_of_the_first_rows_or_of_a_schema(tmp_path: Path) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with writing(connect) as connection:
        connection.execute("CREATE TABLE orders (id integer, price)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(1, None), (2, 3), (3, 2.5)])
    make = partial(ps.read_sql, "SELECT * FROM orders", connect, 1, partition_on="id")
    with pytest.raises(ValueError, match="Invalid null value") as found:
        list(make())
    assert "in column 'price': it is null by the schema or its first rows; give schema=…" in found.value.__notes__[0]
    read = make(schema=pa.schema([("id", pa.int16()), ("price", pa.float64())]))
    assert pa.Table.from_batches(read).to_pydict() == {"id": [1, 2, 3], "price": [None, 3.0, 2.5]}
    assert read.schema().field("id").type == pa.int16()
    with pytest.raises(ValueError, match="Could not convert|tried to convert") as found:
        list(ps.read_sql("SELECT 1 AS id, 2 AS price UNION SELECT 2, 'text'", connect))
    assert "in column 'price': no type suits all of its values" in found.value.__notes__[0]


def test_a_state_that_was_changed_runs_no_other_query(tmp_path: Path) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with writing(connect) as connection:
        connection.execute("CREATE TABLE orders (id text)")
        connection.executemany("INSERT INTO orders VALUES (?)", [("a",), ("b",)])
    read = ps.read_sql("SELECT * FROM orders", connect, partition_on="id", partitions=2)
    version = read.lister.pinned()
    assert version[:2] == [["b"], "b"]
    read.settled = [["' OR 1 = 1; DROP TABLE orders; --"], "b", version[2]]
    assert sorted(ids(read)) == ["a", "b"]
    read.settled = [["\\' OR 1 = 1"], "b", version[2]]
    with pytest.raises(ValueError, match="cannot be written in SQL alike everywhere"):
        list(read)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"query": 3}, TypeError, "query must be text"),
        (
            {"connection": "mysql://me:secret@host/db"},
            ValueError,
            r"postgresql://, postgres://, sqlite://, or a function.*…@host",
        ),
        ({"connection": None}, TypeError, "connection must be a function that returns a connection"),
        ({"partition_on": "id; DROP TABLE orders"}, ValueError, "partition_on must be the plain name of a column"),
        ({"partitions": 3}, ValueError, "partitions needs partition_on="),
        ({"partition_on": "id", "partitions": 0}, ValueError, "partitions must be at least 1"),
        ({"partition_on": "id", "partitions": "3"}, TypeError, "partitions must be a whole number"),
        ({"partition_on": "id", "partitions": [3, 2]}, ValueError, "partitions must ascend"),
        ({"partition_on": "id", "partitions": ["a", "b"]}, TypeError, "numbers, dates or times, not text"),
        ({"partition_on": "id", "partitions": [b"a"]}, TypeError, "a key must be a number, text, a date"),
        ({"columns": ["id"]}, TypeError, "read_sql takes no columns: select them in the query"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as found:
        ps.read_sql(**{"query": "SELECT 1 AS id", "connection": connected_to, **arguments})
    assert "secret" not in str(found.value)


def test_an_error_of_the_database_names_the_rows(tmp_path: Path) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with pytest.raises(sqlite3.OperationalError, match="no such table: orders"):
        list(ps.read_sql("SELECT * FROM orders", connect, partition_on="id"))
    schema = pa.schema([("id", pa.int64())])
    read = ps.read_sql("SELECT * FROM orders", connect, partition_on="id", partitions=[5], schema=schema)
    with pytest.raises(sqlite3.OperationalError, match="no such table: orders") as found:
        list(read)
    assert "on Fragment(url='the rows with id < 5')" in str(found.value.__notes__)


def test_the_text_of_a_chain_has_no_password() -> None:
    read = ps.read_sql("SELECT 1 AS id", "postgresql://me:secret@host/db?password=secret", partition_on="id")
    assert "secret" not in str(read)
    assert "secret" not in repr(read)


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 8])
def test_keys_in_an_order_without_case_come_once(tmp_path: Path, partitions: int) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with writing(connect) as connection:
        connection.execute("CREATE TABLE orders (id text COLLATE NOCASE PRIMARY KEY)")
        connection.executemany("INSERT INTO orders VALUES (?)", [[key] for key in "aBcDeF"])
    read = ps.read_sql("SELECT * FROM orders", connect, partition_on="id", partitions=partitions)
    assert [row["id"] for row in read.rows()] == [*"aBcDeF"]


def test_types_are_those_of_the_first_range_with_rows(database: Database) -> None:
    connect, connection = database
    with writing(connect) as made:
        made.execute("CREATE TABLE orders (id int, kind text)")
        made.execute("INSERT INTO orders VALUES (150, 'a'), (250, 'b'), (350, 'c')")
    read = ps.read_sql("SELECT * FROM orders", connection, partition_on="id", partitions=[100, 200])
    assert [row["id"] for row in read.rows()] == [150, 250, 350]


def test_a_query_may_end_with_a_comment(database: Database) -> None:
    connect, connection = database
    with writing(connect) as made:
        made.execute("CREATE TABLE orders AS SELECT 1 AS id UNION SELECT 2")
    query = "SELECT * FROM orders -- all of them"
    assert [row["id"] for row in ps.read_sql(query, connection, partition_on="id", partitions=2).rows()] == [1, 2]


def test_what_is_no_query_of_rows_is_an_error(tmp_path: Path) -> None:
    connect = partial(connected_to, f"{tmp_path}/shop.db")
    with writing(connect) as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id")
    with pytest.raises(ValueError, match="the query has no result: read_sql takes a SELECT"):
        list(ps.read_sql("DELETE FROM orders", connect))
    with pytest.raises(ValueError, match=r"the query has no column 'ID' to partition on: it has \['id'\]"):
        list(ps.read_sql("SELECT * FROM orders", connect, partition_on="ID", partitions=[1]))
