"""The global random generators of Python, NumPy and torch: kept from the program's draws, and seeded for an item."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch

__all__ = ["generators_kept", "isolated_generators", "reseed", "seed_process"]


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
