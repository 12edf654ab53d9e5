"""Workers on the machines of a Ray cluster; Ray places and starts actors, and reports their deaths.

An actor listens, and starts a worker process for each loader that connects with its key. The line to it is like that
to any worker process: shared memory on the same machine, TCP from others. Items thus avoid Ray's object store, which
costs a millisecond per object.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import re
import secrets
import select
import socket
import sys
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any, Self

import cloudpickle  # type: ignore[import-untyped]
import torch

from ..errors.optional import require
from ..registry import PREPARATIONS, expect_whole
from ..workers.cluster import GLANCE, Cluster, actor_options, connection_now, expect_resources, nodes_now
from ..workers.processes import pickled_error, start_server
from ..workers.threads import Interrupted
from ..workers.transport import blocks_for_each
from .child import ENDS_WITHIN, Child, ChildProcess, Children, insist_on_end
from .dispatch import STREAM_READER, Dispatch, give_up_when_told, received_dispatch, serve_shard
from .protocol import FAILED, HUNG_UP, NONE, Arrival
from .worker import run_worker, serve
from .worker_init import begin, prepare
from .worker_status import Sighting, Watch

__all__ = ["RayFleet", "WorkerActors"]

_TO_START = 30.0
"""Seconds that an actor may take to start before a warning; with a `timeout`, at least so many before an error."""
_DEATHS_IN_A_ROW = 3
"""How many deaths in a row at the same item are an error."""
_ANSWERS_WITHIN = 1.0
"""Seconds for an actor to answer: what a dispatcher reads may hold the GIL."""
_LOOK_AGAIN = 0.02
"""Seconds between checks whether a process in an actor has ended."""
_WELCOME = b"come in"
_SPEAKS_WITHIN = 10.0
"""Seconds for the handshake of a new connection."""


@dataclass(frozen=True)
class _Door:
    """Where an actor listens."""

    on_machine: str
    """A socket in Linux's abstract namespace, so that a killed actor leaves no file; "" elsewhere."""
    address: tuple[str, int]
    key: bytes = field(repr=False)

    def enter(self, ticket: str, argument: object) -> tuple[Connection, bool]:
        """Connect to the actor; return the connection, and whether the actor is on this machine.

        `_Host.told(ticket)` then reports on the process that reads for this connection.
        """
        connection, is_near = self._connected()
        with _in_time(connection):
            connection.send_bytes(cloudpickle.dumps((ticket, argument, is_near)))
            connection.recv_bytes()
        return connection, is_near

    def _connected(self) -> tuple[Any, bool]:
        connection: Any = None
        with suppress(OSError):
            if self.on_machine:
                connection = mp_connection.Client(self.on_machine, "AF_UNIX")
        is_near = connection is not None
        if not is_near:
            try:
                line = socket.create_connection(self.address, _SPEAKS_WITHIN)
            except OSError as error:
                where = "{}:{}".format(*self.address)
                raise ConnectionError(f"cannot be reached at {where}, as behind a firewall: {error}") from error
            line.settimeout(None)
            connection = _sending_at_once(Connection(line.detach()))
        with _in_time(connection):
            mp_connection.answer_challenge(connection, self.key)
            mp_connection.deliver_challenge(connection, self.key)
        return connection, is_near

    def close(self) -> None:
        """Do nothing: unlike a connection, it is not open."""


def _sending_at_once(connection: Any) -> Any:
    """Send messages without delay, and detect when the other machine is gone."""
    line = socket.socket(fileno=connection.fileno())
    try:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    finally:
        line.detach()
    return connection


@dataclass(frozen=True)
class _Told:
    """An actor's report on the reader for a connection."""

    seen: str = ""
    """What it was doing, as `Child.seen` returns it."""
    ended: str | None = None
    """How it ended, and what it was doing."""
    is_stopped: bool = False


