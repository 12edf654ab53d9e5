"""Write one page for each operator into docs/operators, when Sphinx builds the site."""

from __future__ import annotations

import inspect
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.cli.ops import signature_of
from penstock.pipes.groups import GROUPS, entries_of
from penstock.registry import Operator
from penstock.testing.examples import maker_of_example
from penstock.views.pictures.picture import Picture

FOLDER = Path(__file__).with_name("operators")


def write() -> None:
    """Write the pages of all operators."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for _, names in GROUPS.values():
        for name in names.split():
            (FOLDER / f"{name}.md").write_text(page_of(name), encoding="utf-8")


def page_of(name: str) -> str:
    """Return the page of the operators that have a name: one for iterable pipes, one for map-style pipes, or both."""
    entries = entries_of(name)
    parts = [part for entry in entries for part in _parts(entry, alone=len(entries) == 1)]
    return "\n\n".join([f"# {name}", *parts]) + "\n"


def _parts(entry: Operator, *, alone: bool) -> list[str]:
    begins = "." if entry.method else f"ps.{entry.kind}."
    heading = [] if alone else ["## Map-style pipes" if entry.on == "map" else "## Iterable pipes"]
    call = f"```{{code-block}} py\n:class: signature\n\n{begins}{entry.name}{signature_of(entry.cls)}\n```"
    where = f"The class is `ps.{entry.kind}.{entry.cls.__name__}`."
    picture = Picture(maker_of_example(entry.cls)()).svg.replace("\n", " ")  # an empty line would end the HTML
    drawn = f'<div class="chain">{picture}</div>'
    return [*heading, call, *_paragraphs(entry.cls), "The chain `dp` of the example:", drawn, where]


def _paragraphs(cls: type) -> list[str]:
    """Return the paragraphs of a docstring, with each run of examples as one block of code."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(cls.__doc__ or ""))
    described: list[str] = []
    for is_code, group in groupby(paragraphs, lambda paragraph: paragraph.startswith(">>> ")):
        texts = list(group)
        described += ["\n".join(["```pycon", *texts, "```"])] if is_code else texts
    return described


def link(app: Any, page: str, source: list[str]) -> None:
    """Link the names in docs/operators.md to their pages, which exist on the site only, and list them by group."""
    if page == "docs/operators":
        linked = re.sub(r"^\| `(\w+)`", r"| [`\1`](operators/\1.md)", source[0], flags=re.MULTILINE)
        source[0] = "\n".join([linked, *(_toctree(group, names.split()) for group, (_, names) in GROUPS.items())])


def _toctree(group: str, names: list[str]) -> str:
    entries = "\n".join(f"operators/{name}" for name in names)
    return f"```{{toctree}}\n:hidden:\n:caption: {group}\n\n{entries}\n```\n"
