"""Attributes of an operator that belong to a pass, and are part of its state."""

from __future__ import annotations

import base64
import copy
import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import compress
from operator import length_hint
from typing import Any, TypeVar

from ..errors.notes import add_note
from ..errors.secrets import short as _short

T = TypeVar("T")

_BEYOND = 2**62
"""More items than any pass has."""

_NUMBERS = (int, float)
_SCALARS = {int, float, str, bool, type(None)}
_BYTES = "bytes in base64"
"""The only key of a dict that stands for bytes, since states are JSON."""

_DEEPEST = 100
"""Nested lists and dicts: half of what a state allows, since the state contains these."""


class NotPlain(TypeError):
    """An operator keeps a value that a state cannot hold.

    Automatic snapshots are skipped then; a state uses the one before.
    """


class Tally:
    """Counts the items of an iterator in C: `compress` takes one number per item.

    >>> tally = Tally()
    >>> list(tally.follow("abc")), tally.items
    (['a', 'b', 'c'], 3)
    """

    def __init__(self, items: int = 0) -> None:
        self._numbers = iter(range(items + 1, _BEYOND))

    def follow(self, iterator: Iterable[T]) -> Iterator[T]:
        """Return an iterator over the same items that counts them here."""
        return compress(iterator, self._numbers)

    @property
    def items(self) -> int:
        """The number of items counted."""
        return _BEYOND - 1 - length_hint(self._numbers)


class StateField:
    """An attribute that belongs to a pass, made by `own`."""

    def __init__(self, default: Any, saved: bool, save: Callable[[Any], Any] | None) -> None:
        self.default = default
        self.saved = saved
        self._save = save
        self.name = "an attribute of a pass"

    def __set_name__(self, cls: type, name: str) -> None:
        self.name = f"{cls.__name__}.{name}"

    def __get__(self, pipe: object, cls: type | None = None) -> Any:
        # Reached only before the first pass, while the pipe has no value.
        return self if pipe is None else self.fresh()

    def fresh(self) -> Any:
        """Return the value with which a pass begins."""
        default = self.default
        return default() if callable(default) else default if type(default) in _SCALARS else copy.copy(default)

    def save(self, value: Any) -> Any:
        """Return a copy of a value as plain data; raise `NotPlain` if that is impossible."""
        plain = self._plain(value)
        if not self.expect(plain):
            raise NotPlain(
                f"{self.name} is {_short(plain)}, of type {type(plain).__name__}, and began as {self._example!r}: in "
                "states it keeps its type; what may be of any type begins as None"
            )
        return plain

    def load(self, value: Any) -> Any:
        """Return the value that `save` saved; the result of an operator's `save` function stays plain data."""
        return Tally(value) if self.default is Tally else _loaded(value)

    def expect(self, value: Any) -> bool:
        """Say whether a value may be what `save` returned."""
        if self.default is Tally:
            return type(value) is int and 0 <= value < _BEYOND
        example = self._example
        if type(example) in _NUMBERS:
            return type(value) in _NUMBERS
        return example is None or type(_bytes_or(value)) is type(_bytes_or(example))

    @functools.cached_property
    def _example(self) -> Any:
        try:
            return self._plain(self.fresh())
        except Exception:  # the operator's `save` function may fail on the default value
            return None

    def _plain(self, value: Any) -> Any:
        if self._save is not None:
            try:
                value = self._save(value)
            except Exception as error:
                add_note(error, f"in save of {self.name}, which own(…, save=…) declares, of {_short(value)}")
                raise
        return value.items if isinstance(value, Tally) else _plain_copy(value, self.name)


def own(default: Any, *, saved: bool = True, save: Callable[[Any], Any] | None = None) -> Any:
    """Declare an attribute that belongs to a pass, in the body of an operator's class.

    A new pass sets the default, or the result of calling it if it is a function such as `list`. A resumed pass sets
    the value from the state. States hold plain data: numbers, strings, bytes, lists, dicts with string keys, and a
    `Tally` as its number; integers have 64 bits. The value keeps the type of its default, unless that is None.
    `save(value)` converts other values to plain data, with which a resumed pass goes on. With `saved=False` states
    omit the attribute. Pickles and copies always omit it.

    >>> import penstock as ps
    >>> class Counter(ps.IterDataPipe):
    ...     resumes_from_start = False
    ...     count: int = ps.own(0)
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for item in self.source:
    ...             self.count += 1
    ...             yield self.count, item
    >>> ps.check_operator(lambda: Counter(ps.iter.IterableWrapper("abc")))
    """
    return StateField(default, saved, save)


def fields_of(cls: type) -> dict[str, StateField]:
    """Return the attributes of a class, and of its bases, that belong to a pass."""
    names = [name for base in reversed(cls.__mro__) for name in _names_of_own(base)]
    # A subclass may have replaced it.
    found = {name: next(vars(base)[name] for base in cls.__mro__ if name in vars(base)) for name in names}
    return {name: value for name, value in found.items() if isinstance(value, StateField)}


def _names_of_own(cls: type) -> Iterable[str]:
    known: Iterable[str] | None = vars(cls).get("_state_fields")  # cached for pipes, which have many methods
    return [name for name, value in vars(cls).items() if isinstance(value, StateField)] if known is None else known


def _plain_copy(value: Any, name: str, depth: int = 0) -> Any:
    if type(value) in _SCALARS:
        if type(value) is int:
            _expect_64_bits(value, name)
        return value
    if type(value) is bytes:
        return {_BYTES: base64.b64encode(value).decode()}
    if depth == _DEEPEST:
        raise NotPlain(f"{name} has more than {depth} lists and dicts in each other: {_short(value)}")
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain_copy(part, name, depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        types = {*map(type, value)}
        if types <= _SCALARS:  # fast path, in C: there may be many
            numbers = value if types == {int} else [part for part in value if type(part) is int]
            for extreme in (min(numbers), max(numbers)) if numbers else ():
                _expect_64_bits(extreme, name)
            return [*value]
        return [_plain_copy(part, name, depth + 1) for part in value]
    raise NotPlain(
        f"{name} has {_short(value)}, of type {type(value).__name__}, and states hold plain data: "
        "numbers, text, bytes, truth values, None, lists, and dicts with text for keys; own(…, save=…) converts it"
    )


def _loaded(value: Any) -> Any:
    """Return a copy of plain data, with bytes where these were saved."""
    if isinstance(value, dict):
        found = _bytes_or(value)
        return {key: _loaded(part) for key, part in value.items()} if found is value else found
    if isinstance(value, (list, tuple)):
        return [*value] if {*map(type, value)} <= _SCALARS else [*map(_loaded, value)]
    return value


def _bytes_or(value: Any) -> Any:
    """Return the bytes that a value of a state stands for, or the value itself."""
    if isinstance(value, dict) and value.keys() == {_BYTES} and isinstance(value[_BYTES], str):
        with suppress(ValueError):  # damaged: no bytes
            return base64.b64decode(value[_BYTES], validate=True)
    return value


def _expect_64_bits(number: int, name: str) -> None:
    if not -(2**63) <= number < 2**64:
        raise NotPlain(f"{name} has {_short(number)}, and states hold integers of 64 bits")
