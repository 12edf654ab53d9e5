"""Sentences, and pairs of them, that people judged: the tasks of GLUE.

SST2, RTE, QNLI and WNLI are read from the archives of GLUE, whose test parts have no labels; CoLA, MRPC, QQP, STSB and
MNLI as their authors publish them.
"""

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

_TABS: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
_INFERENCE = ("entailment", "neutral", "contradiction")

_Row = list[str]
_Pair = tuple[int, str, str]
_PairOfGlue = _Pair | tuple[str, str]

_binary = functools.partial(numbered, 0, 1)
_entailment = functools.partial(named, ("entailment", "not_entailment"))


def _pair(label: Callable[[str], int], at: int, first: int, second: int, row: _Row) -> _Pair:
    return label(row[at]), row[first], row[second]


def _pairs_of_glue(
    files: Files, title: str, split: str, label: Callable[[str], int], **layout: Any
) -> IterDataPipe[_PairOfGlue]:
    make = _pair_alone if split == "test" else functools.partial(_pair, label, 3, 1, 2)
    return rows_of(files, f"{title}/{split}.tsv", title, make, delimiter="\t", skip_lines=1, **layout)


def _pair_alone(row: _Row) -> tuple[str, str]:
    return row[1], row[2]


@dataset(**facts("sst2"))
def SST2(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[str, int] | tuple[str]]:
    """Sentences of film reviews, each with its sentiment.

    Items: `(text, label)`, with label 0 or 1. The test split has no labels, and gives `(text,)`.
    """
    make = _sentence_alone if split == "test" else _sentence
    return rows_of(resources["archive"], f"SST-2/{split}.tsv", "SST2", make, delimiter="\t", skip_lines=1)


def _sentence(row: _Row) -> tuple[str, int]:
    return row[0].strip(), _binary(row[1])


def _sentence_alone(row: _Row) -> tuple[str]:
    return (row[1].strip(),)


@dataset(**facts("rte"))
def RTE(resources: Mapping[str, Files], split: str) -> IterDataPipe[_PairOfGlue]:
    """Pairs of sentences, each with whether the second follows from the first.

    Items: `(label, first sentence, second sentence)`, with label 0 for entailment and 1 for none. The test split has no
    labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs_of_glue(resources["archive"], "RTE", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(**facts("qnli"))
def QNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_PairOfGlue]:
    """Questions of SQuAD with a sentence, each with whether the sentence answers it.

    Items: `(label, question, sentence)`, with label 0 where it does and 1 where it does not. The test split has no
    labels, and gives `(question, sentence)`.
    """
    return _pairs_of_glue(resources["archive"], "QNLI", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(**facts("wnli"))
def WNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_PairOfGlue]:
    """Sentences with a pronoun, each with another one that puts a name for it, and whether that follows.

    Items: `(label, first sentence, second sentence)`, with label 0 for no entailment and 1 for entailment. The test
    split has no labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs_of_glue(resources["archive"], "WNLI", split, _binary)


@dataset(**facts("cola"))
def CoLA(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[str, int, str]]:
    """Sentences out of the literature on linguistics, each with whether it is acceptable English.

    Items: `(source, label, sentence)`, with label 0 or 1. As in torchtext, the first line of each file is left out as
    a header, although it is a sentence, and so are lines of other than four columns; the test split is the published
    part out of other sources, with labels.
    """
    name = {"train": "in_domain_train", "dev": "in_domain_dev", "test": "out_of_domain_dev"}[split]
    path = f"cola_public/raw/{name}.tsv"
    return rows_of(resources["archive"], path, "CoLA", _judged, keep=_has_four, skip_lines=1, **_TABS)


def _judged(row: _Row) -> tuple[str, int, str]:
    return row[0], _binary(row[1]), row[3]


def _has_four(row: _Row) -> bool:
    return len(row) == 4


@dataset(**facts("mrpc"))
def MRPC(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of sentences of news, each with whether they say the same.

    Items: `(label, first sentence, second sentence)`, with label 0 or 1.
    """
    files = resources[split]
    return rows_of(files, files.name, "MRPC", functools.partial(_pair, _binary, 0, 3, 4), skip_lines=1, **_TABS)


@dataset(**facts("qqp"))
def QQP(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of questions on Quora, each with whether they ask the same.

    Items: `(label, first question, second question)`, with label 0 or 1. This is Quora's one file, not GLUE's splits.
    """
    files = resources["table"]
    return rows_of(files, files.name, "QQP", functools.partial(_pair, _binary, -1, 3, 4), delimiter="\t", skip_lines=1)


@dataset(**facts("stsb"))
def STSB(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[int, float, str, str]]:
    """Pairs of sentences, each with how much their meanings are alike.

    Items: `(index, score, first sentence, second sentence)`. The score is from 0.0 to 5.0, in all splits; the index is
    that in the set which the pair is from, and not unique.
    """
    return rows_of(resources["archive"], f"stsbenchmark/sts-{split}.csv", "STSB", _scored, **_TABS)


def _scored(row: _Row) -> tuple[int, float, str, str]:
    score = float(row[4])
    if not 0 <= score <= 5:
        raise ValueError(f"the score {row[4]!r} is not from 0 to 5")
    return int(row[3]), score, row[5], row[6]


@dataset(**facts("mnli"))
def MNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of sentences of many genres, each with whether the second follows from the first or contradicts it.

    Items: `(label, first sentence, second sentence)`, with label 0 for entailment, 1 for neutral, 2 for contradiction.
    Pairs on which the judges did not agree are left out.
    """
    make = functools.partial(_pair, functools.partial(named, _INFERENCE), 0, 5, 6)
    path = f"multinli_1.0/multinli_1.0_{split}.txt"
    return rows_of(resources["archive"], path, "MNLI", make, keep=_has_gold_label, skip_lines=1, **_TABS)


def _has_gold_label(row: _Row) -> bool:
    return not row or row[0] in _INFERENCE
