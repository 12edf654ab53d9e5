"""The methods of pipes that show what a chain looks like and costs."""

from __future__ import annotations

import os
import time
from collections import deque
from itertools import islice

from ..errors.checks import expect_whole
from ..state.copying import copy_to_look_at
from ..state.graph import DataPipe
from ..state.seeds import generators_kept
from .chain_info import never_ends
from .explanation import Explanation, explained
from .html import show_items
from .pictures.picture import Picture
from .profiles.profile import Profile
from .profiles.times import Consumer, measure, measured_steps, times_of_steps


def profile(dp: DataPipe, n: int | None = None, *, passes: int = 1) -> Profile:
    """Return where the time goes: what each step takes for the first `n` items, or for all.

    A copy of the chain is read, as by `peek`, so a current pass goes on. With several `passes`, the last is measured:
    `passes=2` finds caches filled. Printing the profile shows a table, and a sentence that names the bottleneck. A
    loader has its own `profile()`, with its workers. Without `n`, it raises ValueError for a chain that never ends.

    >>> import time
    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(50)).map(lambda x: time.sleep(0.001)).batch(5)
    >>> "of the time is in `map(<lambda>)`" in dp.profile().verdict
    True
    """
    expect_whole("passes", passes)
    if n is not None:
        expect_whole("n", n, least=0)
    elif never_ends(dp):
        raise ValueError("the chain never ends: give the number of items to read, as in profile(1000)")
    chain, consumer = copy_to_look_at(dp, "profile"), Consumer()
    with generators_kept():
        for _ in range(passes - 1):
            deque(islice(chain, n), maxlen=0)
        measure(chain)
        began = time.perf_counter()
        for _ in consumer.follow(islice(chain, n)):
            pass
        seconds = time.perf_counter() - began
    found = Profile(seconds, consumer, times_of_steps(chain))
    found.picture = Picture(chain, found.shares(measured_steps(chain)))
    return found


def explain(dp: DataPipe) -> Explanation:
    """Return, in words, what the chain will do: order, shards, memory, resuming, where it runs, and mistakes.

    Nothing is read and nothing starts. `warnings` of the result are the mistakes, each with its fix as `mend`.

    >>> import penstock as ps
    >>> print(ps.iter.IterableWrapper(range(10)).batch(2).shuffle().explain().warnings[0].mend)
    .shuffle().batch(…), with the shuffle first
    """
    return explained(dp)


def visualize(dp: DataPipe, path: str | os.PathLike[str] | None = None) -> Picture:
    """Return the picture of the chain, which a notebook draws; with a `path`, write it to a file too.

    The name of the file ends in .svg, .png or .mmd, which is Mermaid; ValueError for another ending. A PNG needs
    resvg-py: ImportError says how to install it. Nothing is read.

    >>> import penstock as ps
    >>> ps.iter.IterableWrapper(range(10)).batch(4).visualize()
    IterableWrapper(range(0, 10)).batch(4)
    """
    picture = Picture(dp)
    if path is not None:
        picture.save(path)
    return picture


def show(dp: DataPipe, n: int = 5, *, limit: int | None = None) -> None:
    """Show the chain and its first `n` items: in a notebook with images, sound and tables, else as text.

    `limit` is Ray Data's name for `n`. Large items are abbreviated. The items are those that `peek` returns; if it
    cannot copy the chain, a new pass begins.

    >>> import penstock as ps
    >>> ps.iter.IterableWrapper(range(10)).batch(4).show(2)
    IterableWrapper(range(0, 10)).batch(4)
    0: [0, 1, 2, 3]
    1: [4, 5, 6, 7]
    """
    show_items(dp, n if limit is None else limit)


def mimebundle(dp: DataPipe, include: object = None, exclude: object = None) -> dict[str, str]:
    """Return the chain as a picture and as text, as a notebook shows it."""
    return {**Picture(dp)._repr_mimebundle_(), "text/plain": repr(dp)}
