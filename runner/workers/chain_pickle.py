"""The pickle of a chain for its workers, with errors that name the part that cannot be pickled."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ...errors.notes import add_note
from ...registry import IterDataPipe, walk
from ...state.graph import pipes_in
from ...state.step_text import step_text
from ...workers.captured import MUCH_TO_SEND, culprit_in, warn_of_copies

_warned_of: weakref.WeakSet[IterDataPipe[Any]] = weakref.WeakSet()
"""The chains of which a warning said that they are large: a loader may start several pools."""


def pickled_for_workers(chain: IterDataPipe[Any], original: IterDataPipe[Any], num_workers: int) -> bytes:
    """Return the pickle of a chain, and warn once of its `original` if it is large."""
    pickled = pickled_chain(chain)
    if len(pickled) >= MUCH_TO_SEND and original not in _warned_of:
        _warned_of.add(original)
        warn_of_copies(_attributes(chain), len(pickled), num_workers)
    return pickled


def pickled_chain(chain: IterDataPipe[Any] | list[Any]) -> bytes:
    """Return the pickle of a chain, or of several; the error of one that has none names the part."""
    try:
        return bytes(cloudpickle.dumps(chain))
    except Exception as error:
        for culprit, hint in (each for part in pipes_in(chain) for each in _not_picklable(part)):
            add_note(error, f"penstock: {culprit} cannot be pickled, so it cannot be sent to worker processes{hint}")
            break
        raise


def _not_picklable(chain: Any) -> Iterator[tuple[str, str]]:
    """Yield the attributes that cannot be pickled, each with a hint in a class of the user."""
    for pipe, name, value in _sent(chain):
        try:
            cloudpickle.dumps(value)
        except Exception:
            ours = type(pipe).__module__.startswith("penstock.")
            yield culprit_in(f"the {name} of {step_text(pipe)}", value), "" if ours else ": make it in __iter__"


def _attributes(chain: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a chain's steps, by names such as `fn of map`."""
    for pipe, name, value in _sent(chain):
        yield f"{name.lstrip('_')} of {getattr(pipe, 'functional_name', None) or type(pipe).__name__}", value


def _sent(chain: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the attributes that are sent with a chain, without the sources, each after its step and its name."""
    for pipe in walk(chain):
        for name, value in vars(pipe).items():
            if name not in getattr(pipe, "transient", ()) and not [*pipes_in(value)]:
                yield pipe, name, value
