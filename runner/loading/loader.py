"""`DataLoader2`: reads a chain, epoch by epoch, through a reading service."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...errors.checks import expect_seconds, takes_only
from ...errors.notes import add_note
from ...pipes.bases.progress_bar import is_watched, known_length, losses_and_waits, progress_bar
from ...registry import (
    IterDataPipe,
    MapDataPipe,
    copy_of,
    hand_down,
    replace_live_iterator,
)
from ...state.error_context import asked_by
from ...state.replay import after
from ...views.metrics import Metrics
from ...views.profiles.times import Consumer, measure
from ...views.run import run_loader
from ...workers.ranks import telling_other_ranks
from ..seeds import SeedGenerator
from ..services import InProcessReadingService, ReadingServiceInterface
from .interrupts import recorded_interrupts
from .iterator import DataLoader2Iterator
from .merging import reader_below
from .position import LoaderPosition, Requests, load_position
from .readable import as_iterable, expect_pipe, readable
from .states import LoaderStates

T = TypeVar("T")
AdapterFunction = Callable[[Any], Any]

_BY_SERVICE = "give reading_service=MultiProcessingReadingService"
_ARGUMENTS_OF_TORCH = {
    "num_workers": f"{_BY_SERVICE}(num_workers=…)",
    "prefetch_factor": f"{_BY_SERVICE}(num_workers=…, worker_prefetch_cnt=…)",
    "worker_init_fn": f"{_BY_SERVICE}(num_workers=…, worker_init_fn=…)",
    "multiprocessing_context": f"{_BY_SERVICE}(num_workers=…, multiprocessing_context=…)",
    "timeout": f"{_BY_SERVICE}(num_workers=…, timeout=…)",
    "persistent_workers": "its workers always live as long as the loader",
    "batch_size": "put .batch(…) into the chain",
    "drop_last": "put .batch(…, drop_last=True) into the chain",
    "collate_fn": "put .collate(…) into the chain",
    "shuffle": "put .shuffle() into the chain",
    "sampler": "begin the chain with penstock.iter.Sampler(dataset, sampler).map(dataset.__getitem__)",
    "batch_sampler": "begin the chain with penstock.iter.Sampler(dataset, batch_sampler)",
    "generator": "call loader.seed(…)",
    "in_order": "put .threadpool_map(…, ordered=False) into the chain",
    "pin_memory": "put .pin_memory() into the chain",
    "pin_memory_device": "put .pin_memory(device) into the chain",
}
"""Arguments of torch's DataLoader, and their equivalents here."""
_ATTRIBUTES_OF_TORCH = {
    **_ARGUMENTS_OF_TORCH,
    "num_workers": "its reading service has it, as in loader.reading_service.num_workers",
    "dataset": "loader.datapipe is the chain, and loader.datapipe.count() reads it and counts its items. To resume, "
    "load the loader's state, and give transformers' TrainingArguments ignore_data_skip=True",
    "set_epoch": "leave it out, each iter(loader) is the next epoch",
}
"""Attributes of torch's DataLoader. With a `dataset`, transformers' Trainer would skip batches by itself."""


