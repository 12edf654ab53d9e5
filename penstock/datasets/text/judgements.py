"""Sentences, and pairs of them, that people judged: CoLA, MRPC, QQP, STSB, MNLI, as their authors publish them."""

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

__all__ = ["MNLI", "MRPC", "QQP", "STSB", "CoLA"]

_TABS: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
_NOTE = "torchtext 0.18; size and sha256 from tensorflow-datasets 4.9.7"
_HALF_KNOWN = "torchtext 0.18; size and sha256 could not be confirmed"
_INFERENCE = ("entailment", "neutral", "contradiction")

_Row = list[str]
_Pair = tuple[int, str, str]

_binary = functools.partial(numbered, 0, 1)


def _pair(label: Callable[[str], int], at: int, first: int, second: int, row: _Row) -> _Pair:
    return label(row[at]), row[first], row[second]


@dataset(
    "cola",
    splits={"train": 8_550, "dev": 526, "test": 515},
    categories=("unacceptable", "acceptable"),
    resources={
        "archive": Resource(
            "https://nyu-mll.github.io/CoLA/cola_public_1.1.zip",
            md5="9f6d88c3558ec424cd9d66ea03589aba",
            note=_HALF_KNOWN,
        )
    },
    home_page="https://nyu-mll.github.io/CoLA/",
    citation="Warstadt, Singh, Bowman, Neural Network Acceptability Judgments, TACL 2019 (arXiv:1805.12471)",
)
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


@dataset(
    "mrpc",
    splits={"train": 4_076, "test": 1_725},
    categories=("not_equivalent", "equivalent"),
    resources={
        "train": Resource(
            "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_train.txt",
            sha256="60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
            md5="793daf7b6224281e75fe61c1f80afe35",
            size=1_047_044,
            note=_NOTE,
        ),
        "test": Resource(
            "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_test.txt",
            sha256="a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
            md5="e437fdddb92535b820fe8852e2df8a49",
            size=441_275,
            note=_NOTE,
        ),
    },
    home_page="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    citation="Dolan, Brockett, Automatically Constructing a Corpus of Sentential Paraphrases, IWP 2005",
)
def MRPC(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of sentences of news, each with whether they say the same.

    Items: `(label, first sentence, second sentence)`, with label 0 or 1.
    """
    files = resources[split]
    return rows_of(files, files.name, "MRPC", functools.partial(_pair, _binary, 0, 3, 4), skip_lines=1, **_TABS)


@dataset(
    "qqp",
    splits={"train": 404_290},
    categories=("not_duplicate", "duplicate"),
    resources={
        "table": Resource(
            "http://qim.fs.quoracdn.net/quora_duplicate_questions.tsv",
            sha256="b3350dbb1d98db1f5abca85d736ba514bf4da253fae53939303d79fe921ec7c8",
            md5="b6d5672bd9dc1e66ab2bb020ebeafb8d",
            size=58_176_133,
            note="torchtext 0.18; size and sha256 from Hugging Face's card",
        )
    },
    home_page="https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
    citation="Iyer, Dandekar, Csernai, First Quora Dataset Release: Question Pairs, 2017",
)
def QQP(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Pair]:
    """Pairs of questions on Quora, each with whether they ask the same.

    Items: `(label, first question, second question)`, with label 0 or 1. This is Quora's one file, not GLUE's splits.
    """
    files = resources["table"]
    return rows_of(files, files.name, "QQP", functools.partial(_pair, _binary, -1, 3, 4), delimiter="\t", skip_lines=1)


@dataset(
    "stsb",
    splits={"train": 5_749, "dev": 1_500, "test": 1_379},
    resources={
        "archive": Resource(
            "http://ixa2.si.ehu.es/stswiki/images/4/48/Stsbenchmark.tar.gz",
            md5="4eb0065aba063ef77873d3a9c8088811",
            note=_HALF_KNOWN,
        )
    },
    home_page="http://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark",
    citation="Cer et al., SemEval-2017 Task 1: Semantic Textual Similarity, SemEval 2017 (arXiv:1708.00055)",
)
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


@dataset(
    "mnli",
    splits={"train": 392_702, "dev_matched": 9_815, "dev_mismatched": 9_832},
    categories=_INFERENCE,
    resources={
        "archive": Resource(
            "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
            sha256="049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
            md5="0f70aaf66293b3c088a864891db51353",
            size=226_850_426,
            note=_NOTE,
        )
    },
    licence="OANC licence for most; fiction CC BY 3.0, CC BY-SA 3.0 or public domain",
    home_page="https://cims.nyu.edu/~sbowman/multinli/",
    citation="Williams, Nangia, Bowman, A Broad-Coverage Challenge Corpus for Sentence Understanding through "
    "Inference, NAACL 2018",
)
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
