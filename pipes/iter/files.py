"""List, open and read files on disk."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import IO, Any

from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe
from ...storage.streaming.streams import checked_path, is_binary, stream_over
from ..bases.listers_and_openers import GivenLength, Lister, Opener, Roots, check_length, files_in, matches
from ..files.streams import path_and_stream


@functional_datapipe("list_files")
class FileLister(GivenLength, Lister):
    """Yield the path of each file in a folder, in sorted order: those of the folder, then those of its subfolders.

    Take it for local folders, and `list_files_by_fsspec` for URLs. `root` is a path, a list of paths or an iterable
    pipe of them; a root that is a file is yielded itself. `masks` are shell patterns. The name of a file must match one
    of them; a mask with a slash is matched against the complete path. With `recursive`, subfolders are entered, except
    symbolic links. Unfinished files of this package are never listed. Paths begin with the root as given, or are
    absolute with `abspath`. With `non_deterministic`, the order is that of the file system. `len` returns `length`;
    without `length` it raises TypeError. `on_error` handles a root that cannot be listed; files already yielded stay.

    Raises FileNotFoundError for a missing root, and PermissionError for a folder that cannot be read. Resuming counts
    files, so it needs the sorted order and the same files.

    >>> import json, os
    >>> folder = os.path.dirname(json.__file__)
    >>> [os.path.basename(path) for path in FileLister(folder, "*coder.py")]
    ['decoder.py', 'encoder.py']
    >>> dp = IterableWrapper([folder]).list_files("*coder.py")
    >>> [os.path.basename(path) for path in dp]
    ['decoder.py', 'encoder.py']
    """

    def __init__(
        self,
        root: Roots = ".",
        masks: str | Sequence[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(root, masks, on_error)
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = check_length(length)

    def _files_under(self, root: str) -> Iterator[str]:
        root = os.path.abspath(root) if self.abspath else root
        if os.path.isfile(root):
            return iter([root] if matches(root, self.masks) else [])
        return files_in(root, self.masks, self.recursive, in_order=not self.non_deterministic)


@functional_datapipe("open_files")
class FileOpener(Opener):
    r"""Yield the path and the stream of each file.

    Take it for local files, and `open_files_by_fsspec` for URLs. `mode` is `"r"`, `"rt"` or `"t"` for text, in the
    given `encoding` or else the locale's, without the byte order mark of UTF-8, `"rb"` or `"b"` for bytes. A stream
    stays readable until it is dropped, which closes it. `len` returns `length`, or else the length of the source.
    `on_error` handles a file that cannot be opened.

    Raises FileNotFoundError, PermissionError or IsADirectoryError for a file that cannot be opened.

    >>> import json, os
    >>> dp = FileLister(os.path.dirname(json.__file__), "*coder.py").open_files()
    >>> [stream.readline().strip('"\n') for path, stream in dp]
    ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if is_binary(mode) and encoding is not None:
            raise ValueError(f"bytes have no encoding: leave out encoding={encoding!r}, or give mode='r'")
        super().__init__(source, on_error)
        self.mode = mode
        self.encoding = encoding
        self.length = check_length(length)

    def _output(self, path: str | os.PathLike[str]) -> tuple[str, IO[Any]]:
        name = checked_path(path)
        text = None if is_binary(self.mode) else {"encoding": self.encoding}
        return name, stream_over(io.FileIO(name), name, text)


@functional_datapipe("read_from_stream")
class StreamReader(IterDataPipe[tuple[str, Any]]):
    """Yield the path and the content of each stream: bytes, or the text of a stream opened as text.

    Take it for what no parser here reads: it gives the content as it is. Takes pairs of a path and a stream. With
    `chunk`, yields the content in pieces of that many bytes (or characters), each with the path; an empty stream has no
    pieces. Each stream is read and closed. `on_error` handles a stream that fails; pieces already yielded stay. It
    cannot be a `Retry`.

    >>> import io
    >>> dp = IterableWrapper([("alphabet", io.StringIO("abcde"))]).read_from_stream(chunk=2)
    >>> list(dp)
    [('alphabet', 'ab'), ('alphabet', 'cd'), ('alphabet', 'e')]
    """

    def __init__(
        self, source: IterDataPipe[tuple[str, IO[Any]]], chunk: int | None = None, *, on_error: OnError = "raise"
    ) -> None:
        expect_whole("chunk", chunk, optional=True)
        self.source = source
        self.chunk = chunk
        self.resumes_from_start = chunk is not None
        self.handle_errors(on_error, can_retry=False)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if self.chunk is not None:
            return self.outputs_of_each(self.error_policy.outputs(self._pieces), self.source)
        contents: Iterator[Any] = map(self.error_policy.wrap(_whole_stream), self.source)
        kept = filter(self.error_policy.keep, contents) if self.error_policy.skips else contents
        return (content for content in kept)  # a generator turns a StopIteration into an error

    def _pieces(self, item: tuple[str, IO[Any]]) -> Iterator[tuple[str, Any]]:
        path, stream = path_and_stream(item)
        with closing(stream):
            while content := stream.read(self.chunk):
                yield path, content

    def __len__(self) -> int:
        self._expect_no_skips()
        if self.chunk is not None:
            raise TypeError("the number of pieces is unknown before the streams are read")
        return len(self.source)


def _whole_stream(item: tuple[str, IO[Any]]) -> tuple[str, Any]:
    path, stream = path_and_stream(item)
    try:
        return path, stream.read()
    finally:
        stream.close()