class DataLoader2(LoaderStates[T]):
    """Yield the items of a chain, epoch after epoch: each `iter()` of the loader begins an epoch.

    `datapipe_adapter_fn` is a function, or several, that return a changed chain; each is applied once. The loader
    copies the chain and the reading service, so other loaders can use both too. `datapipe` is the loader's copy of the
    chain, changed by `datapipe_adapter_fns`, and `reading_service` that of the service: None where none was given.
    `valid_iterator_id` is the `iterator_id` of its newest iterator. A map-style chain is read in index order, and
    sharded by index.

    With `progress=True` each epoch has a progress bar on a terminal or in a notebook: the number of the epoch, from 1,
    and of its items, their rate, the time left where the length is known, what was skipped and tried again, and the
    share of time that the program waited for its input. Of several ranks, the first has one.

    With `autotune`, the number of worker processes and how much each reads ahead are found by measuring: from those
    given up to the number of processors or shards, and within a tenth of the free memory. The items, their order and
    states stay those of the same `num_shards`. `tuned` has what was found. Raises ValueError if there is one shard.

    With `metrics=True`, `metrics()` returns numbers such as the rate and the share of time spent waiting. A function in
    its place receives them every `metrics_interval` seconds, between two items, and at the end of each epoch:
    `ps.metrics.json_lines(path)`, `ps.metrics.tensorboard(writer)`, `ps.metrics.prometheus()`, or one of your own. What
    it raises is raised in the loop.

    Each epoch's seed derives from the loader's seed: `seed()` sets it, or else torch's generator draws it. It overrides
    `set_seed` of single pipes. The global generators of torch, NumPy and random are seeded before each item requested
    from the chain. What functions draw from them, such as augmentations, is then the same on any number of workers, and
    after resuming. In the main process, the program's generators stay as they were; that takes 50 µs an item, where a
    step calls a function. None of this holds for functions that do not run once per requested item: in threads, before
    a shuffle's buffer, or before a step that makes several items of one.

    >>> import penstock as ps
    >>> loader = DataLoader2(ps.iter.IterableWrapper(range(5)).batch(2))
    >>> list(loader)
    [[0, 1], [2, 3], [4]]
    """

    @takes_only(**{name: f"unlike torch's DataLoader, {hint}" for name, hint in _ARGUMENTS_OF_TORCH.items()})
    @telling_other_ranks()
    def __init__(
        self,
        datapipe: IterDataPipe[T] | MapDataPipe[T],
        datapipe_adapter_fn: Iterable[AdapterFunction] | AdapterFunction | None = None,
        reading_service: ReadingServiceInterface | None = None,
        *,
        profile: bool = False,
        progress: bool = False,
        autotune: bool = False,
        metrics: bool | Callable[[Metrics], object] = False,
        metrics_interval: float = 10.0,
    ) -> None:
        if not isinstance(reading_service, (ReadingServiceInterface, type(None))):
            raise TypeError(f"reading_service must be a reading service, and is {reading_service!r:.100}")
        if isinstance(datapipe_adapter_fn, ReadingServiceInterface):
            raise TypeError("the second argument is datapipe_adapter_fn: give the service as reading_service=…")
        adapters = [datapipe_adapter_fn] if callable(datapipe_adapter_fn) else datapipe_adapter_fn
        if not isinstance(adapters, (Iterable, type(None))):
            raise TypeError(f"datapipe_adapter_fn must be a function or several, and is {datapipe_adapter_fn!r:.100}")
        self.datapipe_adapter_fns = None if adapters is None else [*adapters]
        expect_pipe(datapipe)
        self.progress = progress
        self.datapipe = copy_of(datapipe)
        for adapt in self.datapipe_adapter_fns or ():
            self.datapipe = adapt(as_iterable(self.datapipe))
            expect_pipe(self.datapipe)
        expect_seconds("metrics_interval", metrics_interval)
        if not isinstance(metrics, bool) and not callable(metrics):
            raise TypeError(f"metrics must be True, False or a function of the metrics, and is {metrics!r:.100}")
        self._profiled = profile
        self._metrics_to = metrics if callable(metrics) else None
        self._metrics_interval = metrics_interval
        if profile or metrics:
            self._consumer = Consumer()
        self.valid_iterator_id: int | None = None
        self.reading_service = copy.deepcopy(reading_service)
        self._service = self.reading_service or InProcessReadingService()
        if autotune:
            self._service.autotune()
        super().__init__()
        self._shown = ExitStack()
        """It ends the progress bar of the epoch under way."""
        self._shut_down = False

    @telling_other_ranks()
    def __iter__(self) -> DataLoader2Iterator[T]:
        if self._shut_down:
            raise RuntimeError("this DataLoader2 was shut down")
        self._end_epoch_under_way(
            f"this iterator of a DataLoader2 was replaced by a newer one{asked_by()}: a loader reads one epoch at a "
            "time; to read the chain twice at once, make another loader of it"
        )
        self.valid_iterator_id = 0 if self.valid_iterator_id is None else self.valid_iterator_id + 1
        return DataLoader2Iterator(self._begin_epoch, self.valid_iterator_id)

    def _begin_epoch(self, requests: Requests, resumed_by: int | None) -> Iterator[T]:
        """Return the items of an epoch, or those left of one that was interrupted, which an iterator resumes."""
        if resumed_by is not None:
            self._expect_resumable(resumed_by)
            self.load_state_dict(self.state_dict())
        self._initialized()
        self._agree()
        if self._profiled:
            measure(self._read)
        adapt = self._service.initialize_iteration(SeedGenerator(self._base_seed(), self._epoch))
        if adapt is not None:
            self._read = readable(adapt(self._read))
        if self._position.loaded is None:
            hand_down(self._read, [])
        else:
            load_position(self._read, self._position.loaded)
        self._read._epoch = self._epoch
        items = iter(self._read)
        if self._consumer is not None:
            if self._epoch_number <= self._ended_epochs:
                self._items_before += self._items_at_start + self._consumer.items
                self._epoch_number = self._ended_epochs + 1
            self._consumer = Consumer()
            items = self._consumer.follow(items)
            if self._metrics_to is not None:
                items = self._with_metrics(items)
        return self._one_epoch(items, requests)

    def _with_metrics(self, items: Iterator[T]) -> Iterator[T]:
        """Yield the items, and send the metrics now and then; at the end of the epoch, `_one_epoch` does."""
        due = time.monotonic() + self._metrics_interval
        for item in items:
            yield item
            if time.monotonic() >= due:
                self._send_metrics()
                due = time.monotonic() + self._metrics_interval

    def _send_metrics(self) -> None:
        if self._metrics_to is None:
            return
        try:
            self._metrics_to(self.metrics())
        except Exception as error:
            add_note(error, "penstock: raised in the function that receives the loader's metrics, and by no step")
            raise

    def _expect_resumable(self, iterator_id: int) -> None:
        """Raise RuntimeError unless an iterator that was interrupted can read on."""
        if iterator_id != self.valid_iterator_id or self._shut_down:
            raise RuntimeError(
                "this iterator of a DataLoader2 was interrupted, and the loader has begun another epoch since, or was "
                "shut down"
            )
        if self._service.rank_sync is not None:
            raise RuntimeError(
                "this iterator of a DataLoader2 was interrupted, and several ranks read on together only from one "
                "state: call load_state_dict(state_dict()) of the loader on all ranks, and begin a new iterator"
            )

    def __len__(self) -> int:
        """Return the number of items of an epoch, over all shards; TypeError where it is unknown.

        On several ranks it is the number that each gives. A resumed epoch counts the items yielded before, plus those
        left for the present number of ranks.
        """
        read = self._initialized()
        reader = reader_below(read)
        if reader is None:
            return len(read)
        steps = self._position.steps_at_start
        return reader.length_from(steps[-1] if steps else {})

    def run(self) -> dict[str, int]:
        """Read an epoch to its end, and return what `run()` of the chain returns, such as the number of items.

        >>> import penstock as ps
        >>> DataLoader2(ps.iter.IterableWrapper(range(5)).batch(2)).run()
        {'items': 3, 'skipped': 0, 'retried': 0}
        """
        return run_loader(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            hint = f": {_ATTRIBUTES_OF_TORCH[name]}" if name in _ATTRIBUTES_OF_TORCH else ""
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}", name=name, obj=self)

    @classmethod
    def from_state(cls, state: dict[str, Any], reading_service: ReadingServiceInterface) -> DataLoader2[T]:
        """Not possible: a state has a chain's position, not the chain. Use `load_state_dict`."""
        raise NotImplementedError(
            "a state has a chain's position, and does not contain the chain: build the chain as before, make the "
            "loader with it, and call its load_state_dict(state)"
        )

    def shutdown(self) -> None:
        """End the worker processes and threads. The loader cannot be read afterwards."""
        if self._shut_down:
            return
        if self._read is None:
            self._shut_down = True
            return
        last_state: dict[str, Any] | str | None = None
        if self._under_way:
            try:
                last_state = self._own_state(self._position.now(self._read))
            except Exception as error:  # such as a source without an order: the workers end all the same
                last_state = f"{type(error).__name__}: {error}"
        # Raises if another thread is reading, and leaves its epoch alone.
        self._end_epoch_under_way(
            f"this iterator of a DataLoader2 has ended: the loader was shut down{asked_by()}: "
            "another loader reads on from its state_dict()"
        )
        self._last_state, self._shut_down = last_state, True
        self._service.finalize()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._position.requests.interrupt()
        self.shutdown()

    def __del__(self) -> None:
        # An `__init__` that raised leaves nothing to end. At interpreter shutdown the workers have already ended, and
        # what `shutdown` needs may be gone.
        if not getattr(self, "_shut_down", True) and not sys.is_finalizing():
            self.shutdown()

    def __repr__(self) -> str:
        return f"DataLoader2({self.datapipe!r}, reading_service={type(self._service).__name__})"

    def _one_epoch(self, items: Iterator[T], requests: Requests) -> Generator[T, None, None]:
        items = after(items, self._position.skip)
        position = self._position.begun(self._read, requests)
        with recorded_interrupts(requests):
            # Here and below: an interrupt falls before or after several assignments without a call.
            self._position, self._under_way = position, True
            if self._consumer is not None:
                self._items_at_start = position.items_before(self._read)
            with self._progress_bar():
                for chunk in position.chunks(self._read, items):
                    yield from chunk
            self._finish_epoch()
        self._send_metrics()

    def _progress_bar(self) -> ExitStack:
        """Return what ends the progress bar of the epoch that begins now, if it has one."""
        self._shown = shown = ExitStack()
        if self.progress and is_watched():
            before, tally = self._position.items_before(self._read), self._position.tally
            bar = progress_bar(
                f"epoch {self._ended_epochs + 1}",
                lambda: before + tally.items,
                total=known_length(self),
                notes=lambda waiting: losses_and_waits(self.stats(), waiting),
                is_running=self._read._pass.is_running,
                leave=None,
            )
            shown.enter_context(bar)
        return shown

    def _end_epoch_under_way(self, message: str) -> None:
        replace_live_iterator(self._initialized(), message)
        self._shown.close()
        self._finish_epoch()

    def _finish_epoch(self) -> None:
        if self._under_way:
            position, epoch = LoaderPosition(), self._epoch + 1
            if self._reseeded is not None:
                self._seed, epoch = self._reseeded, 0
            self._position, self._epoch, self._reseeded, self._under_way = position, epoch, None, False
            self._ended_epochs += 1
            self._service.finalize_iteration()
