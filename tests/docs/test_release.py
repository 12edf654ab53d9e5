"""What a release needs beside the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from versions import ROOT, version


def test_the_files_agree_on_the_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", version(ROOT))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("CHANGELOG.md", r"^## .*$", "## Unreleased"), ("CITATION.cff", r"^version: .*$", "version: 9.9.9")],
)
def test_another_version_is_an_error_that_names_each_file(file: str, old: str, new: str, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    changed = re.sub(old, new, (ROOT / file).read_text(), count=1, flags=re.MULTILINE)
    (tmp_path / file).write_text(changed)
    with pytest.raises(ValueError, match=rf"pyproject\.toml has {version(ROOT)},.*{file} has {new.split()[1]}"):
        version(tmp_path)


def test_the_citation_has_what_its_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert all("name" in author or "family-names" in author for author in citation["authors"])
