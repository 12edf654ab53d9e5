"""Write docs/operators.md, all operators by what people want to do: `python docs/make_operators.py`."""

from __future__ import annotations

from pathlib import Path

from penstock.pipes.groups import GROUPS, entries_of
from penstock.registry import Operator, operators

PAGE = Path(__file__).with_name("operators.md")


def page() -> str:
    """Return the text of the page."""
    return "\n".join(
        [
            "# All operators",
            "",
            "What do you want to do? In each group the operator to prefer comes first.",
            "`penstock ops tar` finds operators by words, and `penstock ops load_from_tar` explains one, as does",
            "`help(dp.load_from_tar)`. Those with a capital letter are classes of `ps.iter` and `ps.map` without a",
            "method. *map* marks methods of map-style pipes, and classes of `ps.map`.",
            "",
            "<!-- Written by `python docs/make_operators.py`. Changes here are lost. -->",
            *(line for title, (advice, names) in GROUPS.items() for line in _group(title, advice, names.split())),
            "",
        ]
    )


def _group(title: str, advice: str, names: list[str]) -> list[str]:
    lines = ["", f"## {title}", "", advice, "", "| operator | |", "| --- | --- |"]
    return [*lines, *(_row(name, entries_of(name)) for name in names)]


def _row(name: str, entries: list[Operator]) -> str:
    kinds = {entry.on for entry in entries}
    mark = " *map*" if "map" in kinds else ""
    return f"| `{name}`{mark} | {entries[0].summary.replace('|', chr(92) + '|')} |"


def _expect_all() -> None:
    """Raise ValueError for operators that no group has."""
    grouped = {name for _, names in GROUPS.values() for name in names.split()}
    ours = {entry.name for entry in operators.values() if entry.cls.__module__.startswith("penstock.")}
    if missing := ours - grouped:
        raise ValueError(f"enter {', '.join(sorted(missing))} in a group of pipes/groups.py")


if __name__ == "__main__":
    _expect_all()
    PAGE.write_text(page(), encoding="utf-8")
