"""torchdata's adapters: functions of a chain for `DataLoader2(datapipe_adapter_fn=…)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..registry import IterDataPipe, operators, walk

__all__ = ["Adapter", "CacheTimeout", "Shuffle"]


class Adapter(ABC):
    """What takes a chain and returns it changed. Any function that does so will do."""

    @abstractmethod
    def __call__(self, datapipe: Any) -> Any:
        """Return the changed chain."""


class Shuffle(Adapter):
    """Switches all shuffling of a chain on or off; with None it leaves the chain as it is.

    Switched on where nothing in the chain shuffles, it puts a `shuffle` at the end.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(5)).shuffle()
    >>> list(ps.DataLoader2(dp, Shuffle(False)))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, enable: bool | None = True) -> None:
        self.enable = enable

    def __call__(self, datapipe: Any) -> Any:
        if self.enable is None:
            return datapipe
        shufflers: list[Any] = [pipe for pipe in walk(datapipe) if hasattr(type(pipe), "set_shuffle")]
        for shuffler in shufflers:
            shuffler.set_shuffle(self.enable)
        return datapipe if shufflers or not self.enable else datapipe.shuffle()


class CacheTimeout(Adapter):
    """Gives every `end_caching` of a chain another `timeout`, in seconds.

    >>> adapter = CacheTimeout(600)
    """

    def __init__(self, timeout: int | None = None) -> None:
        if timeout is None:
            raise ValueError("give the timeout, in seconds")
        self.timeout = timeout

    def __call__(self, datapipe: Any) -> Any:
        for pipe in walk(datapipe):
            if isinstance(pipe, IterDataPipe) and isinstance(pipe, operators["iter.end_caching"].cls):
                pipe.__dict__["timeout"] = self.timeout
        return datapipe
