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
from ..facts import entry, facts
from ..files import Files
from ..records import lines_of

Translated = tuple[str, str]


def _checked(title: str, language_pair: Sequence[str], languages: Sequence[str]) -> Translated:
    """Return two different languages of a data set; raise ValueError for others."""
    known = ", ".join(map(repr, languages))
    if isinstance(language_pair, (tuple, list)) and len(language_pair) == 2:
        first, second = language_pair
        if first in languages and second in languages and first != second:
            return first, second
    raise ValueError(f"language_pair of {title} must be two different ones of {known}, and is {language_pair!r:.100}")


@dataset(**facts("multi30k"))
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
    pair = "-".join(sorted(_checked("IWSLT2017", language_pair, _OF_IWSLT)))
    count: int = entry("iwslt2017")["counts"]["language_pair"][pair][split]
    return count


@dataset(**facts("iwslt2017") | {"count": _count})
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
