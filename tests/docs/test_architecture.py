"""The page about the architecture speaks of the code that is there."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\|[^|]*\| `([^`|]*)` \| `([^`|]*)` \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE
)


@cache
def names_in(file: str) -> set[str]:
    """The classes, functions and methods that a file defines."""

    def names(body: list[Any], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for node in body:
            if isinstance(node, ast.FunctionDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found |= {prefix + node.name, *names(node.body, f"{prefix}{node.name}.")}
        return found

    return names(ast.parse((ROOT / file).read_text()).body)


TWICE = {"functional_datapipe", "load", "main", "two_passes_agree"}
"""What stands in two modules on purpose: a name of torchdata, two of users, the commands, a law."""
TWICE |= {"from_items", "from_torch", "read_images"}  # as Ray Data gives their rows, in penstock.compat.ray


def public_names(file: Path) -> set[str]:
    """The functions, classes and constants that a module defines, and no type variables."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        for each in node.targets if isinstance(node, ast.Assign) else [node]:
            found.add(getattr(each, "name", getattr(each, "id", "_")))
    return {name for name in found if not re.fullmatch("_.*|[A-Z]|[A-Z]_co|[A-Z][0-9]", name)}


def test_no_public_name_stands_in_two_modules() -> None:
    folders: dict[str, Path] = runpy.run_path(str(ROOT / "docs" / "make_architecture.py"))["folders"]()
    where: dict[str, set[str]] = {}
    for file in (file for folder in folders.values() for file in folder.rglob("*.py")):
        place = re.sub("/pipes/(iter|map)/", "/pipes/operators/", str(file))  # an operator may be there for both kinds
        for name in public_names(file):
            where.setdefault(name, set()).add(place)
    assert {name for name, places in where.items() if len(places) > 1} == TWICE


@pytest.mark.parametrize(("file", "function"), ROWS)
def test_a_function_of_the_page_is_in_its_file(file: str, function: str) -> None:
    assert function in names_in(file)


def test_each_row_of_the_page_names_a_function() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert len(ROWS) == len(re.findall(r"^\| (?!step|---)", page, re.MULTILINE)) > 40


def test_the_picture_is_that_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_architecture.py"))
    assert script["PICTURE"].read_text() == script["svg"](), "run docs/make_architecture.py"
    layers = {room: number for number, row in enumerate(script["layers"]()) for room in row}
    assert script["imports"]().keys() == layers.keys()
    assert all(layers[room] < layers[other] for room, others in script["imports"]().items() for other in others)
