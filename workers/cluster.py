"""The Ray cluster that a process uses."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from multiprocessing import parent_process
from typing import Any

from ..errors.notes import add_note
from ..errors.optional import require

__all__ = ["GLANCE", "Cluster", "actor_options", "connection_now", "expect_resources", "nodes_now"]

GLANCE = 0.2
"""Seconds between checks whether a starting actor is still wanted."""

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
