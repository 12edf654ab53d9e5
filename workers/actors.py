"""Functions called in Ray actors.

Their arguments and results go through Ray as `transport` pickles them.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from ..errors.notes import add_note
from ..errors.optional import PREPARATIONS
from ..errors.policy import Skipped
from .cluster import GLANCE, Cluster, actor_options, connection_now
from .processes import pickled_error
from .threads import Interrupted, Threads
from .transport import Inbox, Parcel, pickled_apart

__all__ = ["ActorCaller", "Actors", "Server"]

_PATIENCE_WITH_ACTOR = 5.0
"""Seconds for an actor to finish an item that is no longer wanted, before it is killed."""
_PATIENCE_WITH_RAY = 10.0
"""Seconds for Ray to start an actor, before a warning names the requested resources."""
_LOOK = 1.0
"""Seconds between checks whether Ray is still there."""


class Actors:
    """Actors kept from one pass to the next, each with a copy of what a function makes."""

    def __init__(
        self, fn: Callable[[], Callable[..., Any]], resources: Mapping[str, float], cluster: Cluster, who: str
    ):
        self.ray = cluster.connect()
        self._resources = {"CPU": 1, **resources}
        self._who = who
        self._new = self.ray.remote(_actor_class()).options(**actor_options(resources)).remote
        # `put` sends it once to each machine, not once with each actor.
        self._arguments = bytes(cloudpickle.dumps([*PREPARATIONS])), self.ray.put(_packed_arrays(fn, "the model"))
        self._connection = connection_now()
        self._callers: list[ActorCaller] = []
        self.begin()

    def are_ours(self) -> bool:
        """Say whether they belong to the Ray that this process is connected to now."""
        return self._connection == connection_now()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Raise RuntimeError if Ray is shut down meanwhile: Ray would end the program, or start another Ray."""
        error: BaseException | None = None
        if self.are_ours():
            try:
                yield
                return
            except (SystemExit, Exception) as raised:
                if self.are_ours():
                    raise
                error = raised
        raise RuntimeError("the Ray in which the model is called was shut down in the middle of a pass") from error

    def begin(self) -> None:
        """Begin a pass: all actors are free."""
        self._free = sorted(self._callers, key=ActorCaller.is_ready)  # ready actors are last, and taken first
        self.over = threading.Event()
        """Set when the pass ends: threads then stop waiting for actors to start."""

    def threads(
        self,
        wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
        most: int,
    ) -> Threads:
        """Return up to `most` threads for a pass, each of which calls an actor through the function of `wrap`."""
        self.begin()
        return _ThreadsOfActors(self, lambda: self._expecting_ray(wrap(self._take().call)), most)

    def _expecting_ray(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Skip no item if Ray itself is gone."""

        def checked(item: Any) -> Any:
            result = call(item)
            if isinstance(result, Skipped) and not self.are_ours():
                raise result.error
            return result

        return checked

    def _take(self) -> ActorCaller:
        """Return a free actor, ready to be called. Raises what making its model raises."""
        try:
            caller = self._free.pop()
        except IndexError:
            caller = ActorCaller(self)
            self._callers.append(caller)
        with self.calling():
            caller.end_if_gone()
            caller.make_ready()
        return caller

    def start(self) -> Any:
        """Return a new actor, which Ray starts when there is room."""
        return self._new(*self._arguments)

    def warn(self) -> None:
        """Warn that Ray has not started an actor so far."""
        nodes = sum(node["Alive"] for node in self.ray.nodes())
        there, free = map(_amounts, (self.ray.cluster_resources(), self.ray.available_resources()))
        warnings.warn(
            f"{self._who} has waited {_PATIENCE_WITH_RAY:g} s for Ray to start an actor, which needs "
            f"{self._resources}. Ray has {nodes} node{'s' * (nodes != 1)} with {there}, of which {free} are free",
            RuntimeWarning,
            stacklevel=2,
        )

    def kill_busy(self) -> None:
        """Kill the busy actors; others start when needed."""
        for caller in self._callers:
            if caller.busy:
                caller.end()

    def close(self) -> None:
        """End all actors."""
        for caller in self._callers:
            caller.end()


def _amounts(resources: Mapping[str, float]) -> dict[str, float]:
    """Return resource amounts without memory and node names."""
    left_out = ("node:", "memory", "object_store_memory")
    return {name: amount for name, amount in sorted(resources.items()) if not name.startswith(left_out)}


class _ThreadsOfActors(Threads):
    """Threads that call actors; the end of a pass does not wait for actors that Ray has not started."""

    def __init__(self, actors: Actors, in_thread: Callable[[], Callable[[Any], Any]], most: int) -> None:
        super().__init__(in_thread, most, "penstock-actors", _PATIENCE_WITH_ACTOR, actors.kill_busy)
        self._over = actors.over

    def stop(self) -> None:
        self._over.set()
        super().stop()


class ActorCaller:
    """An actor, called by one thread at a time."""

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self._actor: Any = None
        self._starts: tuple[Any, Any] | None = None
        """References that are ready when the actor is there, and when it has made its model."""
        self.busy = False

    def is_ready(self) -> bool:
        """Say whether the actor was there, with its model made, at the last check."""
        return self._actor is not None and self._starts is None

    def make_ready(self) -> None:
        """Start the actor if there is none, and wait until it has made its model, or the pass is over."""
        if self._actor is None:
            self._actor = self._actors.start()
            self._starts = self._actor.is_there.remote(), self._actor.make.remote()
        if self._starts is None:
            return
        is_there, made = self._starts
        warn_at = time.monotonic() + _PATIENCE_WITH_RAY
        while not self._has_come(made, GLANCE):
            if self._actors.over.is_set():
                raise Interrupted  # it keeps starting, for the next pass
            if time.monotonic() > warn_at:
                warn_at = float("inf")
                if not self._has_come(is_there, 0):
                    self._actors.warn()
        try:
            self._result(made)
        except BaseException:
            self.end()
            raise
        self._starts = None

    def call(self, *args: Any) -> Any:
        """Call the model there. Raises what it raises, and RuntimeError if its actor dies."""
        packed = _packed_arrays(args, "the model's argument")
        self.busy = True
        try:
            with self._actors.calling():
                self.make_ready()
                return self._result(self._actor.call.remote(packed))
        finally:
            self.busy = False

    def end_if_gone(self) -> None:
        """Let another actor replace one that has died since its last call."""
        if not self.is_ready():
            return
        answer = self._actor.is_there.remote()
        while not self._has_come(answer, GLANCE):
            if self._actors.over.is_set():
                raise Interrupted
        try:
            self._actors.ray.get(answer)
        except self._actors.ray.exceptions.RayError:
            self.end()

    def end(self) -> None:
        """End the actor, whatever it is doing; its caller gets an error."""
        actor, self._actor, self._starts = self._actor, None, None
        if actor is not None and self._actors.are_ours():  # else it is gone, or another process's
            with suppress(Exception):  # it may be gone already
                self._actors.ray.kill(actor)

    def _has_come(self, reference: Any, patience: float) -> bool:
        ready, _ = self._actors.ray.wait([reference], timeout=patience)
        return bool(ready)

    def _result(self, reference: Any) -> Any:
        try:
            packed = self._got(reference)
        except self._actors.ray.exceptions.RayError as error:
            self.end()
            *_, last = str(error).splitlines() or [type(error).__name__]
            raise RuntimeError(f"the model's actor was lost. Ray says: {last}") from error
        result, pickled = _value_of_arrays(packed)
        if pickled is not None:
            raised, cause = cloudpickle.loads(pickled)
            raise raised from cause
        return result

    def _got(self, reference: Any) -> Any:
        """Return the result; it polls, since nothing comes after Ray was shut down."""
        while True:
            try:
                return self._actors.ray.get(reference, timeout=_LOOK)
            except self._actors.ray.exceptions.GetTimeoutError:
                if not self._actors.are_ours():
                    raise


def _actor_class() -> type:
    class ModelActor:
        """What Ray starts. Pickled by value, it is there before this library and torch are imported."""

        def __init__(self, *arguments: Any) -> None:
            self._arguments = arguments
            self._server: Any = None

        def is_there(self) -> None:
            """Return when Ray has started the actor."""

        def make(self) -> Any:
            return self._served().make()

        def call(self, packed: list[Any]) -> Any:
            return self._served().call(packed)

        def _served(self) -> Any:
            if self._server is None:  # also after Ray has restarted the actor, if configured
                from penstock.workers.actors import Server

                self._server, self._arguments = Server(*self._arguments), ()
            return self._server

    return ModelActor


class Server:
    """What runs in an actor: it makes the model once, and calls it."""

    def __init__(self, preparations: bytes, fn: list[Any]) -> None:
        torch.seed()  # torch starts every process with the same random state
        for prepare in cloudpickle.loads(preparations):
            prepare()
        self._fn = fn
        self._model: Callable[..., Any] | None = None

    def make(self) -> list[Any]:
        """Make the model. Returns None or the error, packed."""
        return _answer_of(self._make)

    def call(self, packed: list[Any]) -> list[Any]:
        """Call the model. Returns its result or the error, packed."""
        return _answer_of(lambda: self._made()(*_value_of_arrays(packed)))

    def _make(self) -> None:
        self._made()

    def _made(self) -> Callable[..., Any]:
        if self._model is None:
            self._model = _value_of_arrays(self._fn)()
            self._fn = []  # it occupies memory of Ray's object store
        return self._model


def _answer_of(act: Callable[[], Any]) -> list[Any]:
    try:
        return _packed_arrays((act(), None), "what the model returned")
    except Exception as error:
        return _packed_arrays((None, pickled_error(error)), "an error")


def _packed_arrays(value: object, what: str) -> list[Any]:
    """Return a value as arrays of bytes, which Ray takes as they are. Raises what pickle raises."""
    try:
        parts = pickled_apart(value)
    except Exception as error:
        add_note(error, f"{what} cannot be pickled, so it cannot travel to or from an actor")
        raise
    return [np.frombuffer(part, np.uint8) for part in parts]


def _value_of_arrays(packed: list[Any]) -> Any:
    """Return the value, in memory of its own: Ray's buffers are read-only."""
    return Inbox().unpack(Parcel(packed, []), None)
