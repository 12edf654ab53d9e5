"""Arrow values to tensors, by type; errors name the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..arrow import pa, pc

Where = Callable[[int], str]
"""Describes the place of a value, by its number, for errors."""


def converted(array: pa.Array, name: str, where: Where, dtype: torch.dtype | None) -> Any:
    """Return the values of an array as `tensor_of` does; `where` describes the place of a value."""
    kind = array.type
    if (pa.types.is_floating(kind) or pa.types.is_integer(kind)) and dtype is None and not array.null_count:
        return _shared(array)  # fast path: most columns
    if isinstance(kind, pa.FixedShapeTensorType):
        tensor = converted(array.storage, name, where, dtype).reshape(len(array), *kind.shape)
        return tensor.permute(0, *(place + 1 for place in kind.permutation)) if kind.permutation else tensor
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.bool8":
            return converted(array.cast(pa.bool_()), name, where, dtype)
        return converted(array.storage, name, where, dtype)
    if pa.types.is_dictionary(kind):
        return converted(array.dictionary_decode(), name, where, dtype)
    if pa.types.is_run_end_encoded(kind):
        return converted(pc.run_end_decode(array), name, where, dtype)
    if stays_list(kind):
        if dtype is not None:
            raise TypeError(f"column {name!r} is of type {kind}, which stays a list: leave it out of dtypes")
        return _image_bytes(array, where) if pa.types.is_struct(kind) else array.to_pylist()
    if pa.types.is_fixed_size_list(kind):
        return _of_fixed_size_lists(array, name, where, dtype)
    return _of_lists(array, name, where, dtype) if _is_list(kind) else _of_numbers(array, name, where, dtype)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(is_one(kind) for is_one in tests)


def stays_list(kind: pa.DataType) -> bool:
    """Say whether a column of a type becomes a list: of text, bytes, images, or lists of text or bytes."""
    if isinstance(kind, pa.BaseExtensionType):
        return stays_list(kind.storage_type)
    if pa.types.is_struct(kind):
        return sorted(field.name for field in kind) == ["bytes", "path"]
    if pa.types.is_fixed_size_list(kind) or _is_list(kind):
        return stays_list(kind.value_type) and not pa.types.is_struct(kind.value_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return stays_list(kind.value_type)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(is_one(kind) for is_one in (*text, *binary))


def _image_bytes(array: pa.Array, where: Where) -> list[bytes | None]:
    content, path = pc.struct_field(array, "bytes"), pc.struct_field(array, "path")
    for row in pc.and_(content.is_null(), path.is_valid()).to_numpy(zero_copy_only=False).nonzero()[0].tolist()[:1]:
        raise ValueError(
            f"{where(row)} is an image without bytes, whose path is {path[row].as_py()!r}: read that first"
        )
    images: list[bytes | None] = content.to_pylist()
    return images


def _of_fixed_size_lists(array: pa.Array, name: str, where: Where, dtype: torch.dtype | None) -> torch.Tensor:
    size = array.type.list_size
    nulls = _nulls(array, where, dtype)
    values = array.values.slice(array.offset * size, len(array) * size)
    tensor = converted(values, name, _within(where, size), dtype)
    tensor = tensor.reshape(len(array), size, *tensor.shape[1:])
    return tensor if nulls is None else _with_nan(tensor.clone(), nulls)


def _of_lists(array: pa.Array, name: str, where: Where, dtype: torch.dtype | None) -> torch.Tensor:
    if array.null_count:
        row = int(array.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"{where(row)} is null and not a list, so it has no length: fill it, or filter it out")
    lengths = pc.list_value_length(array).to_numpy()
    size = int(lengths[0]) if len(lengths) else 0
    for row in np.flatnonzero(lengths != size).tolist()[:1]:
        raise ValueError(
            f"{where(row)} is a list of {lengths[row]}, and {where(0)} one of {size}: a tensor is made of lists of one "
            "length. Pad them, or leave the column out"
        )
    tensor = converted(array.flatten(), name, _within(where, size), dtype)
    return tensor.reshape(len(array), size, *tensor.shape[1:])  # type: ignore[no-any-return]


def _within(where: Where, size: int) -> Where:
    return lambda number: f"{where(number // size)}, value {number % size}"


def _nulls(array: pa.Array, where: Where, dtype: torch.dtype | None) -> np.ndarray | None:
    """Return a mask of nulls, or None without nulls; raise ValueError for a null that cannot become NaN."""
    if not array.null_count:
        return None
    nulls: np.ndarray = array.is_null().to_numpy(zero_copy_only=False)
    if dtype is None or not dtype.is_floating_point:
        raise ValueError(
            f"{where(int(nulls.argmax()))} is null, which tensors and arrays of numbers cannot hold: fill it, filter "
            "it out, or, for a number, make it NaN by a float in dtypes, as in .to_tensors(dtypes=torch.float32). The "
            'formats "pandas" and "arrow" hold null, as in batch_format="pandas"'
        )
    return nulls


def _with_nan(tensor: torch.Tensor, nulls: np.ndarray) -> torch.Tensor:
    tensor[torch.from_numpy(nulls)] = torch.nan
    return tensor


def _of_numbers(array: pa.Array, name: str, where: Where, dtype: torch.dtype | None) -> torch.Tensor:
    kind = array.type
    if pa.types.is_decimal(kind):
        if dtype is None:
            raise TypeError(
                f"column {name!r} is of type {kind}, which has no tensor type: give its dtype, such as torch.float64"
            )
        return _of_numbers(_from_decimals(array, where, dtype), name, where, dtype)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = kind
    elif pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        plain = pa.int32() if kind.bit_width == 32 else pa.int64()
    elif pa.types.is_boolean(kind):
        plain = pa.uint8()
    elif pa.types.is_null(kind):
        plain = pa.float32()
    else:
        raise TypeError(
            f"column {name!r} is of type {kind}, which cannot become a tensor: leave it out, or turn it into columns "
            "of numbers first, as the fields of a struct"
        )
    nulls = _nulls(array, where, dtype)
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        array = array.cast(plain)
    # Plain numbers without a validity bitmap can share memory.
    array = pa.Array.from_buffers(plain, len(array), [None, array.buffers()[1]], offset=array.offset)
    if nulls is None:
        values = _shared(array)
    else:
        values = torch.from_numpy(np.where(nulls, array.to_numpy().dtype.type(0), array.to_numpy()))
    if pa.types.is_boolean(kind):
        values = values.view(torch.bool)
    elif pa.types.is_temporal(kind):
        values = values.to(torch.int64)
    values = values if dtype is None else cast_values(values, dtype, where)
    return values if nulls is None else _with_nan(values, nulls)


def _shared(array: pa.Array) -> torch.Tensor:
    """Return numbers as a tensor of the same memory, or of a copy if that may not be written to, as in a mapped file.

    A tensor cannot be read-only: a program that changed it would be ended by the system.
    """
    buffer = array.buffers()[1]
    if buffer is None or not buffer.is_mutable:
        return torch.from_numpy(array.to_numpy().copy())
    values = np.frombuffer(buffer, array.type.to_pandas_dtype(), len(array), array.offset * array.type.bit_width // 8)
    return torch.from_numpy(values)


def _from_decimals(array: pa.Array, where: Where, dtype: torch.dtype) -> pa.Array:
    if dtype.is_floating_point or dtype.is_complex:
        return array.cast(pa.float64())
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid as error:
        row, _ = first_failing(array, lambda part: part.cast(pa.int64()), error)
        raise ValueError(f"{where(row)} is {array[row].as_py()}, which {dtype} cannot hold: {error}") from None


def first_failing(values: Any, attempt: Callable[[Any], object], error: Exception) -> tuple[int, Exception]:
    """Return the number of the first value that makes `attempt` fail, and its error; `error` is that of all values."""
    low, high = 0, len(values)  # values[:low] do not fail, values[:high] do
    while high - low > 1:
        middle = (low + high) // 2
        try:
            attempt(values[:middle])
            low = middle
        except Exception as earlier:
            high, error = middle, earlier
    return low, error


def cast_values(values: torch.Tensor, dtype: torch.dtype, where: Where) -> torch.Tensor:
    """Return values cast to a dtype; raise ValueError for the first that it cannot represent."""
    if values.dtype == dtype:
        return values
    cast = values.to(dtype)
    for number in _unfit(values, cast).flatten().nonzero()[:1].flatten().tolist():
        where = where if values.dim() == 1 else _within(where, values[0].numel())
        raise ValueError(f"{where(number)} is {values.flatten()[number].item()}, which {dtype} cannot hold")
    return cast


def _unfit(values: torch.Tensor, cast: torch.Tensor) -> torch.Tensor:
    """Return a mask of values that a cast changed by more than rounding; it may be empty without any."""
    if cast.is_complex() or values.dtype == torch.bool:
        return torch.empty(0)
    if cast.is_floating_point():
        return cast.isinf() & ~values.isinf() if cast.isinf().any() else torch.empty(0)
    low, high = (0, 1) if cast.dtype == torch.bool else (torch.iinfo(cast.dtype).min, torch.iinfo(cast.dtype).max)
    if values.is_floating_point():
        numbers = values.double()
        return ~((numbers >= low) & (numbers < high + 1.0) & (numbers == numbers.floor()))
    of_values = torch.iinfo(values.dtype)
    if low <= of_values.min and of_values.max <= high:
        return torch.empty(0)
    wholes = values.cpu().numpy()  # arrays, unlike tensors, compare with numbers outside their dtype
    return torch.from_numpy((wholes < low) | (wholes > high))
