"""What a chain will do, in words, before anything is read."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

import penstock as ps
from penstock.pipes.bases.ahead.works_ahead import WorksAhead
from penstock.pipes.bases.rows.parts import ReadsParts
from penstock.pipes.iter.prefetch import Prefetcher
from penstock.registry import operators
from penstock.registry.traits import Trait
from penstock.state.foreign import SHARDING_PRIORITIES
from penstock.testing.examples import maker_of_example
from penstock.views.chain_info import StepInfo
from penstock.views.explanation import Explanation
from penstock.views.lints import LINTS, Mistake

OURS = [entry.cls for entry in operators.values() if entry.cls.__module__.startswith("penstock.")]


class Unread:
    """Items that must not be read."""

    def __len__(self) -> int:
        return 20_000

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("it was read")


def unread() -> Any:
    return ps.iter.IterableWrapper(Unread())


def test_the_text_of_a_chain() -> None:
    dp = unread().shuffle(buffer_size=1000).sharding_filter().threadpool_map(str, max_workers=4).batch(32).to_device()
    assert (
        str(dp.explain())
        == """\
Order
  625 items, before they are divided among shards.
  shuffle draws each item from a buffer of 1,000 items, of 20,000.
  Each epoch has another order, which follows from the seed: loader.seed(n), or set_seed(n) without a loader.
Shards
  sharding_filter divides 20,000 items: shard s of n takes items s, s + n, s + 2n, … Every shard runs shuffle
    on all of them.
Memory
  shuffle: up to 1,000 items.
  threadpool_map: up to 128 items.
  batch: up to 32 items.
Resume
  shuffle reads about 6,908 items of its source again.
  threadpool_map reads up to 128 items of its source again.
