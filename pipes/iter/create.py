"""Where a chain begins."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, TypeVar

import torch
from torch.utils.data import SequentialSampler

from ...registry import IterDataPipe, Seeded, Tally, functional_datapipe
from ..striding import Strided

T = TypeVar("T")


@functional_datapipe(None)
class IterableWrapper(Strided[T]):
    """Yield the items of any iterable.

    With `deepcopy`, each pass reads a deep copy, so that items changed later do not show in the next pass; an iterable
    that cannot be copied, such as a generator, is read as it is.

    Of a list, tuple or range, a `sharding_filter` right after it has only its own items copied and read.

    >>> dp = IterableWrapper(range(5))
    >>> list(dp)
    [0, 1, 2, 3, 4]
    """

    holds_items = False
    payload = ("iterable",)
    _items_read: Callable[[], int]
    transient = ("_items_read", "_first", "_step")

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        if not isinstance(iterable, Iterable) and not hasattr(iterable, "__getitem__"):
            raise TypeError(f"IterableWrapper needs an iterable, and {type(iterable).__name__} is none")
        self.iterable = iterable
        self.deepcopy = deepcopy
        self._start = 0

    def reset(self) -> None:
        self._start = 0

    def get_state(self) -> dict[str, Any]:
        items = self._items_read()
        return {"position": self._start + (self._first + (items - 1) * self._step + 1 if items else 0)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._start = state["position"]

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        self._first, self._step = first, step
        start, items = self._start + first, self.iterable
        if type(items) in (list, tuple, range):
            # The iterators of these know how many items are left, so counting them would be waste.
            wanted: Any = self._copied(items[start::step] if (start, step) != (0, 1) else items)  # type: ignore[index]
            rest: Iterator[T] = iter(wanted)
            total = len(wanted)
            self._items_read = lambda: total - operator.length_hint(rest)
            return rest
        tally = Tally()
        self._items_read = lambda: tally.items
        copied = self._copied(items)
        return tally.follow(copied if (start, step) == (0, 1) else islice(copied, start, None, step))

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def _copied(self, items: Iterable[T]) -> Iterable[T]:
        if not self.deepcopy:
            return items
        try:
            return copy.deepcopy(items)
        except Exception:  # what copying raises is up to the class: generators, open files and locks cannot be copied
            return items


@functional_datapipe(None)
class Sampler(Seeded, IterDataPipe[Any]):
    """Yield what one of torch's samplers draws for a source with a length: for most, the indices of its items.

    The source itself is not read; for one that is read by index, `.map(source.__getitem__)` fetches the items.
    `sampler` is a class. It is called with the source, if the first of its parameters is `data_source` or `dataset`,
    then with `sampler_args` and `sampler_kwargs`. One that takes a `generator`, as those that draw at random do, gets
    one for each pass, so that `set_seed` governs the order and a pass can be run again. Where `sampler_kwargs` have a
    generator, or the sampler draws without, a resumed pass goes on in another order.

    Raises TypeError for a source without a length, or arguments that the sampler does not take.

    >>> from torch.utils.data import RandomSampler
    >>> dp = Sampler(["a", "b", "c"], RandomSampler).set_seed(0)
    >>> sorted(dp)
    [0, 1, 2]
    """

    holds_items = False
    payload = ("source",)
    transient = ("_before", "_tally")

    def __init__(
        self,
        source: Sized,
        sampler: Callable[..., Iterable[Any]] = SequentialSampler,
        sampler_args: Sequence[Any] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(source, Sized):
            raise TypeError(f"Sampler needs a source with a length, and {type(source).__name__} has none")
        self.source = source
        self.sampler = sampler
        self.sampler_args = sampler_args
        self.sampler_kwargs = sampler_kwargs
        args, kwargs = self._arguments()
        inspect.signature(sampler).bind(*args, **kwargs)

    def reset(self) -> None:
        self._before = 0
        self._tally = Tally()

    def get_state(self) -> dict[str, Any]:
        return {"position": self._before + self._tally.items}

    def set_state(self, state: dict[str, Any]) -> None:
        self._before = state["position"]

    def __iter__(self) -> Iterator[Any]:
        return self._tally.follow(islice(self._sampler(), self._before, None))

    def __len__(self) -> int:
        return len(self._sampler())  # type: ignore[arg-type]

    def _sampler(self) -> Iterable[Any]:
        args, kwargs = self._arguments()
        return self.sampler(*args, **kwargs) if len(self.source) else ()  # torch's refuse to sample nothing

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        names = [*inspect.signature(self.sampler).parameters]
        args, kwargs = [*(self.sampler_args or ())], {**(self.sampler_kwargs or {})}
        if names[:1] in (["data_source"], ["dataset"]):
            args.insert(0, self.source)
        if "generator" in names[len(args) :]:
            kwargs.setdefault("generator", torch.Generator().manual_seed(self.pass_seed))
        return args, kwargs
