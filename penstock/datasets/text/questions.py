"""Questions on paragraphs of Wikipedia: SQuAD."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import text_of

Question = tuple[str, str, list[str], list[int]]


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


@dataset(**facts("squad1"))
def SQuAD1(resources: Mapping[str, Files], split: str) -> IterDataPipe[Question]:
    """Questions on paragraphs of Wikipedia, each with the answers in the paragraph.

    Items: `(paragraph, question, answers, starts)`. The answers are a list of texts, and the starts the list of their
    places in the paragraph, in characters.
    """
    return _questions_in(resources[split], "SQuAD1")


@dataset(**facts("squad2"))
def SQuAD2(resources: Mapping[str, Files], split: str) -> IterDataPipe[Question]:
    """Questions on paragraphs of Wikipedia, some of which the paragraph does not answer.

    Items: `(paragraph, question, answers, starts)`. The answers are a list of texts, and the starts the list of their
    places in the paragraph, in characters. A question without an answer has the answers `[""]` and the starts `[-1]`.
    """
    return _questions_in(resources[split], "SQuAD2")
