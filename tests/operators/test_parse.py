from __future__ import annotations

import csv
import gzip
import io
import json
import locale
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data.datapipes.iter import FileOpener as TorchFileOpener
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import IterableWrapper, LineReader
from penstock.registry import Throttle
from resuming import NEVER

Stream = Callable[[str], Any]

LINES = "a\nb\r\n\nc"
TABLE = 'id,text\n1,"one\ntwo"\n2,"a ""b"", c"\n'
ROWS = [["id", "text"], ["1", "one\ntwo"], ["2", 'a "b", c']]


def as_bytes(content: str) -> io.BytesIO:
    return io.BytesIO(content.encode())


def streams(*contents: Any) -> Any:
    """A pipe of streams `0`, `1`, …: of text, of bytes, or as they are."""
    kinds: dict[type, Any] = {str: io.StringIO, bytes: io.BytesIO}
    named = [(str(number), kinds.get(type(each), lambda each: each)(each)) for number, each in enumerate(contents)]
    return IterableWrapper(named, deepcopy=False)


class Failing(io.StringIO):
    """A stream that fails after its first line."""

    def readline(self, size: int | None = -1) -> str:
        if self.tell():
            raise OSError("the disk is gone")
        return super().readline(size)


PARSERS: dict[str, Callable[[Any], Any]] = {
    "readlines": lambda dp, **arguments: dp.readlines(**arguments),
    "parse_csv": lambda dp, **arguments: dp.parse_csv(**arguments),
    "parse_csv_as_dict": lambda dp, **arguments: dp.parse_csv_as_dict(fieldnames=["x"], **arguments),
    "parse_json_files": lambda dp, **arguments: dp.parse_json_files(**arguments),
}
all_parsers = pytest.mark.parametrize("name", PARSERS)
text_and_bytes = pytest.mark.parametrize("stream", [io.StringIO, as_bytes], ids=["text", "bytes"])


# Lines


def test_lines_come_with_their_path_and_without_their_ends() -> None:
    expected = [("0", "a"), ("0", "b"), ("0", ""), ("0", "c"), ("2", "d")]
    assert list(streams(LINES, "", "d\n").readlines()) == expected
    as_they_are = [(path, line.encode()) for path, line in expected]
    assert list(streams(LINES.encode(), b"", b"d\n").readlines()) == as_they_are
    assert list(streams(LINES.encode(), b"", b"d\n").readlines(decode=True)) == expected


@text_and_bytes
def test_ends_of_lines_stay_where_they_are_not_to_be_stripped(stream: Stream) -> None:
    dp = streams(stream(LINES)).readlines(strip_newline=False, decode=True, return_path=False)
    assert list(dp) == ["a\n", "b\r\n", "\n", "c"]


@pytest.mark.parametrize("skip_lines", [0, 1, 3, 9])
@text_and_bytes
def test_the_first_lines_of_each_stream_are_skipped(stream: Stream, skip_lines: int) -> None:
    lines = ["a", "b", "", "c"][skip_lines:]
    dp = streams(stream(LINES), stream(LINES)).readlines(skip_lines=skip_lines, decode=True)
    assert list(dp) == [(path, line) for path in "01" for line in lines]


def test_errors_says_what_becomes_of_bytes_that_are_no_text() -> None:
    def lines(**arguments: Any) -> list[str]:
        return list(streams(b"a\xffb\nc").readlines(decode=True, return_path=False, **arguments))

    assert lines() == ["ab", "c"]
    assert lines(errors="replace") == ["a\ufffdb", "c"]
    with pytest.raises(UnicodeDecodeError) as caught:
        lines(errors="strict")
    assert "on ('0', <BytesIO>)" in caught.value.__notes__[0]
    with pytest.raises(UnicodeDecodeError):
        list(streams(b"a,\xff\n").parse_csv(errors="strict"))


