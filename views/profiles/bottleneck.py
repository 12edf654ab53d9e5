"""The sentence that says what limits the rate of a chain, and what may be done about it.

The search begins with whoever uses the items, and follows who waits for whom: a reader that waits for a thread, a pool
or workers is not the cause.
"""

from __future__ import annotations

import math
import os
from statistics import median
from typing import TYPE_CHECKING

from .times import StepTimes, WorkerTimes, reading_threads

if TYPE_CHECKING:
    from .profile import Profile

_KEEPS_UP = 0.1
"""The input is no bottleneck if the program waits less than this share of the time."""
_DOES_NOTHING = 0.02
"""Below this ratio of work to waits, the program only reads, and no number of workers keeps up with it."""
_FULL = 0.7
"""Workers and pools are full if they work for more than this share of the time."""
_IN_TURN = 0.15
"""A reader and a thread wait for each other in turn if both wait for more than this share of the time."""
_CALL_FUNCTIONS = ("threadpool_map", "map_pool")
"""The steps whose threads call the user's function, which may hold the GIL; Penstock's own readers release it."""
_LEAST_OF_GIL, _MOST_OF_GIL = 0.7, 1.15
"""Threads that hold the GIL in turn use one processor, all together; and each of them less than `_PART` of one."""
_PART = 0.75
_LARGE = 0.001
"""Items are large if sending one takes more seconds than this."""
_HARDLY_ANY = 0.1
"""A worker read hardly anything if it gave less than this share of the items of the one with the most."""
_SLOWER = 1.7
"""A worker is slower than the others if an item takes this many times as long."""


def verdict(profile: Profile) -> str:
    """Return what limits the rate, in a sentence or two."""
    consumer = profile.consumer
    # Without the wait for the first item, while processes start.
    seconds = consumer.waited + consumer.worked or profile.seconds
    if not profile.steps and consumer.items:
        return "No step was measured: those of other libraries count with the step of Penstock that reads them."
    if not consumer.items or not seconds:
        return "Too few items were read to say what limits the rate."
    if profile.is_loader and consumer.waited < _KEEPS_UP * seconds:
        return (
            f"The input keeps up: the program waits for it {consumer.waited / seconds:.0%} of the time. A faster input "
            "would change nothing; the time is in what the program does with the items."
        )
    begin = "The input is the bottleneck: " if profile.is_loader else ""
    return begin + _in_thread(profile, profile.main, None, seconds)


# Workers


def _in_workers(profile: Profile) -> str:
    workers, consumer = profile.workers, profile.consumer
    if not workers:
        return "in which step is unknown, since no worker has reported yet."
    slowest = max(workers, key=_time_of_item)
    others = [worker for worker in workers if worker is not slowest]
    usual = median(map(_time_of_item, others)) if others else math.inf
    if _time_of_item(slowest) > _SLOWER * usual and not _is_idle(slowest) and any(map(_is_idle, others)):
        times = _time_of_item(slowest) / (usual or 1e-9)
        return (
            f"one worker is slow: {slowest.name} needs {times:.1f} times as long for an item as the others, which wait "
            "for it, since shards give their items in turn. Look at what only its shard reads, or divide the data into "
            f"more shards, as num_shards={4 * len(workers)}, and shuffle before sharding_filter."
        )
    busy, sending = sum(worker.busy for worker in workers), sum(worker.sending for worker in workers)
    idle, items = sum(worker.idle for worker in workers), sum(worker.items for worker in workers)
    total = sum(worker.total for worker in workers)
    if idle > 0.5 * total and sending < _LARGE * items:
        return (
            f"handing items over takes the time. The workers are idle {idle / total:.0%} of it, and yet "
            f"the program waits: each item costs some {consumer.waited / consumer.items * 1e6:.0f} µs, however small. "
            "Give fewer, larger items, with a larger batch in the workers, or read without workers."
        )
    if sending > busy:
        return (
            f"sending takes {sending / (busy + sending):.0%} of the workers' time: the items are large. Send less: "
            "crop, resize or encode before the end of the workers' chain, keep uint8 until to_device, or batch in the "
            "workers."
        )
    dispatched = sum(_takes(step) for step in profile.in_workers if step.works_in == "another process")
    if dispatched > 0.5 * busy:
        return (
            f"{dispatched / busy:.0%} of the workers' time is waiting for the one process that reads what comes before "
            "sharding_round_robin_dispatch. Do the slow steps after it, where each worker does its part."
        )
    number, wanted = len(workers), math.ceil((busy + sending) / (consumer.worked or 1e-9))
    text = _in_thread(profile, profile.in_workers, None, busy)
    if sentence := _of_idle_workers(workers):
        return f"{text} {sentence}"
    text += f" {number} workers read" if number > 1 else " 1 worker reads"
    text += f", busy {busy / total:.0%} of the time."
    if busy > _FULL * total and wanted > number and consumer.worked > _DOES_NOTHING * consumer.waited:
        text += f" {wanted} workers would keep up, on as many processors; here are {os.cpu_count()}."
    return text


def _of_idle_workers(workers: list[WorkerTimes]) -> str:
    """Say which workers had nearly nothing to read; an empty text if all had their share."""
    most = max(worker.items for worker in workers)
    without = [worker.name for worker in workers if worker.items < _HARDLY_ANY * most]
    if not without:
        return ""
    names = " and ".join(without[:2]) + (" and others" if len(without) > 2 else "")
    reading = len(workers) - len(without)
    return (
        f"{reading} of {len(workers)} workers read{'s' if reading == 1 else ''} nearly all: {names} got hardly any "
        "items. What is divided is too little, such as one file: take .shard_files(kind, min_bytes=…) as the sharding "
        "filter, which divides files at row groups and lines, or put the sharding filter after the step that gives "
        "many items."
    )


