"""Repeatable random numbers: one seed for a chain, another for each pipe and each pass.

Each pipe gets the path of its pass from its reader. The pipe at the end of the chain counts its passes, the epochs. A
reader gives its sources the path of its own pass, and a count when it reads a source again. So no pipe has to remember
its earlier passes.

Attributes of pipes that hold seeds:

- `Seeded`: `_seed` is the base seed, `_first_epoch` the first epoch under it, `pass_seed` the seed of the present pass.
- Pipes with a `set_seed` of their own, such as torch's: `_seed` is what `set_seed` was given last, `_seed_of_chain` the
  base seed that the chain gave, `_seed_of_pass` the seed of the present pass. A `_seed` that is neither is the user's.
- Steps that may read inner chains: `_inner_seeds`, a `Seeded` of its own; in the inner chain, `_seed_as_inner` is the
  seed that the step gave.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count, islice
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from ..errors.checks import expect_whole
from .fields import own
from .foreign import OurPipe, declares
from .graph import DataPipe, sources_first, walk

_BLOCK = 1024
_LEAST_SEED = -(2**63)  # torch's generators take negative ones, too


class PassPath(NamedTuple):
    """Identifies a pass."""

    epoch: int
    """The number of the pass over the pipe at the end of the chain."""
    again: int = 0
    """Distinguishes several passes within that epoch; 0 for the first."""
    before: int = 0
    """How many passes within that epoch its readers had begun before it."""


FIRST_PASS = PassPath(0)


def derive_seed(*parts: int) -> int:
    """Return a 63-bit seed derived from several numbers, each modulo 2**64, by NumPy's SeedSequence.

    >>> derive_seed(0, 1) == derive_seed(0, 1) != derive_seed(1, 0)
    True
    """
    # SeedSequence joins the 32-bit words of its numbers and ignores trailing zeros. The count of the parts, and two
    # words for each, keep (1,) and (1, 0) apart.
    words = [word for part in parts for word in (part % 2**32, (part >> 32) % 2**32)]
    mixed = np.random.SeedSequence([len(parts), *words]).generate_state(1, np.uint64)
    return int(mixed[0]) >> 1


def uniform_draws(seed: int, start: int = 0) -> Iterator[float]:
    """Yield random floats in [0, 1) without end, from index `start` of the sequence of `seed`.

    Any index is reached at once, so an operator resumes by the count of its draws. The generator is Philox-4x64-10
    (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by the seed and the block number.

    >>> from itertools import islice
    >>> import penstock as ps
    >>> [*islice(ps.uniform_draws(7), 2, 4)] == [*islice(ps.uniform_draws(7, 2), 2)]
    True
    """
    first_block, offset = divmod(start, _BLOCK)
    for block in count(first_block):
        key = np.array([seed % 2**64, block], dtype=np.uint64)
        numbers = np.random.Generator(np.random.Philox(key=key)).random(_BLOCK).tolist()
        yield from islice(numbers, offset, None)
        offset = 0


class Seeded:
    """A mixin for pipes that draw random numbers.

    Each pass has its own seed, `pass_seed`, derived from the pipe's seed and the pass. If no seed was set, torch's
    generator draws one when first needed, so `torch.manual_seed` governs it. States contain the pipe's seed, so the
    passes after a resumed one are the same too.

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

    is_random: bool = True
    """Whether the items are random; not for a step that only seeds chains, or that is switched off."""
    pass_seed: int = own(0)
    _seed: int | None = None
    _first_epoch: int | None = None
    """The first epoch since the seed was set; None if it has not begun."""

    def set_seed(self, seed: int) -> Self:
        """Fix the random order of this pipe: later passes are a function of `seed`.

        A loader sets the seeds of all steps, by its own: for a loader call `loader.seed(n)` instead.
        """
        expect_whole("seed", seed, least=_LEAST_SEED)
        self._seed, self._first_epoch = int(seed), None
        return self

    def begin_random_pass(self, path: PassPath) -> None:
        """Set `pass_seed` for a new pass."""
        if self._first_epoch is None:
            self._first_epoch = path.epoch
        again = (path.again,) if path.again else ()
        self.pass_seed = derive_seed(self._base_seed(), path.epoch - self._first_epoch, *again)

    def random_state(self) -> dict[str, Any]:
        """Return, as plain data, the values from which the seeds of later passes derive."""
        return {"seed": self._base_seed(), "first_epoch": self._first_epoch}

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Restore what `random_state` returned. Raises TypeError for any other values."""
        seed, first_epoch = state["seed"], state["first_epoch"]
        if type(seed) is not int or not isinstance(first_epoch, (int, type(None))):
            raise TypeError(f"seeds and epochs must be integers, and are {seed!r} and {first_epoch!r}")
        self._seed, self._first_epoch = seed, first_epoch

    def _base_seed(self) -> int:
        if self._seed is None:
            self._seed = _drawn_seed()
        return self._seed


def _drawn_seed() -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item())


def seed_graph(pipe: DataPipe, seed: int, shard: int = 0, first_epoch: int | None = None) -> None:
    """Seed every pipe of a chain that has `set_seed`, including the pipes of torch and other libraries.

    A pipe's seed depends on the number of random steps before it in the chain. Before a sharding point all shards get
    the same seeds, since they must agree on the stream they divide. After it each shard gets its own seeds.
    `first_epoch` is the first epoch under these seeds, by default the next one.
    """
    shared = {id(above) for point in walk(pipe) if declares(point, "apply_sharding") for above in walk(point)}
    for place, step in _seeded_steps(pipe):
        own_seed = derive_seed(seed, *place, 0 if id(step) in shared else shard + 1)
        if declares(step, "set_seed") and not isinstance(step, Seeded):
            step.set_seed(own_seed)
            vars(step)["_seed_of_chain"] = own_seed
        else:
            seeds = inner_seeds(step)
            seeds.set_seed(own_seed)
            seeds._first_epoch = first_epoch


def _seeded_steps(pipe: DataPipe) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the steps that have seeds, sources first, each with its place.

    A place is the number of random steps before it. A step whose inner chains may be random has its own count, too: it
    does not change the places of others.
    """
    random_steps = steps_with_inner_chains = 0
    for step in sources_first(pipe):
        if declares(step, "set_seed", "random_state"):
            yield (random_steps,), step
            random_steps += 1
        elif has_seeds(step):
            yield (random_steps, steps_with_inner_chains), step
            steps_with_inner_chains += 1


def has_seeds(pipe: Any) -> bool:
    """Say whether a pipe draws random numbers, or may read inner chains that do."""
    return declares(pipe, "set_seed", "random_state") or bool(getattr(pipe, "resumes_from_start", False))


def inner_seeds(pipe: Any) -> Seeded:
    """Return the seeds of inner chains: those that a step, or a function it calls, builds and reads by itself."""
    if isinstance(pipe, Seeded):
        return pipe
    seeds: Seeded = vars(pipe).setdefault("_inner_seeds", Seeded())
    return seeds


def fixed_inner_seeds(pipe: Any, place: int) -> Seeded:
    """Return the seeds of inner chains for a state. Few steps have such chains: torch's generator stays as it is."""
    seeds = inner_seeds(pipe)
    if seeds._seed is None:
        with torch.random.fork_rng(devices=[]):
            seeds._seed = derive_seed(_drawn_seed(), place)
    return seeds


def seed_inner_chain(chain: Any, step: Any, number: int) -> None:
    """Seed the chain that a step begins to read as its inner chain `number`: a resumed pass reads the same items.

    Pipes of the step's own chain, and seeds that users set, are left alone.
    """
    seeds, outer = inner_seeds(step), {id(part) for part in walk(step)}
    for place, part in _seeded_steps(chain):
        if id(part) in outer:
            continue
        seed, attributes = derive_seed(seeds.pass_seed, number, *place), vars(part)
        if not isinstance(part, Seeded) and declares(part, "set_seed"):
            attributes["_seed_of_chain"] = seed
        elif (found := inner_seeds(part))._seed == attributes.get("_seed_as_inner"):
            attributes["_seed_as_inner"] = seed
            found.set_seed(seed)


def seed_foreign(pipe: Any, path: PassPath, seed: int | None = None) -> None:
    """Set the seed of a new pass in a pipe that has `set_seed` and is not `Seeded`.

    Such pipes know no paths: the seed derives from `path`, unless given. A seed that the user set is left alone.
    """
    if seed is None:
        if seed_of_user(pipe) is not None:
            return
        seed = derive_seed(seed_of_chain(pipe), path.epoch, path.again)
    vars(pipe)["_seed_of_pass"] = seed
    pipe.set_seed(seed)


def seed_of_chain(pipe: Any) -> int:
    """Return the base seed of all passes over such a pipe; the first call draws it."""
    seed: int | None = vars(pipe).get("_seed_of_chain")
    if seed is None:
        seed = vars(pipe)["_seed_of_chain"] = _drawn_seed()
    return seed


def seed_of_user(pipe: Any) -> int | None:
    """Return the seed that a user set in a pipe that has `set_seed` and is not `Seeded`, or None."""
    attributes = vars(pipe)
    seed: int | None = attributes.get("_seed")  # torch's pipes keep their seeds there
    return None if seed in (attributes.get("_seed_of_chain"), attributes.get("_seed_of_pass")) else seed


def seeds_of(pipe: DataPipe) -> list[int | None]:
    """Return the base seeds of all passes over a chain."""
    parts: Iterator[Any] = walk(pipe)
    names = ("set_seed", "seed_elsewhere")
    return [_seed_of(part) for part in parts if declares(part, *names)]


def _seed_of(pipe: Any) -> int | None:
    if declares(pipe, "seed_elsewhere"):  # read in another process, or by another chain
        elsewhere: int = pipe.seed_elsewhere
        return elsewhere
    if isinstance(pipe, Seeded):
        return pipe._base_seed()
    if isinstance(pipe, OurPipe):  # a pipe of ours with its own `set_seed`
        of_chain: int | None = vars(pipe).get("_seed_of_chain")
        return of_chain
    seed = seed_of_user(pipe)
    return seed_of_chain(pipe) if seed is None else seed


@contextmanager
def generators_kept() -> Iterator[None]:
    """Leave the program's random generators as they were, whatever the block draws: Python's, NumPy's and torch's."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


_own_numpy = np.random.MT19937(0)
"""The generator of NumPy's functions while an item is made: to copy the state of the program's would take 180 µs."""


class _OfItem(threading.local):
    seed: int | None = None
    """The seed under which this thread makes an item."""


_of_item = _OfItem()


@contextmanager
def isolated_generators(seed: int) -> Iterator[None]:
    """Seed the global generators for the block, and keep what the program has drawn from them."""
    of_torch, of_random = torch.default_generator.get_state(), random.getstate()
    of_numpy = np.random.get_bit_generator()  # type: ignore[attr-defined]  # NumPy has no stubs of these
    try:
        np.random.set_bit_generator(_own_numpy)  # type: ignore[attr-defined]
        seed_process(seed)
        yield
    finally:
        _of_item.seed = None
        np.random.set_bit_generator(of_numpy)  # type: ignore[attr-defined]
        random.setstate(of_random)
        torch.default_generator.set_state(of_torch)


_NOTHING = nullcontext()


def seed_process(seed: int) -> AbstractContextManager[None]:
    """Seed the global generators of random, NumPy and torch, on the CPU, in a process that has no other use of them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 100 µs to query devices
    _of_item.seed = seed
    return _NOTHING


def reseed() -> None:
    """Seed the generators again, after items that were made again: the item draws what it would have drawn."""
    if _of_item.seed is not None:
        seed_process(_of_item.seed)
