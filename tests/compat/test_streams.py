"""torchdata's wrapper of streams: what is open, and what is closed."""

from __future__ import annotations

import io

import pytest
from torch.utils.data.datapipes.iter import FileOpener as TorchOpener

import penstock as ps
from penstock.compat.streams import StreamWrapper, validate_pathname_binary_tuple


@pytest.fixture
def debugging(monkeypatch):
    monkeypatch.setattr(StreamWrapper, "debug_unclosed_streams", True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    return str(path)


def still_open() -> set[str]:
    """The names of the open streams, without folders."""
    return {getattr(stream, "name", "").rpartition("/")[2] for stream in StreamWrapper.session_streams}


@pytest.mark.usefixtures("debugging")
def test_streams_of_ones_own_are_there_until_they_are_closed_or_dropped():
    assert StreamWrapper.session_streams == {}
    closed, dropped = StreamWrapper(io.BytesIO(), name="closed"), StreamWrapper(io.BytesIO(), name="dropped")
    assert still_open() == {"closed", "dropped"}
    assert StreamWrapper.session_streams == closed.session_streams == {closed: 1, dropped: 1}
    closed.close()
    assert still_open() == {"dropped"}
    del dropped
    assert still_open() == set()


@pytest.mark.usefixtures("debugging")
def test_streams_of_operators_are_there_until_they_are_closed_or_dropped(path):
    ((_, stream),) = ps.iter.FileOpener(ps.iter.IterableWrapper([path]), mode="b")
    assert still_open() == {"a.txt"}
    stream.close()
    assert still_open() == set()


@pytest.mark.usefixtures("debugging")
def test_streams_of_torchs_pipes_are_there_too(path):
    ((_, stream),) = TorchOpener(ps.iter.IterableWrapper([path]), mode="b")
    assert [*StreamWrapper.session_streams] == [stream]
    StreamWrapper.close_streams([stream])
    assert StreamWrapper.session_streams == {}


def test_all_streams_of_an_item_are_closed(path):
    wrapped = StreamWrapper(io.BytesIO())
    ((name, stream),) = ps.iter.FileOpener(ps.iter.IterableWrapper([path]), mode="b")
    StreamWrapper.close_streams({"parts": [name, (wrapped, 3)], "file": stream})
    assert wrapped.closed
    assert stream.closed


def test_what_is_no_pair_of_a_path_and_a_stream_is_refused():
    validate_pathname_binary_tuple(("a", io.BytesIO()))
    validate_pathname_binary_tuple(("a", StreamWrapper(io.BytesIO())))
    for item in (("a",), ["a", io.BytesIO()], (1, io.BytesIO()), ("a", b"")):
        with pytest.raises(TypeError, match=r"pairs? of a path and a stream (is|are) needed"):
            validate_pathname_binary_tuple(item)
