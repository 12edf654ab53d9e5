"""The profile of a loader: of its own steps, and of the chains that read its shards."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from ...registry import walk
from ...views.profiles.profile import Profile
from ...views.profiles.times import Consumer, StepTimes, WorkerTimes, add_up_times, times_of_steps
from ..positions import Report
from ..reader import ShardReader

__all__ = ["profile_of"]


def profile_of(read: Any, consumer: Consumer) -> Profile:
    """Return the profile of a chain that a reading service made, whose steps are measured."""
    readers = [pipe for pipe in walk(read) if isinstance(pipe, ShardReader)]
    here = [chain for reader in readers for chain in reader.chains_here()]
    reports = [report for reader in readers for report in reader.reports() if report.step_times is not None]
    by_shard = groupby(reports, key=lambda report: report.shard)
    in_workers = add_up_times(
        add_up_times((report.step_times or [] for report in each), in_turn=True) for _, each in by_shard
    )
    own = times_of_steps(read)
    if here:
        with_own = [times_of_steps(chain, read) for chain in here]
        below = len(with_own[0]) - len(own)
        own = add_up_times(steps[:below] for steps in with_own) + with_own[0][below:]
        own = [_reads_here(step, below - 1) if _reads_shards(step) else step for step in own]
    elif readers:
        number = readers[0].options.num_workers
        own = [_waits_for_workers(step, number, consumer.first) if _reads_shards(step) else step for step in own]
    seconds = consumer.waited + consumer.worked
    return Profile(seconds, consumer, own, in_workers, _workers_of(reports), is_loader=True)


def _reads_shards(step: StepTimes) -> bool:
    return step.name == ShardReader.__name__


def _reads_here(step: StepTimes, source: int) -> StepTimes:
    return replace(step, name="loader", label="loader", text="loader", sources=[source])


def _waits_for_workers(step: StepTimes, number: int, start: float) -> StepTimes:
    """Return the times of the step that reads the shards: its time here is waiting, except for starting the shards."""
    text = f"{number} worker{'s' * (number > 1)}"
    waiting = max(step.waiting + step.own - start, 0.0)
    step = replace(step, name="workers", label=text, text=text, works_in="workers", processes=number)
    return replace(step, own=0.0, waiting=waiting)


def _workers_of(reports: list[Report]) -> list[WorkerTimes]:
    """Return the times of each worker: several shards report on one worker; the newest report counts."""
    latest: dict[tuple[str, tuple[int, int]], WorkerTimes] = {}
    for report in reports:
        key = report.worker_times.name, report.reading
        if key not in latest or latest[key].items < report.worker_times.items:
            latest[key] = report.worker_times
    total: dict[str, WorkerTimes] = {}
    for (name, _), times in latest.items():
        before = total.setdefault(name, WorkerTimes(name))
        for what in ("items", "busy", "sending", "idle"):
            setattr(before, what, getattr(before, what) + getattr(times, what))
    return [*total.values()]
