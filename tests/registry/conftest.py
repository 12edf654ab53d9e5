"""What a test registers is forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import IterDataPipe, MapDataPipe
from penstock.registry import operators


@pytest.fixture(autouse=True)
def _registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(operators, "_entries", {**operators})
    before = {base: set(vars(base)) for base in (IterDataPipe, MapDataPipe)}
    yield
    for base, names in before.items():
        for name in set(vars(base)) - names:
            delattr(base, name)
