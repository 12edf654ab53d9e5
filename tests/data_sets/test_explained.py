"""The chains of the data sets have no known mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.datasets import registry


@pytest.mark.parametrize(
    "name", [name for name in registry.list() if registry._entered[name].__module__.startswith("penstock.")]
)
def test_explain_finds_no_mistake_in_a_data_set(name: str, tmp_path: Path) -> None:
    make: Any = registry._entered[name]
    chains = [
        make(tmp_path),
        make(tmp_path, shuffle=True).map(str).batch(4),
        make(tmp_path, map_style=True).shuffle().sharding_filter().batch(4),
    ]
    for dp in chains:
        assert dp.explain().warnings == []
        assert "Order" in str(dp.explain())
    assert not [*tmp_path.iterdir()]  # nothing was downloaded
