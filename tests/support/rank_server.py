"""One rank of many small worlds, one after another: it does what each line asks for, and reports what it has read."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))

import penstock as ps
from random_chains import build, text
from resuming import always_due, as_json, from_json


def loader_of(request: dict[str, Any]) -> ps.DataLoader2[Any]:
    service = ps.SequentialReadingService(
        ps.DistributedReadingService(
            timeout=20, num_shards=None if request["state"] else request["shards"], ends=request.get("ends", "pad")
        ),
        ps.MultiProcessingReadingService(
            request["workers"],
            worker_prefetch_cnt=request["prefetch"],
            main_prefetch_cnt=request["prefetch"],
            worker_init_fn=always_due if request["always_due"] else None,
        ),
    )
    loader: ps.DataLoader2[Any] = ps.DataLoader2(build(request["spec"]), reading_service=service)
    loader.seed(request["seed"])
    return loader


def repeated(loader: ps.DataLoader2[Any]) -> int:
    counts: dict[str, Any] = loader.stats().get("ranks", {"repeated": 0})
    return int(counts["repeated"])


def leg(request: dict[str, Any]) -> dict[str, Any]:
    """Read some items from a state on, or all; say which, how many of them were repeated, and where that leads."""
    with loader_of(request) as loader:
        if request["state"]:
            loader.load_state_dict(from_json(request["state"]), strict=False)
        for _ in range(request["epochs"]):
            list(loader)
        iterator = iter(loader)
        before = None
        items: list[str] = []
        for item in islice(iterator, request["stop"]):
            items.append(text(item))
            before = request["before_last"] and as_json(loader.state_dict(before_last=True))
        found = {"items": items, "repeated": repeated(loader), "before": before}
        if request["stop"] is not None:
            return {**found, "state": as_json(loader.state_dict())}
        following = [text(item) for item in loader]
        return {**found, "next": following, "next repeated": repeated(loader)}


def main(rank: int) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if rank >= request["ranks"]:
            answer: Any = None
        else:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{request['store']}",
                rank=rank,
                world_size=request["ranks"],
                timeout=timedelta(seconds=30),
            )
            try:
                answer = leg(request)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            dist.destroy_process_group()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