def test_streams_of_every_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(LINES.encode()))
    (tmp_path / "a.txt").write_bytes(LINES.encode())
    made: list[Callable[[], Any]] = [
        partial(gzip.open, tmp_path / "a.gz"),
        partial(gzip.open, tmp_path / "a.gz", "rt", newline=""),
        partial(open, tmp_path / "a.txt", "rb", buffering=0),
        partial(open, tmp_path / "a.txt", newline=""),
    ]
    for make in made:
        dp = IterableWrapper([make], deepcopy=False).map(lambda make: ("path", make()))
        assert list(dp.readlines(decode=True, return_path=False)) == ["a", "b", "", "c"]
    for mode in ("r", "b"):
        opened: Any = TorchFileOpener(TorchIterableWrapper([str(tmp_path / "a.txt")]), mode=mode)
        assert list(LineReader(opened, decode=True, return_path=False)) == ["a", "b", "", "c"]


@settings(max_examples=100)
@given(
    content=st.text(st.sampled_from("ab \r\n\x0c\u2028\ufeffüĊ")),
    chosen=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]),
)
def test_lines_of_any_text_are_those_between_line_feeds(content: str, chosen: str) -> None:
    text = content.removeprefix("\ufeff") if chosen == "utf-8" else content
    for stream in (content.encode(chosen), io.StringIO(text, newline="\n")):
        found = list(streams(stream).readlines(decode=True, encoding=chosen, return_path=False))
        assert found == ([line.rstrip("\r\n") for line in text.removesuffix("\n").split("\n")] if text else [])


OF_FILES: dict[str, Callable[[str], Any]] = {
    "open_files": lambda path: IterableWrapper([path]).open_files(encoding="utf8").readlines(return_path=False),
    "open_files_by_fsspec": lambda path: (
        IterableWrapper([path])
        .open_files_by_fsspec(mode="rt", kwargs_for_open={"encoding": "UTF-8"})
        .readlines(return_path=False)
    ),
    "open_files_by_iopath": lambda path: (
        IterableWrapper([path]).open_files_by_iopath(mode="r").readlines(return_path=False)
    ),
    "readlines": lambda path: (
        IterableWrapper([path]).open_files(mode="b").readlines(decode=True, return_path=False, errors="strict")
    ),
    "parse_csv": lambda path: IterableWrapper([path]).open_files(mode="b").parse_csv().map(",".join),
    "parse_csv_as_dict": lambda path: (
        IterableWrapper([path]).open_files(mode="b").parse_csv_as_dict().flatmap(lambda row: [*row, *row.values()])
    ),
    "parse_csv of text": lambda path: IterableWrapper([path]).open_files(mode="r").parse_csv().map(",".join),
    "read_text": lambda path: ps.read_text(path).map(lambda row: row["text"]),
    "utf-8-sig": lambda path: ps.read_text(path, encoding="utf_8_sig").map(lambda row: row["text"]),
    "routed_decode": lambda path: (
        IterableWrapper([path]).open_files(mode="b").routed_decode().flatmap(lambda pair: pair[1].splitlines())
    ),
    "read_csv": lambda path: ps.read_csv(path).flatmap(lambda batch: [*batch.schema.names, *batch[0].to_pylist()]),
    "in a local encoding": lambda path: IterableWrapper([path]).open_files(mode="t").readlines(return_path=False),
}


@pytest.mark.parametrize("reader", OF_FILES)
def test_a_byte_order_mark_is_left_out_where_utf_8_begins_and_only_there(reader: str, tmp_path: Path) -> None:
    if "local" in reader and locale.getpreferredencoding(False).lower() != "utf-8":
        pytest.skip("the locale has another encoding")
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfl\xc3\xa4st\r\n\xef\xbb\xbf2\r\n")
    assert list(OF_FILES[reader](str(path))) == ["läst", "\ufeff2"]
    path.write_bytes(b"l\xc3\xa4st\n2\n")
    assert [*map(str, OF_FILES[reader](str(path)))] == ["läst", "2"]
    path.write_bytes(b"\xef\xbb\xbf")
    if reader != "read_csv":
        assert list(OF_FILES[reader](str(path))) == []


