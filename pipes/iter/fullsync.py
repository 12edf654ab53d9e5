"""Keep the ranks of distributed training in step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...errors.checks import expect_seconds
from ...registry import IterDataPipe, T, functional_datapipe, own
from ...workers.ranks import AllRanks, expect_ranks
from ..bases.one_to_one import SameItems

_HAS_FAILED, _HAS_ENDED, _HAS_ITEM = -1, 0, 1
_NO_ITEM = object()


@functional_datapipe("fullsync")
class FullSync(SameItems[T]):
    """Yield the items as long as every rank has one, so that all ranks end together, with the shortest.

    The ranks are those of `torch.distributed`. Before each item they exchange whether they have one, in a separate gloo
    group. Where the source of one rank fails, the others raise RuntimeError at the same item. All ranks must begin
    their passes together, and must leave a pass early at the same item.

    `timeout` is how many seconds a rank waits for the others. With worker processes, this step and those after it run
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

    resumes_from_start = False  # except the one dropped at the end
    in_main_process = True  # a worker is not a rank
    broken_laws = {
        "abandoned_pass_closes_its_files": "the ranks connect once, for all passes",
        "another_process_agrees": "the ranks are processes, and another one is none of them",
    }
    transient = ("_ranks", "_passes")
    given: int = own(0)

    _ranks: AllRanks | None = None
    _passes = 0

    def __init__(self, source: IterDataPipe[T], timeout: float = 1800) -> None:
        expect_seconds("timeout", timeout)
        self.source = source
        self.timeout = timeout

    def __iter__(self) -> Iterator[T]:
        self._join()
        self._passes += 1
        # Resumed ranks may begin at different items, as where a later step had read ahead. Up to the furthest, all
        # ranks are known to have items, so no exchange is needed.
        agreed = -self._least_of_all(-self.given)
        source = iter(self.source)
        while True:
            try:
                item: Any = next(source, _NO_ITEM)
            except Exception as error:
                with suppress(RuntimeError):  # the error of the source matters more than silent ranks
                    self._least_of_all(_HAS_FAILED)
                    self._errors_of_all(f"{type(error).__name__}: {error}"[:1000])
                raise
            if item is not _NO_ITEM and self.given < agreed:
                least = _HAS_ITEM
            else:
                least = self._least_of_all(_HAS_ENDED if item is _NO_ITEM else _HAS_ITEM)
            if least == _HAS_FAILED:
                raise RuntimeError(f"all ranks stop here: {self._errors_of_all(None)}")
            if least == _HAS_ENDED:
                return
            self.given += 1
            yield item

    def _errors_of_all(self, own: str | None) -> str:
        """Return, as a text, which ranks failed, and their errors; all must send theirs."""
        assert self._ranks is not None
        errors = enumerate(self._ranks.exchange("say who failed", own))
        return "; ".join(f"the source of rank {rank} failed: {error}" for rank, error in errors if error)

    def _join(self) -> None:
        """Join the ranks in a group, once per process group of the program."""
        expect_ranks("fullsync")
        if self._ranks is None or not self._ranks.is_of_this_world():
            self._ranks = AllRanks(self.timeout)

    def _least_of_all(self, own: int) -> int:
        """Return the least value of all ranks; all must be in the same pass."""
        assert self._ranks is not None
        return self._ranks.agree(f"ask for an item of pass {self._passes} over a fullsync", own)[0]
