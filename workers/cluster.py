"""The Ray that a process is to use."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from multiprocessing import parent_process
from typing import Any

from ..registry.extras import require
from ..registry.notes import add_note

__all__ = ["GLANCE", "Cluster", "actor_options", "connection_now", "expect_resources", "nodes_now"]

GLANCE = 0.2
"""Seconds between checks whether a starting actor is still wanted."""

_connecting = threading.Lock()
_forked_from: int | None = None
"""The process connected to Ray from which this one was forked off: the connection does not work here, and hangs."""


def _note_ray_fork() -> None:
    global _forked_from
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        _forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_ray_fork)


def actor_options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return the options of an actor that needs "CPU", by default 1, "GPU", "memory", or what nodes have."""
    others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    options = {"num_cpus": resources.get("CPU", 1), "num_gpus": resources.get("GPU", 0), "resources": others}
    return {**options, "memory": resources["memory"]} if "memory" in resources else options


def expect_resources(resources: Mapping[str, float]) -> None:
    """Raise ValueError or TypeError for resources that an actor cannot have, ImportError where Ray is missing."""
    ray: Any = require("ray", "ray")
    try:
        ray.remote(type("Actor", (), {})).options(**actor_options(resources))
    except (TypeError, ValueError) as error:
        add_note(error, 'penstock: resources are what each actor asks of Ray, such as {"CPU": 2, "GPU": 0.5}')
        raise


def connection_now() -> tuple[Any, ...] | None:
    """Return what tells the connection of this process to Ray from any other; None where there is none."""
    ray: Any = require("ray", "ray")
    if _forked_from is not None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return os.getpid(), context.gcs_address, context.get_job_id(), context.get_node_id()


def nodes_now() -> frozenset[str]:
    """Return the ids of all nodes that the Ray has, or had, that this process is connected to; none where to none."""
    ray: Any = require("ray", "ray")
    if _forked_from is not None or not ray.is_initialized():
        return frozenset()
    return frozenset(node["NodeID"] for node in ray.nodes())


class Cluster:
    """The Ray that actors are asked of.

    A chain that goes to another process takes along where that is, so that the workers of a loader do not start a Ray
    each.
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
        """Return the module of Ray, connected as it is or will be by itself; in a worker, to the Ray of its parent.

        Raises RuntimeError in a worker whose parent is connected to none, or from which it was forked off.
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
