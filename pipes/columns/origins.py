"""Files with columns and row groups of them, as items, with the values that folders give to columns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ...storage.streams import checked_path

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["Origin", "RowGroup", "hive_values", "known_values", "origin_of"]

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Partition = tuple[tuple[str, "int | str | None"], ...]
"""The columns that all rows of a file have in common, each with its value, by the names of its folders."""


class Origin(NamedTuple):
    """A file, with the values that its folders give to columns; None of a type that `types` names."""

    url: str
    partition: Partition = ()
    types: tuple[str, ...] = ()


class RowGroup(NamedTuple):
    """A row group of a Parquet file: its number and how many rows it has; the rest is as in an `Origin`."""

    url: str
    number: int
    rows: int
    partition: Partition = ()
    types: tuple[str, ...] = ()


def origin_of(item: object) -> Origin:
    """Return what file an item is, or is of; TypeError where it is no path, URL, `Origin` or `RowGroup`."""
    if isinstance(item, (Origin, RowGroup)):
        return Origin(item.url, item.partition, item.types)
    return Origin(checked_path(item))


def hive_values(url: str) -> dict[str, str | None]:
    """Return the values that the folders of a file give to columns, as text.

    >>> hive_values("s3://b/sales/year=2024/kind=a%20b/0.parquet")
    {'year': '2024', 'kind': 'a b'}
    """
    pairs = [folder.partition("=") for folder in url.replace(os.sep, "/").split("/")[:-1] if "=" in folder]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}


def known_values(origin: Origin) -> dict[str, pa.Scalar]:
    """Return the values that all rows of a file have in common, by the names of the columns."""
    import pyarrow as pa

    types = {"int64": pa.int64(), "string": pa.string()}
    return {
        name: pa.scalar(value, types[kind]) for (name, value), kind in zip(origin.partition, origin.types, strict=True)
    }
