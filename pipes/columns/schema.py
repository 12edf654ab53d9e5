"""The schema of a chain's items, without a pass over it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ...registry import copy_of, sources_of, walk
from ...state.foreign import declared
from ...state.graph import DataPipe
from ...state.seeds import generators_kept
from ..arrow import pa
from .times import TimeTypes, keeps_schema, times_of


def schema_text(schema: pa.Schema) -> str:
    """Return an Arrow schema as text, for states."""
    return base64.b64encode(schema.serialize()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """Return the schema that `schema_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


class Field(NamedTuple):
    """A part of an item: its name, its dtype (else its type), and its shape, if any."""

    name: str
    dtype: Any
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, repr=False)
class Schema:
    """The fields of a chain's items: `schema["name"]` is one of `fields`."""

    fields: tuple[Field, ...]

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"there is no field {name!r}: the fields are {self.names}")

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        lines = [("name", "dtype", "shape"), *map(_in_words, self.fields)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
        return "\n".join(map(str.rstrip, padded))


def schema(dp: DataPipe) -> Schema:
    """Return the names, dtypes and shapes of the fields of a chain's items. The chain does not change.

    A reader that knows its schema, such as `read_parquet`, reports it. Else the first item of a copy of the chain is
    inspected, and the copy is closed: this runs the steps for one item, with side effects such as writing. The shapes
    of a batch are those of the first one.

    Arrow columns have Arrow types. So have times that `to_tensors` made int64, since the type says their unit and zone.
    An item that is neither a batch, a dict nor a tuple is one field, `"item"`.

    Raises TypeError for a chain over an iterator, since inspecting an item would consume it, and ValueError for a chain
    without items.

    >>> import penstock as ps, torch
    >>> dp = ps.iter.IterableWrapper([{"image": torch.zeros(3, 8, 8), "label": 1}]).repeat(1000)
    >>> ps.schema(dp)
    name   dtype    shape
    image  float32  (3, 8, 8)
    label  int
    """
    known = _known(dp)
    if known is not None:
        return Schema((*map(_of_arrow, known),))
    for pipe in walk(dp):
        for name in getattr(pipe, "payload", ()):
            if isinstance(vars(pipe).get(name), Iterator):
                raise TypeError(f"{type(pipe).__name__} reads an iterator, which loses an item when looked at")
    copy = copy_of(dp, afresh=True)
    with generators_kept(), closing(_items(copy)) as items:
        for item in items:
            times = times_of(copy)
            return Schema((*(_timed(field, times) for field in _fields(item)),))
    raise ValueError("the chain gives no item, so it has no schema")


def _known(dp: Any) -> Any:
    """Return the Arrow schema that the reader knows, where each later step keeps it or has `schema_after`."""
    changes: list[Any] = []
    while declared(dp, "schema", schema) is schema:  # the method of all pipes is this function
        sources = sources_of(dp)
        if callable(declared(dp, "schema_after", None)):
            changes.append(dp.schema_after)
        elif not keeps_schema(dp):
            return None
        if len(sources) != 1:
            return None
        dp = sources[0]
    known = dp.schema()
    for change in reversed(changes):
        known = change(known)
    return known


def schema_with(schema: Any, chosen: Mapping[str, str]) -> Any:
    """Return an Arrow schema with the fields in `chosen`, which has the old name of each by its new name."""
    return pa.schema([schema.field(old).with_name(new) for new, old in chosen.items()], schema.metadata)


def _items(dp: Any) -> Generator[Any, None, None]:
    yield from dp


def _timed(field: Field, times: TimeTypes) -> Field:
    """Return a field with Arrow's type where it counts times."""
    return field._replace(dtype=times[field.name]) if field.name in times and field.dtype == torch.int64 else field


def _fields(item: Any) -> Iterator[Field]:
    pandas = sys.modules.get("pandas")
    if hasattr(item, "schema") and hasattr(item, "num_rows"):
        yield from map(_of_arrow, item.schema)
    elif pandas is not None and isinstance(item, pandas.DataFrame):
        yield from (Field(str(name), dtype) for name, dtype in item.dtypes.items())
    elif isinstance(item, Mapping):
        yield from (_of_value(str(name), value) for name, value in item.items())
    elif isinstance(item, tuple):
        names = getattr(item, "_fields", map(str, range(len(item))))
        yield from map(_of_value, names, item)
    else:
        yield _of_value("item", item)


def _of_arrow(field: Any) -> Field:
    if isinstance(field.type, pa.FixedShapeTensorType):
        return Field(field.name, field.type.value_type, (*field.type.shape,))
    return Field(field.name, field.type)


def _of_value(name: str, value: Any) -> Field:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return Field(name, value.dtype, (*value.shape,))
    if isinstance(value, list) and value:
        return Field(name, list[type(value[0])])  # type: ignore[misc]
    return Field(name, type(value))


def _in_words(field: Field) -> tuple[str, str, str]:
    dtype = field.dtype.__name__ if type(field.dtype) is type else str(field.dtype).removeprefix("torch.")
    return field.name, dtype, "" if field.shape is None else str(field.shape)
