"""How a chain is divided among shards."""

from __future__ import annotations

from ..state.graph import DataPipe
from .how_read import HowRead
from .known import Known, is_map_style

__all__ = ["sentences"]


def sentences(chain: Known) -> list[str]:
    """Say where a chain is divided, and what every shard does."""
    how = chain.how
    points = [step for step in chain.steps if chain.of(step).is_sharding_point]
    said = [_at(chain, point) for point in points]
    if not points and is_map_style(chain.end):
        said.append("Read by index: DataLoader2 divides its indices, and no shard reads the items of another.")
    elif not points:
        said.append("It is not divided. Several workers or ranks need a .sharding_filter(), early in the chain.")
    if how is not None:
        said += _over_readers(how)
    return said


def _at(chain: Known, point: DataPipe) -> str:
    name = chain.name(point)
    if chain.of(point).dispatches:
        return f"{name} divides the stream. One process reads the steps before it, and sends each shard its items."
    number = chain.length(chain.sources(point)[0]) if chain.sources(point) else None
    of = "the stream" if number is None else f"{number:,} items"
    before = [step for step in reversed([*chain.every_shard_reads(point)]) if chain.sources(step)]
    first = chain.sources(point)
    if first and any(map(is_map_style, chain.sources(first[0]))):
        return f"{name} divides {of} by index: each shard reads only its own."
    divides = f"{name} divides {of}: shard s of n takes items s, s + n, s + 2n, …"
    return f"{divides} Every shard runs {chain.names(before)} on all of them." if before else divides


def _over_readers(how: HowRead) -> list[str]:
    if how.shards == 1:
        return ["It is read as one shard."]
    each, rest = divmod(how.shards, how.readers)
    readers = f"{how.workers} workers" if how.workers else "this process"
    if how.ranks > 1:
        readers = f"{how.ranks} ranks" + (f" with {how.workers} workers each" if how.workers else "")
    if how.readers == 1:
        return [f"{how.shards} shards, read by {readers} in turn."]
    share = f"{each}" if not rest else f"{each} or {each + 1}"
    return [f"{how.shards} shards on {readers}: {share} for each. The shards give an item each in turn."]
