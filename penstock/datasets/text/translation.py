"""Sentences in two languages: Multi30k and IWSLT 2017."""

from __future__ import annotations

import functools
import posixpath
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .records import lines_of

__all__ = ["IWSLT2017", "Multi30k"]

Translated = tuple[str, str]


def _checked(title: str, language_pair: Sequence[str], languages: Sequence[str]) -> Translated:
    """Return two different languages of a data set; raise ValueError for others."""
    known = ", ".join(map(repr, languages))
    if isinstance(language_pair, (tuple, list)) and len(language_pair) == 2:
        first, second = language_pair
        if first in languages and second in languages and first != second:
            return first, second
    raise ValueError(f"language_pair of {title} must be two different ones of {known}, and is {language_pair!r:.100}")


def _of_multi30k(name: str, sha256: str, mirrors: Sequence[str] = ()) -> Resource:
    url = f"https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/{name}"
    note = "torchtext 0.18; its size could not be confirmed"
    return Resource([url, *(f"{mirror}/{name}" for mirror in mirrors)], sha256=sha256, note=note)


_SHEFFIELD = ["http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt"]


@dataset(
    "multi30k",
    splits={"train": 29_000, "valid": 1_014, "test": 1_000},
    resources={
        "train": _of_multi30k(
            "training.tar.gz", "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e", _SHEFFIELD
        ),
        "valid": _of_multi30k(
            "validation.tar.gz", "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c", _SHEFFIELD
        ),
        "test": _of_multi30k(  # Sheffield's is another file
            "mmt16_task1_test.tar.gz", "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36"
        ),
    },
    home_page="https://www.statmt.org/wmt16/multimodal-task.html#task1",
    citation="Elliott, Frank, Sima'an, Specia, Multi30K: Multilingual English-German Image Descriptions, 2016 "
    "(arXiv:1605.00459)",
)
def Multi30k(
    resources: Mapping[str, Files], split: str, *, language_pair: Sequence[str] = ("de", "en")
) -> IterDataPipe[Translated]:
    """Descriptions of pictures in German and English.

    Items: `(sentence, its translation)`. `language_pair` says from which language to which: `("de", "en")` or
    `("en", "de")`. Line ends are removed, other white space stays. Lines that are empty in both are left out.
    """
    name = {"train": "train", "valid": "val", "test": "test"}[split]
    source, target = _checked("Multi30k", language_pair, ("de", "en"))
    lines = [lines_of(resources[split], f"{name}.{language}") for language in (source, target)]
    return lines[0].zip(lines[1]).filter(any)


_OF_IWSLT = ("de", "en", "it", "nl", "ro")
_TRAIN = {
    "de-en": 206_112,
    "de-it": 205_465,
    "de-nl": 213_628,
    "de-ro": 201_455,
    "en-it": 231_619,
    "en-nl": 237_240,
    "en-ro": 220_538,
    "it-nl": 233_415,
    "it-ro": 217_551,
    "nl-ro": 206_920,
}
_DEV2010 = {
    "de-en": 888,
    "de-it": 923,
    "de-nl": 1_001,
    "de-ro": 912,
    "en-it": 929,
    "en-nl": 1_003,
    "en-ro": 914,
    "it-nl": 1_001,
    "it-ro": 914,
    "nl-ro": 913,
}
_TST2010 = {
    "de-en": 1_568,
    "de-it": 1_567,
    "de-nl": 1_779,
    "de-ro": 1_677,
    "en-it": 1_566,
    "en-nl": 1_777,
    "en-ro": 1_678,
    "it-nl": 1_669,
    "it-ro": 1_643,
    "nl-ro": 1_680,
}
_MARKS = (
    "<url",
    "<keywords",
    "<talkid",
    "<description",
    "<reviewer",
    "<translator",
    "<title",
    "<speaker",
    "<doc",
    "</doc",
)
"""What is on lines of the training part that are no sentences."""


def _count(split: str, *, language_pair: Sequence[str]) -> int:
    counts = {"train": _TRAIN, "valid": _DEV2010, "test": _TST2010}[split]
    return counts["-".join(sorted(_checked("IWSLT2017", language_pair, _OF_IWSLT)))]


@dataset(
    "iwslt2017",
    splits={"train": None, "valid": None, "test": None},
    count=_count,
    resources={
        "archive": Resource(
            [
                "https://fbk.sharepoint.com/sites/MTUnit/_layouts/15/download.aspx?SourceUrl=%2Fsites%2FMTUnit"
                "%2FShared%20Documents%2Fwebsites%2FWIT3%2Dlibrary%2F2017%2D01%2Dtrnmted%2Etgz",
                "https://drive.google.com/u/0/uc?id=12ycYSzLIG253AFN35Y6qoyf9wtkOjakp",
            ],
            md5="aca701032b1c4411afc4d9fa367796ba",
            name="2017-01-trnmted.tgz",
            note="torchtext 0.18; size and sha256 could not be confirmed",
        )
    },
    home_page="https://wit3.fbk.eu/2017-01",
    citation="Cettolo, Girardi, Federico, WIT3: Web Inventory of Transcribed and Translated Talks, EAMT 2012",
)
def IWSLT2017(
    resources: Mapping[str, Files], split: str, *, language_pair: Sequence[str] = ("de", "en")
) -> IterDataPipe[Translated]:
    r"""Sentences of TED talks in two of five languages.

    Items: `(sentence, its translation)`, each with `\n` at its end. `language_pair` says from which language to which:
    two of `de`, `en`, `it`, `nl` and `ro`. The valid split is dev2010, the test split tst2010.
    """
    source, target = _checked("IWSLT2017", language_pair, _OF_IWSLT)
    name = {"train": "train.tags.{}", "valid": "IWSLT17.TED.dev2010.{}", "test": "IWSLT17.TED.tst2010.{}"}[split]
    archive = resources["archive"]
    sides = [
        archive.open("*/DeEnItNlRo-DeEnItNlRo.tgz").flatmap(
            functools.partial(_segments, archive, f"{name.format(f'{source}-{target}')}.{language}")
        )
        for language in (source, target)
    ]
    return sides[0].zip(sides[1])


def _segments(archive: Files, name: str, inner: tuple[str, IO[bytes]]) -> Iterator[str]:
    """Yield the sentences of a file in the archive within the archive."""
    path, stream = inner
    seen = []
    with stream, tarfile.open(fileobj=stream, mode="r:gz") as tar:
        for member in tar:
            seen.append(f"{path}/{member.name}")
            if posixpath.basename(member.name) in (name, f"{name}.xml") and (file := tar.extractfile(member)):
                with file:
                    yield from _in_xml(file) if member.name.endswith(".xml") else _in_tagged_text(file)
                return
    raise archive.missing([name], seen)


def _in_xml(file: IO[bytes]) -> Iterator[str]:
    for document in ElementTree.parse(file).getroot()[0].iterfind("doc"):
        for segment in document.iterfind("seg"):
            yield f"{(segment.text or '').strip()}\n"


def _in_tagged_text(file: IO[bytes]) -> Iterator[str]:
    for line in file:
        text = line.decode()
        if not any(mark in text for mark in _MARKS):
            yield f"{text.strip()}\n"
