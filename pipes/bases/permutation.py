"""Random orders of ranges, of which any part is computed without a list of the numbers."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...state.seeds import derive_seed

_SMALL = 2**16
"""Largest n with a table of the order: half a megabyte."""
_ROUNDS = 6
_HALF = np.uint64(32)
_MIXING = np.uint64(0xD6E8FEB86659FD93)
"""An odd number without a pattern in its bits."""


class Permutation:
    """A random order of 0, 1, 2, …, n - 1, for n up to 2**63, that is a function of `seed` and `n`.

    Up to 65,536 numbers it is NumPy's shuffle: all orders are equally likely. Beyond, it is a cipher on the numbers
    below n, which takes no memory: the generalized Feistel network with cycle walking of Black and Rogaway,
    "Ciphers with Arbitrary Finite Domains" (2002). A number is left + a · right, with a about √n; each round adds a
    keyed hash of one half to the other, modulo its size. The few results that are not below n are enciphered again
    until they are.

    >>> order = Permutation(seed=1, n=10**12)
    >>> some = order.at(np.array([7, 10**11])).tolist()
    >>> some[1:] == order.at(np.array([10**11])).tolist()
    True
    """

    def __init__(self, seed: int, n: int) -> None:
        self._table = np.random.default_rng(seed).permutation(n) if n <= _SMALL else None
        self._n = np.uint64(n)
        side = isqrt(max(n - 1, 0)) + 1
        # Both halves and the hash are below 2**32, so no product overflows.
        self._left, self._right = np.uint64(side), np.uint64(-(-n // side))
        self._keys = np.random.SeedSequence(derive_seed(seed, n)).generate_state(2 * _ROUNDS, np.uint64).reshape(-1, 2)

    def at(self, places: NDArray[Any]) -> NDArray[np.int64]:
        """Return the numbers at `places` of the order, each from 0 to n - 1."""
        if self._table is not None:
            numbers_there: NDArray[np.int64] = self._table[places]
            return numbers_there
        numbers = self._enciphered(places.astype(np.uint64, copy=False))
        while (outside := np.flatnonzero(numbers >= self._n)).size:
            numbers[outside] = self._enciphered(numbers[outside])
        return numbers.view(np.int64)

    def _enciphered(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        right = numbers // self._left
        left = numbers - right * self._left  # faster than numbers % self._left
        scratch = np.empty_like(left), np.empty_like(left)
        for first, second in zip(self._keys[::2], self._keys[1::2], strict=True):
            _add_hash(left, self._left, right, first, *scratch)
            _add_hash(right, self._right, left, second, *scratch)
        right *= self._left
        right += left
        return right


def _add_hash(
    half: NDArray[np.uint64],
    size: np.uint64,
    other: NDArray[np.uint64],
    key: NDArray[np.uint64],
    hashed: NDArray[np.uint64],
    shifted: NDArray[np.uint64],
) -> None:
    """Add a hash of `other` to `half`, in place and modulo `size`; `hashed` and `shifted` are scratch.

    A single multiplication would be faster, but the rounds would be almost linear: even after many of them, neighbours
    in the order would not look random.
    """
    np.bitwise_xor(other, key[0], out=hashed)
    np.multiply(hashed, key[1] | np.uint64(1), out=hashed)
    np.right_shift(hashed, _HALF, out=shifted)
    np.bitwise_xor(hashed, shifted, out=hashed)
    np.multiply(hashed, _MIXING, out=hashed)
    np.right_shift(hashed, _HALF, out=hashed)
    np.multiply(hashed, size, out=hashed)  # scales the hash from below 2**32 to below the size
    np.right_shift(hashed, _HALF, out=hashed)
    np.add(half, hashed, out=half)
    np.subtract(half, size, out=hashed)  # wraps around to a large number where the half is below its size
    np.minimum(half, hashed, out=half)
