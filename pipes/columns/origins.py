"""Items for column files and row groups, with column values from folder names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import unquote

from ...storage.streaming.streams import checked_path
from ..arrow import pa

if TYPE_CHECKING:
    from .formats import ColumnFormat

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Partition = tuple[tuple[str, "int | str | pa.Scalar | None"], ...]
"""The columns with one value in all of a file, with that value, from folder names or from a table's log."""


class Origin(NamedTuple):
    """A file, with column values from folder names; `types` names their types."""

    url: str
    partition: Partition = ()
    types: tuple[str, ...] = ()


class RowGroup(NamedTuple):
    """A row group of a Parquet file: its number and row count; the rest as in `Origin`."""

    url: str
    number: int
    rows: int
    partition: Partition = ()
    types: tuple[str, ...] = ()


class FilePart(NamedTuple):
    """Some of the row groups, stripes or record batches of a file; of a text file, the lines that begin in some bytes.

    `start` is the number of the first of them, or the first byte, `stop` that behind the last, and `size` how many the
    file has.
    """

    url: str
    start: int
    stop: int
    size: int
    partition: Partition = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fragment:
    """A part of a table with versions, such as a file; the values in `partition` have their types.

    `opened` gives its content, from a function that opens a stream of the `url`. `schema` is that of the table, to
    which the content is converted.
    """

    url: str
    opened: Callable[[Callable[[], pa.NativeFile]], ColumnFormat] = field(repr=False)
    schema: pa.Schema = field(repr=False)
    partition: Partition = field(default=(), repr=False)
    types: ClassVar[tuple[str, ...]] = ()


def origin_of(item: object) -> Origin:
    """Return the file of an item; TypeError unless it is a path, URL, or one of the items defined here."""
    if isinstance(item, (Origin, FilePart, RowGroup, Fragment)):
        return Origin(item.url, item.partition, item.types)
    return Origin(checked_path(item))


_PARTS = {
    "parquet": "row group",
    "csv": "block",
    "json": "block",
    "ipc": "record batch",
    "orc": "stripe",
    "table": "part",
}


def part_name(kind: str, item: object, number: int) -> str:
    """Return the name of a part of a file of some format.

    >>> part_name("parquet", "a.parquet", 2), part_name("csv", FilePart("a.csv", 4096, 8192, 9999), 0)
    ('row group 2', 'block 0 after byte 4,096')
    """
    behind = f" after byte {item.start:,}" if isinstance(item, FilePart) and kind in ("csv", "json") else ""
    return f"{_PARTS[kind]} {number}{behind}"


def hive_values(url: str) -> dict[str, str | None]:
    """Return the column values from a file's folder names, as text.

    >>> hive_values("s3://b/sales/year=2024/kind=a%20b/0.parquet")
    {'year': '2024', 'kind': 'a b'}
    """
    pairs = [folder.partition("=") for folder in url.replace(os.sep, "/").split("/")[:-1] if "=" in folder]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}


def known_values(origin: Origin) -> dict[str, pa.Scalar]:
    """Return the values that all rows of a file share, by column name."""
    types = {"int64": pa.int64(), "string": pa.string()}
    if not origin.types:
        return dict(origin.partition)
    return {
        name: pa.scalar(value, types[kind]) for (name, value), kind in zip(origin.partition, origin.types, strict=True)
    }
