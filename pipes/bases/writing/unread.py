"""A warning for a writer that is dropped before it was read."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self


class Unread:
    """Warns when the last copy of a pipe that shares it is dropped, and none was read or pickled."""

    forks: ClassVar[int] = 0
    """The number of forks of this process: a child may read what the parent drops."""

    @classmethod
    def count_fork(cls) -> None:
        cls.forks += 1

    def __init__(self, what: str) -> None:
        self._what = what
        self._forks = self.forks
        self._is_read = False

    def read(self) -> None:
        """Note that a copy is read, here or elsewhere."""
        self._is_read = True

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, copied: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self.read()
        return _read_elsewhere, (self._what,)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # An argument, since at exit the names of this module may be gone.
        if not (is_finalizing() or self._is_read or self._forks < self.forks):
            warnings.warn(f"{self._what}: nothing was written: read the chain, as by `.run()`", stacklevel=2)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=Unread.count_fork)


def _read_elsewhere(what: str) -> Unread:
    unread = Unread(what)
    unread.read()
    return unread
