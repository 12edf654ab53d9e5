"""The first steps of a chain."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, TypeVar

import torch
from torch.utils.data import SequentialSampler

from ...registry import IterDataPipe, Seeded, Tally, functional_datapipe, own
from ..bases.striding import Positioned

T = TypeVar("T")


@functional_datapipe(None)
class IterableWrapper(Positioned[T]):
    """Yield the items of any iterable.

    With `deepcopy`, each pass reads a deep copy, so later changes of items do not reach the next pass. An iterable that
    cannot be copied, such as a generator, is read as it is.

    A `sharding_filter` right after a list, tuple or range copies and reads only its own items.

    >>> dp = IterableWrapper(range(5))
    >>> list(dp)
    [0, 1, 2, 3, 4]
    """

    payload = ("iterable",)

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        if not isinstance(iterable, Iterable) and not hasattr(type(iterable), "__getitem__"):
            if isinstance(iterable, type):
                raise TypeError(f"IterableWrapper needs an iterable, and {iterable.__name__} is a class: call it")
            raise TypeError(f"IterableWrapper needs an iterable, and {type(iterable).__name__} is not one")
        self.iterable = iterable
        self.deepcopy = deepcopy

    def _items_from(self, start: int, step: int, at_a_time: int) -> tuple[Iterator[T], Callable[[], int]]:
        items = self.iterable
        if type(items) in (list, tuple, range):
            # Iterators of these have a length hint, so no counting is needed.
            wanted: Any = self._copied(items[start::step] if (start, step) != (0, 1) else items)  # type: ignore[index]
            rest: Iterator[T] = iter(wanted)
            total = len(wanted)
            return rest, lambda: total - operator.length_hint(rest)
        given = Tally()
        copied = self._copied(items)
        wanted = copied if (start, step) == (0, 1) else islice(copied, start, None, step)
        return given.follow(wanted), lambda: given.items

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def _copied(self, items: Iterable[T]) -> Iterable[T]:
        if not self.deepcopy:
            return items
        try:
            return copy.deepcopy(items)
        except Exception:  # the class decides what copying raises: generators, open files, locks
            return items


@functional_datapipe(None)
class Sampler(Seeded, IterDataPipe[Any]):
    """Yield the draws of a torch sampler for a source with a length: usually the indices of its items.

    The source itself is not read; for a source with an index, `.map(source.__getitem__)` fetches the items. `sampler`
    is a class. Its arguments are the source, if its first parameter is `data_source` or `dataset`, then `sampler_args`
    and `sampler_kwargs`. A sampler with a parameter `generator`, as random samplers have, gets a new one for each pass:
    `set_seed` governs the order, and a pass can be repeated. Where `sampler_kwargs` have a generator, or the sampler
    draws without one, a resumed pass continues in another order.

    Raises TypeError for a source without a length, or arguments that the sampler does not take.

    >>> from torch.utils.data import RandomSampler
    >>> dp = Sampler(["a", "b", "c"], RandomSampler).set_seed(0)
    >>> sorted(dp)
    [0, 1, 2]
    """

    holds_items = False
    payload = ("source",)
    drawn: Tally = own(Tally)

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

    def __iter__(self) -> Iterator[Any]:
        return self.drawn.follow(islice(self._sampler(), self.drawn.items, None))

    def __len__(self) -> int:
        return len(self._sampler())  # type: ignore[arg-type]

    def _sampler(self) -> Iterable[Any]:
        args, kwargs = self._arguments()
        return self.sampler(*args, **kwargs) if len(self.source) else ()  # samplers of torch reject an empty source

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        names = [*inspect.signature(self.sampler).parameters]
        args, kwargs = [*(self.sampler_args or ())], {**(self.sampler_kwargs or {})}
        if names[:1] in (["data_source"], ["dataset"]):
            args.insert(0, self.source)
        if "generator" in names[len(args) :]:
            kwargs.setdefault("generator", torch.Generator().manual_seed(self.pass_seed))
        return args, kwargs
