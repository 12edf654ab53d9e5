"""Tables and queries read by Ray Data, also on several nodes of a cluster: each shard has the same version."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

import penstock as ps
from lake_tables import KINDS, LakeTables

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def rows_of(dataset: Any) -> list[Any]:
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return sorted(row["id"] for row in dataset.take_all())


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("kind", KINDS)
def test_the_shards_of_a_table_have_one_version_which_each_execution_looks_up(kind: str, tmp_path: Path) -> None:
    tables: LakeTables = KINDS[kind](tmp_path)
    tables.of_numbers(range(3), range(3, 5), range(5, 9))
    dataset = tables.read(filter="id != 4").to_ray_dataset(num_shards=2)
    before = tables.read(tables.versions()[-1]).to_ray_dataset(num_shards=2)
    assert rows_of(dataset) == [0, 1, 2, 3, 5, 6, 7, 8]
    tables.of_numbers([10])
    assert rows_of(dataset) == [0, 1, 2, 3, 5, 6, 7, 8, 10]
    assert rows_of(before) == [*range(9)]


def test_nodes_of_a_cluster_share_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    connect = partial(sqlite3.connect, f"{tmp_path}/shop.db")
    with closing(connect()) as connection, connection:
        connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
        connection.executemany("INSERT INTO orders VALUES (?)", [(n,) for n in range(100)])
    tables = KINDS["delta"](tmp_path)
    tables.of_numbers(range(6), range(6, 9), range(9, 11))
    ray.shutdown()

    def with_node(batch: Any) -> dict[str, list[Any]]:  # by value: the nodes cannot import this module
        return {"id": batch["id"].to_pylist(), "node": [ray.get_runtime_context().get_node_id()] * len(batch)}

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 2**27}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**node)
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        read = ps.read_sql("SELECT * FROM orders", connect, partition_on="id", partitions=4)
        dataset = read.map(with_node).to_ray_dataset(num_shards=4, batched=True)
        found = dataset.take_all()
        assert sorted(row["id"] for row in found) == [*range(100)]
        assert len({row["node"] for row in found}) == 2
        assert rows_of(tables.read().to_ray_dataset(num_shards=3)) == [*range(11)]
    finally:
        ray.shutdown()
        cluster.shutdown()
