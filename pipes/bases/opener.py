"""Base of the openers of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, ClassVar

from ...registry import ErrorPolicy, IterDataPipe, OnError
from ...registry.traits import Trait
from .one_to_one import OneToOne


class Opener(OneToOne[tuple[str, IO[Any]]]):
    """Yield the path or URL and the stream of each file: a base class."""

    traits: ClassVar[tuple[Trait, ...]] = ("opens",)
    length = -1

    def __init__(self, source: IterDataPipe[str], on_error: OnError) -> None:
        self.source = source
        self.on_error = on_error
        self.error_policy = ErrorPolicy(on_error)

    def _open(self, item: Any) -> tuple[str, IO[Any]]:
        """Return the path or URL of an item, and the stream."""
        raise NotImplementedError(f"{type(self).__name__} must define _open")

    def _function(self) -> Callable[[Any], tuple[str, IO[Any]]]:
        return self._open

    def __len__(self) -> int:
        return self.length if self.length >= 0 else super().__len__()
