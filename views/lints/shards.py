"""Mistakes about the work of shards, workers and the main process."""

from __future__ import annotations

from collections.abc import Iterator

from ..chain_info import StepInfo, first
from .lint import Mistake, lint

__all__: list[str] = []  # its lints enter themselves


@lint()
def sharding_after_labour(point: StepInfo) -> Iterator[Mistake]:
    if step := first(_read_by_every_shard(point), "expensive"):
        yield Mistake(
            f"{point} comes after {step}.",
            f"Every worker runs {step} on all items, and then drops those of the others.",
            f".{point.method}().{step.method}(…), with the sharding first",
        )


@lint()
def sharding_after_batch(point: StepInfo) -> Iterator[Mistake]:
    for step in _read_by_every_shard(point):
        if step.has_trait("unbatches"):
            return
        if step.has_trait("batches") and any(above.sources and not above.passes_items for above in step.above()):
            yield Mistake(
                f"{point} comes after {step}.",
                "Every worker makes all batches, and then drops those of the others.",
                f".{point.method}().{step.method}(…), with the sharding first",
            )
            return


@lint()
def sharding_after_cache(point: StepInfo) -> Iterator[Mistake]:
    for step in _read_by_every_shard(point):
        if step.has_trait("caches") and first(step.above(), "expensive", "unpacks"):
            yield Mistake(
                f"{point} comes after {step}.",
                "Every shard keeps all items in memory, not its part of them.",
                f".{point.method}() before what {step} keeps is read",
            )
            return


@lint()
def sharding_of_unordered(point: StepInfo) -> Iterator[Mistake]:
    if step := next((step for step in _read_by_every_shard(point) if not step.is_ordered), None):
        ordered = "non_deterministic=False" if "non_deterministic" in step.attributes else "ordered=True"
        yield Mistake(
            f"{point} divides items that {step} gives in any order.",
            "Each worker sees another order: some items come twice, others never.",
            f".{point.method}() before .{step.method}(…), or {ordered}",
        )


@lint("merges", "pairs")
def sharded_beside_unsharded(step: StepInfo) -> Iterator[Mistake]:
    whole = [source for source in step.sources if not _is_divided(source)]
    if len(whole) < len(step.sources) and not all(source.is_endless for source in whole):
        yield Mistake(
            f"{step} reads one source that is divided among the shards, and one that is not.",
            "Each shard pairs a part of one source with the whole of another."
            if step.has_trait("pairs")
            else "Each shard reads the whole of the other: its items come again.",
            f".{step.method}(…).sharding_filter(), with the sharding last, or one in each source",
        )


@lint("limits")
def limit_after_sharding(limits: StepInfo) -> Iterator[Mistake]:
    number = limits.attributes.get("_limit")
    point = next((step for step in limits.above() if step.is_sharding_point), None)
    an_epoch_has_no_other_end = any(source.is_endless for source in limits.sources)
    whole = limits.in_main_process or an_epoch_has_no_other_end
    if number is not None and point is not None and not whole:
        yield Mistake(
            f"{limits} comes after {point}.",
            f"It counts in each shard: 4 shards give up to {4 * number:,} items, not {number:,}.",
            f".{limits.method}({number}) before .{point.method}()",
        )


@lint()
def work_in_main_process(step: StepInfo) -> Iterator[Mistake]:
    is_first = step.in_main_process and not any(above.in_main_process for above in step.above())
    work = first(step.below(), "expensive", "batches", "unpacks", "opens", "shuffles")
    if is_first and work is not None:
        yield Mistake(
            f"{work} comes after {step}.",
            "It then runs in the main process, which trains, and not in the workers.",
            f".{work.method}(…) before .{step.method}()",
        )


def _read_by_every_shard(step: StepInfo) -> list[StepInfo]:
    return step.read_by_every_shard() if step.is_sharding_point and not step.is_map_style else []


def _is_divided(step: StepInfo) -> bool:
    return step.is_sharding_point or any(above.is_sharding_point for above in step.above())
