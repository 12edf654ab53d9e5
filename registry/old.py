"""To go: the trail as operators used it before `read`."""

from __future__ import annotations

from typing import Any

from . import reading


class Trail(reading.Trail):
    def __init__(self, source: Any, oldest: Any, snapshot_every: int = 1) -> None:
        super().__init__(source, vars(source).get("_handed_down"), 0)
        self.needed = oldest

    def __iter__(self) -> Any:
        return self.items()

    def way_back(self) -> Any:
        node, [at, oldest, *_] = super().way_back()
        return node, oldest - at

    def last_needed(self) -> Any:
        node, [at, *_] = super().way_back()
        return at, node
