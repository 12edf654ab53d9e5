"""The actors of a Ray cluster that read for loaders, from within: they listen, and serve connections.

An actor starts a worker process for each loader that connects with its key. The connection is like that to any worker
process: shared memory on the same machine, TCP from others. Items thus avoid Ray's object store, which costs a
millisecond per object.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import select
import socket
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import torch

from ...errors.optional import require
from ...workers.processes import start_server
from ...workers.transport import blocks_for_each
from ..workers.backend import ENDS_WITHIN
from ..workers.dispatch import STREAM_READER, Dispatch, receive_dispatch, serve_commands, serve_shard
from ..workers.init import initialize_process, run_preparations
from ..workers.processes import ProcessHandle, end_processes
from ..workers.protocol import DISCONNECTED, send_failure
from ..workers.status import StatusWriter, WorkerStatus, new_status_file, read_activity
from ..workers.worker import run_worker, serve

__all__ = ["ActorAddress", "ActorHost", "DispatcherHost", "WorkerHost"]

_ACCEPTED = b"accepted"
_HANDSHAKE_TIMEOUT = 10.0
"""Seconds for the handshake of a new connection."""


@dataclass(frozen=True)
class ActorAddress:
    """The address at which an actor listens, with its key."""

    local: str
    """A socket in Linux's abstract namespace, so that a killed actor leaves no file; "" elsewhere."""
    remote: tuple[str, int]
    key: bytes = field(repr=False)

    def connect(self, connection_id: str, argument: object) -> tuple[Connection, bool]:
        """Connect to the actor; return the connection, and whether the actor is on this machine.

        `ActorHost.status(connection_id)` then returns the status of the process that reads for this connection.
        """
        connection, is_local = self._authenticated()
        with _time_limit(connection):
            connection.send_bytes(cloudpickle.dumps((connection_id, argument, is_local)))
            connection.recv_bytes()
        return connection, is_local

    def _authenticated(self) -> tuple[Any, bool]:
        connection: Any = None
        with suppress(OSError):
            if self.local:
                connection = mp_connection.Client(self.local, "AF_UNIX")
        is_local = connection is not None
        if not is_local:
            try:
                sock = socket.create_connection(self.remote, _HANDSHAKE_TIMEOUT)
            except OSError as error:
                where = "{}:{}".format(*self.remote)
                raise ConnectionError(f"cannot be reached at {where}, as behind a firewall: {error}") from error
            sock.settimeout(None)
            connection = _without_delay(Connection(sock.detach()))
        with _time_limit(connection):
            mp_connection.answer_challenge(connection, self.key)
            mp_connection.deliver_challenge(connection, self.key)
        return connection, is_local

    def close(self) -> None:
        """Do nothing: unlike a connection, it is not open."""


def _without_delay(connection: Any) -> Any:
    """Send messages without delay, and detect when the other machine is gone."""
    sock = socket.socket(fileno=connection.fileno())
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    finally:
        sock.detach()
    return connection


class ActorHost(ABC):
    """An actor that listens, and serves all who connect with its key."""

    def __init__(self) -> None:
        self._connections: set[str] = set()
        host = require("ray", "ray").util.get_node_ip_address()
        listeners = [mp_connection.Listener((host, 0), "AF_INET")]
        name = f"\0penstock-{secrets.token_hex(16)}"
        try:
            listeners.append(mp_connection.Listener(name, "AF_UNIX"))
        except OSError:
            name = ""
        self._address = ActorAddress(name, (host, listeners[0].address[1]), secrets.token_bytes(32))
        for listener in listeners:
            threading.Thread(target=self._accept, args=(listener,), name="penstock-listener", daemon=True).start()

    def address(self) -> ActorAddress:
        return self._address

    def status(self, connection_id: str) -> WorkerStatus:
        """Return the status of the reader for a connection."""
        if connection_id not in self._connections:
            return WorkerStatus(ended="has died with its actor, which was started again")
        return self._status(connection_id)

    @abstractmethod
    def _status(self, connection_id: str) -> WorkerStatus: ...

    @abstractmethod
    def _serve(self, connection: Connection, connection_id: str, argument: Any, is_local: bool) -> None:
        """Serve a connection until its other end leaves."""

    def _accept(self, listener: Any) -> None:
        while True:
            with suppress(OSError):  # the other end has gone already
                connection = listener.accept()
                threading.Thread(
                    target=self._handle, args=(connection,), name="penstock-connection", daemon=True
                ).start()

    def _handle(self, connection: Connection) -> None:
        """Serve a connection with the key; what would end a process ends the actor, not just the thread."""
        with connection:
            if not self._knows_key(connection):
                return
            try:
                connection_id, argument, is_local = cloudpickle.loads(connection.recv_bytes())
                if not is_local:
                    _without_delay(connection)
                self._connections.add(connection_id)
                connection.send_bytes(_ACCEPTED)
                self._serve(connection, connection_id, argument, is_local)
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
            with _time_limit(connection):
                mp_connection.deliver_challenge(connection, self._address.key)
                mp_connection.answer_challenge(connection, self._address.key)
        except (OSError, EOFError, multiprocessing.AuthenticationError):
            return False
        return True


