"""Call a function on batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, Literal

import torch

from ...errors.notes import add_note
from ...registry import ErrorPolicy, IterDataPipe, OnError, add_error_context, expect_whole, functional_datapipe
from ...workers.calls import is_made_once
from ..bases.input_columns import Columns, check_function, one_output_col, replacing_columns
from ..bases.one_to_one import OneToOne
from ..bases.rows.loose_rows import RowGatherer
from ..bases.striding import in_runs
from ..columns.batch_formats import converter, kinds_with_nulls, own_copy, with_nulls
from ..columns.batch_rows import as_batch, dtyped_rows
from ..columns.rows_or_batches import gives_batches, is_table
from ..columns.to_arrow import is_frame, rows_in
from ..columns.writing import columns_of_rows
from .formats import keeping_times
from .map_pool import ModelPoolMapper
from .rebatch import Rebatcher

_ROWS = 1024
"""Rows in a batch where no size is given."""

_ON_VMAP = (
    "vmap runs fn once for a whole batch: that takes tensors whose first dimension is the batch, or the one that "
    "in_dims says, and torch's operations only, without branches on values and .item(). Name the columns that are "
    "tensors with input_col; for functions of another kind there are .map before .batch, and .map_batches"
)


@functional_datapipe("map_batches")
class BatchMapper(IterDataPipe[Any]):
    """Yield all that `fn(batch)` gives, one after another, for each batch of `batch_size` items; the last may be short.

    Take it where `fn` is faster on many items at once. What a batch is follows from the operators before:

    - A list of items, and `fn` returns an iterable of items, of any length, or is a generator function. With
      `input_col`, `fn` takes one list of values for each of these columns; its outputs replace the items.
    - Columns, where the items are column batches, as after `ps.read_parquet` and `ps.from_numpy`, or rows that are
      dicts, as after `ps.read_images` and `ps.from_items`. `fn` gets the columns in a `batch_format`, and may change
      them: `"numpy"`, a dict of arrays, `"torch"`, `"pandas"` or `"arrow"`, as for `with_format`. It returns a dict of
      arrays, tensors and lists, a table or a data frame, or is a generator function of such. Batches in give batches
      out, and rows give rows. Without a `batch_size`, `fn` gets each column batch as it comes, and 1,024 rows.
      In a data frame, null among numbers is NaN. In a data frame that `fn` returns, NaN is null again in columns of
      those names, and numbers that were integers are again, where all of them fit; in other columns NaN stays NaN.

    `concurrency` is the number of processes that call `fn`, in the order of the stream. If `fn` is a class whose
    instances can be called, or a `functools.partial` of one, each process makes one, as for `map_pool`, which does the
    work; without a `concurrency` there is one process. Ray's
    `compute=ActorPoolStrategy(size=2)` means two actors of Ray. `on_error` handles a batch for which `fn` raises.
    A skipped batch counts as one failure.

    Raises TypeError where `fn` returns something else: a dict, text or bytes in place of items, or a list in place of
    columns.

    >>> dp = IterableWrapper(range(5)).map_batches(lambda batch: [sum(batch)], batch_size=2)
    >>> list(dp)
    [1, 5, 4]
    >>> list(IterableWrapper([("a", 1), ("b", 2)]).map_batches(lambda numbers: [max(numbers)], 2, input_col=1))
    [2]
    >>> import penstock as ps
    >>> list(ps.from_items([{"x": 1}, {"x": 2}]).map_batches(lambda batch: {"y": batch["x"] * 10}, batch_size=2))
    [{'y': np.int64(10)}, {'y': np.int64(20)}]
    """

    buffers = ("batch_size",)
    gives: Literal["rows", "batches", "same"] | None = "same"  # type: ignore[misc]  # a pool would hide what comes

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        batch_size: int | None = None,
        input_col: Columns | None = None,
        *,
        batch_format: Literal["numpy", "torch", "pandas", "arrow"] = "numpy",
        concurrency: int | None = None,
        compute: Any = None,
        on_error: OnError = "raise",
    ) -> None:
        batches = gives_batches(source) if input_col is None else None
        pool = _pool_of(fn, concurrency, compute)
        expect_whole("batch_size", batch_size, optional=True)
        if batch_size is None and batches is None:
            raise TypeError("map_batches needs a batch_size: the chain does not say that its items have columns")
        converter("batch_format", batch_format)  # raises for an unknown one
        if not is_made_once(fn):
            check_function("fn", fn, input_col)
        size = batch_size or (_ROWS if batches is False else None)
        call = _CallMaker(fn, input_col, batch_format, batches)
        self.source = keeping_times(source, batch_format) if batches else source
        if batches and size is not None:
            self.source = Rebatcher(self.source, size)
        elif pool and size is not None:
            self.source = RowGatherer(source, size, batched=False)
        if pool:
            self.source = ModelPoolMapper(self.source, call, on_error=on_error, **pool)
        if batches is not None:
            self.gives = "batches" if batches else "rows"
        self.fn = fn
        self.batch_size = batch_size
        self.input_col = input_col
        self.batch_format = batch_format
        self.concurrency = concurrency
        self.compute = compute
        self.on_error = on_error
        self.error_policy = ErrorPolicy("raise" if pool else on_error)
        self._call = None if pool else call()
        self._size = None if pool or batches else size

    def __iter__(self) -> Iterator[Any]:
        if self._call is None:
            return self.outputs_of_each(iter, self.source)
        batches = self.source if self._size is None else in_runs(self.source, self._size)
        return self.outputs_of_each(partial(self._outputs, self.error_policy.outputs(self._call)), batches)

    def _outputs(self, outputs_of: Callable[[Any], Iterable[Any]], batch: Any) -> Iterator[Any]:
        try:
            yield from outputs_of(batch)
        except Exception as error:
            add_error_context(error, self, batch)
            raise


class _CallMaker:
    """Makes a `BatchCall`, here or in a worker; texts show the name of the function."""

    def __init__(self, fn: Any, *arguments: Any) -> None:
        self._arguments = fn, *arguments
        made = fn.func if isinstance(fn, partial) else fn
        self.__qualname__ = getattr(made, "__qualname__", type(made).__qualname__)

    def __call__(self) -> BatchCall:
        return BatchCall(*self._arguments)


class BatchCall:
    """A function of batches, called with lists of items, or with columns; its results are items again.

    `batches` says what the chain declares: column batches (True), rows (False), or nothing (None).
    """

    def __init__(self, fn: Any, input_col: Columns | None, batch_format: str, batches: bool | None) -> None:
        self._fn = fn() if is_made_once(fn) else fn
        self._input_col = input_col
        self._format = batch_format
        self._batches = batches
        self.inference_mode = isinstance(self._fn, torch.nn.Module)
        if self.inference_mode:
            self._fn.eval()

    def __call__(self, batch: Any) -> Iterable[Any]:
        """Return the items that the function makes of a batch."""
        if self._batches:
            return self._of_columns(as_batch(batch), copy=True)
        if self._batches is False and isinstance(batch[0], Mapping):
            return chain.from_iterable(map(dtyped_rows, self._of_columns(columns_of_rows(batch), copy=False)))
        return self._of_items(batch)

    def _of_columns(self, columns: Any, copy: bool) -> Iterable[Any]:
        kinds: dict[str, Any] = {}
        if self._format == "pandas":
            columns = converter("batch_format", "arrow")(columns)
            kinds = kinds_with_nulls(columns)
        batch = converter("batch_format", self._format)(columns)
        outputs = self._fn(own_copy(batch) if copy else batch)
        made = outputs if isinstance(outputs, Iterator) else [outputs]
        return map(partial(_columns_of, kinds=kinds), made)

    def _of_items(self, batch: list[Any]) -> Iterable[Any]:
        if isinstance(self._input_col, (list, tuple)):
            outputs = self._fn(*([item[column] for item in batch] for column in self._input_col))
        else:
            outputs = self._fn(batch if self._input_col is None else [item[self._input_col] for item in batch])
        if isinstance(outputs, (Mapping, str, bytes)):
            raise TypeError(
                f"fn must return a list of items, or another iterable of them, and returned {outputs!r:.100}, a "
                f"{type(outputs).__name__}: batches of columns, as after .to_tensors() or .collate(), are transformed "
                "with .map(fn)"
            )
        return outputs  # type: ignore[no-any-return]


def _columns_of(output: Any, kinds: dict[str, Any]) -> Any:
    """Return an output as a batch; `kinds` are the types of the columns of numbers that had nulls."""
    if not isinstance(output, Mapping) and not is_table(output):
        raise TypeError(
            f"fn gets columns, since the chain gives column batches or rows that are dicts, and must return columns: "
            f"a dict of arrays, tensors or lists, a table or a data frame. It returned {output!r:.100}, of type "
            f"{type(output).__name__}. For a function of a list of items, use .batch(n).map(fn)"
        )
    batch = with_nulls(as_batch(output), kinds) if is_frame(output) else as_batch(output)
    for name, column in batch.items() if isinstance(batch, dict) else ():
        if isinstance(column, (str, bytes, Mapping)):
            raise TypeError(
                f"fn returned one value for the column {name!r}, {column!r:.100}, and must return one for each row, as "
                f"[{column!r:.100}] * rows"
            )
    rows_in(batch)  # raises where lengths differ
    return batch


def _pool_of(fn: object, concurrency: int | None, compute: Any) -> dict[str, Any] | None:
    """Return the arguments of the `map_pool` that calls a function; None where this process does."""
    if compute is None:
        if isinstance(concurrency, (tuple, list)):
            raise TypeError(
                f"concurrency is one number, and is {concurrency!r:.100}: all processes start at once, so give their "
                "number, as in concurrency=2"
            )
        expect_whole("concurrency", concurrency, optional=True)
        return {"workers": concurrency or 1} if concurrency or is_made_once(fn) else None
    if concurrency is not None:
        raise ValueError("give concurrency or compute, not both")
    size = getattr(compute, "max_size", None) or getattr(compute, "size", None)
    if isinstance(size, float):  # Ray's largest pool has an infinite size
        size = compute.min_size
    if not isinstance(size, int):
        raise TypeError(
            f"compute must be an ActorPoolStrategy(size=…), and is {compute!r:.100}: concurrency=2 starts two workers"
        )
    return {"workers": size, "engine": "ray" if type(compute).__module__.startswith("ray.") else "processes"}


@functional_datapipe("vmap")
class Vectorizer(OneToOne[Any]):
    """Yield the results of `fn` for the samples of each collated batch, computed for the whole batch at once.

    Take it for a function of tensors that is written for one sample. The batch is a tensor, or tuples, lists and dicts
    of tensors, as `collate` makes them. The first dimension of each tensor is the batch. `fn` takes a sample, without
    that dimension, and `torch.func.vmap` runs it once for all samples. It returns tensors, or tuples, lists and dicts
    of them; they are yielded with the batch dimension in front. With `input_col` and `output_col`, as for `map`, `fn`
    takes these columns of the batch, and the other columns may be anything.

    `in_dims` gives the batch dimension of the tensors: one for all, a structure like the argument of `fn`, or a tuple
    with one for each column. None marks what is the same for all samples. `randomness` is the behaviour of random
    operations in `fn`: `"error"`, `"different"` numbers for each sample, or the `"same"`. They draw from torch's global
    generator. `on_error` handles a batch that fails.

    Raises the error of torch, with advice, where `fn` cannot be vectorised.

    >>> dp = IterableWrapper([1.0, 2.0, 3.0]).batch(2).collate().vmap(lambda x: x * 2 if x.dim() == 0 else x)
    >>> list(dp)
    [tensor([2., 4.], dtype=torch.float64), tensor([6.], dtype=torch.float64)]
    """

    gives = "same"

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        in_dims: Any = 0,
        randomness: Literal["error", "different", "same"] = "error",
        *,
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        check_function("fn", fn, input_col)
        if randomness not in ("error", "different", "same"):
            raise ValueError(f"randomness must be 'error', 'different' or 'same', and is {randomness!r}")
        self.source = source
        self.fn = fn
        self.in_dims = in_dims
        self.randomness = randomness
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.handle_errors(on_error)

    def _function(self) -> Callable[[Any], Any]:
        several = isinstance(self.input_col, (list, tuple))
        in_dims = self.in_dims if several or isinstance(self.in_dims, int) else (self.in_dims,)
        vectorized = torch.func.vmap(self.fn, in_dims, randomness=self.randomness)

        def of_batch(*columns: Any) -> Any:
            try:
                return vectorized(*columns)
            except Exception as error:
                add_note(error, _ON_VMAP)
                raise

        return replacing_columns(of_batch, self.input_col, self.output_col)
