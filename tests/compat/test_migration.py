"""The code in the page about moving from torchdata runs, and what its table names is there."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NEW_IMPORTS = re.findall(r"\| `from (penstock[\w.]*) import ([\w, ]+)[^`]*`", PAGE)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_code_runs(block, tmp_path):
    (tmp_path / "block.py").write_text(block)
    result = subprocess.run([sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert result.returncode == 0, result.stderr


def test_there_is_code_to_run():
    assert len(BLOCKS) >= 3
    assert len(NEW_IMPORTS) >= 9


@pytest.mark.parametrize(("module", "names"), NEW_IMPORTS)
def test_a_line_of_the_table_can_be_imported(module, names):
    for name in filter(None, names.replace(" ", "").split(",")):
        assert hasattr(importlib.import_module(module), name)