class WorkerHost(ActorHost):
    """An actor that starts a reading process for each connection."""

    def __init__(self) -> None:
        self._processes: dict[str, ProcessHandle] = {}
        self._ended: dict[str, str] = {}
        self._lock = threading.Lock()
        cluster = require("ray", "ray").get_runtime_context().gcs_address
        os.environ.setdefault("RAY_ADDRESS", cluster)  # for chains that use Ray themselves
        start_server(run_worker.__module__)
        super().__init__()

    def _status(self, connection_id: str) -> WorkerStatus:
        with self._lock:
            if connection_id not in self._processes:
                return WorkerStatus(ended=self._ended.get(connection_id))  # None while it starts
            return self._processes[connection_id].status()

    def _serve(
        self, connection: Connection, connection_id: str, dispatched: dict[Any, ActorAddress], is_local: bool
    ) -> None:
        try:
            process = ProcessHandle(None, "penstock-worker", _serve_connection, (connection, dispatched))
        except (OSError, EOFError) as error:
            self._ended[connection_id] = f"could not be started: {error!r}"
            return
        self._processes[connection_id] = process
        try:
            _wait_until_gone(connection, process)
        finally:
            end_processes([process.process])
            with self._lock:
                self._ended[connection_id] = process.status(ENDS_WITHIN).ended or "does not end"
                del self._processes[connection_id]
                process.close()


class DispatcherHost(ActorHost):
    """An actor that reads streams once for all shards, for one loader."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._status_file = new_status_file()
        self._watch = StatusWriter(self._status_file, records_crashes=False)
        self._dispatch: Dispatch
        self._has_streams = threading.Event()
        super().__init__()

    def _status(self, connection_id: str) -> WorkerStatus:
        return WorkerStatus(read_activity(self._status_file))

    def _serve(
        self, connection: Connection, connection_id: str, argument: tuple[int, int] | None, is_local: bool
    ) -> None:
        """Serve the loader, or a worker, whose `argument` is a stream's number and its number of connections."""
        if argument is None:
            run_preparations(connection)
            self._dispatch = receive_dispatch(connection)
            self._has_streams.set()
            serve_commands(connection, self._dispatch)
        else:
            stream, connections = argument
            self._has_streams.wait()
            blocks = blocks_for_each(connections) if is_local else 0
            serve_shard(connection, blocks, self._dispatch, stream, self._watch)


def _serve_connection(to_actor: Connection, arguments: tuple[Connection, dict[tuple[int, int], ActorAddress]]) -> None:
    """Read for one connection to an actor, in a process of its own."""
    connection, dispatched = arguments
    try:
        watch = initialize_process(to_actor)
        run_preparations(connection)
        try:
            feeds = {key: address.connect("", (key[0], len(dispatched)))[0] for key, address in dispatched.items()}
        except (OSError, EOFError) as error:
            send_failure(connection, RuntimeError(f"{STREAM_READER} has ended, or cannot be reached: {error!r}"))
            return
        serve(connection, feeds, watch)
    except DISCONNECTED:
        pass  # the other end is gone, or its machine


def _wait_until_gone(connection: Connection, process: ProcessHandle) -> None:
    """Wait until a process has ended, or the other end of its connection is gone."""
    poll = select.poll()
    poll.register(process.process.sentinel, select.POLLIN)
    poll.register(connection, getattr(select, "POLLRDHUP", 0))  # other systems report it anyway
    poll.poll()


@contextmanager
def _time_limit(connection: Connection) -> Iterator[None]:
    """Shut a connection down if the block takes more than `_HANDSHAKE_TIMEOUT` seconds."""
    silence = threading.Timer(_HANDSHAKE_TIMEOUT, _shut, [connection])
    silence.start()
    try:
        yield
    finally:
        silence.cancel()


def _shut(connection: Connection) -> None:
    sock = socket.socket(fileno=connection.fileno())
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.detach()
