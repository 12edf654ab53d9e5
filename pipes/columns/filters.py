"""Row filters: a `pyarrow.compute.Expression`, or the same as text in Python syntax."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]

__all__ = ["expression_of", "fields_in", "may_be_true"]

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


def expression_of(filter: str | pc.Expression) -> pc.Expression:
    """Return a filter as an expression; TypeError or ValueError for an invalid one.

    >>> expression_of("price > 3 and kind in ['a', 'b']")  # doctest: +ELLIPSIS
    <pyarrow.compute.Expression ((price > 3) and is_in(kind, {value_set=...
    """
    import pyarrow.compute as pc

    if isinstance(filter, pc.Expression):
        return filter
    if not isinstance(filter, str):
        raise TypeError(f"filter must be text or a pyarrow.compute.Expression, and is of type {type(filter).__name__}")
    try:
        parsed = ast.parse(filter.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"the filter {filter!r} cannot be read: {error.msg}; {_GRAMMAR}") from None
    try:
        return _condition(parsed)
    except _NotAFilter as error:
        raise ValueError(f"the filter {filter!r} has {ast.unparse(error.part)!r}: {error.why}") from None


def fields_in(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns of a schema that an expression uses.

    Raises KeyError for an unknown column, and pyarrow's error where types do not fit.
    """
    try:
        _bind(expression, schema)
    except _NoColumn as error:
        raise KeyError(f"the filter uses a column {error.name!r}, and the columns are {schema.names}") from None
    return _needed(expression, schema, [], schema.names)


def may_be_true(expression: pc.Expression, known: Mapping[str, pa.Scalar]) -> bool:
    """Say whether an expression can be true of rows with known values in some columns.

    True where that is undecidable.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds  # type: ignore[import-untyped]
    from pyarrow.fs import LocalFileSystem  # type: ignore[import-untyped]

    fields = {name: value.type for name, value in known.items()}
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
    fragment = file_format.make_fragment("any", file_system, partition_expression=guarantee(known))
    files = ds.FileSystemDataset([fragment], schema, file_format, file_system)  # opens no file
    return any(True for _ in files.get_fragments(filter=expression))


def guarantee(known: Mapping[str, pa.Scalar]) -> pc.Expression:
    """Return an expression that columns have their known values."""
    import pyarrow.compute as pc

    said = pc.scalar(True)
    for name, value in known.items():
        said = said & (pc.field(name) == value if value.is_valid else pc.field(name).is_null())
    return said


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    """Raise where an expression does not fit a schema: _NoColumn for a missing column."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        ds.dataset(schema.empty_table()).scanner(filter=expression)
    except pa.ArrowInvalid as error:
        if lacking := re.match(r"No match for FieldRef\.(?:Name|Nested)\((?:FieldRef\.Name\()?(.*?)\)", str(error)):
            raise _NoColumn(lacking[1]) from None
        raise


def _needed(expression: pc.Expression, schema: pa.Schema, others: list[str], names: Sequence[str]) -> list[str]:
    """Return the columns of `names` that an expression needs besides `others`."""
    import pyarrow as pa

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
    def __init__(self, name: str) -> None:
        self.name = name


class _NotAFilter(Exception):
    def __init__(self, part: ast.expr, why: str = _GRAMMAR) -> None:
        self.part = part
        self.why = why


def _condition(part: ast.expr) -> Any:
    """Return the expression of a Boolean part of a filter."""
    if isinstance(part, ast.BoolOp):
        first, *others = map(_condition, part.values)
        for other in others:
            first = first & other if isinstance(part.op, ast.And) else first | other
        return first
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        return ~_condition(part.operand)
    if isinstance(part, ast.Compare):
        lefts = [part.left, *part.comparators]
        first, *others = map(_comparison, lefts, part.ops, part.comparators)
        for other in others:
            first = first & other
        return first
    if isinstance(part, (ast.Name, ast.Attribute)):
        return _operand(part)
    raise _NotAFilter(part)


def _comparison(left: ast.expr, kind: ast.cmpop, right: ast.expr) -> Any:
    if isinstance(kind, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            raise _NotAFilter(right, "what follows in must be a list of values")
        among = _operand(left).isin([_value(each) for each in right.elts])
        return ~among if isinstance(kind, ast.NotIn) else among
    is_none = isinstance(right, ast.Constant) and right.value is None
    if isinstance(kind, (ast.Is, ast.IsNot)):
        if not is_none:
            raise _NotAFilter(right, "what follows is must be None")
        return _operand(left).is_null() if isinstance(kind, ast.Is) else _operand(left).is_valid()
    if is_none:
        raise _NotAFilter(right, "nothing compares to None: write is None, or is not None")
    return _COMPARISONS[type(kind)](_operand(left), _operand(right))


def _operand(part: ast.expr) -> Any:
    """Return the expression of a column, a struct field, or a value."""
    import pyarrow.compute as pc

    path: list[str] = []
    inner = part
    while isinstance(inner, ast.Attribute):
        path.insert(0, inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        return pc.field(inner.id, *path) if path else pc.field(inner.id)
    return pc.scalar(_value(part))


def _value(part: ast.expr) -> Any:
    try:
        value = ast.literal_eval(part)
    except ValueError:
        raise _NotAFilter(part) from None
    if value is not None and not isinstance(value, (bool, int, float, str, bytes)):
        raise _NotAFilter(part)
    return value
