"""Whole numbers, and what passes for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import from_arrow
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.map import SequenceWrapper, TarReader
from penstock.registry import expect_whole

source: Any = IterableWrapper([("a", "b")])
rows: Any = from_arrow(pa.table({"x": [1]}))
GIVEN_WHOLE_NUMBERS = {
    "async_map_batches": lambda n: source.async_map_batches(abs, n),
    "async_map_batches, at once": lambda n: source.async_map_batches(abs, 1, max_concurrency=n),
    "batch": lambda n: source.batch(n),
    "bucketbatch": lambda n: source.bucketbatch(2, batch_num=n),
    "bucketbatch, buckets": lambda n: source.bucketbatch(2, bucket_num=n),
    "cycle": lambda n: source.cycle(n),
    "dataframe": lambda n: source.dataframe(n),
    "decompress": lambda n: source.decompress(max_bytes=n),
    "demux": lambda n: source.demux(n, len),
    "fork": lambda n: source.fork(n),
    "fork, buffer": lambda n: source.fork(2, n),
    "from_arrow": lambda n: from_arrow(pa.table({}), n),
    "groupby": lambda n: source.groupby(len, buffer_size=n),
    "groupby, group": lambda n: source.groupby(len, group_size=n),
    "groupby, least": lambda n: source.groupby(len, group_size=2, guaranteed_group_size=n),
    "header": lambda n: source.header(n),
    "list_row_groups": lambda n: source.list_row_groups(prefetch=n),
    "load_files_by_s3": lambda n: source.load_files_by_s3(workers=n),
    "load_files_by_s3, bytes": lambda n: source.load_files_by_s3(max_bytes=n),
    "map-style batch": lambda n: SequenceWrapper("ab").batch(n),
    "map_batches": lambda n: source.map_batches(list, n),
    "map_batches, concurrency": lambda n: rows.map_batches(dict, concurrency=n),
    "map_pool": lambda n: source.map_pool(dict, workers=n),
    "map_pool, batch": lambda n: source.map_pool(dict, batch_size=n),
    "map_pool, prefetch": lambda n: source.map_pool(dict, prefetch=n),
    "max_token_bucketize, buffer": lambda n: source.max_token_bucketize(8, buffer_size=n),
    "pack": lambda n: source.pack(n),
    "pack, buffer": lambda n: source.pack(4, "best_fit", buffer_size=n),
    "prefetch": lambda n: source.prefetch(n),
    "processpool_map": lambda n: source.processpool_map(abs, workers=n),
    "processpool_map, prefetch": lambda n: source.processpool_map(abs, prefetch=n),
    "random_split": lambda n: source.random_split({"a": 1}, 0, n),
    "read_from_stream": lambda n: source.read_from_stream(n),
    "read_images": lambda n: source.read_images(workers=n),
    "read_parquet": lambda n: source.read_parquet(batch_size=n),
    "read_parquet, prefetch": lambda n: source.read_parquet(prefetch=n),
    "read_videos": lambda n: source.read_videos(frames=n),
    "read_videos, stride": lambda n: source.read_videos(frames=1, stride=n),
    "readlines": lambda n: source.readlines(skip_lines=n),
    "rebatch": lambda n: source.rebatch(n),
    "repeat": lambda n: source.repeat(n),
    "round_robin_demux": lambda n: source.round_robin_demux(n),
    "set_length": lambda n: source.set_length(n),
    "shard_files": lambda n: source.shard_files("csv", min_bytes=n),
    "shuffle": lambda n: source.shuffle(buffer_size=n),
    "shuffle_rows": lambda n: source.shuffle_rows(n),
    "shuffled_flatmap": lambda n: source.shuffled_flatmap(list, buffer_size=n),
    "TarReader": lambda n: TarReader([], workers=n),
    "threadpool_map": lambda n: source.threadpool_map(abs, max_workers=n),
    "threadpool_map, scheduled": lambda n: source.threadpool_map(abs, scheduled_tasks=n),
    "unbatch": lambda n: source.unbatch(n),
    "unzip": lambda n: source.unzip(n),
    "write_csv": lambda n: source.write_csv("x", n),
    "write_parquet, groups": lambda n: source.write_parquet("x", rows_per_group=n),
    "write_tar": lambda n: source.write_tar("x", n),
    "write_tar, bytes": lambda n: source.write_tar("x", max_bytes=n),
    "zip_with_iter": lambda n: source.zip_with_iter(source, len, buffer_size=n),
}


LEAST = {
    **dict.fromkeys(["cycle", "header", "random_split", "read_images", "readlines", "set_length"], 0),
    **dict.fromkeys(["fork, buffer", "unbatch"], -1),
}
"""The least number of each, where it is not 1."""


@pytest.mark.parametrize("name", GIVEN_WHOLE_NUMBERS)
def test_what_is_no_whole_number_or_below_the_least_is_refused_by_name(name: str) -> None:
    make = GIVEN_WHOLE_NUMBERS[name]
    for wrong in (1.5, "1", True):
        with pytest.raises(TypeError, match=rf"^\w+ must be a whole number(, or \"auto\")?, and is {wrong!r}$"):
            make(wrong)
    make(np.int64(1))
    with pytest.raises(ValueError, match=rf"^\w+ must be at least {LEAST.get(name, 1)}(, or \"auto\")?, and is -2$"):
        make(np.int64(-2))


def test_a_word_may_pass_for_a_number() -> None:
    expect_whole("n", "auto", or_word="auto")
    with pytest.raises(TypeError, match="n must be a whole number, or \"auto\", and is 'aut'"):
        expect_whole("n", "aut", or_word="auto")
    with pytest.raises(TypeError, match="n must be a whole number, and is 'auto'"):
        expect_whole("n", "auto")
