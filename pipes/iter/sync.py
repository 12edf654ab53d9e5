"""Keeping the ranks of distributed training in step."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ...registry import IterDataPipe, functional_datapipe, own

__all__ = ["AllRanks"]

T = TypeVar("T")

_FAILED, _ENDED, _READY = -1, 0, 1
_NO_MORE = object()


@functional_datapipe("fullsync")
class FullSync(IterDataPipe[T]):
    """Yield the items as long as every rank has one, so that all ranks end together, with the shortest.

    The ranks are those of `torch.distributed`. Before each item they tell each other whether they have one, in a gloo
    group of their own. Where the source of one rank fails, the others raise RuntimeError at the same item. All ranks
    begin their passes together, and one that leaves a pass early leaves it at the same item as the others.

    `timeout` is how many seconds a rank waits for the others. Under worker processes, this step and those after it run
    in the main process.

    Raises RuntimeError where `torch.distributed` is not initialized, where the ranks are in different passes, and where
    another rank does not answer in time.

    >>> import torch.distributed as dist
    >>> if not dist.is_initialized():
    ...     dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dp = IterableWrapper(range(3)).fullsync()
    >>> list(dp)
    [0, 1, 2]
    """

    gives = "same"
    keeps_schema = True
    holds_items = False  # but for the one that is dropped at the end
    in_main_process = True  # a worker is no rank
    transient = ("_ranks", "_world", "_passes")
    given: int = own(0)

    _world: Any = None
    _passes = 0

    def __init__(self, source: IterDataPipe[T], timeout: float = 1800) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout must be seconds, more than 0, and is {timeout}")
        self.source = source
        self.timeout = timeout

    def __iter__(self) -> Iterator[T]:
        self._join()
        self._passes += 1
        # Resumed, ranks may begin at different places, such as where one reads again what a later step had read ahead.
        # As far as any of them had come, all have items, and need not ask.
        agreed = -self._least_of_all(-self.given)
        source = iter(self.source)
        while True:
            try:
                item: Any = next(source, _NO_MORE)
            except Exception:
                with suppress(RuntimeError):  # that others do not answer is not what is to be told
                    self._least_of_all(_FAILED)
                raise
            if item is not _NO_MORE and self.given < agreed:
                least = _READY
            else:
                least = self._least_of_all(_ENDED if item is _NO_MORE else _READY)
            if least == _FAILED:
                raise RuntimeError("the source of another rank failed, and so all ranks stop here: see its error")
            if least == _ENDED:
                return
            self.given += 1
            yield item

    def _join(self) -> None:
        """Make the group, which all ranks do together; once, unless the program has begun a new world since."""
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "fullsync needs the ranks of torch.distributed: call torch.distributed.init_process_group before the "
                "chain is read, or leave fullsync out where there is one process only"
            )
        if self._world is None or self._world() is not dist.group.WORLD:
            self._world = weakref.ref(dist.group.WORLD)
            self._ranks = AllRanks(self.timeout)

    def _least_of_all(self, own: int) -> int:
        """Return the least of what the ranks say; all must be in a pass of the same number."""
        said = torch.tensor([own, self._passes, -self._passes])
        try:
            dist.all_reduce(said, dist.ReduceOp.MIN, self._ranks.group)
        except RuntimeError as error:
            self._world = None  # the group is of no use any more
            raise RuntimeError(
                f"the other ranks did not answer within {self.timeout} s: one of them has ended, stands still, or left "
                f"its pass earlier than this one ({error})"
            ) from None
        least, first, last = said.tolist()
        if first != -last:
            raise RuntimeError(
                f"the ranks are in different passes, of the numbers {first} and {-last}: all ranks must begin a pass "
                "together, and where one leaves it early, all must leave it at the same item"
            )
        return int(least)


class AllRanks:
    """A gloo group of all ranks, for messages between CPUs; every rank makes its own at the same time.

    It is given up with `leave`, or when nobody holds this any more, or when the program ends.
    """

    def __init__(self, timeout: float) -> None:
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        # Only the finalizer holds the group: one that lived until the interpreter is torn down would abort the process.
        self.leave = weakref.finalize(self, _leave, group)

    @property
    def group(self) -> Any:
        """The group, for the functions of torch.distributed; None once it is given up."""
        held = self.leave.peek()
        return None if held is None else held[2][0]


def _leave(group: Any) -> None:
    with suppress(ValueError, AssertionError, RuntimeError):  # the program may have ended all groups before
        dist.destroy_process_group(group)
