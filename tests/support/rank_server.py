"""One rank of many small worlds, one after another: it does what each line says, and tells what it has read."""

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


def loader_of(told: dict[str, Any]) -> ps.DataLoader2[Any]:
    service = ps.SequentialReadingService(
        ps.DistributedReadingService(
            timeout=20, num_shards=None if told["state"] else told["shards"], ends=told.get("ends", "pad")
        ),
        ps.MultiProcessingReadingService(
            told["workers"],
            worker_prefetch_cnt=told["prefetch"],
            main_prefetch_cnt=told["prefetch"],
            worker_init_fn=always_due if told["always_due"] else None,
        ),
    )
    loader: ps.DataLoader2[Any] = ps.DataLoader2(build(told["spec"]), reading_service=service)
    loader.seed(told["seed"])
    return loader


def repeated(loader: ps.DataLoader2[Any]) -> int:
    counts: dict[str, Any] = loader.stats().get("ranks", {"repeated": 0})
    return int(counts["repeated"])


def leg(told: dict[str, Any]) -> dict[str, Any]:
    """Read some items from a state on, or all; say which, how many of them were repeated, and where that leads."""
    with loader_of(told) as loader:
        if told["state"]:
            loader.load_state_dict(from_json(told["state"]), strict=False)
        for _ in range(told["epochs"]):
            list(loader)
        iterator = iter(loader)
        before = None
        items: list[str] = []
        for item in islice(iterator, told["stop"]):
            items.append(text(item))
            before = told["before_last"] and as_json(loader.state_dict(before_last=True))
        found = {"items": items, "repeated": repeated(loader), "before": before}
        if told["stop"] is not None:
            return {**found, "state": as_json(loader.state_dict())}
        following = [text(item) for item in loader]
        return {**found, "next": following, "next repeated": repeated(loader)}


def main(rank: int) -> None:
    for line in sys.stdin:
        told = json.loads(line)
        if rank >= told["ranks"]:
            answer: Any = None
        else:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{told['store']}",
                rank=rank,
                world_size=told["ranks"],
                timeout=timedelta(seconds=30),
            )
            try:
                answer = leg(told)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            dist.destroy_process_group()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
