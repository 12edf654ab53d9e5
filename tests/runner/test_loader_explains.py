"""A loader explains how its reading service reads the chain, and finds more mistakes by that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from loaders import loader, ranks, workers


def numbers(n: int = 100) -> Any:
    return ps.iter.IterableWrapper(range(n))


def test_the_text_of_a_loader() -> None:
    dp = numbers(1000).shuffle(buffer_size=100).sharding_filter().map(str).batch(10).to_device()
    assert (
        str(loader(dp, workers(2, num_shards=12)).explain())
        == """\
Order
  100 items, before they are divided among shards.
  shuffle draws each item from a buffer of 100 items, of 1,000.
  Each epoch has another order, which follows from the seed: loader.seed(n), or set_seed(n) without a loader.
Shards
  sharding_filter divides 1,000 items: shard s of n takes items s, s + n, s + 2n, … Every shard runs shuffle
    on all of them.
  12 shards on 2 workers: 6 for each. The shards give an item each in turn.
Memory
  shuffle: up to 100 items.
  batch: up to 10 items.
  Each of the 12 shards has its own buffers.
  The loader reads ahead: 2 workers up to 10 items each, the main process up to 10, in all 30.
Resume
  shuffle reads about 461 items of its source again.
Runs where
  2 worker processes run IterableWrapper, shuffle, sharding_filter, map and batch.
  The main process runs to_device, with workers too."""
    )


@pytest.mark.parametrize(
    ("service", "sentences"),
    [
        (lambda: None, ["It is read as one shard.", "This process runs IterableWrapper, sharding_filter and map."]),
        (lambda: workers(0, num_shards=4), ["4 shards, read by this process in turn."]),
        (lambda: workers(1), ["It is read as one shard.", "1 worker process run"]),
        (lambda: workers(3, num_shards=7), ["7 shards on 3 workers: 2 or 3 for each."]),
        (lambda: ps.InProcessReadingService(prefetch_cnt=5), ["The loader reads up to 5 items ahead."]),
        (lambda: ps.RayReadingService(2), ["2 worker actors run IterableWrapper"]),
        (lambda: ranks(4), ["4 shards on 4 ranks: 1 for each."]),
        (
            lambda: ps.SequentialReadingService(ranks(2, num_shards=8), workers(2)),
            ["8 shards on 2 ranks with 2 workers each: 2 for each.", "2 worker processes run"],
        ),
        (lambda: ps.SequentialReadingService(ranks(2), workers(3)), ["6 shards on 2 ranks with 3 workers each"]),
        (lambda: ps.SequentialReadingService(workers(3)), ["3 shards on 3 workers: 1 for each."]),
    ],
)
def test_how_a_service_reads_is_said(service: Callable[[], Any], sentences: list[str]) -> None:
    text = " ".join(str(loader(numbers().sharding_filter().map(str), service()).explain()).split())
    for sentence in sentences:
        assert sentence in text


def test_the_number_of_shards_is_that_of_a_loaded_state() -> None:
    dp = numbers().sharding_filter()
    with loader(dp, workers(0, num_shards=6)) as first:
        state = first.state_dict()
    with loader(dp, workers(0)) as second:
        second.load_state_dict(state)
        assert "6 shards, read by this process in turn." in second.explain().said["Shards"]


def test_a_service_of_ones_own_says_nothing() -> None:
    class Own(ps.ReadingServiceInterface):
        def initialize(self, datapipe: Any) -> Any:
            return datapipe

    assert loader(numbers(), Own()).explain().said == numbers().explain().said


def test_nothing_starts_and_a_chain_that_cannot_be_read_is_explained() -> None:
    before = threading.active_count()
    with loader(numbers(), workers(2)) as made:
        assert [each.name for each in made.explain().warnings] == ["no_sharding_point"]
        with pytest.raises(RuntimeError, match="no sharding point"):
            iter(made)
    assert threading.active_count() == before
