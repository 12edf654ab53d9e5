"""The outputs of several items in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from ...registry import (
    Guard,
    IterDataPipe,
    Node,
    OnError,
    Seeded,
    Trail,
    close,
    expect_whole,
    functional_datapipe,
    say_where,
    uniform_draws,
)
from ..columns import Columns, check_function, taking_columns
from .transform import as_it_is

_END = object()


@dataclass(slots=True)
class _Open:
    """An item whose outputs are being given."""

    number: int
    item: Any
    outputs: Iterator[Any]
    given: int = 0


@functional_datapipe("shuffled_flatmap")
class ShuffledFlatMapper(Seeded, IterDataPipe[Any]):
    """Yield all that `fn(item)` gives for each item, each time from one of up to `buffer_size` items at random.

    The outputs of one item stay in their order; those of the items that are open at a time come mixed, each time from
    one drawn uniformly. An item that has given all makes room for the next. `fn` returns an iterable, such as a list,
    or is a generator function; without it, each item's own content is given. With `input_col`, `fn` gets these columns
    of the item as its arguments. `on_error` is what becomes of an item for which `fn` raises, as for `flatmap`.

    Raises TypeError for an `fn` that cannot be called, and ValueError for a `buffer_size` below 1.

    A state holds the numbers of the items that are open and how much they have given: on resuming, `fn` is called for
    these again, and what they had given is dropped.

    >>> dp = IterableWrapper([[1, 2, 3], [10, 20]]).shuffled_flatmap(buffer_size=2).set_seed(0)
    >>> sorted(dp)
    [1, 2, 3, 10, 20]
    """

    holds_items = False
    transient = ("_trail", "_open")

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Iterable[Any]] | None = None,
        input_col: Columns | None = None,
        buffer_size: int = 100,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if fn is not None:
            check_function("fn", fn, input_col)
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.buffer_size = buffer_size
        self.on_error = on_error
        self.guard = Guard(on_error)
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling on or off from the next pass on; when off, one item is open at a time, as for `flatmap`."""
        self._enabled = shuffle
        return self

    def reset(self) -> None:
        self._trail: Trail[Any] | None = None
        self._open: list[_Open] = []
        self._to_open_again: dict[int, tuple[int, int]] = {}  # by number: its place among the open, what it has given
        self._to_pull_again = 0
        self._draws = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        start = self._oldest() - skip
        own = {
            "open": [[each.number - start, each.given] for each in self._open],
            "pulled": self._trail.pulled - start,
            "draws": self._draws,
        }
        return own, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        self._to_open_again = {number: (place, given) for place, (number, given) in enumerate(state["open"])}
        self._to_pull_again = state["pulled"]
        self._draws = state["draws"]

    def __iter__(self) -> Iterator[Any]:
        outputs_of = self.guard.outputs(taking_columns(self.fn or as_it_is, self.input_col))
        size = self.buffer_size if self._enabled else 1
        draws = uniform_draws(self.pass_seed, self._draws)
        trail = self._trail = Trail(self.source, self._oldest)
        opened = self._open
        with ExitStack() as at_end:
            items: Any = at_end.enter_context(closing(iter(trail)))  # type: ignore[type-var]
            at_end.callback(self._close_outputs)
            self._open_again(items, outputs_of)
            while True:
                while len(opened) < size and (item := next(items, _END)) is not _END:
                    opened.append(self._begin(item, outputs_of))
                if not opened:
                    return
                slot = int(next(draws) * len(opened))
                self._draws += 1
                current = opened[slot]
                if (output := self._advance(current)) is _END:
                    opened[slot] = opened[-1]
                    opened.pop()
                else:
                    yield output

    def _begin(self, item: Any, outputs_of: Callable[[Any], Iterable[Any]]) -> _Open:
        number = self._trail.pulled - 1 if self._trail is not None else 0
        try:
            return _Open(number, item, iter(outputs_of(item)))
        except Exception as error:
            say_where(error, self, item)
            raise

    def _advance(self, current: _Open) -> Any:
        try:
            output = next(current.outputs, _END)
        except Exception as error:
            say_where(error, self, current.item)  # the newest item of the source is another
            raise
        current.given += 1
        return output

    def _open_again(self, items: Iterator[Any], outputs_of: Callable[[Any], Iterable[Any]]) -> None:
        for number, item in enumerate(islice(items, self._to_pull_again)):
            if number in self._to_open_again:
                self._open.append(current := self._begin(item, outputs_of))
                for _ in range(self._to_open_again[number][1]):
                    self._advance(current)
        if len(self._open) < len(self._to_open_again):
            raise RuntimeError("the source gave fewer items than when the state was taken")
        self._open.sort(key=lambda each: self._to_open_again[each.number][0])
        self._to_open_again = {}

    def _close_outputs(self) -> None:
        with ExitStack() as each_closes:  # even where another fails to
            for current in self._open:
                each_closes.callback(close, current.outputs)

    def _oldest(self) -> int:
        pulled = self._trail.pulled if self._trail is not None else 0
        return min((each.number for each in self._open), default=pulled)
