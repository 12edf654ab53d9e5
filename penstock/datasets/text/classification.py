"""Texts in classes: news, reviews, articles and questions."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .records import numbered, rows_of

__all__ = [
    "AG_NEWS",
    "IMDB",
    "AmazonReviewFull",
    "AmazonReviewPolarity",
    "DBpedia",
    "SogouNews",
    "YahooAnswers",
    "YelpReviewFull",
    "YelpReviewPolarity",
]

_ZHANG = "Zhang, Zhao, LeCun, Character-level Convolutional Networks for Text Classification, NIPS 2015"
_SENTIMENTS = ("negative", "positive")

LabelledText = tuple[int, str]


def _archive(drive_id: str, name: str, md5: str) -> dict[str, Resource]:
    """Return the resource of an archive of Zhang, Zhao and LeCun on Google Drive."""
    url = f"https://drive.google.com/uc?export=download&id={drive_id}"
    note = "torchtext 0.18; size and sha256 could not be confirmed"
    return {"archive": Resource(url, md5=md5, name=f"{name}.tar.gz", note=note)}


def _in_archive(resources: Mapping[str, Files], title: str, split: str, classes: int) -> IterDataPipe[LabelledText]:
    files = resources["archive"]
    folder = files.resource.name.removesuffix(".tar.gz")
    return rows_of(files, f"{folder}/{split}.csv", title, functools.partial(_labelled, classes))


def _labelled(classes: int, row: list[str]) -> LabelledText:
    return numbered(1, classes, row[0]), " ".join(row[1:])


def _news(split: str, **facts: Any) -> Resource:
    url = f"https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{split}.csv"
    return Resource(url, note="torchtext 0.18; size and sha256 from Hugging Face's card", **facts)


@dataset(
    "ag_news",
    splits={"train": 120_000, "test": 7_600},
    categories=("World", "Sports", "Business", "Sci/Tech"),
    resources={
        "train": _news(
            "train",
            sha256="76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
            md5="b1a00f826fdfbd249f79597b59e1dc12",
            size=29_470_338,
        ),
        "test": _news(
            "test",
            sha256="521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
            md5="d52ea96a97a2d943681189a97654912d",
            size=1_857_427,
        ),
    },
    licence="research and other non-commercial use, in the words of its home page",
    home_page="http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
    citation=_ZHANG,
)
def AG_NEWS(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    """Headlines and first sentences of news, each with its section.

    Items: `(label, text)`, with label 1 to 4, which is World, Sports, Business and Sci/Tech. The text is the title and
    the description, joined by a space.
    """
    return rows_of(resources[split], resources[split].name, "AG_NEWS", functools.partial(_labelled, 4))


@dataset(
    "imdb",
    splits={"train": 25_000, "test": 25_000},
    categories=("neg", "pos"),
    resources={
        "archive": Resource(
            "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
            md5="7c2ac02c03563afcf9b574c7e56c153a",
            size=84_125_825,
            note="torchtext 0.18; size and sha256 from tensorflow-datasets 4.9.7",
        )
    },
    home_page="http://ai.stanford.edu/~amaas/data/sentiment/",
    citation="Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011",
)
def IMDB(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    """Reviews of films, each with its sentiment.

    Items: `(label, text)`, with label 1 for negative and 2 for positive, in the order of the archive, in which those of
    a label lie together. The texts have marks of HTML, such as `<br />`. Reviews without a label are left out.
    """
    files = resources["archive"].open(*(f"aclImdb/{split}/{label}/*.txt" for label in ("neg", "pos")))
    return files.readlines(decode=True).filter(_has_text).map(_review)


def _has_text(line: tuple[str, str]) -> bool:
    return bool(line[1])


def _review(line: tuple[str, str]) -> LabelledText:
    path, text = line
    return {"neg": 1, "pos": 2}[posixpath.basename(posixpath.dirname(path))], text


@dataset(
    "yelp_review_polarity",
    splits={"train": 560_000, "test": 38_000},
    categories=_SENTIMENTS,
    resources=_archive("0Bz8a_Dbh9QhbNUpYQ2N3SGlFaDg", "yelp_review_polarity_csv", "620c8ae4bd5a150b730f1ba9a7c6a4d3"),
    home_page="https://arxiv.org/abs/1509.01626",
    citation=_ZHANG,
)
def YelpReviewPolarity(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of businesses on Yelp, each with its sentiment.

    Items: `(label, text)`, with label 1 for one or two stars and 2 for three or four. Line ends within a text are the
    two characters `\n`.
    """
    return _in_archive(resources, "YelpReviewPolarity", split, 2)


