"""Arguments that operators refuse, each with what its error says; whole numbers are in `tests/errors`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import Dataset, RandomSampler, SubsetRandomSampler

import penstock as ps
from penstock import iter as of_streams
from penstock import map as by_index
from penstock.registry import SHARDING_PRIORITIES

Refused = tuple[Callable[[Any], Any], type[Exception], str]

NUMBERS: Any = by_index.SequenceWrapper(range(4))
STREAM: Any = of_streams.IterableWrapper("ab")
COLUMNS: Any = ps.from_arrow(pa.table({"id": [1, 2], "x": [1, 2]}))
SCHEMA = pa.schema([("id", pa.int16()), ("text", pa.string())])
LEVELS = SHARDING_PRIORITIES


def two(one: Any, other: Any) -> Any:
    return one


def generating(item: Any) -> Iterator[Any]:
    yield item


class ActorPool:
    """What Ray's ActorPoolStrategy looks like, without Ray."""

    size = 2


class NeedsArguments:
    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def __call__(self, item: Any) -> Any:
        return item


def applied_at_two_levels(dp: Any) -> None:
    dp.apply_sharding(2, 0)
    dp.apply_sharding(2, 0, LEVELS.DISTRIBUTED)


FUNCTIONS: list[Refused] = [
    (lambda dp: dp.map(3), TypeError, "fn must be a function or another callable, and is 3"),
    (
        lambda dp: dp.map(two),
        ValueError,
        r"called with 1 arguments, .*: missing .*; for the parts .*input_col=\[0, 1\]",
    ),
    (lambda dp: dp.map(abs, input_col=[0, 1]), ValueError, "called with 2 arguments, and cannot be: too many"),
    (lambda dp: dp.map(functools.partial(two, 1, 2)), ValueError, "called with 1 arguments"),
    (lambda dp: dp.map(abs, input_col=[]), ValueError, "input_col names no column"),
    (lambda dp: dp.map(abs, output_col=1), ValueError, "output_col needs an input_col"),
    (lambda dp: dp.map(abs, 0, [0, 1]), ValueError, "must name one column, and names 2"),
    (lambda dp: dp.map(generating), TypeError, r"use \.flatmap\(fn\) where fn takes one item, \.pipe\(fn\)"),
    (lambda dp: dp.map(lambda item: item, rng=True), ValueError, "called with 2 arguments"),
    (lambda dp: dp.map(abs, rng="torch"), ValueError, "rng must be one of False, True, 'numpy'"),
    (lambda dp: dp.flatmap([1]), TypeError, "fn must be a function"),
    (lambda dp: dp.shuffled_flatmap(3), TypeError, "fn must be a function"),
    (lambda dp: dp.shuffled_flatmap(lambda: 1), ValueError, "called with 1 arguments"),
    (lambda dp: dp.pipe(3), TypeError, "fn must be a generator function, and is 3"),
    (lambda dp: dp.collate(3), TypeError, "conversion must be a function"),
    (lambda dp: dp.collate(collate_fn=3), TypeError, "collate_fn must be a function"),
    (lambda dp: dp.collate({"x": 3}), TypeError, r"conversion\['x'\] must be a function"),
    (lambda dp: dp.collate(sum, sum), ValueError, "two names for one argument"),
    (lambda dp: dp.filter(None), TypeError, "filter_fn must be a function or another callable, and is None"),
    (lambda dp: dp.filter(abs, [0, 1]), ValueError, "filter_fn will be called with 2 arguments, and cannot be"),
    (lambda dp: dp.filter(two), ValueError, r"; for the parts of an item, give input_col=\[0, 1\], or"),
    (lambda dp: dp.filter("x > 1"), TypeError, "filter_fn .*: a reader takes it, as in penstock.read_parquet"),
    (lambda dp: dp.demux(2, 7), TypeError, "classifier_fn"),
    (lambda dp: dp.groupby("key"), TypeError, "group_key_fn .* lambda row: row"),
    (lambda dp: dp.bucketbatch(1, sort_key=3), TypeError, "sort_key must be a function"),
    (lambda dp: dp.max_token_bucketize(8, len_fn=3), TypeError, "len_fn must be a function"),
    (lambda dp: dp.bucket_by_length([3], 2, "len"), TypeError, "len_fn must be a function"),
    (lambda dp: dp.lines_to_paragraphs(joiner=None), TypeError, "joiner must be a function"),
    (lambda dp: dp.zip_with_iter(STREAM, 3), TypeError, "key_fn must be a function"),
    (lambda dp: dp.zip_with_iter(STREAM, int, 3), TypeError, "ref_key_fn must be a function"),
    (lambda dp: dp.zip_with_iter(STREAM, int, int, False, 10, str.upper), ValueError, "merge_fn will be called with 2"),
    (lambda dp: dp.zip_with_map(NUMBERS, None), TypeError, "key_fn must be a function"),
    (lambda dp: dp.zip_with_map(NUMBERS, int, len), ValueError, "merge_fn will be called with 2 arguments"),
    (lambda dp: dp.threadpool_map(3), TypeError, "fn must be a function"),
    (lambda dp: dp.threadpool_map(abs, output_col=1), ValueError, "output_col needs an input_col"),
    (lambda dp: dp.threadpool_map(abs, threads=3), TypeError, "threadpool_map has no parameter 'threads'"),
    (lambda dp: dp.processpool_map(3), TypeError, "fn must be a function"),
    (lambda dp: dp.processpool_map(abs, output_col=1), ValueError, "output_col needs an input_col"),
    (lambda dp: dp.vmap(abs, randomness="some"), ValueError, "randomness must be"),
    (lambda dp: dp.on_disk_cache(5), TypeError, "filepath_fn must be a function"),
    (lambda dp: dp.on_disk_cache(str, extra_check_fn=5), TypeError, "extra_check_fn must be a function"),
    (lambda dp: dp.on_disk_cache(str).end_caching(filepath_fn=5), TypeError, "filepath_fn must be a function"),
    (lambda dp: dp.routed_decode(3), TypeError, "a handler must be a function or another callable, and is 3"),
    (lambda dp: dp.routed_decode(len), ValueError, "a handler will be called with 2 arguments, and cannot be"),
    (lambda dp: dp.routed_decode(key_fn="png"), TypeError, "key_fn must be a function"),
    (lambda dp: dp.to_map_datapipe("k"), TypeError, "key_value_fn must be a function"),
    (lambda dp: NUMBERS.map(3), TypeError, "fn must be a function or another callable"),
    (lambda dp: NUMBERS.map(abs, on_error="skip"), ValueError, "cannot be left out"),
]

