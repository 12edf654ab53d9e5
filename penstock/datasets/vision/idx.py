"""Arrays in idx files, the format of MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..files import Files
from .rows import flawed

__all__ = ["BYTES_1", "BYTES_3", "INTS_2", "idx"]

BYTES_1, BYTES_3, INTS_2 = 0x0801, 0x0803, 0x0C02
"""What the files begin with: the type of the numbers, and how many dimensions there are."""


def idx(files: Files, path: str, data: bytes, magic: int) -> Any:
    """Return the array of an idx file."""
    if data[:4] != magic.to_bytes(4, "big"):
        raise flawed(files, path, f"it begins with {data[:4].hex()}, not with {magic:08x}: it is another kind of file")
    start = 4 + 4 * (magic & 0xFF)
    shape = np.frombuffer(data[4:start], ">u4").tolist() if len(data) >= start else [0]
    kind = np.dtype(">i4" if magic >> 8 == 0x0C else ">u1")
    size = start + int(np.prod(shape)) * kind.itemsize
    if len(data) != size:
        raise flawed(files, path, f"it has {len(data):,} bytes, and {size:,} by its header: it is cut or damaged")
    return np.frombuffer(data, kind, offset=start).reshape(shape)
