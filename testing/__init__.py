"""The laws that every operator keeps, and `check_operator`, which checks them.

A law is a function that takes a maker of fresh, equal pipes. It raises AssertionError if they break the law. The laws
are in `making`, `reading` and `state`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from ..errors.checks import expect_seconds
from ..errors.hints import did_you_mean
from ..registry import IterDataPipe, MapDataPipe
from ..state.graph import DataPipe, walk

from . import reading, making  # isort: skip  # noqa: F401 - their laws enter themselves, the plainest first

from .examples import maker_of_example
from .likely_causes import Failure, likely_cause, shared_by_pipes
from .probes import LAWS, Law, Maker
from .state import NotChecked
from .time_limit import Hangs, within

__all__ = ["LAWS", "NotChecked", "broken_laws_of", "check_operator", "expect_law"]


@contextmanager
def _unread_pipes_are_dropped() -> Iterator[None]:
    """Leave out the warnings of writers that were made to be looked at."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*: nothing was written")
        yield


@_unread_pipes_are_dropped()
def check_operator(
    make_pipe: Callable[[], DataPipe] | type, laws: Iterable[str] | None = None, *, timeout: float = 120
) -> None:
    """Check that an operator keeps the laws; the first broken law raises an AssertionError that shows how.

    It names the law, what was tried, the first item that differs, and the likely cause if a known mistake is found. A
    law that takes longer than `timeout` seconds is broken, too: the error shows the lines where the operator hangs.

    `make_pipe` returns a short chain that ends in the operator: a fresh one each time, and always equal. It may also be
    the operator's class: the chain is then the `dp` of the example in its docstring. `laws` are the names of the laws
    to check. The default is all laws for this kind of pipe. Laws in the class attribute `broken_laws` of an operator of
    the chain are not checked. A chain that cannot be pickled is read in this process only, and warned of.

    `empty_arguments` of the class gives arguments that go with an empty source, such as weights of its items.

    >>> import penstock as ps
    >>> ps.check_operator(lambda: ps.iter.IterableWrapper(range(6)).batch(4))
    """
    expect_seconds("timeout", timeout)
    make = maker_of_example(make_pipe) if isinstance(make_pipe, type) else make_pipe
    if not callable(make):
        raise TypeError(f"make_pipe must be a function that returns a fresh pipe, such as lambda: {make!r}")
    try:
        pipe = within(timeout, make)
    except Hangs as hang:
        raise AssertionError(f"making the chain: {hang}") from hang
    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        raise TypeError(f"make_pipe must return a pipe of Penstock, and returned {type(pipe).__name__}")
    if make() is pipe:
        raise ValueError("make_pipe must return a fresh pipe each time, and returned the same one twice")
    applying = LAWS["iter" if isinstance(pipe, IterDataPipe) else "map"]
    broken = broken_laws_of(pipe)
    for name in applying if laws is None else laws:
        if name not in applying:
            raise ValueError(f"no law {name!r} for this kind of pipe{did_you_mean(name, [*applying])}")
        if name not in broken:
            _check_law(name, applying[name], make, pipe, timeout)


def broken_laws_of(pipe: DataPipe) -> dict[str, str]:
    """Return the laws that the operators of a chain declare as broken, each with the reason.

    Raises ValueError if an operator names an unknown law, or gives no reason.
    """
    broken: dict[str, str] = {}
    for operator in {type(part) for part in walk(pipe)}:
        where, laws = f"broken_laws of {operator.__qualname__}", getattr(operator, "broken_laws", {})
        if not isinstance(laws, Mapping):
            raise TypeError(f"{where} must be a dict with the reason for each law, and is {laws!r:.100}")
        for name, reason in laws.items():
            expect_law(name, f"{where}: ")
            if not isinstance(reason, str) or not reason.strip():
                raise ValueError(f"{where}: give the reason why {name!r} cannot be kept")
            broken[name] = reason
    return broken


def expect_law(name: str, where: str = "") -> None:
    """Raise ValueError if there is no law of a name, for either kind of pipe."""
    known = [law for laws in LAWS.values() for law in laws]
    if name not in known:
        raise ValueError(f"{where}no law {name!r}{did_you_mean(name, known)}")


def _check_law(name: str, law: Law, make: Maker, pipe: DataPipe, timeout: float) -> None:
    meaning = (law.__doc__ or "").partition("\n")[0]
    shared = shared_by_pipes(pipe)
    try:
        within(timeout, law, make)
    except NotChecked as reason:
        warnings.warn(NotChecked(f"{type(pipe).__name__} is not checked for the law {name!r}: {reason}"), stacklevel=4)
    except Exception as error:
        seen = error if isinstance(error, AssertionError) else f"it raised {error!r}"
        heading = f"{type(pipe).__name__} breaks the law {name!r}: {meaning}"
        cause = None if isinstance(error, Hangs) else likely_cause(Failure(name, pipe, make, law, shared))
        ending = f"\nlikely cause: {cause}" if cause else ""
        raise AssertionError(f"{heading}\nchain: {pipe!r}\n{seen}{ending}") from error
