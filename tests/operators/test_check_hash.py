from __future__ import annotations

import gc
import hashlib
import io
import os
import warnings
from typing import Any

import pytest

from forwards import Forwards
from penstock.pipes.iter import IterableWrapper
from penstock.storage.streaming import digest


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checked(content: Any, digest: str, *arguments: Any, **named: Any) -> Any:
    source = IterableWrapper([("a.txt", content)], deepcopy=False)
    [(path, found)] = source.check_hash({"a.txt": digest}, *arguments, **named)
    assert path == "a.txt"
    return found


@pytest.mark.parametrize("content", [b"one", bytearray(b"one"), memoryview(b"one"), "für"])
def test_bytes_and_text_come_out_as_they_are(content: Any) -> None:
    expected = sha256(content.encode() if isinstance(content, str) else content)
    assert checked(content, expected) is content
    assert checked(content, expected.upper()) is content


@pytest.mark.parametrize("hash_type", ["md5", "blake2b"])
def test_the_hash_is_the_one_that_was_named(hash_type: str) -> None:
    assert checked(b"one", hashlib.new(hash_type, b"one").hexdigest(), hash_type) == b"one"


def test_a_stream_comes_out_where_it_stood_or_at_its_end() -> None:
    stream = io.BytesIO(b"head and rest")
    stream.read(4)
    assert checked(stream, sha256(b" and rest")) is stream
    assert stream.read() == b" and rest"
    assert checked(io.BytesIO(b"one"), sha256(b"one"), rewind=False).read() == b""


@pytest.mark.parametrize("size", [0, 3, 3 * 2**20])
def test_of_a_stream_that_cannot_seek_a_copy_comes_out(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipes.iter.hash.LARGE", 2**20)
    content = os.urandom(size)
    stream = Forwards(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        copy = checked(stream, sha256(content))
        assert stream.closed
        assert copy.read() == content
        del copy
        gc.collect()
    assert caught == []
    assert checked(Forwards(content), sha256(content), rewind=False).read() == b""


@pytest.mark.parametrize("make", [lambda: b"two", lambda: io.BytesIO(b"two"), lambda: Forwards(b"two")])
def test_another_digest_is_an_error_that_names_path_and_both_digests(make: Any) -> None:
    content = make()
    with pytest.raises(RuntimeError) as caught:
        checked(content, sha256(b"one"))
    assert str(caught.value) == (
        f"'a.txt' has the sha256 digest {sha256(b'two')}, and {sha256(b'one')} was expected of it"
    )
    assert getattr(content, "closed", True), "a stream that is not handed out is closed"


def test_a_path_without_a_digest_is_an_error() -> None:
    dp = IterableWrapper([("a.txt", b"one")]).check_hash({"b.txt": "", "c.txt": ""})
    with pytest.raises(RuntimeError, match=r"hash_dict has no digest for 'a.txt', only for 2 other paths"):
        list(dp)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (("a.txt", io.StringIO("one")), "the stream is open as text, and its bytes are needed"),
        (("a.txt", 3), "the content must be a stream, bytes or text, and is of type int"),
        (("a.txt",), "pairs of a path and a content are needed"),
    ],
)
def test_what_is_no_pair_of_path_and_content_is_an_error(item: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        list(IterableWrapper([item]).check_hash({"a.txt": ""}))


def test_files_that_fail_can_be_left_out_and_are_counted() -> None:
    items = [("a", b"a"), ("bad", b"damaged"), ("c", b"c"), ("unknown", b"unknown")]
    digests = {name: sha256(name.encode()) for name in ("a", "bad", "c")}
    dp = IterableWrapper(items).check_hash(digests, on_error="skip")
    assert list(dp) == [("a", b"a"), ("c", b"c")]
    assert dp.stats()["check_hash"]["skipped"] == 2


@pytest.mark.parametrize("content", [b"a" * 3_000_000, "ä" * 10])
def test_a_digest_is_the_same_of_content_stream_and_pieces(content: Any) -> None:
    plain = content if isinstance(content, bytes) else content.encode()
    stream: Any = io.BytesIO(content) if isinstance(content, bytes) else io.StringIO(content)
    for way in (content, stream, [content[:5], content[5:]]):
        assert digest.digest_of(way) == sha256(plain)
    assert not stream.closed
