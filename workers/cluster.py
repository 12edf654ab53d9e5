"""The Ray cluster that a process uses."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from multiprocessing import parent_process
from typing import Any

from ..errors.notes import add_note
from ..errors.optional import require
from .threads import Interrupted

_GLANCE = 0.2
"""Seconds between checks whether an actor's answer is still wanted."""
_STARTS_WITHIN = 30.0
"""Seconds that an actor may take to start before a warning; with a timeout, at least so many before an error."""

_connecting = threading.Lock()
_forked_from: int | None = None
"""The parent, if this process was forked from one connected to Ray: calls over that connection hang here."""


def _note_ray_fork() -> None:
    global _forked_from
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        _forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_ray_fork)


def actor_options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return the options of an actor from its resources: "CPU" (default 1), "GPU", "memory", or custom ones."""
    others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    options = {"num_cpus": resources.get("CPU", 1), "num_gpus": resources.get("GPU", 0), "resources": others}
    return {**options, "memory": resources["memory"]} if "memory" in resources else options


def expect_resources(resources: Mapping[str, float]) -> None:
    """Raise ValueError or TypeError for resources that an actor cannot have, ImportError if Ray is missing."""
    ray: Any = require("ray", "ray")
    try:
        ray.remote(type("Actor", (), {})).options(**actor_options(resources))
    except (TypeError, ValueError) as error:
        add_note(error, 'penstock: resources are what each actor asks of Ray, such as {"CPU": 2, "GPU": 0.5}')
        raise


def wait_for(reference: Any, is_over: threading.Event, until: float = float("inf")) -> bool:
    """Wait for an answer, and say whether it comes until a time; Interrupted once `is_over` is set."""
    ray: Any = require("ray", "ray")
    while not ray.wait([reference], timeout=_GLANCE)[0]:
        if is_over.is_set():
            raise Interrupted
        if time.monotonic() > until:
            return False
    return True


def first_answer(
    reference: Any, who: str, resources: Mapping[str, float], is_over: threading.Event, timeout: float | None = None
) -> Any:
    """Return the first answer of an actor, once it has started; Interrupted once `is_over` is set.

    A warning names the resources that it needs if it does not start in time. With a `timeout`, that is a TimeoutError.
    """
    ray: Any = require("ray", "ray")
    patience = max(_STARTS_WITHIN, timeout or 0)
    if not wait_for(reference, is_over, time.monotonic() + patience):
        needed, free = {"CPU": 1, **resources}, _amounts(ray.available_resources())
        why = f"{who} has not started for {patience:g} s: it needs {needed}, and the cluster has free {free}"
        if timeout is not None:
            raise TimeoutError(why)
        warnings.warn(why, RuntimeWarning, stacklevel=2)
        wait_for(reference, is_over)
    return ray.get(reference)


def _amounts(resources: Mapping[str, float]) -> dict[str, float]:
    """Return resource amounts without memory and node names."""
    left_out = ("node:", "memory", "object_store_memory")
    return {name: amount for name, amount in sorted(resources.items()) if not name.startswith(left_out)}


def connection_now() -> tuple[Any, ...] | None:
    """Return an identifier of this process's connection to Ray; None if it has none."""
    ray: Any = require("ray", "ray")
    if _forked_from is not None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return os.getpid(), context.gcs_address, context.get_job_id(), context.get_node_id()


def nodes_now() -> frozenset[str]:
    """Return the ids of all present and past nodes of the connected cluster; empty without a connection."""
    ray: Any = require("ray", "ray")
    if _forked_from is not None or not ray.is_initialized():
        return frozenset()
    return frozenset(node["NodeID"] for node in ray.nodes())


class Cluster:
    """The Ray cluster that provides actors.

    Its address is pickled with a chain, so that the workers of a loader do not each start their own Ray.
    """

    _address: str | None = None
    _runtime_env: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        ray: Any = sys.modules.get("ray")
        if ray is None or not ray.is_initialized():
            return vars(self)
        context = ray.get_runtime_context()
        return {"_address": context.gcs_address, "_runtime_env": {**context.runtime_env}}

    def connect(self) -> Any:
        """Return the `ray` module; connect a worker process to the Ray of its parent.

        Raises RuntimeError in a worker if its parent has no connection, or if the worker was forked.
        """
        ray: Any = require("ray", "ray")
        if _forked_from is not None:
            raise RuntimeError(
                f"this process was forked off from process {_forked_from}, which was connected to Ray, and cannot use "
                "that connection: have workers started by forkserver or spawn"
            )
        with _connecting:
            if ray.is_initialized() or parent_process() is None:
                return ray
            if self._address is not None:
                ray.init(address=self._address, runtime_env=self._runtime_env)
            elif "RAY_ADDRESS" not in os.environ:
                raise RuntimeError(
                    "a worker process would start its own Ray: call ray.init() before the chain goes to workers, "
                    "or set RAY_ADDRESS"
                )
        return ray
