"""Receivers of a loader's metrics: a file of JSON lines, TensorBoard, Prometheus."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from typing import Any

from ..errors.optional import require

Metrics = dict[str, float]
"""What `DataLoader2.metrics()` returns: numbers by name."""

_NO_NAME = re.compile(r"\W+")


def json_lines(path: str | os.PathLike[str]) -> Callable[[Metrics], None]:
    """Return a receiver that appends the metrics to a file, one JSON object a line, each with its Unix `time`.

    >>> import json, tempfile, penstock as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/metrics.jsonl"
    ...     items = list(ps.DataLoader2(ps.iter.IterableWrapper(range(5)), metrics=json_lines(path)))
    ...     with open(path) as file:
    ...         print([json.loads(line)["items"] for line in file])
    [5]
    """

    def append(metrics: Metrics) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time.time(), **metrics}) + "\n")

    return append


def tensorboard(
    writer: Any, prefix: str = "loader/", step: Callable[[], int] | None = None
) -> Callable[[Metrics], None]:
    """Return a receiver that adds each metric to a `SummaryWriter`, of torch or tensorboardX, as a scalar.

    `step` returns the step of the training. Without it, the step is the number of items that this loader has handed
    out, over all epochs; a program that resumes in a later epoch begins to count anew.
    """

    def add(metrics: Metrics) -> None:
        for name, value in metrics.items():
            writer.add_scalar(prefix + name, value, int(metrics["total_items"]) if step is None else step())

    return add


def prometheus(prefix: str = "penstock_", registry: Any = None) -> Callable[[Metrics], None]:
    """Return a receiver that sets a gauge of prometheus-client for each metric, in its default registry or `registry`.

    Signs that Prometheus does not allow in names become underscores. Each of several loaders needs its own prefix.

    Raises ImportError without prometheus-client: `pip install "penstock[prometheus]"`.
    """
    client = require("prometheus_client", "prometheus")
    into = client.REGISTRY if registry is None else registry
    gauges: dict[str, Any] = {}

    def show(metrics: Metrics) -> None:
        for name, value in metrics.items():
            if name not in gauges:
                gauges[name] = client.Gauge(prefix + _NO_NAME.sub("_", name), f"{name} of a loader", registry=into)
            gauges[name].set(value)

    return show
