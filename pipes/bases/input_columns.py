"""Functions of some columns of an item: the fields of a tuple, the places of a list, the keys of a dict."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any

from ...registry import ErrorPolicy, R

Columns = Hashable | list[Hashable] | tuple[Hashable, ...]
"""One column, or a list or tuple of several."""

_STAR = inspect.Parameter.VAR_POSITIONAL

APPEND = -1
"""The output column that appends to tuples and lists."""


_ADVICE_ON_TEXT = {
    "filter_fn": ": a reader takes it, as in penstock.read_parquet(path, filter=…)",
    "group_key_fn": ": a group is a list of rows with the same key, as by lambda row: row['label']",
}
"""The advice on a text in place of a function: a condition, or the name of a column."""


def check_function(name: str, fn: object, input_col: Columns | None = None, optional: bool = False) -> None:
    """Raise TypeError where `fn` is not callable, ValueError where it does not take one argument per input column.

    Many C functions have no signature; these pass. None passes where it is `optional`.
    """
    if optional and fn is None:
        return
    if not callable(fn):
        advice = _ADVICE_ON_TEXT.get(name, "") if isinstance(fn, str) else ""
        raise TypeError(f"{name} must be a function or another callable, and is {fn!r:.100}{advice}")
    arguments = 1 if input_col is None else len(as_list(input_col))
    if not arguments:
        raise ValueError("input_col names no column")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(arguments))
    except TypeError as error:
        message = f"{name} will be called with {arguments} arguments, and cannot be: {error}"
        needed = [each for each in signature.parameters.values() if each.default is each.empty and each.kind < _STAR]
        if name in ("fn", "filter_fn", "async_fn") and input_col is None and len(needed) > 1:
            message += f"; for the parts of an item, give input_col={[*range(len(needed))]}, or their names"
        raise ValueError(message) from None


def taking_columns(fn: Callable[..., R], input_col: Columns | None) -> Callable[[Any], R]:
    """Return a function of an item that calls `fn` with the item's columns; `fn` itself where none are named.

    >>> taking_columns(max, ["a", "b"])({"a": 1, "b": 2})
    2
    """
    if input_col is None:
        return fn
    if isinstance(input_col, (list, tuple)):
        return lambda item: fn(*[item[column] for column in input_col])
    return lambda item: fn(item[input_col])


def keys_by(key_fn: Callable[[Any], R], policy: ErrorPolicy) -> Callable[[Any], Any]:
    """Return a guarded function that makes an item's key; an unhashable key is a failure."""
    if policy.raises:
        return key_fn  # the dict raises the same error

    def key_of(item: Any) -> R:
        key = key_fn(item)
        hash(key)
        return key

    return policy.wrap(key_of)


def replacing_columns(
    fn: Callable[..., Any], input_col: Columns | None, output_col: Hashable | None
) -> Callable[[Any], Any]:
    """Return a function that returns a copy of an item with the result of `fn` on its columns.

    The result goes to `output_col`. Where that is None, it replaces the first input column, and the other input columns
    are dropped. The item itself does not change.

    >>> replacing_columns(max, [0, 1], None)((1, 2, "c"))
    (2, 'c')
    """
    if input_col is None:
        return fn
    first, *others = as_list(input_col)
    place, left_out = (first, others) if output_col is None else (output_col, [])
    take = taking_columns(fn, input_col)
    return lambda item: _with_column(item, place, take(item), left_out, append=output_col == APPEND)


def as_list(columns: Columns) -> list[Any]:
    """Return the columns, one or several, as a list."""
    return [*columns] if isinstance(columns, (list, tuple)) else [columns]


def _with_column(item: Any, place: Any, value: object, left_out: list[Any], append: bool) -> Any:
    if isinstance(item, (tuple, list)):
        values = [*item, value] if append else [*item]
        values[place] = value
        if left_out:
            positions = range(len(values))
            gone = {positions[column] for column in left_out} - {positions[place]}
            values = [each for position, each in enumerate(values) if position not in gone]
        return _like(item, values)
    if isinstance(item, (dict, MutableMapping)):
        changed = {**item} if type(item) is dict else copy.copy(item)
        changed[place] = value
        for column in {*left_out} - {place}:
            del changed[column]
        return changed
    raise TypeError(f"a result is put into a tuple, list or dict, and the item is a {type(item).__name__}")


def _like(item: Any, values: list[Any]) -> Any:
    if isinstance(item, list):
        return type(item)(values)
    named = hasattr(item, "_make") and len(values) == len(item)
    return item._make(values) if named else tuple(values)


def one_output_col(input_col: Columns | None, output_col: Hashable | list[Hashable] | None) -> Hashable | None:
    """Return the output column, also from a list of one; ValueError for several, or without an input column."""
    if isinstance(output_col, (list, tuple)):
        if len(output_col) != 1:
            raise ValueError(f"output_col must name one column, and names {len(output_col)}")
        output_col = output_col[0]
    if input_col is None and output_col is not None:
        raise ValueError("output_col needs an input_col: without one, the result replaces the whole item")
    return output_col


def as_it_is(*columns: Any) -> Any:
    """Return a column, or a tuple of several."""
    return columns[0] if len(columns) == 1 else columns
