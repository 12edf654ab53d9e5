"""The laws of resuming, here and in another process, of seeding and sharding."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..registry import IterDataPipe
from ..registry.sharding import apply_sharding, sharding_points
from ..state import replay as reading_module
from ..state.foreign import declares
from ..state.seeds import seed_graph
from ..workers.calls import Caller
from .probes import Maker, agree, as_plain, items_of, law, seeded

__all__ = ["NotChecked"]  # its laws enter themselves

_EPOCHS = 8
_SHARES = {"as usual": reading_module.SNAPSHOT_SHARE, "at every chance": float("inf"), "as seldom as possible": 1e-15}
"""Shares of the running time for snapshots; they decide how often snapshots are taken."""


@law("iter")
def resumed_after_every_item(make: Maker) -> None:
    """From the state after any item, a fresh chain yields the rest, and then a whole next pass.

    States are taken in one pass and go through JSON. They must be right for any number of snapshots, and must not
    change when the pass goes on.
    """
    expected = items_of(seeded(make))
    for how_often, share in _SHARES.items():
        with _snapshots(share):
            pipe = seeded(make)
            iterator = iter(pipe)
            states = [pipe.state_dict()]
            saved = [_state_text(states[0])]
            for _ in expected:
                items_of(islice(iterator, 1))
                states.append(pipe.state_dict())
                saved.append(_state_text(states[-1]))
            agree(items_of(iterator), [], "the pass that states were taken in, after its last item")
            next_pass = items_of(pipe)
            agree([_state_text(state) for state in states], saved, "the states, looked at after the pass")
            for number, text in enumerate(saved):
                when = f"resumed after {number} items, snapshots {how_often}"
                resumed = _resumed(make, text)
                agree(items_of(resumed), expected[number:], when)
                agree(items_of(resumed), next_pass, f"{when}: the next pass")


@law("iter")
def resumed_at_either_end(make: Maker) -> None:
    """From a state before a pass, or after its end, a fresh chain yields a whole pass with the same seeds."""
    pipe = seeded(make)
    before = _state_text(pipe.state_dict())
    first = items_of(pipe)
    after = _state_text(pipe.state_dict())
    second = items_of(pipe)
    agree(items_of(_resumed(make, before)), first, "resumed before the first pass")
    agree(items_of(_resumed(make, after)), second, "resumed after the first pass")
    again = _state_text(_resumed(make, after).state_dict())
    agree(items_of(_resumed(make, again)), second, "resumed from the state of a resumed chain")


@law("iter")
def resumed_again_and_again(make: Maker) -> None:
    """Handed from chain to chain, one item read from each, passes give the same items as without a break."""
    pipe = seeded(make)
    expected, following = items_of(pipe), items_of(pipe)
    pipe = seeded(make)
    items = []
    for _ in expected:
        items += items_of(islice(pipe, 1))
        pipe = _resumed(make, _state_text(pipe.state_dict()))
    agree(items + items_of(pipe), expected, "resumed after each item")
    pipe = _resumed(make, _state_text(pipe.state_dict()))
    agree(items_of(pipe), following, "resumed after each item, and after the pass")


class NotChecked(UserWarning):
    """The reason why a law cannot be checked for a chain; `check_operator` warns of it."""


@law()
def another_process_agrees(make: Maker) -> None:
    """A process with another hash seed yields the same items, also from the state after any item."""
    import cloudpickle  # type: ignore[import-untyped]  # slow to import, and only needed here

    expected = items_of(seeded(make))
    pipe = seeded(make)
    states = []
    if isinstance(pipe, IterDataPipe):
        iterator = iter(pipe)
        for _ in expected:
            items_of(islice(iterator, 1))
            states.append(_state_text(pipe.state_dict()))
    try:
        sent = cloudpickle.dumps((make(), _memory_files()))
    except Exception as error:
        raise NotChecked(f"the chain cannot be pickled, and so not be sent to another process: {error}") from error
    caller = _caller_with_another_hash_seed(cloudpickle.dumps(_items_in_this_process))

    def compare(state: str | None, here: list[Any], how: str) -> None:
        how += " in a process with another hash seed, where sets have another order"
        try:
            there = pickle.loads(caller.call(sent, state))
        except NotChecked:
            raise
        except Exception as error:
            raise AssertionError(f"{how}: it raised {error!r}") from error
        agree(there, here, how)

    try:
        compare(None, expected, "read")
        for number, state in enumerate(states, 1):
            compare(state, items_of(_resumed(make, state)), f"resumed after {number} items")
    finally:
        caller.end()


def _caller_with_another_hash_seed(fn: bytes) -> Caller:
    """Return the caller of a function in another process.

    Processes of the fork server start in no time, and share a hash seed that it has drawn. Where the environment fixes
    the seed for all, a process is started with the next one.
    """
    seed = os.environ.get("PYTHONHASHSEED", "random")
    if not seed.isdecimal():
        return Caller(fn, 1)
    caller = Caller(fn, 1, "spawn")
    os.environ["PYTHONHASHSEED"] = str((int(seed) + 1) % 2**32)
    try:
        caller.make_ready()
    finally:
        os.environ["PYTHONHASHSEED"] = seed
    return caller


def _items_in_this_process(sent: bytes, state: str | None) -> bytes:
    """Return the pickled items of a chain, or those after a state."""
    import cloudpickle

    try:
        chain, files = pickle.loads(sent)
    except Exception as error:
        raise NotChecked(f"another process cannot load the chain: {error!r}") from error
    if files:
        import fsspec  # type: ignore[import-untyped]

        fsspec.get_filesystem_class("memory").store.update(files)

    items = items_of(seeded(lambda: chain) if state is None else _resumed(lambda: chain, state))
    try:
        return bytes(cloudpickle.dumps(items))
    except Exception as error:
        raise NotChecked(f"its items cannot be pickled, and so not be compared: {error}") from error


def _memory_files() -> dict[str, Any]:
    """Return fsspec's files in memory: the other process has none of them."""
    module = sys.modules.get("fsspec.implementations.memory")
    return {} if module is None else module.MemoryFileSystem.store


