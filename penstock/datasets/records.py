"""Records of text files as samples: rows, lines, sentences. An error says which record of which file it was."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeVar

from ..registry import IterDataPipe
from ..storage.streaming.streams import text_over
from .files import Files

T = TypeVar("T")
R = TypeVar("R", bound=Sequence[Any])
Converters = Mapping[str, Callable[[str], Any]]
"""The names of the columns of a table, each with the function that makes its value of a text."""


def text_of(files: Files, path: str) -> IterDataPipe[tuple[str, IO[str]]]:
    r"""Return a chain of the path and the stream of a file: UTF-8, in which every line ends with `\n`."""
    return files.open(path).map(_decoded)


def _decoded(file: tuple[str, IO[bytes]]) -> tuple[str, IO[str]]:
    path, stream = file
    return path, text_over(stream, "utf-8")


def lines_of(files: Files, path: str, *, strip_newline: bool = True) -> IterDataPipe[str]:
    """Return a chain of the lines of a file."""
    return text_of(files, path).readlines(strip_newline=strip_newline, return_path=False)


def rows_of(
    files: Files,
    path: str,
    title: str,
    make: Callable[[list[str]], T],
    *,
    keep: Callable[[list[str]], bool] | None = None,
    **layout: Any,
) -> IterDataPipe[T]:
    """Return a chain of what `make` gives for each row of a table; `layout` is that of `parse_csv`."""
    return samples_of(text_of(files, path).parse_csv(return_path=True, **layout), title, make, keep=keep)


def samples_of(
    records: IterDataPipe[tuple[str, R]],
    title: str,
    make: Callable[[R], T],
    *,
    keep: Callable[[R], bool] | None = None,
) -> IterDataPipe[T]:
    """Return a chain of what `make` gives for each record, each of which comes with the path of its file.

    Records for which `keep` is false are left out. Where `make` raises ValueError, or IndexError for a column that is
    missing, reading raises ValueError, which names the data set, the file and the record.
    """
    numbered_ones: IterDataPipe[tuple[int, tuple[str, R]]] = records.enumerate(1)
    if keep is not None:
        numbered_ones = numbered_ones.filter(functools.partial(_is_kept, keep))
    return numbered_ones.map(functools.partial(_sample, title, make))


def _is_kept(keep: Callable[[R], bool], record: tuple[int, tuple[str, R]]) -> bool:
    return keep(record[1][1])


def _sample(title: str, make: Callable[[R], T], record: tuple[int, tuple[str, R]]) -> T:
    number, (path, content) = record
    try:
        return make(content)
    except IndexError:
        reason = f"it has {len(content)} columns, and more are needed"
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"{title}, record {number} of {path!r}: {reason}")


def record_of(columns: Converters, row: Sequence[str]) -> dict[str, Any]:
    """Return a row as a dict; raise ValueError for one of another number of fields, or with one that is no value."""
    if len(row) != len(columns):
        raise ValueError(f"it has {len(row)} columns, and {len(columns)} are needed")
    return {name: convert(text) for (name, convert), text in zip(columns.items(), row, strict=True)}


def numbered(first: int, last: int, text: str) -> int:
    """Return a label that is a number; raise ValueError for another than those from `first` to `last`."""
    if not text.strip().isdecimal() or not first <= int(text) <= last:
        raise ValueError(f"the label {text!r:.100} is no number from {first} to {last}")
    return int(text)


def named(names: Sequence[str], text: str) -> int:
    """Return the place of a label in the names of the classes; raise ValueError for a name that is not there."""
    if text not in names:
        raise ValueError(f"the label {text!r:.100} is none of {', '.join(names)}")
    return names.index(text)
