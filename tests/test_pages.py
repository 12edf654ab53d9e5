"""The code in the pages of documentation runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKS = [
    pytest.param(block, id=f"{page.stem} {number}")
    for page in sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_code_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(block)
    result = subprocess.run([sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert result.returncode == 0, result.stderr


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) >= 7
