"""Read lines from streams, and join them into paragraphs."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import IO, Any

from ...registry import (
    IterDataPipe,
    OnError,
    Provenance,
    ReadRows,
    Tally,
    close,
    expect_whole,
    functional_datapipe,
    own,
)
from ...state.replay import after
from ...storage.streaming.decompression_limit import LINE_BYTES
from ...storage.streaming.streams import text_over
from ..bases.input_columns import check_function
from ..files.streams import bounded_lines, close_parts, path_and, path_and_stream


class StreamParser(IterDataPipe[Any]):
    """Yield the parts of one stream after another: the base of the stream parsers."""

    traits = ("unpacks",)
    resumes_from_start = False
    given: Tally = own(Tally)
    """Counts the parts of the stream that were yielded."""
    _path: Any = own(None, saved=False)
    """The path of the stream that is open."""

    _line_ends = "\n"
    """The `newline` of `open`, for decoded bytes."""

    def _set_up(
        self,
        source: IterDataPipe[tuple[str, IO[Any]]],
        skip_lines: int,
        decode: bool,
        encoding: str,
        errors: str,
        return_path: bool,
        max_bytes: int,
        on_error: OnError,
    ) -> None:
        expect_whole("skip_lines", skip_lines, least=0)
        expect_whole("max_bytes", max_bytes)
        codecs.lookup(encoding)
        codecs.lookup_error(errors)
        self.source = source
        self.skip_lines = skip_lines
        self.decode = decode
        self.encoding = encoding
        self.errors = errors
        self.return_path = return_path
        self.max_bytes = max_bytes
        self.handle_errors(on_error, can_retry=False)

    def _parts(self, stream: IO[Any]) -> Iterator[Any]:
        """Return an iterator over what is in a stream."""
        raise NotImplementedError(f"{type(self).__name__} must define _parts")

    def __iter__(self) -> Iterator[Any]:
        opened = self.error_policy.wrap(self._open)
        parts_of = self.error_policy.outputs(self._parts_of)
        items = self.read(self.source, drop=close_parts)
        for number, item in items:
            items.keep_from(number)
            pair: Any = opened(item)
            if not self.error_policy.keep(pair):
                continue
            try:
                parts = after(iter(parts_of(pair)), self.given.items)
                yield from self.given.follow(parts)
            finally:
                close(pair[1])
            self.given = Tally()

    def _open(self, item: Any) -> tuple[Any, IO[Any]]:
        """Return the path and the stream of an item; with `decode`, a stream of text."""
        path, stream = path_and_stream(item)
        try:
            if isinstance(stream.read(0), str) or not self.decode:
                return path, stream
            return path, text_over(stream, self.encoding, errors=self.errors, newline=self._line_ends)
        except Exception:
            close(stream)
            raise

    def _parts_of(self, pair: tuple[Any, IO[Any]]) -> Iterator[Any]:
        path, stream = pair
        self._path = path
        parts = self._parts(stream)
        return zip(repeat(path), parts) if self.return_path else parts


@functional_datapipe("readlines")
class LineReader(StreamParser):
    r"""Yield the path and the line for each line of each stream; with `return_path=False` the line alone.

    Take it for lines of streams; `ps.read_text(paths)` lists, opens and reads files by one call. Takes pairs of a path
    and a stream, which is closed at its end. The first `skip_lines` of each stream are left out. Line ends are removed,
    unless `strip_newline` is False. A stream of bytes gives lines of bytes; with `decode`, text in `encoding`, without
    the byte order mark with which UTF-8 may begin. `errors` handles invalid bytes, as for `bytes.decode`: the default,
    `"ignore"`, drops them. Bytes are split at `\n`, text as the stream splits it. A line may have `max_bytes` bytes, or
    as many characters of text; beyond that it raises ValueError. `on_error` handles a stream that cannot be read; lines
    already yielded stay. It cannot be a `Retry`.

    Raises LookupError for an unknown encoding, and UnicodeDecodeError with `errors="strict"`.

    >>> import io
    >>> dp = IterableWrapper([("a.txt", io.StringIO("one\ntwo")), ("b.txt", io.StringIO("three\r\n"))]).readlines()
    >>> list(dp)
    [('a.txt', 'one'), ('a.txt', 'two'), ('b.txt', 'three')]
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = True,
        max_bytes: int = LINE_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        self._set_up(source, skip_lines, decode, encoding, errors, return_path, max_bytes, on_error)
        self.strip_newline = strip_newline

    def provenance(self) -> Provenance | None:
        if self._path is None or not self.given.items:
            return None
        line = self.skip_lines + self.given.items
        return Provenance((ReadRows(str(self._path), "", range(line, line + 1)),))

    def _parts(self, stream: IO[Any]) -> Iterator[Any]:
        lines = islice(bounded_lines(stream, self.max_bytes), self.skip_lines, None)
        end: Any = "\r\n" if isinstance(stream.read(0), str) else b"\r\n"
        # In C, since a call for each line would cost more than reading it.
        return map(type(end).rstrip, lines, repeat(end)) if self.strip_newline else lines


def join_lines(lines: list[str]) -> str:
    """Return lines as one text, joined by line feeds."""
    return "\n".join(lines)


@functional_datapipe("lines_to_paragraphs")
class ParagraphAggregator(IterDataPipe[tuple[str, Any]]):
    r"""Yield the path and the text of each paragraph: consecutive lines of one path, up to an empty line.

    Takes pairs of a path and a line, as `readlines` yields them. `joiner` makes the text from the list of lines; the
    default joins them by line feeds. `on_error` handles a paragraph for which `joiner` raises.

    >>> lines = [("a.txt", "one"), ("a.txt", "two"), ("a.txt", ""), ("a.txt", "three"), ("b.txt", "four")]
    >>> dp = IterableWrapper(lines).lines_to_paragraphs()
    >>> list(dp)
    [('a.txt', 'one\ntwo'), ('a.txt', 'three'), ('b.txt', 'four')]
    """

    traits = ("gathers",)
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[tuple[str, Any]],
        joiner: Callable[[list[Any]], Any] = join_lines,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("joiner", joiner)
        self.source = source
        self.joiner = joiner
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        join = self.error_policy.wrap(self.joiner)
        skips, keep = self.error_policy.skips, self.error_policy.keep
        for path, lines in self._paragraphs():
            text = join(lines)
            if not skips or keep(text):
                yield path, text

    def _paragraphs(self) -> Iterator[tuple[str, list[Any]]]:
        path: Any = None
        lines: list[Any] = []
        items = self.read(self.source)
        for number, item in items:
            # Fast path: most lines come in tuples.
            line_path, line = item if type(item) is tuple and len(item) == 2 else path_and("a line", item)
            if lines and (not line or line_path != path):
                items.keep_from(number)  # the first line of the next paragraph has been pulled
                yield path, lines
                lines = []
            if line:
                path = line_path
                lines.append(line)
        items.keep_from(items.pulled)
        if lines:
            yield path, lines
