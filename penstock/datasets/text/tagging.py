"""Sentences in which each word has tags: CoNLL 2000 and Universal Dependencies."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..records import samples_of, text_of
from ..resource import Resource

__all__ = ["UDPOS", "CoNLL2000Chunking"]

_NOTE = "torchtext 0.18; size and sha256 could not be confirmed"
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


def _of_conll(split: str, md5: str) -> Resource:
    return Resource(f"https://www.clips.uantwerpen.be/conll2000/chunking/{split}.txt.gz", md5=md5, note=_NOTE)


@dataset(
    "conll2000_chunking",
    splits={"train": 8_936, "test": 2_012},
    resources={
        "train": _of_conll("train", "6969c2903a1f19a83569db643e43dcc8"),
        "test": _of_conll("test", "a916e1c2d83eb3004b38fc6fcd628939"),
    },
    home_page="https://www.clips.uantwerpen.be/conll2000/chunking/",
    citation="Tjong Kim Sang, Buchholz, Introduction to the CoNLL-2000 Shared Task: Chunking, CoNLL 2000",
)
def CoNLL2000Chunking(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of the Wall Street Journal, with part of speech and chunk of each word.

    Items: `[words, parts of speech, chunks]`, three lists of one length. A chunk begins with a tag such as `B-NP`, goes
    on with `I-NP`, and words outside are `O`.
    """
    files = resources[split]
    return _sentences(files, files.name, "CoNLL2000Chunking", " ")


@dataset(
    "udpos",
    splits={"train": 12_543, "valid": 2_002, "test": 2_077},
    resources={
        "archive": Resource(
            "https://bitbucket.org/sivareddyg/public/downloads/en-ud-v2.zip",
            md5="bdcac7c52d934656bae1699541424545",
            note=_NOTE,
        )
    },
    licence="CC BY-SA 4.0",
    home_page="https://universaldependencies.org/",
    citation="Silveira et al., A Gold Standard Dependency Corpus for English, LREC 2014",
)
def UDPOS(resources: Mapping[str, Files], split: str) -> IterDataPipe[_Sentence]:
    """Sentences of English web pages and mails, with the part of speech of each word.

    Items: `[words, universal parts of speech, parts of speech of the Penn Treebank]`, three lists of one length.
    """
    name = "dev" if split == "valid" else split
    return _sentences(resources["archive"], f"en-ud-v2/en-ud-tag.v2.{name}.txt", "UDPOS", "\t")
