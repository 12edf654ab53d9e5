"""What a data set is downloaded from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import unquote, urlsplit

_PACKAGE = "package://"
_DIGITS = {"sha256": 64, "md5": 32}
_KINDS = {
    "zip": (".zip",),
    "tar": (".tar",),
    "compressed tar": (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"),
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lzma")


def archive_kind(name: str) -> str | None:
    """Return `"zip"`, `"tar"` or `"compressed tar"` for the name of an archive, None for another file."""
    return next((kind for kind, endings in _KINDS.items() if name.lower().endswith(endings)), None)


def unpacked_name(name: str) -> str:
    """Return the name of an archive or a compressed file without its ending; another name as it is."""
    endings = [ending for kind in (*_KINDS.values(), COMPRESSED) for ending in kind]
    return next((name[: -len(ending)] for ending in endings if name.lower().endswith(ending)), name)


@dataclass(frozen=True)
class Resource:
    """A file of a data set: where it is, and how to know that it is whole.

    `url` may be several: each is tried after those before it. `package://my_package/data/words.zip` is a file of an
    installed package, which is read in place: nothing is written into the root. Without a URL, users put the file into
    the root themselves, and `note` tells them where to get it. `name` is that of the file in the root, by default that
    of the URL. `unpack` unpacks an archive into the root; otherwise it is read in place, which `Files.read` can do for
    zips and plain tars.

    Raises ValueError for a digest that is none, and for a URL without a file name where no `name` is given.

    >>> Resource("https://example.org/data/words.zip", size=1234).name
    'words.zip'
    """

    url: str | os.PathLike[str] | Sequence[str] = field(default=(), repr=False)
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    """Its bytes, if known."""
    name: str = ""
    unpack: bool = False
    note: str = ""
    """The source of its facts, or that they could not be confirmed."""

    def __post_init__(self) -> None:
        for kind, digits in _DIGITS.items():
            digest = getattr(self, kind)
            if digest is not None and not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", digest):
                raise ValueError(f"{kind} must have {digits} hexadecimal digits, and is {digest!r:.100}")
        name = self.name or (unquote(urlsplit(self.urls[0]).path).rpartition("/")[2] if self.urls else "")
        if not name or name != re.split(r"[/\\]", name)[-1] or name.startswith("."):
            raise ValueError(f"give name=, the file's name in the root: {name!r} is none")
        if self.unpack and archive_kind(name) is None and not name.lower().endswith(COMPRESSED):
            raise ValueError(f"{name} is no archive, and not compressed: leave out unpack")
        if self.unpack and self.is_installed:
            raise ValueError(f"{name} is part of a package, and is read in place: leave out unpack")
        object.__setattr__(self, "name", name)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where to get it, in the order of trying."""
        return (os.fspath(self.url),) if isinstance(self.url, (str, os.PathLike)) else tuple(map(os.fspath, self.url))

    @property
    def is_installed(self) -> bool:
        """Whether it is part of an installed package."""
        return bool(self.urls) and self.urls[0].startswith(_PACKAGE)

    @property
    def installed(self) -> str | None:
        """The path of a file that is part of an installed package; None for another."""
        if not self.is_installed:
            return None
        package, _, path = self.urls[0].removeprefix(_PACKAGE).partition("/")
        return str(files(package).joinpath(path))

    @property
    def digest(self) -> tuple[str, str] | None:
        """The kind of its digest and the digest, the stronger one of two; None where none is known."""
        return next(((kind, value.lower()) for kind in _DIGITS if (value := getattr(self, kind))), None)

    def __str__(self) -> str:
        facts: list[Any] = [f"{self.size:,} bytes"] if self.size is not None else []
        if self.is_installed:
            return f"{self.name} (installed with {self.urls[0].removeprefix(_PACKAGE).partition('/')[0]})"
        facts.append(f"{self.digest[0]} {self.digest[1][:8]}…" if self.digest else "no digest known")
        return f"{self.name} ({', '.join(facts)})"