class _Host(ABC):
    """What runs in an actor: it listens, and serves all who connect with its key."""

    def __init__(self) -> None:
        self._entered: set[str] = set()
        host = require("ray", "ray").util.get_node_ip_address()
        listeners = [mp_connection.Listener((host, 0), "AF_INET")]
        name = f"\0penstock-{secrets.token_hex(16)}"
        try:
            listeners.append(mp_connection.Listener(name, "AF_UNIX"))
        except OSError:
            name = ""
        self._door = _Door(name, (host, listeners[0].address[1]), secrets.token_bytes(32))
        for listener in listeners:
            threading.Thread(target=self._let_in, args=(listener,), name="penstock-door", daemon=True).start()

    def door(self) -> _Door:
        return self._door

    def told(self, ticket: str) -> _Told:
        """Report on the reader for a ticket."""
        if ticket not in self._entered:
            return _Told(ended="has died with its actor, which was started again")
        return self._told(ticket)

    @abstractmethod
    def _told(self, ticket: str) -> _Told: ...

    @abstractmethod
    def _serve(self, connection: Connection, ticket: str, argument: Any, is_near: bool) -> None:
        """Serve a connection until its other end leaves."""

    def _let_in(self, listener: Any) -> None:
        while True:
            with suppress(OSError):  # the other end has gone already
                connection = listener.accept()
                threading.Thread(target=self._meet, args=(connection,), name="penstock-line", daemon=True).start()

    def _meet(self, connection: Connection) -> None:
        """Serve a connection with the key; what would end a process ends the actor, not just the thread."""
        with connection:
            if not self._knows_key(connection):
                return
            try:
                ticket, argument, is_near = cloudpickle.loads(connection.recv_bytes())
                if not is_near:
                    _sending_at_once(connection)
                self._entered.add(ticket)
                connection.send_bytes(_WELCOME)
                self._serve(connection, ticket, argument, is_near)
            except (EOFError, OSError):
                pass  # the other end is gone, or its machine
            except SystemExit as error:
                os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
            except BaseException:
                traceback.print_exc()
                os._exit(1)

    def _knows_key(self, connection: Connection) -> bool:
        """Say whether the other end knows the key, and shows it in time."""
        try:
            with _in_time(connection):
                mp_connection.deliver_challenge(connection, self._door.key)
                mp_connection.answer_challenge(connection, self._door.key)
        except (OSError, EOFError, multiprocessing.AuthenticationError):
            return False
        return True


class _WorkerHost(_Host):
    """An actor that starts a reading process for each connection."""

    def __init__(self) -> None:
        self._processes: dict[str, ChildProcess] = {}
        self._ended: dict[str, str] = {}
        self._telling = threading.Lock()
        cluster = require("ray", "ray").get_runtime_context().gcs_address
        os.environ.setdefault("RAY_ADDRESS", cluster)  # for chains that use Ray themselves
        start_server(run_worker.__module__)
        super().__init__()

    def _told(self, ticket: str) -> _Told:
        with self._telling:
            if ticket not in self._processes:
                return _Told(ended=self._ended.get(ticket))  # None while it starts
            child = self._processes[ticket]
            return _Told(child.seen(), child.end(patience=0), child.is_stopped())

    def _serve(self, connection: Connection, ticket: str, dispatched: dict[Any, _Door], is_near: bool) -> None:
        try:
            child = ChildProcess(None, "penstock-worker", _serve_connection, (connection, dispatched))
        except (OSError, EOFError) as error:
            self._ended[ticket] = f"could not be started: {error!r}"
            return
        self._processes[ticket] = child
        try:
            _wait_until_left(connection, child)
        finally:
            insist_on_end([child.process])
            with self._telling:
                self._ended[ticket] = child.end() or "does not end"
                del self._processes[ticket]
                child.let_go()


class _DispatcherHost(_Host):
    """An actor that reads streams once for all shards, for one loader."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._watch = Watch(takes_crashes=False)
        self._dispatch: Dispatch
        self._has_streams = threading.Event()
        super().__init__()

    def _told(self, ticket: str) -> _Told:
        sighting = Sighting(self._watch.descriptor())
        try:
            return _Told(str(sighting))
        finally:
            sighting.close()

    def _serve(self, connection: Connection, ticket: str, argument: tuple[int, int] | None, is_near: bool) -> None:
        """Serve the loader, or a worker, whose `argument` is a stream's number and its number of lines."""
        if argument is None:
            prepare(connection)
            self._dispatch = received_dispatch(connection)
            self._has_streams.set()
            give_up_when_told(connection, self._dispatch)
        else:
            point, lines = argument
            self._has_streams.wait()
            serve_shard(connection, blocks_for_each(lines) if is_near else 0, self._dispatch, point, self._watch)


def _serve_connection(to_actor: Connection, given: tuple[Connection, dict[tuple[int, int], _Door]]) -> None:
    """Read for one connection to an actor, in a process of its own."""
    connection, dispatched = given
    try:
        watch = begin(to_actor)
        prepare(connection)
        try:
            feeds = {line: door.enter("", (line[0], len(dispatched)))[0] for line, door in dispatched.items()}
        except (OSError, EOFError) as error:
            gone = RuntimeError(f"{STREAM_READER} has ended, or cannot be reached: {error!r}")
            connection.send_bytes(Arrival(NONE, FAILED, error=pickled_error(gone)).to_bytes())
            return
        serve(connection, feeds, watch)
    except HUNG_UP:
        pass  # the other end is gone, or its machine


