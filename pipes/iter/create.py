"""The first steps of a chain."""

from __future__ import annotations

import copy
import inspect
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

import torch
from torch.utils.data import SequentialSampler

from ...registry import IterDataPipe, Seeded, T, Tally, functional_datapipe, own
from ..bases.striding import Positioned
from ..columns.to_arrow import is_frame


@functional_datapipe(None)
class IterableWrapper(Positioned[T]):
    """Yield the items of any iterable.

    With `deepcopy`, each pass reads a deep copy, so later changes of items do not reach the next pass. An iterable that
    cannot be copied, such as a generator, is read as it is.

    A `sharding_filter` right after a list, tuple or range copies and reads only its own items.

    Warns of a data frame and of an Arrow table, which Python iterates over by columns.

    >>> dp = IterableWrapper(range(5))
    >>> list(dp)
    [0, 1, 2, 3, 4]
    """

    payload = ("iterable",)
    transient = ("_was_read",)
    _was_read = False
    """Whether a pass has begun to read an iterator, which can be read once only."""

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        if not isinstance(iterable, Iterable) and not hasattr(type(iterable), "__getitem__"):
            if isinstance(iterable, type):
                raise TypeError(f"IterableWrapper needs an iterable, and {iterable.__name__} is a class: call it")
            raise TypeError(f"IterableWrapper needs an iterable, and {type(iterable).__name__} is not one")
        if advice := _advice_on_columns(iterable):
            warnings.warn(f"IterableWrapper yields {advice}", stacklevel=3)
        self.iterable = iterable
        self.deepcopy = deepcopy

    def _items_from(self, start: int, step: int, at_a_time: int) -> tuple[Iterator[T], Callable[[], int]]:
        items = self.iterable
        begun_at: Any = self.position  # it is a number until the pass has begun
        if type(items) in (list, tuple, range):
            if begun_at:
                self._expect_last(items[begun_at - 1 : begun_at])  # type: ignore[index]
            # Iterators of these have a length hint, so no counting is needed.
            wanted: Any = self._copied(items[start::step] if (start, step) != (0, 1) else items)  # type: ignore[index]
            rest: Iterator[T] = iter(wanted)
            total = len(wanted)
            return rest, lambda: total - operator.length_hint(rest)
        tally = Tally()
        copied = self._copied(items)
        wanted = iter(copied)
        if copied is items and isinstance(items, Iterator):
            wanted = self._read_on(items) if self._was_read else items
            self._was_read = True
        if begun_at:
            self._expect_last(islice(wanted, begun_at - 1, begun_at))
        if (start - begun_at, step) != (0, 1):
            wanted = islice(wanted, start - begun_at, None, step)
        return tally.follow(wanted), lambda: tally.items

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def _read_on(self, items: Iterator[T]) -> Iterator[T]:
        """Yield what an earlier pass has left of an iterator; warn where nothing is."""
        for item in items:
            yield item
            yield from items
            return
        warnings.warn(
            f"IterableWrapper reads a {type(items).__name__}, which an earlier pass has read to its end: this pass has "
            "no items. Wrap what each pass can read again, such as a list, or an object whose __iter__ begins anew",
            stacklevel=2,
        )

    def _copied(self, items: Iterable[T]) -> Iterable[T]:
        if not self.deepcopy:
            return items
        try:
            return copy.deepcopy(items)
        except Exception:  # the class decides what copying raises: generators, open files, locks
            return items


def _advice_on_columns(iterable: object) -> str | None:
    """Return what the items of a table are, and how to get its rows; None for what is no table."""
    if is_frame(iterable):
        return "the names of the columns of a data frame: ps.from_pandas(frame) yields its rows, in batches"
    pyarrow = sys.modules.get("pyarrow")  # not imported: no tables exist
    if pyarrow is not None and isinstance(iterable, (pyarrow.Table, pyarrow.RecordBatch)):
        return "the columns of a table: ps.from_arrow(table) yields its rows, in batches"
    return None


