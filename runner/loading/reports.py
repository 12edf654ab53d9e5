"""The reports of a loader: counts, profile, explanation and picture of the chain as it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from ...registry import IterDataPipe, MapDataPipe, walk
from ...views.explanation import Explanation, explained
from ...views.pictures.nodes import Share
from ...views.pictures.picture import Picture
from ...views.profiles.profile import Profile
from ...views.profiles.times import Consumer, measure, measured_steps
from ..reader import ShardReader
from ..services import ReadingServiceInterface
from .profiles import profile_of
from .readable import readable

T = TypeVar("T")


class LoaderReports(Generic[T]):
    """Base of `DataLoader2`: reports on its chain, which its reading service initializes once."""

    datapipe: IterDataPipe[T] | MapDataPipe[T]
    _service: ReadingServiceInterface
    """The reading service: a copy of the one given, or one that reads in this process."""
    _consumer: Consumer | None = None
    """The program's use of the items, if it is measured."""
    _profiled = False
    """Whether the steps of the chain are measured, too."""
    _epoch_number = 0
    """The number of the last epoch that has begun, from 1, if it is measured."""
    _items_before = 0
    """The number of items that earlier epochs of this loader handed out, if they are measured."""
    _items_at_start = 0
    """The number of items of this epoch before the state from which it is resumed."""
    _read: Any = None
    """The chain as the reading service prepared it."""

    def stats(self) -> dict[str, dict[str, Any]]:
        """Return what the chain's steps with an `on_error` counted in this epoch, summed over all shards.

        It has the form of a chain's `stats()`. Worker processes report at the end of a shard, and now and then before;
        their last reports count, including items read ahead. In a chain read in shards, steps before
        `sharding_round_robin_dispatch` are not counted, nor, in a resumed epoch, what steps counted before the state
        that do not read on in their shard.

        >>> import penstock as ps
        >>> loader = ps.DataLoader2(ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip"))
        >>> list(loader), loader.stats()["map"]["skipped"]
        ([1, 3], 1)
        """
        counts = self._initialized().stats()
        for reader in self._readers():
            counts = {**reader.stats(), **counts}
        return counts

    def profile(self) -> Profile:
        """Return where the time goes: how long the program waited for items, and what each step took.

        It covers the epoch under way, or else the last one, in this process and in the workers up to their last
        reports. Raises RuntimeError unless the loader was made with `profile=True`.

        >>> import penstock as ps
        >>> loader = ps.DataLoader2(ps.iter.IterableWrapper(range(100)).map(str).batch(10), profile=True)
        >>> items = list(loader)
        >>> [step.name for step in loader.profile().steps]
        ['IterableWrapper', 'map', 'batch', 'loader']
        """
        if self._consumer is None or not self._profiled:
            raise RuntimeError("nothing was measured: make the loader with profile=True, and read it")
        profile = profile_of(self._initialized(), self._consumer)
        profile.picture = self._picture(profile.shares(measured_steps(self.datapipe)))
        return profile

    def metrics(self) -> dict[str, float]:
        """Return numbers of the epoch under way, or else of the last one, by name.

        - `epoch`: its number, from 1; `items`: how many it has handed out so far, before a resume too, where that is
          known; `total_items`: those of earlier epochs of this loader, too.
        - `seconds`: how long the epoch has taken, without the wait for the first item, `first_item_seconds`, in which
          workers start. `items_per_second` and `wait_share`, the share of the time in which the program waited for an
          item, from 0 to 1, are of these seconds.
        - `skipped`, `retried`: what `stats()` counts of all steps.
        - `queue_items`, `queue_capacity`: how many items wait in this process for the program, and how many may, where
          it reads ahead.
        - With `profile=True`, for each step `step/<place>_<name>/seconds` of work, `…/waiting_seconds`, `…/items`, and
          `…/fill`, how full its buffer was when an item was wanted, if it has one.

        Raises RuntimeError unless the loader was made with `metrics` or `profile=True`.

        >>> import penstock as ps
        >>> loader = ps.DataLoader2(ps.iter.IterableWrapper(range(100)).batch(10), metrics=True)
        >>> items = list(loader)
        >>> loader.metrics()["items"], loader.metrics()["skipped"]
        (10, 0)
        """
        consumer = self._consumer
        if consumer is None:
            raise RuntimeError("nothing was measured: make the loader with metrics=True, and read it")
        seconds, stats = consumer.waited + consumer.worked, self.stats().values()
        items = self._items_at_start + consumer.items
        found: dict[str, float] = {
            "epoch": self._epoch_number,
            "items": items,
            "total_items": self._items_before + items,
            "seconds": seconds,
            "first_item_seconds": consumer.first,
            "items_per_second": consumer.items / seconds if seconds else 0.0,
            "wait_share": consumer.waited / seconds if seconds else 0.0,
            **{name: sum(counts.get(name, 0) for counts in stats) for name in ("skipped", "retried")},
        }
        for reader in self._readers():
            found |= reader.queue()
        for place, step in enumerate(self.profile().steps if self._profiled else ()):
            times = {"seconds": step.work, "waiting_seconds": step.waiting, "items": step.items, "fill": step.fill}
            found |= {f"step/{place}_{step.name}/{name}": time for name, time in times.items() if time is not None}
        return found

    def explain(self) -> Explanation:
        """Return, in words, what the chain will do as the reading service reads it, and known mistakes.

        Nothing is read and nothing starts.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(3)).sharding_filter()
        >>> service = ps.MultiProcessingReadingService(num_workers=4)
        >>> with ps.DataLoader2(dp, reading_service=service) as loader:
        ...     print(loader.explain().warnings[0].what)
        sharding_filter divides 3 items among 4 shards.
        """
        return explained(self._chain, self._service.how_read())

    def visualize(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Return the picture of the chain, with where its steps run; with a `path`, write it to a file too.

        The files are those of a chain's `visualize`.

        >>> import penstock as ps
        >>> ps.DataLoader2(ps.iter.IterableWrapper(range(5)).batch(2)).visualize()
        IterableWrapper(range(0, 5)).batch(2)
        """
        picture = self._picture()
        if path is not None:
            picture.save(path)
        return picture

    def _picture(self, shares: Mapping[int, Share] | None = None) -> Picture:
        how = self._service.how_read()
        return Picture(self.datapipe, shares, f"in {how.workers_in_words}" if how and how.workers else None)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {**self.visualize()._repr_mimebundle_(), "text/plain": repr(self)}

    @property
    def tuned(self) -> str:
        """The settings that `autotune` and "auto" have found so far.

        It is empty if there are none.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(5)).threadpool_map(str, max_workers="auto")
        >>> loader = ps.DataLoader2(dp)
        >>> items = list(loader)
        >>> loader.tuned.startswith("threadpool_map(max_workers=")
        True
        """
        found = {name: sorted({*counts["tuned"]}) for name, counts in self.stats().items() if "tuned" in counts}
        texts = [f"{name}({text})" for name, several in found.items() for text in several]
        return f"{', '.join(texts)}: write them down" if texts else ""

    def _initialized(self) -> IterDataPipe[T]:
        """Return the chain that is read; no process starts and nothing is read before its first item is requested."""
        if self._read is None:
            chain = self._chain
            if self._profiled:
                measure(chain)
            self._read = readable(self._service.initialize(chain))
        read: IterDataPipe[T] = self._read
        return read

    def _readers(self) -> list[ShardReader]:
        return [pipe for pipe in walk(self._initialized()) if isinstance(pipe, ShardReader)]

    @property
    def _chain(self) -> IterDataPipe[T]:
        return readable(self.datapipe)
