"""Vocabularies are those of torchtext: built from chains, saved and loaded, and functions for `map`."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

TEXTS = ["the film is good", "the film is bad", "a good film", "the end"]


def reviews(texts: Iterable[str] = TEXTS) -> Any:
    return ps.iter.IterableWrapper([*texts]).map(str.split)


def test_tokens_come_by_frequency_and_then_in_the_order_of_the_text() -> None:
    expected = ["film", "the", "good", "is", "a", "bad", "end"]
    assert reviews().build_vocab().get_itos() == expected
    assert reviews(reversed(TEXTS)).build_vocab().get_itos() == expected
    assert reviews().shuffle().build_vocab() == ps.build_vocab([text.split() for text in TEXTS])
    assert ps.map.SequenceWrapper(TEXTS).map(str.split).build_vocab() == reviews().build_vocab()
    assert ps.build_vocab([{"a": 1, "b": 5}, {"a": 1}]).get_itos() == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "tokens"),
    [
        ({"min_freq": 9}, []),
        ({"max_tokens": 30, "min_freq": 3}, ["film", "the"]),
        ({"specials": ("<unk>", "<pad>"), "min_freq": 3}, ["<unk>", "<pad>", "film", "the"]),
        ({"specials": ("<unk>", "<pad>"), "min_freq": 3, "special_first": False}, ["film", "the", "<unk>", "<pad>"]),
        ({"specials": ("<unk>", "<pad>"), "max_tokens": 3}, ["<unk>", "<pad>", "film"]),
        ({"specials": ("<unk>", "film"), "max_tokens": 4}, ["<unk>", "film", "the", "good"]),
    ],
)
def test_what_is_left_in(arguments: dict[str, Any], tokens: list[str]) -> None:
    vocab = reviews().build_vocab(**arguments)
    assert vocab.get_itos() == tokens == [*vocab]
    assert len(vocab) == len(tokens)
    assert vocab.get_stoi() == {token: index for index, token in enumerate(tokens)}


def test_ids_and_tokens() -> None:
    vocab = ps.Vocab(["<pad>", "<unk>", "film", "the"], default="<unk>")
    assert vocab(["the", "other", "film"]) == [3, 1, 2]
    assert vocab([]) == []
    assert (vocab["film"], vocab["other"]) == (2, 1)
    assert "film" in vocab
    assert "other" not in vocab
    assert vocab.lookup_token(3) == "the"
    assert vocab.lookup_tokens([3, 2]) == ["the", "film"]
    assert vocab.get_default_index() == 1
    assert repr(vocab) == "<vocabulary of 4 tokens, '<unk>' by default>"


def test_an_unknown_token_is_an_error_where_there_is_no_default() -> None:
    vocab = ps.Vocab(["film", "the"])
    for ask in (lambda: vocab["other"], lambda: vocab(["the", "other"])):
        with pytest.raises(KeyError, match="'other' is not in the vocabulary, which has no default"):
            ask()
    with pytest.raises(KeyError) as caught:
        list(reviews(["the other"]).map(vocab))
    assert any("['the', 'other']" in note for note in caught.value.__notes__)
    vocab.set_default_index(0)
    assert vocab(["the", "other"]) == [1, 0]
    vocab.set_default_index(None)
    assert vocab.get_default_index() is None
    with pytest.raises(IndexError, match="no id 2: the vocabulary has 2 tokens"):
        vocab.set_default_index(2)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: ps.Vocab(["a", "b", "a"]), ValueError, "'a' comes twice in the tokens"),
        (lambda: ps.Vocab(["a"], default="b"), ValueError, "the default 'b' is none of the tokens"),
        (lambda: ps.Vocab("abc"), TypeError, "must be a list of strings"),
        (lambda: ps.Vocab(["a", 3]), TypeError, "each token must be a string, and one is 3"),
        (lambda: ps.Vocab(["a"])("a"), TypeError, "and not one string, 'a'"),
        (lambda: ps.Vocab(["a"]).lookup_token(-1), IndexError, "there is no id -1"),
        (lambda: reviews().build_vocab(specials=("<unk>", "<unk>")), ValueError, "'<unk>' comes twice in specials"),
        (lambda: reviews().build_vocab(specials="<unk>"), TypeError, "specials must be a list of strings"),
        (lambda: reviews().build_vocab(default="<unk>"), ValueError, "'<unk>' is none of the specials"),
        (lambda: reviews().build_vocab(min_freq=0), ValueError, "min_freq must be at least 1"),
        (lambda: reviews().build_vocab(max_tokens=1, specials=["<unk>"]), ValueError, "no room beside 1 specials"),
        (lambda: ps.build_vocab(TEXTS), TypeError, r"split 'the film is good' before, as by \.map\(str\.split\)"),
        (lambda: ps.build_vocab([[0]]), TypeError, "each token must be a string, and one is 0"),
    ],
)
def test_what_cannot_be(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_equal_are_those_of_the_same_tokens_and_default() -> None:
    vocab = ps.Vocab(["a", "b"], default="b")
    for same in (pickle.loads(pickle.dumps(vocab)), ps.Vocab(iter("ab"), "b")):
        assert same == vocab
        assert same(["c"]) == [1]
    for other in (ps.Vocab(["a", "b"]), ps.Vocab(["b", "a"], default="b"), ["a", "b"]):
        assert vocab != other


@pytest.mark.parametrize("default", [None, "film"])
def test_saved_and_loaded_it_is_the_same(default: str | None, tmp_path: Path) -> None:
    vocab = ps.Vocab(["film", "čeština", 'a"\n', "\ud800"], default=default)
    for path in (str(tmp_path / "folder" / "vocab.json"), "memory://tests/vocab.json"):
        vocab.save(path)
        assert ps.Vocab.load(path) == vocab
    plain = ps.Vocab(["film", "čeština"], default=default)
    plain.save(str(tmp_path / "plain.json"))
    text = (tmp_path / "plain.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"format": "penstock vocabulary 1", "default": default, "tokens": plain.get_itos()}
    assert "čeština" in text


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "nonsense",
        '{"format": "another"}',
        '{"format": "penstock vocabulary 1", "default": null}',
        '{"format": "penstock vocabulary 1", "default": null, "tokens": ["a", "a"]}',
        '{"format": "penstock vocabulary 1", "default": null, "tokens": ["a", 1]}',
        '{"format": "penstock vocabulary 1", "default": null, "tokens": null}',
        '{"format": "penstock vocabulary 1", "default": "b", "tokens": ["a"]}',
    ],
)
def test_another_file_is_an_error_that_names_it(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(ValueError, match=r"vocab\.json is no vocabulary that Vocab\.save wrote"):
        ps.Vocab.load(str(tmp_path / "vocab.json"))