SOURCES: list[Refused] = [
    (lambda dp: of_streams.Zipper(), ValueError, "Zipper needs at least one source"),
    (lambda dp: of_streams.ZipperLongest(), ValueError, "ZipperLongest needs at least one source"),
    (lambda dp: of_streams.Concater(), ValueError, "Concater needs at least one source"),
    (lambda dp: of_streams.Multiplexer(), ValueError, "Multiplexer needs at least one source"),
    (lambda dp: of_streams.MultiplexerLongest(), ValueError, "MultiplexerLongest needs at least one source"),
    (lambda dp: by_index.Zipper(), ValueError, "Zipper needs at least one source"),
    (lambda dp: by_index.Concater(), ValueError, "Concater needs at least one source"),
    (lambda dp: of_streams.SampleMultiplexer({}), ValueError, "SampleMultiplexer needs at least one source"),
    (lambda dp: of_streams.SampleMultiplexer([dp]), TypeError, "give a dict from sources to weights"),
    (lambda dp: of_streams.SampleMultiplexer({"a": 1}), TypeError, r"sources\[0\] is of type str"),
    (lambda dp: of_streams.SampleMultiplexer({dp: 0}), ValueError, r"weights\[0\] is 0"),
    (lambda dp: dp.zip(dp, iter([1])), TypeError, r"sources\[2\] is of type list_iterator: wrap it"),
    (lambda dp: dp.mux(NUMBERS), TypeError, r"sources\[1\] is of type Seq.*: convert it"),
    (lambda dp: dp.zip_with_iter(NUMBERS, int), TypeError, r"sources\[1\] is of type SequenceWrapper"),
    (lambda dp: dp.zip_with_map({1: "a"}, int), TypeError, "map_datapipe must be a map-style pipe, .* dict: wrap it"),
    (lambda dp: dp.zip_with_map(dp, int), TypeError, "must be a map-style pipe, and is of type IterableWrapper"),
    (lambda dp: of_streams.Forker(iter([1, 2]), 2), TypeError, "it can be read only once"),
    (lambda dp: NUMBERS.zip(range(2).count), TypeError, r"sources\[1\] is of type builtin"),
    (lambda dp: NUMBERS.concat(STREAM), TypeError, r"sources\[1\] is of type IterableW"),
    (lambda dp: by_index.SequenceWrapper({1, 2}), TypeError, "needs a sequence, and set has no __getitem__"),
    (lambda dp: by_index.SequenceWrapper(Dataset()), TypeError, "needs a sequence, and Dataset has no __len__"),
    (lambda dp: NUMBERS.to_iter_datapipe(3), TypeError, "not iterable"),
    (lambda dp: NUMBERS.to_iter_datapipe(iter([0])), TypeError, "list_iterator can be read only once"),
    (lambda dp: NUMBERS.to_iter_datapipe(STREAM), TypeError, r"write indices\.map"),
    (lambda dp: of_streams.Sampler(iter([1])), TypeError, "Sampler needs a source with a length, and list_iterator"),
    (lambda dp: of_streams.Sampler([1], RandomSampler, (True, 2, None, 4)), TypeError, "too many positional"),
    (lambda dp: of_streams.Sampler([1], RandomSampler, None, {"x": 1}), TypeError, "unexpected keyword argument 'x'"),
    (lambda dp: of_streams.Sampler([1], SubsetRandomSampler), TypeError, "'indices'.*called data_source or dataset"),
    (lambda dp: of_streams.Sampler([1], RandomSampler([1]), (True,)), TypeError, "is made already: give its class"),
    (lambda dp: of_streams.Sampler([1], iter([1])), TypeError, "sampler must be a sampler or its class"),
    (lambda dp: ps.from_items(3), TypeError, "needs an iterable"),
    (lambda dp: ps.from_arrow(3), TypeError, "from_arrow takes pyarrow tables and record batches"),
    (lambda dp: ps.from_pandas(3), TypeError, "from_pandas takes pandas data frames"),
    (lambda dp: ps.from_pandas(pd.DataFrame({"x": [1, "a"]})), ValueError, "column 'x', row 1: "),
    (lambda dp: ps.from_numpy([[1, 2]]), TypeError, "from_numpy takes arrays, and column 'data' is a list"),
    (lambda dp: ps.from_numpy(np.ones(2, complex)), TypeError, "column 'data': "),
    (lambda dp: ps.from_numpy({"x": np.ones(1), "y": np.ones(2)}), ValueError, "'x' has 1, 'y' has 2"),
    (lambda dp: ps.from_torch(3), TypeError, "needs a sequence"),
]

