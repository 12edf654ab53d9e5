"""Mistakes about the order of items: shuffling, batching, cycling, pairing."""

from __future__ import annotations

from collections.abc import Iterator

from ..state.graph import DataPipe, is_one_of_several, walk
from .known import Known, is_map_style
from .mistakes import Mistake

__all__ = ["ORDER"]

_FEW = 8
"""The most files that count as few. Fewer files have fewer orders, and each is read as it is."""


def shuffle_after_batch(chain: Known) -> Iterator[Mistake]:
    for shuffle in _shuffles_of_items(chain):
        if (batch := _batch_before(chain, shuffle)) is not None:
            yield Mistake(
                f"{chain.name(shuffle)} comes after {chain.name(batch)}.",
                "It shuffles whole batches: the same items are together in every epoch.",
                f".shuffle().{chain.method(batch)}(…), with the shuffle first",
            )


def shuffle_of_column_batches(chain: Known) -> Iterator[Mistake]:
    for shuffle in _shuffles_of_items(chain):
        maker = chain.maker(shuffle)
        if _reads_column_batches(chain, maker) and not _is_shuffled_above(chain, maker):
            yield Mistake(
                f"{chain.name(shuffle)} shuffles the batches of {chain.name(maker)}.",
                "The rows of a batch stay together, in the order of the file.",
                f".{chain.method(maker)}(…).shuffle_rows(100_000) in place of .shuffle()",
            )


def batch_of_column_batches(chain: Known) -> Iterator[Mistake]:
    for batch in chain.that("batches"):
        if chain.of(batch).gives is not None or "batch_size" not in chain.of(batch).buffers:
            continue
        maker = chain.maker(chain.sources(batch)[0])
        if _reads_column_batches(chain, maker):
            yield Mistake(
                f"{chain.name(batch)} makes lists of the column batches of {chain.name(maker)}.",
                "Each item of the list has many rows, not one.",
                f".rebatch({vars(batch)['batch_size']}) in place of .{chain.method(batch)}(…)",
            )


def shuffle_of_one(chain: Known) -> Iterator[Mistake]:
    for shuffle in chain.that("shuffles"):
        if chain.of(shuffle).buffers.get("buffer_size") == 1 and _is_shuffle(chain, shuffle):
            yield Mistake(
                f"{chain.name(shuffle)} has a buffer of one item.",
                "The order stays as it is.",
                f".{chain.method(shuffle)}(buffer_size=10_000)",
            )