def test_other_encodings_keep_their_first_letter(tmp_path: Path) -> None:
    for encoding, text in (("latin-1", "ï»¿a"), ("utf-16", "a"), ("utf-16-le", "\ufeffa")):
        (tmp_path / "a.txt").write_bytes(text.encode(encoding))
        assert [row["text"] for row in ps.read_text(tmp_path, encoding=encoding)] == [text]
    assert list(streams(b"\xef\xbb\xbfa\n").readlines(return_path=False)) == [b"\xef\xbb\xbfa"]  # bytes stay


def test_the_parts_of_a_file_keep_the_marks_within_it(tmp_path: Path) -> None:
    lines = [f"\ufeffline {number}" for number in range(100)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8-sig")
    for encoding in ("utf-8", "utf-8-sig"):
        found = []
        for part in range(7):
            dp = (
                IterableWrapper([str(tmp_path / "a.txt")]).shard_files("text", min_bytes=9).read_text(encoding=encoding)
            )
            ps.registry.apply_sharding(dp, 7, part)
            found += [row["text"] for row in dp]
        assert sorted(found) == sorted(lines)


@pytest.mark.parametrize(("name", "value"), [("a.txt", "x"), ("a.cls", 7), ("a.json", {"a": 1})])
def test_what_is_decoded_by_its_extension_has_no_mark(name: str, value: Any) -> None:
    content = json.dumps(value).strip('"').encode("utf-8-sig")
    assert list(streams(content).map(lambda pair: (name, pair[1])).routed_decode()) == [(name, value)]


# CSV


@text_and_bytes
def test_rows_come_as_lists_tuples_or_with_their_path(stream: Stream) -> None:
    assert list(streams(stream(TABLE)).parse_csv()) == ROWS
    assert list(streams(stream(TABLE)).parse_csv(as_tuple=True)) == [tuple(row) for row in ROWS]
    assert list(streams(stream(TABLE)).parse_csv(return_path=True)) == [("0", row) for row in ROWS]
    assert list(streams(stream(TABLE)).parse_csv(return_path=True, as_tuple=True, skip_lines=3)) == [
        ("0", ("2", 'a "b", c'))
    ]
    assert list(streams(stream(TABLE), stream("x\n\n"), stream("")).parse_csv()) == [*ROWS, ["x"], []]


@text_and_bytes
def test_rows_come_as_dicts(stream: Stream) -> None:
    dp = streams(stream(TABLE), stream("x\n\n3\n"), stream("")).parse_csv_as_dict()
    assert list(dp) == [{"id": "1", "text": "one\ntwo"}, {"id": "2", "text": 'a "b", c'}, {"x": "3"}]
    with_path = streams(stream("note\n" + TABLE)).parse_csv_as_dict(return_path=True, skip_lines=1)
    assert with_path.take(1) == [("0", {"id": "1", "text": "one\ntwo"})]


def test_fmtparams_go_to_the_csv_module() -> None:
    assert list(streams("a;'b;c'\n").parse_csv(delimiter=";", quotechar="'")) == [["a", "b;c"]]
    assert list(streams("a\tb\n").parse_csv(dialect="excel-tab")) == [["a", "b"]]
    assert "delimiter=';'" in repr(streams("").parse_csv(delimiter=";"))
    dp = streams("1\n", "1,2,3\n").parse_csv_as_dict(fieldnames=iter("ab"), restkey="rest", restval="")
    assert list(dp) == [{"a": "1", "b": ""}, {"a": "1", "b": "2", "rest": ["3"]}]


@settings(max_examples=100)
@given(
    rows=st.lists(st.lists(st.text(st.sampled_from('ab,;"\r\n\0 ü\u2028')), min_size=1)),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_the_csv_module_writes_is_read_back(rows: list[list[str]], encoding: str) -> None:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    assert list(streams(written.getvalue().encode(encoding)).parse_csv(encoding=encoding)) == rows


@pytest.mark.parametrize(
    ("content", "arguments", "text"),
    [
        ('a,b\nc,"d', {"strict": True}, "line 2: unexpected end of data"),
        ('x\n\na,b\nc,"d\n"e', {"strict": True, "skip_lines": 2}, "line 5: "),
        ("a,b\n\n1" * 3 + "x" * 200_000, {}, "line 7: field larger than field limit"),
        ('"a"\n1,b', {"quoting": csv.QUOTE_NONNUMERIC}, "line 2: could not convert string to float: 'b'"),
    ],
)
@pytest.mark.parametrize("name", ["parse_csv", "parse_csv_as_dict"])
def test_an_error_in_csv_names_its_path_and_line(content: str, arguments: Any, text: str, name: str) -> None:
    with pytest.raises((csv.Error, ValueError), match=text) as caught:
        list(PARSERS[name](streams('"fine"\n' * 3, content), **arguments))
    assert "on ('1', <StringIO>)" in caught.value.__notes__[0]


# JSON


def test_documents_come_with_their_path() -> None:
    dp = streams('{"a": [1, null]}', b"1.5", "[]".encode("utf-16"), b'\xef\xbb\xbf"bom"').parse_json_files()
    assert list(dp) == [("0", {"a": [1, None]}), ("1", 1.5), ("2", []), ("3", "bom")]
    assert len(streams("1", "2").parse_json_files()) == 2


def test_kwargs_go_to_the_json_module() -> None:
    class Decoder(json.JSONDecoder):
        def decode(self, text: str) -> Any:  # type: ignore[override]
            return f"decoded {text}"

    assert list(streams("[1.5]").parse_json_files(parse_float=str)) == [("0", ["1.5"])]
    assert list(streams("{}").parse_json_files(object_pairs_hook=list)) == [("0", [])]
    assert list(streams("{}").parse_json_files(cls=Decoder)) == [("0", "decoded {}")]


@pytest.mark.parametrize("content", ["", "{", '{"a": 1} trailing', b"\xff\xfe\xfd"])
def test_what_is_no_document_is_an_error_that_names_the_path(content: Any) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  JSONDecodeError or UnicodeDecodeError
        list(streams("1", content).parse_json_files())
    assert "on ('1', <" in "".join(caught.value.__notes__)


def test_json_lines_are_told_how_they_are_read() -> None:
    lines = '{"a": 1}\n{"a": 2}\n'
    with pytest.raises(json.JSONDecodeError, match="Extra data") as caught:
        list(streams(lines).parse_json_files())
    assert any(".readlines(return_path=False).parse_json()" in note for note in caught.value.__notes__)
    assert list(streams(lines).readlines(return_path=False).parse_json()) == [{"a": 1}, {"a": 2}]


# Streams, errors and resuming


@pytest.mark.parametrize(
    ("name", "items", "keyword"),
    [
        *(
            (name, ["path", ("path",), ("path", "text"), 3], "pairs of a path and a stream are needed")
            for name in PARSERS
        ),
        ("lines_to_paragraphs", ["line", ("a", "1", 2), 3], "pairs of a path and a line are needed"),
        ("parse_json", [3, {"line": "1"}, ("a", "b", "c"), None], "lines of text or bytes, pairs of .*, or rows"),
    ],
)
def test_items_of_other_kinds_are_an_error(name: str, items: list[Any], keyword: str) -> None:
    for item in items:
        with pytest.raises(TypeError, match=keyword):
            list(getattr(IterableWrapper([item]), name)())
        if name != "lines_to_paragraphs":  # whose on_error is for the joiner
            dp = getattr(IterableWrapper([item]), name)(on_error="skip")
            assert list(dp) == []
            assert dp.stats()[name]["skipped"] == 1


def test_bytes_that_are_not_to_be_decoded_are_no_csv() -> None:
    with pytest.raises(TypeError, match="the stream is open as bytes, and with decode=False text is needed"):
        list(streams(b"a").parse_csv(decode=False))


@all_parsers
@text_and_bytes
def test_streams_are_closed(name: str, stream: Stream) -> None:
    first, second, last = stream("1\n"), stream("2\n"), stream("3\n")
    iterator: Any = iter(PARSERS[name](streams(first, second)))
    next(iterator)
    next(iterator)
    assert first.closed
    iterator.close()
    assert second.closed
    list(PARSERS[name](streams(last)))
    assert last.closed


@all_parsers
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_stream_that_fails_is_closed(name: str, on_error: Any) -> None:
    class Broken(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            if size:
                raise OSError("the disk is gone")
            return ""

        readline = read

    stream, after = Broken("1\n"), io.StringIO("2\n")
    dp = PARSERS[name](streams(stream, after), on_error=on_error)
    if on_error == "raise":
        with pytest.raises(OSError, match="the disk is gone"):
            list(dp)
    else:
        assert len(list(dp)) == 1
        assert after.closed
    assert stream.closed


def test_a_stream_that_cannot_be_begun_is_closed() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("no answer")

    stream = Broken()
    with pytest.raises(OSError, match="no answer") as caught:
        list(streams(stream).readlines(decode=True))
    assert "on ('0', <Broken>)" in caught.value.__notes__[0]
    assert stream.closed


def test_skipped_streams_keep_the_parts_before() -> None:
    dp = streams(Failing("a\nb\n"), "c\n").readlines(on_error="skip")
    assert list(dp) == [("0", "a"), ("1", "c")]
    assert dp.stats()["readlines"] == {
        "skipped": 1,
        "retried": 0,
        "last_errors": ["OSError: the disk is gone, on ('0', <Failing>)"],
    }
    dp = streams('a\n"b', "c\n").parse_csv(strict=True, on_error=ps.Skip(errors=csv.Error))
    assert list(dp) == [["a"], ["c"]]
    assert dp.stats()["parse_csv"]["last_errors"][0].startswith("Error: line 2: unexpected end of data, on ('0', ")
    with pytest.raises(OSError, match="the disk is gone"):
        list(streams(Failing("a\nb\n")).readlines(on_error=ps.Skip(errors=csv.Error)))


def test_streams_that_are_read_past_on_resuming_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", NEVER)

    def files() -> list[Any]:
        return [as_bytes(f"{number}a\n{number}b\n") for number in range(3)]

    dp = streams(*files()).readlines(return_path=False)
    assert [*islice(dp, 3)] == [b"0a", b"0b", b"1a"]
    opened = files()
    resumed = streams(*opened).readlines(return_path=False)
    resumed.load_state_dict(dp.state_dict())
    iterator = iter(resumed)
    assert next(iterator) == b"1b"
    assert [stream.closed for stream in opened] == [True, False, False]


# Paragraphs


def paragraphs(*lines: tuple[Any, Any], **arguments: Any) -> Any:
    return IterableWrapper(lines).lines_to_paragraphs(**arguments)


def test_a_paragraph_ends_at_an_empty_line_or_another_path() -> None:
    lines = [("a", "1"), ("a", "2"), ("a", ""), ("a", "3"), ("b", "4"), ("b", ""), ("b", ""), ("c", ""), ("a", "5")]
    assert list(paragraphs(*lines)) == [("a", "1\n2"), ("a", "3"), ("b", "4"), ("a", "5")]
    assert list(paragraphs(("a", ""), ("a", ""))) == []
    assert list(paragraphs((None, "1"), (None, "2"), ("", "3"))) == [(None, "1\n2"), ("", "3")]
    assert list(paragraphs(("a", "1"), ("a", " "), ("a", "2"))) == [("a", "1\n \n2")]


def test_a_joiner_gets_lists_of_its_own() -> None:
    seen = list(paragraphs(("a", b"1"), ("a", b"2"), ("b", b"3"), joiner=lambda lines: lines))
    assert seen == [("a", [b"1", b"2"]), ("b", [b"3"])]
    assert list(paragraphs(("a", b"1"), ("a", b"2"), joiner=b" ".join)) == [("a", b"1 2")]


def test_a_joiner_that_fails_is_handled_as_on_error_says() -> None:
    def join(lines: list[str]) -> str:
        if len(lines) > 1:
            raise ValueError("too many lines")
        return lines[0]

    lines = [("a", "1"), ("a", "2"), ("b", "3")]
    with pytest.raises(ValueError, match="too many lines"):
        list(paragraphs(*lines, joiner=join))
    dp = paragraphs(*lines, joiner=join, on_error="skip")
    assert list(dp) == [("b", "3")]
    assert dp.stats()["lines_to_paragraphs"]["last_errors"] == ["ValueError: too many lines, on ['1', '2']"]


# parse_json


def test_lines_of_every_kind_become_their_values(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two", "n": [1, "x"]}\n')
    (tmp_path / "b.jsonl").write_text('"three"\n')
    values = [{"text": "one"}, {"text": "two", "n": [1, "x"]}, "three"]
    for source in (f"{tmp_path}/*.jsonl", [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]):
        for include_paths in (False, True):
            assert list(ps.read_text(source, include_paths).parse_json()) == values
    assert list(IterableWrapper(['{"text": "one"}', b"[1.5]", bytearray(b'"\xc3\xa4"')]).parse_json()) == [
        {"text": "one"},
        [1.5],
        "ä",
    ]
    lines = IterableWrapper([str(tmp_path / "b.jsonl")]).open_files("rb").readlines()
    assert list(lines.parse_json()) == [(str(tmp_path / "b.jsonl"), "three")]
    assert list(IterableWrapper(["1.5"]).parse_json(parse_float=str)) == ["1.5"]
    assert len(IterableWrapper(["1", "2"]).parse_json()) == 2


def test_a_line_that_is_no_json_names_its_file_and_number(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text("1\n2\n")
    second.write_text("# a comment\n\n3\n{oops\n4\n")
    opened = IterableWrapper([str(second)]).open_files("r")
    for dp, number in (
        (ps.read_text([first, second]).filter(lambda row: row["text"][0] != "#"), 4),
        (IterableWrapper([str(second)]).read_text(drop_empty_lines=False), 1),
        (opened.readlines(skip_lines=2), 4),
        (opened.readlines(skip_lines=2, return_path=False), 4),
    ):
        with pytest.raises(json.JSONDecodeError) as raised:
            list(dp.parse_json())
        assert f"line {number} of '{second}'" in "".join(raised.value.__notes__)
    skipping = ps.read_text([first, second]).parse_json(on_error="skip")
    assert list(skipping) == [1, 2, 3, 4]
    assert skipping.stats()["parse_json"]["skipped"] == 2


def test_the_mark_at_the_start_of_a_file_of_lines_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": "\xef\xbb\xbf"}\n2\n')
    assert list(ps.read_text(path).parse_json()) == [{"a": "\ufeff"}, 2]
    opened = IterableWrapper([str(path)]).open_files("rb")
    assert list(opened.readlines(return_path=False).parse_json()) == [{"a": "\ufeff"}, 2]


@pytest.mark.parametrize("line", ["", "  ", "\t\r\n", b"\n"])
def test_a_blank_line_is_an_error_that_says_so(line: Any) -> None:
    for item in (line, ("a.jsonl", line), {"text": line}):
        with pytest.raises(json.JSONDecodeError, match="The line is blank"):
            list(IterableWrapper([item]).parse_json())


def test_a_resumed_pass_still_knows_the_number_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n3\nx\n")
    for make in (ps.read_text(path).parse_json, IterableWrapper([str(path)]).open_files("r").readlines().parse_json):
        begun, resumed = make(), make()
        next(iter(begun))
        resumed.load_state_dict(begun.state_dict())
        with pytest.raises(json.JSONDecodeError) as raised:
            list(resumed)
        assert f"line 4 of '{path}'" in "".join(raised.value.__notes__)
