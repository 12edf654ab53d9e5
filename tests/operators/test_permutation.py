"""The keyed permutation: it is one, it has no place that depends on another, and it looks random.

Seeds are fixed, so that the outcome is too. Bounds are in standard deviations of what chance gives, and are seldom
passed by chance: the first test of the statistics is that they tell what is not random.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipes.bases import permutation
from penstock.pipes.bases.permutation import Permutation

SEEDS = st.integers(0, 2**63 - 1)
FAR = 5.0
"""Deviations that one of the few hundred numbers below has by chance in one of ten thousand sets of seeds."""


def whole(seed: int, n: int) -> Any:
    return Permutation(seed, n).at(np.arange(n))


def enciphered(seed: int, n: int, places: Any) -> Any:
    """The numbers at some places of an order that is a cipher's however small it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "_SMALL", 0)
        return Permutation(seed, n).at(np.asarray(places))


@given(SEEDS, st.integers(0, 3000))
def test_each_number_has_one_place(seed: int, n: int) -> None:
    everywhere = [*range(n)]
    assert sorted(whole(seed, n).tolist()) == everywhere
    assert sorted(enciphered(seed, n, np.arange(n)).tolist()) == everywhere


@pytest.mark.parametrize("n", [2**16, 2**16 + 1, 1021 * 1031])
def test_each_number_of_many_has_one_place(n: int) -> None:
    assert np.array_equal(np.bincount(whole(3, n), minlength=n), np.ones(n))


@given(SEEDS, st.integers(1, 2**63), st.data())
def test_places_do_not_depend_on_each_other(seed: int, n: int, data: Any) -> None:
    places = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20))
    order = Permutation(seed, n)
    found = order.at(np.array(places))
    assert found.dtype == np.int64
    assert all(0 <= number < n for number in found.tolist())
    assert len({*found.tolist()}) == len({*places})
    again = Permutation(seed, n)
    assert [again.at(np.array([place])).item() for place in reversed(places)] == found.tolist()[::-1]


def test_an_order_is_a_function_of_the_seed_and_the_number() -> None:
    for n in (100, 10**6):
        places = np.arange(100)
        orders = [Permutation(seed, n).at(places).tolist() for seed in (1, 1, 2, 2**62 + 1)]
        assert orders[0] == orders[1]
        assert len({*map(tuple, orders)}) == 3
    assert Permutation(1, 10**6).at(places).tolist() != Permutation(1, 10**6 + 1).at(places).tolist()


def test_an_order_is_the_same_everywhere() -> None:
    """States outlive processes, machines and versions: these numbers must never change."""
    assert Permutation(1, 10**9).at(np.arange(4)).tolist() == [167167060, 409872097, 612003079, 207148244]
    assert Permutation(1, 10).at(np.arange(10)).tolist() == [8, 4, 7, 0, 1, 2, 5, 9, 6, 3]


# Statistics


