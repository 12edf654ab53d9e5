"""map(fn, rng=True): each item's own generator, the same on any number of workers and after a resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps


def with_torch(item: int, rng: torch.Generator) -> tuple[int, float]:
    return item, torch.rand((), generator=rng).item()


def with_numpy(item: int, rng: np.random.Generator) -> tuple[int, float]:
    return item, rng.random()


@pytest.mark.parametrize(("rng", "fn"), [(True, with_torch), ("numpy", with_numpy)], ids=["torch", "numpy"])
def test_laws(rng: Any, fn: Any) -> None:
    ps.check_operator(lambda: ps.iter.IterableWrapper(range(20)).map(fn, rng=rng))


def test_workers_of_torchs_loader_draw_different_numbers() -> None:
    dp = ps.iter.IterableWrapper(range(8)).sharding_filter().map(with_numpy, rng="numpy")
    for workers in (0, 2):
        drawn = [draw for _, draw in torch.utils.data.DataLoader(dp, batch_size=None, num_workers=workers)]
        assert len({*drawn}) == 8


def test_an_item_that_is_tried_again_draws_the_same() -> None:
    drawn: list[int] = []

    def fails_once(item: str, rng: np.random.Generator) -> str:
        drawn.append(int(rng.integers(2**40)))
        if len(drawn) == 1:
            raise ConnectionError
        return item

    dp = ps.iter.IterableWrapper("ab").map(fails_once, rng="numpy", on_error=ps.Retry(2, backoff=0))
    assert list(dp) == ["a", "b"]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_skipped_item_changes_no_draw_after_it() -> None:
    def fails(item: int, rng: np.random.Generator) -> float:
        return rng.random() if item % 3 else 1 / 0

    def reads(item: int, rng: np.random.Generator) -> float:
        return rng.random()

    source = ps.iter.IterableWrapper(range(6))
    skipping = source.map(fails, rng="numpy", on_error="skip").set_seed(3)
    assert list(skipping) == [draw for at, draw in enumerate(source.map(reads, rng="numpy").set_seed(3)) if at % 3]
    assert skipping.stats()["map"]["skipped"] == 2


def test_columns_come_before_the_generator() -> None:
    dp = ps.iter.IterableWrapper([{"a": 1, "b": 2}]).map(
        lambda a, b, rng: a + b + 0 * rng.random(), input_col=["a", "b"], output_col="sum", rng="numpy"
    )
    assert list(dp) == [{"a": 1, "b": 2, "sum": 3}]


def test_what_the_function_draws_from_global_generators_does_not_matter() -> None:
    def both(item: int, rng: torch.Generator) -> float:
        torch.rand(item)
        return torch.rand((), generator=rng).item()

    dp = ps.iter.IterableWrapper(range(5)).map(both, rng=True).set_seed(0)
    state = torch.random.get_rng_state()
    assert list(dp) == [draw for _, draw in ps.iter.IterableWrapper(range(5)).map(with_torch, rng=True).set_seed(0)]
    torch.random.set_rng_state(state)
