"""What is known of a step before anything is read, as its class and arguments declare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph import DataPipe
from ..seeds import Seeded

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """What is known of a step."""

    is_random: bool
    """Whether it draws random numbers."""
    is_sharding_point: bool
    """Whether the stream is divided among shards here."""
    in_main_process: bool
    """Whether it runs in the process that uses the items, even if workers read."""
    works_in: str | None
    """Where it works, if not in the reader's thread: `"a thread"`, `"threads"`, `"processes"` or `"actors"`."""
    buffers: dict[str, Any]
    """The parameters that bound how much it holds, each with its argument; None is unbounded."""


def facts_of(pipe: DataPipe) -> Facts:
    """Return what is known of a step."""
    kind = type(pipe)
    held = vars(pipe)
    return Facts(
        is_random=isinstance(pipe, Seeded),
        is_sharding_point=hasattr(kind, "apply_sharding"),
        in_main_process=getattr(kind, "in_main_process", False),
        works_in=getattr(pipe, "works_in", None),
        buffers={name: held.get(name, held.get(f"_{name}")) for name in getattr(kind, "buffers", ())},
    )
