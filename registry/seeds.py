"""Random numbers that a chain can repeat: one seed for a chain, another for each pipe and each pass.

Which pass it is comes from above. The pipe that is read counts its passes, the epochs, and each reader tells its
sources of which pass of its own theirs are part; a reader that reads a source again tells how often. So no pipe has to
remember what became of its earlier passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from .arguments import expect_whole
from .graph import DataPipe, walk
from .own import own

__all__ = [
    "FIRST_PASS",
    "Path",
    "Seeded",
    "derive_seed",
    "seed_graph",
    "seed_of_chain",
    "seed_of_user",
    "seed_other",
    "seed_unseen",
    "uniform_draws",
]

_BLOCK = 1024
_LEAST_SEED = -(2**63)  # torch's generators take negative ones, too


class Path(NamedTuple):
    """Which pass it is."""

    epoch: int
    """The number of the pass over the pipe at the end of the chain."""
    again: int = 0
    """What tells the passes apart of which several are part of that one; 0 for the first."""

    def next(self, reader: int, times: int) -> Path:
        """Return the path of a pass that a reader, so many steps from the end, begins after `times` others."""
        return self._replace(again=derive_seed(self.again, reader, times)) if times else self


FIRST_PASS = Path(0)


def derive_seed(*parts: int) -> int:
    """Return a 63-bit seed made of several numbers, each taken modulo 2**64, by NumPy's SeedSequence.

    >>> derive_seed(0, 1) == derive_seed(0, 1) != derive_seed(1, 0)
    True
    """
    # SeedSequence joins the 32-bit words of its numbers and ignores zeros at the end: without the count of the parts
    # and two words for each, (1,) and (1, 0) would be one.
    words = [word for part in parts for word in (part % 2**32, (part >> 32) % 2**32)]
    mixed = np.random.SeedSequence([len(parts), *words]).generate_state(1, np.uint64)
    return int(mixed[0]) >> 1


def uniform_draws(seed: int, start: int = 0) -> Iterator[float]:
    """Yield random floats in [0, 1) for ever, from number `start` on of the sequence that `seed` names.

    Any place in the sequence is reached at once, so an operator resumes by the count of its draws. The
    generator is Philox-4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by
    the seed and the number of the block.

    >>> [round(x, 3) for x in islice(uniform_draws(7), 2, 4)] == [round(x, 3) for x in islice(uniform_draws(7, 2), 2)]
    True
    """
    first_block, offset = divmod(start, _BLOCK)
    for block in count(first_block):
        key = np.array([seed % 2**64, block], dtype=np.uint64)
        numbers = np.random.Generator(np.random.Philox(key=key)).random(_BLOCK).tolist()
        yield from islice(numbers, offset, None)
        offset = 0


class Seeded:
    """What a pipe that draws random numbers is, besides a pipe.

    Each pass has a seed of its own, `pass_seed`, derived from the pipe's seed and from which pass it is. Where no seed
    was set, torch's generator draws it when it is first needed, so that `torch.manual_seed` governs it; it is part of
    every state, so that the passes after a resumed one are the same too.

    >>> import random
    >>> import penstock as ps
    >>> class Dropper(ps.Seeded, ps.IterDataPipe):
    ...     def __init__(self, source, share):
    ...         self.source, self.share = source, share
    ...     def __iter__(self):
    ...         generator = random.Random(self.pass_seed)
    ...         return (item for item in self.source if generator.random() >= self.share)
    >>> ps.check_operator(lambda: Dropper(ps.iter.IterableWrapper(range(20)), 0.5))
    """

    pass_seed: int = own(0)
    _seed: int | None = None
    _first_epoch: int | None = None
    """The epoch that counts as the first, since the seed was set; None where that is still to come."""

    def set_seed(self, seed: int) -> Self:
        """Fix the random order of this pipe: the passes from here on are a function of `seed`."""
        expect_whole("seed", seed, least=_LEAST_SEED)
        self._seed, self._first_epoch = int(seed), None
        return self

    def begin_random_pass(self, path: Path) -> None:
        """Take up the seed of a new pass."""
        if self._first_epoch is None:
            self._first_epoch = path.epoch
        again = (path.again,) if path.again else ()
        self.pass_seed = derive_seed(self._base_seed(), path.epoch - self._first_epoch, *again)

    def random_state(self) -> dict[str, Any]:
        """Return, as plain data, what the seeds of all passes to come follow from."""
        return {"seed": self._base_seed(), "first_epoch": self._first_epoch}

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Take up what `random_state` gave. Raises TypeError for what it cannot have given."""
        seed, first_epoch = state["seed"], state["first_epoch"]
        if type(seed) is not int or not isinstance(first_epoch, (int, type(None))):
            raise TypeError(f"seeds and epochs are integers, and these are {seed!r} and {first_epoch!r}")
        self._seed, self._first_epoch = seed, first_epoch

    def _base_seed(self) -> int:
        if self._seed is None:
            self._seed = _drawn_seed()
        return self._seed


