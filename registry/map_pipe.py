"""The base class of map-style pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..state.fields import Tally
from ..state.foreign import TorchMapDataPipe, torch_looks_up
from ..state.passes import ENDED_BY_STOP_ITERATION
from .base import BasePipe
from .metaclasses import MapPipeMeta
from .method_lookup import find_method
from .registration import bases

T_co = TypeVar("T_co", covariant=True)

if TYPE_CHECKING:
    from .methods import MapMethods
else:

    class MapMethods(Generic[T_co]):
        """The methods of operators, for type checkers."""


class MapDataPipe(BasePipe[T_co], MapMethods[T_co], TorchMapDataPipe[T_co], Generic[T_co], metaclass=MapPipeMeta):
    """A pipe that is read by index or key; every map-style operator is a subclass.

    >>> import penstock as ps
    >>> dp = ps.map.SequenceWrapper("abc").map(str.upper)
    >>> dp[1], len(dp), list(dp[1:])
    ('B', 3, ['B', 'C'])
    """

    def _pass_begins(self) -> None:
        """Called when a pass begins over a pipe that reads this one."""
        if "error_policy" in vars(self):
            self.error_policy.take_up()

    def _sliced(self, part: slice) -> Any:
        """Return the pipe that `self[part]` is."""
        return self.subset(range(len(self))[part])

    def __iter__(self) -> Iterator[T_co]:
        length, tally = len(self), Tally()
        yield from tally.follow(map(self.__getitem__, range(length)))
        if tally.items < length:
            raise RuntimeError(ENDED_BY_STOP_ITERATION)


bases["map"] = MapDataPipe
torch_looks_up(MapDataPipe, find_method)
