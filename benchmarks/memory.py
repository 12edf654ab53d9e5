"""How much memory two workers take beside the program: `python -m benchmarks.memory`.

Each contestant runs in its own process, after `import torch`, and is measured in mid-epoch: what each process has for
itself (unique), and its share of what several have (proportional), which adds up. The chain sends batches of 128 KB.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from .harness import environment, measured_apart, rounds_of, table, verdict

WORKERS, BATCHES = 2, 60
MOST_OF_WORKER, MOST_IN_ALL = 16.0, 400.0


def batches(dp: Any) -> Any:
    import torch

    return dp.sharding_filter().map(lambda number: torch.full((1000,), float(number))).batch(32).collate()


def penstock(**options: Any) -> Iterable[Any]:
    import penstock as ps

    dp = batches(ps.iter.IterableWrapper(range(32 * BATCHES)))
    return ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(WORKERS, **options))


def forked() -> Iterable[Any]:
    return penstock(multiprocessing_context="fork")


def dataloader() -> Iterable[Any]:
    from torch.utils.data import DataLoader, Dataset

    class Batches(Dataset[Any]):
        def __len__(self) -> int:
            return BATCHES

        def __getitem__(self, index: int) -> Any:
            import torch

            return torch.full((32, 1000), float(index))

    return DataLoader(Batches(), batch_size=None, num_workers=WORKERS)


PEERS: dict[str, Callable[[], Iterable[Any]]] = {
    "penstock": penstock,
    "penstock, forked": forked,
    "torch DataLoader": dataloader,
}


def measure(peer: str) -> dict[str, float]:
    """Return the memory of the program, of each worker, and of all, in MB, in mid-epoch."""
    import psutil
    import torch

    assert torch.get_num_threads() > 0
    program = psutil.Process()
    for number, _ in enumerate(PEERS[peer]()):
        if number != BATCHES // 2:
            continue
        others = program.children(recursive=True)
        found = {process.pid: process.memory_full_info() for process in [program, *others]}
        # The workers are the youngest; the fork server and multiprocessing's tracker came before.
        workers = [found[process.pid].uss for process in sorted(others, key=lambda each: each.create_time())[-WORKERS:]]
        in_all = sum(memory.pss for memory in found.values())
        figures = {"program": found[program.pid].pss, "worker": max(workers), "all": in_all}
    return {name: size / 1e6 for name, size in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=PEERS, help="measure this one only, here, and print the figures as JSON")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    command = [sys.executable, "-m", "benchmarks.memory", "--measure"]
    results = rounds_of({peer: lambda peer=peer: measured_apart([*command, peer]) for peer in PEERS}, options.rounds)
    of = {
        peer: {name: median(result[name] for result in results[peer]) for name in ("program", "worker", "all")}
        for peer in PEERS
    }
    print(environment("penstock", "torch") + "\n")
    header = ["MB", "the program, proportional", "a worker, unique", "in all, proportional"]
    print(table(header, [[peer, *(f"{size:,.1f}" for size in of[peer].values())] for peer in PEERS]))
    ours = of["penstock"]
    print(verdict(f"a worker has at most {MOST_OF_WORKER} MB: {ours['worker']:.1f}", ours["worker"] <= MOST_OF_WORKER))
    print(verdict(f"in all at most {MOST_IN_ALL} MB: {ours['all']:.0f}", ours["all"] <= MOST_IN_ALL))


if __name__ == "__main__":
    main()
