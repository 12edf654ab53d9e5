"""A data set that can give several items by one call, and notes what it is asked for."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset


class Together(Dataset[int]):
    """The numbers below `n`; an index, or a list of them, is noted with each call."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.calls: list[Any] = []

    def __getitem__(self, index: int) -> int:
        self.calls.append(index)
        return range(self.n)[index]

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.calls.append(indices)
        return [range(self.n)[index] for index in indices]

    def __len__(self) -> int:
        return self.n
