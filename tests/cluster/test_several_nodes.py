"""Actors, and tasks of Ray Data, on several nodes of a Ray cluster, all of them on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

pytestmark = [pytest.mark.timeout(150), pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")]

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 2**27}


@contextmanager
def cluster_of_two() -> Iterator[tuple[Any, list[Any]]]:
    """Yield a Ray cluster and its two nodes beside the head's, which have the resource `reader`."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(**NODE, resources={"reader": 1}) for _ in range(2)]
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(autouse=True)
def without_usage_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


def slowly(item: int) -> tuple[int, str]:
    time.sleep(0.02)
    return item, os.environ["RAY_RAYLET_PID"]


def test_where_a_node_is_lost_its_actors_go_on_on_another() -> None:
    with cluster_of_two() as (cluster, nodes):
        dp = ps.iter.IterableWrapper(range(300)).sharding_filter().map(slowly)
        service = ps.RayReadingService(2, num_shards=4, resources_per_worker={"CPU": 0.5, "reader": 0.5})
        with ps.DataLoader2(dp, reading_service=service) as loader:
            items = iter(loader)
            seen = [next(items) for _ in range(60)]
            before = {place for _, place in seen}
            assert len(before) == 2
            cluster.remove_node(nodes[0], allow_graceful=False)
            with pytest.warns(RuntimeWarning, match="Another worker resumes after its last item"):
                seen += items
            assert [number for number, _ in seen] == list(range(300))
            assert {place for _, place in seen} == before
            assert len({place for _, place in seen[-20:]}) == 1
            assert loader.stats()["workers"] == {"replaced": 1}


def parquet_in(folder: Path) -> Any:
    for number in range(8):
        pq.write_table(pa.table({"id": range(number * 10, number * 10 + 10)}), folder / f"{number}.parquet")
    return ps.read_parquet(folder).rows()


def test_tasks_on_all_nodes_read_the_shards_of_a_data_set(tmp_path: Path) -> None:
    def with_node(row: dict[str, Any]) -> dict[str, Any]:  # sent by value: this module is not installed there
        time.sleep(0.02)
        return {**row, "node": os.environ["RAY_RAYLET_PID"]}

    chain = parquet_in(tmp_path).map(with_node)
    with cluster_of_two():
        dataset = chain.to_ray_dataset(8, num_cpus=0.5, resources={"reader": 0.5})
        rows = dataset.take_all()
    assert sorted(row["id"] for row in rows) == list(range(80))
    assert len({row["node"] for row in rows}) == 2
