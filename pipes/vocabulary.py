"""Vocabularies: from tokens to the ids that a model takes, and back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors.secrets import without_secrets
from ..registry import expect_whole
from ..storage.reading import read_whole
from ..storage.writing import whole_file

_FORMAT = "penstock vocabulary 1"


class Vocab:
    """Tokens with their ids: the place of each in `tokens`. Called with a list of tokens it returns their ids.

    It is a function for `map`, as in `.map(vocab)`, and pickles. An unknown token has the id of the token `default`;
    without one, it raises a KeyError that names the token. Vocabularies with the same tokens and default are equal. The
    methods have torchtext's names.

    Raises ValueError for a token that comes twice, and for a default that is not among the tokens.

    >>> vocab = Vocab(["<unk>", "a", "film"], default="<unk>")
    >>> vocab(["a", "good", "film"])
    [1, 0, 2]
    >>> vocab["film"], "good" in vocab, len(vocab), vocab.lookup_tokens([2, 1])
    (2, False, 3, ['film', 'a'])
    """

    def __init__(self, tokens: Iterable[str], default: str | None = None) -> None:
        self._tokens = _checked("the tokens", tokens)
        self._ids = {token: index for index, token in enumerate(self._tokens)}
        if default is not None and default not in self._ids:
            raise ValueError(f"the default {default!r} is none of the tokens: add it to the specials")
        self._default = None if default is None else self._ids[default]

    def __call__(self, tokens: Iterable[str]) -> list[int]:
        if isinstance(tokens, str):
            raise TypeError(f"give a list of tokens, and not one string, {tokens!r:.100}; vocab[token] takes one token")
        if self._default is None:
            return [self[token] for token in tokens]
        ids, default = self._ids, self._default
        return [ids.get(token, default) for token in tokens]

    def __getitem__(self, token: str) -> int:
        index = self._ids.get(token, self._default)
        if index is None:
            raise KeyError(f"{token!r} is not in the vocabulary, which has no default")
        return index

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocab):
            return NotImplemented
        return (self._tokens, self._default) == (other._tokens, other._default)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        default = "" if self._default is None else f", {self._tokens[self._default]!r} by default"
        return f"<vocabulary of {len(self):,} tokens{default}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocab, (self._tokens, None if self._default is None else self._tokens[self._default])

    def lookup_token(self, index: int) -> str:
        """Return the token of an id; raise IndexError if there is none."""
        if not 0 <= index < len(self):
            raise IndexError(f"there is no id {index}: the vocabulary has {len(self)} tokens")
        return self._tokens[index]

    def lookup_tokens(self, indices: Iterable[int]) -> list[str]:
        """Return the tokens of ids, such as those that a model has emitted."""
        return [self.lookup_token(index) for index in indices]

    def get_itos(self) -> list[str]:
        """Return all tokens, in the order of their ids."""
        return [*self._tokens]

    def get_stoi(self) -> dict[str, int]:
        """Return the ids of all tokens."""
        return {**self._ids}

    def set_default_index(self, index: int | None) -> None:
        """Give unknown tokens this id; with None, they are errors again."""
        self._default = None if index is None else self._ids[self.lookup_token(index)]

    def get_default_index(self) -> int | None:
        """Return the id of unknown tokens; None where they are errors."""
        return self._default

    def save(self, url: str, *, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write it to a path or URL, as JSON; the file appears once it is whole."""
        default = None if self._default is None else self._tokens[self._default]
        saved = {"format": _FORMAT, "default": default, "tokens": self._tokens}
        # Tokens made of bytes may contain half a character, which UTF-8 lacks; `load` accepts it.
        content = json.dumps(saved, indent=0, ensure_ascii=False).encode("utf-8", "surrogatepass")
        with whole_file(str(url), "wb", storage_options or {}) as file:
            file.write(content)

    @classmethod
    def load(cls, url: str, *, storage_options: Mapping[str, Any] | None = None) -> Vocab:
        """Return the vocabulary that `save` wrote; raise ValueError for another file.

        >>> vocab = Vocab(["<unk>", "a", "film"], default="<unk>")
        >>> vocab.save("memory://vocab.json")
        >>> Vocab.load("memory://vocab.json") == vocab
        True
        """
        content = read_whole(str(url), storage_options or {})
        try:
            saved = json.loads(content)
            if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
                raise ValueError(f'its "format" is not {_FORMAT!r}')
            return cls(saved["tokens"], saved["default"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{without_secrets(str(url))} is no vocabulary that Vocab.save wrote: {error}") from None


def build_vocab(
    source: Iterable[Iterable[str]],
    *,
    min_freq: int = 1,
    specials: Sequence[str] = (),
    special_first: bool = True,
    max_tokens: int | None = None,
    default: str | None = None,
) -> Vocab:
    """Return the vocabulary of a chain of lists of tokens, by reading it: `dp.build_vocab()`, or of any iterable.

    It has the tokens that come at least `min_freq` times: the most frequent first, and equally frequent ones sorted, so
    the order of the chain does not matter. `specials` come before them, or after them with `special_first=False`.
    `max_tokens` bounds the number of all, and drops the rarest. `default` is the special token that replaces unknown
    ones.

    Raises TypeError for items that are not lists of strings, and ValueError for specials that repeat, or that leave no
    room for other tokens.

    >>> import penstock as ps
    >>> reviews = ps.iter.IterableWrapper(["a good film", "a bad film", "a film"]).map(str.split)
    >>> vocab = reviews.build_vocab(min_freq=2, specials=("<pad>", "<unk>"), default="<unk>")
    >>> vocab.get_itos()
    ['<pad>', '<unk>', 'a', 'film']
    >>> list(reviews.map(vocab))
    [[2, 1, 3], [2, 1, 3], [2, 3]]
    """
    special = _checked("specials", specials)
    expect_whole("min_freq", min_freq)
    if max_tokens is not None:
        expect_whole("max_tokens", max_tokens)
        if len(special) >= max_tokens:
            raise ValueError(f"max_tokens={max_tokens} leaves no room beside {len(special)} specials")
    if default is not None and default not in special:
        raise ValueError(f"the default {default!r} is none of the specials: add it to them")
    counts: Counter[str] = Counter()
    for item in source:
        if isinstance(item, (str, bytes)):
            raise TypeError(f"each item must be a list of tokens: split {item!r:.60} before, as by .map(str.split)")
        try:
            counts.update(iter(item))  # `update` would add the values of a mapping
        except TypeError:
            raise TypeError(f"each item must be a list of tokens, which are strings, and is {item!r:.60}") from None
    for token in special:
        counts.pop(token, None)
    _expect_strings(counts)
    frequent = sorted((token for token, count in counts.items() if count >= min_freq), key=lambda t: (-counts[t], t))
    frequent = frequent[: None if max_tokens is None else max_tokens - len(special)]
    return Vocab([*special, *frequent] if special_first else [*frequent, *special], default)


def _checked(what: str, tokens: Iterable[str]) -> list[str]:
    """Return tokens as a list; raise for anything but different strings."""
    if isinstance(tokens, str):
        raise TypeError(f"{what} must be a list of strings, and not {tokens!r:.60}")
    checked = [*tokens]
    _expect_strings(checked)
    if twice := [token for token, count in Counter(checked).items() if count > 1]:
        raise ValueError(f"the token {twice[0]!r} comes twice in {what}")
    return checked


def _expect_strings(tokens: Iterable[Any]) -> None:
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"each token must be a string, and one is {token!r:.60}")
