"""The program of the page about data sets that streams one runs against a server."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ranks import run_programs
from s3 import S3Server
from watched import watched_program

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()


@pytest.mark.timeout(60)
def test_a_data_set_is_streamed_from_s3_and_holds_its_laws(s3_server: S3Server, tmp_path: Path) -> None:
    (s3_server.root / "streamed").mkdir()
    [program] = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "reviews.py").write_text(watched_program(program))
    environment = {**os.environ, "LAKE": "s3://streamed/reviews"}
    run_programs(tmp_path / "reviews.py", {tmp_path / "reviews": environment}, seconds=50)
    files = sorted(file.name for file in (s3_server.root / "streamed" / "reviews" / "val").glob("*.parquet"))
    assert files == ["part-00000.parquet", "part-00001.parquet"]