@contextlib.contextmanager
def _snapshots(share: float) -> Iterator[None]:
    usual = reading_module.SNAPSHOT_SHARE
    reading_module.SNAPSHOT_SHARE = share
    try:
        yield
    finally:
        reading_module.SNAPSHOT_SHARE = usual


def _state_text(state: Any) -> str:
    """Return a state as JSON; bytes become base64."""
    return json.dumps(state, default=_spelled)


def _spelled(value: object) -> dict[str, str]:
    assert isinstance(value, bytes), f"the state is not plain data: it holds {value!r}, of type {type(value).__name__}"
    return {"bytes": base64.b64encode(value).decode()}


def _resumed(make: Maker, saved: str) -> Any:
    """Return a fresh chain with another seed, resumed from a saved state."""
    pipe = make()
    seed_graph(pipe, 1)
    pipe.load_state_dict(json.loads(saved, object_hook=_with_bytes))
    return pipe


def _with_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if value.keys() == {"bytes"} else value


@law()
def same_seed_same_order(make: Maker) -> None:
    """One seed fixes the items of every epoch, and a random operator gives each epoch another order."""

    def epochs() -> list[list[Any]]:
        pipe = seeded(make)
        return [items_of(pipe) for _ in range(_EPOCHS)]

    seen = epochs()
    for number, (again, before) in enumerate(zip(epochs(), seen, strict=True)):
        agree(again, before, f"epoch {number} of an equal pipe with the same seed")
    enough = len({*map(repr, seen[0])}) > 2
    if enough and declares(make(), "set_seed") and all(epoch == seen[0] for epoch in seen):
        raise AssertionError(f"{_EPOCHS} epochs had one order: {seen[0]!r:.200}")


@law("iter")
def union_over_shards_is_the_whole(make: Maker) -> None:
    """Any number of shards together yield every item once.

    A chain without a sharding point gets one at its end. The items in batches (lists) are compared one by one.
    """

    def divisible(shard: int) -> Any:
        pipe = make()
        if not sharding_points(pipe):
            pipe = pipe.sharding_filter()
        seed_graph(pipe, 0, shard)
        return pipe

    whole = _counted(divisible(0))
    for number in (1, 2, 3, 7):
        union: Counter[str] = Counter()
        for shard in range(number):
            pipe = divisible(shard)
            apply_sharding(pipe, number, shard)
            union.update(_counted(pipe))
        if union != whole:
            raise AssertionError(
                f"over {number} shards, missing: {[*(whole - union)]!r:.200}; too many: {[*(union - whole)]!r:.200}"
            )


def _counted(pipe: Any) -> Counter[str]:
    return Counter(repr(part) for parts in items_of(pipe, _unbatched) for part in parts)


def _unbatched(item: Any) -> list[Any]:
    return [inner for part in item for inner in _unbatched(part)] if isinstance(item, list) else [as_plain(item)]
