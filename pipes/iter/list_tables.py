"""List the files of a table format, with the column values in their folder names."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ...errors.secrets import Options, without_secrets
from ...registry import ErrorPolicy, OnError, functional_datapipe
from ...storage.addresses import address_of, is_local_path
from ...storage.errors import in_plain_words
from ...storage.file_systems import is_file, locate, urls_below
from ...storage.listing import files_below, lists_by_name
from ...storage.retrying import trying_again
from ...storage.streaming.streams import checked_path
from ..arrow import pc
from ..bases.listers_and_openers import Lister, Roots, files_in, matches
from ..columns.filters import expression_of, may_be_true
from ..columns.origins import Origin, hive_values, known_values
from ..files.extensions import EXTENSIONS

_LEAST_INT, _MOST_INT = -(2**63), 2**63 - 1


@functional_datapipe("list_table_files")
class TableFileLister(Lister):
    """Yield the path or URL of each file of a format, below folders, in sorted order.

    Take it to shuffle or shard the files yourself; `ps.read_parquet(url)` and its like begin with it. `root` is a path
    or URL of a file, a folder or a pattern (`*`, `?`, `[…]`, `**`), a list of them or an iterable pipe of them. A file
    or folder of the very name comes before a pattern; a key of S3 that begins with a slash is no pattern. `kind` is
    `"parquet"`, `"csv"`, `"json"`, `"ipc"`, `"orc"`, `"images"`, `"videos"`, `"text"` or `"numpy"`. In a folder and its
    subfolders, files with the endings of the kind are listed, in upper or lower case:

    - `"parquet"`: parquet, parq, pq
    - `"csv"`: csv, tsv; `"json"`: json, jsonl, ndjson; each also with gz, bz2, zst or lz4 after it
    - `"ipc"`: arrow, arrows, feather, ipc; `"orc"`: orc
    - `"images"`: png, jpg, jpeg, jpe, jfif, bmp, gif, tif, tiff, webp, pbm, pgm, pnm, ppm
    - `"videos"`: mp4, m4v, mov, mkv, webm, avi, mpg, mpeg, ogv, wmv
    - `"text"`: txt, also with gz, bz2, zst or xz after it; `"numpy"`: npy, npz

    Other files are left out. `stats()` counts them as skipped, and names the last ones: a pattern lists them. Files and
    subfolders whose names begin with `_` or a dot are hidden: these are left out, and not counted. As in a shell, a
    pattern finds a name that begins with a dot by that dot alone.

    With `hive`, folders named `key=value`, above the root too, give their files a column: int64 where all its values
    are whole numbers, else string. `__HIVE_DEFAULT_PARTITION__` is null. For such files an `Origin` is yielded, with
    the `url` and the values; readers take it in place of a path. A file is left out where these values show that none
    of its rows match the `filter`, a `pyarrow.compute.Expression` or text.

    All files are listed before the first is yielded, and again on resuming, which needs the same files.
    `storage_options` are options of the file system. `on_error` handles a root that cannot be listed.

    Raises FileNotFoundError for a root that is missing or has no such file.

    >>> import fsspec
    >>> for year in (2023, 2024):
    ...     fsspec.filesystem("memory").pipe(f"/sales/year={year}/0.parquet", b"")
    >>> dp = IterableWrapper(["memory://sales"]).list_table_files("parquet", filter="year > 2023")
    >>> list(dp)
    [Origin(url='memory://sales/year=2024/0.parquet', partition=(('year', 2024),), types=('int64',))]
    """

    recursive = True
    any_case = True

    def __init__(
        self,
        root: Roots,
        kind: str,
        *,
        hive: bool = True,
        filter: str | pc.Expression | None = None,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        if kind not in EXTENSIONS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, EXTENSIONS))}, and is {kind!r:.100}")
        super().__init__(root, [f"*{ending}" for ending in EXTENSIONS[kind]], on_error)
        if filter is not None:
            expression_of(filter)  # raises for an invalid filter
        self.kind = kind
        self.hive = hive
        self._filter = filter
        self.storage_options = Options(storage_options)

    def __iter__(self) -> Iterator[Any]:
        files_under = self.error_policy.outputs(lambda root: self._files_under(checked_path(root)))
        urls: list[str] = []
        for item in [self.root] if isinstance(self.root, (str, os.PathLike)) else self.root:
            urls += files_under(item)
        if not self.hive:
            yield from urls
            return
        expression = None if self._filter is None else expression_of(self._filter)
        wanted: dict[Any, bool] = {}
        for origin in _files_with_values(urls):
            if not origin.partition:
                yield origin.url
                continue
            if expression is not None and origin[1:] not in wanted:
                wanted[origin[1:]] = may_be_true(expression, known_values(origin))
            if wanted.get(origin[1:], True):
                yield origin

    def _files_under(self, root: str) -> Iterator[str]:
        if is_local_path(root) and not self.storage_options:
            if os.path.isfile(root):
                return iter([root])
            if os.path.isdir(root):
                return self._wanted(root, files_in(root, "", recursive=True))
        urls: Iterator[str] = in_plain_words(root, self._urls_under, root)
        return urls

    def _urls_under(self, root: str) -> Iterator[str]:
        address = address_of(root, self.storage_options)
        file_system, path = locate(address, one_attempt=True)
        wrap: Any = ErrorPolicy(trying_again("raise"), counted_by=self.error_policy).wrap
        # Else a later pass would get cached listings; some file systems ask their server for it.
        wrap(lambda path: in_plain_words(root, file_system.invalidate_cache, path))(path)
        if not root.endswith("/") and wrap(partial(is_file, address, file_system))(path):
            return iter([root])
        # A folder of this very name comes before a pattern, as on a disk.
        may_be_pattern = re.search(r"[*?\[]", path) and lists_by_name(address)
        if may_be_pattern and not wrap(lambda path: in_plain_words(root, file_system.isdir, path))(path):
            found = wrap(lambda path: in_plain_words(root, file_system.glob, path, detail=True))(path)
            # As in a shell, a name that begins with a dot is found by a dot alone.
            hidden = path.count("/.")
            names = [name for name, each in found.items() if each["type"] == "file" and name.count("/.") <= hidden]
            if not names:
                raise FileNotFoundError(errno.ENOENT, "no file matches", root)
            return (url for url in urls_below(address, path, names) if matches(url, ""))
        return self._wanted(root, files_below(root, self.storage_options, self.error_policy))

    def _wanted(self, root: str, urls: Any) -> Iterator[str]:
        """Yield the files of a folder that have an ending of the kind and are not hidden; count the others."""
        found, url = 0, None
        for url in urls:
            below = url.removeprefix(root).replace(os.sep, "/").split("/")
            if any(part.startswith(("_", ".")) for part in below):
                continue
            if matches(url, self.masks, self.any_case):
                found += 1
                yield url
            else:
                self.error_policy.leave_out(f"its extension is not one of {self.kind}: {url!r}")
        if url is None and not (is_local_path(root) and os.path.isdir(root)):
            or_empty = "" if is_local_path(root) else ", or the folder is empty"
            raise FileNotFoundError(errno.ENOENT, f"no such file or folder{or_empty}", without_secrets(root))
        if not found:
            masks = ", ".join(self.masks)
            raise FileNotFoundError(
                f"there is no file {masks} in {without_secrets(root)!r}; give a pattern for files with other names"
            )


def _files_with_values(urls: list[str]) -> Iterator[Origin]:
    """Yield files with the column values in their folder names; the values of all files decide the types."""
    values = [hive_values(url) for url in urls]
    texts: dict[str, list[str]] = {}
    for each in values:
        for name, text in each.items():
            texts.setdefault(name, []).extend([] if text is None else [text])
    whole = {name for name, of_name in texts.items() if of_name and all(map(_is_whole_number, {*of_name}))}
    for url, each in zip(urls, values, strict=True):
        partition = tuple(
            (name, int(text) if name in whole and text is not None else text) for name, text in each.items()
        )
        yield Origin(url, partition, tuple("int64" if name in whole else "string" for name in each))


def _is_whole_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,19}", text, re.ASCII) is not None and _LEAST_INT <= int(text) <= _MOST_INT
