"""Join items by key: with those of another pipe, or with the rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...registry import (
    IterDataPipe,
    MapDataPipe,
    OnError,
    Provenance,
    add_error_context,
    expect_whole,
    functional_datapipe,
    own,
    provenance_of,
)
from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ..bases.arguments import expect_names, expect_pipes, how_to_make
from ..bases.input_columns import check_function, keys_by
from ..bases.one_to_one import OneToOne
from ..columns.batch_rows import as_batch, taken, with_columns
from ..columns.look_up import LookUp, key_in_words, table_by
from ..columns.rows_or_batches import gives_batches, is_batch
from ..columns.tensors import column_of, names_of
from ..columns.to_arrow import array_of


@functional_datapipe("zip_with_iter")
class IterKeyZipper(IterDataPipe[Any]):
    """Yield each item of the source together with the item of `ref_datapipe` that has the same key.

    Take it to join two streams of about the same order, and `zip_with_map` where one of them has an index or fits in
    memory. The order is that of the source. `ref_datapipe` is read until the key is found. Items passed over are kept,
    up to `buffer_size` items (None: no limit), until an item of the source needs them. Each is used once; unused ones
    are left out. `key_fn` makes the keys; `ref_key_fn`, by default `key_fn`, those of `ref_datapipe`. The two items
    come as a tuple, or as the result of `merge_fn(item, ref_item)`; with `keep_key`, in a pair after the key.

    `on_error` handles an item for which a function raises, or which has no match.

    Raises KeyError for an item whose key `ref_datapipe` lacks, BufferError where the buffer is full before the key is
    found, and ValueError where a key comes again in `ref_datapipe` before it was used.

    >>> names = IterableWrapper([(2, "b"), (3, "c"), (1, "a")])
    >>> dp = IterableWrapper([1, 2]).zip_with_iter(names, key_fn=int, ref_key_fn=lambda pair: pair[0])
    >>> list(dp)
    [(1, (1, 'a')), (2, (2, 'b'))]
    """

    buffers = ("buffer_size",)
    whole_sources = ("ref_datapipe",)
    resumes_from_start = False
    held: dict[Any, tuple[int, Any]] = own(dict, save=lambda buffer: [number for number, _ in buffer.values()])
    """The buffered items of `ref_datapipe`, with their numbers, by key. States have the numbers."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        ref_datapipe: IterDataPipe[Any],
        key_fn: Callable[[Any], Hashable],
        ref_key_fn: Callable[[Any], Hashable] | None = None,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        expect_pipes("IterKeyZipper", [source, ref_datapipe], TorchIterDataPipe)
        check_function("key_fn", key_fn)
        check_function("ref_key_fn", ref_key_fn, optional=True)
        check_function("merge_fn", merge_fn, [0, 1], optional=True)
        expect_whole("buffer_size", buffer_size, optional=True)
        self.source = source
        self.ref_datapipe = ref_datapipe
        self.key_fn = key_fn
        self.ref_key_fn = ref_key_fn
        self.keep_key = keep_key
        self.buffer_size = buffer_size
        self.merge_fn = merge_fn
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[Any]:
        skips, keep, keep_key = self.error_policy.skips, self.error_policy.keep, self.keep_key
        key_of = keys_by(self.key_fn, self.error_policy)
        merge: Any = self.merge_fn
        merged = self.error_policy.wrap(tuple if merge is None else lambda pair: merge(*pair))
        most = math.inf if self.buffer_size is None else self.buffer_size
        ref_key_of = keys_by(self.ref_key_fn or self.key_fn, self.error_policy)
        ref_items = self.read(self.ref_datapipe)
        numbered_ref_items = iter(ref_items)
        buffer = self.held = {ref_key_of(item): (number, item) for number, item in ref_items.again(self.held).items()}
        ref_items.keep_from(lambda: next((number for number, _ in buffer.values()), None))  # the first is the oldest

        def find(key: Hashable) -> bool:
            """Buffer items of `ref_datapipe` up to the one with the key; return whether it was found."""
            if len(buffer) > most:
                return False
            for numbered in numbered_ref_items:
                try:
                    ref_key = ref_key_of(numbered[1])
                    if skips and not keep(ref_key):
                        continue
                    if ref_key in buffer:
                        text = f"ref_datapipe has the key {ref_key!r} twice, and its first item is not used yet"
                        self.error_policy.refuse(ValueError(text), numbered[1])
                        continue
                except Exception as error:
                    add_error_context(error, self, numbered[1])  # not the item of the source
                    raise
                buffer[ref_key] = numbered
                if ref_key == key:
                    return True
                if len(buffer) > most:
                    break
            return False

        for item in self.source:
            try:
                key = key_of(item)
                if skips and not keep(key):
                    continue
                if key not in buffer and not find(key):
                    self.error_policy.refuse(self._no_match(key, len(buffer) > most), item)
                    continue
                pair = merged((item, buffer.pop(key)[1]))
            except Exception as error:
                add_error_context(error, self, item, provenance_of(self.source))  # not the provenance of `ref_datapipe`
                raise
            if not skips or keep(pair):
                yield (key, pair) if keep_key else pair

    def __len__(self) -> int:
        self._expect_no_skips()
        return len(self.source)

    def _no_match(self, key: Hashable, full: bool) -> Exception:
        if not full:
            return KeyError(f"ref_datapipe has no item with the key {key!r}, or it was used already")
        return BufferError(
            f"ref_datapipe has not yielded an item with the key {key!r}, and {self.buffer_size} items of other keys "
            "are buffered: give a larger buffer_size, or read both pipes in about the same order"
        )


