"""Small files in the layouts of the data sets of lines, questions, tagged and translated sentences, and their items."""

from __future__ import annotations

import gzip
import json
from typing import Any

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets import Dataset
from text_tables import Case


def _wikitext(data: Dataset[Any], folder: str) -> Case:
    files = {
        f"{folder}/wiki.train.tokens": " \n = Title = \n \n größte <unk> @-@ word \n".encode(),
        f"{folder}/wiki.valid.tokens": b" \n last line without an end",
        f"{folder}/wiki.test.tokens": b" a \n\n",
    }
    items = {
        "train": [" \n", " = Title = \n", " \n", " größte <unk> @-@ word \n"],
        "valid": [" \n", " last line without an end"],
        "test": [" a \n", "\n"],
    }
    return Case(data, {"archive": zip_of(files)}, items)


_LANGUAGE = [
    _wikitext(ps.datasets.WikiText2, "wikitext-2"),
    _wikitext(ps.datasets.WikiText103, "wikitext-103"),
    Case(
        ps.datasets.PennTreebank,
        {"train": b" aer banknote <unk> \n the N of it \n", "valid": b" consumers \n", "test": b" no it was n't \r\n"},
        {"train": ["aer banknote <unk>", "the N of it"], "valid": ["consumers"], "test": ["no it was n't"]},
    ),
    Case(
        ps.datasets.EnWik9,
        {"archive": zip_of({"enwik9": "<mediawiki>\n  <siteinfo>\n\nÜber \r\ncut".encode()})},
        {"train": ["<mediawiki>", "  <siteinfo>", "", "Über ", "cut"]},
    ),
]


def _questions(*paragraphs: dict[str, Any]) -> bytes:
    return json.dumps({"version": "0", "data": [{"title": "T", "paragraphs": [each]} for each in paragraphs]}).encode()


def _answer(text: str, start: int) -> dict[str, Any]:
    return {"answer_start": start, "text": text}


_DE_EN = {
    "context": "Ü is a letter.",
    "qas": [
        {"question": "What?", "id": "1", "answers": [_answer("Ü", 0), _answer("letter", 7)]},
        {"question": "Which?", "id": "2", "answers": [_answer("a letter", 5)]},
    ],
}
_NONE = {"context": "Nothing.", "qas": [{"question": "Why?", "id": "3", "answers": [], "is_impossible": True}]}
_ASKED = [("Ü is a letter.", "What?", ["Ü", "letter"], [0, 7]), ("Ü is a letter.", "Which?", ["a letter"], [5])]
_UNANSWERED = ("Nothing.", "Why?", [""], [-1])

_QUESTIONS = [
    Case(
        ps.datasets.SQuAD1,
        {"train": _questions(_DE_EN), "dev": _questions(_NONE, _DE_EN)},
        {"train": _ASKED, "dev": [_UNANSWERED, *_ASKED]},
    ),
    Case(
        ps.datasets.SQuAD2,
        {"train": _questions(_DE_EN, _NONE), "dev": _questions(_NONE)},
        {"train": [*_ASKED, _UNANSWERED], "dev": [_UNANSWERED]},
    ),
]

_TAGGING = [
    Case(
        ps.datasets.CoNLL2000Chunking,
        {
            "train": gzip.compress(b"He PRP B-NP\nran VBD B-VP \n\n\nGo VB B-VP\n \n. . O"),
            "test": gzip.compress(b"Rockwell NNP B-NP\r\n\r\n"),
        },
        {
            "train": [
                [["He", "ran"], ["PRP", "VBD"], ["B-NP", "B-VP"]],
                [["Go"], ["VB"], ["B-VP"]],
                [["."], ["."], ["O"]],
            ],
            "test": [[["Rockwell"], ["NNP"], ["B-NP"]]],
        },
    ),
    Case(
        ps.datasets.UDPOS,
        {
            "archive": zip_of(
                {
                    "en-ud-v2/en-ud-tag.v2.dev.txt": b"From\tADP\tIN\n\n",
                    "en-ud-v2/en-ud-tag.v2.test.txt": b"What\tPRON\tWP\n\n",
                    "en-ud-v2/en-ud-tag.v2.train.txt": b"Al\tPROPN\tNNP\n-\tPUNCT\tHYPH\n\n: (\tSYM\tNFP\n\n",
                }
            )
        },
        {
            "train": [[["Al", "-"], ["PROPN", "PUNCT"], ["NNP", "HYPH"]], [[": ("], ["SYM"], ["NFP"]]],
            "valid": [[["From"], ["ADP"], ["IN"]]],
            "test": [[["What"], ["PRON"], ["WP"]]],
        },
    ),
]

