"""What is known of a step before anything is read, as its class and arguments declare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry.traits import IN_BYTES, Trait, buffers_of
from ..state.seeds import Seeded

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """What is known of a step."""

    does: frozenset[Trait]
    """What it does; empty if it does not say."""
    is_random: bool
    """Whether it draws random numbers. A shuffle that is switched off does not."""
    is_ordered: bool
    """Whether a seed fixes its order: not if items come as they are ready."""
    is_sharding_point: bool
    """Whether the stream is divided among shards here."""
    dispatches: bool
    """Whether one process reads the steps before it, for all shards."""
    in_main_process: bool
    """Whether it runs in the process that uses the items, even if workers read."""
    works_in: str | None
    """Where it works, if not in the reader's thread: `"a thread"`, `"threads"`, `"processes"` or `"actors"`."""
    buffers: dict[str, Any]
    """The parameters that bound how much it holds, each with its argument; None is unbounded."""
    most_held: int | None
    """How much it holds at most, counted in `buffered`; 0 without buffers, None if only bytes bound it, or nothing."""
    most_bytes: int | None
    """How many bytes it holds at most, where a parameter says so."""
    buffered: str
    """What `most_held` counts."""
    starts_again: bool
    """Whether a resumed pass over it runs again from its start."""
    leaves_out_failures: bool
    """Whether it skips items that fail."""
    gives: str | None
    """`"rows"`, `"batches"` of columns or the `"same"` as its sources; None if unknown."""
    passes_items: bool
    """Whether its items are those of its sources, unchanged."""


def facts_of(pipe: Any) -> Facts:
    """Return what is known of a step."""
    kind, buffers = type(pipe), buffers_of(pipe)
    gives = getattr(pipe, "gives", None)
    in_bytes = [int(held * IN_BYTES[name]) for name, held in buffers.items() if held and name in IN_BYTES]
    return Facts(
        does=frozenset(getattr(kind, "does", ())),
        is_random=isinstance(pipe, Seeded) and pipe.is_random,
        is_ordered=getattr(pipe, "ordered", True) is not False and not getattr(pipe, "non_deterministic", False),
        is_sharding_point=hasattr(kind, "apply_sharding"),
        dispatches=getattr(kind, "dispatches", False),
        in_main_process=getattr(kind, "in_main_process", False),
        works_in=getattr(pipe, "works_in", None),
        buffers=buffers,
        most_held=pipe.most_held() if hasattr(kind, "most_held") else 0,
        most_bytes=min(in_bytes, default=None),
        buffered=getattr(kind, "buffered", "items"),
        starts_again=getattr(pipe, "holds_items", False) and not _marks_its_items(kind),
        leaves_out_failures=hasattr(kind, "guard") and pipe.guard.skips,
        gives=gives,
        passes_items=gives == "same" and getattr(pipe, "keeps_schema", False),
    )


def _marks_its_items(kind: type) -> bool:
    """Say whether a class reads its source by `outputs_of_each`, which resumes near where it stood."""
    iterate = getattr(kind.__iter__, "__wrapped__", kind.__iter__)  # type: ignore[attr-defined]
    return "outputs_of_each" in getattr(getattr(iterate, "__code__", None), "co_names", ())
