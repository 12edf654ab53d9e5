"""Each known mistake is found in a chain that has it, and not in the chain that its mend makes."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from loaders import loader, ranks, workers
from penstock.registry import SHARDING_PRIORITIES
from penstock.views.lints import LINTS

PROCESSORS = os.cpu_count() or 1


def numbers(n: int = 100) -> Any:
    return ps.iter.IterableWrapper(range(n))


def files(n: int = 3) -> Any:
    return ps.iter.IterableWrapper([f"{number}.tar" for number in range(n)])


def batches() -> Any:
    return files().read_parquet()


def letters() -> Any:
    return ps.map.SequenceWrapper("abc")


def branches(change: Callable[[Any], Any]) -> Any:
    first, second = numbers().fork(2)
    return change(first).zip(second)


def transforms() -> Any:
    return pytest.importorskip("torchvision.transforms.v2")


def this_file() -> Any:
    return ps.iter.IterableWrapper([__file__])


class Dropper(ps.Seeded, ps.IterDataPipe[Any]):
    def __init__(self, source: Any) -> None:
        self.source = source


CHAINS: dict[str, list[tuple[Callable[[], Any], Callable[[], Any]]]] = {
    "shuffle_after_batch": [
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().shuffle().batch(4)),
        (lambda: letters().batch(2).shuffle(), lambda: letters().shuffle().batch(2)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().batch(4).shuffle(unbatch_level=1)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().batch(4).shuffle().set_shuffle(False)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().groupby(bool).shuffle()),
    ],
    "shuffle_of_column_batches": [
        (lambda: batches().shuffle(), lambda: batches().shuffle_rows(1000)),
        (lambda: batches().filter(len).shuffle(), lambda: files().shuffle().read_parquet().shuffle()),
    ],
    "batch_of_column_batches": [
        (lambda: batches().batch(32), lambda: batches().rebatch(32)),
        (lambda: batches().sharding_filter().batch(32), lambda: batches().rows().batch(32)),
    ],
    "shuffle_of_few_files": [
        (
            lambda: files().shuffle().open_files("rb").load_from_tar(),
            lambda: files().shuffle().open_files("rb").load_from_tar().read_from_stream().shuffle(),
        ),
        (lambda: files().shuffle().read_text(), lambda: files(1000).shuffle().read_text()),
        (lambda: files(1).shuffle().read_text(), lambda: files().shuffle().read_images()),
    ],
    "shuffle_after_cycle": [
        (lambda: numbers().cycle(3).shuffle(), lambda: numbers().shuffle().cycle(3)),
        (lambda: numbers().cycle().filter(bool).shuffle(), lambda: numbers().repeat(3).shuffle()),
    ],
    "neighbours_torn_apart": [
        (
            lambda: files().open_files("rb").load_from_tar().shuffle().webdataset(),
            lambda: files().shuffle().open_files("rb").load_from_tar().webdataset().shuffle(),
        ),
    ],
    "zip_of_uneven_branches": [
        (lambda: branches(lambda dp: dp.filter(bool)), lambda: branches(lambda dp: dp.map(bool))),
        (lambda: branches(lambda dp: dp.map(str).shuffle()), lambda: numbers().filter(bool).zip(numbers())),
        (lambda: branches(lambda dp: dp.map(int, on_error="skip")), lambda: branches(lambda dp: dp.prefetch())),
    ],
    "random_order_read_by_key": [
        (
            lambda: numbers().shuffle().to_map_datapipe(lambda n: (n, n)),
            lambda: numbers().to_map_datapipe(lambda n: (n, n)).shuffle(),
        ),
    ],
    "sharding_after_labour": [
        (lambda: files().read_images().sharding_filter(), lambda: files().sharding_filter().read_images()),
        (
            lambda: numbers().threadpool_map(str).shuffle().sharding_filter(),
            lambda: numbers().threadpool_map(str).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
        ),
        (
            lambda: files().routed_decode().sharding_filter(),
            lambda: ps.map.ObjectReader(["s3://a/b"]).shuffle().sharding_filter(),
        ),
    ],
    "sharding_after_batch": [
        (
            lambda: numbers().map(str).batch(4).sharding_filter(),
            lambda: numbers().map(str).sharding_filter().batch(4),
        ),
        (
            lambda: batches().rebatch(4).map(dict).sharding_filter(),
            lambda: numbers().shuffle().batch(4).sharding_filter(),  # of indices, as a sampler gives them
        ),
    ],
    "sharding_after_cache": [
        (
            lambda: files().read_images().in_memory_cache().sharding_filter(),
            lambda: files().in_memory_cache().sharding_filter().read_images().in_memory_cache(),
        ),
    ],
    "sharding_of_unordered": [
        (
            lambda: numbers().threadpool_map(str, ordered=False).sharding_filter(),
            lambda: numbers().sharding_filter().threadpool_map(str, ordered=False),
        ),
        (
            lambda: ps.iter.FileLister(".", non_deterministic=True).sharding_filter(),
            lambda: ps.iter.FileLister(".").sharding_filter(),
        ),
    ],
    "sharded_beside_unsharded": [
        (lambda: numbers().sharding_filter().concat(numbers()), lambda: numbers().concat(numbers()).sharding_filter()),
        (
            lambda: numbers().mix(numbers().sharding_filter()),
            lambda: numbers().sharding_filter().zip(numbers(1).cycle()),
        ),
    ],
    "limit_after_sharding": [
        (lambda: numbers().sharding_filter().map(str).header(8), lambda: numbers().header(8).sharding_filter()),
        (lambda: numbers().sharding_filter().header(8), lambda: numbers().sharding_filter().header(None)),
    ],
    "work_in_main_process": [
        (lambda: numbers().to_device().batch(4), lambda: numbers().batch(4).to_device()),
        (lambda: files().fullsync().routed_decode(), lambda: files().routed_decode().fullsync()),
    ],
    "cache_of_random": [
        (lambda: numbers().shuffle().in_memory_cache(), lambda: numbers().in_memory_cache().shuffle()),
        (lambda: numbers().mix(numbers()).in_memory_cache(), lambda: numbers().shuffle().in_memory_cache().shuffle()),
        (lambda: Dropper(numbers()).map(str).in_memory_cache(), lambda: Dropper(numbers().in_memory_cache())),
    ],
    "cache_of_augmentation": [
        (
            lambda: numbers().map(transforms().RandomHorizontalFlip()).in_memory_cache(),
            lambda: numbers().in_memory_cache().map(transforms().RandomHorizontalFlip()),
        ),
        (
            lambda: (
                numbers()
                .map(transforms().Compose([transforms().Resize(8), transforms().ColorJitter()]))
                .batch(2)
                .in_memory_cache()
            ),
            lambda: numbers().map(transforms().Compose([transforms().Resize(8)])).in_memory_cache(),
        ),
    ],
    "cache_of_streams": [
        (
            lambda: files().open_files("rb").in_memory_cache(),
            lambda: files().open_files("rb").read_from_stream().in_memory_cache(),
        ),
        (
            lambda: files().open_files("rb").load_from_tar().filter(bool).to_map_datapipe(),
            lambda: files().open_files("rb").load_from_tar().routed_decode().to_map_datapipe(),
        ),
    ],
    "shuffle_of_open_files": [
        (lambda: files().open_files("rb").shuffle(), lambda: files().shuffle().open_files("rb")),
        (
            lambda: files().open_files("rb").load_from_tar().shuffle(),
            lambda: files().open_files("rb").load_from_tar().routed_decode().shuffle(),
        ),
    ],
    "text_in_place_of_names": [
        (
            lambda: ps.iter.IterableWrapper("data.csv").open_files(),
            lambda: ps.iter.IterableWrapper(["data.csv"]).open_files(),
        ),
        (
            lambda: ps.iter.IterableWrapper("a.png").read_images(),
            lambda: ps.iter.IterableWrapper("abc").shuffled_flatmap(str).write_json("{shard}.json", 8),
        ),
    ],
    "readable_once": [
        (lambda: ps.iter.IterableWrapper(n for n in range(3)), lambda: ps.iter.IterableWrapper(range(3))),
        (lambda: ps.iter.IterableWrapper(io.StringIO("a\nb")), lambda: ps.iter.IterableWrapper(itertools.count())),
    ],
    # in loaders
    "no_sharding_point": [
        (lambda: loader(numbers(), workers()), lambda: loader(numbers().sharding_filter(), workers())),
        (lambda: loader(numbers(), ranks(2)), lambda: loader(numbers(), workers(require_sharding=False))),
        (lambda: loader(numbers(), workers()), lambda: loader(ps.map.SequenceWrapper(range(9)), workers())),
        (lambda: loader(numbers(), workers()), lambda: loader(numbers(), workers(1))),
    ],
    "fewer_items_than_shards": [
        (
            lambda: loader(numbers(3).sharding_filter(), workers(4)),
            lambda: loader(numbers(4).sharding_filter(), workers(4)),
        ),
        (
            lambda: loader(ps.map.SequenceWrapper("ab"), workers(3)),
            lambda: loader(numbers(3).filter(bool).sharding_filter(), workers(4)),
        ),
        (
            lambda: loader(this_file().shard_files("text").read_text(), workers(2)),
            lambda: loader(ps.read_text(__file__), workers(1)),
        ),
        (
            lambda: loader(ps.read_images([__file__]), workers(2)),
            lambda: loader(this_file().shard_files("text", min_bytes=100).read_text(), workers(2)),
        ),
        (
            lambda: loader(this_file().sharding_filter().read_text(), workers(2)),
            lambda: loader(ps.iter.IterableWrapper(["missing"]).shard_files("csv"), workers(1)),
        ),
    ],
    "uneven_shards": [
        (
            lambda: loader(numbers().sharding_filter(), workers(2, num_shards=5)),
            lambda: loader(numbers().sharding_filter(), workers(2, num_shards=6)),
        ),
        (
            lambda: loader(numbers().sharding_filter(), ranks(4, num_shards=6)),
            lambda: loader(numbers().sharding_filter(), workers(0, num_shards=5)),
        ),
    ],
    "labour_in_this_process": [
        (
            lambda: loader(numbers().routed_decode()),
            lambda: loader(numbers().sharding_filter().routed_decode(), workers()),
        ),
        (
            lambda: loader(numbers().sharding_filter().routed_decode(), workers(0, num_shards=2)),
            lambda: loader(numbers().routed_decode().prefetch()),
        ),
        (lambda: loader(numbers().routed_decode()), lambda: loader(numbers().threadpool_map(str))),
        (
            lambda: loader(numbers().routed_decode()),
            lambda: loader(numbers().routed_decode(), ps.InProcessReadingService(prefetch_cnt=2)),
        ),
    ],
    "too_many_processes": [
        (
            lambda: loader(numbers().sharding_filter().processpool_map(str), workers()),
            lambda: loader(numbers().sharding_filter().threadpool_map(str), workers()),
        ),
        (
            lambda: loader(numbers().sharding_filter().map_pool(str, workers=PROCESSORS), workers()),
            lambda: loader(numbers().sharding_filter().processpool_map(str), workers(0)),
        ),
    ],
    "nothing_but_short_batches": [
        (
            lambda: loader(numbers(20).sharding_filter().batch(8, drop_last=True), workers(4)),
            lambda: loader(numbers(20).sharding_filter().batch(8, drop_last=True), workers(2)),
        ),
        (
            lambda: loader(numbers(20).sharding_filter().map(str).batch(8, drop_last=True), workers(0, num_shards=12)),
            lambda: loader(numbers(20).sharding_filter().batch(8), workers(4)),
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "mistaken", "mended"),
    [
        pytest.param(name, *pair, id=f"{name}-{number}")
        for name, pairs in CHAINS.items()
        for number, pair in enumerate(pairs)
    ],
)
def test_a_mistake_is_found_and_its_mend_is_not(
    name: str, mistaken: Callable[[], Any], mended: Callable[[], Any]
) -> None:
    found = {each.name: each for each in mistaken().explain().warnings}
    assert name in found
    for sentence in (found[name].what, found[name].why):
        assert sentence.endswith(".")
    assert found[name].mend
    assert not found[name].mend.endswith(".")
    assert str(found[name]) in " ".join(str(mistaken().explain()).split())
    assert name not in {each.name for each in mended().explain().warnings}


def test_every_rule_is_tested() -> None:
    assert len(CHAINS) >= 20
    assert {*CHAINS} == {*LINTS}
