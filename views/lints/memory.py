"""Mistakes about memory: caches, buffers, open files, and sources that can be read once only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from ...state.foreign import declared
from ..chain_info import StepInfo, first
from . import Lint, Mistake, lint

__all__ = ["MEMORY"]

MEMORY: list[Lint] = []

_RANDOM_TRANSFORMS = ("Random", "ColorJitter", "AutoAugment", "TrivialAugment", "AugMix", "RandAugment")
"""The beginnings of the names of torchvision's random transforms."""


@lint(MEMORY, "caches")
def cache_of_random(cache: StepInfo) -> Iterator[Mistake]:
    if not cache.passes_items or any(step.shuffles for step in cache.below()):
        return
    if step := next((step for step in cache.above() if step.is_random and step.sources), None):
        yield Mistake(
            f"{cache} comes after {step}, which is random.",
            "It keeps what was drawn in the first epoch, and every epoch repeats it.",
            f".{cache.method}() before .{step.method}(…)",
        )


@lint(MEMORY, "caches")
def cache_of_augmentation(cache: StepInfo) -> Iterator[Mistake]:
    for step in cache.above() if cache.passes_items else ():
        if (random := _random_transform(step.attributes.get("fn"))) is not None:
            yield Mistake(
                f"{cache} keeps the items after {step}, which applies {random}.",
                "Each item is augmented once, and every epoch sees the same.",
                f".{cache.method}() before .{step.method}({random}(…))",
            )
            return


@lint(MEMORY, "caches")
def cache_of_streams(cache: StepInfo) -> Iterator[Mistake]:
    for source in cache.sources:
        maker = source.maker()
        if maker.has_trait("opens"):
            yield Mistake(
                f"{cache} keeps the open streams of {maker}.",
                "A stream that was read is at its end: the second epoch finds nothing in it.",
                f"read them before, as in .{maker.method}(…).routed_decode().{cache.method}()",
            )


@lint(MEMORY)
def cache_in_one_branch(fork: StepInfo) -> Iterator[Mistake]:
    # The steps after each branch, nearest first.
    branches = [dict.fromkeys(reader.below()) for reader in fork.readers if reader.is_branch]
    for branch in branches:
        others = [other for other in branches if other is not branch]
        alone = [step for step in branch if all(step not in other for other in others)]
        meets, cache = len(alone) < len(branch), first(alone, "caches")
        is_in_others = any(first(other, "caches") for other in others)
        if meets and cache is not None and not is_in_others:
            yield Mistake(
                f"{cache} keeps one branch of {fork}, and the other is read again.",
                "From the second epoch on, they are not read in step, and items of the other wait in its buffer.",
                f".in_memory_cache() before .{fork.method}(…)",
            )


@lint(MEMORY, "caches")
def end_that_never_comes(cache: StepInfo) -> Iterator[Mistake]:
    if cache.max_bytes is None and any(source.is_endless for source in cache.sources):
        yield Mistake(
            f"{cache} reads to the end of a stream that never ends.",
            "Memory grows until it is full.",
            f".header(n) before it, or .cycle() after .{cache.method}()",
        )


@lint(MEMORY)
def unbounded_buffer(step: StepInfo) -> Iterator[Mistake]:
    if step.buffers.get("buffer_size", 0) is None and not step.is_branch:
        yield Mistake(
            f"{step} has a buffer without a limit.",
            "Where one stream is read ahead of another, memory grows until it is full.",
            f".{step.method}(…, buffer_size=10_000), and an error says when that is not enough",
        )


@lint(MEMORY, "forks")
def branches_read_in_turn(fork: StepInfo) -> Iterator[Mistake]:
    number, room = fork.source_length, fork.buffers.get("buffer_size")
    if room is None or not (fork.is_endless or (number is not None and number > room)):
        return
    for step in fork.below():
        if step.method == "concat" and len(_whole_branches(fork, step)) > 1:
            items = "without an end" if number is None else f"of {number:,} items"
            yield Mistake(
                f"{step} reads branches of {fork} one after the other, each {items}.",
                f"All wait for the second branch, and the buffer has room for {room:,}: the next is an error.",
                "one chain for each, in place of a fork, or .mux(…) in place of .concat(…)",
            )


