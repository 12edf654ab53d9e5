"""Running text for models of language: WikiText, the Penn Treebank, and a dump of Wikipedia."""

from __future__ import annotations

from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import lines_of


@dataset(**facts("wikitext2"))
def WikiText2(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of good and featured articles of Wikipedia: two million words.

    Items: `line`, with its line end; an empty line is a space and a line end. Words are parted by spaces.
    """
    return lines_of(resources["archive"], f"wikitext-2/wiki.{split}.tokens", strip_newline=False)


@dataset(**facts("wikitext103"))
def WikiText103(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of good and featured articles of Wikipedia: a hundred million words.

    Items: `line`, with its line end; an empty line is a space and a line end. Words are parted by spaces.
    """
    return lines_of(resources["archive"], f"wikitext-103/wiki.{split}.tokens", strip_newline=False)


@dataset(**facts("penn_treebank"))
def PennTreebank(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Sentences of the Wall Street Journal, with ten thousand different words.

    Items: `sentence`, without white space around it. Words are parted by spaces.
    """
    return lines_of(resources[split], resources[split].name).map(str.strip)


@dataset(**facts("enwik9"))
def EnWik9(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of the first 10^9 bytes of a dump of Wikipedia, which is XML.

    Items: `line`, without its line end. The last one is cut.
    """
    return lines_of(resources["archive"], "enwik9")
