"""The ranks of torch.distributed, and the messages that keep them in step."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import sys
import time
import traceback
import warnings
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = 2.5
"""Seconds before a waiting rank tells the others; after as many again, it warns which ranks it waits for."""
_GRACE = 1.0
"""Seconds for live ranks to learn that another one is gone."""

_LOOK_EVERY = 0.2
"""Seconds after which a waiting rank lets Python handle Ctrl-C."""

_NOT_LEAST = 2**62

_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""The number of `AllRanks` made for each world."""

_pending: list[Any] = []
"""Groups given up while they wait for a rank. Freeing one would block until that rank ends."""
atexit.register(_pending.clear)

_failures: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""How often this rank has failed since all ranks met, by world."""


def number_of_ranks() -> int:
    """Return the number of ranks that this process is one of; 1 without `torch.distributed`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def several_ranks() -> bool:
    """Say whether this process is one of several ranks."""
    return number_of_ranks() > 1


def expect_ranks(who: str) -> tuple[int, int]:
    """Return this process's rank and the number of ranks; RuntimeError if there are none."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            f"{who} needs the ranks of torch.distributed: call torch.distributed.init_process_group before the chain "
            "is read, or leave it out if there is only one process"
        )
    return dist.get_rank(), dist.get_world_size()


@contextmanager
def telling_other_ranks() -> Iterator[None]:
    """Tell the other ranks of an error before it is raised here, since they may be waiting for this rank."""
    try:
        yield
    except Exception as error:
        if several_ranks():
            world = dist.group.WORLD
            _failures[world] = _failures.get(world, 0) + 1
            failure = [_failures[world], f"{type(error).__name__}: {error}"[:1000]]
            with suppress(RuntimeError):  # the store may be gone with its rank
                _store().set(f"failed/{dist.get_rank()}", json.dumps(failure))
        raise


def _store(*prefix: object) -> Any:
    # Imported here: a torch built without torch.distributed lacks them.
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)  # torchrun's ranks keep their store
    return PrefixStore("/".join(map(str, ("penstock", restarts, *prefix))), _get_default_store())


def expect_no_second_division() -> None:
    """Raise RuntimeError if accelerate, or transformers' Trainer, divides an already divided chain among ranks."""
    module = sys.modules.get("accelerate.data_loader")
    if module is None:
        return
    # IterableDatasetShard takes every nth item on each rank. DataLoaderDispatcher reads on rank 0 and sends shares.
    divide = {module.IterableDatasetShard.__iter__.__code__, module.DataLoaderDispatcher._fetch_batches.__code__}
    frame = next((frame for frame, _ in traceback.walk_stack(inspect.currentframe()) if frame.f_code in divide), None)
    if frame is None:
        return
    reader = frame.f_locals["self"]
    number = reader.num_processes if hasattr(reader, "num_processes") else reader.state.num_processes
    if number > 1:
        raise RuntimeError(
            f"the chain is divided among ranks, and accelerate divides it again among {number} processes, which "
            "would lose items: give accelerate an undivided chain, or do not let it prepare the loader"
        )


