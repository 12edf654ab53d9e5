"""Damaged files of the data sets of text: the error names the data set, the file and the record."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets import Dataset
from penstock.datasets.fetching import archive_kind
from served import FileServer, served
from text_streams import STREAMS
from text_tables import TABLES, Case


def _names(case: Case) -> list[str]:
    return [resource.name for resource in case.data.resources.values()]


ARCHIVED = [
    case for case in [*TABLES, *STREAMS] if any(archive_kind(each.name) for each in case.data.resources.values())
]

pytestmark = pytest.mark.timeout(40)


def _damaged(data: Dataset[Any], content: bytes, server: FileServer) -> Dataset[Any]:
    return served(data, dict.fromkeys(data.resources, content), server)


@pytest.mark.parametrize("case", ARCHIVED, ids=str)
def test_an_archive_of_another_layout(case: Case, server: FileServer, tmp_path: Path) -> None:
    kind = archive_kind(_names(case)[0])
    content = (zip_of if kind == "zip" else tar_of)({"elsewhere/a.txt": b"a"})
    with pytest.raises(FileNotFoundError, match="has no '.*its layout has changed.*It has 'elsewhere/a.txt'"):
        list(_damaged(case.data, content, server)(tmp_path, **case.options))


_SST2 = "SST-2/train.tsv"
_RTE = "RTE/train.tsv"
_COLA = "cola_public/raw/in_domain_train.tsv"
_MNLI = "multinli_1.0/multinli_1.0_train.txt"
_STSB = "stsbenchmark/sts-train.csv"
_YELP = "yelp_review_full_csv/train.csv"
_UDPOS = "en-ud-v2/en-ud-tag.v2.train.txt"

_DAMAGED_RECORDS = [
    (ps.datasets.SST2, zip_of({_SST2: b"h\th\na\t1\nb\n"}), 2, _SST2, "it has 1 columns, and more are needed"),
    (ps.datasets.SST2, zip_of({_SST2: b"h\th\na\t2\n"}), 1, _SST2, "the label '2' is no number from 0 to 1"),
    (
        ps.datasets.RTE,
        zip_of({_RTE: b"h\n0\ta\tb\tmaybe\n"}),
        1,
        _RTE,
        "the label 'maybe' is none of entailment",
    ),
    (ps.datasets.RTE, zip_of({_RTE: b"h\n0\ta\tb\n"}), 1, _RTE, "it has 3 columns"),
    (ps.datasets.CoLA, zip_of({_COLA: b"h\na\tyes\t\tb\n"}), 1, _COLA, "the label 'yes' is no number"),
    (ps.datasets.MNLI, zip_of({_MNLI: b"h\n-\nneutral\ta\n"}), 2, _MNLI, "it has 2 columns"),
    (ps.datasets.STSB, tar_of({_STSB: b"a\tb\tc\t1\t7.5\td\te\n"}), 1, _STSB, "the score '7.5' is not from 0 to 5"),
    (ps.datasets.STSB, tar_of({_STSB: b"a\tb\tc\tx\t1\td\te\n"}), 1, _STSB, "invalid literal"),
    (ps.datasets.MRPC, b"h\n1\t2\t3\ta\n", 1, "msr_paraphrase_train.txt", "it has 4 columns"),
    (ps.datasets.QQP, b"h\n1\t2\t3\ta\tb\tno\n", 1, "quora_duplicate_questions.tsv", "the label 'no'"),
    (ps.datasets.AG_NEWS, b'"1","a"\n"5","b"\n', 2, "train.csv", "the label '5' is no number from 1 to 4"),
    (ps.datasets.AG_NEWS, b'"1","a"\n\n', 2, "train.csv", "it has 0 columns"),
    (ps.datasets.YelpReviewFull, tar_of({_YELP: b'"0","a"\n'}), 1, _YELP, "the label '0' is no number from 1 to 5"),
    (ps.datasets.UDPOS, zip_of({_UDPOS: b"a\tX\tY\n\nb\tX\n"}), 2, _UDPOS, "the line 'b.*' has 2 columns, not 3"),
    (ps.datasets.CoNLL2000Chunking, gzip.compress(b"a X Y Z\n"), 1, "train.txt", "the line 'a X Y Z' has 4 columns"),
]


@pytest.mark.parametrize(
    ("data", "content", "number", "path", "reason"),
    _DAMAGED_RECORDS,
    ids=[f"{data.title}-{number}" for number, (data, *_) in enumerate(_DAMAGED_RECORDS)],
)
def test_a_record_that_is_none(
    data: Dataset[Any], content: bytes, number: int, path: str, reason: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"^{data.title}, record {number} of '{path}': {reason}"):
        list(_damaged(data, content, server)(tmp_path))


@pytest.mark.parametrize(
    ("content", "number", "reason"),
    [
        ({"version": "1.1"}, 0, "KeyError.'data'"),
        ({"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}, 1, "KeyError.'answers'"),
        ([], 0, "TypeError"),
    ],
)
def test_questions_that_are_laid_out_in_another_way(
    content: Any, number: int, reason: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"SQuAD1: 'train-v1.1.json' .* at question {number} or behind it: {reason}"):
        list(_damaged(ps.datasets.SQuAD1, json.dumps(content).encode(), server)(tmp_path))


def _of_iwslt(inner: bytes) -> bytes:
    return tar_of({"2017-01-trnmted/texts/DeEnItNlRo/DeEnItNlRo/DeEnItNlRo-DeEnItNlRo.tgz": inner})


@pytest.mark.parametrize(
    ("data", "content", "error", "path"),
    [
        (ps.datasets.PennTreebank, b"a\n\xff\n", UnicodeDecodeError, "train"),
        (ps.datasets.AG_NEWS, b'"1","a"\n"2","\xff"\n', UnicodeDecodeError, "train"),
        (
            ps.datasets.WikiText2,
            zip_of({"wikitext-2/wiki.train.tokens": b"\xff"}),
            UnicodeDecodeError,
            "wiki.train.tokens",
        ),
        (ps.datasets.SQuAD2, b'{"data": [', json.JSONDecodeError, "train-v2.0.json"),
        (ps.datasets.IWSLT2017, _of_iwslt(b"no gzip"), tarfile.ReadError, "DeEnItNlRo.tgz"),
    ],
)
def test_a_note_names_the_file_that_cannot_be_read(
    data: Dataset[Any], content: bytes, error: type[Exception], path: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        list(_damaged(data, content, server)(tmp_path))
    assert path in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("data", "content", "missing"),
    [
        (ps.datasets.IMDB, tar_of({"aclImdb/train/neg/0_1.txt": b"bad"}), r"'aclImdb/train/pos/\*.txt'"),
        (ps.datasets.Multi30k, tar_of({"train.de": b"a"}), "'train.en'"),
        (
            ps.datasets.IWSLT2017,
            _of_iwslt(tar_of({"a/train.tags.de-en.de": b"x"})),
            "'train.tags.de-en.en'.*DeEnItNlRo.tgz/a/train.tags.de-en.de",
        ),
    ],
    ids=["IMDB", "Multi30k", "IWSLT2017"],
)
def test_a_part_that_is_missing_is_named(
    data: Dataset[Any], content: bytes, missing: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=f"has no {missing}"):
        list(_damaged(data, content, server)(tmp_path))
