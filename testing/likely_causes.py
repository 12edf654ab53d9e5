"""Why an operator breaks a law: likely causes, one function for each.

A cause is a function of what failed. It looks for one mistake, and returns a sentence with the fix, or None where it
does not find the mistake. It never guesses.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..pipes.bases.splitting.splitter import Splitter
from ..state.foreign import TorchMapDataPipe
from ..state.graph import walk
from ..state.step_text import kept_arguments
from .probes import Maker, items_of, tap

_MUTABLE = (list, dict, set, bytearray)


@dataclass(frozen=True)
class Failure:
    """What is known of a broken law."""

    law: str
    pipe: Any
    """A pipe that was made for the law."""
    make: Maker
    check: Callable[[Maker], None]
    """The function of the law."""
    shared_before: Mapping[str, str]
    """What pipes of the class share, before the law was checked."""

    @property
    def name(self) -> str:
        """The class of the operator."""
        return type(self.pipe).__name__

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """Yield the attributes that a fresh pipe has from its constructor, with their names."""
        pipe = self.make()
        for name, value in vars(pipe).items():
            if name not in getattr(pipe, "payload", ()) and not name.startswith("__"):
                yield name, value


def likely_cause(failure: Failure) -> str | None:
    """Return the likely cause of a failure with its fix, or None if no known mistake is found."""
    for cause, laws in CAUSES.items():
        if failure.law not in laws:
            continue
        with contextlib.suppress(Exception):  # the operator is broken: looking at it may raise anything
            if found := cause(failure):
                return found
    return None


def generator_of_the_constructor(failure: Failure) -> str | None:
    """Find a random generator that is made once: each pass goes on where the last one stopped."""
    of_numpy = (np.random.Generator, np.random.RandomState)  # NumPy imports them when they are named, which is slow
    for name, value in failure.attributes():
        if isinstance(value, (random.Random, torch.Generator, *of_numpy)):
            fix = (
                "make one in __getitem__, seeded by the index"
                if isinstance(failure.pipe, TorchMapDataPipe)
                else "derive from Seeded, and make it in __iter__ with self.pass_seed"
            )
            return f"the random generator `{name}` is made in __init__, and every pass goes on with it: {fix}"
    return None


def iterator_of_the_constructor(failure: Failure) -> str | None:
    """Find an iterator that is made once: the first pass uses it up."""
    for name, value in failure.attributes():
        if isinstance(value, Iterator):
            return (
                f"the iterator `{name}` is made in __init__, and can be read once only: keep what it iterates over, "
                "and call iter() in __iter__"
            )
    return None


def source_read_by_the_constructor(failure: Failure) -> str | None:
    """Find a constructor that reads its source."""
    pipe = failure.make()
    probes = tap(pipe)
    arguments = {parameter.name: value for parameter, value in kept_arguments(pipe)}
    with contextlib.suppress(Exception):  # what it does with the probes does not matter
        type(pipe)(**arguments)
    if any(probe.pulled for probe in probes):
        return f"`source` was read in the __init__ of {failure.name}: keep it as self.source, and read it in __iter__"
    return None


def default_that_is_shared(failure: Failure) -> str | None:
    """Find a default of a parameter, or an attribute of the class, that passes change for all pipes."""
    for what, value in _shared_by_pipes(type(failure.pipe)):
        if repr(value) != failure.shared_before[what]:
            return (
                f"{what} is one {type(value).__name__} for all pipes and passes, and {failure.name} changes it: "
                "make a new one in __iter__"
            )
    return None


def attribute_that_passes_change(failure: Failure) -> str | None:
    """Find an attribute that goes on from one pass to the next, since it was set in the constructor."""
    pipe = failure.make()
    steps = [step for step in walk(pipe) if not type(step).__module__.startswith("penstock.")]
    before = [{name: repr(value) for name, value in vars(step).items()} for step in steps]
    items_of(pipe)
    for step, values in zip(steps, before, strict=True):
        for name, value in values.items():
            if repr(vars(step)[name]) != value:
                fix = (
                    "let branch_of decide by the number and the item"
                    if isinstance(step, Splitter)
                    else f"make it in __iter__, or declare it in the class by {name} = own(…)"
                )
                return f"`{name}` of {type(step).__name__} is changed by a pass, and the next goes on with it: {fix}"
    return None


def shared_by_pipes(pipe: Any) -> dict[str, str]:
    """Return, as text, what the pipes of a class share and might change; call it before a law is checked."""
    return {what: repr(value) for what, value in _shared_by_pipes(type(pipe))}


def _shared_by_pipes(cls: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if isinstance(parameter.default, _MUTABLE):
            yield f"the default of `{name}`", parameter.default
    for base in cls.__mro__:
        for name, value in vars(base).items() if not base.__module__.startswith("penstock.") else ():
            if isinstance(value, _MUTABLE) and not name.startswith("_"):
                yield f"`{name}` of the class", value


def member_that_cannot_be_pickled(failure: Failure) -> str | None:
    """Find an attribute that cannot be copied to a worker."""
    import cloudpickle  # type: ignore[import-untyped]  # slow to import, and only needed here

    for name, value in failure.attributes():
        try:
            cloudpickle.dumps(value)
        except Exception as error:
            return (
                f"the attribute `{name}` cannot be pickled ({error}): make it in __iter__, or name it in "
                "`transient` of the class if copies can do without it"
            )
    return None


def undeclared_buffer(failure: Failure) -> str | None:
    """Find an operator that declares no buffered items, and loses some when it is resumed."""
    for pipe in walk(failure.pipe):
        cls: Any = type(pipe)
        if cls.__module__.startswith("penstock.") or vars(cls).get("resumes_from_start", True):
            continue
        cls.resumes_from_start = True
        try:
            failure.check(failure.make)
        except Exception:  # the law is broken without the declaration, too
            continue
        finally:
            cls.resumes_from_start = False
        return (
            f"{cls.__name__} declares `resumes_from_start = False`, and does not resume right with it: declare "
            "what a pass remembers with own(), and set it before the yield; declare the items it buffers with "
            "read() and keep_from(); or leave the line out"
        )
    return None


_OF_RESUMING = {"resumed_after_every_item", "resumed_at_either_end", "resumed_again_and_again"}
_OF_PASSES = _OF_RESUMING | {
    "two_passes_agree",
    "restart_begins_again",
    "newer_iterator_invalidates_the_older",
    "copies_agree",
    "method_and_constructor_agree",
    "same_seed_same_order",
    "union_over_shards_is_the_whole",
    "every_order_of_reading_agrees",
}
CAUSES: dict[Callable[[Failure], str | None], set[str]] = {
    source_read_by_the_constructor: {"construction_pulls_nothing", *_OF_PASSES},
    generator_of_the_constructor: _OF_PASSES,
    iterator_of_the_constructor: {"construction_pulls_nothing", "empty_source_ends", *_OF_PASSES},
    member_that_cannot_be_pickled: {"copies_agree"},
    default_that_is_shared: {"items_are_left_alone", "empty_source_ends", "len_is_exact", *_OF_PASSES},
    attribute_that_passes_change: {"len_is_exact", *_OF_PASSES},
    undeclared_buffer: _OF_RESUMING,
}
"""The known causes, the surest first, each with the laws that it may break."""
