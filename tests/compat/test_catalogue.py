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


def class_of(entry: dict[str, Any]) -> type:
    return getattr(ps.iter if entry["kind"] == "iter" else ps.map, entry["class"])


OPTIONAL_HERE = {("BatchMapper", "batch_size")}
"""What a chain of columns does not need; for lists of items it is an error to leave it out, as it was."""


@pytest.mark.parametrize("entry", [pytest.param(entry, id=f"{entry['kind']}-{entry['class']}") for entry in CATALOGUE])
def test_a_class_has_the_methods_and_parameters_it_had_in_their_order(entry: dict[str, Any]) -> None:
    for method in entry["methods"]:
        assert operators[f"{method['on']}.{method['name']}"].cls is class_of(entry)
        assert callable(getattr(ps.IterDataPipe if method["on"] == "iter" else ps.MapDataPipe, method["name"]))
    ours = inspect.signature(class_of(entry)).parameters
    theirs = entry["parameters"]
    if theirs[0]["name"] in SOURCES:
        assert next(iter(ours)) in ("source", "sources")
    expected = [each for each in theirs if each["name"] not in SOURCES]
    for each in expected:
        name, default = each["name"], each["default"]
        assert name in ours, f"{entry['class']} had a parameter {name}"
        assert ours[name].kind is BY_KIND[each["kind"]]
        is_required = default is None and (entry["class"], name) not in OPTIONAL_HERE
        assert (ours[name].default is inspect.Parameter.empty) == is_required
        if default is not None and not default.startswith("<"):
            assert repr(ours[name].default) == default
    positional = [each["name"] for each in expected if each["kind"] == "positional_or_keyword"]
    assert [name for name in ours if name in positional] == positional
    # A new one stands behind them, or is given by keyword.
    ours_alone = {name for name, each in ours.items() if each.kind is BY_KIND["positional_or_keyword"]} - {*positional}
    assert ours_alone <= {"source"}
