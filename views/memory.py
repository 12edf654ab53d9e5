"""How much a chain holds at most."""

from __future__ import annotations

from typing import Any

from ..state.graph import DataPipe, is_one_of_several
from .known import Known

__all__ = ["sentences", "with_unit"]


def sentences(chain: Known) -> list[str]:
    """Say what each step holds at most, and what a loader reads ahead."""
    how = chain.how
    holding = [step for step in chain.steps if chain.of(step).buffers or chain.does(step, "caches")]
    said = [_held_by(chain, step) for step in holding if not is_one_of_several(step)]
    if said and how is not None and how.shards > 1:
        said.append(f"Each of the {how.shards} shards has its own buffers.")
    if how is not None and how.workers:
        items = how.workers * how.ahead_in_each_worker
        size = _bytes_of_item(chain, chain.end)
        known = "" if size is None else f", {with_unit((items + how.ahead_in_main) * size)}"
        said.append(
            f"The loader reads ahead: {how.workers} workers up to {how.ahead_in_each_worker} items each, the main "
            f"process up to {how.ahead_in_main}, in all {items + how.ahead_in_main}{known}."
        )
    elif how is not None and how.ahead_in_main:
        said.append(f"The loader reads up to {how.ahead_in_main} items ahead.")
    return said or ["No step holds more than the item that it works on."]


def with_unit(size: float) -> str:
    """Return a size in bytes with its unit.

    >>> with_unit(256 * 2**20), with_unit(1500), with_unit(3)
    ('256 MiB', '1.46 KiB', '3 bytes')
    """
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}" if unit != "bytes" else f"{size:.0f} bytes"


def _held_by(chain: Known, step: DataPipe) -> str:
    name, facts = chain.name(step), chain.of(step)
    source = chain.sources(step)[0] if chain.sources(step) else None
    number = None if source is None else chain.length(source)
    if chain.does(step, "caches"):
        held = "all items" if number is None else f"all {number:,} items"
        size = _bytes_of_item(chain, source)
        if facts.most_bytes is not None:
            return f"{name}: the first items, up to {with_unit(facts.most_bytes)}."
        known = f", {with_unit(number * size)}" if size is not None and number is not None else ""
        return f"{name}: {held}{known}, as long as the chain lives."
    if facts.most_held is None and facts.most_bytes is None:
        return f"{name}: any number of {facts.buffered}."
    bounds = []
    if facts.most_held is not None:
        most, counted = facts.most_held, facts.buffered
        if counted == "items" and number is not None:
            most = min(most, number)
        size = _bytes_of_item(chain, source) if counted == "items" else None
        bounds.append(f"{most:,} {counted if most != 1 else counted.removesuffix('s')}")
        if size is not None:
            bounds.append(with_unit(most * size))
    if facts.most_bytes is not None:
        bounds.append(with_unit(facts.most_bytes))
    return f"{name}: up to {', '.join(bounds)}."


def _bytes_of_item(chain: Known, step: DataPipe | None) -> int | None:
    """Return the bytes of an item, where the items come unchanged from a list of tensors, arrays or bytes in memory."""
    if step is None:
        return None
    held = vars(chain.maker(step))
    items: Any = held.get("iterable", held.get("sequence"))
    if not isinstance(items, (list, tuple)) or not items:
        return None
    first = items[0]
    if isinstance(first, (bytes, bytearray)):
        return len(first)
    size = getattr(first, "nbytes", None)
    return size if isinstance(size, int) else None
