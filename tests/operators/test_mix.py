"""mix and SampleMultiplexer: proportions, ends, resuming."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from penstock.pipes.iter import IterableWrapper, Mixer, SampleMultiplexer


def items(letter: str, n: int) -> Any:
    return IterableWrapper([f"{letter}{number}" for number in range(n)])


def test_no_draw_falls_beyond_the_last_source() -> None:
    dp = Mixer(*[items("a", 1) for _ in range(10)], weights=[0.1] * 10)
    assert dp._choice([*range(10)])(math.nextafter(1, 0)) == 9  # the weights so far add up to less, by rounding


def test_every_item_comes_once_and_each_source_in_its_order() -> None:
    mixed = list(items("a", 50).mix(items("b", 3), items("c", 20), weights=[1, 1, 5]).set_seed(1))
    assert len(mixed) == 73
    for letter, n in [("a", 50), ("b", 3), ("c", 20)]:
        assert [item for item in mixed if item.startswith(letter)] == list(items(letter, n))


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [70, 20, 10], [0.002, 0.001, 0.0005], [1e-9, 1e9, 1e9]])
def test_every_prefix_has_the_proportions_of_the_weights(weights: list[float] | None) -> None:
    sources = [IterableWrapper([letter]).cycle() for letter in "abc"]
    mixed = list(islice(Mixer(*sources, weights=weights).set_seed(7), 12_000))
    shares = [weight / sum(weights or [1, 1, 1]) for weight in weights or [1, 1, 1]]
    for end in (1000, 4000, 12_000):
        seen = Counter(mixed[:end])
        for letter, share in zip("abc", shares, strict=True):
            # Five standard deviations of a binomial count: beyond in two of a million runs; the seed is fixed.
            assert abs(seen[letter] - share * end) <= 5 * math.sqrt(end * share * (1 - share)) + 1e-3


def test_each_item_is_drawn_whatever_came_before() -> None:
    mixed = list(islice(IterableWrapper("a").cycle().mix(IterableWrapper("b").cycle()).set_seed(3), 20_000))
    pairs = Counter(zip(mixed[::2], mixed[1::2], strict=True))
    # Chi-square of 4 equally likely pairs, 3 degrees of freedom: above 21.1 in one of 10,000 runs.
    assert sum((count - 2500) ** 2 / 2500 for count in pairs.values()) < 21.1


def test_the_others_go_on_in_their_proportions_when_one_is_exhausted() -> None:
    endless = [IterableWrapper([letter]).cycle() for letter in "ab"]
    mixed = list(islice(Mixer(IterableWrapper("x"), *endless, weights=[1000, 3, 1]).set_seed(2), 4001))
    seen = Counter(mixed)
    assert seen["x"] == 1
    assert abs(seen["a"] - 3000) <= 5 * math.sqrt(4000 * 3 / 16)


def test_until_the_shortest_ends_where_an_exhausted_source_is_drawn() -> None:
    dp = items("a", 3).mix(IterableWrapper("b").cycle(), until="shortest").set_seed(1)
    mixed = list(dp)
    assert [item for item in mixed if item != "b"] == ["a0", "a1", "a2"]
    whole = list(islice(items("a", 3).mix(IterableWrapper("b").cycle()).set_seed(1), len(mixed) + 5))
    assert whole[: len(mixed)] == mixed
    assert whole[len(mixed) :] == ["b"] * 5


@pytest.mark.parametrize("weights", [(1, 2), np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])])
def test_weights_can_be_any_sequence_of_numbers(weights: Any) -> None:
    assert items("a", 1).mix(items("b", 1), weights=weights).count() == 2


def test_a_mix_has_a_length_unless_it_ends_with_the_shortest() -> None:
    assert len(items("a", 3).mix(items("b", 2))) == 5
    with pytest.raises(TypeError, match="it has no length"):
        len(items("a", 3).mix(items("b", 2), until="shortest"))


def test_sample_multiplexer_is_mix() -> None:
    mixed = items("a", 30).mix(items("b", 30), weights=[3, 1]).set_seed(4)
    sampled = SampleMultiplexer({items("a", 30): 3, items("b", 30): 1}, seed=4)
    assert list(sampled) == list(mixed)
    assert len(sampled) == 60
