"""Every operator of torchdata 0.9 and torch is here, under its names and with its parameters.

`catalogue.json` lists what they were: read from torchdata 0.9.0 and torch themselves.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.registry import operators

CATALOGUE = json.loads((Path(__file__).parent / "catalogue.json").read_text())
SOURCES = {"datapipe", "source_datapipe", "source_dp", "source_iterdatapipe", "datapipes"}
"""What the parameter was called that is `source`, or `sources`, everywhere."""

BY_KIND = {
    "positional_or_keyword": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "keyword_only": inspect.Parameter.KEYWORD_ONLY,
    "var_positional": inspect.Parameter.VAR_POSITIONAL,
    "var_keyword": inspect.Parameter.VAR_KEYWORD,
}


def entries() -> list[Any]:
    return [pytest.param(entry, id=f"{entry['kind']}-{entry['class']}") for entry in CATALOGUE]


def class_of(entry: dict[str, Any]) -> type:
    return getattr(ps.iter if entry["kind"] == "iter" else ps.map, entry["class"])


def test_the_catalogue_is_whole() -> None:
    assert len(CATALOGUE) == 95


@pytest.mark.parametrize("entry", entries())
def test_a_class_has_the_methods_it_had(entry: dict[str, Any]) -> None:
    for method in entry["methods"]:
        assert operators[f"{method['on']}.{method['name']}"].cls is class_of(entry)
        assert callable(getattr(ps.IterDataPipe if method["on"] == "iter" else ps.MapDataPipe, method["name"]))


OPTIONAL_HERE = {("BatchMapper", "batch_size")}
"""What a chain of columns does not need; for lists of items it is an error to leave it out, as it was."""


@pytest.mark.parametrize("entry", entries())
def test_a_class_has_the_parameters_it_had_in_their_order(entry: dict[str, Any]) -> None:
    ours = inspect.signature(class_of(entry)).parameters
    theirs = entry["parameters"]
    if theirs[0]["name"] in SOURCES:
        assert next(iter(ours)) in ("source", "sources")
    expected = [each for each in theirs if each["name"] not in SOURCES]
    for each in expected:
        assert each["name"] in ours, f"{entry['class']} had a parameter {each['name']}"
        assert ours[each["name"]].kind is BY_KIND[each["kind"]]
        is_required = each["default"] is None and (entry["class"], each["name"]) not in OPTIONAL_HERE
        assert (ours[each["name"]].default is inspect.Parameter.empty) == is_required
    positional = [each["name"] for each in expected if each["kind"] == "positional_or_keyword"]
    in_our_order = [name for name in ours if name in positional]
    assert in_our_order == positional
    # A new one stands behind them, or is given by keyword.
    new = [
        name for name, each in ours.items() if each.kind is BY_KIND["positional_or_keyword"] and name not in positional
    ]
    assert new in ([], ["source"])


@pytest.mark.parametrize("entry", entries())
def test_a_plain_default_is_what_it_was(entry: dict[str, Any]) -> None:
    ours = inspect.signature(class_of(entry)).parameters
    for each in entry["parameters"]:
        default = each["default"]
        if default is not None and not default.startswith("<"):
            assert repr(ours[each["name"]].default) == default
