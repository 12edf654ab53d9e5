"""The laws of reading a chain: passes, their ends, errors and resources, and items by index."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import psutil  # type: ignore[import-untyped]

from ..errors.closing import close
from ..errors.hints import did_you_mean
from ..errors.notes import notes_of
from ..state.seeds import seed_graph
from ..state.step_text import kept_arguments
from .probes import Maker, Probe, agree, as_plain, constructor_arguments, items_of, law, seeded, tap

__all__: list[str] = []  # its laws enter themselves

_CLOSES_WITHIN = 10.0
"""Seconds for an operator with threads to close its source, and its files."""


@law()
def two_passes_agree(make: Maker) -> None:
    """With the seed fixed, every pass gives the same items."""
    pipe = seeded(make)
    first = items_of(pipe)
    seed_graph(pipe, 0)
    agree(items_of(pipe), first, "the second pass over one pipe")
    agree(items_of(seeded(make)), first, "a pass over an equal pipe")


@law("iter")
def restart_begins_again(make: Maker) -> None:
    """After a pass that was given up, the next one begins with the first item."""
    expected = items_of(seeded(make))
    for taken in sorted({1, len(expected) // 2, len(expected)}):
        pipe = seeded(make)
        items_of(islice(pipe, taken))
        seed_graph(pipe, 0)
        agree(items_of(pipe), expected, f"a pass after one given up after {taken} items")


@law("iter")
def newer_iterator_invalidates_the_older(make: Maker) -> None:
    """After a newer iterator is made, the older one raises RuntimeError, and the newer one yields all items."""
    expected = items_of(seeded(make))
    if not expected:
        return
    pipe = seeded(make)
    older = iter(pipe)
    next(older)
    seed_graph(pipe, 0)
    newer = iter(pipe)
    try:
        seen = f"gave {next(older)!r:.200}"
    except RuntimeError:
        agree(items_of(newer), expected, "the newer iterator")
        return
    except StopIteration:
        seen = "just ended"
    raise AssertionError(f"the older iterator should raise RuntimeError, but {seen}")


@law()
def len_is_exact(make: Maker) -> None:
    """`len` is the number of items, or raises TypeError."""
    _check_len(make())


def _check_len(pipe: Any) -> None:
    try:
        length = len(pipe)
    except TypeError:
        return
    if length != (number := len(items_of(pipe))):
        raise AssertionError(f"len is {length}, but there are {number} items")


@law()
def items_are_left_alone(make: Maker) -> None:
    """The pass changes neither the source's items nor the items it has emitted."""
    pipe = make()
    probes = tap(pipe)
    handed_out = items_of(pipe, lambda item: (item, as_plain(item, read_streams=False)))
    for whose, items in [("of the source", [pair for probe in probes for pair in probe.pulled]), ("out", handed_out)]:
        now = [as_plain(item, read_streams=False) for item, _ in items]
        agree(now, [was for _, was in items], f"the items handed {whose}, looked at after the pass")


@law("iter")
def abandoned_iterator_closes_its_source(make: Maker) -> None:
    """The source's iterator is closed when the pass ends, is closed, dropped, or replaced by a newer one."""
    for end in ("was exhausted", "was closed", "was dropped", "was replaced"):
        pipe = make()
        probes = tap(pipe)
        iterator: Any = iter(pipe)
        next(iterator, None)
        if end == "was exhausted":
            items_of(iterator)
        elif end == "was closed":
            close(iterator)
        elif end == "was dropped":
            iterator = None
        else:
            _newer = iter(pipe)
        if not all(probe.closed.wait(_CLOSES_WITHIN) for probe in probes):
            raise AssertionError(f"the iterator {end}, but its source is still open")


