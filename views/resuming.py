"""What a chain reads again when it resumes from a state."""

from __future__ import annotations

import math

from ..state.graph import DataPipe
from .known import Known, is_map_style

__all__ = ["sentences"]


_SIZES = {"batch_size", "n", "dataframe_size"}
"""The sizes of batches: nothing is held behind one."""


def sentences(chain: Known) -> list[str]:
    """Say what each step reads again when the chain resumes."""
    said = [text for step in chain.steps if (text := _again(chain, step)) is not None]
    return said or ["It goes on where it stood, and reads nothing again."]


def _again(chain: Known, step: DataPipe) -> str | None:
    name, facts = chain.name(step), chain.of(step)
    if is_map_style(step):
        return f"{name} reads its whole source again." if chain.indexes(step) else None
    if facts.starts_again:
        if chain.sources(step):
            return f"{name} reads its source again from the beginning{_with(chain, step)}, and drops what it gave."
        return f"{name} lists again, and drops what it gave."
    if chain.does(step, "shuffles") and facts.buffered == "open items":
        return f"{name} opens its {facts.most_held:,} items again, and drops what they gave{_with(chain, step)}."
    if chain.does(step, "unpacks"):
        return f"{name} reads the current file, or its current part, again{_with(chain, step)}."
    gives_all_at_once = chain.does(step, "batches") and facts.buffers.keys() <= _SIZES
    if not facts.buffers or not facts.most_held or gives_all_at_once:
        return None
    back, source = facts.most_held, chain.sources(step)[0]
    about = "up to"
    if chain.does(step, "shuffles") and "buffer_size" in facts.buffers and back > 1:
        if facts.buffered == "items":  # the oldest has been in the buffer for about so long
            back, about = math.ceil(back * math.log(back)), "about"
        else:  # rows stay for three rounds at most
            back = back * 3 // 2
    number = chain.length(source)
    if facts.buffered == "items" and number is not None and number <= back:
        return f"{name} reads up to all {number:,} items of its source again{_with(chain, step)}."
    return f"{name} reads {about} {back:,} {facts.buffered} of its source again{_with(chain, step)}."


def _with(chain: Known, step: DataPipe) -> str:
    """Return which steps with much work run again for that."""
    again = [above for above in chain.line(step) if chain.does(above, "expensive")]
    return f", through {chain.names(again[::-1])}" if again else ""
