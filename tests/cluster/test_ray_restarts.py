"""What was made with a Ray that has been shut down."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import cloudpickle
import pytest
import ray

import models
import penstock as ps
from models import Scaler

pytestmark = pytest.mark.timeout(120)

# Actors have no path to this folder, and get what is defined here by value, as from a notebook.
for module in (sys.modules[__name__], models):
    cloudpickle.register_pickle_by_value(module)


def start_ray() -> None:
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=128 * 2**20, logging_level="ERROR")


@pytest.fixture(autouse=True)
def _a_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    start_ray()
    yield
    ray.shutdown()


def test_actors_of_models_are_started_anew_in_another_ray() -> None:
    dp = ps.from_items(range(3)).map_pool(Scaler, engine="ray", workers=1)
    assert list(dp) == [0, 10, 20]
    ray.shutdown()
    start_ray()
    assert list(dp) == [0, 10, 20]


def test_a_fleet_of_another_ray_is_an_error_and_is_shut_down_in_silence() -> None:
    dp = ps.from_items(range(1000)).sharding_filter()
    fleet = ps.RayFleet(1)
    service = ps.RayReadingService(fleet=fleet)
    with ps.DataLoader2(dp, reading_service=service) as loader:
        items = iter(loader)
        assert next(items) == 0
        ray.shutdown()
        start_ray()
        with pytest.raises(RuntimeError, match="the Ray of these actors was shut down: make a new loader"):
            ps.DataLoader2(dp, reading_service=service)
        with pytest.raises(RuntimeError, match="shut down"), warnings.catch_warnings(action="ignore"):
            list(items)
    fleet.shutdown()
    with (
        ps.RayFleet(1) as another,
        ps.DataLoader2(dp, reading_service=ps.RayReadingService(fleet=another)) as loader,
    ):
        assert sorted(loader) == [*range(1000)]
