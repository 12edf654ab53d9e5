"""The profile of a loader: of its own steps, and of the chains that read its shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...registry import walk
from ...views.profiles.profile import Profile
from ...views.profiles.times import Consumer, StepTimes, WorkerTimes, add, add_up_times, times_of_steps
from ..positions import Report
from ..reader import ShardReader


def profile_of(read: Any, consumer: Consumer) -> Profile:
    """Return the profile of a chain that a reading service made, whose steps are measured."""
    readers = [pipe for pipe in walk(read) if isinstance(pipe, ShardReader)]
    reports = [report for reader in readers for report in reader.reports() if report.step_times is not None]
    in_workers = add_up_times(report.step_times or [] for report in reports)
    below = add_up_times(times_of_steps(chain) for reader in readers for chain in reader.chains_here())
    own = [replace(step, sources=[len(below) + place for place in step.sources]) for step in times_of_steps(read)]
    for step in own:
        if step.name == ShardReader.__name__:
            _name_reader(step, readers[0].options.num_workers, len(below), consumer.first)
    seconds = consumer.waited + consumer.worked
    return Profile(seconds, consumer, below + own, in_workers, _workers_of(reports), is_loader=True)


def _name_reader(step: StepTimes, workers: int, below: int, start: float) -> None:
    """Describe the step that reads the shards. The time of workers is waiting, except for the start of the shards."""
    if not workers:
        step.name = step.label = "loader"
        step.sources = [below - 1] if below else []
        return
    step.name = step.works_in = "workers"
    step.label = f"{workers} worker{'s' * (workers > 1)}"
    step.processes = workers
    step.waiting, step.own = max(step.waiting + step.own - start, 0.0), 0.0


def _workers_of(reports: list[Report]) -> list[WorkerTimes]:
    """Return the times of each worker: several shards report on one worker; the newest report counts."""
    newest: dict[tuple[str, tuple[int, int]], WorkerTimes] = {}
    for report in reports:
        key = report.worker_times.name, report.reading
        if key not in newest or newest[key].items < report.worker_times.items:
            newest[key] = report.worker_times
    total: dict[str, WorkerTimes] = {}
    for (name, _), times in newest.items():
        add(total.setdefault(name, WorkerTimes(name)), times)
    return [*total.values()]