class AllRanks:
    """All ranks of `torch.distributed`, for messages between CPUs; every rank makes its own at the same time.

    If a rank is missing or out of step, every other rank names it: in a warning after some seconds, and in a
    RuntimeError after `timeout` seconds. The error comes at once if the rank has ended, and soon if it has failed.

    The messages go through a gloo group. `leave` or garbage collection gives it up.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.rank, self.size = expect_ranks(type(self).__name__)
        world = dist.group.WORLD
        self._world = weakref.ref(world)
        made = _made[world] = _made.get(world, 0) + 1
        self._store = _store(made)
        self._number = 0
        """The number of the next operation; the same on all ranks."""
        try:
            self._expect_all()
        except RuntimeError:  # no group was made; the others may still try to make this one
            _made[world] -= 1
            raise
        # Only the finalizer has the groups: a group that is alive at interpreter shutdown would abort the process.
        self.leave = weakref.finalize(self, _leave, [])
        self.group_of(range(self.size))

    def group_of(self, ranks: Iterable[int]) -> int:
        """Make a group of some ranks, and return its number. All ranks must call this. Group 0 has all ranks."""
        groups = self._groups
        groups.append(dist.new_group([*ranks], backend="gloo", timeout=timedelta(seconds=self.timeout)))
        return len(groups) - 1

    @property
    def _groups(self) -> list[Any]:
        alive = self.leave.peek()
        if alive is None:
            raise RuntimeError("the ranks are out of step, perhaps since one failed: begin a new epoch")
        groups: list[Any] = alive[2][0]
        return groups

    def is_of_this_world(self) -> bool:
        """Say whether the program's process group is still the same."""
        return self._world() is dist.group.WORLD and self.leave.alive

    def agree(self, what: str, number: int | None = None) -> tuple[int, int]:
        """Return the smallest and the largest number of all ranks; `what` describes the purpose.

        Raises RuntimeError if `what` differs between ranks, or if a rank does not answer.
        """
        code = zlib.crc32(what.encode())
        numbers = [_NOT_LEAST, _NOT_LEAST] if number is None else [number, -number]
        said = torch.tensor([*numbers, code, -code])
        work = dist.all_reduce(said, dist.ReduceOp.MIN, self._groups[0], async_op=True)
        self._wait(work, what)
        least, greatest, first, last = said.tolist()
        if first != -last:
            reports = by_rank(self._gathered(what))
            raise RuntimeError(f"the ranks are not in step: {reports}. All must do the same, in the same order")
        return least, -greatest

    def exchange(self, what: str, value: Any) -> list[Any]:
        """Return the `value` of each rank, in rank order."""
        self.agree(what)
        return self._gathered(value)

    def _gathered(self, value: Any) -> list[Any]:
        everything: list[Any] = [None] * self.size
        dist.all_gather_object(everything, value, group=self._groups[0])
        return everything

    def broadcast(self, item: Any, first: int, group: int) -> Any:
        """Return the item of a group's first rank, on each rank of the group."""
        items = [item]
        dist.broadcast_object_list(items, first, group=self._groups[group])
        return items[0]

    def _expect_all(self) -> None:
        """Wait until every rank is here: all must make a group together."""
        what = "begin to read together"
        until = time.monotonic() + self.timeout
        self._say_here("made")
        looks = 0
        while missing := self._missing("made", min(_PATIENCE, max(until - time.monotonic(), 0))):
            looks += 1
            failed = self._failed(missing)
            if failed or time.monotonic() >= until:
                time.sleep(_GRACE)  # so that the other waiting ranks still see this one
                with suppress(RuntimeError):
                    self._store.delete_key(f"made/{self.rank}")
                raise RuntimeError(failed or self._not_there(missing, what))
            if looks == 2:
                self._warn(missing, what)
        self._forget_failures()

    def _wait(self, work: Any, what: str) -> None:
        """Wait for an operation of all ranks. If it takes long, warn which ranks are missing."""
        number = str(self._number)
        self._number += 1
        looks, failed = 0, ""
        try:
            while not failed and not self._is_done(work, min(_PATIENCE, self.timeout)):  # gloo's timeout ends it
                looks += 1
                if looks == 1:
                    self._say_here(number)
                    continue
                missing = self._missing(number, 0.0)
                failed = self._failed(missing)
                if missing and looks == 2 and not failed:
                    self._warn(missing, what)
        except KeyboardInterrupt:
            self._give_up()
            raise
        except RuntimeError as error:
            self._say_here(number)
            missing = self._missing(number, _GRACE)
            self.leave()  # the group is unusable now
            raise RuntimeError(self._failed(missing) or f"{self._not_there(missing, what)} ({error})") from None
        if failed:
            self._give_up()
            raise RuntimeError(failed)
        self._forget_failures()

    def _give_up(self) -> None:
        """Leave in the middle of an operation."""
        _pending.extend(self._groups)
        self.leave()

    @staticmethod
    def _is_done(work: Any, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                # gloo rounds to whole milliseconds, and 0 would mean no limit.
                work.wait(timedelta(seconds=max(min(left, _LOOK_EVERY), 0.001)))
            except RuntimeError:
                if work.is_completed():
                    work.wait()  # raises if it failed; it may also have finished after the timeout
                    return True
            else:
                return True
        return False

    def _say_here(self, where: str) -> None:
        with suppress(RuntimeError):  # the store may be gone with its rank
            self._store.set(f"{where}/{self.rank}", "here")

    def _missing(self, where: str, seconds: float) -> list[int]:
        """Return the ranks that are still missing, after at most `seconds`."""
        keys = [f"{where}/{rank}" for rank in range(self.size)]
        try:
            with suppress(RuntimeError):
                if seconds:
                    self._store.wait(keys, timedelta(seconds=seconds))
            return [rank for rank, key in enumerate(keys) if not self._store.check([key])]
        except RuntimeError:  # the store is gone
            return [rank for rank in range(self.size) if rank != self.rank]

    def _failed(self, missing: list[int]) -> str:
        """Return, as text, which missing ranks reported a failure; empty if none did.

        Ignore as many failures of a rank as this rank had itself: they may have failed together, and begin again.
        """
        together = _failures.get(dist.group.WORLD, 0)
        board, failures = _store(), list[str]()
        with suppress(RuntimeError):
            for rank in missing:
                if board.check([key := f"failed/{rank}"]):
                    times, error = json.loads(board.get(key))
                    failures += [f"rank {rank} has failed: {error}"] if times > together else []
        return "; ".join(failures)

    def _forget_failures(self) -> None:
        if _failures.pop(dist.group.WORLD, 0):
            with suppress(RuntimeError):
                _store().delete_key(f"failed/{self.rank}")

    def _warn(self, missing: list[int], what: str) -> None:
        warnings.warn(
            f"rank {self.rank} waits for {_ranks(missing)} to {what}, for {self.timeout:g} s at most", stacklevel=2
        )

    def _not_there(self, missing: list[int], what: str) -> str:
        who = _ranks(missing) if missing else "another rank"
        return (
            f"rank {self.rank} was to {what}, and {who} did not: it has ended, has failed, is still busy with "
            f"something else after timeout={self.timeout:g} s, or left its loop earlier than the others"
        )


def _ranks(numbers: list[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"


def by_rank(reports: Sequence[Any]) -> str:
    """Return as text what each rank said; ranks that said the same are grouped."""
    who: dict[str, list[int]] = {}
    for rank, each in enumerate(reports):
        who.setdefault(str(each), []).append(rank)
    return "; ".join(f"{_ranks(ranks)}: {text}" for text, ranks in who.items())


_RELEASE = 0.02
"""Seconds in which gloo's threads release the tensors of the last operation."""


def _leave(groups: list[Any]) -> None:
    if groups:  # the threads need the GIL for that, and the end of a group waits for them with the GIL (torch 2.6)
        time.sleep(_RELEASE)
    for group in groups:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            with suppress(ValueError, AssertionError, RuntimeError):  # the program may have ended all groups before
                dist.destroy_process_group(group)
