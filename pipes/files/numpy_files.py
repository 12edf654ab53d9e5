"""NumPy files to arrays: complete, or an error that says what is wrong."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
from typing import IO, Any

import numpy as np

from ...storage.streaming.decompression_limit import MAX_BYTES, expect_within_limit
from ...storage.streaming.zips import opened_part, opened_zip, raising_bad_zip

_AS_NUMPY_WRITES = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods of an npz. Others decompress in unbounded pieces."""


def is_npy(content: bytes) -> bool:
    """Say whether a file begins as an array does."""
    return content.startswith(np.lib.format.MAGIC_PREFIX)


def arrays_in(content: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Return the array of an npy file, or the arrays of an npz file by name.

    Raises ValueError for a file that is cut or corrupt, one with pickled objects, and one that grows beyond bounds.
    """
    if is_npy(content):
        return _array(io.BytesIO(content), len(content))
    arrays = {}
    try:
        with opened_zip(io.BytesIO(content)) as archive, raising_bad_zip():
            parts = archive.infolist()
            expect_within_limit(sum(part.file_size for part in parts), len(content), max_bytes)
            for part in parts:
                if part.compress_type not in _AS_NUMPY_WRITES:
                    raise zipfile.BadZipFile(f"{part.filename!r} is packed in a way that NumPy does not write")
                with opened_part(archive, part) as file:
                    arrays[part.filename.removesuffix(".npy")] = _array(file, part.file_size)
    except zipfile.BadZipFile as error:
        raise ValueError(f"the file is cut or corrupt: {error}") from error
    return arrays


def _array(file: IO[bytes], size: int) -> Any:
    """Return the array of an npy file of `size` bytes; other files stay bytes."""
    if not is_npy(file.read(len(np.lib.format.MAGIC_PREFIX))):
        file.seek(0)
        return file.read(size)
    try:
        shape, by_columns, dtype = _header(file)
    except (SyntaxError, TypeError, LookupError, tokenize.TokenError, RecursionError) as error:
        raise ValueError(f"the header of the array is cut or corrupt: {error}") from error
    needed, rest = math.prod(shape) * dtype.itemsize, size - file.tell()
    if needed != rest and not dtype.hasobject:
        raise ValueError(
            f"the file is cut or corrupt: {dtype} of shape {shape} are {needed:,} bytes, and it has {rest:,} for them"
        )
    if dtype.hasobject:
        raise ValueError("the array has pickled objects, which are not loaded: they could run any code")
    content = bytearray(needed)
    if file.readinto(content) < needed:  # type: ignore[attr-defined]
        raise ValueError("the file is cut or corrupt: it ends within the array")
    file.read(1)  # the checksum of a zip member is verified at its end
    return np.ndarray(shape, dtype, content, order="F" if by_columns else "C")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, whether its first dimension varies fastest, and its dtype."""
    layout = np.lib.format
    for attempts_left in reversed(range(_HEADER_ATTEMPTS)):
        file.seek(0)
        is_first_version = layout.read_magic(file) == (1, 0)
        # Version 3 differs from version 2 only in field names.
        read_header = layout.read_array_header_1_0 if is_first_version else layout.read_array_header_2_0
        try:
            return read_header(file)
        except SystemError:
            if not attempts_left:
                raise
    raise AssertionError


_HEADER_ATTEMPTS = 10
"""Attempts to parse a header: threads share the depth counter of Python 3.11's parser (CPython #106905)."""
