"""What the table in the page about moving from torchdata names is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
NEW_IMPORTS = re.findall(r"\| `from (penstock[\w.]*) import ([\w, ]+)[^`]*`", PAGE)


def test_there_are_lines_to_import():
    assert len(NEW_IMPORTS) >= 9


@pytest.mark.parametrize(("module", "names"), NEW_IMPORTS)
def test_a_line_of_the_table_can_be_imported(module, names):
    for name in filter(None, names.replace(" ", "").split(",")):
        assert hasattr(importlib.import_module(module), name)
