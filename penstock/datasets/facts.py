"""The facts of Penstock's data sets, which lie in `facts.toml`: where their files are, how many items they have."""

from __future__ import annotations

import functools
import tomllib
from functools import partial
from importlib.resources import files
from typing import Any

from .resource import Resource

_TEXTS = ("title", "licence", "home_page", "citation", "folder")


def facts(name: str) -> dict[str, Any]:
    """Return the arguments of `Dataset` that `facts.toml` has for a data set: all but its function."""
    found = entry(name)
    names = found.get("categories", ())
    more: dict[str, Any] = {each: found[each] for each in _TEXTS if each in found}
    if "counts" in found:
        more["count"] = partial(_count, found["counts"])
    return {
        **more,
        "name": name,
        "splits": {split: None if count == "unknown" else count for split, count in found["splits"].items()},
        "categories": partial(_names_of, names) if isinstance(names, dict) else _names(names),
        "resources": {
            key: Resource(**{"note": found.get("note", ""), **resource}) for key, resource in found["resources"].items()
        },
    }


def labels(name: str, key: str = "categories") -> dict[str, int]:
    """Return the label of each class of a data set, by the name of the class."""
    return {category: label for label, category in enumerate(_names(entry(name)[key]))}


def entry(name: str) -> dict[str, Any]:
    """Return the table of a data set in `facts.toml`."""
    own: dict[str, Any] = _tables()[name]
    return entry(own["like"]) | own if "like" in own else own


@functools.cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_text("facts.toml"))


def _text(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")


def _names(names: list[str] | str) -> tuple[str, ...]:
    """Return the names of classes, which are there or in a file."""
    return tuple(_text(f"categories/{names}").splitlines() if isinstance(names, str) else names)


def _names_of(table: dict[str, Any], split: str, **options: Any) -> tuple[str, ...]:
    ((option, categories),) = table.items()
    return tuple(categories.get(options[option], ()))


def _count(table: dict[str, Any], split: str, **options: Any) -> int | None:
    ((option, counts),) = table.items()
    count: int | None = counts.get(options[option], {}).get(split)
    return count
