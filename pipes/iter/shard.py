"""A part of the stream for each of several readers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeVar

from ...registry import SHARDING_PRIORITIES, IterDataPipe, functional_datapipe

T = TypeVar("T")


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe[T]):
    """Yield every n-th item, where n readers share the stream; all items where nobody shares it.

    The runner, or torch's DataLoader, tells each reader which part is its own. What stands before this point is run by
    every reader, so it belongs early in a chain: after listing, before opening and decoding.

    With `sharding_group_filter` only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

    >>> dp = IterableWrapper(range(7)).sharding_filter()
    >>> dp.apply_sharding(3, 1)
    >>> list(dp)
    [1, 4]
    """

    holds_items = False

    def __init__(self, source: IterDataPipe[T], sharding_group_filter: SHARDING_PRIORITIES | None = None) -> None:
        self.source = source
        self.sharding_group_filter = sharding_group_filter
        self._groups: dict[int, tuple[int, int]] = {}
        self._begun = False

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Take the `instance_id`-th of `num_of_instances` parts; at several levels, that part of the level above's."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"instance_id must be in 0 … {num_of_instances - 1}, and is {instance_id}")
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self._groups):
            raise RuntimeError(
                "a chain is sharded either by one call for all levels or level by level, and this one was both"
            )
        self._groups[sharding_group] = (num_of_instances, instance_id)

    def reset(self) -> None:
        self._begun = False

    def get_state(self) -> dict[str, Any]:
        return {"begun": self._begun, "parts": self._part()[0]}

    def set_state(self, state: dict[str, Any]) -> None:
        if state["parts"] != self._part()[0]:
            raise ValueError(
                f"the state is that of one of {state['parts']} parts, and the chain is now read in {self._part()[0]}: "
                "what the parts left over cannot be told"
            )
        self._begun = state["begun"]

    def __iter__(self) -> Iterator[T]:
        parts, part = self._part()
        for item in islice(self.source, parts - 1 if self._begun else part, None, parts):
            self._begun = True
            yield item

    def __len__(self) -> int:
        parts, part = self._part()
        return len(range(part, len(self.source), parts))

    def _part(self) -> tuple[int, int]:
        parts, part = 1, 0
        for group, (num_of_instances, instance_id) in sorted(self._groups.items(), reverse=True):
            if self.sharding_group_filter in (None, group):
                part += parts * instance_id
                parts *= num_of_instances
        return parts, part