_MULTI30K = {
    "train": tar_of({"train.de": "Zwei Männer\n Ein Hund \n".encode(), "train.en": b"Two men\nA dog\r\n"}),
    "valid": tar_of({"val.de": b"Eine Frau\n\n", "val.en": b"A woman\n\n"}),
    "test": tar_of(
        {
            "._test.de": b"\x00\x05\xff",
            "test.de": b"Ein Mann",
            "._test.en": b"\xff",
            "test.en": b"A man",
            "test.fr": b"Un",
        }
    ),
}
_IN_GERMAN = {"train": [("Zwei Männer", "Two men"), (" Ein Hund ", "A dog")], "valid": [("Eine Frau", "A woman")]}
_IN_GERMAN |= {"test": [("Ein Mann", "A man")]}


def _talk(*segments: str) -> bytes:
    inner = "".join(f'<seg id="{number}"> {segment} </seg>\n' for number, segment in enumerate(segments))
    text = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="s" srclang="x">\n<doc docid="1">\n'
    return f"{text}<title>Not read</title>\n{inner}</doc>\n</srcset>\n</mteval>\n".encode()


_IWSLT_FOLDER = "DeEnItNlRo-DeEnItNlRo"
_IWSLT_TALK = "<url>http://a</url>\n<title>T</title>\n"
_IWSLT_INNER = tar_of(
    {
        f"{_IWSLT_FOLDER}/train.tags.de-en.de": f"{_IWSLT_TALK} Vielen Dank. \nÜber &amp; so\n</doc>\n".encode(),
        f"{_IWSLT_FOLDER}/train.tags.de-en.en": f"{_IWSLT_TALK} Thank you.\nOver\n</doc>\n".encode(),
        f"{_IWSLT_FOLDER}/train.tags.en-de.en": b"Thanks.\n",
        f"{_IWSLT_FOLDER}/train.tags.en-de.de": b"Danke.\n",
        f"{_IWSLT_FOLDER}/IWSLT17.TED.dev2010.de-en.de.xml": _talk("Größe", "A &amp; b"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.dev2010.de-en.en.xml": _talk("Size", "A and b"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.tst2010.de-en.de.xml": _talk("Ja"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.tst2010.de-en.en.xml": _talk("Yes"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.dev2010.en-de.en.xml": _talk("One"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.dev2010.en-de.de.xml": _talk("Eins"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.tst2010.en-de.en.xml": _talk("Two"),
        f"{_IWSLT_FOLDER}/IWSLT17.TED.tst2010.en-de.de.xml": _talk("Zwei"),
    }
)
_IWSLT_PLACE = "2017-01-trnmted/texts/DeEnItNlRo/DeEnItNlRo"
_IWSLT = {
    "archive": tar_of(
        {
            f"{_IWSLT_PLACE}/._{_IWSLT_FOLDER}.tgz": b"\x00\x05",
            f"{_IWSLT_PLACE}/{_IWSLT_FOLDER}.tgz": _IWSLT_INNER,
            "2017-01-trnmted/readme": b"not read",
        }
    )
}

_TRANSLATION = [
    Case(ps.datasets.Multi30k, _MULTI30K, _IN_GERMAN),
    Case(
        ps.datasets.Multi30k,
        _MULTI30K,
        {split: [(english, german) for german, english in items] for split, items in _IN_GERMAN.items()},
        {"language_pair": ("en", "de")},
    ),
    Case(
        ps.datasets.IWSLT2017,
        _IWSLT,
        {
            "train": [("Vielen Dank.\n", "Thank you.\n"), ("Über &amp; so\n", "Over\n")],
            "valid": [("Größe\n", "Size\n"), ("A & b\n", "A and b\n")],
            "test": [("Ja\n", "Yes\n")],
        },
    ),
    Case(
        ps.datasets.IWSLT2017,
        _IWSLT,
        {"train": [("Thanks.\n", "Danke.\n")], "valid": [("One\n", "Eins\n")], "test": [("Two\n", "Zwei\n")]},
        {"language_pair": ["en", "de"]},
    ),
]

STREAMS = [*_LANGUAGE, *_QUESTIONS, *_TAGGING, *_TRANSLATION]