@functional_datapipe(None)
class Sampler(Seeded, IterDataPipe[Any]):
    """Yield the draws of a torch sampler for a source with a length: usually the indices of its items.

    The source itself is not read; for a source with an index, `.map(source.__getitem__)` fetches the items. `sampler`
    is a class with its arguments, or an instance without. Keywords such as `num_samples=6` may be given directly, or in
    `sampler_kwargs`. Names decide what a sampler gets besides these:

    - The source, if the first parameter of the class is called `data_source` or `dataset`.
    - A new generator for each pass, if the class has a parameter `generator`, or the instance an attribute `generator`
      that is None; likewise the sampler that a `BatchSampler` holds. So `set_seed` governs the order, and a pass can be
      repeated. A sampler that draws in another way may resume in another order.
    - The number of the epoch, if it has a method `set_epoch`.

    Raises TypeError for a source without a length, or arguments that the sampler does not take.

    >>> from torch.utils.data import RandomSampler
    >>> dp = Sampler(["a", "b", "c"], RandomSampler).set_seed(0)
    >>> sorted(dp)
    [0, 1, 2]
    >>> len(list(Sampler("abc", RandomSampler, num_samples=2)))
    2
    """

    resumes_from_start = False
    payload = ("source",)
    drawn: Tally = own(Tally)

    def __init__(
        self,
        source: Sized,
        sampler: Callable[..., Iterable[Any]] | Iterable[Any] = SequentialSampler,
        sampler_args: Sequence[Any] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> None:
        if not isinstance(source, Sized):
            raise TypeError(f"Sampler needs a source with a length, and {type(source).__name__} has none")
        self.source = source
        self.sampler = sampler
        self.sampler_args = sampler_args
        self.sampler_kwargs = {**(sampler_kwargs or {}), **keywords} or None
        self._expect_arguments()

    def __iter__(self) -> Iterator[Any]:
        drawn = self.drawn.items
        rest = iter(self._made())
        if drawn:
            self._expect_last(islice(rest, drawn - 1, drawn))
        return self.drawn.follow(rest)

    def __len__(self) -> int:
        return len(self._made())  # type: ignore[arg-type]

    def _made(self) -> Iterable[Any]:
        """Return a sampler for this pass."""
        if isinstance(self.sampler, Iterable):
            made: Any = _with_generator(self.sampler, self.pass_seed)
        elif len(self.source):
            args, kwargs = self._arguments(self.sampler)
            made = self.sampler(*args, **kwargs)
        else:  # samplers of torch reject an empty source
            return ()
        if hasattr(made, "set_epoch"):
            made.set_epoch(self._pass.path.epoch if self._pass is not None else 0)
        return made  # type: ignore[no-any-return]

    def _arguments(self, sampler: Callable[..., Iterable[Any]]) -> tuple[list[Any], dict[str, Any]]:
        names = [*inspect.signature(sampler).parameters]
        args, kwargs = [*(self.sampler_args or ())], {**(self.sampler_kwargs or {})}
        if names[:1] in (["data_source"], ["dataset"]):
            args.insert(0, self.source)
        if "generator" in names[len(args) :]:
            kwargs.setdefault("generator", torch.Generator().manual_seed(self.pass_seed))
        return args, kwargs

    def _expect_arguments(self) -> None:
        name = getattr(self.sampler, "__name__", type(self.sampler).__name__)
        if isinstance(self.sampler, Iterable) and not isinstance(self.sampler, Iterator):
            if self.sampler_args or self.sampler_kwargs:
                raise TypeError(f"Sampler takes arguments for a class, and this {name} is made already: give its class")
            return
        if isinstance(self.sampler, Iterator) or not callable(self.sampler):
            raise TypeError(
                f"sampler must be a sampler or its class, read anew in each pass, and is {self.sampler!r:.100}"
            )
        args, kwargs = self._arguments(self.sampler)
        signature = inspect.signature(self.sampler)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{name}{signature} cannot be made with the arguments given: {error}. Sampler gives it the source only "
                "if its first parameter is called data_source or dataset, and a generator if one is called generator. "
                f"Give the others by keyword, as in Sampler(source, {name}, name=value), or give an instance"
            ) from None


def _with_generator(sampler: Any, seed: int) -> Any:
    """Return a copy of a sampler whose generator, or that of the sampler in it, is new if it is None."""
    inner = getattr(sampler, "sampler", None)
    draws = hasattr(sampler, "generator") and sampler.generator is None
    sampler = copy.copy(sampler)
    if draws:
        sampler.generator = torch.Generator().manual_seed(seed)
    if isinstance(inner, Iterable):
        sampler.sampler = _with_generator(inner, seed)
    return sampler
