"""Checkpoint files, written in pieces, which torch does not do."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from ..storage.writing import naming, whole_file, write_in_parts

_PART = 2**25
"""Bytes sent at a time. S3 allows up to 10,000 parts per object, and checkpoints may be large."""


@contextmanager
def writing(url: str, options: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """Open a file for writing: it replaces an earlier one once complete, and does not appear if writing fails."""
    # Closed, since torch keeps what it could not write to.
    with whole_file(url, "wb", options, block_size=_PART) as file, _Pieces(file) as pieces:
        try:
            yield pieces  # type: ignore[misc]  # enough of a file for torch.save
        except BaseException:
            if pieces.error is not None:
                raise pieces.error from None  # torch still writes the end of the file, and its error hides the first
            raise
        with naming(url):
            pieces.sync()


class _Pieces(io.RawIOBase):
    """Write to a file in pieces, up to the first error: torch writes complete tensors, which a file may copy."""

    def __init__(self, file: IO[bytes]) -> None:
        self.error: BaseException | None = None
        self._file = file
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.error is not None:
            raise self.error
        content = memoryview(data).cast("B")
        try:
            write_in_parts(self._file, content)
        except BaseException as error:
            self.error = error
            raise
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def sync(self) -> None:
        """Wait until a local file is on the disk, so that it survives a power failure."""
        try:
            descriptor = self._file.fileno()
        except io.UnsupportedOperation:
            return
        self._file.flush()
        os.fsync(descriptor)
