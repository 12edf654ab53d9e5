"""Small files in the layouts of the data sets of text that are tables, and the items that torchtext gave for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets import Dataset


@dataclass(frozen=True)
class Case:
    """A data set, the content of its resources, and its items by split."""

    data: Dataset[Any]
    files: Mapping[str, bytes]
    items: Mapping[str, list[Any]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.data.title, *("_".join(value) for value in self.options.values())])


def _lines(*rows: str, end: str = "\n") -> bytes:
    return "".join(f"{row}{end}" for row in rows).encode()


_SST2 = {
    "SST-2/train.tsv": _lines("sentence\tlabel", ' "quoted, and "" doubled" \t0', "größte Freude \t1", "it's fine\t1"),
    "SST-2/dev.tsv": _lines("sentence\tlabel", "a dull film\t0", end="\r\n"),
    "SST-2/test.tsv": _lines("index\tsentence", "0\t uneasy mishmash ", "1\t5' 10\""),
    "SST-2/original/README.txt": b"not read",
}

_PAIRS = "index\tsentence1\tsentence2\tlabel"
_PAIRS_ALONE = "index\tsentence1\tsentence2"


def _entailments(folder: str) -> dict[str, bytes]:
    return {
        f"{folder}/train.tsv": _lines(_PAIRS, '0\tA "b" c\t"d\tnot_entailment', "1\té\t g \tentailment"),
        f"{folder}/dev.tsv": _lines(_PAIRS, "0\tx\ty\tentailment"),
        f"{folder}/test.tsv": _lines(_PAIRS_ALONE, '0\t"x\ty', "1\tz\t"),
    }


_ENTAILMENTS = {
    "train": [(1, 'A "b" c', '"d'), (0, "é", " g ")],
    "dev": [(0, "x", "y")],
    "test": [('"x', "y"), ("z", "")],
}

_GLUE = [
    Case(
        ps.datasets.SST2,
        {"archive": zip_of(_SST2)},
        {
            "train": [(' "quoted, and "" doubled"'.strip(), 0), ("größte Freude", 1), ("it's fine", 1)],
            "dev": [("a dull film", 0)],
            "test": [("uneasy mishmash",), ("5' 10\"",)],
        },
    ),
    Case(ps.datasets.RTE, {"archive": zip_of(_entailments("RTE"))}, _ENTAILMENTS),
    Case(ps.datasets.QNLI, {"archive": zip_of(_entailments("QNLI"))}, _ENTAILMENTS),
    Case(
        ps.datasets.WNLI,
        {
            "archive": zip_of(
                {
                    "WNLI/train.tsv": _lines(_PAIRS, '0\t"He said ""no"", twice."\tNo.\t1', "1\ta\tb\t0"),
                    "WNLI/dev.tsv": _lines(_PAIRS, "0\tc\td\t1"),
                    "WNLI/test.tsv": _lines(_PAIRS_ALONE, "0\te\tf"),
                }
            )
        },
        {"train": [(1, 'He said "no", twice.', "No."), (0, "a", "b")], "dev": [(1, "c", "d")], "test": [("e", "f")]},
    ),
]

_COLA = {
    "cola_public/raw/in_domain_train.tsv": _lines(
        "gj04\t1\t\tThe first line.", 'gj04\t1\t\tHe said "', "gj04\t0\t*\tSentence no.", "too\tfew\tcolumns"
    ),
    "cola_public/raw/in_domain_dev.tsv": _lines("gj04\t1\t\tThe first line.", "b_73\t1\t\tNaïve."),
    "cola_public/raw/in_domain_dev.tsv.bak": b"not read",
    "cola_public/raw/out_of_domain_dev.tsv": _lines("clc95\t1\t\tThe first line.", "clc95\t0\t*\tJohn him saw."),
}

_MRPC = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"

_MNLI = "gold_label\tp1\tp2\tp3\tp4\tsentence1\tsentence2\tpromptID\tpairID\tgenre\tlabel1"

_JUDGEMENTS = [
    Case(
        ps.datasets.CoLA,
        {"archive": zip_of(_COLA)},
        {
            "train": [("gj04", 1, 'He said "'), ("gj04", 0, "Sentence no.")],
            "dev": [("b_73", 1, "Naïve.")],
            "test": [("clc95", 0, "John him saw.")],
        },
    ),
    Case(
        ps.datasets.MRPC,
        {
            "train": _lines(_MRPC, '1\t12\t13\tHe said "yes\tYes, "he" said', "0\t1\t2\tÜber\tb", end="\r\n"),
            "test": _lines(_MRPC, "0\t1\t2\tc\td"),
        },
        {"train": [(1, 'He said "yes', 'Yes, "he" said'), (0, "Über", "b")], "test": [(0, "c", "d")]},
    ),
    Case(
        ps.datasets.QQP,
        {
            "table": _lines(
                '"id"\t"qid1"\t"qid2"\t"question1"\t"question2"\t"is_duplicate"',
                '"0"\t"1"\t"2"\t"What is ""it""?"\t"A line\r\nand\rmore\tof it?"\t"0"',
                '"1"\t"3"\t"4"\t"Who?"\t""\t"1"',
            )
        },
        {"train": [(0, 'What is "it"?', "A line\nand\nmore\tof it?"), (1, "Who?", "")]},
    ),
    Case(
        ps.datasets.STSB,
        {
            "archive": tar_of(
                {
                    "stsbenchmark/readme.txt": b"not read",
                    "stsbenchmark/sts-train.csv": _lines(
                        'main-news\tMSRpar\t2012test\t0001\t5.000\tA plane.\tAn "air plane.',
                        "main-news\tMSRpar\t2012test\t4\t3.8\tA, b\té\tmore\tcolumns",
                    ),
                    "stsbenchmark/sts-dev.csv": _lines("a\tb\t2015\t7\t0\tx\ty"),
                    "stsbenchmark/sts-test.csv": _lines("a\tb\t2016\t8\t2.5\tz\t "),
                }
            )
        },
        {
            "train": [(1, 5.0, "A plane.", 'An "air plane.'), (4, 3.8, "A, b", "é")],
            "dev": [(7, 0.0, "x", "y")],
            "test": [(8, 2.5, "z", " ")],
        },
    ),
    Case(
        ps.datasets.MNLI,
        {
            "archive": zip_of(
                {
                    "multinli_1.0/multinli_1.0_train.jsonl": b"not read",
                    "multinli_1.0/multinli_1.0_train.txt": _lines(
                        _MNLI,
                        'neutral\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tA "b\tC\t1\t1n\tfiction\tneutral',
                        "-\t\t\t\t\tno gold\tlabel\t2\t2n\tfiction\tneutral",
                        "entailment\t\t\t\t\té\t f \t3\t3e\tfiction\tentailment",
                        "contradiction\t\t\t\t\tg\th\t4\t4c\tfiction\tcontradiction",
                    ),
                    "multinli_1.0/multinli_1.0_dev_matched.txt": _lines(_MNLI, "neutral\t\t\t\t\ti\tj\t\t\t\t"),
                    "multinli_1.0/multinli_1.0_dev_mismatched.txt": _lines(_MNLI, "entailment\t\t\t\t\tk\tl\t\t\t\t"),
                }
            )
        },
        {
            "train": [(1, 'A "b', "C"), (0, "é", " f "), (2, "g", "h")],
            "dev_matched": [(1, "i", "j")],
            "dev_mismatched": [(0, "k", "l")],
        },
    ),
]


def _reviews(data: Dataset[Any], folder: str, last: int) -> Case:
    files = {
        f"{folder}/readme.txt": b"not read",
        f"{folder}/test.csv": _lines('"1","","a ""b"", c"'),
        f"{folder}/train.csv": _lines(
            f'"{last}","Title","A, ""b""\\nc"', '"1","größte\tFreude"', '"1","a","","b"', end="\r\n"
        ),
    }
    items = {"train": [(last, 'Title A, "b"\\nc'), (1, "größte\tFreude"), (1, "a  b")], "test": [(1, ' a "b", c')]}
    return Case(data, {"archive": tar_of(files)}, items)


_CLASSIFICATION = [
    Case(
        ps.datasets.AG_NEWS,
        {
            "train": _lines('"3","Wall St. ""Bears"" (Reuters)","Reuters - Short\\band"', '"4","Über","b"'),
            "test": _lines('"2","Two\nlines","c"'),
        },
        {
            "train": [(3, 'Wall St. "Bears" (Reuters) Reuters - Short\\band'), (4, "Über b")],
            "test": [(2, "Two\nlines c")],
        },
    ),
    Case(
        ps.datasets.IMDB,
        {
            "archive": tar_of(
                {
                    "aclImdb/README": b"not read",
                    "aclImdb/test/neg/1_2.txt": b"bad<br /><br />film",
                    "aclImdb/test/pos/0_10.txt": b"good",
                    "aclImdb/test/urls_neg.txt": b"http://nowhere",
                    "aclImdb/train/neg/2_1.txt": "schlecht\x85, so schlecht".encode(),
                    "aclImdb/train/neg/10_4.txt": b"bad \xff byte ",
                    "aclImdb/train/pos/0_9.txt": b"good\n",
                    "aclImdb/train/unsup/0_0.txt": b"no label",
                }
            )
        },
        {
            "train": [(1, "schlecht\x85, so schlecht"), (1, "bad  byte "), (2, "good")],
            "test": [(1, "bad<br /><br />film"), (2, "good")],
        },
    ),
    _reviews(ps.datasets.YelpReviewPolarity, "yelp_review_polarity_csv", 2),
    _reviews(ps.datasets.YelpReviewFull, "yelp_review_full_csv", 5),
    _reviews(ps.datasets.AmazonReviewPolarity, "amazon_review_polarity_csv", 2),
    _reviews(ps.datasets.AmazonReviewFull, "amazon_review_full_csv", 5),
    _reviews(ps.datasets.DBpedia, "dbpedia_csv", 14),
    _reviews(ps.datasets.YahooAnswers, "yahoo_answers_csv", 10),
    _reviews(ps.datasets.SogouNews, "sogou_news_csv", 5),
]

TABLES = [*_GLUE, *_JUDGEMENTS, *_CLASSIFICATION]
