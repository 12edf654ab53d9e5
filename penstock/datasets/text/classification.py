"""Texts in classes: news, reviews, articles and questions."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import numbered, rows_of

LabelledText = tuple[int, str]


def _in_archive(resources: Mapping[str, Files], title: str, split: str, classes: int) -> IterDataPipe[LabelledText]:
    files = resources["archive"]
    folder = files.resource.name.removesuffix(".tar.gz")
    return rows_of(files, f"{folder}/{split}.csv", title, functools.partial(_labelled, classes))


def _labelled(classes: int, row: list[str]) -> LabelledText:
    return numbered(1, classes, row[0]), " ".join(row[1:])


@dataset(**facts("ag_news"))
def AG_NEWS(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    """Headlines and first sentences of news, each with its section.

    Items: `(label, text)`, with label 1 to 4, which is World, Sports, Business and Sci/Tech. The text is the title and
    the description, joined by a space.
    """
    return rows_of(resources[split], resources[split].name, "AG_NEWS", functools.partial(_labelled, 4))


@dataset(**facts("imdb"))
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


@dataset(**facts("yelp_review_polarity"))
def YelpReviewPolarity(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of businesses on Yelp, each with its sentiment.

    Items: `(label, text)`, with label 1 for one or two stars and 2 for three or four. Line ends within a text are the
    two characters `\n`.
    """
    return _in_archive(resources, "YelpReviewPolarity", split, 2)


@dataset(**facts("yelp_review_full"))
def YelpReviewFull(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of businesses on Yelp, each with its stars.

    Items: `(label, text)`, with label 1 to 5. Line ends within a text are the two characters `\n`.
    """
    return _in_archive(resources, "YelpReviewFull", split, 5)


@dataset(**facts("amazon_review_polarity"))
def AmazonReviewPolarity(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of products on Amazon, each with its sentiment.

    Items: `(label, text)`, with label 1 for one or two stars and 2 for four or five. The text is the title and the
    review, joined by a space; line ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "AmazonReviewPolarity", split, 2)


@dataset(**facts("amazon_review_full"))
def AmazonReviewFull(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Reviews of products on Amazon, each with its stars.

    Items: `(label, text)`, with label 1 to 5, the stars. The text is the title and the review, joined by a space; line
    ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "AmazonReviewFull", split, 5)


@dataset(**facts("dbpedia"))
def DBpedia(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    """Abstracts of Wikipedia's articles, each with what kind of thing it is about.

    Items: `(label, text)`, with label 1 to 14. The text is the title and the abstract, joined by a space.
    """
    return _in_archive(resources, "DBpedia", split, 14)


@dataset(**facts("yahoo_answers"))
def YahooAnswers(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Questions and answers on Yahoo, each with its topic.

    Items: `(label, text)`, with label 1 to 10. The text is the title, the question and the best answer, joined by
    spaces; line ends within it are the two characters `\n`.
    """
    return _in_archive(resources, "YahooAnswers", split, 10)


@dataset(**facts("sogou_news"))
def SogouNews(resources: Mapping[str, Files], split: str) -> IterDataPipe[LabelledText]:
    r"""Chinese news in Pinyin, each with its section.

    Items: `(label, text)`, with label 1 to 5. The text is the title and the content, joined by a space; line ends
    within it are the two characters `\n`.
    """
    return _in_archive(resources, "SogouNews", split, 5)
