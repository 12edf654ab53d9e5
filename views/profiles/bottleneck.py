"""The sentence that says what limits the rate of a chain, and what may be done about it.

The search begins with whoever uses the items, and follows who waits for whom: a reader that waits for a thread, a pool
or workers is not the cause.
"""

from __future__ import annotations

import math
import os
from statistics import median

from .times import StepTimes, Times, WorkerTimes

__all__ = ["verdict"]

_KEEPS_UP = 0.1
"""The input is no bottleneck if the program waits less than this share of the time."""
_DOES_NOTHING = 0.02
"""Below this ratio of work to waits, the program only reads, and no number of workers keeps up with it."""
_FULL = 0.7
"""A pool is full if its threads work for more than this share of the time."""
_IN_TURN = 0.15
"""A reader and a thread wait for each other in turn if both wait for more than this share of the time."""
_ONE = {"threads": "thread", "processes": "process", "actors": "actor"}
_CALL_FUNCTIONS = ("threadpool_map", "map_pool")
"""The steps whose threads call the user's function, which may hold the GIL; Penstock's own readers release it."""
_LEAST_OF_GIL, _MOST_OF_GIL = 0.7, 1.15
"""Threads that hold the GIL in turn use one processor, all together; and each of them less than `_PART` of one."""
_PART = 0.75
_LARGE = 0.001
"""Items are large if sending one takes more seconds than this."""
_SLOWER, _SLOWER_BY = 1.7, 0.1
"""A worker is slower than the others if an item takes this many times as long, and this many seconds more in all."""


def verdict(profile: Times) -> str:
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
    if not profile.workers and any(step.works_in == "workers" for step in profile.main):
        return f"{begin}in which step is unknown, since no worker has reported yet."
    for step in profile.steps:  # first, since all steps of the process wait for the GIL
        if _holds_the_gil(profile, step):
            return begin + _of_gil(profile, step)
    found = _in_workers(profile) if _waits_for_workers(profile) else _in_thread(profile, profile.main, None, seconds)
    return begin + found


def _waits_for_workers(profile: Times) -> bool:
    reader_waits = [step for step in profile.main if step.works_in == "workers"]
    if not profile.workers or not reader_waits:
        return False
    others = sum(step.work for step in profile.main if step.works_in != "workers")
    return sum(step.own + step.waiting for step in reader_waits) >= others


def _in_workers(profile: Times) -> str:
    workers, consumer = profile.workers, profile.consumer
    totals = [*map(_total, workers)]
    slowest = max(workers, key=_time_of_item)
    others = [worker for worker in workers if worker is not slowest]
    usual = median(map(_time_of_item, others)) if others else math.inf
    more = (_time_of_item(slowest) - usual) * slowest.items
    is_slower = _time_of_item(slowest) > _SLOWER * usual and more > _SLOWER_BY and not _is_idle(slowest)
    if is_slower and any(map(_is_idle, others)):
        times = _time_of_item(slowest) / (usual or 1e-9)
        return (
            f"one worker is slow: {slowest.name} needs {times:.1f} times as long for an item as the others, which wait "
            "for it, since shards give their items in turn. Look at what only its shard reads, or divide the data into "
            f"more shards, as num_shards={4 * len(workers)}, and shuffle before sharding_filter."
        )
    busy, sending = sum(worker.busy for worker in workers), sum(worker.sending for worker in workers)
    idle, items = sum(worker.idle for worker in workers), sum(worker.items for worker in workers)
    if idle > 0.5 * sum(totals) and sending < _LARGE * items:
        return (
            f"handing items over takes the time. The workers are idle {idle / sum(totals):.0%} of it, and yet "
            f"the program waits: each item costs some {consumer.waited / consumer.items * 1e6:.0f} µs, however small. "
            "Give fewer, larger items, with a larger batch in the workers, or read without workers."
        )
    if sending > busy:
        return (
            f"sending takes {sending / (busy + sending):.0%} of the workers' time: the items are large. Send less: "
            "crop, resize or encode before the end of the workers' chain, keep uint8 until to_device, or batch in the "
            "workers."
        )
    reader = max(profile.in_workers, key=_takes, default=None)
    if reader is not None and reader.works_in == "another process":
        return (
            f"{profile.share(reader):.0%} of the workers' time is waiting for the one process that reads what comes "
            "before sharding_round_robin_dispatch. Do the slow steps after it, where each worker does its part."
        )
    share = busy / sum(totals)
    in_step = _in_thread(profile, profile.in_workers, None, busy)
    return f"{in_step} {_more_workers(profile, share)}".rstrip()


