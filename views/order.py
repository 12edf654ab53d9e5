"""How many items a chain gives, in which order, and what is random."""

from __future__ import annotations

from ..state.graph import DataPipe
from .known import Known, is_map_style
from .text import in_words

__all__ = ["sentences"]


def sentences(chain: Known) -> list[str]:
    """Say how many items a chain gives, and what is random about their order."""
    said = [_number(chain)]
    random = [step for step in chain.steps if chain.of(step).is_random]
    said += [_draws(chain, step) for step in random]
    said += [
        f"{chain.name(step)} gives items as they are ready: their order differs from run to run."
        for step in chain.steps
        if not chain.of(step).is_ordered
    ]
    if random:
        said.append(
            "Each epoch has another order, which follows from the seed: loader.seed(n), or set_seed(n) "
            "without a loader."
        )
    elif len(said) == 1:
        said.append("No step is random: every epoch has the same order.")
    return said


def _number(chain: Known) -> str:
    number = chain.length(chain.end)
    if chain.is_endless(chain.end):
        return "It never ends: a loop over it needs a limit, such as .header(n)."
    if number is not None:
        is_divided = is_map_style(chain.end) or any(chain.of(step).is_sharding_point for step in chain.steps)
        return f"{in_words(number)}{', before they are divided among shards' * is_divided}."
    unknown = chain.end
    while sources := [source for source in chain.sources(unknown) if chain.length(source) is None]:
        unknown = sources[0]
    return (
        f"The number of items is unknown before {chain.name(unknown)} has run. Where you know it, .set_length(n) "
        "tells trainers."
    )


def _draws(chain: Known, step: DataPipe) -> str:
    name, facts = chain.name(step), chain.of(step)
    if not chain.does(step, "shuffles"):
        draws = "draws the source of each item" if chain.does(step, "merges") else "draws random numbers"
        return f"{name} {draws}."
    source = chain.sources(step)[0] if chain.sources(step) else None
    if source is not None and is_map_style(source):
        return f"{name} shuffles all items, in no memory."
    number = None if source is None else chain.length(source)
    if not facts.most_held or facts.buffers.keys().isdisjoint(("buffer_size", "batch_num")):
        return f"{name} shuffles all items."
    if facts.buffered == "items" and number is not None and number <= facts.most_held:
        return f"{name} shuffles fully: its buffer of {facts.most_held:,} has room for all {number:,} items."
    of = f", of {number:,}" if facts.buffered == "items" and number is not None else ""
    return f"{name} draws each item from a buffer of {facts.most_held:,} {facts.buffered}{of}."
