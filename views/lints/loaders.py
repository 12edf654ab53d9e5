"""Mistakes that show once it is known how many workers and shards read a chain."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator

from ..chain_info import ChainInfo, ReadPlan
from . import Lint, Mistake, lint_of_chain

__all__ = ["LOADERS"]

LOADERS: list[Lint] = []


def _lint(find: Callable[[ChainInfo, ReadPlan], Iterable[Mistake]]) -> Lint:
    """Decorate a lint that needs to know how a loader reads the chain."""

    @lint_of_chain(LOADERS)
    @functools.wraps(find)
    def find_with_plan(chain: ChainInfo) -> Iterable[Mistake]:
        return () if chain.plan is None else find(chain, chain.plan)

    return find_with_plan


@_lint
def no_sharding_point(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    is_divided = bool(chain.sharding_points) or chain.end.is_map_style
    if plan.shards > 1 and not plan.may_repeat and not is_divided:
        yield Mistake(
            f"The chain is not divided, and {plan.shards} shards are to read it.",
            "Each would read all of it, which is an error when reading begins.",
            ".sharding_filter() where the stream is still cheap: after listing and shuffling files, before opening",
        )


@_lint
def fewer_items_than_shards(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    for point in chain.sharding_points:
        number = point.source_length
        if number is not None and number < plan.shards > 1:
            yield Mistake(
                f"{point} divides {number} items among {plan.shards} shards.",
                f"{plan.shards - number} of them get nothing, and their workers have no work.",
                f"num_shards={max(number, 1)}, or divide more and smaller things, such as the files' row groups",
            )


@_lint
def uneven_shards(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    least, rest = divmod(plan.shards, plan.readers)
    if rest:
        yield Mistake(
            f"{plan.shards} shards are shared by {plan.readers} readers.",
            f"Some have {least + 1} shards and others {least}, so that some wait for others.",
            f"num_shards={plan.readers * (least + 1)}, a multiple of {plan.readers}",
        )


@_lint
def labour_in_this_process(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    if plan.workers or plan.ahead_in_main:
        return
    for step in chain.with_trait("expensive"):
        is_elsewhere = any(each.works_in for each in (step, *step.below()))
        if not step.is_map_style and not is_elsewhere:
            yield Mistake(
                f"{step} runs in the program's own process.",
                "Training waits for it at each item.",
                "reading_service=ps.MultiProcessingReadingService(num_workers=2)",
            )
            return


@_lint
def main_process_step_inside(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    at_the_end = chain.in_main_process()
    for step in chain.steps:
        if plan.workers and step.in_main_process and step not in at_the_end:
            yield Mistake(
                f"{step} is in the middle of the chain, where workers run it.",
                "It belongs in the main process; reading begins with an error.",
                f".{step.method}() as the last step",
            )


@_lint
def too_many_processes(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    processors, shards_here = os.cpu_count() or 1, -(-plan.shards // plan.ranks)
    for step in chain.steps:
        each = step.attributes.get("workers") or processors
        if plan.workers and step.works_in == "processes" and shards_here * each > processors:
            yield Mistake(
                f"{step} starts {shards_here * each} processes: {each} for each of {shards_here} shards.",
                f"There are {processors} processors: they take turns, and memory holds all of them.",
                f".map(…) in place of .{step.method}(…), as the workers are processes already",
            )


@_lint
def nothing_but_short_batches(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    for batch in chain.with_trait("batches"):
        is_divided = any(step.is_sharding_point for step in batch.above())
        number, size = batch.source_length, batch.attributes.get("batch_size")
        if not batch.attributes.get("drop_last") or number is None or not isinstance(size, int) or not is_divided:
            continue
        each = -(-number // plan.shards)
        if each < size:
            yield Mistake(
                f"{batch} drops batches of fewer than {size}, and a shard has {each} items.",
                "No batch is left.",
                f"num_shards={max(number // size, 1)}, or drop_last=False",
            )


@_lint
def streams_leave_workers(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    in_main = chain.in_main_process()
    last = in_main[0].source if in_main else chain.end
    if not plan.workers or last is None:
        return
    maker = last.maker()
    if maker.has_trait("opens") and maker.works_in is None:
        yield Mistake(
            f"The workers send the open streams of {maker}.",
            "An open file cannot be sent to another process.",
            f".{maker.method}(…) with what reads the streams after it, such as .routed_decode()",
        )
