"""Prefixes of a checkpoint's files, by rank: object stores divide their load by the beginnings of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import distributed

from ..errors.checks import expect_whole


@dataclass(frozen=True)
class RoundRobinPrefixes:
    """Give the ranks these prefixes in turn, for `StorageWriter(prefix_strategy=…)`.

    With `epoch`, there is a folder for it within the prefix. Raises ValueError if there are no prefixes.

    >>> prefixes = RoundRobinPrefixes(["shard1", "shard2"], epoch=5)
    >>> [prefixes(rank) for rank in range(3)]
    ['shard1/epoch_5/__0_', 'shard2/epoch_5/__1_', 'shard1/epoch_5/__2_']
    """

    prefixes: Sequence[str]
    epoch: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.prefixes, str) or not self.prefixes:
            raise ValueError(f"prefixes must be a list of at least one, and are {self.prefixes!r}")
        expect_whole("epoch", self.epoch, least=0, optional=True)

    def __call__(self, rank: int) -> str:
        return _named(self.prefixes[rank % len(self.prefixes)], self.epoch, rank)


@dataclass(frozen=True)
class _NumberPrefixes:
    _digits: ClassVar[str]

    epoch: int | None = None
    least_length: int = 10
    count: int | None = None

    def __post_init__(self) -> None:
        expect_whole("epoch", self.epoch, least=0, optional=True)
        expect_whole("least_length", self.least_length)
        expect_whole("count", self.count, optional=True)

    def __call__(self, rank: int) -> str:
        count = self.count or (distributed.get_world_size() if distributed.is_initialized() else 1)
        length = max(self.least_length, len(format(count - 1, self._digits)))
        number = format(rank % count, f"0{length}{self._digits}")
        return _named(number[::-1], self.epoch, rank)  # what differs comes first


@dataclass(frozen=True)
class BinaryPrefixes(_NumberPrefixes):
    """Give each rank a prefix of zeros and ones, for `StorageWriter(prefix_strategy=…)`.

    There are `count` prefixes, or as many as ranks, of at least `least_length` digits, the last digit first. With
    `epoch`, there is a folder for it within the prefix.

    >>> prefixes = BinaryPrefixes(least_length=3, count=4)
    >>> [prefixes(rank) for rank in range(3)]
    ['000/__0_', '100/__1_', '010/__2_']
    """

    _digits = "b"


@dataclass(frozen=True)
class HexPrefixes(_NumberPrefixes):
    """Give each rank a prefix of hexadecimal digits; the rest is as for `BinaryPrefixes`.

    >>> HexPrefixes(epoch=5, least_length=4, count=256)(26)
    'a100/epoch_5/__26_'
    """

    _digits = "x"


def _named(prefix: str, epoch: int | None, rank: int) -> str:
    return f"{prefix}/__{rank}_" if epoch is None else f"{prefix}/epoch_{epoch}/__{rank}_"