def _wait_until_left(connection: Connection, child: ChildProcess) -> None:
    """Wait until a process has ended, or the other end of its connection is gone."""
    poll, told = select.poll(), child.connection.fileno()
    poll.register(child.process.sentinel, select.POLLIN)
    poll.register(connection, getattr(select, "POLLRDHUP", 0))  # other systems report it anyway
    poll.register(told, select.POLLIN)
    while [descriptor for descriptor, _ in poll.poll()] == [told]:
        poll.unregister(told)
        with suppress(OSError, EOFError):
            child.take_sighting()


@contextmanager
def _in_time(connection: Connection) -> Iterator[None]:
    """Shut a connection down if the block takes more than `_SPEAKS_WITHIN` seconds."""
    silence = threading.Timer(_SPEAKS_WITHIN, _shut, [connection])
    silence.start()
    try:
        yield
    finally:
        silence.cancel()


def _shut(connection: Connection) -> None:
    line = socket.socket(fileno=connection.fileno())
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.detach()


def _find_modules_in(folders: list[str]) -> None:
    """Search the main process's module folders too, where this machine has them."""
    sys.path += [folder for folder in folders if folder not in sys.path]


class RayFleet:
    """Ray actors that read for several loaders, such as those of all ranks: give it to `RayReadingService`.

    There are `num_workers` of them, each with `resources_per_worker`, by default `{"CPU": 1}`: "CPU", "GPU", or custom
    resources of the cluster. They start at once, and live until `shutdown()`, the end of a `with`, or the end of the
    program that made the fleet. Each has a process for every loader that it serves. A fleet can be pickled, also for
    functions that run on Ray. Ray restarts actors that die.
    """

    def __init__(self, num_workers: int, resources_per_worker: Mapping[str, float] | None = None) -> None:
        expect_whole("num_workers", num_workers)
        self.num_workers = num_workers
        self.resources_per_worker = {"CPU": 1, **(resources_per_worker or {})}
        expect_resources(self.resources_per_worker)
        self._actors = [_new_actor(_WorkerHost, self.resources_per_worker) for _ in range(num_workers)]
        self._nodes = nodes_now()

    def actor(self, number: int) -> Any:
        """Return the handle of an actor."""
        self._expect_actors()
        return self._actors[number]

    def _expect_actors(self) -> None:
        if not self._actors:
            raise RuntimeError("the fleet was shut down: make another")
        if not self.is_of_this_ray():
            Cluster().connect()  # or says why this process cannot
            raise RuntimeError(
                "the Ray of these actors was shut down: make a new loader, and a new fleet if you made one"
            )

    def is_of_this_ray(self) -> bool:
        """Say whether its handles are usable: a call through those of another Ray ends the process."""
        return not self._nodes.isdisjoint(nodes_now())

    def start_again(self, number: int) -> Any:
        """Start an actor in place of one that Ray does not restart."""
        self._actors[number] = _new_actor(_WorkerHost, self.resources_per_worker)
        return self._actors[number]

    def shutdown(self) -> None:
        """End the actors."""
        ray = require("ray", "ray")
        actors, self._actors = self._actors, []
        if self.is_of_this_ray():
            for actor in actors:
                ray.kill(actor)

    def __deepcopy__(self, memo: object) -> Self:
        self._expect_actors()
        copied = copy.copy(self)
        copied._actors = [*self._actors]
        return copied

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"RayFleet({self.num_workers}, resources_per_worker={self.resources_per_worker})"


