"""Sentences in which each word has tags: CoNLL 2000 and Universal Dependencies."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import samples_of, text_of

_COLUMNS = 3

_Sentence = list[list[str]]


def _sentences(files: Files, path: str, title: str, separator: str) -> IterDataPipe[_Sentence]:
    lines = text_of(files, path).readlines().map(str.strip, input_col=1)
    return samples_of(lines.lines_to_paragraphs(list), title, functools.partial(_columns, separator))


def _columns(separator: str, lines: list[str]) -> _Sentence:
    """Return the words of a sentence and their tags, column by column."""
    rows = [line.split(separator) for line in lines]
    for row in rows:
        if len(row) != _COLUMNS:
            raise ValueError(f"the line {separator.join(row)!r:.100} has {len(row)} columns, not {_COLUMNS}")
    return [list(column) for column in zip(*rows, strict=True)]


@dataset(**facts("conll2000_chunking"))
def CoNLL2000Chunking(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of the Wall Street Journal, with part of speech and chunk of each word.

    Items: `[words, parts of speech, chunks]`, three lists of one length. A chunk begins with a tag such as `B-NP`, goes
    on with `I-NP`, and words outside are `O`.
    """
    files = resources[split]
    return _sentences(files, files.name, "CoNLL2000Chunking", " ")


@dataset(**facts("udpos"))
def UDPOS(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of English web pages and mails, with the part of speech of each word.

    Items: `[words, universal parts of speech, parts of speech of the Penn Treebank]`, three lists of one length.
    """
    name = "dev" if split == "valid" else split
    return _sentences(resources["archive"], f"en-ud-v2/en-ud-tag.v2.{name}.txt", "UDPOS", "\t")
