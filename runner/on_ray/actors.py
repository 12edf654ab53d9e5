"""Workers on the machines of a Ray cluster; Ray places and starts actors, and reports their deaths."""

from __future__ import annotations

import copy
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Self

from ...errors.optional import require
from ...registry import PREPARATIONS, expect_whole
from ...workers.cluster import (
    Cluster,
    actor_options,
    connection_now,
    expect_resources,
    first_answer,
    nodes_now,
)
from ..workers.processes import ENDS_WITHIN, WorkerBackend, WorkerHandle
from ..workers.status import WorkerStatus
from .actor_hosts import Listener, WorkerHost

_DEATHS_IN_A_ROW = 3
"""How many deaths in a row at the same item are an error."""
_ANSWERS_WITHIN = 1.0
"""Seconds for an actor to answer: what a dispatcher reads may hold the GIL."""
_CHECK_INTERVAL = 0.02
"""Seconds between checks whether a process in an actor has ended."""


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
        self._actors = [_new_actor(self.resources_per_worker) for _ in range(num_workers)]
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


class ActorBackend(WorkerBackend):
    """Starts and ends worker processes in the actors of a fleet."""

    kind = "actor"

    def __init__(self, fleet: RayFleet, is_own: bool, timeout: float | None) -> None:
        self._fleet = fleet
        self._is_own = is_own
        self._timeout = timeout
        self._interrupted = threading.Event()

    def worker(self, worker_id: int, feeds: int) -> WorkerHandle:
        who = f"actor {worker_id} of {self._fleet.num_workers}"
        actor, name = self._fleet.actor(worker_id), secrets.token_hex(16)
        with Listener() as listener:
            # Retried, since Ray may be restarting the actor.
            started = actor.start.options(max_task_retries=-1).remote(name, listener.address, feeds)
            try:
                host = first_answer(started, who, self._fleet.resources_per_worker, self._interrupted, self._timeout)
                return _ActorHandle(actor, name, host, listener.accept(1 + feeds))
            except _gone() as error:
                raise RuntimeError(f"{who} {_reason_of(error)}") from error

    def interrupt(self, is_interrupted: bool) -> None:
        if is_interrupted:
            self._interrupted.set()
        else:
            self._interrupted.clear()

    def end(self, workers: Iterable[WorkerHandle]) -> None:
        if not self._fleet.is_of_this_ray():  # the actors ended with it
            return
        deadline = time.monotonic() + ENDS_WITHIN
        for worker in workers:
            if (left := deadline - time.monotonic()) > 0:
                worker.status(left)
        if self._is_own:
            self._fleet.shutdown()


class _ActorHandle(WorkerHandle):
    """A worker process in an actor, and the connection to it."""

    deaths_in_a_row = _DEATHS_IN_A_ROW

    def __init__(self, actor: Any, name: str, host: str, connections: list[Connection]) -> None:
        self._actor = actor
        self._name = name
        self._host = host
        self._made_with = connection_now()
        self.connection, *self.feeds = connections

    def preparations(self) -> list[Callable[[], object]]:
        return [partial(_find_modules_in, [*sys.path]), *PREPARATIONS]  # Ray sets their environment

    def status(self, patience: float = 0) -> WorkerStatus:
        deadline = time.monotonic() + patience
        while (status := self._status()).ended is None and time.monotonic() < deadline:
            time.sleep(_CHECK_INTERVAL)
        return status

    def _status(self) -> WorkerStatus:
        """Return the actor's answer, or that it is gone; an empty status if it does not answer."""
        if self._made_with != connection_now():
            return WorkerStatus(ended="has ended: Ray was shut down")
        ray = require("ray", "ray")
        answer = self._actor.status.remote(self._name)
        if not ray.wait([answer], timeout=_ANSWERS_WITHIN)[0]:
            return WorkerStatus()
        try:
            status: WorkerStatus = ray.get(answer)
        except _gone() as error:
            return WorkerStatus(ended=_reason_of(error))
        return status

    def close(self) -> None:
        self.connection.close()  # the actor notices, and ends the process

    def __str__(self) -> str:
        return f"(on {self._host})"


def _new_actor(resources: Mapping[str, float]) -> Any:
    """Start an actor, and return its handle."""
    ray = Cluster().connect()
    return (
        ray.remote(WorkerHost)
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
    return (require("ray.exceptions", "ray").RayError, ConnectionError)


def _reason_of(error: Exception) -> str:
    """Return in one line what happened to an actor."""
    why = re.search("^The actor is dead because (.*)", str(error), re.MULTILINE)
    if why:
        return f"has died: {why[1][:500]}"
    cause = getattr(error, "cause", error)  # of an error in the actor
    return str(cause) if type(cause) is ConnectionError else "has died, or cannot be reached"
