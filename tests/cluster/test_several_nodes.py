"""Actors on several nodes of a Ray cluster, all of them on this machine."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import penstock as ps


def slowly(item: int) -> tuple[int, str]:
    time.sleep(0.02)
    return item, os.environ["RAY_RAYLET_PID"]


@pytest.mark.timeout(150)
def test_where_a_node_is_lost_its_actors_go_on_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 2**27}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(**node, resources={"reader": 1}) for _ in range(2)]
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
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
    finally:
        ray.shutdown()
        cluster.shutdown()