def _more_workers(profile: Times, share: float) -> str:
    """Say how many workers would keep up with the program."""
    number = next(step.processes for step in profile.main if step.works_in == "workers")  # autotune may have ended some
    number, consumer = min(number, len(profile.workers)), profile.consumer
    how = "both busy" if number == 2 and share > _FULL else f"busy {share:.0%} of the time"
    text = f"{number} workers read, {how}." if number > 1 else f"1 worker reads, {how}."
    if share > _FULL and consumer.worked > _DOES_NOTHING * consumer.waited:
        made = sum(worker.busy + worker.sending for worker in profile.workers) / consumer.items
        wanted = math.ceil(made * consumer.items / consumer.worked)
        processors = os.cpu_count() or 1
        if number < wanted <= processors:
            text += f" {wanted} workers would keep up."
        elif wanted > number:
            text += f" {wanted} workers would keep up, where there are as many processors; here are {processors}."
    return text


def _in_thread(profile: Times, steps: list[StepTimes], thread: int | None, seconds: float) -> str:
    """Say what limits the rate of the thread of one step, or of the last reader."""
    here = [step for step in steps if step.thread_of == thread]
    if not here:
        return "no step of it was measured."
    for step in here:
        # While its reader waits, the thread has room: if it seems blocked for longer, it waits for the GIL.
        blocked = min(step.blocked, seconds - step.waiting)
        if step.works_in != "workers" and not step.threads and min(step.waiting, blocked) > _IN_TURN * seconds:
            return _of_small_buffer(step, seconds)
    waited = max(here, key=_waits)
    slowest = max(here, key=_takes)
    if _waits(waited) > _takes(slowest):
        return _behind(profile, steps, waited, seconds)
    return _of_step(profile, steps, slowest, sum(map(_takes, here)) + sum(map(_waits, here)))


def _behind(profile: Times, steps: list[StepTimes], step: StepTimes, seconds: float) -> str:
    """Say what limits the rate of the threads that a reader waits for."""
    if step.threads:
        return _of_pool(profile, steps, step, seconds)
    return _in_thread(profile, steps, steps.index(step), seconds)


def _of_small_buffer(step: StepTimes, seconds: float) -> str:
    # Its thread may have waited before the first item, too.
    waiting, blocked = min(step.waiting / seconds, 1.0), min(step.blocked / seconds, 1.0)
    return (
        f"the buffer of `{step.label}` is small: its reader waits for it {waiting:.0%} of the time, "
        f"and its thread waits for room {blocked:.0%}. Items come in bursts: read more ahead, as "
        f"{step.name}({max(step.capacity * 8, 16)})."
    )


def _of_pool(profile: Times, steps: list[StepTimes], step: StepTimes, seconds: float) -> str:
    in_workers = steps is profile.in_workers
    # The first item, which is not in `seconds`, may have taken most of the work.
    use = min(step.busy / (step.threads * seconds / (len(profile.workers) if in_workers else 1)), 1.0)
    share = profile.share(step)
    if step.retrying > 0.5 * step.busy:
        return _of_retries(step, step.retrying / step.busy)
    if use < _FULL:
        read = [each for each in steps if each.thread_of == step.thread_of and each is not step]
        if read and max(map(_takes, read)) > 0.2 * seconds:
            return _of_step(profile, steps, max(read, key=_takes), sum(map(_takes, read)))
        if step.capacity < 2 * step.threads and not step.tuned:
            return (
                f"`{step.label}` is given too few items at a time: its {step.threads} {_kind(step)} work {use:.0%} of "
                f"the time. Let it read {4 * step.threads} items ahead."
            )
    text = f"{share:.0%} of the work is in `{step.label}`, "
    if step.tuned:
        return f"{text}which finds its numbers while it is read, so far {step.tuned}."
    number = step.threads // step.processes
    text += f"whose {number} {_kind(step)} are" if number > 1 else f"whose one {_ONE[_kind(step)]} is"
    text += f" busy {use:.0%} of the time."
    if (cache := _cache_after(steps, step)) is not None:
        return text + _of_cold_cache(cache)
    if is_waiting := step.works_in == "threads" and step.cpu < 0.5 * step.busy:
        text += (
            f" They mostly wait, as for a network or disk, so more threads would help: try {4 * step.threads}, unless "
            "other programs keep the processors busy."
        )
    if step.hint:
        text += f" {step.hint}"
    processors = os.cpu_count() or 1
    if in_workers or step.hint or is_waiting:
        return text
    if step.threads < processors:
        return f"{text} More would help: here are {processors} processors."
    return f"{text} Take more, where there are more processors than {processors}, or a faster function."


