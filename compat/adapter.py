"""torchdata's adapters: functions that change a chain, for `DataLoader2(datapipe_adapter_fn=…)`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..registry import IterDataPipe, operators, walk
from ..state.foreign import declares


class Adapter(ABC):
    """A callable that takes a chain and returns it changed; a plain function works too."""

    @abstractmethod
    def __call__(self, datapipe: Any) -> Any:
        """Return the changed chain."""


class Shuffle(Adapter):
    """Switches all shuffling of a chain on or off; None leaves the chain unchanged.

    If switched on and nothing in the chain shuffles, it appends a `shuffle`.

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
        shufflers: list[Any] = [pipe for pipe in walk(datapipe) if declares(pipe, "set_shuffle")]
        for shuffler in shufflers:
            shuffler.set_shuffle(self.enable)
        return datapipe if shufflers or not self.enable else datapipe.shuffle()


class CacheTimeout(Adapter):
    """Sets the `timeout` of every `end_caching` in a chain, in seconds.

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
