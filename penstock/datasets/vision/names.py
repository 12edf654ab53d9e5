"""Names of classes that lie in files of the package."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.resources import files
from typing import overload

__all__ = ["Names"]


class Names(Sequence[str]):
    """The lines of a file of the package. It is read when they are first asked for."""

    def __init__(self, file: str) -> None:
        self.file = file

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return _lines(self.file)[index]

    def __len__(self) -> int:
        return len(_lines(self.file))

    def __repr__(self) -> str:
        return f"Names({self.file!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and other.file == self.file

    def __hash__(self) -> int:
        return hash(self.file)


@functools.cache
def _lines(file: str) -> tuple[str, ...]:
    text = files(__package__).joinpath("categories", file).read_text(encoding="utf-8")
    return tuple(text.splitlines())
