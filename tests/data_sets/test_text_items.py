"""The data sets of text give what torchtext gave, from files of the same layout and a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.datasets import Dataset
from penstock.datasets.laws import DATA_SET_LAWS
from served import FileServer, served
from text_streams import STREAMS
from text_tables import TABLES, Case

CASES = [*TABLES, *STREAMS]
TWO_WORKERS = ("SST2", "CoLA", "YelpReviewFull", "IMDB", "WikiText2", "SQuAD1", "UDPOS", "Multi30k", "IWSLT2017")
"""Those that are read by two workers, which takes half a second: one of each kind of chain."""
pytestmark = pytest.mark.timeout(40)


def small(case: Case, server: FileServer) -> Dataset[Any]:
    return served(case.data, case.files, server, **{split: len(items) for split, items in case.items.items()})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_items_are_those_of_torchtext(case: Case, server: FileServer, tmp_path: Path) -> None:
    chains = small(case, server)(tmp_path, tuple(case.data.splits), **case.options)
    for chain, expected in zip(chains, case.items.values(), strict=True):
        items = list(chain)
        assert items == expected
        assert [*map(type, items[0])] == [*map(type, expected[0])]
    assert case.data(tmp_path).info.split == "train"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_laws_hold(case: Case, server: FileServer, tmp_path: Path) -> None:
    data = small(case, server)
    laws = [law for law in DATA_SET_LAWS if law != "two_workers_read_it" or str(case) in TWO_WORKERS]
    ps.datasets.check_dataset(lambda **arguments: data(tmp_path, **case.options, **arguments), laws)


@pytest.mark.parametrize("name", [case.data.title for case in CASES])
def test_each_is_listed_and_has_its_facts(name: str) -> None:
    data = getattr(ps.datasets, name)
    assert data.name in ps.datasets.list()
    assert data.home_page.startswith("http")
    assert data.citation
    assert all(each.note.startswith("torchtext 0.18") for each in data.resources.values())


def test_the_numbers_of_iwslt_depend_on_the_languages(tmp_path: Path) -> None:
    counts = {split: len(ps.datasets.IWSLT2017(tmp_path, split)) for split in ("train", "valid", "test")}
    assert counts == {"train": 206_112, "valid": 888, "test": 1_568}
    for pair in (("it", "ro"), ("ro", "it")):
        assert len(ps.datasets.IWSLT2017(tmp_path, "test", language_pair=pair)) == 1_643


@pytest.mark.parametrize(
    ("data", "pair"),
    [
        (ps.datasets.Multi30k, ("de", "fr")),
        (ps.datasets.Multi30k, ("de", "de")),
        (ps.datasets.Multi30k, "de"),
        (ps.datasets.IWSLT2017, ("de", "fr")),
        (ps.datasets.IWSLT2017, ("en", "de", "it")),
        (ps.datasets.IWSLT2017, None),
    ],
)
def test_other_languages_are_refused_when_it_is_made(data: Dataset[Any], pair: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"language_pair of {data.title} must be two different ones of 'de', 'en'"):
        data(tmp_path, language_pair=pair)
