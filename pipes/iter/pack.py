"""Pack sequences of tokens to a fixed length."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import chain, count, repeat, starmap
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from ...registry import IterDataPipe, Reading, expect_whole, functional_datapipe, own
from ..columns.rows_or_batches import gives_batches, is_table

_OF_BATCHES = "pack takes a document as one item, and this is a batch of them: put .rows() before"
_ARRAYS = (torch.Tensor, np.ndarray)
_ADDED = ("document_ids", "position_ids", "cu_seqlens")


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

    With `method="greedy"`, sequences are concatenated and cut at every `length` tokens. Only the last pack has padding.
    A sequence may continue in the next pack, as a new sequence with its own ids there. With `"best_fit"`, none is cut:
    each goes into the open pack that it fills best, or into a new one. If `buffer_size` packs are open by then, the
    oldest is yielded first. A sequence longer than `length` is an error; `overlong="split"` cuts it into several,
    `"truncate"` keeps its beginning. Empty sequences are dropped.

    Raises TypeError for items that are not such sequences, are batches of them, or differ in kind or dtype in one pack,
    and ValueError for a dict whose sequences differ in length, and for a sequence that is too long.

    >>> dp = IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4)
    >>> for pack in dp:
    ...     print(pack["tokens"], pack["document_ids"], pack["position_ids"])
    [1, 2, 3, 4] [1, 1, 1, 2] [0, 1, 2, 0]
    [5, 6, 0, 0] [1, 2, 0, 0] [0, 0, 0, 1]
    >>> [pack["tokens"] for pack in IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4, "best_fit")]
    [[1, 2, 3, 6], [4, 5, 0, 0]]
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
        length: int,
        method: Literal["greedy", "best_fit"] = "greedy",
        *,
        pad_value: float | Mapping[str, float] = 0,
        overlong: Literal["raise", "split", "truncate"] = "raise",
        buffer_size: int = 100,
        cu_seqlens: bool = False,
    ) -> None:
        expect_whole("length", length)
        if method not in ("greedy", "best_fit"):
            raise ValueError(f"method must be 'greedy' or 'best_fit', and is {method!r}")
        if overlong not in ("raise", "split", "truncate"):
            raise ValueError(f"overlong must be 'raise', 'split' or 'truncate', and is {overlong!r}")
        if overlong != "raise" and method == "greedy":
            raise ValueError("overlong is for method='best_fit': greedy cuts sequences of any length")
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.length = length
        self.method = method
        self.pad_value = pad_value
        self.overlong = overlong
        self.buffer_size = buffer_size
        self.cu_seqlens = cu_seqlens
        self._dicts_are_batches = gives_batches(source) is True

    def most_held(self) -> int:
        return self.buffer_size if self.method == "best_fit" else 1

    def __iter__(self) -> Iterator[dict[str, Any]]:
        items = self.read(self.source)
        self._take_up(items)
        packs, rest = self.packs, self.rest
        # The first piece of a pack is the oldest.
        items.keep_from(lambda: next((pack[0].number for pack in (*packs.values(), rest) if pack), None))
        pieces = chain([*rest], starmap(self._piece, items))
        packed = self._greedy(pieces) if self.method == "greedy" else self._best_fit(pieces)
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

    def _piece(self, number: int, item: Any) -> _Piece:
        columns = self._columns(item)
        length = len(next(iter(columns.values())))
        if self.method == "best_fit" and length > self.length:
            if self.overlong == "raise":
                raise ValueError(
                    f"a sequence of {length} tokens does not fit into a pack of {self.length}: overlong='split' "
                    "cuts it into several, overlong='truncate' cuts it off"
                )
            length = length if self.overlong == "split" else self.length
        return _Piece(number, columns, 0, length)

    def _columns(self, item: Any) -> dict[str, Any]:
        if self._dicts_are_batches and isinstance(item, Mapping):
            raise TypeError(_OF_BATCHES)
        return _columns(item)

    def _greedy(self, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
        """Concatenate the pieces, and yield each full pack."""
        packs, cut_off = self.packs, self.rest
        pack = packs.setdefault(0, [])
        room = self.length - sum(piece.length for piece in pack)
        for whole in pieces:
            rest = whole
            while rest.length >= room:
                cut = rest.start + room
                pack.append(rest._replace(stop=cut))
                rest = rest._replace(start=cut)
                full, pack, room = pack, [], self.length
                packs[0], cut_off[:] = pack, [rest] if rest.length else []
                yield full
            if rest.length:
                pack.append(rest)
                room -= rest.length
            cut_off.clear()
        if not pack:
            del packs[0]

    def _best_fit(self, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
        """Put each piece into the open pack with the least sufficient room; yield each full or too old pack."""
        packs, cut_off = self.packs, self.rest
        rooms = [(self.length - sum(piece.length for piece in pack), name) for name, pack in packs.items()]
        rooms.sort()
        names = count(max(packs, default=-1) + 1)
        for whole in pieces:
            rest = whole
            while rest.length >= self.length:
                cut = rest.start + self.length
                full, rest = [rest._replace(stop=cut)], rest._replace(start=cut)
                cut_off[:] = [rest] if rest.length else []
                yield full
            cut_off.clear()
            if not rest.length:
                continue
            best = bisect_left(rooms, (rest.length, -1))
            too_old: list[_Piece] = []
            if best < len(rooms):
                room, name = rooms.pop(best)
            else:
                if len(packs) == self.buffer_size:
                    oldest = next(iter(packs))
                    too_old = packs.pop(oldest)
                    rooms.remove((self.length - sum(piece.length for piece in too_old), oldest))
                room, name = self.length, next(names)
            packs.setdefault(name, []).append(rest)
            if room > rest.length:
                insort(rooms, (room - rest.length, name))
            done = too_old if room > rest.length else packs.pop(name)
            if done:
                yield done

    def _joined(self, pieces: list[_Piece]) -> dict[str, Any]:
        """Join the pieces of a pack into the dict to yield."""
        kinds = _kinds(pieces[0].columns)
        for piece in pieces:
            if _kinds(piece.columns) != kinds:
                raise TypeError(
                    f"the sequences of one pack must be alike, and are {_layout(kinds)} and "
                    f"{_layout(_kinds(piece.columns))}"
                )
        lengths = [piece.length for piece in pieces]
        padding = self.length - sum(lengths)
        pack: dict[str, Any] = {}
        for name in kinds:
            pad_value = self.pad_value.get(name, 0) if isinstance(self.pad_value, Mapping) else self.pad_value
            pack[name] = _concatenated(
                [piece.columns[name][piece.start : piece.stop] for piece in pieces], padding, pad_value
            )
        like = next(iter(pack.values()))
        runs = [*lengths, padding] if padding else lengths
        ids = [*range(1, len(lengths) + 1), 0] if padding else range(1, len(lengths) + 1)
        pack["document_ids"] = _as(like, np.repeat(np.array(ids), runs))
        pack["position_ids"] = _as(like, np.concatenate([np.arange(run) for run in runs]))
        if self.cu_seqlens:
            pack["cu_seqlens"] = _as(like, np.cumsum([0, *runs], dtype=np.int32))
        return pack


def _columns(item: Any) -> dict[str, Any]:
    """Return the sequences of an item by name; raise for other values, and for different lengths."""
    # An array is asked first: looking up whether it is a Mapping costs as much as all else here.
    is_one = isinstance(item, _ARRAYS) or not isinstance(item, Mapping)
    columns: dict[str, Any] = {"tokens": item} if is_one else dict(item)
    for name, sequence in columns.items():
        if name in _ADDED:
            raise ValueError(f"pack adds {name!r}, which the item already has: drop or rename it")
        if isinstance(sequence, _ARRAYS) and sequence.ndim == 1:
            continue
        if is_table(sequence) or (isinstance(sequence, (list, tuple)) and sequence and _is_sequence(sequence[0])):
            raise TypeError(_OF_BATCHES)
        if not isinstance(sequence, (list, tuple)) and getattr(sequence, "ndim", None) != 1:
            raise TypeError(
                "pack reads sequences of tokens, that is lists, or NumPy arrays or tensors of one dimension, or dicts "
                f"of these, and {name!r} is {sequence!r:.100}"
            )
    if len(columns) != 1 and len({*map(len, columns.values())}) != 1:
        raise ValueError(
            f"the sequences of an item must have the same length: {[*columns]} have {[*map(len, columns.values())]}"
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


def _concatenated(parts: list[Any], padding: int, pad_value: float) -> Any:
    if isinstance(parts[0], torch.Tensor):
        return torch.cat([*parts, parts[0].new_full((padding,), pad_value)])
    if isinstance(parts[0], np.ndarray):
        return np.concatenate([*parts, np.full(padding, pad_value, parts[0].dtype)])
    return [*chain.from_iterable(parts), *repeat(pad_value, padding)]


def _as(like: Any, numbers: np.ndarray[Any, Any]) -> Any:
    """Return numbers as a tensor, array or list, the kind of `like`."""
    if isinstance(like, torch.Tensor):
        return torch.from_numpy(numbers)
    return numbers if isinstance(like, np.ndarray) else numbers.tolist()
