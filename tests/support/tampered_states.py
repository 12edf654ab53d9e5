"""Load states of a loader that were changed in one place, and print what comes of each: `tampered_states.py CHAIN`."""

from __future__ import annotations

import copy
import os
import pickle
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

import penstock as ps
from resuming import as_json, from_json

SECONDS = 20
"""How long a state may take to be loaded, and some items to be read."""
ROOM = 2 * 2**30
"""Bytes of memory that this process may ask for besides what it has at first."""
MOST = 100
FEW_PLACES = 12
OTHERS = (10**30, -1, "text", None)


class Evil:
    """Where it is unpickled, a folder appears."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.makedirs, (self.folder,)


def linear() -> Any:
    return ps.iter.IterableWrapper(range(40)).shuffle(buffer_size=5).sharding_filter().enumerate().batch(2).prefetch(2)


def branched() -> Any:
    one, other = ps.iter.IterableWrapper(range(40)).sharding_filter().fork(2)
    even, odd = other.demux(2, lambda number: number % 2)
    return one.shuffle(buffer_size=4).zip_longest(even.mux_longest(odd))


def grouped() -> Any:
    source = ps.iter.IterableWrapper(range(40)).sharding_filter().flatmap(lambda number: [number] * 2)
    return source.groupby(lambda number: number % 3, group_size=3, buffer_size=9, guaranteed_group_size=1).unbatch()


def cached() -> Any:
    source = ps.iter.IterableWrapper(range(20)).sharding_filter().shuffle().in_memory_cache().cycle(2)
    return source.mix(ps.iter.IterableWrapper(range(50, 60)).sharding_filter().shuffle()).threadpool_map(
        abs, max_workers=2
    )


CHAINS = {"linear": linear, "branched": branched, "grouped": grouped, "cached": cached}


def loader_of(chain: str, workers: int) -> ps.DataLoader2[Any]:
    loader: ps.DataLoader2[Any] = ps.DataLoader2(
        CHAINS[chain](), reading_service=ps.MultiProcessingReadingService(workers, num_shards=2)
    )
    loader.seed(0)
    return loader


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in a state."""
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def at(state: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        state = state[key]
    return state


def changed(state: Any, path: tuple[Any, ...], value: Any) -> Any:
    state = copy.deepcopy(state)
    at(state, path[:-1])[path[-1]] = value
    return state


def outcome(chain: str, workers: int, state: Any) -> str:
    """Load a state and read on: "ran", or the name of the error."""
    signal.alarm(SECONDS)
    try:
        with loader_of(chain, workers) as loader:
            loader.load_state_dict(state)
            list(islice(loader, MOST))
    except Exception as error:
        return type(error).__name__
    finally:
        signal.alarm(0)
    return "ran"


def too_long(*_: Any) -> None:
    raise TimeoutError


def main(chain: str) -> None:
    signal.signal(signal.SIGALRM, too_long)
    with loader_of(chain, 0) as loader:
        list(islice(loader, 7))
        state = from_json(as_json(loader.state_dict()))
    most = psutil.Process().memory_info().vms + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    everywhere = [*places(state)]
    with tempfile.TemporaryDirectory() as folder:
        evil = Path(folder, "evil")
        code = pickle.dumps(Evil(str(evil)))
        few = everywhere[:: max(len(everywhere) // FEW_PLACES, 1)] if chain == "linear" else []
        for workers, path in [*[(0, path) for path in everywhere], *[(2, path) for path in few]]:
            result = outcome(chain, workers, changed(state, path, code))
            if evil.exists():
                evil.rmdir()
                result = "code was run"
            print(f"{[*path]} = code: {result}", flush=True)
    for path in everywhere:
        if isinstance(at(state, path), (int, float)):
            for other in OTHERS:
                print(f"{[*path]} = {other!r}: {outcome(chain, 0, changed(state, path, other))}", flush=True)
    for number in (10**18, 10**30, 0, -1, 1.5, "3") if chain == "linear" else ():
        print(f"['num_shards'] = shards {number!r}: {outcome(chain, 0, {**state, 'num_shards': number})}")


if __name__ == "__main__":
    main(sys.argv[1])
