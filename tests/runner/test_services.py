"""Distributed and sequential reading services, over ranks that are real processes; torchdata's other names."""

from itertools import chain

import pytest
import torch.distributed as dist

import penstock as ps
from penstock import DataLoader2, DistributedReadingService, MultiProcessingReadingService, SequentialReadingService
from penstock.registry import SHARDING_PRIORITIES
from penstock.runner import SeedGenerator
from penstock.runner.seeds import set_graph_random_seed
from ranks import run_ranks

SERVICES = {
    "distributed": "ps.DistributedReadingService(timeout=20)",
    "then in process": """ps.SequentialReadingService(
        ps.DistributedReadingService(timeout=20), ps.InProcessReadingService(prefetch_cnt=2))""",
    "then workers": """ps.SequentialReadingService(
        ps.DistributedReadingService(timeout=20), ps.MultiProcessingReadingService(num_workers=2))""",
}


def program(service: str, rest: str) -> str:
    return f"""
service = {service}
def loader(n=19):
    dp = ps.iter.IterableWrapper(range(n)).shuffle().sharding_filter().map(lambda x: x)
    return ps.DataLoader2(dp, reading_service=service)
{rest}"""


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_ranks_share_the_stream_and_the_seeds_and_end_together(tmp_path, service):
    code = """
with loader(20) as reading:
    if not rank:
        reading.seed(5)  # which is that of all, where others have none
    say([list(reading) for _ in range(3)])
with loader(19) as uneven:
    say(list(uneven))
    say(uneven.stats()["ranks"])
"""
    (even, uneven, counts), (even_1, uneven_1, counts_1) = run_ranks(tmp_path, program(service, code))
    for mine, theirs in zip(even, even_1, strict=True):
        assert sorted(mine + theirs) == list(range(20))
    assert even[0] != even[1] != even[2]
    assert len(uneven) == len(uneven_1) == 10
    assert {*uneven, *uneven_1} == {*range(19)}
    assert [counts, counts_1] == [{"repeated": 0, "dropped": 0}, {"repeated": 1, "dropped": 0}]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_all_ranks_go_on_from_one_state_or_each_from_its_own(tmp_path, service):
    code = """
with loader(20) as reading:
    reading.seed(3)
    whole, following = list(reading), list(reading)
with loader(20) as first:
    first.seed(3)
    iterator = iter(first)
    head = [next(iterator) for _ in range(4)]
    own = json.loads(json.dumps(first.state_dict(local=True)))
    state = json.loads(json.dumps(first.state_dict()))
states = [None] * ranks
dist.all_gather_object(states, own)
assert json.loads(json.dumps(ps.merge_state_dicts(states))) == state
for each in (own, state):
    with loader(20) as second:
        second.load_state_dict(each)
        say([head + list(second) == whole, list(second) == following])
with loader(20) as wrong:
    try:
        wrong.load_state_dict(states[0])
    except ValueError as error:
        say(str(error))
say(state)
"""
    said = run_ranks(tmp_path, program(service, code))
    assert [rank[:2] for rank in said] == [[[True, True]] * 2] * 2
    assert "the state is that of rank 0 of 2, and this loader's would be that of rank 1 of 2" in said[1][2]
    assert said[0][-1] == said[1][-1]
    dp = ps.iter.IterableWrapper(range(20)).shuffle().sharding_filter().map(lambda x: x)
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(0, num_shards=4)) as alone:
        alone.load_state_dict(said[0][-1])
        assert len(list(alone)) == 12


def test_ranks_draw_their_own_random_numbers_below_the_sharding_point(tmp_path):
    code = """
def orders(service):
    dp = ps.iter.IterableWrapper(range(40)).sharding_filter().map(lambda x: x // 4).shuffle()
    with ps.DataLoader2(dp, reading_service=service) as reading:
        reading.seed(1)
        return list(reading)
say(orders(ps.DistributedReadingService(timeout=20)))
two = ps.MultiProcessingReadingService(num_workers=2)
say(orders(ps.SequentialReadingService(ps.DistributedReadingService(timeout=20), two)))
"""
    (one, workers), (one_1, workers_1) = run_ranks(tmp_path, code)
    assert sorted(one) == sorted(one_1)
    assert one != one_1
    assert sorted(workers) == sorted(workers_1)
    assert workers != workers_1


