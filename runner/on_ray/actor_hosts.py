"""The actors of a Ray cluster that read for loaders, from within: they start worker processes that connect to loaders.

The connection is like that to any worker process: shared memory on the same machine, TCP from others. Items thus avoid
Ray's object store, which costs a millisecond per object.
"""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Self

from ...errors.optional import require
from ...workers.processes import start_server
from ..workers.processes import ENDS_WITHIN, ProcessHandle, end_processes
from ..workers.status import WorkerStatus
from ..workers.worker import run_worker

_CONNECTS_WITHIN = 10.0
"""Seconds for an actor to connect to a loader."""
_SAYS_KEY_WITHIN = 1.0
"""Seconds for the other end of a new connection to show the key."""
_KEY_BYTES = 32


@dataclass(frozen=True)
class LoaderAddress:
    """The address at which a loader waits for connections from an actor that it called, with the key for them."""

    local: str
    """A socket in Linux's abstract namespace, so that a killed program leaves no file; "" elsewhere."""
    remote: tuple[str, int]
    key: bytes = field(repr=False)

    def connect(self) -> Connection:
        """Return a connection to the loader."""
        sock = self._connected()
        sock.sendall(self.key)
        return Connection(sock.detach())

    def _connected(self) -> socket.socket:
        if self.local:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(self.local)
                return sock
            except OSError:  # the loader is on another machine
                sock.close()
        try:
            sock = socket.create_connection(self.remote, _CONNECTS_WITHIN)
        except OSError as error:
            where = "{}:{}".format(*self.remote)
            raise ConnectionError(f"cannot reach its loader at {where}, as behind a firewall: {error}") from error
        sock.settimeout(None)
        return _without_delay(sock)


def _without_delay(sock: socket.socket) -> socket.socket:
    """Send messages without delay, and detect when the other machine is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


class Listener:
    """The sockets at which a loader waits for connections from an actor; a context, which closes them."""

    def __init__(self) -> None:
        host = require("ray", "ray").util.get_node_ip_address()
        by_tcp = socket.create_server((host, 0), backlog=socket.SOMAXCONN)
        self._sockets, local = [by_tcp], f"\0penstock-{secrets.token_hex(16)}"
        here = socket.socket(socket.AF_UNIX)
        try:
            here.bind(local)
            here.listen(socket.SOMAXCONN)
            self._sockets.append(here)
        except OSError:
            here.close()
            local = ""
        self.address = LoaderAddress(local, by_tcp.getsockname(), secrets.token_bytes(_KEY_BYTES))

    def accept(self, number: int) -> list[Connection]:
        """Return so many connections of those who show the key, in the order in which they were made.

        The actor has made them: they wait in the system's queue.
        """
        deadline = time.monotonic() + _CONNECTS_WITHIN
        connections: list[Connection] = []
        while len(connections) < number:
            ready, _, _ = select.select(self._sockets, [], [], max(deadline - time.monotonic(), 0))
            if not ready or time.monotonic() > deadline:  # strangers may keep it busy
                raise ConnectionError("has connected to its loader, and the connection was lost")
            for listener in ready:
                sock, _ = listener.accept()
                if _shows(sock, self.address.key):
                    sock = sock if sock.family == socket.AF_UNIX else _without_delay(sock)
                    connections.append(Connection(sock.detach()))
        return connections

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._sockets:
            listener.close()


def _shows(sock: socket.socket, key: bytes) -> bool:
    """Say whether the other end shows the key; else close the socket."""
    sock.settimeout(_SAYS_KEY_WITHIN)
    with suppress(OSError):
        if hmac.compare_digest(sock.recv(_KEY_BYTES, socket.MSG_WAITALL), key):
            sock.settimeout(None)
            return True
    sock.close()
    return False


class WorkerHost:
    """An actor that starts a worker process for each loader that calls it."""

    def __init__(self) -> None:
        self._processes: dict[str, ProcessHandle] = {}
        self._ended: dict[str, str] = {}
        self._lock = threading.Lock()
        cluster = require("ray", "ray").get_runtime_context().gcs_address
        os.environ.setdefault("RAY_ADDRESS", cluster)  # for chains that use Ray themselves
        start_server(run_worker.__module__)

    def start(self, name: str, address: LoaderAddress, feeds: int) -> str:
        """Start a process that reads for a loader until the loader closes its connection; return this machine's name.

        The process gets `feeds` connections to the loader for shards of dispatched streams.
        """
        to_main, *ends = [address.connect() for _ in range(1 + feeds)]
        process = self._processes[name] = ProcessHandle(None, "penstock-worker", ends, to_main)
        threading.Thread(target=self._follow, args=(name, process, to_main), daemon=True).start()
        return str(require("ray", "ray").util.get_node_ip_address())

    def status(self, name: str) -> WorkerStatus:
        """Return the status of a process that was started by that name."""
        with self._lock:
            if name in self._processes:
                return self._processes[name].status()
            return WorkerStatus(ended=self._ended.get(name, "has died with its actor, which was started again"))

    def _follow(self, name: str, process: ProcessHandle, to_main: Connection) -> None:
        """End a process when its loader is gone, and record how it ended."""
        poll = select.poll()
        poll.register(process.process.sentinel, select.POLLIN)
        poll.register(to_main, getattr(select, "POLLRDHUP", 0))  # other systems report it anyway
        poll.poll()
        end_processes([process.process])
        with self._lock:
            self._ended[name] = process.status(ENDS_WITHIN).ended or "does not end"
            self._processes.pop(name).close()
        to_main.close()