def _is_idle(worker: WorkerTimes) -> bool:
    return worker.idle > 0.3 * worker.total


def _time_of_item(worker: WorkerTimes) -> float:
    return (worker.busy + worker.sending) / worker.items if worker.items else 0.0


# Threads


def _in_thread(profile: Profile, steps: list[StepTimes], thread: int | None, seconds: float) -> str:
    """Say what limits the rate of the thread of one step, or of the last reader."""
    here = [step for step, its_thread in zip(steps, reading_threads(steps), strict=True) if its_thread == thread]
    if not here:
        return "no step of it was measured."
    for step in steps:  # in any thread, since all wait for the GIL
        if _holds_the_gil(step, seconds):
            return _of_gil(profile, step, seconds)
    for step in here:
        # While its reader waits, the thread has room: if it seems blocked for longer, it waits for the GIL.
        blocked = min(step.blocked, seconds - step.waiting)
        if step.reads_ahead and step.works_in != "workers" and min(step.waiting, blocked) > _IN_TURN * seconds:
            return _of_small_buffer(step, seconds)
    step = max(here, key=_takes)
    if step.works_in == "workers":
        return _in_workers(profile)
    if step.reads_ahead and step.waiting > step.own:
        return _in_thread(profile, steps, steps.index(step), seconds)
    if step.threads and step.works_in:  # other threads only fetch for it, as those of a stream
        # The first item, which is not in `seconds`, may have taken most of the work.
        use = min(step.busy * step.processes / (step.threads * seconds), 1.0)
        read = max((each for each in here if each is not step), key=_takes, default=step)
        if use > _FULL or read is step or _takes(read) < 0.2 * seconds:
            return _of_pool(profile, steps, step, use)
        step = read
    return _of_step(profile, steps, step, sum(map(_takes, here)))


def _of_small_buffer(step: StepTimes, seconds: float) -> str:
    # Its thread may have waited before the first item, too.
    waiting, blocked = min(step.waiting / seconds, 1.0), min(step.blocked / seconds, 1.0)
    return (
        f"the buffer of `{step.label}` is small: its reader waits for it {waiting:.0%} of the time, "
        f"and its thread waits for room {blocked:.0%}. Items come in bursts: read more ahead, as "
        f"{step.name}({max(step.capacity * 8, 16)})."
    )


def _of_step(profile: Profile, steps: list[StepTimes], step: StepTimes, total: float) -> str:
    text = f"{_takes(step) / total if total else 0.0:.0%} of the time is in `{step.label}`."
    if (known := _of_known_cause(steps, step, text)) is not None:
        return known
    if step.hint:
        text += f" {step.hint}"
    elif not step.sources:
        text += " It is the source: read ahead with prefetch(), read several files at once, or move the data nearer."
    elif not profile.workers and step.works_in is None:
        text += " Worker processes would share it: DataLoader2 with MultiProcessingReadingService, or processpool_map."
    return text


def _of_pool(profile: Profile, steps: list[StepTimes], step: StepTimes, use: float) -> str:
    text = f"{profile.share(step):.0%} of the work is in `{step.label}`, "
    if step.tuned:
        return f"{text}which finds its numbers while it is read, so far {step.tuned}."
    text += f"whose {step.works_in} are busy {use:.0%} of the time."
    if (known := _of_known_cause(steps, step, text)) is not None:
        return known
    if is_waiting := step.works_in == "threads" and step.cpu < 0.5 * step.busy:
        text += (
            f" They mostly wait, as for a network or disk, so more threads would help: try "
            f"{4 * step.threads // step.processes}, unless other programs keep the processors busy."
        )
    if step.hint:
        text += f" {step.hint}"
    elif steps is profile.main and not is_waiting:
        text += f" More would help where there are processors for them: here are {os.cpu_count()}."
    return text


def _of_known_cause(steps: list[StepTimes], step: StepTimes, text: str) -> str | None:
    """Return what to say of a step that waits before other attempts, or whose results a cache keeps."""
    if step.retrying > 0.5 * step.work:
        return (
            f"`{step.label}` waits before another attempt for {step.retrying / step.work:.0%} of its time: "
            f"{step.retried:,} attempts failed. Look at why they fail (stats() has the last errors), ask for less at "
            "once, or retry sooner, as Retry(…, backoff=0.01)."
        )
    reached = {steps.index(step)}
    for place, each in enumerate(steps):
        if reached & {*each.sources}:
            if each.is_cache:
                return (
                    f"{text} This pass fills the cache of `{each.label}`; later passes do not need this step. Profile "
                    "a second pass, or fill the cache beforehand."
                )
            reached.add(place)
    return None


def _holds_the_gil(step: StepTimes, seconds: float) -> bool:
    calls_function = step.works_in == "threads" and step.name in _CALL_FUNCTIONS
    return calls_function and step.cpu < _PART * step.busy and _LEAST_OF_GIL < step.cpu / seconds < _MOST_OF_GIL


def _of_gil(profile: Profile, step: StepTimes, seconds: float) -> str:
    return (
        f"{profile.share(step):.0%} of the work is in `{step.label}`, whose {step.threads // step.processes} threads "
        f"wait for one another, if its function computes in Python and so holds the GIL: they use "
        f"{step.cpu / seconds:.1f} processors, all together. Processes would run it in parallel: "
        "processpool_map, or worker processes of a loader."
    )


def _takes(step: StepTimes) -> float:
    """Return the time of a step in its reader's thread."""
    return step.own + step.waiting