ITEMS: list[Refused] = [
    (lambda dp: dp.batch(2, False, 3), TypeError, "wrapper_class must make a batch out of a list"),
    (lambda dp: NUMBERS.batch(2, wrapper_class=3), TypeError, "wrapper_class must make a batch out of a list"),
    (lambda dp: dp.groupby(abs, group_size=5, buffer_size=3), ValueError, "from 1 to buffer_size, 3, and is 5"),
    (lambda dp: dp.groupby(abs, guaranteed_group_size=2), ValueError, "from 1 to group_size, None"),
    (lambda dp: dp.groupby(abs, guaranteed_group_size=3, group_size=2), ValueError, "from 1 to group_size, 2"),
    (lambda dp: dp.max_token_bucketize(0), ValueError, "max_token_count must be at least 1"),
    (lambda dp: dp.max_token_bucketize(8, max_len=10), ValueError, "an item of max_len, 10, fits into no batch"),
    (lambda dp: dp.max_token_bucketize(8, min_len=-1), ValueError, "min_len must be from 0 to max_len"),
    (lambda dp: dp.max_token_bucketize(8, min_len=5, max_len=2), ValueError, "min_len must be from 0 to max_len"),
    (lambda dp: dp.bucket_by_length("ab", 2), TypeError, "boundaries must be a list of numbers"),
    (lambda dp: dp.bucket_by_length([3, 3], 2), ValueError, "boundaries must rise"),
    (lambda dp: dp.bucket_by_length([3], [2]), ValueError, "one for each of the 2 buckets that 1 boundaries make"),
    (lambda dp: dp.bucket_by_length([3], [1, 0]), ValueError, "batch_size must be at least 1"),
    (lambda dp: dp.pack(4, "last_fit"), ValueError, "method must be one of 'greedy', 'first_fit', 'best_fit'"),
    (lambda dp: dp.pack(4, overlong="drop"), ValueError, "overlong must be"),
    (lambda dp: dp.pack(4, overlong="split"), ValueError, "overlong is for 'first_fit' and 'best_fit'"),
    (lambda dp: dp.pack(4, "best_fit", drop_last=True), ValueError, "drop_last is for method='greedy'"),
    (lambda dp: dp.pack(4, bos="<s>"), TypeError, "bos must be a whole number"),
    (lambda dp: dp.pack(4, eos={"a": None}), TypeError, r"eos\['a'\] must be a whole number"),
    (lambda dp: dp.pack(4, repeat_bos=True), ValueError, "repeat_bos needs bos"),
    (lambda dp: dp.pack(1, bos=1, repeat_bos=True), ValueError, "a length of at least 2"),
    (lambda dp: dp.pack({"a": 4}), ValueError, "with a length for each name, no sequence is cut: .*='first_fit' or"),
    (lambda dp: dp.pack({"a": 4}, "first_fit", overlong="split"), ValueError, "no sequence is cut"),
    (lambda dp: dp.pack({}, "first_fit"), ValueError, "give at least one name"),
    (lambda dp: dp.pack({"a": 0}, "first_fit"), ValueError, r"length\['a'\] must be at least 1"),
    (lambda dp: dp.pack({"a": "8"}, "first_fit"), TypeError, r"length\['a'\] must be a whole number"),
    (lambda dp: dp.fork(2, copy="some"), ValueError, "copy"),
    (lambda dp: dp.unzip(2, columns_to_skip=[0, 1]), ValueError, "no column is left"),
    (lambda dp: dp.unzip(2, columns_to_skip=[2]), ValueError, "columns_to_skip must be in 0 … 1, and has"),
    (lambda dp: by_index.SequenceWrapper([(1, 2)]).unzip(2, [0, 1]), ValueError, "no column is left"),
    (lambda dp: dp.mix(dp, weights=[1]), ValueError, "there are 2 sources, the first included, and 1 weights"),
    (lambda dp: dp.mix(dp, weights=[1, 0]), ValueError, r"weights\[1\] is 0: leave out"),
    (lambda dp: dp.mix(dp, weights=[-1, 1]), ValueError, r"weights\[0\] is -1"),
    (lambda dp: dp.mix(dp, weights=[1, math.inf]), ValueError, r"weights\[1\] is inf"),
    (lambda dp: dp.mix(dp, weights=[math.nan, 1]), ValueError, r"weights\[0\] is nan"),
    (lambda dp: dp.mix(dp, weights={0: 1, 1: 2}), TypeError, "weights must be a list of numbers"),
    (lambda dp: dp.mix(dp, weights="ab"), TypeError, "weights must be a list of numbers"),
    (lambda dp: dp.mix(dp, until="first"), ValueError, "until must be 'longest' or 'shortest', and is 'first'"),
    (lambda dp: NUMBERS.mix(NUMBERS, weights=[1]), ValueError, "weights"),
    (lambda dp: NUMBERS.mix(NUMBERS, weights=[1, math.inf]), ValueError, "weights"),
    (lambda dp: NUMBERS.mix(NUMBERS, weights=3), TypeError, "weights"),
    (lambda dp: dp.random_split({}, 0), ValueError, "weights must be a dict"),
    (lambda dp: dp.random_split({"a": 0}, 0), ValueError, "weights must be a dict"),
    (lambda dp: dp.random_split({"a": 1, "b": -1}, 0), ValueError, "weights must be a dict"),
    (lambda dp: dp.random_split({"a": 1}, 0, target="b"), KeyError, "target must be one of the groups .*'a'.* is 'b'"),
    (lambda dp: dp.random_split({"a": 1}, b"0"), TypeError, "a seed must be a number or text, and is b'0'"),
    (lambda dp: dp.random_split({"a": 1, "b": 1}, 0)[0].override_seed([1]), TypeError, "a seed must be a number or t"),
    (lambda dp: dp.random_split({"a": 1}, None), ValueError, "random_split needs a seed: without one, another run"),
    (lambda dp: dp.filter(bool).random_split({"a": 1}, 0), TypeError, "needs total_length"),
    (lambda dp: dp.limit(-1), ValueError, "limit"),
    (lambda dp: dp.limit(1.5), TypeError, "limit"),
    (lambda dp: dp.random_sample(-0.1), ValueError, "fraction must be"),
    (lambda dp: dp.random_sample(20), ValueError, "fraction must be"),
    (lambda dp: dp.random_sample(math.nan), ValueError, "fraction must be"),
    (lambda dp: dp.random_sample("0.5"), TypeError, "fraction must be"),
    (lambda dp: dp.random_sample(True), TypeError, "fraction must be"),
    (lambda dp: dp.sharding_filter().apply_sharding(2, -1), ValueError, "instance_id must be in 0 … 1"),
    (lambda dp: dp.sharding_filter().apply_sharding(2, 2), ValueError, "instance_id must be in 0 … 1"),
    (lambda dp: dp.sharding_round_robin_dispatch(None), NotImplementedError, "use sharding_filter"),
    (lambda dp: dp.sharding_round_robin_dispatch(LEVELS.DISTRIBUTED), NotImplementedError, "for ranks and all other"),
    (lambda dp: dp.in_memory_cache(-1), ValueError, "size must be in megabytes"),
    (lambda dp: dp.in_memory_cache("1"), TypeError, "size must be a number"),
    (lambda dp: dp.enumerate("3"), TypeError, "starting_index"),
]

