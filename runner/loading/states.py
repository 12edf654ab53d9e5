"""The states of a loader: its epoch, seeds and position."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from ...registry import chain_shape, check_state, expect_whole, hand_down, header
from ...storage.local.atomic import beside
from ...workers.ranks import telling_other_ranks
from ..reader import expect_shards
from .merging import in_one_piece, merge_state_dicts, reader_below
from .position import LoaderPosition, load_position, one_line, position_in
from .reports import LoaderReports

T = TypeVar("T")


class LoaderStates(LoaderReports[T]):
    """Base of `DataLoader2`: takes and loads its states."""

    def __init__(self) -> None:
        self._seed: int | None = None
        self._drawn: int | None = None
        """The seed if none was given. Each rank draws one; all use rank 0's."""
        self._epoch = 0
        self._ended_epochs = 0
        """The number of epochs before this one, whatever seeds they had: the progress bar's."""
        self._reseeded: int | None = None
        """The seed set during an epoch, for later epochs."""
        self._under_way = False
        self._position = LoaderPosition()
        self._last_state: dict[str, Any] | str | None = None
        """The state in the epoch during which the loader was shut down, or why there is none."""

    def seed(self, seed: int) -> None:
        """Set the seed that all epochs' seeds derive from; the next epoch is the first again."""
        expect_whole("seed", seed, least=0)
        if seed >= 2**64:
            raise ValueError(f"seed must be less than 2**64, and is {seed}")
        if self._under_way or self._position.steps_at_start:
            self._reseeded = int(seed)
        else:
            self._seed, self._epoch = int(seed), 0

    def state_dict(self, *, local: bool = False, before_last: bool = False) -> dict[str, Any]:
        """Return, as plain data, the loader's position: just after the last item that it handed out.

        After an interrupt, or an error that left the loader's `with`, it is just after the last item that the program
        is done with: it has asked for the next one. The position stays until the next epoch begins, also after
        `shutdown()`.

        On several ranks, the state covers all of them and is the same on each: all must call this after the same item,
        or after an interrupt. With `local=True` it covers this rank only, and `merge_state_dicts` merges the states of
        all ranks.

        With `before_last=True` it is the position before that item, for a loop that discards a step.
        """
        read = self._initialized()
        rank_sync = self._service.rank_sync
        if self._last_state is not None:
            if rank_sync is not None and not local:
                raise RuntimeError(
                    "the loader was shut down, and the ranks no longer meet: merge_state_dicts merges what "
                    "state_dict(local=True) returns on each"
                )
            if before_last or isinstance(self._last_state, str):
                why = "only the last position is kept" if before_last else self._last_state
                raise RuntimeError(f"the loader was shut down in the middle of an epoch: {why}")
            return in_one_piece(self._last_state)
        if rank_sync is not None and not local:
            if self._position.is_interrupted:
                rank_sync.leave()  # they meet again: some may have been interrupted while they waited for others
            if not self._under_way:  # the same on all ranks
                self._agree()
        own = self._own_state(self._position.before_last(read) if before_last else self._position.now(read))
        if rank_sync is None or local:
            return in_one_piece(own)
        position = self._position
        answers = rank_sync.all_ranks().exchange("take a state", (own, position.is_interrupted, position.done))
        least = min(done for _, _, done in answers)
        if any(is_interrupted for _, is_interrupted, _ in answers) and any(done > least for _, _, done in answers):
            own = self._own_state(position.after(read, least))
            answers = rank_sync.all_ranks().exchange("take a state of what all are done with", (own,))
        return merge_state_dicts([own for own, *_ in answers])

    def _own_state(self, position: dict[str, Any]) -> dict[str, Any]:
        return {
            **header(self._chain),
            "read_through": self._read_through(),
            "state": {**position, "epoch": self._epoch},
            "num_shards": self._service.num_shards,
            "rank": self._rank(),
            "seed": self._base_seed(),
            "epoch": self._epoch,
            "reseeded": self._reseeded,
        }

    @telling_other_ranks()
    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Let the next `iter()` resume from a state of a loader over an equal chain.

        The numbers of worker processes and ranks may differ; the number of shards comes from the state. All ranks load
        the same state.

        Raises ValueError when the chain, the version, the arguments or the way of reading differ. The next epoch raises
        RuntimeError where a source has another order. `strict=False` accepts other arguments and other orders.
        """
        entries = ("read_through", "num_shards", "rank", "seed", "epoch", "reseeded")
        if isinstance(state_dict, dict) and isinstance(state_dict.get("arguments"), tuple):
            state_dict = {**state_dict, "arguments": [*state_dict["arguments"]]}
        state_dict = check_state(self._chain, state_dict, strict, *entries)
        if state_dict["read_through"] != self._read_through():
            raise ValueError(
                f"the state is of a loader that reads through {one_line(state_dict['read_through'])}, and this one "
                f"reads through {one_line(self._read_through())}: use the same kind of reading service"
            )
        seed, epoch = state_dict["seed"], state_dict["epoch"]
        reseeded = state_dict["reseeded"]
        numbers = (seed, epoch) if reseeded is None else (seed, epoch, reseeded)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a loader's state has a seed and an epoch, and perhaps another seed, which are integers")
        position = position_in(state_dict, self._rank())
        if state_dict["num_shards"] is not None:
            expect_shards(state_dict["num_shards"])
        load_position(self._initialized(), position)  # raises if the chain cannot resume there
        hand_down(self._initialized(), [])  # the next epoch loads it again
        if self._under_way:
            self._service.finalize_iteration()
        self._service.num_shards = state_dict["num_shards"]
        loaded = LoaderPosition(position, is_local=state_dict["rank"] is not None)
        self._position, self._seed, self._epoch, self._reseeded = loaded, seed, epoch, reseeded
        self._ended_epochs = epoch
        self._under_way = False
        for reader in self._readers():
            reader.shutdown()

    @contextmanager
    def save_on_interrupt(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Write `state_dict(local=True)` to a file when the block ends in an interrupt or an error, which goes on.

        `load_state_dict(torch.load(path))` reads on there. On several ranks, give each its own path.

        >>> import penstock as ps, tempfile
        >>> path = tempfile.mkdtemp() + "/place.pt"
        >>> loader = ps.DataLoader2(ps.iter.IterableWrapper(range(5)))
        >>> with loader.save_on_interrupt(path):
        ...     for item in loader:
        ...         if item == 2:
        ...             raise MemoryError
        Traceback (most recent call last):
        ...
        MemoryError
        >>> loader.load_state_dict(torch.load(path))
        >>> list(loader)
        [2, 3, 4]
        """
        try:
            yield
        except BaseException:
            self._position.requests.interrupt()
            with beside(os.fspath(path)) as file:
                torch.save(self.state_dict(local=True), file)
            raise

    def _agree(self) -> None:
        """Check that all ranks read the same, and adopt their common seed."""
        if (rank_sync := self._service.rank_sync) is None:
            return
        common = {
            "chain": chain_shape(self._chain),
            "arguments": [
                # Strings may be paths on each rank's own disk.
                {name: value for name, value in arguments.items() if not isinstance(value, str)}
                for arguments in header(self._chain)["arguments"]
            ],
            "num_shards": self._service.num_shards,
            "epoch": self._epoch,
            "reseeded": self._reseeded,
            "state": None if self._position.is_local else self._position.loaded,
            "random_split": [reader.random_state()["splits"] for reader in self._readers()],
        }
        self._seed = rank_sync.begin(common, self._seed, self._base_seed())

    def _rank(self) -> list[Any] | None:
        """Return this rank's part, the number of parts, and whether states resume on that many ranks only."""
        rank_sync = self._service.rank_sync
        if rank_sync is None:
            return None
        reader = reader_below(self._initialized())
        assert reader is not None  # `ShardingReadingService` requires one for ranks
        return [rank_sync.part.rank if rank_sync.reads else None, rank_sync.part.ranks, reader.options.by_ranks]

    def _read_through(self) -> list[str]:
        read = self._initialized()
        reader = reader_below(read)
        return chain_shape(read if reader is None else reader)

    def _base_seed(self) -> int:
        if self._seed is None and self._drawn is None:
            self._drawn = int(torch.empty((), dtype=torch.int64).random_().item())
        return self._drawn if self._seed is None else self._seed  # type: ignore[return-value]
