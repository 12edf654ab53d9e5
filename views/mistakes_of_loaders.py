"""Mistakes that show once it is known how many workers and shards read a chain."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .known import Known, is_map_style
from .mistakes import Mistake

__all__ = ["LOADERS"]


def no_sharding_point(chain: Known) -> Iterator[Mistake]:
    how = chain.how
    if how is None or how.shards < 2 or how.may_repeat or is_map_style(chain.end):
        return
    if not any(chain.of(step).is_sharding_point for step in chain.steps):
        yield Mistake(
            f"The chain is not divided, and {how.shards} shards are to read it.",
            "Each would read all of it, which is an error when reading begins.",
            ".sharding_filter() where the stream is still cheap: after listing and shuffling files, before opening",
        )


def fewer_items_than_shards(chain: Known) -> Iterator[Mistake]:
    how = chain.how
    if how is None or how.shards < 2:
        return
    for point in chain.steps:
        number = chain.length(chain.sources(point)[0]) if chain.sources(point) else None
        if chain.of(point).is_sharding_point and number is not None and number < how.shards:
            yield Mistake(
                f"{chain.name(point)} divides {number} items among {how.shards} shards.",
                f"{how.shards - number} of them get nothing, and their workers have no work.",
                f"num_shards={max(number, 1)}, or divide more and smaller things, such as the files' row groups",
            )


def uneven_shards(chain: Known) -> Iterator[Mistake]:
    how = chain.how
    if how is not None and how.shards % how.readers:
        least = how.shards // how.readers
        yield Mistake(
            f"{how.shards} shards are shared by {how.readers} readers.",
            f"Some have {least + 1} shards and others {least}, so that some wait for others.",
            f"num_shards={how.readers * (least + 1)}, a multiple of {how.readers}",
        )


def labour_in_this_process(chain: Known) -> Iterator[Mistake]:
    if chain.how is None or chain.how.workers or chain.how.ahead_in_main:
        return
    for step in chain.that("expensive"):
        is_elsewhere = [chain.of(each).works_in for each in (step, *chain.below(step))]
        if not is_map_style(step) and not any(is_elsewhere):
            yield Mistake(
                f"{chain.name(step)} runs in the program's own process.",
                "Training waits for it at each item.",
                "reading_service=ps.MultiProcessingReadingService(num_workers=2)",
            )
            return


def main_process_step_inside(chain: Known) -> Iterator[Mistake]:
    if chain.how is None or not chain.how.workers:
        return
    end = {id(step) for step in chain.in_main_process()}
    for step in chain.steps:
        if chain.of(step).in_main_process and id(step) not in end:
            yield Mistake(
                f"{chain.name(step)} is in the middle of the chain, where workers run it.",
                "It belongs in the main process; reading begins with an error.",
                f".{chain.method(step)}() as the last step",
            )


def too_many_processes(chain: Known) -> Iterator[Mistake]:
    how, processors = chain.how, os.cpu_count() or 1
    if how is None or not how.workers:
        return
    here = -(-how.shards // how.ranks)
    for step in chain.steps:
        each = vars(step).get("workers") or processors
        if chain.of(step).works_in == "processes" and here * each > processors:
            yield Mistake(
                f"{chain.name(step)} starts {here * each} processes: {each} for each of {here} shards.",
                f"There are {processors} processors: they take turns, and memory holds all of them.",
                f".map(…) in place of .{chain.method(step)}(…), as the workers are processes already",
            )


def nothing_but_short_batches(chain: Known) -> Iterator[Mistake]:
    how = chain.how
    if how is None:
        return
    for batch in chain.that("batches"):
        is_divided = any(chain.of(step).is_sharding_point for step in chain.above(batch))
        number, size = chain.length(chain.sources(batch)[0]), vars(batch).get("batch_size")
        if not vars(batch).get("drop_last") or number is None or not isinstance(size, int) or not is_divided:
            continue
        each = -(-number // how.shards)
        if each < size:
            yield Mistake(
                f"{chain.name(batch)} drops batches of fewer than {size}, and a shard has {each} items.",
                "No batch is left.",
                f"num_shards={max(number // size, 1)}, or drop_last=False",
            )


def streams_leave_workers(chain: Known) -> Iterator[Mistake]:
    if chain.how is None or not chain.how.workers:
        return
    in_main = chain.in_main_process()
    last = chain.sources(in_main[0])[0] if in_main else chain.end
    maker = chain.maker(last)
    if chain.does(maker, "opens") and chain.of(maker).works_in is None:
        yield Mistake(
            f"The workers send the open streams of {chain.name(maker)}.",
            "An open file cannot be sent to another process.",
            f".{chain.method(maker)}(…) with what reads the streams after it, such as .routed_decode()",
        )


LOADERS = (
    no_sharding_point,
    fewer_items_than_shards,
    uneven_shards,
    labour_in_this_process,
    main_process_step_inside,
    too_many_processes,
    nothing_but_short_batches,
    streams_leave_workers,
)
