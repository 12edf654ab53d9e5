"""Rows of text files as dicts of typed fields, with errors that name file and row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...registry import IterDataPipe

__all__ = ["Columns", "records"]

Columns = Mapping[str, Callable[[str], Any]]
"""The names of the columns of a file, each with the function that makes its value of a text."""


def records(
    title: str, rows: IterDataPipe[tuple[str, Sequence[str]]], columns: Columns, first: int = 1
) -> IterDataPipe[dict[str, Any]]:
    """Return a chain of dicts made of pairs of a file's name and a row; `first` is the number of the first row.

    Reading it raises ValueError for a row of another number of fields, or with one that cannot be converted: the
    message names the data set, the file and the row.
    """
    return rows.enumerate(first).map(functools.partial(_record, title, columns))


def _record(title: str, columns: Columns, numbered: tuple[int, tuple[str, Sequence[str]]]) -> dict[str, Any]:
    number, (file, row) = numbered
    if len(row) != len(columns):
        raise ValueError(
            f"{title}: row {number} of {file} has {len(row)} fields, and {len(columns)} are needed: {row!r:.100}"
        )
    try:
        return {name: convert(text) for (name, convert), text in zip(columns.items(), row, strict=True)}
    except ValueError as error:
        raise ValueError(f"{title}: row {number} of {file}: {error}") from None
