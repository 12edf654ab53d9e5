"""The main process's side of the workers: starting them, taking what arrives, ending them."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]

from ..pipes.processes import PREPARATIONS, context_for, describe_exit, start
from ..registry import IterDataPipe, Node, walk
from ..registry.display import step
from ..registry.graph import pipes_in
from .dispatch import divided, run_dispatch
from .line import HUNG_UP, Arrival, Receiver
from .shards import Epoch, Place, ReadOptions, Received, WorkerInfo
from .transport import blocks_for_each, receive_parcel_descriptor
from .watch import Sighting
from .worker import Setup, run

__all__ = ["Interrupted", "WorkerPool"]

_PATIENCE = 2.0
"""Seconds that a worker has to end by itself, and again when it is terminated, before it is killed."""


_LOOK_EVERY = 2.0
"""Seconds after which it is looked what has become of a worker that gives nothing."""


class Interrupted(BaseException):
    """Another thread said that the pass is given up."""


class _Line:
    """One worker process, and the connection to it."""

    def __init__(self, setup: Setup, options: ReadOptions, dispatched: dict[tuple[int, int], Connection]) -> None:
        name = f"penstock-worker-{setup.worker.worker_id}"
        connection, self._process = _started(options.start_method, name, run, dispatched)
        self._timeout = options.timeout
        self._receiver = Receiver(connection, options.worker_prefetch)
        self._sighting: Sighting | None = None
        self.worker = setup.worker
        try:
            connection.send_bytes(cloudpickle.dumps(PREPARATIONS))
            connection.send_bytes(cloudpickle.dumps(setup))
        except HUNG_UP:
            raise self._death() from None

    def begin(self, epoch: Epoch, places: list[Place]) -> None:
        try:
            self._receiver.begin(epoch, places)
        except HUNG_UP:
            raise self._death() from None

    def receive(self, epoch: Epoch, interruption: Connection) -> tuple[Arrival, Any]:
        """Return the next arrival of an epoch and its item; what is left of earlier epochs is dropped."""
        try:
            while True:
                self._wait(interruption)
                if self._sighting is None:
                    self._sighting = Sighting(receive_parcel_descriptor(self._receiver.connection))
                    continue
                arrival, item = self._receiver.receive()
                if arrival.reading == epoch.reading:
                    if arrival.parcel is not None:
                        self._receiver.take_one()
                    return arrival, item
        except HUNG_UP:
            raise self._death() from None

    def _death(self) -> RuntimeError:
        self._process.join(_PATIENCE)
        return RuntimeError(
            f"{self} {describe_exit(self._process.exitcode)}{self._seen()}; what it printed, or the system's log, may "
            "say why"
        )

    def _wait(self, interruption: Connection) -> None:
        """Wait until something arrives, or raise an error that says why nothing does."""
        stopped = False
        patience = _LOOK_EVERY if self._timeout is None else min(self._timeout, _LOOK_EVERY)
        began = time.monotonic()
        while not (ready := mp_connection.wait([self._receiver.connection, interruption], patience)):
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{self._seen()}")
            if self._is_stopped():
                if stopped:  # as it was when it was looked at before
                    raise RuntimeError(f"{self} was stopped, as by SIGSTOP, and does not go on{self._seen()}")
                stopped = True
        if interruption in ready:
            raise Interrupted

    def hang_up(self) -> BaseProcess:
        """Tell the worker to end, and return its process."""
        self._receiver.hang_up()
        if self._sighting is not None:
            self._sighting.close()
        return self._process

    def __str__(self) -> str:
        worker = self.worker
        return f"worker {worker.worker_id} of {worker.num_workers} (process {self._process.pid})"

    def _is_stopped(self) -> bool:
        try:
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def _seen(self) -> str:
        return "" if self._sighting is None else str(self._sighting)


class _Dispatcher:
    """The process that reads streams once for all shards, and a connection to the workers for each shard of each."""

    def __init__(self, streams: list[Any], options: ReadOptions, num_shards: int) -> None:
        context: Any = context_for(options.start_method, run.__module__)
        pairs = {(point, shard): context.Pipe() for point in range(len(streams)) for shard in range(num_shards)}
        self.to_workers = {key: worker_end for key, (worker_end, _) in pairs.items()}
        ends = [[pairs[point, shard][1] for shard in range(num_shards)] for point in range(len(streams))]
        self._connection, self.process = _started(options.start_method, "penstock-dispatcher", run_dispatch, ends)
        for end in (end for line in ends for end in line):
            end.close()
        self._connection.send_bytes(cloudpickle.dumps(PREPARATIONS))
        self._connection.send_bytes(_pickled(streams))

    def let_workers_have_their_ends(self) -> None:
        """Close them here, or no worker would see that the process is gone."""
        for end in self.to_workers.values():
            end.close()

    def has_ended(self) -> bool:
        """Say whether the process is gone; it may be a moment until that is known."""
        self.process.join(0.2)
        return self.process.exitcode is not None

    def hang_up(self) -> BaseProcess:
        """Tell the process to end, and return it."""
        self._connection.close()
        return self.process


def _started(
    start_method: str | None, name: str, target: Callable[..., None], argument: Any
) -> tuple[Connection, BaseProcess]:
    """Start a process, and return a connection to it, which is its first argument, and the process."""
    context: Any = context_for(start_method, run.__module__)
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=target, args=(theirs, argument), name=name, daemon=True)
    start(process)
    theirs.close()  # so that the process's end is the only one, and its death is seen at once
    return ours, process


class WorkerPool:
    """Worker processes that read the shards of a chain: shard s lives on worker s mod num_workers."""

    def __init__(self, options: ReadOptions, num_shards: int, repeated: dict[int, Node]) -> None:
        divided_chain, streams = divided(options.chain)
        chain = _pickled(divided_chain)
        max_blocks = blocks_for_each(options.num_workers)
        self.broken = False
        self._num_shards = num_shards
        self._epoch = Epoch(0, 0, 0)
        self._lines: list[_Line] = []
        self._dispatcher: _Dispatcher | None = None
        self._stats: dict[int, Any] = {}
        self._repeated: dict[int, Node] = {}
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        try:
            ends: dict[tuple[int, int], Connection] = {}
            if streams:
                self._dispatcher = _Dispatcher(streams, options, num_shards)
                ends = self._dispatcher.to_workers
            for worker_id in range(options.num_workers):
                setup = Setup(
                    WorkerInfo(options.num_workers, worker_id),
                    chain,
                    num_shards,
                    options.init_fn,
                    options.reset_fn,
                    options.worker_prefetch,
                    max_blocks,
                    repeated,
                )
                own = {key: end for key, end in ends.items() if key[1] % options.num_workers == worker_id}
                self._lines.append(_Line(setup, options, own))
            if self._dispatcher is not None:
                self._dispatcher.let_workers_have_their_ends()
        except BaseException:
            self.shutdown()
            raise

    def begin(self, places: Iterable[Place], seed: int, rank: int) -> None:
        """Let every worker begin an epoch with its shards, in the order given; shards left out are not read."""
        self._epoch = Epoch(self._epoch.number + 1, seed, rank)
        self._stats = {}
        while self._interruption.poll():
            self._interruption.recv_bytes()
        for line in self._lines:
            own = [place for place in places if self._line_of(place.shard) is line]
            line.begin(self._epoch, own)

    def receive(self, shard: int) -> Received:
        """Return what the worker of a shard sends next, which is of that shard; its end, or an item, or its error."""
        line = self._line_of(shard)
        try:
            arrival, item = line.receive(self._epoch, self._interruption)
        except Interrupted:
            raise
        except BaseException as error:  # a worker is gone, or half a message was read
            self.broken = True
            error.add_note(f"penstock: waiting for the next item of shard {shard} of {self._num_shards}")
            raise
        if arrival.error is not None:
            theirs, cause = cloudpickle.loads(arrival.error)
            if self._dispatcher is not None and self._dispatcher.has_ended():
                self.broken = True
                ended = describe_exit(self._dispatcher.process.exitcode)
                theirs.add_note(f"penstock: the process that reads the dispatched stream {ended}")
            raise theirs from cause
        if arrival.report is not None:
            self._stats[shard] = arrival.report.stats
            if arrival.report.repeated is not None:
                self._repeated[shard] = arrival.report.repeated
        return Received(item, arrival.node, ended=arrival.parcel is None)

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps had counted when its worker last told."""
        return self._stats

    def repeated(self) -> dict[int, Node]:
        """Return, for each shard, what its passes give again in each epoch, where something does."""
        return self._repeated

    def interrupt(self) -> None:
        """Let a `receive` that waits in another thread raise Interrupted."""
        self._interrupt.send_bytes(b"!")

    def shutdown(self) -> None:
        """End all workers; those that do not end by themselves are killed."""
        processes = [each.hang_up() for each in (*self._lines, self._dispatcher) if each is not None]
        self._lines, self._dispatcher = [], None
        for insist in (None, BaseProcess.terminate, BaseProcess.kill):
            deadline = time.monotonic() + _PATIENCE
            for process in processes:
                if insist is not None and process.is_alive():
                    insist(process)
            for process in processes:
                process.join(max(deadline - time.monotonic(), 0))
        for process in processes:
            process.close()
        self._interruption.close()
        self._interrupt.close()

    def _line_of(self, shard: int) -> _Line:
        return self._lines[shard % len(self._lines)]


def _pickled(chain: IterDataPipe[Any] | list[Any]) -> bytes:
    try:
        return bytes(cloudpickle.dumps(chain))
    except Exception as error:
        for culprit in (each for part in pipes_in(chain) for each in _not_picklable(part)):
            error.add_note(f"penstock: {culprit} cannot be pickled, and so not be sent to worker processes")
            break
        raise


def _not_picklable(chain: Any) -> Iterator[str]:
    for pipe in walk(chain):
        for name, value in vars(pipe).items():
            if name not in getattr(pipe, "transient", ()) and not [*pipes_in(value)]:
                try:
                    cloudpickle.dumps(value)
                except Exception:
                    yield f"the {name} of {step(pipe)}"
