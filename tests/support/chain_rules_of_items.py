"""Rules for the steps of random chains that work on any items: choosing, ordering, grouping, joining, splitting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset, RandomSampler, get_worker_info
from torchdata import nodes

import penstock as ps
from chain_rules import ANY, SAME, build, extended, flag, mark, of, root, small, step
from penstock.registry import SHARDING_PRIORITIES, operators

SampleMultiplexer = operators["SampleMultiplexer"].cls
NodeReader = operators["NodeReader"].cls
Sampler = operators["Sampler"].cls


def chain(drawer: Any) -> Any:
    """Draw a short chain beside the one that is drawn."""
    return drawer.chain_beside()


def branch(*, one_to_one: bool = False) -> Any:
    """Draw steps of a branch."""
    return lambda drawer: drawer.steps_of_branch(one_to_one)


def branches(least: int, most: int, *, one_to_one: bool = False) -> Any:
    draw = branch(one_to_one=one_to_one)
    return lambda drawer: [draw(drawer) for _ in range(drawer.random.randint(least, most))]


JOINS = ("zip", "zip_longest", "mux", "mux_longest", "concat")
IN_STEP = ("zip", "zip_longest", "mux", "mux_longest")
AMPLE = 10_000


def numbers_from(n: int, first: int = 0) -> Any:
    return ps.iter.IterableWrapper(range(first, first + n))


def joined(pipes: list[Any], how: str) -> Any:
    return getattr(pipes[0], how)(*pipes[1:])


def ends(pipes: list[Any], all_steps: list[Any]) -> list[Any]:
    return [extended(pipe, steps) for pipe, steps in zip(pipes, all_steps, strict=True)]


# Sources

LENGTH = of(0, 1, 3, 8, 13, 21, 30, 40, 50, 60, 60)


@root(LENGTH, covers="iter.IterableWrapper")
def numbers(n: int) -> Any:
    return numbers_from(n)


@root(LENGTH, covers="iter.IterableWrapper")
def iterable(n: int) -> Any:
    return ps.iter.IterableWrapper(dict.fromkeys(range(n)))


@root(LENGTH, of(0, 1, 2), covers="iter.Sampler")
def sampler(n: int, which: int) -> Any:
    if not n:  # torch's own refuses to draw from nothing
        return Sampler(range(0))
    if which == 0:
        return Sampler(range(n))
    return Sampler(range(n), RandomSampler, sampler_kwargs={"replacement": True} if which == 2 else None)


class DividesItself(IterableDataset[int]):
    """A data set that takes its part of the items in a worker of torch's DataLoader, and all of them elsewhere."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        worker = get_worker_info()
        return iter(range(self.n) if worker is None else range(worker.id, self.n, worker.num_workers))


@root(LENGTH, covers="iter.IterableWrapper")
def divides_itself(n: int) -> Any:
    return ps.iter.IterableWrapper(DividesItself(n))


@root(LENGTH, small(1, 3), covers="iter.NodeReader")
def node(n: int, batch: int) -> Any:
    made = nodes.Prefetcher(nodes.Batcher(numbers_from(n).shuffle(buffer_size=4).to_node(), batch), prefetch_factor=2)
    return NodeReader(made)


@root(LENGTH, covers="map.SequenceWrapper map.shuffle")
def shuffled_sequence(n: int) -> Any:
    return ps.map.SequenceWrapper(range(n)).shuffle()


@root(LENGTH, flag, covers="map.SequenceWrapper map.to_iter_datapipe")
def sequence(n: int, backwards: bool) -> Any:
    indices = [*range(n)][::-1] if backwards else None
    return ps.map.SequenceWrapper([*range(n)]).to_iter_datapipe(indices)


@root(chain, chain, small(1, 3), covers="iter.SampleMultiplexer")
def sample_multiplexer(one: Any, other: Any, weight: int) -> Any:
    return SampleMultiplexer({build(one): weight, build(other): 1}, seed=7)


# One item of one


def to_list(item: Any) -> list[Any]:
    return ["mapped", item]


def some_fail(item: Any) -> Any:
    if mark(item) % 4 == 0:
        raise ValueError("this one fails")
    return item


def as_it_is(item: Any) -> Any:
    return item


def slowly(item: Any) -> Any:
    time.sleep(mark(item) % 3 / 5000)
    return item


