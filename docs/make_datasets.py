"""Write the last part of docs/datasets.md, the table of all data sets: `python docs/make_datasets.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock as ps

PAGE = Path(__file__).with_name("datasets.md")
MARK = "<!-- The rest is written by `python docs/make_datasets.py`. Changes here are lost. -->\n"

GROUPS = {"text": "Text", "vision": "Images", "others": "Others"}


def page() -> str:
    """Return the text of the page, with the table of the data sets that there are now."""
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return "\n".join([written + MARK.rstrip(), *(line for group in GROUPS for line in _group(group)), ""])


def data_sets() -> list[ps.datasets.Dataset[Any]]:
    """Return the data sets that Penstock has."""
    there = [getattr(ps.datasets, name) for name in ps.datasets.__all__]
    return sorted((each for each in there if isinstance(each, ps.datasets.Dataset)), key=lambda each: each.name)


def _group(group: str) -> list[str]:
    members = [each for each in data_sets() if each.__module__.startswith(f"penstock.datasets.{group}.")]
    if not members:
        return []
    lines = ["", f"### {GROUPS[group]}", "", "| data set | name | items | splits |", "| --- | --- | --- | --- |"]
    return [*lines, *map(_row, members)]


def _row(data: ps.datasets.Dataset[Any]) -> str:
    splits = [name if count is None else f"{name} {count:,}" for name, count in data.splits.items()]
    shown = ", ".join(splits[:5]) + (f", … ({len(splits)})" if len(splits) > 5 else "")
    return f"| `{data.title}` | `{data.name}` | {data.summary.replace('|', chr(92) + '|')} | {shown} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
