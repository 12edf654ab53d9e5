"""Interleave the outputs of several items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ...registry import (
    IterDataPipe,
    OnError,
    add_error_context,
    close,
    expect_whole,
    functional_datapipe,
    own,
)
from ...state.seeds import derive_seed
from ..bases.drawing import Shuffling
from ..bases.input_columns import Columns, as_it_is, check_function, taking_columns

_END_OF_OUTPUTS = object()


@dataclass(slots=True)
class _Open:
    """An item whose outputs are being yielded."""

    number: int
    item: Any
    outputs: Iterator[Any] = field(default_factory=lambda: iter(()))
    yielded: int = 0
    inner_chains: int = 0


@functional_datapipe("shuffled_flatmap")
class ShuffledFlatMapper(Shuffling[Any]):
    """Yield all outputs of `fn(item)` for each item; each comes from a random one of `buffer_size` open items.

    Take it to mix the content of several files; `flatmap` reads one after another. The outputs of one item keep their
    order. Each output comes from an open item, drawn uniformly; an exhausted item makes room for the next. `fn` returns
    an iterable, such as a list, or is a generator function; without it, the content of each item is yielded. With
    `input_col`, `fn` takes these columns of the item as arguments. `on_error` handles an item for which `fn` raises, as
    for `flatmap`.

    Raises TypeError for an `fn` that is not callable, and ValueError for a `buffer_size` below 1.

    A state has the numbers of the open items and of their outputs so far: resuming calls `fn` for these items again
    and drops those outputs.

    >>> dp = IterableWrapper([[1, 2, 3], [10, 20]]).shuffled_flatmap(buffer_size=2).set_seed(0)
    >>> sorted(dp)
    [1, 2, 3, 10, 20]
    """

    traits = ("shuffles", "unpacks")
    buffers = ("buffer_size",)
    buffered = "open items"
    resumes_from_start = False
    opened: list[_Open] = own(list, save=lambda opened: [[each.number, each.yielded] for each in opened])
    """The open items. States have the number of each, and of its outputs so far."""
    advanced: _Open | None = own(None, saved=False)
    """The item whose outputs, or whose next output, are being made."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Iterable[Any]] | None = None,
        input_col: Columns | None = None,
        buffer_size: int = 100,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("fn", fn, input_col, optional=True)
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.buffer_size = buffer_size
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[Any]:
        function: Callable[[Any], Iterable[Any]] = taking_columns(self.fn or as_it_is, self.input_col)

        def attempt(item: Any) -> Iterable[Any]:
            if self.advanced is not None:
                self.advanced.inner_chains = 0
            return function(item)

        outputs_of = self.error_policy.outputs(attempt)
        size = self.buffer_size if self.is_random else 1
        draws = self._draws()
        items = self.read(self.source)
        numbered = iter(items)
        were_open: Any = self.opened
        opened = self.opened = []
        items.keep_from(lambda: min((each.number for each in opened), default=None))
        with ExitStack() as at_end:
            at_end.callback(_close_outputs, opened)
            again = items.again(number for number, _ in were_open)
            for number, yielded in were_open:
                opened.append(current := self._begin(number, again[number], outputs_of))
                for _ in range(yielded):
                    if self._advance(current) is _END_OF_OUTPUTS:
                        raise RuntimeError(f"item {number} of the source gave fewer than when the state was taken")
            while True:
                while len(opened) < size and (found := next(numbered, None)) is not None:
                    opened.append(self._begin(*found, outputs_of))
                if not opened:
                    return
                slot = int(next(draws) * len(opened))
                current = opened[slot]
                if (output := self._advance(current)) is _END_OF_OUTPUTS:
                    opened[slot] = opened[-1]
                    opened.pop()
                else:
                    yield output

    def _begin(self, number: int, item: Any, outputs_of: Callable[[Any], Iterable[Any]]) -> _Open:
        current = self.advanced = _Open(number, item)
        try:
            current.outputs = iter(outputs_of(item))
        except Exception as error:
            add_error_context(error, self, item)
            raise
        return current

    def _advance(self, current: _Open) -> Any:
        self.advanced = current
        try:
            output = next(current.outputs, _END_OF_OUTPUTS)
        except Exception as error:
            add_error_context(error, self, current.item)  # not the newest item of the source
            raise
        current.yielded += 1
        return output

    def _number_of_inner_chain(self) -> int | None:
        if self.advanced is None:
            return None
        self.advanced.inner_chains += 1
        return derive_seed(self.advanced.number, self.advanced.inner_chains)


def _close_outputs(opened: list[_Open]) -> None:
    with ExitStack() as each_closes:  # even where closing another fails
        for current in opened:
            each_closes.callback(close, current.outputs)