def done_twice(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        sources = chain.sources(step)
        repeatable = chain.does(step, "shuffles", "caches") or chain.of(step).works_in == "a thread"
        if chain.of(step).passes_items and repeatable and [*map(type, sources)] == [type(step)]:
            yield Mistake(
                f"{chain.name(step)} comes right after {chain.name(sources[0])}.",
                "The second costs memory and time, and changes nothing that the first does not do.",
                f"one .{chain.method(step)}(…), with the larger buffer",
            )


def shuffle_of_few_files(chain: Known) -> Iterator[Mistake]:
    for shuffle in _shuffles_of_items(chain):
        number = None if not chain.sources(shuffle) else chain.length(chain.sources(shuffle)[0])
        below = chain.below(shuffle)
        unpacks = next((step for step in below if chain.does(step, "unpacks")), None)
        if number is None or number > _FEW or unpacks is None or chain.does(unpacks, "shuffles"):
            continue
        if any(chain.does(step, "shuffles") for step in chain.below(unpacks)):
            continue
        shuffled = ".shuffle_rows(100_000)" if chain.of(unpacks).gives == "batches" else ".shuffle()"
        files = "one file" if number == 1 else f"{number} files"
        yield Mistake(
            f"{chain.name(shuffle)} shuffles {files}, and nothing shuffles what is in them.",
            "The items of a file come one after another, in the order of the file.",
            f"{shuffled} where each item is one sample, after .{chain.method(unpacks)}(…)",
        )


def shuffle_after_cycle(chain: Known) -> Iterator[Mistake]:
    for shuffle in _shuffles_of_items(chain):
        for step in chain.line(shuffle):
            if chain.does(step, "cycles"):
                yield Mistake(
                    f"{chain.name(shuffle)} comes after {chain.name(step)}.",
                    "Its buffer mixes rounds: an item may come twice before another comes once.",
                    f".shuffle().{chain.method(step)}(…), with the shuffle first",
                )
            if not chain.of(step).passes_items or chain.does(step, "shuffles", "cycles"):
                break


def neighbours_torn_apart(chain: Known) -> Iterator[Mistake]:
    for gathers in chain.that("gathers"):
        for step in chain.line(gathers):
            if chain.does(step, "unpacks", "gathers"):
                break
            if _is_shuffle(chain, step) or chain.of(step).is_sharding_point:
                tears = "divides" if chain.of(step).is_sharding_point else "shuffles"
                unpacked = next((other for other in chain.line(step) if chain.does(other, "unpacks")), None)
                if unpacked is None:
                    break  # files are still whole
                yield Mistake(
                    f"{chain.name(step)} {tears} the parts that {chain.name(gathers)} puts together.",
                    "It needs the parts of an item side by side, and would make broken items.",
                    f".{chain.method(step)}(…) before .{chain.method(unpacked)}(…)",
                )


def zip_of_uneven_branches(chain: Known) -> Iterator[Mistake]:
    for pairs in chain.that("pairs"):
        branches = [_up_to_fork(chain, source) for source in chain.sources(pairs)]
        forks = {id(chain.sources(branch[-1])[0]) for branch in branches if branch and is_one_of_several(branch[-1])}
        if len(forks) != 1 or not all(branches):
            continue
        for branch in branches:
            for step in branch:
                others = [other for other in branches if all(each is not step for each in other)]
                if others and (does := _changes_places(chain, step)):
                    yield Mistake(
                        f"{chain.name(step)} {does} in one branch of what {chain.name(pairs)} pairs.",
                        "From there on, items are paired with those of other samples.",
                        f".{chain.method(step)}(…) before .fork(…), or after .{chain.method(pairs)}(…)",
                    )


def read_twice_at_once(chain: Known) -> Iterator[Mistake]:
    for pairs in chain.that("pairs"):
        read: set[int] = set()
        for source in chain.sources(pairs):
            steps = [*walk(source, stop=_can_be_shared)]
            twice = next((step for step in steps if id(step) in read and not _can_be_shared(step)), None)
            if twice is not None:
                begin = "…." if chain.sources(twice) else ""
                yield Mistake(
                    f"{chain.name(pairs)} reads {chain.name(twice)} in two places at once.",
                    "A pipe has one iterator at a time: the second ends the first, which is an error.",
                    f"first, second = {begin}{chain.method(twice)}(…).fork(2)",
                )
                break
            read.update(map(id, steps))


def random_order_read_by_key(chain: Known) -> Iterator[Mistake]:
    for kept in chain.that("caches"):
        if not chain.indexes(kept):
            continue
        for step in chain.above(kept):
            if _is_shuffle(chain, step):
                yield Mistake(
                    f"{chain.name(step)} comes before {chain.name(kept)}.",
                    "Items are then read by key, in the order of the keys, and the stream is read again whenever the "
                    "seed changes, in every epoch.",
                    f".{chain.method(kept)}(…).shuffle(), with the shuffle last",
                )
                break


def length_lost(chain: Known) -> Iterator[Mistake]:
    for setter in chain.that("sets_length"):
        for step in chain.below(setter):
            is_set_again = any(chain.does(below, "sets_length") for below in chain.below(step))
            if chain.does(step, "drops") and not is_set_again:
                yield Mistake(
                    f"{chain.name(step)} comes after {chain.name(setter)}.",
                    "The length is unknown again, and a trainer that asks for len gets an error.",
                    f".{chain.method(step)}(…).{chain.method(setter)}(n), with the number of items that are left",
                )
                break


def _shuffles_of_items(chain: Known) -> list[DataPipe]:
    """Return the steps that shuffle items as they come, neither rows of batches nor batches that they make."""
    shuffles = (step for step in chain.that("shuffles") if _is_shuffle(chain, step))
    return [
        each for each in shuffles if chain.of(each).buffered == "items" and not chain.does(each, "batches", "unpacks")
    ]


def _is_shuffle(chain: Known, step: DataPipe) -> bool:
    """Say whether a step shuffles, and is not switched off."""
    return chain.does(step, "shuffles") and chain.of(step).is_random


def _batch_before(chain: Known, shuffle: DataPipe) -> DataPipe | None:
    """Return the step that made the batches which are shuffled, if nothing was shuffled before it."""
    for step in chain.line(shuffle):
        if chain.does(step, "batches"):
            return None if _is_shuffled_above(chain, step) or chain.does(step, "shuffles") else step
        if not chain.of(step).passes_items and not hasattr(type(step), "keeps_rows"):
            return None
    return None


def _is_shuffled_above(chain: Known, step: DataPipe) -> bool:
    return any(chain.of(above).is_random for above in chain.above(step))


def _reads_column_batches(chain: Known, step: DataPipe) -> bool:
    return chain.does(step, "unpacks") and chain.of(step).gives == "batches"


def _up_to_fork(chain: Known, step: DataPipe) -> list[DataPipe]:
    """Return a step and those before it up to a branch of a fork, or nothing if there is none."""
    found = [step]
    while not is_one_of_several(found[-1]):
        if len(sources := chain.sources(found[-1])) != 1:
            return []
        found += sources
    return found if chain.does(chain.sources(found[-1])[0], "forks") else []


def _can_be_shared(step: DataPipe) -> bool:
    """Say whether several may read a step at once."""
    return is_one_of_several(step) or is_map_style(step)


def _changes_places(chain: Known, step: DataPipe) -> str | None:
    """Return in words how a step changes which item comes at which place, if it does."""
    if chain.does(step, "drops"):
        return "leaves items out"
    if _is_shuffle(chain, step):
        return "shuffles"
    return "leaves out items that fail" if chain.of(step).leaves_out_failures else None


ORDER = (
    shuffle_after_batch,
    shuffle_of_column_batches,
    batch_of_column_batches,
    shuffle_of_one,
    done_twice,
    shuffle_of_few_files,
    shuffle_after_cycle,
    neighbours_torn_apart,
    zip_of_uneven_branches,
    read_twice_at_once,
    random_order_read_by_key,
    length_lost,
)