@lint(MEMORY, "shuffles")
def shuffle_of_open_files(shuffle: StepInfo) -> Iterator[Mistake]:
    maker, most = shuffle.maker(), shuffle.max_buffered
    gives_open_files = maker is not shuffle and maker.has_trait("opens") and maker.works_in is None
    if gives_open_files and shuffle.is_random and most is not None and most > 100:
        yield Mistake(
            f"{shuffle} holds up to {most:,} open streams of {maker}.",
            "A process may have some hundred files open; the next one is an error.",
            f".{maker.method}(…).routed_decode().shuffle(), with what reads them first"
            if maker.has_trait("unpacks")
            else f".shuffle().{maker.method}(…), with the shuffle first",
        )


@lint(MEMORY)
def text_in_place_of_names(step: StepInfo) -> Iterator[Mistake]:
    text = step.attributes.get("iterable")
    if not isinstance(text, (str, bytes)) or len(text) < 2:
        return
    for reader in step.readers:
        if _takes_names(reader):
            yield Mistake(
                f"{step} gives the {len(text)} letters of a text to {reader}.",
                "It takes each letter for the name of a file.",
                f"{step.method}([name]), a list",
            )


@lint(MEMORY)
def readable_once(step: StepInfo) -> Iterator[Mistake]:
    for name in declared(step.pipe, "payload", ()):
        items: Any = step.attributes.get(name)
        if isinstance(items, (GeneratorType, io.IOBase)):
            yield Mistake(
                f"{step} reads a {type(items).__name__}, which can be read once.",
                "The second epoch is empty, and no worker can get a copy.",
                f"{step.method}([0]).flatmap(lambda _: rows()), where rows() makes it anew",
            )
        elif _is_builtin_iterator(items) and not step.attributes.get("deepcopy", True):
            yield Mistake(
                f"{step} reads a {type(items).__name__} itself, which can be read once.",
                "The second epoch is empty.",
                f"{step.method}(…), without deepcopy=False",
            )


@lint(MEMORY)
def fewer_items_than_workers(step: StepInfo) -> Iterator[Mistake]:
    workers = step.attributes.get("max_workers", step.attributes.get("workers"))
    room = step.max_buffered
    if step.works_in and isinstance(workers, int) and room is not None and 0 < room < workers:
        yield Mistake(
            f"{step} has {workers} {step.works_in} for {room} items at a time.",
            f"At most {room} of them work at once.",
            f".{step.method}(…, {next(iter(step.buffers))}={2 * workers})",
        )


def _is_builtin_iterator(items: object) -> bool:
    return isinstance(items, Iterator) and type(items).__module__ == "builtins"


def _whole_branches(fork: StepInfo, reader: StepInfo) -> set[StepInfo]:
    """Return the branches of a fork that a step reads to their ends, each by one of its sources."""
    found: set[StepInfo] = set()
    for source in reader.sources:
        end = next((step for step in (source, *source.line()) if step.is_branch or step.has_trait("limits")), None)
        if end is not None and end.sources == [fork]:
            found.add(end)
    return found


def _takes_names(step: StepInfo) -> bool:
    """Say whether a step takes the names of files, to list, open or read them."""
    if step.has_trait("opens", "unpacks"):
        return not step.has_trait("shuffles")
    return "storage_options" in step.attributes and "url_template" not in step.attributes


def _random_transform(fn: Any) -> str | None:
    """Return the name of a random transform of torchvision, also one inside a `Compose`."""
    if type(fn).__module__.startswith("torchvision.transforms"):
        if type(fn).__name__.startswith(_RANDOM_TRANSFORMS):
            return type(fn).__name__
        inner = getattr(fn, "transforms", None)
        if isinstance(inner, (list, tuple)):
            return next(filter(None, map(_random_transform, inner)), None)
    return None
