"""A case for each operator that reads a source, for `benchmarks.resuming_again`: those whose items are in memory.

Functions give back what they are given, so that what comes out tells which items of the source it was made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import torch

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES

from .again_feeds import SOURCE, Case, Feed, as_it_is, of_its_source
from .again_file_cases import FILE_CASES

WORDS = ["x" * length for length in range(50)]


def three(x: int) -> list[int]:
    return [x, x, x]


def seven(x: int) -> list[int]:
    return [x] * 7


def a_dict(x: int) -> dict[str, int]:
    return {"a": x, "b": 0}


def a_pair(x: int) -> tuple[int, int]:
    return x, 0


def rows(x: int) -> list[dict[str, int]]:
    return [{"a": x, "b": 0}] * 7


def word(x: int) -> str:
    """Return a text that contains the number, and has one of 50 lengths."""
    return f"{x}{WORDS[x % 50]}"


def columns(x: int) -> dict[str, Any]:
    return {"id": np.full(7, x)}


def arrow_columns(x: int) -> Any:
    return pa.record_batch({"id": np.full(7, x)})


def tensor(x: int) -> Any:
    return torch.full((4,), x)


def line(x: int) -> tuple[str, str]:
    return "a.txt", str(x) if x % 5 else ""


def member(x: int) -> tuple[str, bytes]:
    return f"{x // 2}.{x % 2}", b"a member"


def names(x: int) -> str:
    return f"{x}-{{0..6}}.tar"


def two_of_three(x: int) -> bool:
    return x % 3 != 0


def last_digit(x: int) -> int:
    return x % 10


def half(x: int) -> int:
    return x % 2


def by_length(bucket: list[str]) -> list[str]:
    return sorted(bucket, key=len)


def changes(numbers: Any) -> Any:
    yield from numbers


async def later(x: Any) -> Any:
    return x


class Model:
    def __call__(self, x: Any) -> Any:
        return x


class Draws:
    """A sampler that records what it draws."""

    def __init__(self, data_source: Any, feed: Feed) -> None:
        self.data_source, self.feed = data_source, feed

    def __iter__(self) -> Any:
        for number in range(SOURCE, SOURCE + len(self.data_source)):
            self.feed.pulled.append(number)
            yield number


def two(feed: Feed) -> Any:
    return feed.source(), feed.source()


def together(branches: Any) -> Any:
    first, second = branches
    return first.zip(second)


def with_lag(feed: Feed, lag: int, buffer_size: int) -> Any:
    left, right = feed.source().fork(2, buffer_size=buffer_size)
    return ps.iter.IterableWrapper([0] * lag).concat(left).zip(right)


def everything(pulled: int) -> int:
    return pulled


def sampled(feed: Feed) -> Any:
    return ps.iter.Sampler(range(feed.length), Draws, sampler_kwargs={"feed": feed})


def mixed(feed: Feed) -> Any:
    return ps.iter.SampleMultiplexer({feed.source(): 0.5, feed.source(): 0.5}, seed=0)


def synchronised(feed: Feed) -> Any:
    import torch.distributed as dist

    if not dist.is_initialized():
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    return feed.source().fullsync()


CASES = [
    Case("iter.IterableWrapper", lambda f: f.source(), "the source alone"),
    Case("iter.NodeReader", lambda f: ps.iter.NodeReader(f.source().to_node())),
    Case("iter.Sampler", sampled, excused="a sampler of torch's cannot report its position"),
    Case("map.to_iter_datapipe", lambda f: f.sequence().to_iter_datapipe()),
    Case("map.shuffle", lambda f: f.sequence().shuffle()),
    # One item for one
    Case("iter.map", lambda f: f.source().map(as_it_is)),
    Case("iter.filter", lambda f: f.source().filter(two_of_three)),
    Case("iter.enumerate", lambda f: f.source().enumerate()),
    Case("iter.add_index", lambda f: f.source(a_dict).add_index()),
    Case("iter.drop", lambda f: f.source(a_pair).drop(1)),
    Case("iter.slice", lambda f: f.source(a_pair).slice(0, 1)),
    Case("iter.flatten", lambda f: f.source(lambda x: (0, (x, 0))).flatten(1)),
    Case("iter.rows2columnar", lambda f: f.source(rows).rows2columnar(["a", "b"])),
    Case("iter.collate", lambda f: f.source(three).collate(as_it_is)),
    Case("iter.header", lambda f: f.source().header(f.length)),
    Case("iter.limit", lambda f: f.source().limit(f.length)),
    Case("iter.random_sample", lambda f: f.source().random_sample(0.7)),
    Case("iter.progress", lambda f: f.source().progress()),
    Case("iter.parse_json", lambda f: f.source(str).parse_json()),
    Case("iter.select_columns", lambda f: f.source(a_dict).select_columns(["a"])),
    Case("iter.drop_columns", lambda f: f.source(a_dict).drop_columns(["b"])),
    Case("iter.rename_columns", lambda f: f.source(a_dict).rename_columns({"b": "c"})),
    Case("iter.join", lambda f: f.source(a_dict).join({"b": [0], "c": [0]}, on="b", batched=False)),
    Case("iter.set_length", lambda f: f.source().set_length(f.length)),
    Case("iter.sharding_filter", lambda f: f.source().sharding_filter()),
    Case(
        "iter.sharding_round_robin_dispatch",
        lambda f: f.source().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
    ),
    Case("iter.pin_memory", lambda f: f.source(tensor).pin_memory()),
    Case("iter.to_device", lambda f: f.source(tensor).to_device("cpu")),
    Case("iter.fullsync", synchronised),
    Case("iter.vmap", lambda f: f.source(tensor).vmap(as_it_is)),
    Case("iter.with_format", lambda f: f.source(columns).with_format("torch")),
    Case("iter.to_tensors", lambda f: f.source(arrow_columns).to_tensors()),
    # Many for one
    Case("iter.flatmap", lambda f: f.source().flatmap(three)),
    Case("iter.unbatch", lambda f: f.source(seven).unbatch()),
    Case("iter.repeat", lambda f: f.source().repeat(3)),
    Case("iter.rows", lambda f: f.source(columns).rows()),
    Case("iter.shard_expand", lambda f: f.source(names).shard_expand()),
    Case("iter.shuffled_flatmap", lambda f: f.source(seven).shuffled_flatmap(buffer_size=100)),
    # One for many
    Case("iter.batch", lambda f: f.source().batch(10)),
    Case("iter.in_batch_shuffle", lambda f: f.source(seven).in_batch_shuffle()),
    Case("iter.rebatch", lambda f: f.source(columns).rebatch(64)),
    Case("iter.shuffle_rows", lambda f: f.source(columns).shuffle_rows(1000)),
    Case("iter.dataframe", lambda f: f.source(a_pair).dataframe(100, columns=["a", "b"])),
    Case("iter.groupby", lambda f: f.source().groupby(last_digit, group_size=5)),
    Case("iter.bucketbatch", lambda f: f.source(word).bucketbatch(10, sort_key=by_length, batch_num=10)),
    Case("iter.bucket_by_length", lambda f: f.source(word).bucket_by_length([20, 40], 10)),
    Case("iter.max_token_bucketize", lambda f: f.source(word).max_token_bucketize(500)),
    Case("iter.pack", lambda f: f.source(seven).pack(64), "greedy"),
    Case("iter.pack", lambda f: f.source(seven).pack(64, "best_fit"), "best_fit"),
    Case("iter.lines_to_paragraphs", lambda f: f.source(line).lines_to_paragraphs()),
    Case("iter.webdataset", lambda f: f.source(member).webdataset()),
    # In another order
    Case("iter.shuffle", lambda f: f.source().shuffle(buffer_size=1000), "1,000"),
    Case("iter.shuffle", lambda f: f.source().shuffle(), "10,000"),
    # Many at once
    Case("iter.map_batches", lambda f: f.source().map_batches(as_it_is, batch_size=7)),
    Case("iter.async_map_batches", lambda f: f.source().async_map_batches(later, batch_size=32)),
    Case("iter.prefetch", lambda f: f.source().prefetch(10)),
    Case("iter.threadpool_map", lambda f: f.source().threadpool_map(as_it_is, max_workers=2)),
    Case(
        "iter.threadpool_map", lambda f: f.source().threadpool_map(as_it_is, max_workers=2, ordered=False), "any order"
    ),
    Case("iter.processpool_map", lambda f: f.source().processpool_map(as_it_is, workers=2)),
    Case("iter.map_pool", lambda f: f.source().map_pool(Model, workers=2)),
    Case(
        "iter.map_pool", lambda f: f.source().map_pool(Model, workers=2, engine="threads", batch_size=8), "threads, 8"
    ),
    Case("iter.pipe", lambda f: f.source().pipe(changes), excused="without a state"),
    # Several sources
    Case("iter.concat", lambda f: f.source(length=f.items * 2 // 3).concat(f.source())),
    Case("iter.cycle", lambda f: f.source(length=f.items * 2 // 3).cycle(), repeats=True),
    Case("iter.mix", lambda f: f.source().mix(f.source())),
    Case("iter.SampleMultiplexer", mixed),
    Case("iter.mux", lambda f: f.source().mux(f.source())),
    Case("iter.mux_longest", lambda f: f.source().mux_longest(f.source())),
    Case("iter.zip", lambda f: f.source().zip(f.source())),
    Case("iter.zip_longest", lambda f: f.source().zip_longest(f.source())),
    Case("iter.zip_with_iter", lambda f: f.source().zip_with_iter(f.source(), of_its_source)),
    Case("iter.zip_with_map", lambda f: f.source().zip_with_map(f.sequence(), of_its_source)),
    # Several branches
    Case("iter.fork", lambda f: together(f.source().fork(2)), "in step"),
    Case("iter.fork", lambda f: with_lag(f, 500, -1), "one 500 behind"),
    Case("iter.fork", lambda f: with_lag(f, 500, 510), "so, and buffer_size=510"),
    Case("iter.demux", lambda f: together(f.source().demux(2, half))),
    Case("iter.round_robin_demux", lambda f: together(f.source().round_robin_demux(2))),
    Case("iter.unzip", lambda f: together(f.source(lambda x: (x, x)).unzip(2))),
    Case(
        "iter.random_split",
        lambda f: f.source().random_split({"a": 0.5, "b": 0.5}, seed=0, total_length=f.length, target="a"),
    ),
    # What is kept
    Case("iter.in_memory_cache", lambda f: f.source().in_memory_cache(), "being filled", buffers=everything),
    Case(
        "iter.in_memory_cache",
        lambda f: f.source(length=2 * f.items).in_memory_cache(),
        "full, 2nd pass",
        passes=1,
        excused="what it keeps is in no state",
    ),
    Case(
        "iter.in_memory_cache",
        lambda f: f.source().in_memory_cache(size=1),
        "full, 1st pass",
        excused="what it keeps is in no state",
    ),
    *FILE_CASES,
]
"""Each operator, by its key in the registry."""

NOT_MEASURED = {
    "iter.HuggingFaceHubReader": "reads no source",
    "iter.list_image_folder": "reads folders, a few items of its source",
    "iter.shuffle_image_folder": "reads folders, a few items of its source",
    "iter.list_files_by_ais": "needs a server of AIStore",
    "iter.load_files_by_ais": "needs a server of AIStore",
    "iter.list_files_by_s3": "needs a server of S3",
    "iter.read_from_gdrive": "needs the network",
}
"""Operators that have no case, each with the reason."""