def test_a_chain_that_all_ranks_would_read_whole_is_an_error(tmp_path):
    code = """
from penstock.registry import SHARDING_PRIORITIES
dp = ps.iter.IterableWrapper(range(4))
try:
    list(ps.DataLoader2(dp, reading_service=ps.DistributedReadingService(timeout=20)))
except RuntimeError as error:
    say(str(error))
for level in (SHARDING_PRIORITIES.MULTIPROCESSING, SHARDING_PRIORITIES.DISTRIBUTED):
    sharded = dp.sharding_filter(level)
    say(list(ps.DataLoader2(sharded, reading_service=ps.DistributedReadingService(timeout=20))))
meant = ps.DistributedReadingService(timeout=20, require_sharding=False)
say(list(ps.DataLoader2(dp, reading_service=meant)))
"""
    for rank, said in enumerate(run_ranks(tmp_path, code)):
        assert said[0].startswith("the chain has no sharding point for ranks, so each of the 2 ranks would read all")
        assert said[1] == said[2] == [rank, rank + 2]
        assert said[3] == [0, 1, 2, 3]


def test_distributed_without_ranks_is_an_error_that_says_what_to_do():
    if dist.is_initialized():
        dist.destroy_process_group()
    loader = DataLoader2(ps.iter.IterableWrapper([1]).sharding_filter(), reading_service=DistributedReadingService())
    with pytest.raises(RuntimeError, match="call torch.distributed.init_process_group before the chain is read"):
        list(loader)


def test_sequential_without_ranks_reads_through_its_services():
    dp = ps.iter.IterableWrapper(range(6)).sharding_filter()
    with DataLoader2(dp, reading_service=SequentialReadingService(MultiProcessingReadingService(2))) as loader:
        assert list(loader) == list(range(6))
        assert loader.state_dict()["num_shards"] == 2
    assert list(DataLoader2(dp, reading_service=SequentialReadingService())) == list(range(6))


def test_workers_do_not_read_what_is_sharded_among_ranks_only():
    dp = ps.iter.IterableWrapper(range(6)).sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
    with (
        DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as loader,
        pytest.raises(RuntimeError, match="no sharding point for workers"),
    ):
        list(loader)


def test_the_iterator_of_a_loader_pauses_at_its_limit():
    with DataLoader2(
        ps.iter.IterableWrapper(range(10)).sharding_filter(), reading_service=MultiProcessingReadingService(2)
    ) as loader:
        iterator = iter(loader)
        iterator.limit(3)
        assert list(iterator) == [0, 1, 2]
        assert list(iterator) == []
        iterator.resume()
        assert list(iterator) == [3, 4, 5]
        assert loader.state_dict()["epoch"] == 0
        iterator.limit(None)
        assert list(iterator) == [6, 7, 8, 9]
        with pytest.raises(ValueError, match="num_batches must be at least 0"):
            iterator.limit(-1)


def test_from_state_says_how_it_is_done():
    with pytest.raises(NotImplementedError, match=r"build the chain as before.*load_state_dict"):
        DataLoader2.from_state({}, None)


def test_spawned_generators_share_the_shared_seeds():
    seeds = SeedGenerator(3)
    spawned = [seeds.spawn(worker) for worker in range(3)]
    assert len({each.generate_shared_seed() for each in spawned}) == 1
    assert len({each.generate_seed() for each in spawned}) == 3
    assert seeds.spawn(2, inplace=True) is seeds
    with pytest.raises(ValueError, match="worker_id must be at least 0"):
        seeds.spawn(-1)


def test_a_graph_is_seeded_alike_above_and_apart_below_the_sharding_point():
    def orders(worker):
        above = ps.iter.IterableWrapper(range(30)).shuffle()
        below = above.sharding_filter().shuffle()
        assert set_graph_random_seed(below, SeedGenerator(5).spawn(worker)) is below
        return list(above), list(below)

    first, second = orders(0), orders(1)
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert sorted(chain(first[1])) == list(range(30))
