"""Pack sequences of tokens to a fixed length."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import chain, count
from operator import le, sub
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from ...errors.checks import expect_one_of
from ...registry import IterDataPipe, Reading, expect_whole, functional_datapipe, own
from ..columns.rows_or_batches import gives_batches, is_table

_OF_BATCHES = "pack takes a document as one item, and this is a batch of them: put .rows() before"
_ARRAYS = (torch.Tensor, np.ndarray)
_ADDED = ("document_ids", "position_ids", "cu_seqlens")
_Opening = tuple[int, int, tuple[int, ...]]
"""An open pack: its rank, of which the least that has room is taken, its name, and its room for each length."""


class _Piece(NamedTuple):
    """A part of the sequence of item `number`, from `start` to before `stop`."""

    number: int
    columns: dict[str, Any]
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


def _cuts(pieces: list[_Piece]) -> list[list[int]]:
    return [[piece.number, piece.start, piece.stop] for piece in pieces]


@functional_datapipe("pack")
class Packer(IterDataPipe[dict[str, Any]]):
    """Yield sequences of tokens packed to exactly `length` tokens, as a dict that keeps the boundaries.

    An item is a sequence of tokens: a list, or a NumPy array or tensor of one dimension. A pack has

    - `tokens`: `length` tokens of several sequences, of the kind and dtype of theirs, and after them `pad_value`
    - `document_ids`: for each token the number of its sequence in the pack, from 1, and 0 where it is padding
    - `position_ids`: for each token its place in its sequence, from 0; padding counts as a sequence here
    - `cu_seqlens`, if asked for: where the sequences begin, padding included, and then `length`, as int32: the offsets
      that variable-length attention expects. Packs have various numbers of them, so they do not stack.

    An item may also be a dict of sequences of equal length, such as `{"input_ids": …, "labels": …}`. They are packed
    alike, under their names; `pad_value` can then be a dict, with 0 for missing names. Batches of columns need `rows`
    before, as after `read_json` or `map_batches`.

    With `method="greedy"`, sequences are concatenated and cut at every `length` tokens. Only the last pack has padding,
    and `drop_last=True` drops it.
    A sequence may continue in the next pack, as a new sequence with its own ids there. With `"first_fit"`, none is cut:
    each goes into the oldest open pack that has room, and with `"best_fit"` into the one that it fills best; otherwise
    into a new one. If `buffer_size` packs are open by then, the oldest is yielded first. A sequence longer than
    `length` is an error; `overlong="split"` cuts it into several, `"truncate"` keeps its beginning. Empty sequences are
    dropped.

    For a dict of sequences that differ in length, `length` is a dict too: `{"inputs": 8, "targets": 4}`, with the names
    that the items have. An item goes into a pack where all its sequences fit, and a pack is full once one of its
    sequences is. Each name has ids of its own, such as `inputs_document_ids` and `inputs_position_ids`; an item has the
    same number in all. Only `"first_fit"` and `"best_fit"` take such lengths, and the latter compares the sum of the
    room. They cut no sequence: `overlong="split"` is an error.

    `bos` and `eos` are tokens to put before and after each sequence, first of all: they count for all lengths and ids,
    and `"truncate"` cuts off `eos`. For dicts they are one token for all sequences, or a dict of one for each; of those
    that share a length, all get one, such as `bos={"input_ids": 1, "labels": -100}`. With `repeat_bos`, the rest of a
    sequence that was cut begins with `bos` again, so that every pack does.

    Raises TypeError for items that are not such sequences, are batches of them, or differ in kind or dtype in one pack,
    and ValueError for a dict whose sequences differ in length without a length for each, or has other names than
    `length`, and for a sequence that is too long.

    >>> dp = IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4)
    >>> for pack in dp:
    ...     print(pack["tokens"], pack["document_ids"], pack["position_ids"])
    [1, 2, 3, 4] [1, 1, 1, 2] [0, 1, 2, 0]
    [5, 6, 0, 0] [1, 2, 0, 0] [0, 0, 0, 1]
    >>> [pack["tokens"] for pack in IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4, "best_fit")]
    [[1, 2, 3, 6], [4, 5, 0, 0]]
    >>> [pack["tokens"] for pack in IterableWrapper([[11, 12, 13], [14]]).pack(4, bos=1, eos=2, repeat_bos=True)]
    [[1, 11, 12, 13], [1, 2, 1, 14], [1, 2, 0, 0]]
    """

    buffers = ("buffer_size",)
    buffered = "packs"
    gives = "rows"
    resumes_from_start = False
    packs: dict[int, list[_Piece]] = own(dict, save=lambda packs: [_cuts(pack) for pack in packs.values()])
    """The open packs, oldest first. States have the pieces of each, without the tokens."""
    rest: list[_Piece] = own(list, save=_cuts)
    """The rest of a sequence that was cut."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        length: int | Mapping[str, int],
        method: Literal["greedy", "first_fit", "best_fit"] = "greedy",
        *,
        bos: int | Mapping[str, int] | None = None,
        eos: int | Mapping[str, int] | None = None,
        repeat_bos: bool = False,
        pad_value: float | Mapping[str, float] = 0,
        overlong: Literal["raise", "split", "truncate"] = "raise",
        buffer_size: int = 100,
        cu_seqlens: bool = False,
        drop_last: bool = False,
    ) -> None:
        lengths = length if isinstance(length, Mapping) else {"": length}
        for name, number in lengths.items():
            expect_whole(f"length[{name!r}]" if name else "length", number)
        expect_one_of("method", method, "greedy", "first_fit", "best_fit")
        expect_one_of("overlong", overlong, "raise", "split", "truncate")
        if overlong != "raise" and method == "greedy":
            raise ValueError("overlong is for 'first_fit' and 'best_fit': greedy cuts sequences of any length")
        if isinstance(length, Mapping) and (not length or method == "greedy" or overlong == "split"):
            raise ValueError(
                "with a length for each name, no sequence is cut: give at least one name, method='first_fit' or "
                "'best_fit', and not overlong='split'"
            )
        if drop_last and method != "greedy":
            raise ValueError("drop_last is for method='greedy', where only the last pack has padding")
        _expect_tokens("bos", bos)
        _expect_tokens("eos", eos)
        if repeat_bos and (bos is None or length == 1):
            raise ValueError("repeat_bos needs bos, and a length of at least 2, so that a pack has other tokens, too")
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.length = length
        self.method = method
        self.bos = bos
        self.eos = eos
        self.repeat_bos = repeat_bos
        self.pad_value = pad_value
        self.overlong = overlong
        self.buffer_size = buffer_size
        self.cu_seqlens = cu_seqlens
        self.drop_last = drop_last
        self._names = tuple(length) if isinstance(length, Mapping) else ()
        self._lengths = tuple(lengths.values())
        self._added = frozenset(f"{name}_{added}" if name else added for name in lengths for added in _ADDED)
        self._dicts_are_batches = gives_batches(source) is True

    def most_held(self) -> int:
        return 1 if self.method == "greedy" else self.buffer_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        items = self.read(self.source)
        self._take_up(items)
        packs, rest = self.packs, self.rest
        # The first piece of a pack is the oldest.
        items.keep_from(lambda: next((pack[0].number for pack in (*packs.values(), rest) if pack), None))
        pieces = chain([*rest], self._whole(items))
        packed = self._greedy(pieces) if self.method == "greedy" else self._fit(pieces)
        for group in packed:
            yield self._joined(group)
        while packs:
            yield self._joined(packs.pop(next(iter(packs))))

    def _take_up(self, items: Reading[Any]) -> None:
        """Open the packs of the state."""
        groups: Any = [self.rest, *self.packs]
        again = items.again(number for cuts in groups for number, *_ in cuts)
        columns = {number: self._columns(item) for number, item in again.items()}
        self.rest, *packs = [[_Piece(number, columns[number], *cut) for number, *cut in cuts] for cuts in groups]
        self.packs = dict(enumerate(packs))

    def _whole(self, items: Reading[Any]) -> Iterator[_Piece]:
        for number, item in items:
            columns = self._columns(item)
            if longest := max(map(len, columns.values())):
                yield _Piece(number, columns, 0, longest)

    def _columns(self, item: Any) -> dict[str, Any]:
        """Return the sequences of an item by name, as they are packed."""
        if self._dicts_are_batches and isinstance(item, Mapping):
            raise TypeError(_OF_BATCHES)
        columns = _columns(item)
        if not self._added.isdisjoint(columns):
            raise ValueError(f"pack adds {min(self._added & columns.keys())!r}, which the item has: drop or rename it")
        groups = self._groups(columns)
        for _, _, names in groups:
            if len(names) != 1 and len({len(columns[name]) for name in names}) != 1:
                raise ValueError(
                    f"the sequences of an item must have the same length: {names} have "
                    f"{[len(columns[name]) for name in names]}; or give length as a dict, with a length for each name"
                )
        if (self.bos is not None or self.eos is not None) and any(map(len, columns.values())):
            self._surround(columns)
        if self.method != "greedy" and self.overlong != "split":
            for _, most, names in groups:
                self._shorten(columns, most, names)
        return columns

    def _surround(self, columns: dict[str, Any]) -> None:
        """Put `bos` and `eos` around the sequences."""
        for word, token, place in (("bos", self.bos, 0), ("eos", self.eos, 1)):
            if token is None:
                continue
            tokens = token if isinstance(token, Mapping) else dict.fromkeys(columns, token)
            lacking = {} if self._names else columns.keys() - tokens.keys()
            if lacking or not tokens.keys() <= columns.keys():
                raise ValueError(
                    f"{word} is for {[*tokens]}, and the item has {[*columns]}: name those that get it. Where all "
                    "share one length, each gets one, such as -100 for labels"
                )
            for name, number in tokens.items():
                sequence, added = columns[name], _repeated(columns[name], number, 1)
                columns[name] = _concatenated([sequence, added] if place else [added, sequence])

    def _shorten(self, columns: dict[str, Any], most: int, names: list[str]) -> None:
        found = len(columns[names[0]])
        if found <= most:
            return
        if self.overlong == "raise":
            one, split = "a sequence", "overlong='split' cuts it into several, "
            if self._names:
                one, split = repr(names[0]), ""
            raise ValueError(
                f"{one} of {found} tokens does not fit into a pack of {most}: {split}overlong='truncate' cuts it off"
            )
        columns.update({name: columns[name][:most] for name in names})

    def _groups(self, columns: Mapping[str, Any]) -> list[tuple[str, int, list[str]]]:
        """Return each length, with the prefix of the names that are added and the sequences that share it."""
        if not self._names:
            return [("", self._lengths[0], [*columns])]
        if columns.keys() != {*self._names}:
            raise ValueError(f"length is for {[*self._names]}, and the item has {[*columns]}: both need the same names")
        return [(f"{name}_", most, [name]) for name, most in zip(self._names, self._lengths, strict=True)]

    def _sizes(self, piece: _Piece) -> tuple[int, ...]:
        """Return how much of each length a piece takes."""
        if self._names:
            return tuple([len(piece.columns[name]) for name in self._names])
        return (piece.length,)

    def _cut(self, piece: _Piece, most: int) -> tuple[_Piece, list[_Piece]]:
        """Return at most so many tokens of a piece, and the rest if there is one."""
        if piece.length <= most:
            return piece, []
        cut = piece.start + most
        # The last token of the first part is the place where `_tokens` puts BOS before the rest.
        return piece._replace(stop=cut), [piece._replace(start=cut - self.repeat_bos)]

    def _tokens(self, piece: _Piece, name: str) -> list[Any]:
        column = piece.columns[name]
        if self.repeat_bos and piece.start:
            return [column[:1], column[piece.start + 1 : piece.stop]]
        return [column[piece.start : piece.stop]]

    def _greedy(self, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
        """Concatenate the pieces, and yield each full pack."""
        packs, rest, [length] = self.packs, self.rest, self._lengths
        pack = packs.setdefault(0, [])
        room = length - sum(piece.length for piece in pack)
        for whole in pieces:
            rest[:] = [whole]
            while rest:
                piece, rest[:] = self._cut(rest[0], room)
                pack.append(piece)
                room -= piece.length
                if not room:
                    full, pack, room = pack, [], length
                    packs[0] = pack
                    yield full
        if not pack or self.drop_last:
            del packs[0]

    def _fit(self, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
        """Put each piece into the first open pack, or the tightest, that has room; yield each full or too old pack."""
        packs, rest = self.packs, self.rest
        openings = sorted(self._opening(name, pack) for name, pack in packs.items())
        names = count(max(packs, default=-1) + 1)
        for whole in pieces:
            rest[:] = [whole]
            while rest:
                piece, rest[:] = self._cut(rest[0], max(self._lengths))
                sizes = self._sizes(piece)
                place = bisect_left(openings, (self._rank(sizes),))
                while place < len(openings) and not all(map(le, sizes, openings[place][2])):
                    place += 1
                if place < len(openings):
                    _, name, room = openings.pop(place)
                else:
                    name, room = next(names), self._lengths
                packs.setdefault(name, []).append(piece)
                room = tuple(map(sub, room, sizes))
                if all(room):
                    insort(openings, (self._rank(room), name, room))
                    if len(packs) <= self.buffer_size:
                        continue
                    name = next(iter(packs))
                    openings.remove(self._opening(name, packs[name]))
                yield packs.pop(name)

    def _opening(self, name: int, pack: list[_Piece]) -> _Opening:
        room = tuple(map(sub, self._lengths, map(sum, zip(*map(self._sizes, pack), strict=True))))
        return self._rank(room), name, room

    def _rank(self, tokens: tuple[int, ...]) -> int:
        return sum(tokens) if self.method == "best_fit" else 0

    def _joined(self, pieces: list[_Piece]) -> dict[str, Any]:
        """Join the pieces of a pack into the dict to yield."""
        kinds = _kinds(pieces[0].columns)
        for piece in pieces:
            if _kinds(piece.columns) != kinds:
                raise TypeError(
                    f"the sequences of one pack must be alike, and are {_layout(kinds)} and "
                    f"{_layout(_kinds(piece.columns))}"
                )
        pack: dict[str, Any] = {}
        for (prefix, length, names), sizes in zip(
            self._groups(kinds), zip(*map(self._sizes, pieces), strict=True), strict=True
        ):
            padding = length - sum(sizes)
            for name in names:
                parts = [part for piece in pieces for part in self._tokens(piece, name)]
                pad_value = self.pad_value.get(name, 0) if isinstance(self.pad_value, Mapping) else self.pad_value
                pack[name] = _concatenated([*parts, _repeated(parts[0], pad_value, padding)])
            like = pack[names[0]]
            runs = [*sizes, padding] if padding else sizes
            ids = [*range(1, len(sizes) + 1), 0] if padding else range(1, len(sizes) + 1)
            pack[f"{prefix}document_ids"] = _as(like, np.repeat(np.array(ids), runs))
            pack[f"{prefix}position_ids"] = _as(like, np.concatenate([np.arange(run) for run in runs]))
            if self.cu_seqlens:
                pack[f"{prefix}cu_seqlens"] = _as(like, np.cumsum([0, *runs], dtype=np.int32))
        return pack


def _expect_tokens(argument: str, token: int | Mapping[str, int] | None) -> None:
    """Raise TypeError unless an argument is a token, or a dict of tokens by name, or None."""
    if isinstance(token, Mapping):
        for name, number in token.items():
            expect_whole(f"{argument}[{name!r}]", number, least=None)
    else:
        expect_whole(argument, token, least=None, optional=True)


def _columns(item: Any) -> dict[str, Any]:
    """Return the sequences of an item by name; raise for other values."""
    # An array is asked first: looking up whether it is a Mapping costs as much as all else here.
    is_one = isinstance(item, _ARRAYS) or not isinstance(item, Mapping)
    columns: dict[str, Any] = {"tokens": item} if is_one else dict(item)
    for name, sequence in columns.items():
        if isinstance(sequence, _ARRAYS) and sequence.ndim == 1:
            continue
        if is_table(sequence) or (isinstance(sequence, (list, tuple)) and sequence and _is_sequence(sequence[0])):
            raise TypeError(_OF_BATCHES)
        if not isinstance(sequence, (list, tuple)) and getattr(sequence, "ndim", None) != 1:
            raise TypeError(
                "pack reads sequences of tokens, that is lists, or NumPy arrays or tensors of one dimension, or dicts "
                f"of these, and {name!r} is {sequence!r:.100}"
            )
    return columns


def _is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0


def _kinds(columns: dict[str, Any]) -> dict[str, tuple[type, Any]]:
    """Return the type and dtype of each sequence, by name; lists have no dtype."""
    dtypes = {name: getattr(sequence, "dtype", None) for name, sequence in columns.items()}
    return {name: (list if dtype is None else type(columns[name]), dtype) for name, dtype in dtypes.items()}


def _layout(kinds: dict[str, tuple[type, Any]]) -> dict[str, str]:
    return {name: "list" if dtype is None else f"{kind.__name__} of {dtype}" for name, (kind, dtype) in kinds.items()}


def _concatenated(parts: list[Any]) -> Any:
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts)
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [*chain.from_iterable(parts)]


def _repeated(like: Any, value: float, times: int) -> Any:
    """Return a value so many times, as a sequence of the kind and dtype of `like`."""
    if not isinstance(like, _ARRAYS):
        return [value] * times
    repeated = like.new_full((times,), value) if isinstance(like, torch.Tensor) else np.full(times, value, like.dtype)
    if times and (found := float(repeated[0])) == found != value and not abs(found - value) < 0.5:
        raise ValueError(f"{value} is no value of {like.dtype}, the type of the tokens")
    return repeated


def _as(like: Any, numbers: np.ndarray[Any, Any]) -> Any:
    """Return numbers as a tensor, array or list, the kind of `like`."""
    if isinstance(like, torch.Tensor):
        return torch.from_numpy(numbers)
    return numbers if isinstance(like, np.ndarray) else numbers.tolist()
