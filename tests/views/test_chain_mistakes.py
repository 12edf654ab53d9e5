"""Each known mistake is found in a chain that has it, and not in the chain that its mend makes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES
from penstock.views.lints.memory import MEMORY
from penstock.views.lints.order import ORDER
from penstock.views.lints.shards import SHARDS


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


def in_turn(dp: Any, change: Callable[[Any], Any] = lambda dp: dp.map(str)) -> Any:
    first, second = dp.fork(2)
    return change(first).concat(second)


def transforms() -> Any:
    return pytest.importorskip("torchvision.transforms.v2")


class Dropper(ps.Seeded, ps.IterDataPipe[Any]):
    def __init__(self, source: Any) -> None:
        self.source = source


CHAINS: dict[str, list[tuple[Callable[[], Any], Callable[[], Any]]]] = {
    "shuffle_after_batch": [
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().shuffle().batch(4)),
        (lambda: numbers().batch(4).collate().shuffle(), lambda: numbers().shuffle().batch(4).shuffle()),
        (lambda: letters().batch(2).shuffle(), lambda: letters().shuffle().batch(2)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().batch(4).shuffle(unbatch_level=1)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().batch(4).shuffle().set_shuffle(False)),
        (lambda: numbers().batch(4).shuffle(), lambda: numbers().groupby(bool).shuffle()),
    ],
    "shuffle_of_column_batches": [
        (lambda: batches().shuffle(), lambda: batches().shuffle_rows(1000)),
        (lambda: batches().filter(len).shuffle(), lambda: files().shuffle().read_parquet().shuffle()),
        (lambda: batches().shuffle(), lambda: batches().rows().shuffle()),
    ],
    "batch_of_column_batches": [
        (lambda: batches().batch(32), lambda: batches().rebatch(32)),
        (lambda: batches().sharding_filter().batch(32), lambda: batches().rows().batch(32)),
    ],
    "shuffle_of_one": [
        (lambda: numbers().shuffle(buffer_size=1), lambda: numbers().shuffle(buffer_size=2)),
        (lambda: batches().shuffle_rows(1), lambda: numbers().shuffle(buffer_size=1).set_shuffle(False)),
    ],
    "done_twice": [
        (lambda: numbers().shuffle().shuffle(), lambda: numbers().shuffle()),
        (lambda: numbers().prefetch().prefetch(), lambda: numbers().prefetch().map(str).prefetch()),
        (lambda: numbers().in_memory_cache().in_memory_cache(), lambda: numbers().repeat(2).repeat(2)),
    ],
    "shuffle_of_few_files": [
        (
            lambda: files().shuffle().open_files("rb").load_from_tar(),
            lambda: files().shuffle().open_files("rb").load_from_tar().read_from_stream().shuffle(),
        ),
        (lambda: files().shuffle().read_parquet(), lambda: files().shuffle().read_parquet().shuffle_rows(1000)),
        (lambda: files().shuffle().read_text(), lambda: files(1000).shuffle().read_text()),
        (lambda: files(1).shuffle().read_text(), lambda: files().shuffle().read_images()),
    ],
    "shuffle_after_cycle": [
        (lambda: numbers().cycle(3).shuffle(), lambda: numbers().shuffle().cycle(3)),
        (lambda: numbers().cycle().filter(bool).shuffle(), lambda: numbers().repeat(3).shuffle()),
        (lambda: numbers().cycle().shuffle(), lambda: numbers().cycle().mix(numbers().cycle()).shuffle()),
    ],
    "neighbours_torn_apart": [
        (
            lambda: files().open_files("rb").load_from_tar().shuffle().webdataset(),
            lambda: files().shuffle().open_files("rb").load_from_tar().webdataset().shuffle(),
        ),
        (
            lambda: files().open_files("rb").load_from_tar().sharding_filter().webdataset(),
            lambda: files().sharding_filter().open_files("rb").load_from_tar().webdataset(),
        ),
    ],
    "zip_of_uneven_branches": [
        (lambda: branches(lambda dp: dp.filter(bool)), lambda: branches(lambda dp: dp.map(bool))),
        (lambda: branches(lambda dp: dp.map(str).shuffle()), lambda: numbers().filter(bool).zip(numbers())),
        (lambda: branches(lambda dp: dp.map(int, on_error="skip")), lambda: branches(lambda dp: dp.prefetch())),
    ],
    "read_twice_at_once": [
        (lambda: (lambda dp: dp.zip(dp))(numbers()), lambda: branches(lambda dp: dp)),
        (
            lambda: (lambda dp: numbers().zip(dp.map(str), dp.batch(1)))(numbers().shuffle()),
            lambda: (lambda dp: dp.shuffle().zip(dp.to_iter_datapipe()))(ps.map.SequenceWrapper(range(9))),
        ),
    ],
    "random_order_read_by_key": [
        (
            lambda: numbers().shuffle().to_map_datapipe(lambda n: (n, n)),
            lambda: numbers().to_map_datapipe(lambda n: (n, n)).shuffle(),
        ),
    ],
    "length_lost": [
        (lambda: numbers().set_length(7).filter(bool), lambda: numbers().filter(bool).set_length(7)),
        (lambda: numbers().set_length(7).filter(bool), lambda: numbers().set_length(7).filter(bool).set_length(5)),
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
            lambda: numbers().map(str).batch(4).unbatch().sharding_filter(),
        ),
        (
            lambda: numbers().map(str).batch(4).filter(bool).sharding_filter(),
            lambda: numbers().shuffle().batch(4).sharding_filter(),  # of indices, as a sampler gives them
        ),
        (lambda: numbers().map(str).batch(4).sharding_filter(), lambda: letters().batch(2).shuffle().sharding_filter()),
    ],
    "sharding_after_cache": [
        (
            lambda: files().read_images().in_memory_cache().sharding_filter(),
            lambda: files().in_memory_cache().sharding_filter().read_images().in_memory_cache(),
        ),
    ],
    "sharding_twice": [
        (lambda: numbers().sharding_filter().map(str).sharding_filter(), lambda: numbers().sharding_filter()),
        (
            lambda: numbers().sharding_filter().sharding_filter(),
            lambda: (
                numbers()
                .sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
                .sharding_filter(SHARDING_PRIORITIES.MULTIPROCESSING)
            ),
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
            lambda: numbers().sharding_filter().zip(numbers()),
            lambda: numbers().sharding_filter().zip(numbers().sharding_filter()),
        ),
        (
            lambda: numbers().mix(numbers().sharding_filter()),
            lambda: numbers().sharding_filter().zip(numbers(1).cycle()),
        ),
    ],
    "limit_after_sharding": [
        (lambda: numbers().sharding_filter().map(str).header(8), lambda: numbers().header(8).sharding_filter()),
        (lambda: numbers().sharding_filter().header(8), lambda: numbers().sharding_filter().header(None)),
        (lambda: numbers().sharding_filter().header(8), lambda: numbers().sharding_filter().cycle().header(8)),
    ],
    "work_in_main_process": [
        (lambda: numbers().to_device().batch(4), lambda: numbers().batch(4).to_device()),
        (lambda: files().fullsync().routed_decode(), lambda: files().routed_decode().fullsync()),
        (lambda: numbers().pin_memory().shuffle(), lambda: numbers().to_device().map(torch.as_tensor)),
    ],
    "pinned_twice": [
        (lambda: numbers().pin_memory().to_device(), lambda: numbers().to_device()),
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
    "cache_in_one_branch": [
        (
            lambda: branches(lambda dp: dp.in_memory_cache()),
            lambda: ps.iter.Zipper(*numbers().in_memory_cache().fork(2)),
        ),
        (
            lambda: branches(lambda dp: dp.map(str).in_memory_cache()),
            lambda: branches(lambda dp: dp.map(str)).in_memory_cache(),
        ),
    ],
    "end_that_never_comes": [
        (lambda: numbers().cycle().in_memory_cache(), lambda: numbers().in_memory_cache().cycle()),
        (
            lambda: ps.iter.IterableWrapper(itertools.count()).enumerate().to_map_datapipe(),
            lambda: ps.iter.IterableWrapper(itertools.count()).header(9).enumerate().to_map_datapipe(),
        ),
        (lambda: numbers().cycle().batch(3).in_memory_cache(), lambda: numbers().cycle(3).in_memory_cache()),
        (lambda: numbers().cycle().in_memory_cache(), lambda: numbers().cycle().in_memory_cache(size=1)),
    ],
    "unbounded_buffer": [
        (
            lambda: numbers().zip_with_iter(numbers(), int, buffer_size=None),
            lambda: numbers().zip_with_iter(numbers(), int),
        ),
        (
            lambda: ps.iter.Zipper(*numbers().demux(2, bool, buffer_size=-1)),
            lambda: ps.iter.Zipper(*numbers().demux(2, bool)),
        ),
    ],
    "branches_read_in_turn": [
        (lambda: in_turn(numbers(1001)), lambda: in_turn(numbers(1000))),
        (lambda: in_turn(numbers().cycle()), lambda: in_turn(numbers(1001), lambda dp: dp.header(9))),
    ],
    "shuffle_of_open_files": [
        (lambda: files().open_files("rb").shuffle(), lambda: files().shuffle().open_files("rb")),
        (
            lambda: files().open_files("rb").load_from_tar().shuffle(),
            lambda: files().open_files("rb").load_from_tar().routed_decode().shuffle(),
        ),
        (lambda: files().open_files("rb").shuffle(), lambda: files().load_files_by_s3().shuffle()),
    ],
    "text_in_place_of_names": [
        (
            lambda: ps.iter.IterableWrapper("data.csv").open_files(),
            lambda: ps.iter.IterableWrapper(["data.csv"]).open_files(),
        ),
        (
            lambda: ps.iter.IterableWrapper("s3://a/b").list_files_by_s3(),
            lambda: ps.iter.IterableWrapper("abc").map(str.upper),
        ),
        (
            lambda: ps.iter.IterableWrapper("a.png").read_images(),
            lambda: ps.iter.IterableWrapper("abc").shuffled_flatmap(str).write_json("{shard}.json", 8),
        ),
    ],
    "readable_once": [
        (lambda: ps.iter.IterableWrapper(n for n in range(3)), lambda: ps.iter.IterableWrapper(range(3))),
        (lambda: ps.iter.IterableWrapper(io.StringIO("a\nb")), lambda: ps.iter.IterableWrapper(itertools.count())),
        (
            lambda: ps.iter.IterableWrapper(iter([1, 2]), deepcopy=False),
            lambda: ps.iter.IterableWrapper(iter([1, 2])),
        ),
    ],
    "fewer_items_than_workers": [
        (
            lambda: numbers().threadpool_map(str, scheduled_tasks=4, max_workers=8),
            lambda: numbers().threadpool_map(str, scheduled_tasks=16, max_workers=8),
        ),
        (
            lambda: numbers().processpool_map(str, workers=4, prefetch=2),
            lambda: numbers().processpool_map(str, prefetch=2),
        ),
    ],
}


@pytest.mark.filterwarnings("ignore:with buffer_size=-1")
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
    rules = [rule.__name__ for rule in (*ORDER, *SHARDS, *MEMORY)]
    assert len(rules) >= 20
    assert sorted(CHAINS) == sorted(rules)