MODELS: list[Refused] = [
    (lambda dp: dp.map_pool(3), TypeError, "model must be a class, or a function that returns a callable, and is 3"),
    (lambda dp: dp.map_pool(NeedsArguments), TypeError, r"made without arguments.*Give them with functools.partial"),
    (lambda dp: dp.map_pool(lambda item: item), TypeError, "a function of items is for processpool_map"),
    (lambda dp: dp.map_pool(torch.nn.Identity()), TypeError, "model is an instance of Identity"),
    (lambda dp: dp.map_pool(ActorPool, device="cpu"), TypeError, "ActorPool is neither made with a parameter device"),
    (lambda dp: dp.map_pool(functools.partial(ActorPool), device="cpu"), TypeError, "ActorPool is neither made with"),
    (lambda dp: dp.map_pool(torch.nn.Identity, device="nonsense"), RuntimeError, "nonsense"),
    (lambda dp: dp.map_pool(dict, prefetch=0), ValueError, "prefetch must be at least 1"),
    (lambda dp: dp.map_pool(NeedsArguments, batched=True), ValueError, "batched needs a batch_size"),
    (lambda dp: dp.map_pool(dict, engine="rays"), ValueError, "engine must be 'processes', .* is 'rays'"),
    (lambda dp: dp.map_pool(dict, resources_per_worker={"num_gpus": 1}), ValueError, "say engine='ray', not 'proce"),
    (lambda dp: dp.map_batches(dict), TypeError, "map_batches needs a batch_size: the chain does not say"),
    (lambda dp: COLUMNS.map_batches(dict, concurrency=2, compute=ActorPool()), ValueError, "concurrency or compute, n"),
    (lambda dp: COLUMNS.map_batches(dict, concurrency=(1, 2)), TypeError, r"is one number, and is \(1, 2\): .*=2"),
    (lambda dp: COLUMNS.map_batches(dict, compute="actors"), TypeError, r"must be an ActorPoolStrategy\(size=…\)"),
    (lambda dp: COLUMNS.map_batches(dict, fn_constructor_kwargs={"n": 1}), TypeError, "bind them to fn, as in functo"),
]

