"""Mistakes about the order of items: shuffling, batching, cycling, pairing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...state.foreign import declares
from ..chain_info import StepInfo, first
from .lint import Mistake, lint

__all__: list[str] = []  # its lints enter themselves

_FEW = 8
"""The most files that count as few. Fewer files have fewer orders, and each is read as it is."""


@lint("shuffles")
def shuffle_after_batch(shuffle: StepInfo) -> Iterator[Mistake]:
    if _shuffles_items(shuffle) and (batch := _batch_before(shuffle)) is not None:
        yield Mistake(
            f"{shuffle} comes after {batch}.",
            "It shuffles whole batches: the same items are together in every epoch.",
            f".shuffle().{batch.method}(…), with the shuffle first",
        )


@lint("shuffles")
def shuffle_of_column_batches(shuffle: StepInfo) -> Iterator[Mistake]:
    maker = shuffle.maker()
    if _shuffles_items(shuffle) and _reads_column_batches(maker) and not _is_shuffled_above(maker):
        yield Mistake(
            f"{shuffle} shuffles the batches of {maker}.",
            "The rows of a batch stay together, in the order of the file.",
            f".{maker.method}(…).shuffle_rows(100_000) in place of .shuffle()",
        )


@lint("batches")
def batch_of_column_batches(batch: StepInfo) -> Iterator[Mistake]:
    if batch.gives is None and "batch_size" in batch.buffers:
        maker = batch.sources[0].maker()
        if _reads_column_batches(maker):
            yield Mistake(
                f"{batch} makes lists of the column batches of {maker}.",
                "Each item of the list has many rows, not one.",
                f".rebatch({batch.attributes['batch_size']}) in place of .{batch.method}(…)",
            )


@lint("shuffles")
def shuffle_of_few_files(shuffle: StepInfo) -> Iterator[Mistake]:
    number, unpacks = shuffle.source_length, first(shuffle.below(), "unpacks")
    if number is None or number > _FEW or unpacks is None or not _shuffles_items(shuffle):
        return
    if first([unpacks, *unpacks.below()], "shuffles") is None:
        shuffled = ".shuffle_rows(100_000)" if unpacks.gives == "batches" else ".shuffle()"
        yield Mistake(
            f"{shuffle} shuffles {'one file' if number == 1 else f'{number} files'}, and nothing shuffles what is in "
            "them.",
            "The items of a file come one after another, in the order of the file.",
            f"{shuffled} where each item is one sample, after .{unpacks.method}(…)",
        )


@lint("shuffles")
def shuffle_after_cycle(shuffle: StepInfo) -> Iterator[Mistake]:
    before = itertools.takewhile(lambda step: step.passes_items or step.has_trait("cycles"), shuffle.line())
    step = first(before, "shuffles", "cycles")
    if _shuffles_items(shuffle) and step is not None and step.has_trait("cycles"):
        yield Mistake(
            f"{shuffle} comes after {step}.",
            "Its buffer mixes rounds: an item may come twice before another comes once.",
            f".shuffle().{step.method}(…), with the shuffle first",
        )


@lint("gathers")
def neighbours_torn_apart(gathers: StepInfo) -> Iterator[Mistake]:
    for step in itertools.takewhile(lambda step: not step.has_trait("unpacks", "gathers"), gathers.line()):
        # Where nothing unpacks them, files are still whole.
        if (step.shuffles or step.is_sharding_point) and (unpacked := first(step.line(), "unpacks")):
            yield Mistake(
                f"{step} {'divides' if step.is_sharding_point else 'shuffles'} the parts that {gathers} puts together.",
                "It needs the parts of an item side by side, and would make broken items.",
                f".{step.method}(…) before .{unpacked.method}(…)",
            )


@lint("pairs")
def zip_of_uneven_branches(pairs: StepInfo) -> Iterator[Mistake]:
    branches = [_up_to_fork(source) for source in pairs.sources]
    if not all(branches) or len({branch[-1].source for branch in branches}) != 1:
        return
    for step in itertools.chain(*branches):
        if (does := _changes_places(step)) and not all(step in branch for branch in branches):
            yield Mistake(
                f"{step} {does} in one branch of what {pairs} pairs.",
                "From there on, items are paired with those of other samples.",
                f".{step.method}(…) before .fork(…), or after .{pairs.method}(…)",
            )


@lint("caches")
def random_order_read_by_key(cache: StepInfo) -> Iterator[Mistake]:
    if cache.reads_stream_by_index and (shuffle := next((step for step in cache.above() if step.shuffles), None)):
        yield Mistake(
            f"{shuffle} comes before {cache}.",
            "Items are then read by key, in the order of the keys, and the stream is read again whenever the seed "
            "changes, in every epoch.",
            f".{cache.method}(…).shuffle(), with the shuffle last",
        )


def _shuffles_items(step: StepInfo) -> bool:
    """Say whether a step shuffles items as they come, neither rows of batches nor batches that it makes."""
    return step.shuffles and step.unit == "items" and not step.has_trait("batches", "unpacks")


def _batch_before(shuffle: StepInfo) -> StepInfo | None:
    """Return the step that made the batches which are shuffled, if nothing was shuffled before it."""
    for step in shuffle.line():
        if step.has_trait("batches"):
            return None if _is_shuffled_above(step) or step.has_trait("shuffles") else step
        if not step.passes_items and not declares(step.pipe, "keeps_rows"):
            return None
    return None


def _is_shuffled_above(step: StepInfo) -> bool:
    return any(above.is_random for above in step.above())


def _reads_column_batches(step: StepInfo) -> bool:
    return step.has_trait("unpacks") and step.gives == "batches"


def _up_to_fork(step: StepInfo) -> list[StepInfo]:
    """Return a step and those before it up to a branch of a fork, or nothing if there is none."""
    found: list[StepInfo] = []
    for each in itertools.chain([step], step.line()):
        found.append(each)
        if each.is_branch:
            return found if each.sources[0].has_trait("forks") else []
    return []


def _changes_places(step: StepInfo) -> str | None:
    """Return in words how a step changes which item comes at which place, if it does."""
    if step.has_trait("drops"):
        return "leaves items out"
    if step.shuffles:
        return "shuffles"
    return "leaves out items that fail" if step.skips_failures else None