def deviation(counts: Any, expected: Any = None) -> float:
    """How far counts are from what is expected, by default from equal: chi-square, as a normal deviate."""
    counts = np.asarray(counts, float)
    expected = np.full(counts.size, counts.sum() / counts.size) if expected is None else np.asarray(expected)
    freedom = counts.size - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    spread = 2 / (9 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_of_a_few_numbers_come_equally_often(n: int) -> None:
    found = Counter(tuple(whole(seed, n).tolist()) for seed in range(100 * math.factorial(n)))
    assert abs(deviation([found[order] for order in permutations(range(n))])) < FAR


def side_of(n: int) -> int:
    """Into how many columns the cipher lays out n numbers."""
    return math.isqrt(n - 1) + 1


def of_one_order(n: int, seed: int) -> dict[str, float]:
    """How far one order is from chance, by several measures."""
    numbers = enciphered(seed, n, np.arange(min(n, 2**17)))
    m = len(numbers)
    centred = numbers / n - 0.5
    found = {}
    for lag in (1, 2, 3, side_of(n) - 1, side_of(n), side_of(n) + 1):
        if lag < m:
            products = centred[lag:] * centred[:-lag]
            found[f"correlation at {lag}"] = products.mean() * 12 * math.sqrt(m - lag)
    found["descents"] = ((np.diff(numbers) < 0).sum() - (m - 1) / 2) / math.sqrt((m + 1) / 12)
    k = min(m, 2000)
    inversions = sum((numbers[:i] > numbers[i]).sum() for i in range(k))
    found["inversions"] = (inversions - k * (k - 1) / 4) / math.sqrt(k * (k - 1) * (2 * k + 5) / 72)
    power = np.abs(np.fft.rfft(centred))[1:] ** 2 * 12 / m
    found["spectrum"] = (power.max() - math.log(len(power))) / 2.5  # its tail is exponential: 12 by chance 1 in 160,000
    found["bins"] = deviation(np.bincount(numbers * 64 // n, minlength=64)) if m < n else 0.0
    return found


def over_seeds(n: int, seeds: int) -> dict[str, float]:
    """How far many orders together are from chance: the numbers in a few places, by themselves and in pairs."""
    side = side_of(n)
    places = np.array([0, 1, 2, side, side + 1, 2 * side, n // 2, n - 1])
    numbers = np.array([enciphered(seed, n, places) for seed in range(seeds)])
    sixteenths = (numbers.astype(object) * 16 // n).astype(np.int64) if n > 2**58 else numbers * 16 // n
    found = {}
    for i in range(len(places)):
        found[f"place {places[i]}"] = deviation(np.bincount(sixteenths[:, i], minlength=16))
        for j in range(i):
            pairs = np.bincount(sixteenths[:, i] * 16 + sixteenths[:, j], minlength=256)
            found[f"places {places[i]} and {places[j]}"] = deviation(pairs)
    for half, size in ((numbers % side, side), (numbers // side, -(-n // side))):
        # Four places in two rows and two columns: what few or too plain rounds do not break up cancels out.
        rest = (half[:, 0] - half[:, 1] - half[:, 3] + half[:, 4]) % size
        found[f"rectangle modulo {size}"] = deviation(
            np.bincount(rest * 8 // size, minlength=8), shares_of(size, seeds)
        )
    return found


def shares_of(size: int, seeds: int) -> Any:
    """How often, of so many draws from 0 to size - 1, each eighth is expected."""
    edges = [-(-size * eighth // 8) for eighth in range(9)]
    return np.diff(edges) * (seeds / size)


def worst(found: dict[str, float]) -> tuple[float, str]:
    return max((abs(value), name) for name, value in found.items())


@pytest.mark.parametrize("n", [1000, 2**12 + 1, 2**16 + 1, 10**9])
@pytest.mark.parametrize("seed", range(3))
def test_an_order_looks_random(n: int, seed: int) -> None:
    assert worst(of_one_order(n, seed)) < (FAR, "")


@pytest.mark.parametrize("n", [1000, 2**16 + 1, 10**9, 2**62])
def test_orders_of_many_seeds_look_random(n: int) -> None:
    assert worst(over_seeds(n, 4000)) < (FAR, "")


def one_multiplication(half: Any, size: Any, other: Any, key: Any, *_: Any) -> None:
    half += ((other * (key[1] | np.uint64(1)) + key[0]) >> np.uint64(32)) * size >> np.uint64(32)
    half -= size * (half >= size)


@pytest.mark.parametrize(("name", "instead"), [("_ROUNDS", 2), ("_add_hash", one_multiplication)])
def test_the_statistics_tell_what_is_not_random(monkeypatch: pytest.MonkeyPatch, name: str, instead: Any) -> None:
    monkeypatch.setattr(permutation, name, instead)
    assert sorted(enciphered(0, 1000, np.arange(1000)).tolist()) == [*range(1000)]
    assert worst(over_seeds(2**16 + 1, 4000)) > (FAR, "")
    for n in (2**16 + 1, 10**9):
        assert worst(of_one_order(n, 0)) > (FAR, "")
