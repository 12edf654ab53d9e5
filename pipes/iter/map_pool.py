"""Call models on items; each worker makes its model once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import torch

from ...errors.checks import AUTO
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe
from ...state.step_text import step_text
from ...workers.actors import Actors
from ...workers.cluster import Cluster, expect_resources
from ...workers.threads import Pool, Threads
from ..bases.rows.loose_rows import RowGatherer, out_of_batch
from .device import move
from .parallel import ProcessPoolMapper
from .rebatch import Rebatcher


@functional_datapipe("map_pool")
class ModelPoolMapper(ProcessPoolMapper):
    """Yield a model's result for each item, in order; `workers` models work at once.

    Take it for a model that is slow to make: each worker makes it once. `model` is a class with callable instances, or
    a function that returns a callable, such as `functools.partial(Predictor, "weights.pt")`. Each worker makes its
    model once and calls it on one item after another, in all passes. `engine` decides what the workers are:

    - `"processes"` of this machine.
    - `"threads"` of this process: nothing is pickled or copied. This is faster for small models, whose computation
      takes less time than sending an item to another process. torch's operations run in parallel in threads.
    - `"ray"`: Ray actors, on any machine of a cluster. `resources_per_worker` are those of each actor, by default
      `{"CPU": 1}`: "CPU", "GPU", and custom resources of the cluster's nodes.

    With `batch_size`, the model is called with batches of that many rows, and its results are yielded. Batches of
    columns are cut to that size, as by `rebatch`; rows are put into lists. `batched` says which of the two they are;
    without it, the chain decides, as for `write_parquet`. Without `batch_size`, the model is called with the items as
    they are.

    A `torch.nn.Module` is put in eval mode and called in `torch.inference_mode`; so is called any object with an
    attribute `inference_mode = True`. Outputs of threads are then inference tensors, without gradients. With `device`,
    the model is made with `device=` where it has such a parameter; otherwise a module is moved there. Tensors in the
    items are moved to the device before each call, and those in the results back to the CPU.

    Up to `prefetch` items, by default two per worker, are read ahead. With "auto", `workers` and `prefetch` are found
    by measuring, up to the number of processors or 32 threads, and within a tenth of the free memory. `on_error`
    handles an item for which the model raises. As with `processpool_map`, each process has one torch thread and lives
    as long as the pipe; in the workers of a loader, each shard has its own processes.

    Actors live as long as the pipe, too, and end with the program. They run on the Ray cluster that the program is
    connected to, or connects to at first use. Workers of a loader use the same cluster, if the program connects before
    the chain is sent to them, or the one at `RAY_ADDRESS`. An actor has one item at a time. Tensors and arrays are
    copied into and out of Ray's memory, so they are writable. Torch has as many threads in an actor as the actor has
    CPUs. A pass begins with the actors that have started. Others join when they start; a RuntimeWarning comes after 30
    seconds.

    Raises TypeError where `model` needs arguments, returns something not callable, or cannot take a device, ValueError
    for a dict that may be batch or row and for resources that Ray actors do not have, ImportError where Ray is not
    installed. Raises RuntimeError, with the cause and the item, where a process or actor dies; `on_error` handles this
    as any failure of an item, and a new worker takes the next item.

    >>> class Adder:
    ...     def __init__(self, number=10):
    ...         self.number = number
    ...     def __call__(self, item):
    ...         return item + self.number
    >>> dp = IterableWrapper(range(4)).map_pool(Adder, workers=1)
    >>> list(dp)
    [10, 11, 12, 13]
    >>> list(IterableWrapper(range(4)).map_pool(lambda: sum, workers=1, batch_size=3))
    [3, 3]
    """

    resumes_from_start = False
    _called = "model"
    workers: int | Literal["auto"]

    def __init__(
        self,
        source: IterDataPipe[Any],
        model: Callable[..., Callable[[Any], Any]],
        *,
        workers: int | Literal["auto"] = 2,
        batch_size: int | None = None,
        device: str | int | torch.device | None = None,
        prefetch: int | Literal["auto"] | None = None,
        engine: Literal["processes", "threads", "ray"] = "processes",
        resources_per_worker: Mapping[str, float] | None = None,
        batched: bool | None = None,
        on_error: OnError = "raise",
    ) -> None:
        expect_whole("workers", workers, or_word=AUTO)
        expect_whole("prefetch", prefetch, or_word=AUTO, optional=True)
        if batched is not None and batch_size is None:
            raise ValueError("batched needs a batch_size: without one, the model is called with the items as they are")
        if engine not in ("processes", "threads", "ray"):
            raise ValueError(f"engine must be 'processes', 'threads' or 'ray', and is {engine!r}")
        self.engine = engine
        self._are_threads = engine == "threads"
        if engine == "ray":
            if AUTO in (workers, prefetch):
                raise ValueError(f'actors of Ray take a number of workers and of items to prefetch, not "{AUTO}"')
            expect_resources(resources_per_worker or {})
        elif resources_per_worker is not None:
            raise ValueError(
                f"resources_per_worker is what each actor of Ray asks for: say engine='ray', not {engine!r}"
            )
        where = None if device is None else torch.device(device)
        _check_maker(model, where)
        super().__init__(
            source if batch_size is None else Rebatcher(RowGatherer(source, batch_size, batched), batch_size),
            partial(_Caller, model, where),
            workers=workers,
            prefetch=prefetch or (AUTO if workers == AUTO else 2 * workers),
            on_error=on_error,
        )
        self.model = model
        self.device = where
        self.works_in = "actors" if engine == "ray" else engine
        self.resources_per_worker = resources_per_worker
        self.batched = batched
        self._cluster = Cluster()

    def _new_pool(self) -> Pool:
        if self.engine == "ray":
            return Actors(self.fn, self.resources_per_worker or {}, self._cluster, step_text(self))
        return _ModelsHere(self.fn) if self.engine == "threads" else super()._new_pool()


class _ModelsHere:
    """Models that threads of this process call."""

    def __init__(self, fn: Callable[[], Callable[[Any], Any]]) -> None:
        self._fn = fn
        self._made: list[Callable[[Any], Any]] = []

    def are_ours(self) -> bool:
        return True

    def threads(self, wrap: Callable[[Callable[..., Any]], Callable[[Any], Any]], most: int) -> Threads:
        free = [*self._made]  # threads of earlier passes have ended

        def in_thread() -> Callable[[Any], Any]:
            try:
                caller = free.pop()
            except IndexError:
                caller = self._fn()
                self._made.append(caller)
            return wrap(caller)

        return Threads(in_thread, most, "penstock-map-pool")

    def close(self) -> None:
        self._made.clear()


class _Caller:
    """A model, made in the worker that calls it."""

    def __init__(self, make: Callable[..., Any], device: torch.device | None) -> None:
        takes_device = device is not None and _takes_device(make)
        model = make(device=device) if takes_device else make()
        if not callable(model):
            raise TypeError(f"the model must be callable with items, and this is not: {model!r:.100}")
        is_module = isinstance(model, torch.nn.Module)
        if device is not None and not takes_device:
            _expect_module(type(model), device)
            model = model.to(device)
        self._model = model.eval() if is_module else model
        self._device = device
        self._infers = is_module or getattr(model, "inference_mode", False) is True

    def __call__(self, item: Any) -> Any:
        mode: AbstractContextManager[Any] = torch.inference_mode() if self._infers else nullcontext()
        item = out_of_batch(item)
        with mode:
            if self._device is None:
                return self._model(item)
            return move(self._model(move(item, self._device)), torch.device("cpu"))


def _check_maker(model: Any, device: torch.device | None) -> None:
    """Raise TypeError for a model that needs arguments, or that is known not to take a device."""
    if isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model is an instance of {type(model).__name__}, and each worker makes its own: give the class, a "
            "functools.partial of it, or a function that loads it"
        )
    if not callable(model):
        raise TypeError(f"model must be a class, or a function that returns a callable, and is {model!r:.100}")
    takes_device = _takes_device(model)
    try:
        inspect.signature(model).bind(**({"device": device} if device is not None and takes_device else {}))
    except TypeError as error:
        raise TypeError(
            f"model is made without arguments, and {model!r:.100} cannot be: {error}. Give them with "
            "functools.partial; a function of items is for processpool_map and threadpool_map"
        ) from None
    except ValueError:  # classes in C may have no signature
        pass
    made = model.func if isinstance(model, partial) else model
    if device is not None and isinstance(made, type) and not takes_device:
        _expect_module(made, device)


def _takes_device(model: Callable[..., Any]) -> bool:
    try:
        return "device" in inspect.signature(model).parameters
    except (TypeError, ValueError):
        return False


def _expect_module(made: type, device: torch.device) -> None:
    if not issubclass(made, torch.nn.Module):
        raise TypeError(
            f"device is {device}, and {made.__name__} is neither made with a parameter device, nor a torch.nn.Module, "
            "which could be moved there"
        )
