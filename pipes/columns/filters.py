"""Row filters: a `pyarrow.compute.Expression`, or the same as text in Python syntax."""

from __future__ import annotations

import ast
import operator
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from functools import partial
from types import MappingProxyType
from typing import Any

from ..arrow import ds, pa, pc

_parsing = threading.Lock()
"""Locked while a text is parsed: `ast.parse` of Python 3.11 fails at times in several threads at once."""

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_GRAMMAR = (
    "a filter has comparisons of columns with values (<, <=, >, >=, ==, !=, in, not in, is None, is not None), "
    "joined by and, or, not and parentheses; for all else give a pyarrow.compute.Expression"
)


def _advice(filter: Any) -> str:
    """Return the end of an error message for pyarrow's list of conditions, each a column, an operator and a value."""
    if not isinstance(filter, (list, tuple)) or not all(isinstance(each, tuple) and len(each) == 3 for each in filter):
        return ""
    parts = [f"{column} {'==' if sign == '=' else sign} {_literal(value)!r}" for column, sign, value in filter]
    return f': give filter="{" and ".join(parts)}"' if parts else ""


def _literal(value: Any) -> Any:
    """Return a value as a filter has it: dates and times are text there."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*map(_literal, value)]
    return value.isoformat() if isinstance(value, (date, time)) else value


def expression_of(filter: str | pc.Expression, schema: pa.Schema | None = None) -> pc.Expression:
    """Return a filter as an expression; TypeError or ValueError for an invalid one.

    With the `schema`, text beside a column of dates or times is read as one of the column's type. A time without a zone
    is in the zone of the column.

    >>> expression_of("price > 3 and kind in ['a', 'b']")  # doctest: +ELLIPSIS
    <pyarrow.compute.Expression ((price > 3) and is_in(kind, {value_set=...
    >>> import pyarrow as pa
    >>> expression_of("day < '2024-09-01'", pa.schema([("day", pa.date32())]))
    <pyarrow.compute.Expression (day < 2024-09-01)>
    """
    if isinstance(filter, pc.Expression):
        return filter
    if not isinstance(filter, str):
        what = f"is of type {type(filter).__name__}{_advice(filter)}"
        raise TypeError(f"filter must be text or a pyarrow.compute.Expression, and {what}")
    try:
        with _parsing:
            parsed = ast.parse(filter.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"the filter {filter!r} cannot be read: {error.msg}; {_GRAMMAR}") from None
    try:
        return _condition(parsed, schema)
    except _NotAFilter as error:
        raise ValueError(f"the filter {filter!r} has {ast.unparse(error.part)!r}: {error.why}") from None


def fields_in(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns of a schema that an expression uses.

    Raises KeyError for an unknown column or field, and pyarrow's error where types do not fit.
    """
    try:
        _bind(expression, schema)
    except _NoColumn as error:
        if error.name not in schema.names:
            raise KeyError(f"the filter uses a column {error.name!r}, and the columns are {schema.names}") from None
        raise KeyError(
            f"the filter uses {'.'.join(error.path)}, and the column {error.name!r} is "
            f"{schema.field(error.name).type}, which has no such field: to compute something of a column, give a "
            "pyarrow.compute.Expression, such as pc.month(pc.field('time')) == 2"
        ) from None
    return _needed(expression, schema, [], schema.names)


def may_be_true(
    expression: pc.Expression,
    known: Mapping[str, pa.Scalar],
    ranges: Mapping[str, tuple[pa.Scalar, pa.Scalar]] = MappingProxyType({}),
) -> bool:
    """Say whether an expression can be true of rows with known values in some columns, and null or a range in others.

    True where that is undecidable.
    """
    from pyarrow.fs import LocalFileSystem  # type: ignore[import-untyped]

    fields = {name: low.type for name, (low, _) in ranges.items()}
    fields |= {name: value.type for name, value in known.items()}
    said = guarantee(known)
    for name, (low, high) in ranges.items():
        field = pc.field(name)
        said = said & ((field >= low) | field.is_null()) & ((field <= high) | field.is_null())
    while True:  # each attempt reveals the name of one more column; its values are unknown
        schema = pa.schema([*fields.items()])
        try:
            _bind(expression, schema)
            break
        except _NoColumn as error:
            if error.name in fields:
                return True
            fields[error.name] = pa.null()
        except (pa.ArrowException, TypeError):
            return True
    file_system, file_format = LocalFileSystem(), ds.ParquetFileFormat()
    fragment = file_format.make_fragment("any", file_system, partition_expression=said)
    files = ds.FileSystemDataset([fragment], schema, file_format, file_system)  # opens no file
    return any(True for _ in files.get_fragments(filter=expression))


def may_be_true_of_nan(expression: pc.Expression, schema: pa.Schema) -> bool:
    """Say whether a filter of floats has a `not` or `!=`, which may be true of NaN."""
    if not re.search(r"invert\(|!=", str(expression)):
        return False
    return any(re.search("float|double", str(schema.field(name).type)) for name in fields_in(expression, schema))


def guarantee(known: Mapping[str, pa.Scalar]) -> pc.Expression:
    """Return an expression that columns have their known values."""
    said = pc.scalar(True)
    for name, value in known.items():
        said = said & (pc.field(name) == value if value.is_valid else pc.field(name).is_null())
    return said


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    """Raise where an expression does not fit a schema: _NoColumn for a missing column."""
    try:
        ds.dataset(schema.empty_table()).scanner(filter=expression)
    except pa.ArrowInvalid as error:
        if lacking := re.match(r"No match for (FieldRef\..*?\)) in", str(error)):
            raise _NoColumn(re.findall(r"Name\((.*?)\)", lacking[1])) from None
        raise


def _needed(expression: pc.Expression, schema: pa.Schema, others: list[str], names: Sequence[str]) -> list[str]:
    """Return the columns of `names` that an expression needs besides `others`."""
    try:
        _bind(expression, pa.schema([field for field in schema if field.name in others]))
        return []
    except _NoColumn:
        pass
    if len(names) == 1:
        return [*names]
    half = len(names) // 2
    first = _needed(expression, schema, [*others, *names[half:]], names[:half])
    return first + _needed(expression, schema, [*others, *first], names[half:])


class _NoColumn(Exception):
    def __init__(self, path: Sequence[str]) -> None:
        self.name = path[0]
        self.path = path


class _NotAFilter(Exception):
    def __init__(self, part: ast.expr, why: str = _GRAMMAR) -> None:
        self.part = part
        self.why = why


def _condition(part: ast.expr, schema: pa.Schema | None) -> Any:
    """Return the expression of a Boolean part of a filter."""
    if isinstance(part, ast.BoolOp):
        first, *others = (_condition(each, schema) for each in part.values)
        for other in others:
            first = first & other if isinstance(part.op, ast.And) else first | other
        return first
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        return ~_condition(part.operand, schema)
    if isinstance(part, ast.Compare):
        lefts = [part.left, *part.comparators]
        first, *others = map(partial(_comparison, schema), lefts, part.ops, part.comparators)
        for other in others:
            first = first & other
        return first
    if isinstance(part, (ast.Name, ast.Attribute)):
        return _operand(part)
    raise _NotAFilter(part)


def _comparison(schema: pa.Schema | None, left: ast.expr, kind: ast.cmpop, right: ast.expr) -> Any:
    if isinstance(kind, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            raise _NotAFilter(right, "what follows in must be a list of values")
        field = _time_field(left, schema)
        values: Any = [_value(each, field) for each in right.elts]
        if field is not None and any(isinstance(value, pa.Scalar) for value in values):
            values = pa.array(values, field.type)
        among = _fitting(_operand(left).isin(values), ast.Compare(left, [kind], [right]), schema)
        return ~among if isinstance(kind, ast.NotIn) else among
    is_none = isinstance(right, ast.Constant) and right.value is None
    if isinstance(kind, (ast.Is, ast.IsNot)):
        if not is_none:
            raise _NotAFilter(right, "what follows is must be None")
        return _operand(left).is_null() if isinstance(kind, ast.Is) else _operand(left).is_valid()
    if is_none:
        raise _NotAFilter(right, "nothing compares to None: write is None, or is not None")
    sides = _operand(left, _time_field(right, schema)), _operand(right, _time_field(left, schema))
    return _fitting(_COMPARISONS[type(kind)](*sides), ast.Compare(left, [kind], [right]), schema)


def _fitting(expression: pc.Expression, part: ast.Compare, schema: pa.Schema | None) -> pc.Expression:
    """Return the expression of a comparison; raise where the types of its two sides do not compare."""
    sides = [part.left, *part.comparators]
    fields = [_field(side, schema) for side in sides]
    if schema is None or not any(fields):
        return expression
    names = [name for side in sides for name in _path(side)[:1]]
    try:
        _bind(expression, pa.schema([field for field in schema if field.name in names]))
    except _NoColumn:  # reported with all columns
        pass
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        left, right = (
            ast.unparse(side) if field is None else f"column {field.name!r}, which is {field.type},"
            for side, field in zip(sides, fields, strict=True)
        )
        kinds = [field.type for field in fields if field is not None]
        advice = "a pyarrow.compute.Expression can cast one of them"
        if len(kinds) == 1:
            advice = _like(kinds[0]) if _is_of_time(kinds[0]) else "write values of the column's type"
        raise _NotAFilter(part, f"{left} does not compare with {right.removesuffix(',')}: {advice}") from error
    return expression


def _operand(part: ast.expr, beside: pa.Field | None = None) -> Any:
    """Return the expression of a column, a struct field, or a value; `beside` is the column of times beside it."""
    path = _path(part)
    return pc.field(*path) if path else pc.scalar(_value(part, beside))


def _path(part: ast.expr) -> list[str]:
    """Return the names that lead to a column or a struct field; none for a value."""
    path: list[str] = []
    while isinstance(part, ast.Attribute):
        path.insert(0, part.attr)
        part = part.value
    return [part.id, *path] if isinstance(part, ast.Name) else []


def _time_field(part: ast.expr, schema: pa.Schema | None) -> pa.Field | None:
    """Return the field of a column of dates or times; None for any other part."""
    field = _field(part, schema)
    return field if field is not None and _is_of_time(field.type) else None


def _is_of_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def _field(part: ast.expr, schema: pa.Schema | None) -> pa.Field | None:
    """Return the field of a column or a struct field; None for any other part."""
    field, fields = None, schema
    for name in _path(part):
        if fields is None or (place := fields.get_field_index(name)) < 0:
            return None
        field = fields.field(place)
        fields = field.type if pa.types.is_struct(field.type) else None
    return field


def _value(part: ast.expr, beside: pa.Field | None = None) -> Any:
    try:
        value = ast.literal_eval(part)
    except ValueError:
        raise _NotAFilter(part) from None
    if value is not None and not isinstance(value, (bool, int, float, str, bytes)):
        raise _NotAFilter(part)
    if beside is None or not isinstance(value, str):
        return value
    return _time(part, value, beside)


def _time(part: ast.expr, text: str, field: pa.Field) -> pa.Scalar:
    """Return text as a date or time of a column's type."""
    kind = field.type
    try:
        if pa.types.is_time(kind):  # pyarrow reads times of day only beside a date
            return pa.scalar(f"1970-01-01T{text}").cast(pa.timestamp(kind.unit)).cast(kind)
        if (
            pa.types.is_timestamp(kind)
            and kind.tz is not None
            and not re.search(r"\d(Z|[+-]\d\d(:?\d\d)?)$", text[10:])
        ):
            return pc.assume_timezone(pa.scalar(text).cast(pa.timestamp(kind.unit)), kind.tz)
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise _NotAFilter(part, f"column {field.name!r} is {kind}, {_why_not(text, kind, error)}") from error


def _why_not(text: str, kind: pa.DataType, error: Exception) -> str:
    """Say why text is no time of a type, and how to write one."""
    if "in timezone" in str(error):
        often = "twice" if "ambiguous" in str(error) else "never"
        return f"whose clocks show this time {often}, as they change: write its offset from UTC, too, such as '+02:00'"
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        for zone in {None, kind.tz}:
            with suppress(pa.ArrowException):
                pa.scalar(text).cast(pa.timestamp("us", zone))
                return "which holds times from 1677-09-22 to 2262-04-11, and this is none of them"
    return f"and this text is none: {_like(kind)}"


def _like(kind: pa.DataType) -> str:
    """Say how a value of a type is written."""
    if pa.types.is_time(kind):
        return "write it as '12:30' or '12:30:05'"
    if pa.types.is_date(kind):
        return "write it as '2024-09-01'"
    zone = ", perhaps with a zone such as 'Z' or '+02:00' at its end" if kind.tz is not None else ", without a zone"
    return f"write it as '2024-09-01' or '2024-09-01T12:30:05'{zone}"
