"""Questions on paragraphs of Wikipedia: SQuAD."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .records import text_of

__all__ = ["SQuAD1", "SQuAD2"]

Question = tuple[str, str, list[str], list[int]]

_OF_BOTH: dict[str, Any] = {"licence": "CC BY-SA 4.0", "home_page": "https://rajpurkar.github.io/SQuAD-explorer/"}


def _file(name: str, **facts: Any) -> Resource:
    url = f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{name}"
    return Resource(url, note="torchtext 0.18; size and sha256 from tensorflow-datasets 4.9.7", **facts)


def _questions_in(files: Files, title: str) -> IterDataPipe[Question]:
    return text_of(files, files.name).parse_json_files().flatmap(functools.partial(_questions, title))


def _questions(title: str, document: tuple[str, Any]) -> Iterator[Question]:
    path, content = document
    number = 0
    try:
        for paragraph in (each for article in content["data"] for each in article["paragraphs"]):
            for question in paragraph["qas"]:
                number += 1
                yield paragraph["context"], question["question"], *_answers(question["answers"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{title}: {path!r} is laid out in another way, at question {number} or behind it: {error!r}"
        ) from error


def _answers(answers: list[dict[str, Any]]) -> tuple[list[str], list[int]]:
    """Return the texts of the answers and where they begin; a question without one has an empty answer at -1."""
    if not answers:
        return [""], [-1]
    return [answer["text"] for answer in answers], [answer["answer_start"] for answer in answers]


@dataset(
    "squad1",
    splits={"train": 87_599, "dev": 10_570},
    resources={
        "train": _file(
            "train-v1.1.json",
            sha256="3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
            md5="981b29407e0affa3b1b156f72073b945",
            size=30_288_272,
        ),
        "dev": _file(
            "dev-v1.1.json",
            sha256="95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
            md5="3e85deb501d4e538b6bc56f786231552",
            size=4_854_279,
        ),
    },
    citation="Rajpurkar, Zhang, Lopyrev, Liang, SQuAD: 100,000+ Questions for Machine Comprehension of Text, "
    "EMNLP 2016",
    **_OF_BOTH,
)
def SQuAD1(resources: Mapping[str, Files], split: str) -> IterDataPipe[Question]:
    """Questions on paragraphs of Wikipedia, each with the answers in the paragraph.

    Items: `(paragraph, question, answers, starts)`. The answers are a list of texts, and the starts the list of their
    places in the paragraph, in characters.
    """
    return _questions_in(resources[split], "SQuAD1")


@dataset(
    "squad2",
    splits={"train": 130_319, "dev": 11_873},
    resources={
        "train": _file(
            "train-v2.0.json",
            sha256="68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
            md5="62108c273c268d70893182d5cf8df740",
            size=42_123_633,
        ),
        "dev": _file(
            "dev-v2.0.json",
            sha256="80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
            md5="246adae8b7002f8679c027697b0b7cf8",
            size=4_370_528,
        ),
    },
    citation="Rajpurkar, Jia, Liang, Know What You Don't Know: Unanswerable Questions for SQuAD, ACL 2018",
    **_OF_BOTH,
)
def SQuAD2(resources: Mapping[str, Files], split: str) -> IterDataPipe[Question]:
    """Questions on paragraphs of Wikipedia, some of which the paragraph does not answer.

    Items: `(paragraph, question, answers, starts)`. The answers are a list of texts, and the starts the list of their
    places in the paragraph, in characters. A question without an answer has the answers `[""]` and the starts `[-1]`.
    """
    return _questions_in(resources[split], "SQuAD2")