@law("iter")
def abandoned_pass_closes_its_files(make: Maker) -> None:
    """A pass that is closed in the middle leaves open no file or socket that it has opened."""
    number = len(items_of(make()))  # it also opens what a process keeps, such as the connections of a client
    for taken in sorted({1, number // 2}):
        pipe = make()
        iterator = iter(pipe)
        before = _descriptors()
        items_of(islice(iterator, taken))
        close(iterator)
        ends = time.monotonic() + _CLOSES_WITHIN
        while left := _descriptors() - before:
            if time.monotonic() > ends:
                opened = ", ".join(_described(descriptor) for descriptor, *_ in sorted(left))
                raise AssertionError(f"the iterator was closed after {taken} items, but this is still open: {opened}")
            gc.collect()  # a client of a library may be a cycle
            time.sleep(0.01)


def _descriptors() -> set[tuple[int, ...]]:
    """Return the descriptors of this process, each with the file that it stands for."""
    found: set[tuple[int, ...]] = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # the folder itself was open, and is closed
            file = os.fstat(int(name))
            found.add((int(name), file.st_dev, file.st_ino))
    return found


def _described(descriptor: int) -> str:
    """Return the path of an open file, or the addresses of a socket, where the system knows them."""
    process = psutil.Process()
    for file in process.open_files():
        if file.fd == descriptor:
            return str(file.path)
    for socket in process.net_connections("all"):
        if socket.fd == descriptor and (ends := [end for end in (socket.laddr, socket.raddr) if end]):
            return "a socket of " + " and ".join(
                ":".join(map(str, end)) if isinstance(end, tuple) else end for end in ends
            )
    kinds = {"s": "a socket", "p": "a pipe", "d": "a folder"}
    kind = kinds.get(stat.filemode(os.fstat(descriptor).st_mode)[0], "a file without a name")
    return f"{kind} (descriptor {descriptor})"


@law()
def empty_source_ends(make: Maker) -> None:
    """A pass over an empty source ends, and `len` is exact."""
    for look in (items_of, _check_len):
        look(_emptied(make()))


def _emptied(pipe: Any) -> Any:
    """Return a pipe over an empty source, with the arguments that its class declares for one."""
    tap(pipe, empty=True)
    if not (given := pipe.empty_arguments):
        return pipe
    where = f"empty_arguments of {type(pipe).__name__}"
    known = [parameter.name for parameter, _ in kept_arguments(pipe)]
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} must be a dict of arguments of its constructor, and is {given!r:.100}")
    for name in given:
        if name not in known:
            raise ValueError(f"{where}: its constructor takes no argument {name!r}{did_you_mean(name, known)}")
    vars(pipe).update(given)
    args, kwargs = constructor_arguments(pipe)
    return type(pipe)(*args, **kwargs)


@law()
def source_errors_pass_through(make: Maker) -> None:
    """An error of the source is raised unchanged, ends the pass, and leaves the source closed."""
    for probes, iterator, error in _failing_passes(make):
        raised = next(probe.raised for probe in probes if probe.raised is not None)
        if type(error) is not type(raised) or error.args != raised.args:
            raise AssertionError(f"the source raised {raised!r}, but the pipe raised {error!r}")
        if (item := next(iterator, None)) is not None:
            raise AssertionError(f"after the error, the iterator yielded {item!r:.200}")
        if not all(probe.closed.wait(_CLOSES_WITHIN) for probe in probes):
            raise AssertionError("after the error, the source is still open")


@law()
def errors_are_noted_once(make: Maker) -> None:
    """An error has exactly one note of Penstock's, which says where it was raised."""
    for _, _, error in _failing_passes(make):
        if error is not None and len(notes := notes_of(error)) != 1:
            raise AssertionError(f"{error!r} has {len(notes)} notes: {notes}")


def _failing_passes(make: Maker) -> Iterator[tuple[list[Probe], Iterator[Any], Exception | None]]:
    """Read sources that raise, at once or after some items; yield the probes, the iterator, and its error."""
    for fail_after in (0, 1, 2):
        pipe = make()
        probes = tap(pipe, fail_after=fail_after)
        iterator = iter(pipe)
        error = None
        try:
            items_of(iterator)
        except Exception as seen:
            error = seen
        if any(probe.raised for probe in probes):
            yield probes, iterator, error


@law()
def no_resource_warning(make: Maker) -> None:
    """No pass, whole or given up, causes a ResourceWarning."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for taken in (None, 1):
            items_of(islice(make(), taken), type)  # drop the items unread
        gc.collect()
    if seen := [str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)]:
        raise AssertionError("; ".join(seen))


@law("map")
def every_order_of_reading_agrees(make: Maker) -> None:
    """An index gives the same item each time, in any order of reading."""
    pipe = seeded(make)
    forwards = items_of(pipe)
    backwards = [as_plain(pipe[index]) for index in reversed(range(len(forwards)))]
    agree(backwards[::-1], forwards, "read from the last index to the first")


@law("map")
def index_out_of_range_raises(make: Maker) -> None:
    """An index past the end raises IndexError."""
    pipe = make()
    try:
        seen = pipe[len(pipe)]
    except IndexError:
        return
    raise AssertionError(f"there are {len(pipe)} items, but item {len(pipe)} is {seen!r:.200}")
