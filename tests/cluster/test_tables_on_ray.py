"""Tables read by Ray Data: each shard has the same version."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import ray

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
