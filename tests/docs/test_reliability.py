"""The tests that the page about reliability names are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_promise_has_the_test_that_the_page_names() -> None:
    named = re.findall(r"^\| .* \| `(\w+)` \|$", (TESTS.parent / "docs" / "reliability.md").read_text(), re.MULTILINE)
    there = {
        name for file in TESTS.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert len(named) >= 30
    assert not {*named} - there
