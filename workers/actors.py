"""Functions called in Ray actors.

Their arguments and results go through Ray as `transport` pickles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from ..errors.notes import add_note
from ..errors.optional import PREPARATIONS
from ..errors.policy import Skipped
from .cluster import Cluster, actor_options, connection_now, first_answer, wait_for
from .processes import pickled_error, unpickled_error
from .threads import Interrupted, Threads
from .transport import Inbox, Parcel, pickled_apart

_LOOK = 1.0
"""Seconds between checks whether Ray is still there."""
_PATIENCE_WITH_ACTOR = 5.0
"""Seconds for an actor to finish an item that is no longer wanted, before it is killed."""


class Actors:
    """Actors kept from one pass to the next, each with a copy of what a function makes."""

    def __init__(
        self, fn: Callable[[], Callable[..., Any]], resources: Mapping[str, float], cluster: Cluster, who: str
    ):
        self.ray = cluster.connect()
        self.resources = resources
        self.who = who
        self._new = self.ray.remote(Server).options(**actor_options(resources)).remote
        # `put` sends it once to each machine, not once with each actor.
        self._arguments = bytes(cloudpickle.dumps([*PREPARATIONS])), self.ray.put(_packed_arrays(fn, "the model"))
        self._connection = connection_now()
        self._callers: list[ActorCaller] = []

    def are_ours(self) -> bool:
        """Say whether they belong to the Ray that this process is connected to now."""
        return self._connection == connection_now()

    def threads(
        self,
        wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
        most: int,
    ) -> Threads:
        """Return up to `most` threads for a pass, each of which calls an actor through the function of `wrap`."""
        self._free = sorted(self._callers, key=ActorCaller.is_ready)  # ready actors are last, and taken first
        function, name = lambda: self._expecting_ray(wrap(self._take().call)), "penstock-actors"
        threads = Threads(function, most, name, _PATIENCE_WITH_ACTOR, self._kill_busy)
        self.over = threads.stopped  # threads then stop waiting for actors that Ray has not started
        return threads

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
        caller.end_if_gone()
        caller.make_ready()
        return caller

    def start(self) -> Any:
        """Return a new actor, which Ray starts when there is room."""
        return self._new(*self._arguments)

    def _kill_busy(self) -> None:
        """Kill the busy actors; others start when needed."""
        for caller in self._callers:
            if caller.busy:
                caller.end()

    def close(self) -> None:
        """End all actors."""
        for caller in self._callers:
            caller.end()


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
        actors = self._actors
        if self._actor is None:
            self._actor = actors.start()
            self._starts = self._actor.is_there.remote(), self._actor.make.remote()
        if self._starts is None:
            return
        is_there, made = self._starts
        try:
            with self._expecting_actor():
                first_answer(is_there, f"an actor of {actors.who}", actors.resources, actors.over)
            wait_for(made, actors.over)
            self._result(made)
        except Interrupted:
            raise  # it keeps starting, for the next pass
        except BaseException:
            self.end()
            raise
        self._starts = None

    def call(self, *args: Any) -> Any:
        """Call the model there. Raises what it raises, and RuntimeError if its actor dies."""
        packed = _packed_arrays(args, "the model's argument")
        self.busy = True
        try:
            self.make_ready()
            return self._result(self._actor.call.remote(packed))
        finally:
            self.busy = False

    def end_if_gone(self) -> None:
        """Let another actor replace one that has died since its last call."""
        if not self.is_ready():
            return
        answer = self._actor.is_there.remote()
        wait_for(answer, self._actors.over)
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

    @contextmanager
    def _expecting_actor(self) -> Iterator[None]:
        """Raise RuntimeError where Ray reports that the actor is gone."""
        try:
            yield
        except self._actors.ray.exceptions.RayError as error:
            self.end()
            *_, last = str(error).splitlines() or [type(error).__name__]
            raise RuntimeError(f"the model's actor was lost. Ray says: {last}") from error

    def _result(self, reference: Any) -> Any:
        with self._expecting_actor():
            packed = self._got(reference)
        result, pickled = _value_of_arrays(packed)
        if pickled is not None:
            raise unpickled_error(pickled)
        return result

    def _got(self, reference: Any) -> Any:
        """Return the result; it polls, since nothing comes after Ray was shut down."""
        while self._actors.are_ours():
            with suppress(self._actors.ray.exceptions.GetTimeoutError):
                return self._actors.ray.get(reference, timeout=_LOOK)
        raise RuntimeError("the Ray in which the model is called was shut down in the middle of a pass")


class Server:
    """What runs in an actor: it makes the model once, and calls it."""

    def __init__(self, preparations: bytes, fn: list[Any]) -> None:
        torch.seed()  # torch starts every process with the same random state
        for prepare in cloudpickle.loads(preparations):
            prepare()
        self._fn = fn
        self._model: Any = None

    def is_there(self) -> None:
        """Return when Ray has started the actor."""

    def make(self) -> list[Any]:
        """Make the model. Returns None or the error, packed."""
        return _answer_of(self._make)

    def call(self, packed: list[Any]) -> list[Any]:
        """Call the model. Returns its result or the error, packed."""
        return _answer_of(lambda: self._model(*_value_of_arrays(packed)))

    def _make(self) -> None:
        self._model = _value_of_arrays(self._fn)()
        self._fn = []  # it occupies memory of Ray's object store


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
