"""How fast objects are read from a store: `python -m benchmarks.object_storage`.

One server, `rclone serve s3`, on this machine holds 2,000 objects of 110 KB, and 8 tars of 64 MB with files of that
size. It does not hash what it sends, since a real store knows the hashes of its objects. It reports a range as the
whole object, which obstore refuses. So we read each of its tars in one response. `rclone serve http` answers ranges as
most stores do, and the tars are also read from it.

Each contestant runs in its own process, once a round: a warm-up epoch, and three that count. Memory is sampled in an
extra round, whose times do not count. Listing, writing, and reading in a fresh process have their own tables. In a
fresh process the first epoch counts, with all imports besides torch. CPU time is that of all processes of the
contestant. The server uses the same cores.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.s3 import serving_http, serving_s3

from .harness import environment, measured_apart, plot, rounds_of, share, table, verdict
from .object_storage_peers import (
    BEST_RAW,
    CONNECTOR,
    OF_WEBDATASET,
    OURS,
    OURS_OF_TAR,
    RANGED,
    S3FS,
    TAR,
    WHOLE,
    measure,
)
from .object_storage_tasks import TASKS, measure_task

WEB_SERVER = "PENSTOCK_BENCHMARKS_WEB_SERVER"
"""The environment variable with the web server's URL."""

SMALL, LARGE = 110_000, 64_000_000
LEAST_OF_RAW, LEAST_OF_CONNECTOR, LEAST_OF_S3FS, LEAST_OF_RAW_FOR_TAR = 0.95, 2.5, 8.0, 0.9

KINDS = {"small": WHOLE, "large": WHOLE, "ranged": RANGED, "tar": TAR}
"""The readers of each kind. The large objects are the tars, read whole or member by member, also from the web."""


