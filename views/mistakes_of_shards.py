"""Mistakes about what shards, workers and the main process do."""

from __future__ import annotations

from collections.abc import Iterator

from ..registry.sharding import sharding_points
from ..state.foreign import SHARDING_PRIORITIES
from ..state.graph import DataPipe
from .known import Known, is_map_style
from .mistakes import Mistake

__all__ = ["SHARDS"]


def sharding_after_labour(chain: Known) -> Iterator[Mistake]:
    for point in _points(chain):
        if labour := next((step for step in chain.every_shard_reads(point) if chain.does(step, "expensive")), None):
            yield Mistake(
                f"{chain.name(point)} comes after {chain.name(labour)}.",
                f"Every worker runs {chain.name(labour)} on all items, and then drops those of the others.",
                f".{chain.method(point)}().{chain.method(labour)}(…), with the sharding first",
            )


def sharding_after_batch(chain: Known) -> Iterator[Mistake]:
    for point in _points(chain):
        for step in chain.every_shard_reads(point):
            if chain.does(step, "unbatches"):
                break
            if chain.does(step, "batches") and any(map(chain.makes_items, chain.above(step))):
                yield Mistake(
                    f"{chain.name(point)} comes after {chain.name(step)}.",
                    "Every worker makes all batches, and then drops those of the others.",
                    f".{chain.method(point)}().{chain.method(step)}(…), with the sharding first",
                )
                break


def sharding_after_cache(chain: Known) -> Iterator[Mistake]:
    for point in _points(chain):
        for step in chain.every_shard_reads(point):
            if chain.does(step, "caches") and any(
                chain.does(above, "expensive", "unpacks") for above in chain.above(step)
            ):
                yield Mistake(
                    f"{chain.name(point)} comes after {chain.name(step)}.",
                    "Every shard keeps all items in memory, not its part of them.",
                    f".{chain.method(point)}() before what {chain.name(step)} keeps is read",
                )
                break


def sharding_twice(chain: Known) -> Iterator[Mistake]:
    twice: dict[int, tuple[DataPipe, DataPipe]] = {}
    for group in (SHARDING_PRIORITIES.DISTRIBUTED, SHARDING_PRIORITIES.MULTIPROCESSING):
        points = sharding_points(chain.end, group)
        for point in points:
            if above := next((step for step in chain.above(point) if any(step is other for other in points)), None):
                twice[id(point)] = point, above
    for point, above in twice.values():
        yield Mistake(
            f"{chain.name(point)} divides what {chain.name(above)} has divided already.",
            "Items of the others are lost: of 2 workers, half.",
            f"one .{chain.method(point)}(…), the first",
        )


def sharding_of_unordered(chain: Known) -> Iterator[Mistake]:
    for point in _points(chain):
        for step in chain.every_shard_reads(point):
            if not chain.of(step).is_ordered:
                yield Mistake(
                    f"{chain.name(point)} divides items that {chain.name(step)} gives in any order.",
                    "Each worker sees another order: some items come twice, others never.",
                    f".{chain.method(point)}() before .{chain.method(step)}(…), or {_ordered(step)}",
                )
                break


def sharded_beside_unsharded(chain: Known) -> Iterator[Mistake]:
    for step in chain.that("merges", "pairs"):
        branches = chain.sources(step)
        divided = [bool(sharding_points(branch)) for branch in branches]
        whole = [branch for branch, is_divided in zip(branches, divided, strict=True) if not is_divided]
        if any(divided) and whole and not all(map(chain.is_endless, whole)):
            does = "pairs a part of one source with the whole of another" if chain.does(step, "pairs") else None
            yield Mistake(
                f"{chain.name(step)} reads one source that is divided among the shards, and one that is not.",
                f"Each shard {does}." if does else "Each shard reads the whole of the other: its items come again.",
                f".{chain.method(step)}(…).sharding_filter(), with the sharding last, or one in each source",
            )


def limit_after_sharding(chain: Known) -> Iterator[Mistake]:
    for limits in chain.that("limits"):
        number = vars(limits).get("_limit")
        point = next((step for step in chain.above(limits) if chain.of(step).is_sharding_point), None)
        an_epoch_has_no_other_end = any(map(chain.is_endless, chain.sources(limits)))
        whole = chain.of(limits).in_main_process or an_epoch_has_no_other_end
        if number is not None and point is not None and not whole:
            yield Mistake(
                f"{chain.name(limits)} comes after {chain.name(point)}.",
                f"It counts in each shard: 4 shards give up to {4 * number:,} items, not {number:,}.",
                f".{chain.method(limits)}({number}) before .{chain.method(point)}()",
            )


def work_in_main_process(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        if not chain.of(step).in_main_process:
            continue
        for below in chain.below(step):
            if chain.does(below, "expensive", "batches", "unpacks", "opens", "shuffles"):
                yield Mistake(
                    f"{chain.name(below)} comes after {chain.name(step)}.",
                    "It then runs in the main process, which trains, and not in the workers.",
                    f".{chain.method(below)}(…) before .{chain.method(step)}()",
                )
                return


def pinned_twice(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        if chain.method(step) == "to_device" and any(
            chain.method(source) == "pin_memory" for source in chain.sources(step)
        ):
            yield Mistake(
                "to_device comes right after pin_memory.",
                "to_device pins by itself, so each batch is copied once more.",
                ".to_device() alone",
            )


def _points(chain: Known) -> list[DataPipe]:
    return [step for step in chain.steps if chain.of(step).is_sharding_point and not is_map_style(step)]


def _ordered(step: DataPipe) -> str:
    return "non_deterministic=False" if "non_deterministic" in vars(step) else "ordered=True"


SHARDS = (
    sharding_after_labour,
    sharding_after_batch,
    sharding_after_cache,
    sharding_twice,
    sharding_of_unordered,
    sharded_beside_unsharded,
    limit_after_sharding,
    work_in_main_process,
    pinned_twice,
)