WHEN_READ: list[Refused] = [
    (lambda dp: applied_at_two_levels(dp.sharding_filter()), RuntimeError, "level by level"),
    (lambda dp: len(dp.map_batches(list, 2)), TypeError, "len"),
    (lambda dp: list(dp.async_map_batches(abs, 1)), TypeError, "can't be used in 'await' expression"),
    (lambda dp: list(dp.bucketbatch(2, sort_key=len)), TypeError, "a function of a bucket, .*; it returned 1"),
    (lambda dp: list(dp.bucketbatch(2, sort_key=lambda bucket: bucket.sort())), TypeError, "it returned None"),
    (lambda dp: list(dp.bucketbatch(2, sort_key=lambda bucket: [])), ValueError, "of 1 items and returned 0"),
    (lambda dp: list(COLUMNS.join({"id": [1], "x": [1]}, "id")), ValueError, "both have a column 'x'"),
    (lambda dp: list(COLUMNS.join({"k": [1]}, "k")), KeyError, "the batch has no columns 'k'"),
    (lambda dp: list(COLUMNS.rows().join({"k": [1]}, "k")), KeyError, "the row has no 'k'"),
    (lambda dp: list(dp.join({"id": [1]}, "id")), TypeError, "join takes column batches, and rows"),
    (lambda dp: list(STREAM.on_disk_cache(str)), RuntimeError, r"needs an end_caching\(\)"),
    (lambda dp: list(STREAM.on_disk_cache(lambda _: []).end_caching()), ValueError, "returned no path"),
    (lambda dp: list(STREAM.on_disk_cache(lambda _: [5]).end_caching()), TypeError, "a path must be"),
    (lambda dp: len(STREAM.on_disk_cache(str).end_caching()), TypeError, "len"),
    (
        lambda dp: list(dp.cycle(9).random_split({"a": 8}, 0, 8)[0]),
        ValueError,
        "gives more than 8 items, which is its tot",
    ),
    (lambda dp: len(dp.random_split({"a": 0.7, "b": 0.3}, 0)[0]), TypeError, "random, unless its weights"),
    (lambda dp: len(dp.list_files_by_s3()), TypeError, "give length="),
    (lambda dp: list(STREAM.list_files_by_s3()), ValueError, "begin with s3://: list_files_by_fsspec lists"),
    (lambda dp: list(dp.load_files_by_s3()), TypeError, "a path must be a string"),
    (lambda dp: by_index.TarReader([3])[0], TypeError, "path must be a string"),
    (lambda dp: by_index.TarReader(["missing.tar"])[0], FileNotFoundError, "missing.tar"),
    (lambda dp: by_index.TarReader(["pipe:cat a.tar"])[0], ValueError, "allow_commands"),
    (
        lambda dp: list(STREAM.map("x-{{5..3}}{}".format).shard_expand()),
        ValueError,
        r"\{5\.\.3\} is backwards: write it",
    ),
    (lambda dp: list(dp.shard_expand()), TypeError, "names are strings, and this is of type int"),
    (lambda dp: list(STREAM.read_from_http()), ValueError, "No scheme supplied"),
    (lambda dp: list(STREAM.map("gopher://{}".format).read_from_http()), ValueError, "No connection adapters"),
    (lambda dp: list(dp.read_from_http()), TypeError, "must be a string"),
    (lambda dp: dp.read_from_http(skip_on_error=True, on_error=ps.Retry(3)), ValueError, "=True is the old form of"),
    (lambda dp: NUMBERS.batch(2)[1.0], TypeError, "cannot be interpreted as an integer"),
    (lambda dp: NUMBERS.concat(NUMBERS)[1.0], TypeError, "cannot be interpreted as an integer"),
    (lambda dp: list(ps.from_arrow([pa.table({"x": [1]}), pa.table({"x": ["a"]})])), ValueError, "different schemas"),
]
"""Refused when the chain is read, or its length is asked for."""


@pytest.mark.parametrize(("make", "error", "keyword"), [*FUNCTIONS, *SOURCES, *ITEMS, *MODELS, *WHEN_READ])
def test_a_bad_argument_is_refused_and_named(make: Callable[[Any], Any], error: type[Exception], keyword: str) -> None:
    with pytest.raises(error, match=keyword):
        make(of_streams.IterableWrapper([1]))