def lay_out(bucket: Path, small: int, large: int) -> None:
    """Write the objects: all different, and incompressible."""
    noise = random.Random(0).randbytes(SMALL + small + large * LARGE // SMALL)
    for folder in ("small", "large"):
        (bucket / folder).mkdir(parents=True)
    for number in range(small):
        (bucket / "small" / f"{number:05}.jpg").write_bytes(noise[number : number + SMALL])
    for number in range(large):
        with tarfile.open(bucket / "large" / f"{number:02}.tar", "w") as tar:
            for member in range(LARGE // SMALL):
                header = tarfile.TarInfo(f"{member:05}.jpg")
                header.size = SMALL
                place = number * (LARGE // SMALL) + member
                tar.addfile(header, io.BytesIO(noise[place : place + SMALL]))


def urls_of(root: Path, kind: str) -> list[str]:
    folder = root / "bench" / ("small" if kind == "small" else "large")
    bucket = f"{os.environ[WEB_SERVER]}/bench" if kind == "ranged" else "s3://bench"
    return [f"{bucket}/{folder.name}/{path.name}" for path in sorted(folder.iterdir())]


def run(root: Path, kind: str, peer: str, peaks: list[float] | None = None) -> dict[str, Any]:
    arguments = [sys.executable, "-m", "benchmarks.object_storage", "--measure", str(root), kind, peer]
    return measured_apart(arguments, peaks)


def compare(root: Path, kind: str, rounds: int) -> list[str]:
    """Measure all contestants with one kind of objects, print the table and return the verdicts."""
    peers, urls = [*KINDS[kind]], urls_of(root, kind)
    peaks: dict[str, list[float]] = {peer: [] for peer in peers}
    first = {peer: run(root, kind, peer, peaks[peer]) for peer in peers}
    failed = {peer: result["error"] for peer, result in first.items() if "error" in result}
    able = [peer for peer in peers if peer not in failed]
    results = rounds_of({peer: partial(run, root, kind, peer) for peer in able}, rounds)
    failed |= {peer: result["error"] for peer in able for result in results[peer] if "error" in result}
    able = [peer for peer in able if peer not in failed]
    # Members are smaller than the tars with their headers; the rate is that of the tars.
    size = sum((root / "bench" / url.split("/bench/")[1]).stat().st_size for url in urls)
    expected = {size, len(urls) * (LARGE // SMALL) * SMALL} if kind == "tar" else {size}
    wrong = {peer for peer in able for result in results[peer] if result["bytes"] not in expected}
    if wrong:
        raise AssertionError(f"not all was read by {', '.join(sorted(wrong))}")
    seconds = {peer: [result["seconds"] for result in results[peer]] for peer in able}
    raw = min(BEST_RAW, key=lambda peer: median(seconds[peer]))
    rows = [
        [
            peer,
            f"{len(urls) / median(seconds[peer]):,.1f}",
            f"{size / 1e6 / median(seconds[peer]):,.0f}",
            f"{share(seconds[raw], seconds[peer]):.2f}",
            f"{median(result['cpu'] for result in results[peer]) / size * 1e9:.2f}",
            f"{peaks[peer][0]:,.0f}",
        ]
        for peer in able
    ]
    print(f"\n{kind}: {len(urls):,} objects, {size / 1e6:,.0f} MB, {rounds} rounds\n")
    print(table(["", "objects/s", "MB/s", "share of raw", "CPU s per GB", "memory, MB"], rows))
    rates = {peer: size / 1e6 / median(seconds[peer]) for peer in able}
    plot(f"object-storage-{kind}", f"{kind} objects from a local server, MB/s", rates)
    for peer, error in failed.items():
        print(f"{peer}: not measured: {error}")
    return verdicts_on(kind, seconds, raw)


def compare_at(root: Path, kind: str, rounds: int) -> list[str]:
    """Measure all contestants at a task, print the table and return the verdicts."""
    task = TASKS[kind]
    results = rounds_of({peer: partial(run, root, kind, peer) for peer in task.peers}, rounds)
    failed = {peer: each["error"] for peer in task.peers for each in results[peer] if "error" in each}
    able = [peer for peer in task.peers if peer not in failed]
    seconds = {peer: [result["seconds"] for result in results[peer]] for peer in able}
    if len({result["bytes"] for peer in able for result in results[peer]}) != 1:
        raise AssertionError(f"not all did the same at {kind}")
    amount = results[able[0]][0]["bytes"]
    raw = min((peer for peer in task.raw if peer in able), key=lambda peer: median(seconds[peer]))
    rows = [
        [
            peer,
            f"{median(seconds[peer]):.3f}",
            f"{amount / median(seconds[peer]):,.0f}",
            f"{share(seconds[raw], seconds[peer]):.2f}",
            f"{median(result['cpu'] for result in results[peer]):.2f}",
        ]
        for peer in able
    ]
    print(f"\n{kind}: {amount:,.0f} {task.unit}, {rounds} rounds\n")
    print(table(["", "s", f"{task.unit}/s", "share of raw", "CPU s"], rows))
    for peer, error in failed.items():
        print(f"{peer}: not measured: {error}")
    reached = {peer: share(seconds[raw], seconds[peer]) for peer in task.ours}
    return [
        verdict(f"{kind}: {peer}: at least {task.goal} of {raw}: {share:.2f}", share >= task.goal)
        for peer, share in reached.items()
    ]


def verdicts_on(kind: str, seconds: dict[str, list[float]], raw: str) -> list[str]:
    def at_least(goal: float, ours: str, peer: str, unit: str) -> str:
        reached = share(seconds[peer], seconds[ours])
        return verdict(f"{kind}: {ours}: at least {goal} {unit} {peer}: {reached:.2f}", reached >= goal)

    if kind == "tar":
        ours = min(OURS_OF_TAR, key=lambda peer: median(seconds[peer]))
        best = min((peer for peer in OF_WEBDATASET if peer in seconds), key=lambda peer: median(seconds[peer]))
        return [at_least(LEAST_OF_RAW_FOR_TAR, ours, raw, "of"), at_least(1, ours, best, "×")]
    verdicts = [at_least(LEAST_OF_RAW, OURS, raw, "of")]
    if connectors := [peer for peer in CONNECTOR if peer in seconds]:
        best = min(connectors, key=lambda peer: median(seconds[peer]))
        verdicts.append(at_least(LEAST_OF_CONNECTOR, OURS, best, "×"))
    if S3FS in seconds:
        verdicts.append(at_least(LEAST_OF_S3FS, OURS, S3FS, "×"))
    return verdicts


def main() -> None:
    kinds = [*KINDS, *TASKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_storage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", type=int, default=2000, help="how many objects of 110 KB")
    parser.add_argument("--large", type=int, default=8, help="how many tars of 64 MB")
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=", ".join(kinds))
    parser.add_argument(
        "--measure", nargs=3, metavar=("ROOT", "KIND", "PEER"), help="measure this only, here; print JSON"
    )
    options = parser.parse_args()
    if options.measure:
        root, kind, peer = options.measure
        measured = measure_task(kind, peer) if kind in TASKS else measure(KINDS[kind][peer], urls_of(Path(root), kind))
        print(json.dumps(measured))
        return
    print(environment("penstock", "obstore", "s3torchconnector", "s3fs", "boto3", "torch"))
    os.environ["RCLONE_ETAG_HASH"] = ""
    with tempfile.TemporaryDirectory() as folder, serving_s3(Path(folder), watchful=False) as server:
        lay_out(server.root / "bench", options.small, options.large)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ["AWS_ENDPOINT_URL"] = server.endpoint
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = server.key, server.secret
        os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
        with serving_http(server.root) as os.environ[WEB_SERVER]:
            verdicts = [
                each
                for kind in options.kinds
                for each in (compare_at if kind in TASKS else compare)(server.root, kind, options.rounds)
            ]
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