def _of_step(profile: Times, steps: list[StepTimes], step: StepTimes, total: float) -> str:
    if step.retrying > 0.5 * _takes(step):
        return _of_retries(step, step.retrying / _takes(step))
    share = _takes(step) / total if total else 0.0
    text = f"{share:.0%} of the time is in `{step.label}`."
    if (cache := _cache_after(steps, step)) is not None:
        text += _of_cold_cache(cache)
    elif step.hint:
        text += f" {step.hint}"
    elif not step.sources:
        text += " It is the source: read ahead with prefetch(), read several files at once, or move the data nearer."
    elif not profile.workers and step.works_in is None:
        text += " Worker processes would share it: DataLoader2 with MultiProcessingReadingService, or processpool_map."
    return text


def _processors(profile: Times, step: StepTimes) -> float:
    """Return how many processors the threads of a step use, in each process."""
    consumer = profile.consumer
    in_main = consumer.first + consumer.waited + consumer.worked or profile.seconds
    return step.cpu / (sum(map(_total, profile.workers)) if step in profile.in_workers else in_main)


def _holds_the_gil(profile: Times, step: StepTimes) -> bool:
    if step.works_in != "threads" or step.name not in _CALL_FUNCTIONS or step.threads == 1:
        return False
    return step.cpu < _PART * step.busy and _LEAST_OF_GIL < _processors(profile, step) < _MOST_OF_GIL


def _of_gil(profile: Times, step: StepTimes) -> str:
    return (
        f"{profile.share(step):.0%} of the work is in `{step.label}`, whose {step.threads // step.processes} threads "
        f"wait for one another, if its function computes in Python and so holds the GIL: they use "
        f"{_processors(profile, step):.1f} processors, all together. Processes would run it in parallel: "
        "processpool_map, or worker processes of a loader."
    )


def _of_cold_cache(cache: StepTimes) -> str:
    return (
        f" This pass fills the cache of `{cache.label}`; later passes do not need this step. Profile a second pass, or "
        "fill the cache beforehand."
    )


def _of_retries(step: StepTimes, share: float) -> str:
    return (
        f"`{step.label}` waits before another attempt for {share:.0%} of its time: {step.retried:,} attempts failed. "
        "Look at why they fail (stats() has the last errors), ask for less at once, or retry sooner, as "
        "Retry(…, backoff=0.01)."
    )


def _cache_after(steps: list[StepTimes], step: StepTimes) -> StepTimes | None:
    """Return a cache that keeps what a step gives, directly or through others."""
    reached = {steps.index(step)}
    for place, each in enumerate(steps):
        if reached & {*each.sources}:
            if each.is_cache:
                return each
            reached.add(place)
    return None


def _takes(step: StepTimes) -> float:
    """Return the time of a step in its reader's thread; waits for threads that only fetch for it are part of it."""
    return step.own if _has_threads(step) else step.own + step.waiting


def _waits(step: StepTimes) -> float:
    return step.waiting if _has_threads(step) else 0.0


def _has_threads(step: StepTimes) -> bool:
    return step.capacity > 0 or step.works_in in ("threads", "processes", "actors", "a thread")


def _kind(step: StepTimes) -> str:
    return step.works_in if step.works_in in ("processes", "actors") else "threads"


def _total(worker: WorkerTimes) -> float:
    return worker.busy + worker.sending + worker.idle or 1.0


def _is_idle(worker: WorkerTimes) -> bool:
    return worker.idle > 0.3 * _total(worker)


def _time_of_item(worker: WorkerTimes) -> float:
    return (worker.busy + worker.sending) / worker.items if worker.items else 0.0
