"""Mistakes about what is kept: caches, buffers, open files, and what can be read once only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from ..state.graph import DataPipe, is_one_of_several
from .known import Known
from .mistakes import Mistake

__all__ = ["MEMORY"]

_RANDOM_TRANSFORMS = ("Random", "ColorJitter", "AutoAugment", "TrivialAugment", "AugMix", "RandAugment")
"""How the names of torchvision's random transforms begin."""


def cache_of_random(chain: Known) -> Iterator[Mistake]:
    for cache in _caches_in_order(chain):
        if any(chain.does(step, "shuffles") and chain.of(step).is_random for step in chain.below(cache)):
            continue
        if step := next((step for step in chain.above(cache) if _draws(chain, step)), None):
            yield Mistake(
                f"{chain.name(cache)} comes after {chain.name(step)}, which is random.",
                "It keeps what was drawn in the first epoch, and every epoch repeats it.",
                f".{chain.method(cache)}() before .{chain.method(step)}(…)",
            )


def cache_of_augmentation(chain: Known) -> Iterator[Mistake]:
    for cache in _caches_in_order(chain):
        for step in chain.above(cache):
            if (random := _random_transform(vars(step).get("fn"))) is not None:
                yield Mistake(
                    f"{chain.name(cache)} keeps the items after {chain.name(step)}, which applies {random}.",
                    "Each item is augmented once, and every epoch sees the same.",
                    f".{chain.method(cache)}() before .{chain.method(step)}({random}(…))",
                )
                break


def cache_of_streams(chain: Known) -> Iterator[Mistake]:
    for cache in chain.that("caches"):
        for source in chain.sources(cache):
            maker = chain.maker(source)
            if chain.does(maker, "opens"):
                yield Mistake(
                    f"{chain.name(cache)} keeps the open streams of {chain.name(maker)}.",
                    "A stream that was read is at its end: the second epoch finds nothing in it.",
                    f"read them before, as in .{chain.method(maker)}(…).routed_decode().{chain.method(cache)}()",
                )


def cache_in_one_branch(chain: Known) -> Iterator[Mistake]:
    for fork in chain.steps:
        branches = [reader for reader in chain.readers(fork) if is_one_of_several(reader)]
        after = {id(branch): {id(step): step for step in chain.below(branch)} for branch in branches}
        for branch in branches:
            others = [after[id(other)] for other in branches if other is not branch]
            meets = any(step in other for other in others for step in after[id(branch)])
            alone = [step for key, step in after[id(branch)].items() if all(key not in other for other in others)]
            cache = next((step for step in alone if chain.does(step, "caches")), None)
            is_in_others = any(chain.does(step, "caches") for other in others for step in other.values())
            if meets and cache is not None and not is_in_others:
                yield Mistake(
                    f"{chain.name(cache)} keeps one branch of {chain.name(fork)}, and the other is read again.",
                    "From the second epoch on, they are not read in step, and items of the other wait in its buffer.",
                    f".in_memory_cache() before .{chain.method(fork)}(…)",
                )


def end_that_never_comes(chain: Known) -> Iterator[Mistake]:
    for step in chain.that("caches"):
        for source in chain.sources(step):
            if chain.is_endless(source) and chain.of(step).most_bytes is None:
                yield Mistake(
                    f"{chain.name(step)} reads to the end of a stream that never ends.",
                    "Memory grows until it is full.",
                    f".header(n) before it, or .cycle() after .{chain.method(step)}()",
                )


