"""Mistakes that show once it is known how many workers and shards read a chain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from ...pipes.iter.list_tables import TableFileLister
from ...pipes.iter.shard_files import FileSharder
from ...registry import copy_of
from ...registry.sharding import divide_items
from ...storage.addresses import is_local_path
from ..chain_info import ChainInfo, ReadPlan, StepInfo
from .lint import Mistake, lint_of_loader

__all__: list[str] = []  # its lints enter themselves


@lint_of_loader
def no_sharding_point(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    is_divided = bool(chain.sharding_points) or chain.end.is_map_style
    if plan.shards > 1 and not plan.may_repeat and not is_divided:
        yield Mistake(
            f"The chain is not divided, and {plan.shards} shards are to read it.",
            "Each would read all of it, which is an error when reading begins.",
            ".sharding_filter() where the stream is still cheap: after listing and shuffling files, before opening",
        )


@lint_of_loader
def fewer_items_than_shards(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    divide_items(chain.end.pipe)  # as when it is sharded
    for point in chain.sharding_points:
        number = point.source_length
        if is_of_files := point.source is not None and _are_local_files(point.source):
            number = _number_of_files(point, plan.shards)
        if isinstance(point.pipe, FileSharder):
            smaller = "smaller row groups, a smaller min_bytes, or more files"
        else:
            smaller = "divide smaller things" + (": .shard_files(kind) divides large files" if is_of_files else "")
        if number is not None and number < plan.shards > 1:
            yield Mistake(
                f"{point} divides {number} {'item' if number == 1 else 'items'} among {plan.shards} shards.",
                f"{plan.shards - number} of them get nothing, and their workers have no work.",
                f"num_shards={max(number // plan.readers * plan.readers, number % plan.readers, 1)}, or {smaller}",
            )


def _are_local_files(source: StepInfo) -> bool:
    """Say whether a step lists files of this machine, or is a list of their paths."""
    is_lister = isinstance(source.pipe, TableFileLister)  # whose paths may be patterns
    paths = source.attributes.get("root" if is_lister else "iterable")
    paths = [paths] if isinstance(paths, str) else paths
    exists = is_local_path if is_lister else lambda path: os.path.exists(path)
    return isinstance(paths, list) and all(isinstance(path, str) and exists(path) for path in paths)


def _number_of_files(point: StepInfo, shards: int) -> int | None:
    """Return how many files, or parts of files, a sharding point divides; at most `shards`."""
    pipe = copy_of(point.pipe, afresh=True)
    try:
        divides = isinstance(pipe, FileSharder) and pipe.divides_items
        divided = pipe.divided(shards, pipe.settle([(shards, 0)])) if divides else pipe.source
        return sum(1 for _ in islice(divided, shards))
    except Exception:  # such as an empty folder; reading raises it
        return None


@lint_of_loader
def uneven_shards(chain: ChainInfo, plan: ReadPlan) -> Iterator[Mistake]:
    least, rest = divmod(plan.shards, plan.readers)
    if rest:
        yield Mistake(
            f"{plan.shards} shards are shared by {plan.readers} readers.",
            f"Some have {least + 1} shards and others {least}, so that some wait for others.",
            f"num_shards={plan.readers * (least + 1)}, a multiple of {plan.readers}",
        )


@lint_of_loader
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


@lint_of_loader
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


@lint_of_loader
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
