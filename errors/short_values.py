"""Short texts of values: arguments in the text of a chain, and what items hold."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from .secrets import Short, is_secret

_FEW_NUMBERS = 8
"""Arrays of more numbers are shown by shape and type."""


class ArgumentText(Short):
    """Makes texts of arguments: of a container as many parts as fit in `room`, at least one, and how many there are.

    Rows have the same fields, so only the first is shown where not all fit. Deeper parts have half the room.

    >>> text = ArgumentText(room=40).repr
    >>> print(text([*range(1000)]), text([{"id": n, "name": "a name"} for n in range(1000)]))
    [0, 1, 2, 3, 4, 5, … 1,000 in all] [{'id': 0, 'name': 'a name'}, … 1,000 in all]
    """

    def __init__(self, room: int = 80, most: int = 6) -> None:
        super().__init__()
        self.fillvalue = "…"
        self.room = room
        self.maxother = 3 * room // 4
        self.maxstring = 3 * room // 2  # most paths and URLs in full
        self.maxlist = self.maxset = self.maxfrozenset = self.maxdeque = most

    def repr_list(self, x: list[Any], level: int) -> str:
        return f"[{self._parts(x, len(x), level)}]"

    def repr_tuple(self, x: tuple[Any, ...], level: int) -> str:
        return f"({self._parts(x, len(x), level)}{',' * (len(x) == 1)})"

    def repr_dict(self, x: Mapping[Any, Any], level: int) -> str:
        pairs = (_Pair((name, "…" if is_secret(name) else part)) for name, part in x.items())
        return f"{{{self._parts(pairs, len(x), level)}}}"

    def repr__Pair(self, x: _Pair, level: int) -> str:  # noqa: N802 - named after the type
        return f"{self.repr1(x[0], level)}: {self.repr1(x[1], level)}"

    def repr_str(self, x: str, level: int) -> str:
        text = super().repr_str(x, level)
        most = self.maxstring if level >= self.maxlevel - 1 else 3 * self.room >> 3
        return text if len(text) <= most else f"{text[: most // 2]}{self.fillvalue}{text[most // 2 + 1 - most :]}"

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, functools.partial):
            parts = [self.repr1(part, level) for part in (x.func, *x.args)]
            return f"partial({', '.join([*parts, *self.named(x.keywords, level)])})"
        if (name := getattr(x, "__qualname__", None)) is not None:
            return str(name).rpartition("<locals>.")[2]
        text = table_in_words(x) or date_in_words(x)
        if text is None and math.prod(getattr(x, "shape", ())) > _FEW_NUMBERS:
            text = array_in_words(x)
        return super().repr_instance(x, level) if text is None else text

    def named(self, arguments: Mapping[str, Any], level: int | None = None) -> Iterator[str]:
        """Yield arguments by keyword as text, without the values of secrets."""
        for name, value in arguments.items():
            text = "…" if is_secret(name) else self.repr1(value, self.maxlevel if level is None else level)
            yield f"{name}={text}"

    def _parts(self, parts: Iterable[Any], count: int, level: int) -> str:
        if level <= 0:
            return self.fillvalue * bool(count)
        room = self.room >> max(self.maxlevel - 1 - level, 0)
        shown: list[str] = []
        kinds = set()
        for part in islice(parts, self.maxlist):
            text = self.repr1(part, level - 1)
            room -= len(text) + 2
            if shown and room < 0:
                break
            shown.append(text)
            kinds.add(type(part))
        if len(shown) < count:
            shown[1:] = [] if kinds == {dict} else shown[1:]
            shown.append(f"… {count:,} in all")
        return ", ".join(shown)


class _Pair(tuple[Any, Any]):
    """A name in a dict, and its value."""


def array_in_words(value: Any) -> str | None:
    """Return the shape and type of a tensor or an array; None for other values."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype") or isinstance(value, np.generic):
        return None
    return f"{type(value).__name__} of shape {tuple(value.shape)}, {value.dtype}"


def table_in_words(value: object) -> str | None:
    """Return the rows and columns of a table of any package; None for other values.

    >>> import pyarrow
    >>> table_in_words(pyarrow.table({"x": [1, 2], "y": [3, 4]}))
    'Table of 2 rows: x, y'
    """
    columns: list[object]
    if hasattr(value, "num_rows") and hasattr(value, "schema"):  # Arrow
        columns = [*value.schema.names]
    elif hasattr(value, "columns") and len(getattr(value, "shape", ())) == 2:  # a data frame
        columns = [*value.columns]
    else:
        return None
    names = ", ".join([*map(str, columns[:6]), *(["…"] if len(columns) > 6 else [])])
    return f"{type(value).__name__} of {len(value):,} rows: {names}"  # type: ignore[arg-type]


def date_in_words(value: object) -> str | None:
    """Return a date or time as ISO 8601 writes it; None for other values.

    >>> date_in_words(datetime.datetime(2024, 1, 2, 3, 4)), date_in_words(np.datetime64("2024-01-02"))
    ('2024-01-02T03:04:00', '2024-01-02')
    """
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value) if isinstance(value, (np.datetime64, np.timedelta64, datetime.timedelta)) else None