def _drawn_seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item())


def seed_graph(pipe: DataPipe, seed: int, shard: int = 0, first_epoch: int | None = None) -> None:
    """Seed every pipe of a chain that has `set_seed`, torch's own and others' included.

    A pipe's seed depends on its place in the chain. Above (that is, before) a sharding point all shards get the
    same seeds, since they must agree on the stream they divide; below it each shard gets seeds of its own. The next
    epoch is the first under these seeds, unless `first_epoch` says which one is.
    """
    pipes = list(walk(pipe))
    shared = {id(above) for point in pipes if hasattr(type(point), "apply_sharding") for above in walk(point)}
    for place, step in enumerate(pipes):
        if hasattr(type(step), "set_seed"):
            own_seed = derive_seed(seed, place, 0 if id(step) in shared else shard + 1)
            step.set_seed(own_seed)
            if isinstance(step, Seeded):
                step._first_epoch = first_epoch
            else:
                vars(step)["_seed_of_chain"] = own_seed
        elif getattr(step, "holds_items", False):
            unseen = seeds_of_unseen(step)
            unseen.set_seed(derive_seed(seed, place, 0 if id(step) in shared else shard + 1))
            unseen._first_epoch = first_epoch


def seeds_of_unseen(pipe: Any) -> Seeded:
    """Return the seeds of a pipe from which those of pipes follow that it reads and no graph shows."""
    unseen: Seeded = vars(pipe).setdefault("_seeds_of_unseen", Seeded())
    return unseen


def seed_unseen(chain: DataPipe, reader: DataPipe, number: int) -> None:
    """Seed the pipes of a chain that a reader begins to read, and that no graph shows.

    An example is a chain that an operator builds in its `__iter__`. A resumed pass runs again, and must read the same.
    `number` counts such chains in a pass. Pipes that the graph shows have their own seeds; seeds that users set stay.
    """
    unseen, shown = seeds_of_unseen(reader), {id(part) for part in walk(reader)}
    for place, part in enumerate(walk(chain)):
        if id(part) in shown:
            continue
        seed = derive_seed(unseen.pass_seed, number, place)
        held = vars(part)
        if isinstance(part, Seeded):
            if part._seed == held.get("_seed_as_unseen"):
                part.set_seed(seed)
                held["_seed_as_unseen"] = seed
        elif hasattr(type(part), "set_seed"):
            held["_seed_of_chain"] = seed
        elif getattr(part, "holds_items", False):
            seeds_of_unseen(part).set_seed(seed)


def seed_other(pipe: Any, path: Path, seed: int | None = None) -> None:
    """Give a pipe that has `set_seed`, and is not `Seeded`, the seed of a new pass: that of the path, or a given one.

    Such pipes know nothing of paths. What their users have set is left alone.
    """
    if seed is None:
        if seed_of_user(pipe) is not None:
            return
        seed = derive_seed(seed_of_chain(pipe), *path)
    vars(pipe)["_seed_of_pass"] = seed
    pipe.set_seed(seed)


def seed_of_chain(pipe: Any) -> int:
    """Return the seed from which those of all passes over such a pipe follow; asking for it fixes it."""
    seed: int | None = vars(pipe).get("_seed_of_chain")
    if seed is None:
        seed = vars(pipe)["_seed_of_chain"] = _drawn_seed()
    return seed


def seed_of_user(pipe: Any) -> int | None:
    """Return the seed of a pipe that has `set_seed`, and is not `Seeded`, if its user has set one."""
    held = vars(pipe)
    seed: int | None = held.get("_seed")  # where torch's pipes keep theirs
    return None if seed in (held.get("_seed_of_chain"), held.get("_seed_of_pass")) else seed


def seeds_of(pipe: DataPipe) -> list[int | None]:
    """Return the seeds from which those of all passes over a chain follow."""
    parts: Iterator[Any] = walk(pipe)
    told = ("set_seed", "seed_elsewhere")
    return [_seed_of(part) for part in parts if any(hasattr(type(part), name) for name in told)]


def _seed_of(pipe: Any) -> int | None:
    if hasattr(type(pipe), "seed_elsewhere"):  # of what is read in another process, or by another chain
        elsewhere: int = pipe.seed_elsewhere
        return elsewhere
    if isinstance(pipe, Seeded):
        return pipe._base_seed()
    if hasattr(type(pipe), "_stands"):  # one of ours that seeds itself in a way of its own
        of_chain: int | None = vars(pipe).get("_seed_of_chain")
        return of_chain
    seed = seed_of_user(pipe)
    return seed_of_chain(pipe) if seed is None else seed