class Twice(ps.IterDataPipe[Any]):
    """Each item twice; an operator that says nothing about its state."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            yield item
            yield item


def without_every_fifth(items: Iterator[Any]) -> Iterator[Any]:
    for number, item in enumerate(items):
        if number % 5 != 4:
            yield item


@step(gives="list")
def map_(dp: Any) -> Any:
    return dp.map(to_list)


def with_torch(item: Any, rng: torch.Generator) -> Any:
    return [torch.rand((), generator=rng).item(), item]


def with_numpy(item: Any, rng: np.random.Generator) -> Any:
    return [rng.random(), item]


@step(flag, gives="list", covers="iter.map")
def map_with_rng(dp: Any, of_torch: bool) -> Any:
    return dp.map(with_torch, rng=True) if of_torch else dp.map(with_numpy, rng="numpy")


@step(gives=SAME, covers="iter.map")
def skip(dp: Any) -> Any:
    return dp.map(some_fail, on_error="skip")


@step(small(0, 2), takes=ANY, gives=SAME)
def filter_(dp: Any, n: int) -> Any:
    return dp.filter(lambda item: (mark(item[0]) if _is_stream(item) else mark(item)) % 3 != n)


def _is_stream(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and hasattr(item[1], "read")


@step(takes="row", gives="row", covers="iter.map")
def map_column(dp: Any) -> Any:
    return dp.map(lambda number: number + 1, input_col="id", output_col="next")


@step(small(1, 3), gives=SAME, grows=2)
def flatmap(dp: Any, n: int) -> Any:
    return dp.flatmap(lambda item: [item] * (mark(item) % n))


def parts_until_one_fails(item: Any) -> Iterator[Any]:
    for part in range(mark(item) % 3):
        yield some_fail([part, item])


@step(small(1, 4), grows=2)
def shuffled_flatmap(dp: Any, n: int) -> Any:
    return dp.shuffled_flatmap(parts_until_one_fails, buffer_size=n, on_error="skip")


@step(gives=SAME, grows=2, covers="")
def twice(dp: Any) -> Any:
    return Twice(dp)


@step(gives=SAME)
def pipe(dp: Any) -> Any:
    return dp.pipe(without_every_fifth)


@step(small(0, 3))
def enumerate_(dp: Any, first: int) -> Any:
    return dp.enumerate(first)


@step(takes="row", gives="row")
def add_index(dp: Any) -> Any:
    return dp.add_index()


@step(gives=SAME)
def set_length(dp: Any) -> Any:
    return dp.set_length(25)


@step(takes=ANY, gives=SAME)
def until_error(dp: Any) -> Any:
    return dp.until_error()


@step(small(0, 12), takes=ANY, gives=SAME)
def header(dp: Any, n: int) -> Any:
    return dp.header(n)


def twin(row: Any) -> Any:
    return {**row, "twin": row["id"]}


@step(small(0, 12), gives=SAME)
def limit(dp: Any, n: int) -> Any:
    return dp.limit(n)


@step(takes="row", gives="row", covers="iter.rename_columns iter.select_columns iter.drop_columns")
def columns_of_rows(dp: Any) -> Any:
    return dp.select_columns(["id"]).map(twin).drop_columns("id").rename_columns({"twin": "id"})


@step(small(1, 6), small(1, 3), of("slowly", "as_it_is", "some_fail"), gives=SAME)
def threadpool_map(dp: Any, tasks: int, workers: int, how: str) -> Any:
    fn = {"slowly": slowly, "as_it_is": as_it_is, "some_fail": some_fail}[how]
    return dp.threadpool_map(fn, scheduled_tasks=tasks, max_workers=workers, on_error="skip")


@step(small(1, 4), gives=SAME, slow=True, elsewhere=False)
def processpool_map(dp: Any, tasks: int) -> Any:
    return dp.processpool_map(as_it_is, workers=1, prefetch=tasks)


@step(of(None, 1, 3), small(1, 2), gives=SAME)
def map_pool(dp: Any, batch: int | None, workers: int) -> Any:
    batched = False if batch else None
    return dp.map_pool(lambda: as_it_is, workers=workers, batch_size=batch, engine="threads", batched=batched)


@step(small(1, 3), takes="tensors", gives="tensors", grows=2, covers="iter.map_pool")
def map_pool_of_batches(dp: Any, size: int) -> Any:
    return dp.map_pool(lambda: as_it_is, workers=1, batch_size=size, engine="threads", batched=True)


async def awaited(item: Any) -> Any:
    await asyncio.sleep(0)
    return some_fail(item)


@step(small(1, 5), small(1, 4), flag)
def async_map_batches(dp: Any, size: int, most: int, flatten: bool) -> Any:
    return dp.async_map_batches(awaited, batch_size=size, max_concurrency=most, flatten=flatten, on_error="skip")


@step(small(1, 5), covers="iter.flatmap iter.map_batches")
def map_batches(dp: Any, size: int) -> Any:
    items = dp.flatmap(lambda item: [item])  # so that nothing says that they have columns
    return items.map_batches(lambda batch: [batch[0], len(batch)], batch_size=size)


@step(
    small(1, 5), takes="row", gives="row", covers="iter.batch iter.collate iter.to_tensors iter.rows iter.map_batches"
)
def map_batches_of_rows(dp: Any, size: int) -> Any:
    return dp.batch(2).collate().to_tensors().rows().map_batches(without_the_first, batch_size=size)


def without_the_first(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: column[1:] for name, column in batch.items()}


@step(gives=SAME, elsewhere=False)
def to_device(dp: Any) -> Any:
    return dp.to_device("cpu")


@step(gives=SAME, elsewhere=False)
def pin_memory(dp: Any) -> Any:
    return dp.pin_memory()


@step(gives=SAME, elsewhere=False, slow=True)
def fullsync(dp: Any) -> Any:
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return dp.fullsync()


# Order, and the same again


@step(small(1, 7), takes=ANY, gives=SAME)
def shuffle(dp: Any, n: int) -> Any:
    return dp.shuffle(buffer_size=n)


@step(gives=SAME, covers="iter.shuffle")
def shuffle_all(dp: Any) -> Any:
    return dp.shuffle()


@step(small(2, 6), takes="list", covers="iter.shuffle")
def shuffle_inner(dp: Any, n: int) -> Any:
    return dp.shuffle(buffer_size=n, unbatch_level=1)


@step(takes="list", gives="list")
def in_batch_shuffle(dp: Any) -> Any:
    return dp.in_batch_shuffle()


@step(small(1, 3), gives=SAME, grows=3, in_branch=False)
def cycle(dp: Any, n: int) -> Any:
    return dp.cycle(n)


@step(gives=SAME, in_branch=False, covers="iter.cycle iter.header")
def endless(dp: Any) -> Any:
    return dp.cycle().header(12)


@step(small(1, 3), gives=SAME, grows=3)
def repeat(dp: Any, n: int) -> Any:
    return dp.repeat(n)


@step(gives=SAME, in_branch=False)
def in_memory_cache(dp: Any) -> Any:
    return dp.in_memory_cache()


@step(gives=SAME, in_branch=False, covers="iter.in_memory_cache")
def little_cache(dp: Any) -> Any:
    return dp.map(as_it_is).in_memory_cache(size=1e-3)


@step(small(1, 4), takes=ANY, gives=SAME)
def prefetch(dp: Any, n: int) -> Any:
    return dp.prefetch(n)


@step(takes=ANY, gives=SAME)
def progress(dp: Any) -> Any:
    return dp.progress("items")


@step(gives=SAME)
def sharding_filter(dp: Any) -> Any:
    return dp.sharding_filter()


@step(gives=SAME, in_branch=False)
def sharding_round_robin_dispatch(dp: Any) -> Any:
    return dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)


@step(grows=3)
def shard_expand(dp: Any) -> Any:
    return dp.map(lambda item: f"{{0..{mark(item) % 3}}}-{mark(item) % 97}").shard_expand()


# Groups


@step(small(1, 4), flag, gives="list")
def batch(dp: Any, n: int, drop: bool) -> Any:
    return dp.batch(n, drop_last=drop)


@step(takes="list", grows=3)
def unbatch(dp: Any) -> Any:
    return dp.unbatch()


@step(small(1, 4), flag, gives="list")
def bucket_by_length(dp: Any, size: int, drop: bool) -> Any:
    return dp.bucket_by_length([3, 6], size, len_fn=lambda item: mark(item) % 9, drop_last=drop)


@step(small(1, 3), flag, small(1, 3), small(1, 3), flag, flag, gives="list")
def bucketbatch(dp: Any, size: int, drop: bool, batches: int, buckets: int, is_sorted: bool, mixed: bool) -> Any:
    key = (lambda bucket: sorted(bucket, key=mark)) if is_sorted else None
    return dp.bucketbatch(size, drop, batch_num=batches, bucket_num=buckets, sort_key=key, use_in_batch_shuffle=mixed)


@step(small(3, 7), of(None, 2, 3), of(None, 1), flag, flag, gives="list")
def groupby(dp: Any, buffer: int, size: int | None, least: int | None, drop: bool, keep_key: bool) -> Any:
    if size is not None and not drop:
        least = 1  # else a group may not come together in the buffer, which is an error
    sizes = {"group_size": size, "guaranteed_group_size": least} if size is not None else {}
    groups = dp.groupby(
        lambda item: mark(item) % 3, buffer_size=buffer, drop_remaining=drop, keep_key=keep_key, **sizes
    )
    return groups.map(list)


@step(small(4, 9), small(2, 8), flag, of(0, 2), gives="list")
def max_token_bucketize(dp: Any, most: int, buffer: int, padded: bool, least: int) -> Any:
    return dp.max_token_bucketize(
        most, len_fn=lambda item: mark(item) % 4 + 1, buffer_size=buffer, include_padding=padded, min_len=least
    )


@step(small(3, 6), of("greedy", "first_fit", "best_fit"), small(1, 5), of("split", "truncate"), flag, of(None, 2))
def pack(dp: Any, length: int, method: str, buffer: int, overlong: str, repeat_bos: bool, eos: int | None) -> Any:
    tokens = dp.map(lambda item: [*range(mark(item) % 12)])
    options = {"drop_last": buffer > 3}
    if method != "greedy":
        options = {"overlong": overlong, "buffer_size": buffer}
    return tokens.pack(length, method, bos=1 if repeat_bos else None, eos=eos, repeat_bos=repeat_bos, **options)


@step(small(5, 7), small(3, 5), of("first_fit", "best_fit"), small(1, 3), covers="iter.flatmap iter.pack")
def pack_pairs(dp: Any, first: int, second: int, method: str, buffer: int) -> Any:
    pairs = dp.flatmap(  # so that nothing says that they have columns
        lambda item: [{"inputs": [*range(mark(item) % 6)], "targets": [1] * (mark(item) % 4)}]
    )
    return pairs.pack({"inputs": first, "targets": second}, method, buffer_size=buffer)


@step(small(1, 3))
def collate(dp: Any, n: int) -> Any:
    return dp.map(lambda item: mark(item) % 100).batch(n).collate()


@step(small(1, 3), covers="iter.vmap")
def vmap(dp: Any, n: int) -> Any:
    numbers = dp.map(lambda item: mark(item) % 100 / 2).batch(n).collate()
    return numbers.vmap(torch.square)


# Several sources


@step(chain)
def zip_(dp: Any, other: Any) -> Any:
    return dp.zip(build(other))


@step(chain)
def zip_longest(dp: Any, other: Any) -> Any:
    return dp.zip_longest(build(other), fill_value=-1)


@step(chain)
def mux(dp: Any, other: Any) -> Any:
    return dp.mux(build(other))


@step(chain)
def mux_longest(dp: Any, other: Any) -> Any:
    return dp.mux_longest(build(other))


@step(chain)
def concat(dp: Any, other: Any) -> Any:
    return dp.concat(build(other))


@step(chain, small(1, 3), of("longest", "shortest"))
def mix(dp: Any, other: Any, weight: int, until: str) -> Any:
    return dp.mix(build(other), weights=[weight, 1], until=until)


@step(small(3, 9), flag)
def zip_with_iter(dp: Any, buffer: int, keep_key: bool) -> Any:
    others = numbers_from(200, 1000).shuffle(buffer_size=buffer)
    return (
        dp.enumerate(1000)
        .header(200 - buffer)
        .zip_with_iter(others, key_fn=lambda pair: pair[0], ref_key_fn=as_it_is, keep_key=keep_key, buffer_size=2 * 200)
    )


@step(small(3, 9), covers="iter.zip_with_iter")
def zip_with_iter_skipping(dp: Any, buffer: int) -> Any:
    others = numbers_from(40).flatmap(lambda n: [n, n] if n % 5 == 0 else [n]).shuffle(buffer_size=buffer)
    return dp.zip_with_iter(others, key_fn=lambda item: mark(item) % 50, ref_key_fn=as_it_is, on_error="skip")


@step(flag, small(7, 9))
def zip_with_map(dp: Any, keep_key: bool, keys: int) -> Any:
    letters = ps.map.SequenceWrapper("abcdefg")
    return dp.zip_with_map(letters, key_fn=lambda item: mark(item) % keys, keep_key=keep_key, on_error="skip")


@step(of(None, "left", "inner"))
def join(dp: Any, how: Any) -> Any:
    table = {"key": [*range(7 if how is None else 5)], "letter": [*"abcdefg"[: 7 if how is None else 5]]}
    rows = dp.map(lambda item: {"key": mark(item) % 7, "item": item})
    return rows.join(table, on="key", how=how, batched=False).map(lambda row: (row["item"], row["letter"]))


# Branches


@step(branches(1, 3), of(*JOINS), grows=3)
def fork(dp: Any, all_steps: Any, how: str) -> Any:
    return joined(ends(dp.fork(len(all_steps), buffer_size=AMPLE), all_steps), how)


@step(branches(2, 3, one_to_one=True), of(*IN_STEP), small(2, 4), grows=3, covers="iter.fork")
def fork_in_step(dp: Any, all_steps: Any, how: str, buffer: int) -> Any:
    return joined(ends(dp.fork(len(all_steps), buffer_size=buffer), all_steps), how)


@step(branches(1, 3), of(*JOINS), flag)
def demux(dp: Any, all_steps: Any, how: str, drop: bool) -> Any:
    count = len(all_steps)

    def classify(item: Any) -> int | None:
        return None if drop and mark(item) % 5 == 0 else mark(item) % count

    return joined(ends(dp.demux(count, classify, drop_none=drop, buffer_size=AMPLE), all_steps), how)


@step(branches(2, 3, one_to_one=True), of(*IN_STEP), small(3, 5), covers="iter.demux")
def demux_in_step(dp: Any, all_steps: Any, how: str, buffer: int) -> Any:
    count = len(all_steps)
    pipes = dp.enumerate().demux(count, lambda pair: pair[0] % count, buffer_size=buffer)
    return joined(ends(pipes, all_steps), how)


@step(branches(1, 3), of(*JOINS))
def round_robin_demux(dp: Any, all_steps: Any, how: str) -> Any:
    return joined(ends(dp.round_robin_demux(len(all_steps), buffer_size=AMPLE), all_steps), how)


@step(branches(2, 3, one_to_one=True), of(*IN_STEP), small(3, 5), covers="iter.round_robin_demux")
def round_robin_in_step(dp: Any, all_steps: Any, how: str, buffer: int) -> Any:
    return joined(ends(dp.round_robin_demux(len(all_steps), buffer_size=buffer), all_steps), how)


@step(branch(), branch(), of(*JOINS), flag, takes="fields", grows=2)
def unzip(dp: Any, first: Any, second: Any, how: str, skips: bool) -> Any:
    if skips:
        return joined(ends(dp.unzip(3, buffer_size=AMPLE, columns_to_skip=[1]), [first, second]), how)
    one, other, last = dp.unzip(3, buffer_size=AMPLE)
    return joined([*ends([one, other], [first, second]), last], how)


@step(branch(), branch(), small(0, 9), in_branch=False)
def random_split(dp: Any, first: Any, second: Any, seed: int) -> Any:
    # Each group reads the source: one after the other. No more items than `total_length` come.
    pipes = dp.random_split({"a": 0.6, "b": 0.4}, seed, total_length=10_000)
    return joined(ends(pipes, [first, second]), "concat")


# Map-style in between

IN_MAP = ("map", "batch", "concat", "zip", "unzip", "in_memory_cache", "slice", "filter", "repeat", "mix")


def with_map_steps(dp: Any, names: list[str]) -> Any:
    for name in names:
        if name == "map":
            dp = dp.map(to_list)
        elif name == "batch":
            dp = dp.batch(2)
        elif name == "concat":
            dp = dp.concat(ps.map.SequenceWrapper(range(500, 503)))
        elif name == "zip":
            dp = dp.zip(ps.map.SequenceWrapper(range(90)))
        elif name == "unzip":
            one, other = dp.map(lambda item: (item, mark(item) % 5)).unzip(2)
            dp = other.zip(one)
        elif name == "slice":
            dp = dp[1::2]
        elif name == "filter":
            dp = dp.filter(lambda item: mark(item) % 4 > 0)
        elif name == "repeat":
            dp = dp.repeat(2)
        elif name == "mix":
            dp = dp.mix(ps.map.SequenceWrapper(range(600, 605)), weights=[3, 1])
        else:
            dp = dp.in_memory_cache()
    return dp


def some_map_steps(drawer: Any) -> list[str]:
    return drawer.random.sample(IN_MAP, drawer.random.randint(0, 2))


@step(
    some_map_steps,
    flag,
    grows=2,
    covers="iter.to_map_datapipe map.to_iter_datapipe map.shuffle "
    "map.map map.batch map.concat map.zip map.unzip map.in_memory_cache map.subset map.filter map.repeat map.mix",
)
def by_index(dp: Any, names: list[str], shuffled: bool) -> Any:
    by_number = with_map_steps(dp.enumerate().to_map_datapipe(), names)
    return by_number.shuffle() if shuffled else by_number.to_iter_datapipe()


# Only at the end, under a loader: what comes in any order


@step(small(1, 5), gives=SAME, covers="iter.threadpool_map")
def unordered(dp: Any, tasks: int) -> Any:
    return dp.threadpool_map(as_it_is, scheduled_tasks=tasks, max_workers=2, ordered=False)