@functional_datapipe("zip_with_map")
class MapKeyZipper(OneToOne[Any]):
    """Yield each item together with the item of a map-style pipe at its key.

    Take it to join with what has an index or fits in memory, and `zip_with_iter` for two streams. `key_fn` makes the
    key or index. The two items come as a tuple, or as the result of `merge_fn(item, found)`; with `keep_key`, in a pair
    after the key. `on_error` handles an item for which a function raises, or whose key is missing.

    Raises KeyError for an item whose key or index `map_datapipe` lacks.

    >>> names = ps.map.SequenceWrapper({1: "a", 2: "b"})
    >>> dp = IterableWrapper([2, 1]).zip_with_map(names, key_fn=int)
    >>> list(dp)
    [(2, 'b'), (1, 'a')]
    """

    def __init__(
        self,
        source: IterDataPipe[Any],
        map_datapipe: MapDataPipe[Any],
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if not isinstance(map_datapipe, TorchMapDataPipe):
            raise TypeError(
                f"map_datapipe must be a map-style pipe, and is of type {type(map_datapipe).__name__}: "
                f"{how_to_make(TorchMapDataPipe, map_datapipe)}"
            )
        check_function("key_fn", key_fn)
        check_function("merge_fn", merge_fn, [0, 1], optional=True)
        self.source = source
        self.map_datapipe = map_datapipe
        self.key_fn = key_fn
        self.merge_fn = merge_fn
        self.keep_key = keep_key
        self.handle_errors(on_error)

    def _function(self) -> Callable[[Any], Any]:
        key_of, items, merge, keep_key = self.key_fn, self.map_datapipe, self.merge_fn, self.keep_key

        def joined(item: Any) -> Any:
            key = key_of(item)
            try:
                found = items[key]
            except (KeyError, IndexError) as error:
                raise KeyError(f"map_datapipe has no item with the key {key!r}, or failed on it: {error!r}") from error
            pair = (item, found) if merge is None else merge(item, found)
            return (key, pair) if keep_key else pair

        return joined


@functional_datapipe("join")
class Joiner(OneToOne[Any]):
    """Yield each column batch, or each row, with the columns of a table at its key.

    Take it for a table that fits in memory, such as labels by name; `zip_with_iter` joins two streams. An item is a
    batch, as `read_parquet` yields, or a row that is a dict. `batched` says which of the two a dict is, as for
    `write_parquet`; without it the chain decides. `table` is a `pyarrow.Table`, a data frame of pandas, a dict of
    columns or a list of rows that are dicts. `on` is the column that both have, or a list of several. The order of the
    rows stays.

    Each row needs its row in the table; without one it is an error. With `how="inner"` such rows are left out, and with
    `how="left"` they have null in the columns of the table. A null is no key, and neither is NaN. Numbers of different
    types compare by value, times with a zone by their instant. A batch gets columns of its own kind: Arrow's, tensors
    or arrays, with text as lists.

    `on_error` handles an item that fails. It cannot be a `Retry`.

    Raises KeyError for a key that the table lacks, and for an item without the column `on`. Raises ValueError where
    item and table have a column of the same name besides, and TypeError for keys of types that do not compare. At
    construction, raises ValueError for a key that the table has twice, KeyError where it lacks the column `on`, and
    TypeError for what is no table.

    >>> labels = {"name": ["a.png", "b.png"], "label": [1, 0]}
    >>> dp = IterableWrapper([{"name": "b.png"}, {"name": "a.png"}]).join(labels, on="name")
    >>> list(dp)
    [{'name': 'b.png', 'label': 0}, {'name': 'a.png', 'label': 1}]
    """

    gives = "same"
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[Any],
        table: Any,
        on: str | Sequence[str],
        *,
        how: Literal["inner", "left"] | None = None,
        batched: bool | None = None,
        on_error: OnError = "raise",
    ) -> None:
        names = [on] if isinstance(on, str) else on
        expect_names(names, "on")
        if not names:
            raise ValueError("on names no column")
        if how not in ("inner", "left", None):
            raise ValueError(f"how must be 'inner', 'left' or None, and is {how!r:.100}")
        self.source = source
        self.table = table_by(table, names)
        self.on = on
        self.how = how
        self.batched = batched
        self._dicts_are_batches = gives_batches(source) if batched is None else batched
        self.handle_errors(on_error, can_retry=False)

    def schema_after(self, schema: Any) -> Any:
        """Return the schema of the items of a source with some schema."""
        for name in self.table.schema.names:
            if name not in schema.names:
                schema = schema.append(self.table.schema.field(name))
        return schema

    def provenance(self) -> Provenance | None:
        found = provenance_of(self.source)
        return found if found is None or self.how != "inner" else found.changed()

    def __iter__(self) -> Iterator[Any]:
        items = super().__iter__()
        return filter(_is_there, items) if self.how == "inner" else items

    def __len__(self) -> int:
        if self.how == "inner":
            raise TypeError("Joiner leaves out rows without a match, so its length is unknown")
        return super().__len__()

    def _function(self) -> Callable[[Any], Any]:
        look_up = LookUp(self.table, [self.on] if isinstance(self.on, str) else self.on)
        others = {*look_up.columns.schema.names}

        def joined(item: Any) -> Any:
            if is_batch(item, self._dicts_are_batches):
                batch = as_batch(item)
                _expect_apart(others, names_of(batch))
                return self._joined_batch(batch, look_up)
            if not isinstance(item, Mapping):
                raise TypeError(f"join takes column batches, and rows that are dicts: this is a {type(item).__name__}")
            _expect_apart(others, item)
            return self._joined_row(item, look_up)

        return joined

    def _joined_row(self, row: Mapping[str, Any], look_up: LookUp) -> Any:
        for name in look_up.on:
            if name not in row:
                raise KeyError(f"the row has no {name!r}: it has {[*row]}")
        key = (*(_plain(row[name]) for name in look_up.on),)
        place = look_up.place(key)
        if place is not None:
            return {**row, **look_up.row(place)}
        if self.how is None:
            raise self._no_match(key)
        return {**row, **dict.fromkeys(look_up.columns.schema.names)} if self.how == "left" else None

    def _joined_batch(self, batch: Any, look_up: LookUp) -> Any:
        keys = [array_of(column_of(batch, name), name) for name in look_up.on]
        places = look_up.places(keys)
        if places.null_count and self.how != "left":
            valid = places.is_valid().to_numpy(zero_copy_only=False)
            if self.how is None:
                row = int(valid.argmin())
                raise self._no_match([key[row].as_py() for key in keys], f"row {row} of the batch: ")
            batch, places = taken(batch, np.flatnonzero(valid)), places.drop_null()
            if not len(places):
                return None
        return with_columns(batch, look_up.columns.take(places))

    def _no_match(self, key: Sequence[Any], where: str = "") -> KeyError:
        on = [self.on] if isinstance(self.on, str) else self.on
        types = ", ".join(f"{name!r} is {self.table.schema.field(name).type}" for name in on)
        return KeyError(
            f"{where}the table has no row with {key_in_words(on, key)}, and its {types}: how='inner' leaves such rows "
            "out, how='left' gives them null"
        )


def _is_there(item: object) -> bool:
    return item is not None


def _plain(value: Any) -> Any:
    """Return a value of a key: NumPy's and torch's numbers as Python's."""
    plain = value.item() if hasattr(value, "item") else value
    is_of_time = isinstance(value, (np.datetime64, np.timedelta64))
    return value if is_of_time and isinstance(plain, int) else plain  # nanoseconds, which Python's times lack


def _expect_apart(others: set[str], names: Iterable[str]) -> None:
    if both := others.intersection(names):
        raise ValueError(
            f"the item and the table both have a column {min(both)!r}: rename it in one of them, or leave it out"
        )
