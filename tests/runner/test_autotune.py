"""A loader that finds its number of workers: the items and states stay those of its shards, whatever it tries."""

import random
import time
from itertools import islice, takewhile

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService, RayReadingService
from penstock.registry import SHARDING_PRIORITIES
from penstock.runner import reader

ITEMS = 120
SHARDS = 5


@pytest.fixture(autouse=True)
def _four_processors(monkeypatch):
    monkeypatch.setattr(reader, "processors", lambda: 4)


def is_kept(number):
    if number % 3 == 0:
        raise ValueError(number)
    return True


def nap(item):
    time.sleep(0.01)
    return item


CHAINS = {
    "shuffled": lambda dp: dp.shuffle().sharding_filter().shuffle(buffer_size=5).batch(2),
    "skipping": lambda dp: dp.sharding_filter().filter(is_kept, on_error="skip").flatmap(lambda x: [x, -x]),
    "dispatched": lambda dp: (
        dp.shuffle().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING).map(lambda x: x + 1)
    ),
}


def loader_of(chain, num_workers=0, autotune=False, **options):
    dp = CHAINS[chain](ps.iter.IterableWrapper(range(ITEMS)))
    service = MultiProcessingReadingService(num_workers, num_shards=SHARDS, **options)
    loader = DataLoader2(dp, reading_service=service, autotune=autotune)
    loader.seed(3)
    return loader


def restless(loader, seed, every=25):
    """Let the numbers change after each few items, whatever is measured; return those that were tried."""
    tuner, draws, tried = loader.reading_service.tuner, random.Random(seed), []

    def look(item, idle):
        tuner.workers.value, tuner.room.value = draws.randint(1, 4), draws.randint(1, 12)
        tried.append(tuner.workers.value)
        tuner._begin_window()
        tuner._late = every
        return True

    tuner._span = 0.0
    tuner._look = look
    return tried


@pytest.mark.parametrize("main_prefetch_cnt", [0, 4])
@pytest.mark.parametrize("chain", CHAINS)
@settings(max_examples=1, database=None, phases=[Phase.generate])
@given(stop=st.integers(10, 50), seed=st.integers(0, 1000))
def test_numbers_that_change_at_any_moment_change_no_item_and_no_state(chain, main_prefetch_cnt, stop, seed):
    with loader_of(chain) as fixed:
        expected, counts = [*fixed], fixed.stats()
        second = [*islice(fixed, stop)]
    with loader_of(chain, autotune=True, main_prefetch_cnt=main_prefetch_cnt) as tuned:
        tried = restless(tuned, seed)
        running = iter(tuned)
        begun = [*islice(running, stop)]
        state = tuned.state_dict()
        assert [*begun, *running] == expected
        assert len(tried) > 1
        told = tuned.stats()
        assert told.pop("workers").keys() == {"tuned"}
        assert {step: each["skipped"] for step, each in told.items()} == {
            step: each["skipped"] for step, each in counts.items()
        }
        assert [*islice(tuned, stop)] == second
        tuned.load_state_dict(state)
        assert [*begun, *tuned] == expected
    with loader_of(chain) as resumed:
        resumed.load_state_dict(state)
        assert [*begun, *resumed] == expected


def test_what_was_measured_before_shards_moved_stays_in_the_profile():
    dp = ps.iter.IterableWrapper(range(ITEMS)).sharding_filter().map(nap)
    service = MultiProcessingReadingService(num_shards=SHARDS)
    with DataLoader2(dp, reading_service=service, autotune=True, profile=True) as loader:
        tried = restless(loader, 1, every=10)
        assert [*loader] == [*range(ITEMS)]
        profile = loader.profile()
    assert len({*tried}) > 1
    nap_step = profile.in_workers[-1]
    assert nap_step.items == ITEMS
    assert nap_step.own > ITEMS * 0.01
    assert len(profile.workers) > 1


@pytest.mark.usefixtures("nothing_is_left_behind")
def test_workers_that_were_taken_back_have_ended():
    with loader_of("skipping", num_workers=4, autotune=True) as loader:
        restless(loader, 1, every=10)
        iterator = iter(loader)
        first = [*islice(iterator, 30)]
        iterator.close()  # perhaps in the middle of a change
        assert [*islice(loader, 30)] != []
    assert len(first) == 30


def test_what_is_found_is_told_and_stays_for_the_next_epoch():
    with loader_of("skipping", autotune=True) as loader:
        assert loader.tuned == "workers(num_workers=1, worker_prefetch_cnt=10): write them down"
        list(loader)
        loader.reading_service.tuner.workers.value = 3
        list(loader)
        assert loader.tuned == "workers(num_workers=3, worker_prefetch_cnt=10): write them down"
        assert loader.stats()["workers"]["tuned"] == ["num_workers=3, worker_prefetch_cnt=10"]
        assert len(loader.reading_service._reader._shards._connections) == 3
    with loader_of("skipping") as loader:
        assert loader.tuned == ""


def test_more_workers_come_while_the_program_waits_and_none_while_it_works():
    dp = ps.iter.IterableWrapper(range(3000)).sharding_filter().map(nap)

    def loader():
        service = MultiProcessingReadingService(num_shards=SHARDS)
        return DataLoader2(dp, reading_service=service, autotune=True)

    with loader() as waiting:
        tuner = waiting.reading_service.tuner
        tuner._span = tuner._seconds_at_least = 0.1
        workers = tuner.workers
        read = [*takewhile(lambda _: workers.value < 4, waiting)]
        assert read == [*range(len(read))]
        assert workers.value == 4
    with loader() as working:
        for _ in islice(working, 60):
            time.sleep(0.03)
        assert working.reading_service.tuner.workers.value == 1


def test_no_more_workers_than_shards():
    dp = ps.iter.IterableWrapper(range(40)).sharding_filter()
    service = MultiProcessingReadingService(num_workers=4, num_shards=2)
    with DataLoader2(dp, reading_service=service, autotune=True) as loader:
        assert [*loader] == [*range(40)]
        assert loader.tuned.startswith("workers(num_workers=2,")


def test_a_loader_that_has_nothing_to_find_is_an_error():
    dp = ps.iter.IterableWrapper(range(4)).sharding_filter()
    with pytest.raises(ValueError, match="InProcessReadingService has none: read through MultiProcessingReadingServ"):
        DataLoader2(dp, reading_service=InProcessReadingService(), autotune=True)
    with pytest.raises(ValueError, match="RayReadingService has none"):
        DataLoader2(dp, reading_service=RayReadingService(2), autotune=True)
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(), autotune=True)
    with pytest.raises(ValueError, match="1 rank has 1: give num_shards, such as 12"):
        list(loader)


def test_a_service_among_several_finds_its_workers():
    dp = ps.iter.IterableWrapper(range(40)).sharding_filter()
    several = ps.SequentialReadingService(MultiProcessingReadingService(num_shards=2))
    with DataLoader2(dp, reading_service=several, autotune=True) as loader:
        assert [*loader] == [*range(40)]
        assert loader.tuned.startswith("workers(num_workers=1,")
    with pytest.raises(ValueError, match="SequentialReadingService has none"):
        DataLoader2(dp, reading_service=ps.SequentialReadingService(), autotune=True)
