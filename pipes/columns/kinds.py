"""Which Arrow types each file format can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..arrow import pa, pq


def expect_kinds(schema: pa.Schema, has_place: Callable[[pa.DataType], bool], why: str) -> None:
    """Raise TypeError, which names the column, for a type that files cannot hold, and say why."""
    for field in schema:
        if not has_place(field.type):
            raise TypeError(f"the column {field.name!r} is {field.type}, and {why}")


def has_elements(kind: pa.DataType) -> bool:
    """Say whether Parquet can read a type back: not tensors and fixed-size lists without elements."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_fixed_size_list(kind) and kind.list_size == 0:
        return False
    return all(has_elements(kind.field(number).type) for number in range(kind.num_fields))


def of_parquet(kind: pa.DataType) -> bool:
    """Say whether Parquet can hold a type, by trying to write it."""
    try:
        pq.write_table(pa.table({"": pa.nulls(1, kind)}), pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True


def floats_in(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the float arrays in an array, at any depth."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from floats_in(array.storage)
    elif pa.types.is_dictionary(kind):
        yield from floats_in(array.dictionary_decode())
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from floats_in(part)
    elif _is_list(kind):
        yield from floats_in(array.flatten())
    elif pa.types.is_floating(kind):
        yield array


def repeating_in(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the Parquet paths in a column worth dictionary encoding, since values may repeat.

    With it, floats take several times as long to write, and seldom less space.
    """
    if is_tensor(kind):
        yield from repeating_in(path, kind.storage_type)
    elif _is_list(kind):
        yield from repeating_in(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from repeating_in(f"{path}.key_value.key", kind.key_type)
        yield from repeating_in(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from repeating_in(f"{path}.{field.name}", field.type)
    elif not pa.types.is_floating(kind):
        yield path


def of_csv(kind: pa.DataType) -> bool:
    """Say whether a field of a CSV file can hold a type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or _is_plain_type(kind)


def of_json(kind: pa.DataType) -> bool:
    """Say whether JSON can hold a type; tensors become lists, and points in time become text."""
    if pa.types.is_dictionary(kind) or is_tensor(kind):
        kind = kind.value_type
    if _is_list(kind) or pa.types.is_struct(kind):
        return all(of_json(kind.field(number).type) for number in range(kind.num_fields))
    return bool(_is_plain_type(kind) or (pa.types.is_temporal(kind) and not pa.types.is_duration(kind)))


def is_tensor(kind: pa.DataType) -> bool:
    """Say whether a type is Arrow's fixed-shape tensor."""
    return isinstance(kind, pa.FixedShapeTensorType)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_plain_type(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(text or number or pa.types.is_null(kind))