Runs where
  Each worker of a loader, or this process without workers, runs IterableWrapper, shuffle, sharding_filter,
    threadpool_map and batch.
  The main process runs to_device, with workers too.
  threadpool_map works in 4 threads."""
    )
    assert repr(dp.explain()) == str(dp.explain())
    assert dp.explain().warnings == []


def test_a_notebook_shows_the_same_as_html() -> None:
    explanation = Explanation(
        {"Order": ["5 items of `f(a < b)`.", "As they come."], "Memory": ["None."]},
        [Mistake("It is <cold>.", "People freeze.", "stove.light()")],
    )
    html = explanation._repr_html_()
    assert "5 items of <code>f(a &lt; b)</code>." in html
    assert html.count("<li>") == 4
    root = ElementTree.fromstring(html)
    words = " ".join(" ".join(root.itertext()).split()).replace(" .", ".")
    assert words == (
        "Order 5 items of f(a < b). As they come. Memory None. Watch out It is <cold>. People freeze. Mend: "
        "stove.light()"
    )
    assert not re.search(r"(?<!-)color:|background", html)  # those of the page, light or dark
    assert "Watch out" in unread().batch(4).shuffle().explain()._repr_html_()


def test_the_page_shows_what_is_said() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {"__name__": "__main__"})
        assert printed.getvalue() == shown


def test_the_page_names_all_mistakes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(LINTS)


def test_nothing_is_read_and_nothing_starts() -> None:
    before = threading.active_count()
    first, second = unread().shuffle().fork(2)
    chain = (
        first.prefetch()
        .zip(second)
        .in_memory_cache()
        .enumerate()
        .to_map_datapipe()
        .shuffle()
        .processpool_map(str, workers=2)
        .sharding_filter()
        .batch(4)
    )
    assert "in_memory_cache" in str(chain.explain())
    assert threading.active_count() == before
    with pytest.raises(AssertionError, match="it was read"):
        chain.take(1)


SAYS: dict[str, list[tuple[Callable[[], Any], str]]] = {
    "Order": [
        (lambda: unread().sharding_filter(), "20,000 items, before they are divided among shards."),
        (lambda: unread(), "No step is random: every epoch has the same order."),
        (lambda: unread().map(str).filter(bool).map(str), "unknown before filter has run"),
        (lambda: unread().filter(bool).set_length(3).map(str), "3 items"),
        (lambda: unread().map(str).cycle(), "It never ends: a loop over it needs a limit, such as .header(n)."),
        (lambda: unread().shuffle(buffer_size=30_000), "its buffer of 30,000 has room for all 20,000 items"),
        (lambda: unread().mix(unread()), "mix draws the source of each item."),
        (lambda: ps.map.SequenceWrapper(range(9)).shuffle(), "shuffle shuffles all items, in no memory."),
        (lambda: unread().shuffle().set_shuffle(False), "No step is random"),
        (lambda: unread().shuffle().map(str).shuffle(), "shuffle 2 draws each item"),
        (lambda: unread().threadpool_map(str, ordered=False), "as they are ready: their order differs"),
    ],
    "Shards": [
        (
            lambda: unread(),
            "It is not divided. Several workers or ranks need a .sharding_filter(), early in the chain.",
        ),
        (lambda: ps.map.SequenceWrapper(range(9)), "Read by index: DataLoader2 divides its indices"),
        (
            lambda: ps.map.SequenceWrapper(range(9)).shuffle().sharding_filter(),
            "9 items by index: each shard reads only",
        ),
        (lambda: unread().map(str).shuffle().sharding_filter(), "Every shard runs map and shuffle on all of them."),
        (
            lambda: unread().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
            "One process reads the steps before it, and sends each shard its items.",
        ),
    ],
    "Memory": [
        (lambda: unread().map(str), "No step holds more than the item that it works on."),
        (lambda: ps.iter.IterableWrapper(range(5)).shuffle(), "shuffle: up to 5 items."),
        (lambda: ps.iter.IterableWrapper(range(8)).in_memory_cache(), "in_memory_cache: all 8 items, as long as"),
        (lambda: unread().in_memory_cache(size=2), "in_memory_cache: the first items, up to 2 MiB."),
        (lambda: unread().load_files_by_s3(workers=3), "load_files_by_s3: up to 6 files, 256 MiB."),
        (lambda: unread().bucket_by_length([1, 2], batch_size=[4, 3, 1]), "bucket_by_length: up to 8 items."),
        (lambda: unread().bucketbatch(4, batch_num=5, bucket_num=2), "bucketbatch: up to 40 items."),
        (lambda: unread().map(dict).pack(8), "pack: up to 1 pack."),
        (lambda: unread().zip_with_iter(unread(), int, buffer_size=None), "zip_with_iter: any number of items."),
        (lambda: ps.iter.Zipper(*unread().fork(2)), "fork: up to 1,000 items."),
    ],
    "Resume": [
        (lambda: unread().map(str).batch(4), "It goes on where it stood, and reads nothing again."),
        (lambda: unread().pipe(iter), "pipe reads its source again from the beginning, and drops what it gave."),
        (lambda: unread().threadpool_map(str).shuffle(buffer_size=9), "about 20 items of its source again, "),
        (lambda: unread().map(dict).rebatch(8).shuffle_rows(500), "reads up to 750 rows of its source again."),
        (lambda: unread().open_files().load_from_tar(), "load_from_tar reads the current file, or its current"),
        (lambda: unread().shuffled_flatmap(buffer_size=7), "shuffled_flatmap opens its 7 items again"),
        (lambda: unread().enumerate().to_map_datapipe(), "to_map_datapipe reads its whole source again."),
    ],
    "Runs where": [
        (
            lambda: unread().map(str).pin_memory().map(list),
            "The main process runs pin_memory and map 2, with workers too.",
        ),
        (lambda: unread().prefetch(), "prefetch works in a thread."),
        (lambda: unread().map_pool(lambda: str, workers=3), "map_pool works in 3 processes."),
        (lambda: unread().map_pool(lambda: str, engine="threads"), "map_pool works in 2 threads."),
        (
            lambda: unread().map(str).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING).map(str),
            "With workers, one process runs IterableWrapper and map 1, for all of them.",
        ),
    ],
}


@pytest.mark.parametrize(
    ("heading", "chain", "sentence"), [(heading, *row) for heading, rows in SAYS.items() for row in rows]
)
def test_what_is_said_of_a_chain(heading: str, chain: Callable[[], Any], sentence: str) -> None:
    assert sentence in " ".join(chain().explain().said[heading])


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_declared_buffers_are_parameters_and_deeds_are_known(cls: Any) -> None:
    assert {*cls.buffers} <= {*inspect.signature(cls).parameters}
    assert {*cls.traits} <= {*get_args(Trait)}
    assert all(isinstance(word, str) for word in (*cls.buffers, *cls.traits))  # not the letters of one


@pytest.mark.parametrize("cls", [cls for cls in OURS if issubclass(cls, (WorksAhead, ReadsParts, Prefetcher))])
def test_what_works_elsewhere_says_so_and_what_it_holds(cls: Any) -> None:
    pipe = next(pipe for pipe in ps.registry.walk(maker_of_example(cls)()) if type(pipe) is cls)
    step = StepInfo(pipe)
    assert step.works_in in ("a thread", "threads", "processes", "actors")
    assert step.max_buffered
