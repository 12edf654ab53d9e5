"""Lists of arrays in WebDataset's `.ten` files: for each array its header and its data, in padded chunks."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

_MARK = b"~TenBin~"
_PADDED_TO = 64
_TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def from_tenbin(content: bytes) -> list[Any]:
    """Return the arrays of a file; raise ValueError for one that is cut or corrupt."""
    chunks = _chunks(content)
    if len(chunks) % 2:
        raise ValueError("the file of arrays is cut: the last header has no data")
    return [_array(header, data) for header, data in zip(chunks[::2], chunks[1::2], strict=True)]


def to_tenbin(arrays: Sequence[Any]) -> bytes:
    """Return the file of arrays; raise TypeError for what is no array of numbers."""
    parts = []
    for array in arrays:
        kind = array.dtype.str[1:] if isinstance(array, np.ndarray) else type(array).__name__
        if kind not in _TYPES:
            raise TypeError(f"a file of arrays takes NumPy arrays of numbers, {', '.join(_TYPES)}, and not {kind}")
        header = struct.pack(f"<8s8sq{array.ndim}q", kind.encode(), b"", array.ndim, *array.shape)
        for chunk in (header, array.astype(f"<{kind}").tobytes()):
            parts += [_MARK, struct.pack("<q", len(chunk)), chunk, bytes(-len(chunk) % _PADDED_TO)]
    return b"".join(parts)


def _chunks(content: bytes) -> list[memoryview]:
    chunks, at, view = [], 0, memoryview(content)
    while at < len(content):
        start = at + len(_MARK) + 8
        if content[at : at + len(_MARK)] != _MARK or start > len(content):
            raise ValueError(f"the file of arrays is cut or corrupt: no chunk begins at byte {at}")
        (size,) = struct.unpack_from("<q", content, at + len(_MARK))
        if not 0 <= size <= len(content) - start:
            raise ValueError(f"the file of arrays is cut or corrupt: a chunk has {size} bytes at byte {at}")
        chunks.append(view[start : start + size])
        at = start + size + -size % _PADDED_TO
    return chunks


def _array(header: memoryview, data: memoryview) -> Any:
    try:
        name, _, dimensions = struct.unpack_from("<8s8sq", header)
        shape = struct.unpack_from(f"<{dimensions}q", header, 24)
    except struct.error as error:
        raise ValueError(f"the header of an array is cut or corrupt: {error}") from error
    kind = name.rstrip(b"\0").decode("ascii", "replace")
    if kind not in _TYPES:
        raise ValueError(f"the header of an array has the type {kind!r}, and not one of {', '.join(_TYPES)}")
    if min(shape, default=0) < 0 or math.prod(shape) * int(kind[1]) != len(data):
        raise ValueError(f"the header of an array has the shape {shape} of {kind}, and its data {len(data)} bytes")
    return np.frombuffer(data, f"<{kind}").reshape(shape).copy()
