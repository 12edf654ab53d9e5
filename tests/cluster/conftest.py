"""What tests on Ray's actors have in common."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_actor_outlives_a_test() -> Iterator[None]:
    """Pipes of a failed pass are in cycles, and hold their actors: the next test would wait for a free processor."""
    yield
    gc.collect()