class WorkerActors(Children):
    """A fleet's actors, which start workers, and the actors that read streams once for all shards."""

    def __init__(self, fleet: RayFleet, is_own: bool, timeout: float | None) -> None:
        self._fleet = fleet
        self._is_own = is_own
        self._timeout = timeout
        self._given_up = threading.Event()
        self._dispatchers: list[Any] = []

    def preparations(self) -> list[Callable[[], object]]:
        return [partial(_find_modules_in, [*sys.path]), *PREPARATIONS]  # Ray sets their environment

    def name(self, worker_id: int, num_workers: int) -> str:
        return f"actor {worker_id} of {num_workers}"

    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> Child:
        who = self.name(worker_id, self._fleet.num_workers)
        deaths = 0
        while True:
            actor = self._fleet.actor(worker_id)
            try:
                return _ChildActor(actor, self._door_of(actor, who), dispatched, self._fleet.num_workers)
            except TimeoutError:  # a late actor is not gone
                raise
            except _gone() as error:
                deaths += 1
                if deaths == _DEATHS_IN_A_ROW or not _is_connected():
                    raise RuntimeError(f"{who} {_said_by_ray(error)}") from error
                if isinstance(error, require("ray.exceptions", "ray").ActorDiedError) and self._is_own:
                    self._fleet.start_again(worker_id)  # others hold the handles of a shared fleet

    def interrupt(self, is_given_up: bool) -> None:
        if is_given_up:
            self._given_up.set()
        else:
            self._given_up.clear()

    def dispatcher(self, lines: list[tuple[int, int]]) -> tuple[Child, dict[tuple[int, int], Any]]:
        actor = _new_actor(_DispatcherHost, self._fleet.resources_per_worker)
        self._dispatchers.append(actor)
        door = self._door_of(actor, "the actor that reads the dispatched stream")
        return _ChildActor(actor, door, None, 1), dict.fromkeys(lines, door)

    def end(self, children: Iterable[Child]) -> None:
        if not self._fleet.is_of_this_ray():  # the actors ended with it
            return
        for actor in self._dispatchers:
            require("ray", "ray").kill(actor)
        deadline = time.monotonic() + ENDS_WITHIN
        for child in children:
            if (left := deadline - time.monotonic()) > 0:
                child.end(left)
        if self._is_own:
            self._fleet.shutdown()

    def _door_of(self, actor: Any, who: str) -> _Door:
        ray = Cluster().connect()
        if not ray.is_initialized():  # else the call would start another Ray
            raise RuntimeError(f"{who}'s Ray was shut down: make a new loader, and a new fleet")
        answer = actor.door.options(max_task_retries=-1).remote()  # waits for an actor that Ray restarts
        patience = max(_TO_START, self._timeout or 0)
        began, has_warned = time.monotonic(), False
        while not ray.wait([answer], timeout=GLANCE)[0]:
            if self._given_up.is_set():
                raise Interrupted
            if time.monotonic() - began < patience or has_warned:
                continue
            needed, free = self._fleet.resources_per_worker, ray.available_resources()
            why = f"{who} has not started for {patience:g} s: it needs {needed}, and the cluster has free {free}"
            if self._timeout is not None:
                raise TimeoutError(why)
            warnings.warn(why, RuntimeWarning, stacklevel=2)
            has_warned = True
        door: _Door = ray.get(answer)
        return door


class _ChildActor(Child):
    """A reader in an actor for this process, and the connection to it."""

    deaths_in_a_row = _DEATHS_IN_A_ROW

    def __init__(self, actor: Any, door: _Door, argument: object, lines: int) -> None:
        self._actor = actor
        self._host = door.address[0]
        self._ticket = secrets.token_hex(16)
        self._made_with = connection_now()
        self.connection, is_near = door.enter(self._ticket, argument)
        self.max_blocks = blocks_for_each(lines) if is_near else 0

    def seen(self) -> str:
        return self._told().seen

    def end(self, patience: float = ENDS_WITHIN) -> str | None:
        deadline = time.monotonic() + patience
        while (ended := self._told().ended) is None and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)
        return ended

    def is_stopped(self) -> bool:
        return self._told().is_stopped

    def _told(self) -> _Told:
        """Return the actor's report, or that it is gone; an empty report if it does not answer."""
        if self._made_with != connection_now():
            return _Told(ended="has ended: Ray was shut down")
        ray = require("ray", "ray")
        answer = self._actor.told.remote(self._ticket)
        if not ray.wait([answer], timeout=_ANSWERS_WITHIN)[0]:
            return _Told()
        try:
            told: _Told = ray.get(answer)
        except _gone() as error:
            return _Told(ended=_said_by_ray(error))
        return told

    def let_go(self) -> None:
        self.connection.close()

    def kill(self) -> None:
        self.connection.close()  # the actor notices, and ends the reader

    def __str__(self) -> str:
        return f"(on {self._host})"


def _new_actor(kind: type[_Host], resources: Mapping[str, float]) -> Any:
    """Start an actor, and return its handle."""
    ray = Cluster().connect()
    return (
        ray.remote(kind)
        .options(
            **actor_options(resources),
            scheduling_strategy="SPREAD",  # not inside a trainer's own placement group
            max_concurrency=4,
            max_restarts=-1,
        )
        .remote()
    )


def _gone() -> tuple[type[Exception], ...]:
    """Return what Ray and connecting raise when an actor is not there."""
    return (require("ray.exceptions", "ray").RayError, OSError, EOFError, multiprocessing.AuthenticationError)


def _is_connected() -> bool:
    return bool(require("ray", "ray").is_initialized())


def _said_by_ray(error: Exception) -> str:
    """Return in one line what happened to an actor."""
    why = re.search("^The actor is dead because (.*)", str(error), re.MULTILINE)
    if why:
        return f"has died: {why[1][:500]}"
    return str(error) if type(error) is ConnectionError else "has died, or cannot be reached"
