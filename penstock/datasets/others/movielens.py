"""MovieLens: ratings of films, in three sizes."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..records import Converters, record_of, rows_of, samples_of
from ..resource import Resource

__all__ = ["MovieLens1M", "MovieLens25M", "MovieLens100K"]

Record = dict[str, Any]

_SERVER = "https://files.grouplens.org/datasets/movielens"
_NOTE = "digests and sizes: GroupLens's .md5 files, as public repositories repeat them, and tensorflow-datasets 4.9.7"
_FACTS: dict[str, str] = {
    "licence": "GroupLens's terms: for research, with acknowledgement; neither redistribution nor commercial use "
    "without permission",
    "citation": "F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM Transactions on "
    "Interactive Intelligent Systems 5(4), 2015, doi:10.1145/2827872",
}


def _genres(text: str) -> list[str]:
    return [] if text == "(no genres listed)" else text.split("|")


_RATINGS: Converters = {"userId": int, "movieId": int, "rating": float, "timestamp": int}
_MOVIES: Converters = {"movieId": int, "title": str, "genres": _genres}
_USERS: Converters = {"userId": int, "gender": str, "age": int, "occupation": int, "zipCode": str}

_GENRES = [
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
]
_FOLDS = [f"u{fold}" for fold in (1, 2, 3, 4, 5, "a", "b")]
_FILES_OF_100K: Mapping[str, tuple[str, Converters]] = {
    "ratings": ("u.data", _RATINGS),
    "movies": (
        "u.item",
        {"movieId": int, "title": str, "releaseDate": str, "videoReleaseDate": str, "imdbUrl": str}
        | dict.fromkeys(_GENRES, int),
    ),
    "users": ("u.user", {"userId": int, "age": int, "gender": str, "occupation": str, "zipCode": str}),
    **{f"{fold}.{part}": (f"{fold}.{part}", _RATINGS) for fold in _FOLDS for part in ("base", "test")},
}
_COUNTS_OF_FOLDS = {
    f"{fold}.{part}": count
    for fold in _FOLDS
    for part, count in zip(("base", "test"), (90_570, 9_430) if fold in ("ua", "ub") else (80_000, 20_000), strict=True)
}


@dataset(
    "movielens_100k",
    splits={"ratings": 100_000, "movies": 1_682, "users": 943, **_COUNTS_OF_FOLDS},
    resources={
        "archive": Resource(
            f"{_SERVER}/ml-100k.zip",
            sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            md5="0e33842e24a9c977be4e0107933c0723",
            size=4_924_029,
            note=_NOTE,
        )
    },
    home_page="https://grouplens.org/datasets/movielens/100k/",
    **_FACTS,
)
def MovieLens100K(resources: Mapping[str, Files], split: str) -> IterDataPipe[Record]:
    """100,000 ratings of 1,682 films by 943 users.

    The splits are the tables: "ratings", "movies" and "users", and the divisions of the ratings that come with them:
    "u1.base" and "u1.test" to "u5", and "ua" and "ub", whose test parts have ten ratings of each user.

    Items are dicts. Ratings: `userId`, `movieId`, `rating` (a float, from 1 to 5) and `timestamp` (seconds since 1970).
    Movies: `movieId`, `title`, `releaseDate`, `videoReleaseDate`, `imdbUrl` and `genres`, a list. Users: `userId`,
    `age`, `gender`, `occupation` and `zipCode`.
    """
    file, columns = _FILES_OF_100K[split]
    rows = (
        resources["archive"]
        .open(f"ml-100k/{file}")
        .parse_csv(
            delimiter="|" if split in ("movies", "users") else "\t",
            quoting=csv.QUOTE_NONE,
            encoding="iso-8859-1",
            return_path=True,
        )
    )
    make = _movie_of_100k if split == "movies" else functools.partial(record_of, columns)
    return samples_of(rows, "MovieLens100K", make)


def _movie_of_100k(row: list[str]) -> Record:
    """Return a film with a list of genres in place of a field for each."""
    movie = record_of(_FILES_OF_100K["movies"][1], row)
    genres = [genre for genre in _GENRES if movie.pop(genre)]
    return {**movie, "genres": genres}


@dataset(
    "movielens_1m",
    splits={"ratings": 1_000_209, "movies": None, "users": 6_040},
    resources={
        "archive": Resource(
            f"{_SERVER}/ml-1m.zip",
            sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            md5="c4d9eecfca2ab87c1945afe126590906",
            size=5_917_549,
            note=f"{_NOTE}; the number of movies could not be confirmed",
        )
    },
    home_page="https://grouplens.org/datasets/movielens/1m/",
    **_FACTS,
)
def MovieLens1M(resources: Mapping[str, Files], split: str) -> IterDataPipe[Record]:
    """1,000,209 ratings of about 3,900 films by 6,040 users.

    The splits are the tables: "ratings", "movies" and "users".

    Items are dicts. Ratings: `userId`, `movieId`, `rating` (a float, from 1 to 5) and `timestamp` (seconds since 1970).
    Movies: `movieId`, `title` and `genres`, a list. Users: `userId`, `gender`, `age` (the least of seven ranges: 1 for
    under 18, 18, 25, 35, 45, 50, 56), `occupation`, a number that the archive's README explains, and `zipCode`.
    """
    columns = {"ratings": _RATINGS, "movies": _MOVIES, "users": _USERS}[split]
    lines = resources["archive"].open(f"ml-1m/{split}.dat").readlines(decode=True, encoding="iso-8859-1")
    rows = lines.map(functools.partial(str.split, sep="::"), input_col=1)
    return samples_of(rows, "MovieLens1M", functools.partial(record_of, columns))


_COLUMNS_OF_25M: Mapping[str, Converters] = {
    "ratings": _RATINGS,
    "movies": _MOVIES,
    "tags": {"userId": int, "movieId": int, "tag": str, "timestamp": int},
    "links": {"movieId": int, "imdbId": str, "tmdbId": str},
    "genome-scores": {"movieId": int, "tagId": int, "relevance": float},
    "genome-tags": {"tagId": int, "tag": str},
}


@dataset(
    "movielens_25m",
    splits={
        **dict.fromkeys(_COLUMNS_OF_25M),
        "ratings": 25_000_095,
        "movies": 62_423,
        "tags": 1_093_360,
    },
    resources={
        "archive": Resource(
            f"{_SERVER}/ml-25m.zip",
            sha256="8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa",
            md5="6b51fb2759a8657d3bfcbfc42b592ada",
            size=261_978_986,
            note=f"{_NOTE}; the numbers of links, and of scores and tags of the genome, could not be confirmed",
        )
    },
    home_page="https://grouplens.org/datasets/movielens/25m/",
    **_FACTS,
)
def MovieLens25M(resources: Mapping[str, Files], split: str) -> IterDataPipe[Record]:
    """25,000,095 ratings of 62,423 films by 162,541 users, and their tags.

    The splits are the tables: "ratings", "movies", "tags", "links", "genome-scores" and "genome-tags".

    Items are dicts. Ratings: `userId`, `movieId`, `rating` (a float, from 0.5 to 5) and `timestamp` (seconds since
    1970). Movies: `movieId`, `title` and `genres`, a list. Tags: `userId`, `movieId`, `tag` and `timestamp`. Links:
    `movieId`, and `imdbId` and `tmdbId`, which are text and may be empty. Genome: `movieId`, `tagId` and `relevance`;
    `tagId` and `tag`.
    """
    make = functools.partial(record_of, _COLUMNS_OF_25M[split])
    return rows_of(resources["archive"], f"ml-25m/{split}.csv", "MovieLens25M", make, skip_lines=1)
