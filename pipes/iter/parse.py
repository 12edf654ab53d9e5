"""Parse streams of CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, ClassVar

from ...errors.notes import add_note
from ...registry import IterDataPipe, OnError, close, functional_datapipe
from ...storage.streaming.decompression_limit import LINE_BYTES, TooLarge
from ..bases.one_to_one import OneToOne
from ..files.streams import bounded_lines, path_and_stream
from .lines import StreamParser


class _CSVReader(StreamParser):
    """Yield the rows of one stream of CSV after another: the base of the CSV parsers."""

    gives = "rows"
    as_tuple = False
    _reader: ClassVar[Any]
    """A reader of the csv module: it takes lines and the `fmtparams`."""
    fmtparams: dict[str, Any]
    _line_ends = ""  # the csv module requires unchanged line ends within quotes

    def _parts(self, stream: IO[Any]) -> Iterator[Any]:
        if not isinstance(stream.read(0), str):
            raise TypeError("the stream is open as bytes, and with decode=False text is needed: open it with mode='r'")
        rows = self._reader(islice(bounded_lines(stream, self.max_bytes), self.skip_lines, None), **self.fmtparams)
        reader = getattr(rows, "reader", rows)  # a DictReader does not count the line of an error; its reader does
        try:
            yield from map(tuple, rows) if self.as_tuple else rows
        except (UnicodeError, TooLarge):
            raise
        except (csv.Error, ValueError) as error:  # ValueError: quoting=csv.QUOTE_NONNUMERIC
            raise type(error)(f"line {self.skip_lines + reader.line_num}: {error}") from None


@functional_datapipe("parse_csv")
class CSVParser(_CSVReader):
    r"""Yield each row of each stream of CSV as a list of strings; with `as_tuple` as a tuple.

    Take it for rows as lists, `parse_csv_as_dict` for names, and `read_csv` for columns, which Arrow parses. Takes
    pairs of a path and a stream, which is closed at its end. With `return_path`, pairs of the path and the row are
    yielded. The first `skip_lines` lines of each stream are left out. A stream of bytes is decoded from `encoding`,
    without the byte order mark with which UTF-8 may begin, as from a spreadsheet. `errors` handles invalid bytes, as
    for `bytes.decode`: the default, `"ignore"`, drops them. With `decode=False`, streams must be of text. A line may
    have `max_bytes` characters; beyond that it raises ValueError. `fmtparams` are arguments of `csv.reader`, such as
    `delimiter`. `on_error` handles a stream that cannot be read; rows already yielded stay. It cannot be a `Retry`.

    Raises TypeError for `fmtparams` that `csv.reader` does not know, LookupError for an unknown encoding, and
    csv.Error, with the number of the line, for invalid CSV.

    >>> import io
    >>> dp = IterableWrapper([("a.csv", io.StringIO('id,text\n1,"one, two"\n'))]).parse_csv()
    >>> list(dp)
    [['id', 'text'], ['1', 'one, two']]
    """

    _reader: ClassVar[Any] = csv.reader

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        as_tuple: bool = False,
        max_bytes: int = LINE_BYTES,
        on_error: OnError = "raise",
        **fmtparams: Any,
    ) -> None:
        self._set_up(source, skip_lines, decode, encoding, errors, return_path, max_bytes, on_error)
        self.as_tuple = as_tuple
        self.fmtparams = fmtparams
        self._reader((), **fmtparams)  # raises where fmtparams are wrong


@functional_datapipe("parse_csv_as_dict")
class CSVDictParser(_CSVReader):
    r"""Yield each row of each stream of CSV as a dict, whose keys are the first row of the stream.

    Take it for rows with names, and `read_csv` for columns, which Arrow parses. The arguments are as for `parse_csv`,
    except that `fmtparams` are those of `csv.DictReader`. In addition to those of `csv.reader` these are `fieldnames`,
    the keys where the first row is data, `restkey`, the key for the list of surplus values of a row, and `restval`, the
    value for missing ones. The last two are None by default. Empty rows are left out.

    >>> import io
    >>> dp = IterableWrapper([("a.csv", io.StringIO("id,text\n1,one\n2,two\n"))]).parse_csv_as_dict()
    >>> list(dp)
    [{'id': '1', 'text': 'one'}, {'id': '2', 'text': 'two'}]
    """

    _reader: ClassVar[Any] = csv.DictReader

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        max_bytes: int = LINE_BYTES,
        on_error: OnError = "raise",
        **fmtparams: Any,
    ) -> None:
        self._set_up(source, skip_lines, decode, encoding, errors, return_path, max_bytes, on_error)
        if fmtparams.get("fieldnames") is not None:
            fmtparams["fieldnames"] = [*fmtparams["fieldnames"]]  # an iterator would be exhausted after one stream
        self.fmtparams = fmtparams
        self._reader((), **fmtparams)  # raises where fmtparams are wrong


@functional_datapipe("parse_json_files")
class JsonParser(OneToOne[tuple[str, Any]]):
    """Yield the path of each stream and the value of the JSON document in it.

    Take it for files that are one document each; `parse_json` parses files with a document on each line (JSON lines),
    and `read_json` reads those as columns. Takes pairs of a path and a stream of text or bytes, which is read and
    closed. `kwargs` are arguments of `json.loads`, such as `parse_float`. `on_error` handles a stream that cannot be
    read or parsed; it cannot be a `Retry`.

    Raises json.JSONDecodeError for invalid JSON, and TypeError for `kwargs` that `json.loads` does not know.

    >>> import io
    >>> files = [("a.json", io.StringIO('{"label": 3}')), ("b.json", io.BytesIO(b"[1, 2]"))]
    >>> dp = IterableWrapper(files).parse_json_files()
    >>> list(dp)
    [('a.json', {'label': 3}), ('b.json', [1, 2])]
    """

    def __init__(
        self, source: IterDataPipe[tuple[str, IO[Any]]], *, on_error: OnError = "raise", **kwargs: Any
    ) -> None:
        _decoder_of(kwargs)  # raises where they are wrong
        self.source = source
        self.kwargs = kwargs
        self.handle_errors(on_error, can_retry=False)

    def _output(self, item: Any) -> tuple[str, Any]:
        path, stream = path_and_stream(item)
        try:
            content = stream.read()
        finally:
            close(stream)
        try:
            return path, json.loads(content, **self.kwargs)
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":
                add_note(error, "if each line is a document: .readlines(return_path=False).parse_json()")
            raise


@functional_datapipe("parse_json")
class JsonLineParser(OneToOne[Any]):
    r"""Yield the value of each line of JSON: of text or bytes, of a pair of path and line, of a row of `read_text`.

    Take it for JSON lines whose fields differ from line to line, or that fit no column; `read_json` is faster for
    columns. Lines come from `ps.read_text(paths)`, whose rows have the `"text"`, or from `readlines`. Of a pair, the
    path stays: a pair of the path and the value is yielded. `kwargs` are arguments of `json.loads`, such as
    `parse_float`. Blank lines are an error; `read_text` leaves them out. The byte order mark at the start of a
    file is left out. `on_error` handles a line that cannot be parsed. It cannot be a `Retry`.

    Raises json.JSONDecodeError for invalid JSON, whose note names file and line, TypeError for an item that is no line,
    and for `kwargs` that `json.loads` does not know.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> path = os.path.join(tempfile.mkdtemp(), "texts.jsonl")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"text": "one"}\n{"text": "two", "tags": [1, "b"]}\n')
    >>> dp = ps.read_text(path).parse_json()
    >>> list(dp)
    [{'text': 'one'}, {'text': 'two', 'tags': [1, 'b']}]
    """

    gives = "rows"
    keeps_rows = True

    def __init__(self, source: IterDataPipe[Any], *, on_error: OnError = "raise", **kwargs: Any) -> None:
        _decoder_of(kwargs)  # raises where they are wrong
        self.source = source
        self.kwargs = kwargs
        self.handle_errors(on_error, can_retry=False)

    def _function(self) -> Callable[[Any], Any]:
        decode = _decoder_of(self.kwargs).decode

        def parse(item: Any) -> Any:
            if type(item) is dict and "text" in item:
                item = item["text"]
            elif type(item) is tuple and len(item) == 2:
                return item[0], parse(item[1])
            if isinstance(item, (bytes, bytearray)):
                item = item.decode()
            if not isinstance(item, str):
                raise _no_line(item)
            try:
                return decode(item.removeprefix("\ufeff"))
            except json.JSONDecodeError:
                if item.strip():
                    raise
            raise json.JSONDecodeError("The line is blank", item, 0)

        return parse


def _no_line(item: object) -> TypeError:
    return TypeError(
        "parse_json takes lines of text or bytes, pairs of a path and a line, or rows of read_text: this is a "
        f"{type(item).__name__}"
    )


def _decoder_of(kwargs: dict[str, Any]) -> Any:
    """Return the decoder that `json.loads` would make; TypeError for arguments that it does not know."""
    return (kwargs.get("cls") or json.JSONDecoder)(**{name: value for name, value in kwargs.items() if name != "cls"})
