"""Items that are pairs of a path and a stream."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

from ...registry import close
from ...storage.streaming.decompression_limit import TooLarge


def path_and(what: str, item: object) -> tuple[Any, Any]:
    """Return the parts of a (path, content) pair; raise TypeError for other items."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise TypeError(f"pairs of a path and {what} are needed, and this is of type {type(item).__name__}")
    path, content = item
    return path, content


def path_and_content(item: object, what: str = "a stream") -> tuple[Any, Any]:
    """Return the parts of a (path, content) pair, as of opened files; raise TypeError for other items."""
    try:
        return path_and(what, item)
    except TypeError as error:
        if isinstance(item, (str, os.PathLike)):
            of_tar = ".load_from_tar()" if re.search(r"\.(tar|tgz)(\.\w+)?$", os.fspath(item)) else ""
            expand = ".shard_expand()" if "{" in os.fspath(item) else ""
            how = f'{expand}.open_files_by_fsspec(mode="rb"){of_tar}'
            raise TypeError(f"{error}: open the files first, as in {how}") from None
        raise


def path_and_stream(item: object) -> tuple[Any, Any]:
    """Return the parts of a (path, stream) pair; raise TypeError for other items."""
    path, stream = path_and_content(item)
    if not hasattr(stream, "read"):
        raise TypeError(f"pairs of a path and a stream are needed, and with the path comes a {type(stream).__name__}")
    return path, stream


def close_parts(item: object) -> None:
    """Close the streams of an unread item of any type."""
    for part in item if isinstance(item, (tuple, list)) else ():
        close(part)


def bounded_lines(stream: IO[Any], max_bytes: int) -> Iterator[Any]:
    """Yield the lines of a stream; raise TooLarge for one of more than `max_bytes`, or as many characters of text."""
    end = stream.read(0)
    for line in iter(partial(stream.readline, max_bytes + 1), end):
        if len(line) > max_bytes:
            raise TooLarge(
                f"a line has more than {max_bytes:,} {'characters' if isinstance(end, str) else 'bytes'}: if the file "
                "is right, give a larger max_bytes"
            )
        yield line
