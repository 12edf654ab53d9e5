"""Mistakes about what is held: in caches, in buffers, in open files, in sources that can be read once only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

from ...state.foreign import declared
from ..chain_info import StepInfo
from .lint import Mistake, lint

__all__: list[str] = []  # its lints enter themselves

_RANDOM_TRANSFORMS = ("Random", "ColorJitter", "AutoAugment", "TrivialAugment", "AugMix", "RandAugment")
"""The beginnings of the names of torchvision's random transforms."""


@lint("caches")
def cache_of_random(cache: StepInfo) -> Iterator[Mistake]:
    if not cache.passes_items or any(step.shuffles for step in cache.below()):
        return
    if step := next((step for step in cache.above() if step.is_random and step.sources), None):
        yield Mistake(
            f"{cache} comes after {step}, which is random.",
            "It keeps what was drawn in the first epoch, and every epoch repeats it.",
            f".{cache.method}() before .{step.method}(…)",
        )


@lint("caches")
def cache_of_augmentation(cache: StepInfo) -> Iterator[Mistake]:
    for step in cache.above() if cache.passes_items else ():
        if (random := _random_transform(step.attributes.get("fn"))) is not None:
            yield Mistake(
                f"{cache} keeps the items after {step}, which applies {random}.",
                "Each item is augmented once, and every epoch sees the same.",
                f".{cache.method}() before .{step.method}({random}(…))",
            )
            return


@lint("caches")
def cache_of_streams(cache: StepInfo) -> Iterator[Mistake]:
    for source in cache.sources:
        maker = source.maker()
        if maker.has_trait("opens"):
            yield Mistake(
                f"{cache} keeps the open streams of {maker}.",
                "A stream that was read is at its end: the second epoch finds nothing in it.",
                f"read them before, as in .{maker.method}(…).routed_decode().{cache.method}()",
            )


@lint("shuffles")
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


@lint()
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


@lint()
def readable_once(step: StepInfo) -> Iterator[Mistake]:
    for name in declared(step.pipe, "payload", ()):
        items = step.attributes.get(name)
        if isinstance(items, (GeneratorType, io.IOBase)):
            yield Mistake(
                f"{step} reads a {type(items).__name__}, which can be read once.",
                "The second epoch is empty, and no worker can get a copy.",
                f"{step.method}([0]).flatmap(lambda _: rows()), where rows() makes it anew",
            )


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
