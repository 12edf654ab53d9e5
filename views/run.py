"""`run`: reads a chain to its end, and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ..pipes.bases.writing.write_shards import ShardWriter
from ..registry import IterDataPipe, MapDataPipe, Tally
from .chain_info import never_ends
from .read_all import read_to_end


def run(datapipe: IterDataPipe[Any] | MapDataPipe[Any]) -> dict[str, int]:
    """Read a chain to its end, and return the number of its `items`, and of those `skipped` and attempts `retried`.

    For a chain that ends in a writer, `files` are counted in place of items, and their `rows` or `samples`. A resumed
    chain counts what it still reads. A long pass shows a progress bar, as `count` does. A loader has its own `run()`.

    Raises ValueError for a chain that never ends.

    >>> import penstock as ps
    >>> rows = ps.from_items([{"id": number} for number in range(5)])
    >>> rows.write_json("memory://run/", rows_per_file=2).run()
    {'files': 3, 'rows': 5, 'skipped': 0, 'retried': 0}
    >>> rows.batch(2).run()
    {'items': 3, 'skipped': 0, 'retried': 0}
    """
    if never_ends(datapipe):
        raise ValueError("the chain never ends: end it, as by header(n), or read it with take(n)")
    tally = Tally()
    return _counts(tally, read_to_end(datapipe, "run", tally), datapipe, datapipe)


def run_loader(loader: Any) -> dict[str, int]:
    """Read an epoch of a loader to its end, and return what `run` returns for a chain."""
    if never_ends(loader.datapipe):
        raise ValueError("the chain never ends: end it, as by header(n), before it is given to the loader")
    tally = Tally()
    return _counts(tally, tally.follow(loader), loader.datapipe, loader)


def _counts(tally: Tally, items: Iterable[Any], chain: Any, counted: Any) -> dict[str, int]:
    if isinstance(chain, ShardWriter):
        of_files = {chain.counted: sum(number for _, number in items)}
        found = {"files": tally.items, **of_files}
    else:
        deque(items, maxlen=0)
        found = {"items": tally.items}
    stats: Mapping[str, Mapping[str, Any]] = counted.stats()
    return {**found, **{name: sum(step.get(name, 0) for step in stats.values()) for name in ("skipped", "retried")}}
