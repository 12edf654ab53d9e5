"""Choose, drop and rearrange fields: positions of a tuple or list, keys of a dict."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import compress
from typing import Any

from ...registry import IterDataPipe, functional_datapipe
from ..bases.input_columns import Columns, as_list
from ..bases.one_to_one import OneToOne
from ..columns.schema import schema_with


@functional_datapipe("drop")
class Dropper(OneToOne[Any]):
    """Yield each item without some of its fields.

    `indices` is an index of a tuple or list (negative from the end), a key of a dict, or a list of these. The outputs
    are tuples, lists and dicts; named tuples become plain ones. A field that an item lacks gives a warning.

    Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

    >>> dp = IterableWrapper([("a", 1, 2), ("b", 3, 4)]).drop(1)
    >>> list(dp)
    [('a', 2), ('b', 4)]
    >>> list(IterableWrapper([{"text": "one", "id": 1, "url": "…"}]).drop(["id", "url"]))
    [{'text': 'one'}]
    """

    gives = "same"

    def __init__(self, source: IterDataPipe[Any], indices: Columns) -> None:
        _expect_fields("indices", indices)
        self.source = source
        self.indices = indices

    def schema_after(self, schema: Any) -> Any:
        """Return the schema of dicts from a source with some schema."""
        return _schema_of_dicts(schema, self.indices, keep=False)

    def _function(self) -> Callable[[Any], Any]:
        return _choosing(self.indices, keep=False)


@functional_datapipe("slice")
class Slicer(OneToOne[Any]):
    """Yield some of the fields of each item: those from `index` up to `stop`, or those in a list.

    With a number as `index`, a tuple or list becomes `item[index:stop:step]`; without `stop`, up to its end. For a
    dict, `index` is the key of the one field that stays. With a list of indices (negative from the end) or keys, those
    fields stay, in the order of the item, and `stop` and `step` have no effect. The outputs are tuples, lists and
    dicts; named tuples become plain ones. A field that an item lacks gives a warning.

    Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

    >>> dp = IterableWrapper([("a", 1, 2), ("b", 3, 4)]).slice(0, 2)
    >>> list(dp)
    [('a', 1), ('b', 3)]
    >>> list(IterableWrapper([{"text": "one", "id": 1, "url": "…"}]).slice(["text", "id"]))
    [{'text': 'one', 'id': 1}]
    """

    gives = "same"

    def __init__(
        self,
        source: IterDataPipe[Any],
        index: Columns | None,
        stop: int | None = None,
        step: int | None = None,
    ) -> None:
        _expect_fields("index", index)
        if isinstance(index, (list, tuple)) and (stop is not None or step is not None):
            warnings.warn("stop and step are ignored with a list of indices", stacklevel=3)
        self.source = source
        self.index = index
        self.stop = stop
        self.step = step

    def schema_after(self, schema: Any) -> Any:
        """Return the schema of dicts from a source with some schema."""
        return _schema_of_dicts(schema, self.index, keep=True)

    def _function(self) -> Callable[[Any], Any]:
        choose = _choosing(self.index, keep=True)
        if isinstance(self.index, (list, tuple)):
            return choose
        cut: Any = slice(self.index, self.stop, self.step)
        return lambda item: item[cut] if isinstance(item, (tuple, list)) else choose(item)


@functional_datapipe("flatten")
class Flattener(OneToOne[Any]):
    """Yield each item with nested tuples, lists and dicts replaced by their fields, one level deep.

    Tuples and lists are flattened into a tuple or list, and dicts into a dict. `indices` is an index (negative from the
    end), a key, or a list of these; without it, all nested fields are flattened. Other fields stay as they are. Where a
    dict gets a key twice, the first value stays. That gives a warning, as does a field that an item lacks. The outputs
    are tuples, lists and dicts; named tuples become plain ones.

    Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

    >>> dp = IterableWrapper([(0, (1, 2), [3]), (4, (5, 6), [7])]).flatten()
    >>> list(dp)
    [(0, 1, 2, 3), (4, 5, 6, 7)]
    >>> list(IterableWrapper([{"id": 1, "image": {"width": 2, "height": 3}}]).flatten("image"))
    [{'id': 1, 'width': 2, 'height': 3}]
    """

    gives = "same"

    def __init__(self, source: IterDataPipe[Any], indices: Columns | None = None) -> None:
        _expect_fields("indices", indices)
        self.source = source
        self.indices = indices

    def _function(self) -> Callable[[Any], Any]:
        names = None if self.indices is None else frozenset(as_list(self.indices))

        @lru_cache(maxsize=64)
        def places_in(length: int) -> list[int]:
            """Return the positions to flatten, last first, so earlier positions stay valid."""
            chosen = [True] * length if names is None else _chosen_places(names, length)
            return [*compress(range(length), chosen)][::-1]

        def flatten(item: Any) -> Any:
            if isinstance(item, (tuple, list)):
                flat = [*item]
                for place in places_in(len(item)):
                    if isinstance(flat[place], (tuple, list)):
                        flat[place : place + 1] = flat[place]
                return tuple(flat) if isinstance(item, tuple) else flat
            _expect_dict(item)
            if names is not None and not item.keys() >= names:
                _warn_of_missing(names, item)
            return _flat_dict(item, item if names is None else names)

        return flatten


@functional_datapipe("rows2columnar")
class Rows2Columnar(OneToOne[dict[Any, list[Any]]]):
    """Yield a dict of columns for each batch of rows: the list of the rows' values under each column's name.

    A row is a dict, or a tuple or list with its values in the order of `column_names`. For dicts, `column_names`
    selects keys, and may be a set; without it all keys are taken, and rows that lack a key are skipped in that column,
    so columns may differ in length.

    Raises KeyError for a dict that lacks one of `column_names`, and ValueError for a tuple or list without
    `column_names`, with a set of them, or with another number of values.

    >>> dp = IterableWrapper([[{"a": 1, "b": 2}, {"a": 3, "b": 4}]]).rows2columnar()
    >>> list(dp)
    [{'a': [1, 3], 'b': [2, 4]}]
    >>> list(IterableWrapper([[(1, 2), (3, 4)]]).rows2columnar(["a", "b"]))
    [{'a': [1, 3], 'b': [2, 4]}]
    """

    gives = "batches"

    def __init__(
        self, source: IterDataPipe[Any], column_names: Sequence[Hashable] | Set[Hashable] | None = None
    ) -> None:
        if isinstance(column_names, str) or not isinstance(column_names, (Sequence, Set, type(None))):
            raise TypeError(f"column_names must be a list of names, and is {column_names!r:.100}")
        if column_names and len({*column_names}) < len(column_names):
            raise ValueError(f"column_names has a name twice: {column_names!r:.100}")
        self.source = source
        self.column_names = column_names

    def _output(self, batch: Iterable[Any]) -> dict[Any, list[Any]]:
        in_order = () if isinstance(self.column_names, Set) else self.column_names or ()
        rows = [row if type(row) is dict else _as_dict(row, in_order) for row in batch]
        names = in_order or sorted(self.column_names or (), key=repr)  # of a set, the same order in each process
        if not names:
            columns: dict[Any, list[Any]] = {}
            for row in rows:
                for name, value in row.items():
                    columns.setdefault(name, []).append(value)
            return columns
        try:
            return {name: [row[name] for row in rows] for name in names}
        except KeyError as error:
            row = next(row for row in rows if error.args[0] not in row)
            raise KeyError(f"a row has no {error}: it has {', '.join(map(repr, row))}") from None


def _expect_fields(name: str, columns: Any) -> None:
    """Raise TypeError unless each of the columns can be an index or a key."""
    if any(isinstance(column, slice) or not isinstance(column, Hashable) for column in as_list(columns)):
        raise TypeError(f"{name} must be an index or key, or a list of them, and is {columns!r:.100}")


def _expect_dict(item: object) -> None:
    if not isinstance(item, (dict, Mapping)):
        raise TypeError(f"only tuples, lists and dicts have fields, and the item is of type {type(item).__name__}")


def _choosing(columns: Columns, keep: bool) -> Callable[[Any], Any]:
    """Return a function of an item that keeps the named fields, or all others."""
    names = frozenset(as_list(columns))

    @lru_cache(maxsize=64)
    def kept_of(length: int) -> list[bool]:
        return [chosen is keep for chosen in _chosen_places(names, length)]

    def choose(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(compress(item, kept_of(len(item))))
        if isinstance(item, list):
            return [*compress(item, kept_of(len(item)))]
        _expect_dict(item)
        kept = {name: value for name, value in item.items() if (name in names) is keep}
        if (len(kept) if keep else len(item) - len(kept)) < len(names):
            _warn_of_missing(names, item)
        return kept

    return choose


def _schema_of_dicts(schema: Any, columns: Columns | None, keep: bool) -> Any:
    """Return an Arrow schema with the fields that `_choosing` keeps of a dict."""
    names = as_list(columns)
    return schema_with(schema, {name: name for name in schema.names if (name in names) is keep})


def _chosen_places(names: frozenset[Any], length: int) -> list[bool]:
    """Return, for each position of a tuple or list, whether it is named; warn of missing ones."""
    chosen = [False] * length
    for name in names:
        try:
            place = operator.index(name)
        except TypeError:
            raise TypeError(f"the fields of a tuple or list have numbers, and {name!r:.100} is not one") from None
        if -length <= place < length:
            chosen[place] = True
        else:
            warnings.warn(f"an item has {length} fields, and none is number {place}", stacklevel=2)
    return chosen


def _warn_of_missing(names: frozenset[Any], item: Mapping[Any, Any]) -> None:
    missing = ", ".join(sorted(map(repr, names - item.keys())))
    warnings.warn(f"an item lacks fields that were named: {missing:.200}", stacklevel=2)


def _flat_dict(item: Mapping[Any, Any], names: Any) -> dict[Any, Any]:
    flat: dict[Any, Any] = {}
    for name, value in item.items():
        to_flatten = name in names and isinstance(value, (dict, Mapping))
        for key, inner in value.items() if to_flatten else ((name, value),):
            if flat.setdefault(key, inner) is not inner:
                warnings.warn(f"a flattened item has the key {key!r:.100} twice: the first one stays", stacklevel=2)
    return flat


def _as_dict(row: Any, names: Sequence[Hashable]) -> dict[Any, Any]:
    """Return a row as a plain dict: a look-up in a defaultdict would add keys."""
    if isinstance(row, Mapping):
        return {**row}
    if not isinstance(row, (tuple, list)):
        raise TypeError(f"a row must be a dict, tuple or list, and is of type {type(row).__name__}")
    if not names:
        kind = type(row).__name__
        raise ValueError(f"a row is a {kind}, which does not name its values: give column_names as a list")
    if len(row) != len(names):
        raise ValueError(f"a row has {len(row)} values, and column_names has {len(names)} names")
    return dict(zip(names, row, strict=True))
