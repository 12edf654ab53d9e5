"""Sentences and pairs of sentences in the archives of GLUE, whose test parts have no labels."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..records import named, numbered, rows_of
from ..resource import Resource

__all__ = ["QNLI", "RTE", "SST2", "WNLI"]

_GLUE = "Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform for NLU, ICLR 2019"
_ENTAILMENT = ("entailment", "not_entailment")

_Row = list[str]
_Sentence = tuple[str, int] | tuple[str]
_Pair = tuple[int, str, str] | tuple[str, str]


def _archive(name: str, **facts: Any) -> dict[str, Resource]:
    note = "torchtext 0.18; size and sha256 from tensorflow-datasets 4.9.7"
    return {"archive": Resource(f"https://dl.fbaipublicfiles.com/glue/data/{name}.zip", note=note, **facts)}


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


_entailment = functools.partial(named, _ENTAILMENT)


@dataset(
    "sst2",
    splits={"train": 67_349, "dev": 872, "test": 1_821},
    categories=("negative", "positive"),
    resources=_archive(
        "SST-2",
        sha256="d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
        md5="9f81648d4199384278b86e315dac217c",
        size=7_439_277,
    ),
    home_page="https://nlp.stanford.edu/sentiment/",
    citation="Socher et al., Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank, EMNLP 2013",
)
def SST2(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of film reviews, each with its sentiment.

    Items: `(text, label)`, with label 0 or 1. The test split has no labels, and gives `(text,)`.
    """
    make: Callable[[_Row], _Sentence] = _sentence_alone if split == "test" else _sentence
    return rows_of(resources["archive"], f"SST-2/{split}.tsv", "SST2", make, delimiter="\t", skip_lines=1)


@dataset(
    "rte",
    splits={"train": 2_490, "dev": 277, "test": 3_000},
    categories=_ENTAILMENT,
    resources=_archive(
        "RTE",
        sha256="6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
        md5="bef554d0cafd4ab6743488101c638539",
        size=697_150,
    ),
    home_page="https://aclweb.org/aclwiki/Recognizing_Textual_Entailment",
    citation=f"Dagan et al. 2005; Bar-Haim et al. 2006; Giampiccolo et al. 2007; Bentivogli et al. 2009; {_GLUE}",
)
def RTE(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of sentences, each with whether the second follows from the first.

    Items: `(label, first sentence, second sentence)`, with label 0 for entailment and 1 for none. The test split has no
    labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs(resources["archive"], "RTE", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(
    "qnli",
    splits={"train": 104_743, "dev": 5_463, "test": 5_463},
    categories=_ENTAILMENT,
    resources=_archive(
        "QNLIv2",
        sha256="e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
        md5="b4efd6554440de1712e9b54e14760e82",
        size=10_627_589,
    ),
    home_page="https://rajpurkar.github.io/SQuAD-explorer/",
    citation=f"Rajpurkar et al., SQuAD, EMNLP 2016; {_GLUE}",
)
def QNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Questions of SQuAD with a sentence, each with whether the sentence answers it.

    Items: `(label, question, sentence)`, with label 0 where it does and 1 where it does not. The test split has no
    labels, and gives `(question, sentence)`.
    """
    return _pairs(resources["archive"], "QNLI", split, _entailment, quoting=csv.QUOTE_NONE)


@dataset(
    "wnli",
    splits={"train": 635, "dev": 71, "test": 146},
    categories=("not_entailment", "entailment"),
    resources=_archive(
        "WNLI",
        sha256="ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
        md5="a1b4bd2861017d302d29e42139657a42",
        size=28_999,
    ),
    home_page="https://cs.nyu.edu/faculty/davise/papers/WinogradSchemas/WS.html",
    citation=f"Levesque, Davis, Morgenstern, The Winograd Schema Challenge, KR 2012; {_GLUE}",
)
def WNLI(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Sentences with a pronoun, each with another one that puts a name for it, and whether that follows.

    Items: `(label, first sentence, second sentence)`, with label 0 for no entailment and 1 for entailment. The test
    split has no labels, and gives `(first sentence, second sentence)`.
    """
    return _pairs(resources["archive"], "WNLI", split, functools.partial(numbered, 0, 1))
