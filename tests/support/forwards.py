"""A stream as that of a pipe."""

from __future__ import annotations

import io
from typing import Any


class Forwards(io.RawIOBase):
    """A stream of bytes that cannot seek, as that of a pipe."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._content.readinto(buffer)