def unbounded_buffer(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        if chain.of(step).buffers.get("buffer_size", 0) is None and not is_one_of_several(step):
            yield Mistake(
                f"{chain.name(step)} has a buffer without a limit.",
                "Where one stream is read ahead of another, memory grows until it is full.",
                f".{chain.method(step)}(…, buffer_size=10_000), and an error says when that is not enough",
            )


def branches_read_in_turn(chain: Known) -> Iterator[Mistake]:
    for fork in chain.that("forks"):
        number, room = chain.length(chain.sources(fork)[0]), chain.of(fork).buffers.get("buffer_size")
        if room is None or not (chain.is_endless(fork) or (number is not None and number > room)):
            continue
        for step in chain.steps:
            if chain.method(step) == "concat" and len(_whole_branches(chain, fork, step)) > 1:
                items = "without an end" if number is None else f"of {number:,} items"
                yield Mistake(
                    f"{chain.name(step)} reads branches of {chain.name(fork)} one after the other, each {items}.",
                    f"All wait for the second branch, and the buffer has room for {room:,}: the next is an error.",
                    "one chain for each, in place of a fork, or .mux(…) in place of .concat(…)",
                )


def shuffle_of_open_files(chain: Known) -> Iterator[Mistake]:
    for shuffle in chain.that("shuffles"):
        maker = chain.maker(shuffle)
        if maker is shuffle or not chain.does(maker, "opens") or chain.of(maker).works_in is not None:
            continue
        held = chain.of(shuffle).most_held
        if chain.of(shuffle).is_random and held is not None and held > 100:
            unpacks = chain.does(maker, "unpacks")
            yield Mistake(
                f"{chain.name(shuffle)} holds up to {held:,} open streams of {chain.name(maker)}.",
                "A process may have some hundred files open; the next one is an error.",
                f".{chain.method(maker)}(…).routed_decode().shuffle(), with what reads them first"
                if unpacks
                else f".shuffle().{chain.method(maker)}(…), with the shuffle first",
            )


def text_in_place_of_names(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        text = vars(step).get("iterable")
        if not isinstance(text, (str, bytes)) or len(text) < 2:
            continue
        for reader in chain.readers(step):
            if _takes_names(chain, reader):
                yield Mistake(
                    f"{chain.name(step)} gives the {len(text)} letters of a text to {chain.name(reader)}.",
                    "It takes each letter for the name of a file.",
                    f"{chain.method(step)}([name]), a list",
                )


def readable_once(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        for name in getattr(type(step), "payload", ()):
            items: Any = vars(step).get(name)
            if isinstance(items, (GeneratorType, io.IOBase)):
                yield Mistake(
                    f"{chain.name(step)} reads a {type(items).__name__}, which can be read once.",
                    "The second epoch is empty, and no worker can get a copy.",
                    f"{chain.method(step)}([0]).flatmap(lambda _: rows()), where rows() makes it anew",
                )
            elif _is_builtin_iterator(items) and not vars(step).get("deepcopy", True):
                yield Mistake(
                    f"{chain.name(step)} reads a {type(items).__name__} itself, which can be read once.",
                    "The second epoch is empty.",
                    f"{chain.method(step)}(…), without deepcopy=False",
                )


def _is_builtin_iterator(items: object) -> bool:
    return isinstance(items, Iterator) and type(items).__module__ == "builtins"


def fewer_items_than_workers(chain: Known) -> Iterator[Mistake]:
    for step in chain.steps:
        workers = vars(step).get("max_workers", vars(step).get("workers"))
        room = chain.of(step).most_held
        if chain.of(step).works_in and isinstance(workers, int) and room is not None and 0 < room < workers:
            buffer = next(iter(chain.of(step).buffers))
            yield Mistake(
                f"{chain.name(step)} has {workers} {chain.of(step).works_in} for {room} items at a time.",
                f"At most {room} of them work at once.",
                f".{chain.method(step)}(…, {buffer}={2 * workers})",
            )


def _whole_branches(chain: Known, fork: DataPipe, reader: DataPipe) -> set[int]:
    """Return the ids of the branches of a fork that a step reads to their ends, each by one of its sources."""
    found: set[int] = set()
    for source in chain.sources(reader):
        for step in (source, *chain.line(source)):
            if is_one_of_several(step) or chain.does(step, "limits"):
                found.update({id(step)} if chain.sources(step) == [fork] else ())
                break
    return found


def _caches_in_order(chain: Known) -> Iterator[DataPipe]:
    """Yield the caches that keep the order of their source."""
    return (step for step in chain.that("caches") if chain.of(step).passes_items)


def _takes_names(chain: Known, step: DataPipe) -> bool:
    """Say whether a step takes the names of files, to list, open or read them."""
    if chain.does(step, "opens", "unpacks"):
        return not chain.does(step, "shuffles")
    return "storage_options" in vars(step) and "url_template" not in vars(step)


def _draws(chain: Known, step: DataPipe) -> bool:
    return chain.of(step).is_random and bool(chain.sources(step))


def _random_transform(fn: Any) -> str | None:
    """Return the name of a random transform of torchvision, also one inside a `Compose`."""
    if type(fn).__module__.startswith("torchvision.transforms"):
        if type(fn).__name__.startswith(_RANDOM_TRANSFORMS):
            return type(fn).__name__
        inner = getattr(fn, "transforms", None)
        if isinstance(inner, (list, tuple)):
            return next(filter(None, map(_random_transform, inner)), None)
    return None


MEMORY = (
    cache_of_random,
    cache_of_augmentation,
    cache_of_streams,
    cache_in_one_branch,
    end_that_never_comes,
    unbounded_buffer,
    branches_read_in_turn,
    shuffle_of_open_files,
    text_in_place_of_names,
    readable_once,
    fewer_items_than_workers,
)
