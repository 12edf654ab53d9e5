"""Sentences and pairs of sentences in the archives of GLUE, whose test parts have no labels."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import named, numbered, rows_of

__all__ = ["QNLI", "RTE", "SST2", "WNLI"]

_Row = list[str]
_Sentence = tuple[str, int] | tuple[str]
_Pair = tuple[int, str, str] | tuple[str, str]


def _sentence(row: _Row) -> _Sentence:
    return row[0].strip(), numbered(0, 1, row[1])


def _sentence_alone(row: _Row) -> _Sentence:
    return (row[1].strip(),)


def _pairs(files: Files, title: str, split: str, label: Callable[[str], int], **layout: Any) -> IterDataPipe[_Pair]:
    make: Callable[[_Row], _Pair] = _pair_alone if split == "test" else functools.partial(_pair, label)
    return rows_of(files, f"{title}/{split}.tsv", title, make, delimiter="\t", skip_lines=1, **layout)


def _pair(label: Callable[[str], int], row: _Row) -> _Pair:
    return label(row[3]), row[1], row[2]


def _pair_alone(row: _Row) -> _Pair:
    return row[1], row[2]


_entailment = functools.partial(named, ("entailment", "not_entailment"))


@dataset(**facts("sst2"))
def SST2(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of film reviews, each with its sentiment.

    Items: `(text, label)`, with label 0 or 1. The test split has no labels, and gives `(text,)`.
    """
    make: Callable[[_Row], _Sentence] = _sentence_alone if split == "test" else _sentence
    return rows_of(resources["archive"], f"SST-2/{split}.tsv", "SST2", make, delimiter="\t", skip_lines=1)


@dataset(**facts("rte"))
def RTE(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of sentences, each with whether the second follows from the first.

    Items: `(label, first sentence, second sentence)`, with label 0 for entailment and 1 for none. The test split has no
    labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs(resources["archive"], "RTE", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(**facts("qnli"))
def QNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Questions of SQuAD with a sentence, each with whether the sentence answers it.

    Items: `(label, question, sentence)`, with label 0 where it does and 1 where it does not. The test split has no
    labels, and gives `(question, sentence)`.
    """
    return _pairs(resources["archive"], "QNLI", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(**facts("wnli"))
def WNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Sentences with a pronoun, each with another one that puts a name for it, and whether that follows.

    Items: `(label, first sentence, second sentence)`, with label 0 for no entailment and 1 for entailment. The test
    split has no labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs(resources["archive"], "WNLI", split, functools.partial(numbered, 0, 1))