@dataset(
    "yelp_review_full",
    splits={"train": 650_000, "test": 50_000},
    categories=("1 star", "2 star", "3 stars", "4 stars", "5 stars"),
    resources=_archive("0Bz8a_Dbh9QhbZlU4dXhHTFhZQU0", "yelp_review_full_csv", "f7ddfafed1033f68ec72b9267863af6c"),
    licence="Yelp dataset agreement",
    home_page="https://www.yelp.com/dataset",
    citation=_ZHANG,
)
def YelpReviewFull(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of businesses on Yelp, each with its stars.

    Items: `(label, text)`, with label 1 to 5. Line ends within a text are the two characters `\n`.
    """
    return _in_archive(resources, "YelpReviewFull", split, 5)


@dataset(
    "amazon_review_polarity",
    splits={"train": 3_600_000, "test": 400_000},
    categories=_SENTIMENTS,
    resources=_archive(
        "0Bz8a_Dbh9QhbaW12WVVZS2drcnM", "amazon_review_polarity_csv", "fe39f8b653cada45afd5792e0f0e8f9b"
    ),
    home_page="https://arxiv.org/abs/1509.01626",
    citation=f"{_ZHANG}; McAuley, Leskovec, Hidden Factors and Hidden Topics, RecSys 2013",
)
def AmazonReviewPolarity(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of products on Amazon, each with its sentiment.

    Items: `(label, text)`, with label 1 for one or two stars and 2 for four or five. The text is the title and the
    review, joined by a space; line ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "AmazonReviewPolarity", split, 2)


@dataset(
    "amazon_review_full",
    splits={"train": 3_000_000, "test": 650_000},
    resources=_archive("0Bz8a_Dbh9QhbZVhsUnRWRDhETzA", "amazon_review_full_csv", "57d28bd5d930e772930baddf36641c7c"),
    home_page="https://arxiv.org/abs/1509.01626",
    citation=f"{_ZHANG}; McAuley, Leskovec, Hidden Factors and Hidden Topics, RecSys 2013",
)
def AmazonReviewFull(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of products on Amazon, each with its stars.

    Items: `(label, text)`, with label 1 to 5, the stars. The text is the title and the review, joined by a space; line
    ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "AmazonReviewFull", split, 5)


@dataset(
    "dbpedia",
    splits={"train": 560_000, "test": 70_000},
    categories=(
        "Company",
        "EducationalInstitution",
        "Artist",
        "Athlete",
        "OfficeHolder",
        "MeanOfTransportation",
        "Building",
        "NaturalPlace",
        "Village",
        "Animal",
        "Plant",
        "Album",
        "Film",
        "WrittenWork",
    ),
    resources=_archive("0Bz8a_Dbh9QhbQ2Vic1kxMmZZQ1k", "dbpedia_csv", "dca7b1ae12b1091090db52aa7ec5ca64"),
    licence="CC BY-SA 3.0 and GFDL",
    home_page="https://wiki.dbpedia.org/develop/datasets",
    citation=_ZHANG,
)
def DBpedia(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    """Abstracts of Wikipedia's articles, each with what kind of thing it is about.

    Items: `(label, text)`, with label 1 to 14. The text is the title and the abstract, joined by a space.
    """
    return _in_archive(resources, "DBpedia", split, 14)


@dataset(
    "yahoo_answers",
    splits={"train": 1_400_000, "test": 60_000},
    categories=(
        "Society & Culture",
        "Science & Mathematics",
        "Health",
        "Education & Reference",
        "Computers & Internet",
        "Sports",
        "Business & Finance",
        "Entertainment & Music",
        "Family & Relationships",
        "Politics & Government",
    ),
    resources=_archive("0Bz8a_Dbh9Qhbd2JNdDBsQUdocVU", "yahoo_answers_csv", "f3f9899b997a42beb24157e62e3eea8d"),
    home_page="https://arxiv.org/abs/1509.01626",
    citation=_ZHANG,
)
def YahooAnswers(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Questions and answers on Yahoo, each with its topic.

    Items: `(label, text)`, with label 1 to 10. The text is the title, the question and the best answer, joined by
    spaces; line ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "YahooAnswers", split, 10)


@dataset(
    "sogou_news",
    splits={"train": 450_000, "test": 60_000},
    categories=("sports", "finance", "entertainment", "automobile", "technology"),
    resources=_archive("0Bz8a_Dbh9QhbUkVqNEszd0pHaFE", "sogou_news_csv", "0c1700ba70b73f964dd8de569d3fd03e"),
    home_page="https://arxiv.org/abs/1509.01626",
    citation=_ZHANG,
)
def SogouNews(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Chinese news in Pinyin, each with its section.

    Items: `(label, text)`, with label 1 to 5. The text is the title and the content, joined by a space; line ends
    within it are the two characters `\n`.
    """
    return _in_archive(resources, "SogouNews", split, 5)
