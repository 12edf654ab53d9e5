"""Call a function on items."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Concatenate, Literal, Self, overload

import numpy as np
import torch
from torch.utils.data import default_collate

from ...errors.checks import expect_one_of
from ...registry import (
    IterDataPipe,
    OnError,
    P,
    Provenance,
    R,
    Seeded,
    T,
    derive_seed,
    functional_datapipe,
    own,
    provenance_of,
)
from ...registry.sharding import part_read
from ..bases.collating import collated_columns, default_collated
from ..bases.input_columns import (
    Columns,
    as_it_is,
    as_list,
    check_function,
    one_output_col,
    replacing_columns,
    taking_columns,
)
from ..bases.one_to_one import OneToOne


@functional_datapipe("map")
class Mapper(OneToOne[R]):
    """Yield `fn(item)` for each item.

    Start with this. Take `threadpool_map` where `fn` waits, `processpool_map` where it computes in Python, and
    `map_pool` for a model. With `input_col`, an index or key or a list of them, `fn` takes these columns of the item as
    arguments, and the item is yielded with the result at `output_col`; -1 appends to a tuple or list. Without
    `output_col`, the result replaces the first input column, and the other input columns are removed. Named tuples stay
    named tuples if their fields stay. Items of the source are copied, never changed.

    With `rng=True`, `fn` takes a further argument, the last: a `torch.Generator` on the CPU, and with `rng="numpy"` a
    `numpy.random.Generator`. Each item has its own, seeded by the seed of the epoch and its number in its shard: what
    `fn` draws is the same on any number of workers, after resuming, and when it is tried again.

    `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

    Raises TypeError for an `fn` that is not callable, and ValueError for one that does not take that many columns, or
    for an `output_col` without an `input_col`.

    >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
    >>> list(dp)
    [1, 2, 3]
    >>> noisy = IterableWrapper([1.0, 1.0]).map(lambda x, rng: x + rng.random(), rng="numpy").set_seed(1)
    >>> [round(number, 2) for number in noisy]
    [1.77, 1.11]
    >>> list(IterableWrapper([("a", 1, 2)]).map(lambda x, y: x + y, input_col=[1, 2]))
    [('a', 3)]
    >>> list(IterableWrapper([{"a": 1}]).map(str, input_col="a", output_col="b"))
    [{'a': 1, 'b': '1'}]
    """

    gives = "same"

    @overload
    def __init__(
        self,
        source: IterDataPipe[T],
        fn: Callable[[T], R],
        input_col: None = None,
        output_col: None = None,
        *,
        on_error: OnError = "raise",
    ) -> None: ...

    @overload
    def __init__(
        self: Mapper[Any],
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns,
        output_col: Hashable | list[Hashable] | None = None,
        *,
        rng: bool | Literal["numpy"] = False,
        on_error: OnError = "raise",
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: IterDataPipe[T],
        fn: Callable[[T, Any], R],
        input_col: None = None,
        output_col: None = None,
        *,
        rng: Literal[True, "numpy"],
        on_error: OnError = "raise",
    ) -> None: ...

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        *,
        rng: bool | Literal["numpy"] = False,
        on_error: OnError = "raise",
    ) -> None:
        expect_one_of("rng", rng, False, True, "numpy")
        columns = [] if input_col is None else as_list(input_col)
        check_function("fn", fn, [*(columns or ["item"]), "rng"] if rng else input_col)
        if inspect.isgeneratorfunction(fn):
            raise TypeError(
                "fn is a generator function, and map would yield its generators: use .flatmap(fn) where fn takes one "
                "item, .pipe(fn) where it takes the whole stream"
            )
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.rng = rng
        self.handle_errors(on_error)

    def result(self) -> Self:
        """Return this pipe, or one whose function draws random numbers."""
        if not self.rng:
            return self
        random: Any = RandomMapper(
            self.source, self.fn, self.input_col, self.output_col, rng=self.rng, on_error=self.on_error
        )
        return random  # type: ignore[no-any-return]

    def _function(self) -> Callable[[Any], Any]:
        return replacing_columns(self.fn, self.input_col, self.output_col)


class RandomMapper(Seeded, Mapper[R]):
    """Yield `fn(item, rng)` for each item."""

    functional_name = "map"
    resumes_from_start = False
    begun: int = own(0)
    """The number of items read in this pass."""
    part: int = own(0, saved=False)
    """The number of the part that is read: torch's DataLoader gives all parts one seed."""

    def result(self) -> Self:
        return self

    def _function(self) -> Callable[[Any], Any]:
        return replacing_columns(self._drawing, self.input_col, self.output_col)

    def _drawing(self, *columns: Any) -> Any:
        seed = derive_seed(self.pass_seed, self.begun, self.part)
        numpy = self.rng == "numpy"
        return self.fn(*columns, np.random.default_rng(seed) if numpy else torch.Generator().manual_seed(seed))

    def __iter__(self) -> Iterator[R]:
        function: Callable[[Any], Any] = self.error_policy.wrap(self._function())
        _, self.part = part_read(self)
        for item in self.source:
            self.begun += 1
            result = function(item)
            if self.error_policy.keep(result):
                yield result


@functional_datapipe("collate")
class Collator(OneToOne[Any]):
    """Yield each batch as tensors, by default with torch's `default_collate`.

    `conversion` (or its alias `collate_fn`) is a function of a batch. It may also be a dict from columns to functions,
    for batches that are lists of dicts or tuples: each function takes the list of values of its column, other columns
    go through `default_collate`, and a dict or tuple of the results is yielded. `on_error` handles a batch that fails.

    Raises the errors of the function: `default_collate` raises RuntimeError where shapes differ, and TypeError for
    types that it cannot collate.

    >>> dp = IterableWrapper([1.0, 2.0, 3.0]).batch(2).collate()
    >>> list(dp)
    [tensor([1., 2.], dtype=torch.float64), tensor([3.], dtype=torch.float64)]
    >>> rows = IterableWrapper([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    >>> list(rows.batch(2).collate({"name": "".join}))
    [{'x': tensor([1, 2]), 'name': 'ab'}]
    """

    gives = "batches"

    def __init__(
        self,
        source: IterDataPipe[Any],
        conversion: Callable[..., Any] | Mapping[Any, Callable[..., Any]] = default_collate,
        collate_fn: Callable[..., Any] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if collate_fn is not None and conversion is not default_collate:
            raise ValueError("conversion and collate_fn are two names for one argument: give only one")
        if collate_fn is not None:
            check_function("collate_fn", collate_fn)
        elif isinstance(conversion, Mapping):
            for column, convert in conversion.items():
                check_function(f"conversion[{column!r}]", convert)
        else:
            check_function("conversion", conversion)
        self.source = source
        self.conversion = conversion
        self.collate_fn = collate_fn
        self.handle_errors(on_error)

    def _function(self) -> Callable[[Any], Any]:
        if self.collate_fn is not None:
            return self.collate_fn
        if isinstance(self.conversion, Mapping):
            return functools.partial(collated_columns, self.conversion)
        return default_collated if self.conversion is default_collate else self.conversion


@functional_datapipe("flatmap")
class FlatMapper(IterDataPipe[R]):
    """Yield all outputs of `fn(item)` for each item; without `fn`, the elements of each item.

    Take it where an item becomes several or none; `shuffled_flatmap` mixes the outputs of several items. `fn` returns
    an iterable, such as a list, or is a generator function. With `input_col`, it takes these columns of the item as
    arguments. `on_error` handles an item for which `fn` raises; outputs already yielded stay.

    >>> dp = IterableWrapper([1, 2, 3]).flatmap(lambda n: ["item"] * n)
    >>> dp.count()
    6
    >>> list(IterableWrapper([[1, 2], [], [3]]).flatmap())
    [1, 2, 3]
    """

    @overload
    def __init__(
        self,
        source: IterDataPipe[T],
        fn: Callable[[T], Iterable[R]],
        input_col: None = None,
        *,
        on_error: OnError = "raise",
    ) -> None: ...

    @overload
    def __init__(
        self, source: IterDataPipe[Iterable[R]], fn: None = None, input_col: None = None, *, on_error: OnError = "raise"
    ) -> None: ...

    @overload
    def __init__(
        self: FlatMapper[Any],
        source: IterDataPipe[Any],
        fn: Callable[..., Iterable[Any]] | None,
        input_col: Columns,
        *,
        on_error: OnError = "raise",
    ) -> None: ...

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Iterable[Any]] | None = None,
        input_col: Columns | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("fn", fn, input_col, optional=True)
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[R]:
        assert self._pass is not None
        function: Callable[[Any], Iterable[R]] = taking_columns(self.fn or as_it_is, self.input_col)
        current, policy = self._pass, self.error_policy

        def outputs_of(item: Any) -> Iterable[R]:
            set_back = current.inner_chains_again()

            def attempt(item: Any) -> Iterable[R]:
                set_back()
                return function(item)

            return policy.outputs(attempt)(item)

        return self.outputs_of_each(function if policy.raises else outputs_of, self.source)

    def provenance(self) -> Provenance | None:
        found = provenance_of(self.source)
        return None if found is None else found.changed()


@functional_datapipe("pipe")
class StreamMapper(IterDataPipe[R]):
    """Yield the outputs of `fn(items, *args, **kwargs)`; `items` is an iterator over the whole source.

    Use it for a step with state, without writing a class: `fn` is a generator function, or returns an iterable. It is
    called when a pass begins. Its state cannot be saved, so resuming runs it again from the start and drops the outputs
    already yielded. Where that is too slow, write an operator.

    >>> def changes(numbers, start=0):
    ...     for number in numbers:
    ...         yield number - start
    ...         start = number
    >>> dp = IterableWrapper([1, 4, 9]).pipe(changes)
    >>> list(dp)
    [1, 3, 5]
    """

    def __init__(
        self,
        source: IterDataPipe[T],
        fn: Callable[Concatenate[Iterator[T], P], Iterable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"fn must be a generator function, and is {fn!r:.100}")
        self.source = source
        self.fn = fn
        self.args = args
        self.kwargs = kwargs

    def __iter__(self) -> Iterator[R]:
        outputs = self.fn(iter(self.source), *self.args, **self.kwargs)
        if not isinstance(outputs, Iterable):
            raise TypeError(f"fn must be a generator function or return an iterable, and it returned {outputs!r:.100}")
        return iter(outputs)
