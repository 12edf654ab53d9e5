"""MovieLens: ratings of films, in three sizes."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import Converters, record_of, rows_of, samples_of

Record = dict[str, Any]


def _genres(text: str) -> list[str]:
    return [] if text == "(no genres listed)" else text.split("|")


_RATINGS: Converters = {"userId": int, "movieId": int, "rating": float, "timestamp": int}
_MOVIES: Converters = {"movieId": int, "title": str, "genres": _genres}
_USERS: Converters = {"userId": int, "gender": str, "age": int, "occupation": int, "zipCode": str}

_GENRES = [
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
]
_MOVIES_OF_100K: Converters = {
    "movieId": int,
    **dict.fromkeys(("title", "releaseDate", "videoReleaseDate", "imdbUrl"), str),
    **dict.fromkeys(_GENRES, int),
}
_USERS_OF_100K: Converters = {"userId": int, "age": int, "gender": str, "occupation": str, "zipCode": str}


@dataset(**facts("movielens_100k"))
def MovieLens100K(resources: Mapping[str, Files], split: str) -> IterDataPipe[Record]:
    """100,000 ratings of 1,682 films by 943 users.

    The splits are the tables: "ratings", "movies" and "users", and the divisions of the ratings that come with them:
    "u1.base" and "u1.test" to "u5", and "ua" and "ub", whose test parts have ten ratings of each user.

    Items are dicts. Ratings: `userId`, `movieId`, `rating` (a float, from 1 to 5) and `timestamp` (seconds since 1970).
    Movies: `movieId`, `title`, `releaseDate`, `videoReleaseDate`, `imdbUrl` and `genres`, a list. Users: `userId`,
    `age`, `gender`, `occupation` and `zipCode`.
    """
    file = {"ratings": "u.data", "movies": "u.item", "users": "u.user"}.get(split, split)
    layout: dict[str, Any] = {"delimiter": "|" if split in ("movies", "users") else "\t", "quoting": csv.QUOTE_NONE}
    rows = resources["archive"].open(f"ml-100k/{file}").parse_csv(encoding="iso-8859-1", return_path=True, **layout)
    columns = _USERS_OF_100K if split == "users" else _RATINGS
    make = _movie_of_100k if split == "movies" else functools.partial(record_of, columns)
    return samples_of(rows, "MovieLens100K", make)


def _movie_of_100k(row: list[str]) -> Record:
    """Return a film with a list of genres in place of a field for each."""
    movie = record_of(_MOVIES_OF_100K, row)
    genres = [genre for genre in _GENRES if movie.pop(genre)]
    return {**movie, "genres": genres}


@dataset(**facts("movielens_1m"))
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


@dataset(**facts("movielens_25m"))
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
