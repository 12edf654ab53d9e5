"""The numbered files of a writer: their names, and those that are there already."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from ....errors.secrets import without_secrets
from ....registry import ErrorPolicy
from ....storage.listing import names_beginning
from ....storage.local.atomic import is_part
from ....storage.reading import read_whole
from ...files.extensions import EXTENSIONS

_NAME_IN_FOLDER = "part-{shard:05d}"
_TEMPLATE = re.compile(
    r"(?P<before>(?:[^{}]|\{\{|\}\})*)\{shard(?::0(?P<digits>\d+)d?)?\}(?P<after>(?:[^{}]|\{\{|\}\})*)", re.DOTALL
)
"""A URL with the number of a file, perhaps with leading zeros; doubled braces are braces."""


class NumberedFiles:
    """The files and indexes of a writer, from the URL of a folder, or a template with the number of a file.

    Raises ValueError unless a template has the number of the file once, and one of the `suffixes`.
    """

    def __init__(self, place: str, suffixes: tuple[str, ...], index_prefix: str) -> None:
        self.in_plain_folder = bool(place) and not re.search(r"[{}]", place) and not place.endswith(suffixes)
        if self.in_plain_folder:
            place = f"{place}{'' if place.endswith('/') else '/'}{_NAME_IN_FOLDER}{suffixes[0]}"
        found = _TEMPLATE.fullmatch(place)
        if found is None or not place.endswith(suffixes):
            example = f"'s3://bucket/train-{{shard:06d}}{suffixes[0]}'"
            raise ValueError(
                f"url_template must have the number of a shard once, as {{shard}} or as in {example}, other braces "
                f"doubled, and end in {' or '.join(suffixes)}, or be a folder, as in 's3://bucket/train/', and is "
                f"{without_secrets(place)!r}"
            )
        self._suffixes = suffixes
        self._index_prefix = index_prefix
        self._before, self._after = (found[part].replace("{{", "{").replace("}}", "}") for part in ("before", "after"))
        self._digits = int(found["digits"] or 0)
        self.folder = self._before[: self._before.rfind("/") + 1]

    def url(self, number: int) -> str:
        """Return the URL of a file."""
        return f"{self._before}{number:0{self._digits}}{self._after}"

    def index_url(self, parts: int, part: int, first: int) -> str:
        """Return the URL of the index of one of several parts, whose files count from `first`."""
        return self._index("index" + (f"-{part}-of-{parts}" if parts > 1 else "") + (f"-from-{first}" if first else ""))

    def names(self, options: Mapping[str, Any], counted_by: ErrorPolicy) -> list[str]:
        """Return the names of the files in a plain folder, or else of those that begin as the template does."""
        start = self.folder if self.in_plain_folder else self._before
        return names_beginning(start, options, counted_by, below="/" in self._after)

    def numbers(self, names: Collection[str]) -> list[int]:
        """Return the numbers of those names that this writer could have given."""
        return [number for name in names if (number := self._number(name)) is not None]

    def others(self, names: Collection[str]) -> list[str]:
        """Return the names of a plain folder that readers of the format would take for data too."""
        endings = next((each for each in EXTENSIONS.values() if self._suffixes[0] in each), self._suffixes)
        found = [name for name in names if name.lower().endswith(endings) and self._number(name) is None]
        return [name for name in found if self.in_plain_folder and name[0] not in "._" and not is_part(name)]

    def of_another_format(self, names: Collection[str]) -> list[str]:
        """Return the names of a plain folder that are numbered as this writer's, and end otherwise."""
        if not self.in_plain_folder:
            return []
        numbered = [name for name in names if self._number(name.rpartition(".")[0] + self._suffixes[0]) is not None]
        return [name for name in numbered if not name.endswith(self._suffixes[0])]

    def indexes(self, options: Mapping[str, Any], counted_by: ErrorPolicy) -> list[str]:
        """Return the URLs of the indexes that are there."""
        before, after = self._index("\0").split("\0")
        names = names_beginning(before, options, counted_by, below="/" in after)
        start = before[len(self.folder) :]
        form = re.compile(f"{re.escape(start)}index(-\\d+-of-\\d+)?(-from-\\d+)?{re.escape(after)}")
        return [self.folder + name for name in names if form.fullmatch(name)]

    def listed(self, indexes: Collection[str], options: Mapping[str, Any]) -> list[str]:
        """Return the names of the files that indexes list: those of passes that came to their end."""
        return [name for url in indexes for name in _names_in(url, read_whole(url, options))]

    def _number(self, name: str) -> int | None:
        before = self._before[len(self.folder) :]
        if not (name.startswith(before) and name.endswith(self._after)):
            return None
        text = name[len(before) : len(name) - len(self._after)]
        if not (text.isascii() and text.isdigit()):
            return None
        return int(text) if f"{int(text):0{self._digits}}" == text else None

    def _index(self, label: str) -> str:
        folder, slash, name = f"{self._before}{label}{self._after}".rpartition("/")
        return f"{folder}{slash}{self._index_prefix}{name.rpartition('.')[0]}.json"


def _names_in(url: str, index: bytes) -> list[str]:
    try:
        return [entry["name"] for entry in json.loads(index)["shards"]]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{without_secrets(url)} is not an index of a writer: remove it, or write to another folder"
        ) from error
