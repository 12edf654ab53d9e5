"""Names that are no attributes of a pipe: the methods that they stand for, or errors that say what to write."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from ..errors.hints import did_you_mean
from ..state.foreign import registered_with_torch
from .lazy_methods import LazyMethod, method_names
from .registration import Kind, bases, operators, pipe_kind

_KIND_NAMES: dict[Kind, str] = {"iter": "iterable pipe", "map": "map-style pipe"}

_READS_FROM = "what a pipe reads from is its `source`, or its `sources`"
_WINDOW = "use .batch(n) for windows side by side, .pipe(more_itertools.windowed, n) for those that overlap"
_NAMES_OF_OTHERS = {
    "add_column": "use .map(fn) for rows, .map_batches(fn) for batches of columns",
    "apply": ".map(fn) takes each item, .pipe(fn) the stream",
    "cache": "use .in_memory_cache()",
    "chain": "use .concat(other)",
    "column_names": "use .schema().names",
    "columns": "use .schema().names",
    "datapipe": _READS_FROM,
    "datapipes": _READS_FROM,
    "decode": "use .routed_decode()",
    "first": "use .take(1)",
    "head": "use .take(n) for a list, .limit(n) for a chain",
    "ignore_errors": "give on_error='skip' to the step that may fail",
    "interleave": "use .shuffled_flatmap(fn), or .mix(other) for two chains",
    "iter_rows": "use `for row in dp`, after .rows() where items are batches",
    "materialize": "use .in_memory_cache()",
    "merge": "use .join(table, on=…)",
    "num_blocks": "leave it out, or use .rebatch(n) for batches of n rows",
    "num_rows": "use .rows().count() after a reader of columns, else .count()",
    "padded_batch": "use .batch(n), and .collate(fn) with a function that pads",
    "reduce": "use functools.reduce(fn, dp)",
    "repartition": "leave it out, or use .rebatch(n) for batches of n rows",
    "save": "use .write_parquet(…) or .write_tar(…)",
    "select": "use .filter(fn)",
    "set_epoch": "leave it out: each pass is the next epoch",
    "set_seed": "call loader.seed(0), or without a loader set it on a step that draws, as in .shuffle().set_seed(0)",
    "shard": "use .sharding_filter()",
    "shape": "use .rows().count() after a reader of columns, and .schema().names",
    "skip": "use .pipe(itertools.islice, n, None)",
    "size_bytes": "use sum(batch.nbytes for batch in dp) where items are batches of columns",
    "sort": "use penstock.from_items(sorted(dp, key=…)), which holds all items in memory",
    "sort_values": "use penstock.from_items(sorted(dp, key=…)), which holds all items in memory",
    "source_datapipe": _READS_FROM,
    "source_dp": _READS_FROM,
    "split": "use .random_split(weights, seed)",
    "split_at_indices": "use .limit(n) for the first rows, and .pipe(itertools.islice, n, None) for the others",
    "split_proportionately": "use .random_split(weights, seed)",
    "starmap": "use .map(fn, input_col=[0, 1]), with the columns that fn takes",
    "streaming_split": "use .sharding_filter(), and DataLoader2 with a DistributedReadingService on each rank",
    "sum": "use sum(row['x'] for row in dp), after .rows() where items are batches",
    "sliding_window": _WINDOW,
    "take_batch": "use next(iter(dp.iter_batches(n)))",
    "to": "use .to_device(device)",
    "to_iterable_dataset": "use .to_iter_datapipe()",
    "to_list": "use .take_all()",
    "tqdm": "use .progress()",
    "to_pandas": 'use .with_format("pandas") for a data frame of each batch, and pandas.concat of them for one of all',
    "to_torch": "use .iter_torch_batches(batch_size)",
    "union": "use .concat(other)",
    "unique": "use a set of the values, as in {row['label'] for row in dp}, after .rows() where items are batches",
    "with_column": "use .map(fn) for rows, .map_batches(fn) for batches of columns",
    "window": _WINDOW,
    "with_epoch": "use .cycle().header(n)",
}
"""Names in other libraries for what has another name here, and the mend for each."""


def find_method(pipe: Any, name: str) -> Any:
    """Return the method `name` of a pipe that has no such attribute.

    The method is ours for torch's pipes, registered with torch for our pipes, or from a plug-in. Raises AttributeError
    with the nearest names.
    """
    if name.startswith("_"):  # protocols look these up on every object; ours are public
        raise AttributeError(f"{type(pipe).__name__!r} object has no attribute {name!r}", name=name, obj=pipe)
    kind = pipe_kind(type(pipe))
    base = bases[kind]
    theirs = registered_with_torch(base)
    if name not in theirs and name not in vars(base):
        operators.load_plug_ins()
    method = vars(base).get(name)
    if isinstance(method, LazyMethod):
        if isinstance(pipe, base) and inspect.getattr_static(type(pipe), name, None) is not method:
            raise AttributeError(
                f"the {name} of {type(pipe).__name__} raised an AttributeError itself", name=name, obj=pipe
            )
        return method.__get__(pipe)
    if name in theirs and not operators.has_method(kind, name):  # else the program has removed ours
        return functools.partial(theirs[name], pipe)
    raise AttributeError(_no_such_method(pipe, base, name), name=name, obj=pipe)


def _no_such_method(pipe: Any, base: type, name: str) -> str:
    message = f"{type(pipe).__name__!r} object has no attribute {name!r}"
    if name == "source":
        return f"{message}: keep it in the __init__ of {type(pipe).__name__}, as in `self.source = source`"
    kind = pipe_kind(base)
    other: Kind = "map" if kind == "iter" else "iter"
    mend = _NAMES_OF_OTHERS.get(name, "")
    if f"to_{kind}_datapipe" in f"{name} {mend}":
        return f"{message}: it is {'an' if kind == 'iter' else 'a'} {_KIND_NAMES[kind]} already"
    if operators.has_method(other, name):
        return f"{message}, which {_KIND_NAMES[other]}s have: convert it, as in .to_{other}_datapipe().{name}(…)"

    def converted(call: re.Match[str]) -> str:
        has_it = operators.has_method(kind, call[1]) or not operators.has_method(other, call[1])
        return call[0] if has_it else f".to_{other}_datapipe(){call[0]}"

    mend = re.sub(r"(?<![\w)])\.(\w+)\(", converted, mend)
    message += f": {mend}" if mend else _nearest(name, *method_names(base), *registered_with_torch(base))
    for plug_in, error in operators.broken_plug_ins.items():
        message += f"; the plug-in {plug_in!r}, which may have it, could not be loaded: {error!r}"
    return message


@functools.lru_cache(maxsize=256)  # `hasattr` asks for the same names again and again
def _nearest(name: str, *known: str) -> str:
    return did_you_mean(name, [each for each in known if each[0] != "_"])
