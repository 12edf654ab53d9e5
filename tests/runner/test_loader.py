"""DataLoader2 and its reading services: what comes out, in which order, epoch after epoch."""

import copy
import csv
import gc
import json
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import forkserver

import numpy as np
import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchWrapper

import penstock as ps
from passing import Passing
from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService
from penstock.registry import seed_graph
from penstock.workers.processes import context_for

SERVICES = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "in process, prefetching": lambda: InProcessReadingService(prefetch_cnt=2),
    "no worker": lambda: MultiProcessingReadingService(0),
    "one worker": lambda: MultiProcessingReadingService(1),
    "two workers": lambda: MultiProcessingReadingService(2),
    "two workers, no prefetching": lambda: MultiProcessingReadingService(2, worker_prefetch_cnt=0, main_prefetch_cnt=0),
    "three workers": lambda: MultiProcessingReadingService(3, worker_prefetch_cnt=2, main_prefetch_cnt=1),
}

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
here_and_by_workers = pytest.mark.parametrize(
    "service", [SERVICES["none"], SERVICES["two workers"]], ids=["here", "workers"]
)


def numbers(n=20):
    return ps.iter.IterableWrapper(range(n))


def shuffled_batches():
    return numbers(23).shuffle(buffer_size=7).sharding_filter().map(lambda x: x * 10).shuffle(buffer_size=4).batch(3)


def flat(batches):
    return [item for batch in batches for item in batch]


def test_seed_begins_again_with_the_first_epoch():
    loader = DataLoader2(shuffled_batches())
    loader.seed(5)
    first = list(loader)
    list(loader)
    loader.seed(5)
    assert list(loader) == first


def test_torchs_generator_seeds_a_loader_that_has_no_seed():
    def one():
        torch.manual_seed(3)
        return list(DataLoader2(shuffled_batches()))

    assert one() == one()


def test_shards_are_taken_in_turn_and_uneven_ends_are_kept():
    dp = numbers(8).sharding_filter().map(lambda x: (x, os.getpid()))
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(3)) as loader:
        items = list(loader)
    assert [x for x, _ in items] == list(range(8))
    pids = [pid for _, pid in items]
    assert len(set(pids)) == 3
    assert os.getpid() not in pids
    assert all(pid == pids[x % 3] for x, pid in items)


@every_service
def test_break_and_iterate_again(service):
    with DataLoader2(numbers(500).sharding_filter().map(np.full(1000, 1).__mul__), reading_service=service()) as loader:
        for taken in (0, 1, 5, 40):
            seen = []
            for item in loader:
                if len(seen) == taken:
                    break
                seen.append(int(item[0]))
            assert seen == list(range(taken))
        assert [int(item[0]) for item in loader] == list(range(500))


@every_service
def test_a_new_iterator_replaces_the_older(service):
    with DataLoader2(numbers().sharding_filter(), reading_service=service()) as loader:
        older = iter(loader)
        assert next(older) == 0
        newer = iter(loader)
        assert next(newer) == 0
        here = r"test_loader\.py, line \d+: a loader reads one epoch at a time"
        with pytest.raises(RuntimeError, match=rf"a DataLoader2 was replaced by a newer one, by [^ ]*{here}"):
            next(older)
        assert list(newer) == list(range(1, 20))


def test_the_loader_reads_a_copy_and_leaves_the_users_chain_alone():
    dp = numbers().sharding_filter()
    mine = iter(dp)
    next(mine)
    with DataLoader2(dp) as one, DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as two:
        assert list(zip(one, two, strict=True)) == [(n, n) for n in range(20)]
    assert next(mine) == 1


def test_the_copy_shares_the_items():
    items = [bytearray(1000)]
    loader = DataLoader2(ps.iter.IterableWrapper(items, deepcopy=False))
    assert next(iter(loader)) is items[0]


@pytest.mark.parametrize("read", ["by workers", "in a pool"])
def test_processes_have_the_environment_of_the_moment_they_are_started(read, monkeypatch):
    def told(name):
        return os.environ.get(name)

    def values():
        chain = ps.iter.IterableWrapper(["PENSTOCK_TOLD"]).sharding_filter()
        if read == "in a pool":
            return list(chain.processpool_map(told, workers=1))
        with DataLoader2(chain.map(told), reading_service=MultiProcessingReadingService(1)) as loader:
            return list(loader)

    monkeypatch.setenv("PENSTOCK_TOLD", "before")
    assert values() == ["before"]
    monkeypatch.setenv("PENSTOCK_TOLD", "later")
    assert values() == ["later"]
    monkeypatch.delenv("PENSTOCK_TOLD")
    assert values() == [None]


class Numbers:
    """Items that say which copy of them is read."""

    def __iter__(self):
        return iter([(os.getpid(), id(self))] * 8)


def test_all_shards_of_a_worker_share_the_items():
    chain = ps.iter.IterableWrapper(Numbers(), deepcopy=False).sharding_filter()
    service = MultiProcessingReadingService(2, num_shards=4)
    with DataLoader2(chain, reading_service=service) as loader:
        copies = {*loader}
    assert len(copies) == len({process for process, _ in copies}) == 2


def test_adapters_change_the_chain_once_in_their_order():
    loader = DataLoader2(numbers(4), datapipe_adapter_fn=[lambda dp: dp.map(lambda x: x + 1), lambda dp: dp.batch(2)])
    assert list(loader) == list(loader) == [[1, 2], [3, 4]]
    assert list(DataLoader2(numbers(2), lambda dp: dp.map(str))) == ["0", "1"]


def test_the_chain_of_a_loader_is_what_was_given_as_the_adapters_changed_it():
    for given in (numbers(3).batch(2), TorchWrapper(range(3)).batch(2), ps.map.SequenceWrapper("abc")):
        loader = DataLoader2(given)
        items = [*loader]
        assert type(loader.datapipe) is type(given)
        assert loader.datapipe is not given
        assert [*loader.datapipe] == items == [*given]
    loader = DataLoader2(TorchWrapper(range(3)), lambda dp: dp.batch(2))
    assert type(loader.datapipe) is type(TorchWrapper([]).batch(2))
    assert [*loader] == [[0, 1], [2]]
    with pytest.raises(TypeError, match="a DataLoader2 reads a chain of pipes, and this is of type NoneType"):
        DataLoader2(numbers(3), lambda dp: None)


def test_what_is_changed_in_the_chain_of_a_loader_is_read():
    loader = DataLoader2(TorchWrapper(range(6)).shuffle().sharding_filter(), None, MultiProcessingReadingService(1))
    loader.datapipe.source_datapipe.set_shuffle(False)
    with loader:
        assert [*loader] == [0, 1, 2, 3, 4, 5]


def test_a_loader_has_its_adapters():
    def doubled(dp):
        return dp.map(lambda x: 2 * x)

    assert DataLoader2(numbers()).datapipe_adapter_fns is None
    assert DataLoader2(numbers(), doubled).datapipe_adapter_fns == [doubled]
    assert DataLoader2(numbers(), iter([doubled, doubled])).datapipe_adapter_fns == [doubled, doubled]


def test_a_loader_tells_which_iterator_is_valid():
    loader = DataLoader2(numbers(3))
    assert loader.valid_iterator_id is None
    first = iter(loader)
    assert loader.valid_iterator_id == first.iterator_id == 0
    second = iter(loader)
    assert loader.valid_iterator_id == second.iterator_id == 1
    with pytest.raises(RuntimeError):
        next(first)
    assert [*second] == [0, 1, 2]
    assert loader.valid_iterator_id == 1


def test_workers_need_a_sharding_point_and_the_error_says_where():
    loader = DataLoader2(numbers().shuffle().map(str), reading_service=MultiProcessingReadingService(2))
    with pytest.raises(RuntimeError, match=r"(?s)no sharding point.*right after IterableWrapper\(range\(0, 20\)\)"):
        next(iter(loader))


def test_that_every_worker_reads_all_can_be_asked_for():
    service = MultiProcessingReadingService(2, require_sharding=False)
    with DataLoader2(numbers(3), reading_service=service) as loader:
        assert list(loader) == [0, 0, 1, 1, 2, 2]


def test_init_fn_runs_once_and_reset_fn_every_epoch_in_each_worker():
    def init(dp, info):
        return dp.map(lambda x: (info.num_workers, info.worker_id, x))

    def reset(dp, info, seeds):
        assert isinstance(seeds.generate_seed(), int)
        return dp.map(lambda item: (*item, "reset"))

    service = MultiProcessingReadingService(2, worker_init_fn=init, worker_reset_fn=reset)
    with DataLoader2(numbers(4).sharding_filter(), reading_service=service) as loader:
        for _ in range(2):
            assert list(loader) == [(2, x % 2, x, "reset") for x in range(4)]


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_reset_fn_adds_is_seeded_and_resumes(workers):
    def made(seed):
        service = MultiProcessingReadingService(
            workers, num_shards=2, worker_reset_fn=lambda dp, *_: dp.shuffle().map(lambda x: x + 100)
        )
        loader = DataLoader2(numbers(20).sharding_filter(), reading_service=service)
        loader.seed(seed)
        return loader

    with made(3) as loader:
        epochs = [list(loader) for _ in range(3)]
    assert sorted(epochs[0]) == sorted(epochs[2]) == [*range(100, 120)]
    assert epochs[0] != epochs[1] != epochs[2]
    with made(3) as loader:
        assert list(loader) == epochs[0]
        state = loader.state_dict()
        items = iter(loader)
        begun = [next(items) for _ in range(7)]
        within = loader.state_dict()
    with made(4) as loader:
        loader.load_state_dict(state)
        assert [list(loader), list(loader)] == epochs[1:]
        loader.load_state_dict(within)
        assert [begun + list(loader), list(loader)] == epochs[1:]


def test_seeds_that_a_reset_fn_sets_are_left_alone():
    def read(**how):
        service = MultiProcessingReadingService(0, num_shards=2, **how)
        with DataLoader2(numbers(30).shuffle().sharding_filter(), reading_service=service) as loader:
            loader.seed(3)
            return list(loader)

    def seeded(dp, info, seeds):
        seed_graph(dp, 9)
        return dp

    assert read(worker_reset_fn=lambda dp, *_: dp) == read() != read(worker_reset_fn=seeded)


def test_what_is_drawn_from_global_generators_is_the_same_on_any_number_of_workers_and_after_resuming():
    def draw(x):
        return x, random.random(), float(np.random.rand()), torch.rand(()).item()

    def loader(workers):
        dp = numbers(30).shuffle().sharding_filter().shuffle(buffer_size=4).map(draw).batch(2)
        made = DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, num_shards=5))
        made.seed(1)
        return made

    with loader(1) as whole:
        epochs = [list(whole) for _ in range(2)]
    drawn = [number for epoch in epochs for batch in epoch for item in batch for number in item[1:]]
    assert len({*drawn}) == len(drawn) == 180
    for workers in (0, 3):
        with loader(workers) as other:
            assert [list(other) for _ in range(2)] == epochs
    for taken, workers in ((0, 2), (1, 0), (7, 2), (12, 0), (15, 2)):
        with loader(workers) as stopped:
            running = iter(stopped)
            assert [next(running) for _ in range(taken)] == epochs[0][:taken]
            state = json.loads(json.dumps(stopped.state_dict()))
        with loader(2 - workers) as resumed:
            resumed.load_state_dict(state)
            assert list(resumed) == epochs[0][taken:]
            assert list(resumed) == epochs[1]


class WithADraw(Passing):
    """Runs again from its start when it resumes."""

    def __iter__(self):
        for item in self.source:
            yield item, random.random()


@pytest.mark.parametrize(
    ("made", "workers"),
    [
        (lambda: WithADraw(numbers(20)), 0),
        (lambda: WithADraw(numbers(20).map(drawn)).map(drawn), 0),
        (lambda: WithADraw(numbers(20).map(drawn)).map(drawn), 2),
        (lambda: WithADraw(WithADraw(numbers(20))).filter(lambda pair: pair[0][0] % 3).batch(2), 0),
        (lambda: WithADraw(numbers(20).shuffle(buffer_size=6)).batch(3).map(drawn), 0),
    ],
)
def test_an_own_operator_draws_from_global_generators_after_resuming_as_without_a_stop(made, workers):
    loader = DataLoader2(made(), reading_service=MultiProcessingReadingService(workers, num_shards=1))
    loader.seed(1)
    running, states = iter(loader), []
    items = []
    for item in running:
        items.append(item)
        states.append(loader.state_dict())
    for taken in (1, 3, 5):
        loader.load_state_dict(states[taken - 1])
        assert list(loader) == items[taken:]
    loader.shutdown()


def drawn(item):
    return item, random.random()


def test_the_programs_generators_stay_as_they_were():
    def draws():
        return random.random(), float(np.random.rand()), torch.rand(()).item()

    def seed():
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    seed()
    expected = [draws() for _ in range(6)]
    loader = DataLoader2(numbers(6).map(lambda x: draws()))
    seed()
    loader.seed(1)
    assert [draws() for _ in loader] == expected
    failing = DataLoader2(numbers(6).map(lambda x: draws() and 1 // x))
    failing.seed(1)
    seed()
    with pytest.raises(ZeroDivisionError):
        list(failing)
    assert draws() == expected[0]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_start_method(method):
    service = MultiProcessingReadingService(2, multiprocessing_context=method)
    with DataLoader2(numbers(6).sharding_filter().map(lambda x: -x), reading_service=service) as loader:
        assert list(loader) == [-x for x in range(6)]


def test_a_fork_server_imports_the_modules_of_the_program_before_ours(monkeypatch):
    monkeypatch.setattr(forkserver._forkserver, "_preload_modules", ["__main__", "json"])
    for _ in range(2):
        context_for("forkserver", "penstock.runner.workers.worker")
        wanted = ["json", "penstock_server", "penstock.runner.workers.worker", "penstock_server.frozen"]
        assert forkserver._forkserver._preload_modules == wanted


def test_the_collectors_of_workers_pass_over_what_their_server_imported():
    def is_collected(_):
        from penstock.runner.workers import worker

        return gc.isenabled(), any(each is vars(worker) for each in gc.get_objects())

    service = MultiProcessingReadingService(2)
    with DataLoader2(numbers(6).sharding_filter().map(is_collected), reading_service=service) as loader:
        assert [*loader] == [(True, False)] * 6


def test_a_loader_that_was_shut_down_reads_no_more():
    loader = DataLoader2(numbers().sharding_filter(), reading_service=MultiProcessingReadingService(2))
    running = iter(loader)
    next(running)
    loader.shutdown()
    loader.shutdown()
    with pytest.raises(RuntimeError, match="was shut down"):
        iter(loader)
    with pytest.raises(RuntimeError, match="has ended: the loader was shut down, by shutdown"):
        next(running)


def shuffled_shards(workers):
    service = MultiProcessingReadingService(workers, num_shards=2)
    loader = DataLoader2(numbers(12).shuffle().sharding_filter(), reading_service=service)
    loader.seed(0)
    return loader


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_shut_down_between_epochs_has_a_state(workers):
    with shuffled_shards(workers) as loader:
        epochs = [list(loader) for _ in range(2)]
    with shuffled_shards(workers) as loader:
        assert list(loader) == epochs[0]
    with shuffled_shards(workers) as resumed:
        resumed.load_state_dict(loader.state_dict())
        assert list(resumed) == epochs[1]


def test_a_loader_is_not_shut_down_while_it_is_read():
    def shut_down():
        try:
            loader.shutdown()
        except (RuntimeError, ValueError):
            return True
        return False

    refused = []
    loader = DataLoader2(numbers(3).map(lambda item: refused.append(shut_down()) or item))
    assert list(loader) == [0, 1, 2]
    assert refused == [True] * 3
    assert not shut_down()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_copy_of_a_loader_reads_on_its_own(workers):
    with shuffled_shards(workers) as loader:
        list(loader)
        with copy.deepcopy(loader) as other:
            assert list(other) == list(loader)


def test_a_copy_of_a_loader_goes_on_from_its_loaded_state():
    stopped, resumed = (DataLoader2(numbers(8).shuffle().sharding_filter().map(abs)) for _ in range(2))
    iterator = iter(stopped)
    next(iterator)
    resumed.load_state_dict(stopped.state_dict())
    rest = [*iterator]
    assert [*copy.deepcopy(resumed)] == [*pickle.loads(pickle.dumps(resumed))] == [*resumed] == rest


@pytest.mark.parametrize("taken", [0, 5])
@every_service
def test_a_state_goes_on_with_any_number_of_workers_and_any_prefetching(service, taken):
    def loader(service):
        made = DataLoader2(shuffled_batches(), reading_service=service)
        made.seed(9)
        return made

    with loader(service()) as stopped:
        running = iter(stopped)
        begun = [next(running) for _ in range(taken)]
        state = json.loads(json.dumps(stopped.state_dict()))
    with loader(MultiProcessingReadingService(0, num_shards=state["num_shards"])) as whole:
        first, second = list(whole), list(whole)
    assert begun == first[:taken]
    for other in (None, MultiProcessingReadingService(0), MultiProcessingReadingService(3, main_prefetch_cnt=0)):
        with DataLoader2(shuffled_batches(), reading_service=other) as resumed:
            resumed.load_state_dict(state)
            assert list(resumed) == first[taken:]
            assert list(resumed) == second


@pytest.mark.parametrize("num_shards", [1, 5, 12])
def test_the_order_follows_from_the_number_of_shards_and_not_from_that_of_the_workers(num_shards):
    def epochs(num_workers):
        service = MultiProcessingReadingService(num_workers, num_shards=num_shards)
        with DataLoader2(shuffled_batches(), reading_service=service) as loader:
            loader.seed(3)
            return [list(loader) for _ in range(2)]

    expected = epochs(0)
    assert sorted(flat(expected[0])) == [x * 10 for x in range(23)]
    for num_workers in (1, 2, 3, 5):
        assert epochs(num_workers) == expected


def test_a_state_with_several_shards_of_a_chain_without_a_sharding_point_is_refused():
    service = MultiProcessingReadingService(0, num_shards=2, require_sharding=False)
    state = DataLoader2(numbers(), reading_service=service).state_dict()
    with pytest.raises(RuntimeError, match="no sharding point for shards, so each of the 2 shards"):
        DataLoader2(numbers()).load_state_dict(state)


def test_a_state_of_another_way_of_reading_is_refused():
    class Doubling(InProcessReadingService):
        def initialize(self, datapipe):
            return super().initialize(datapipe).repeat(2)

    state = DataLoader2(numbers(), reading_service=Doubling()).state_dict()
    with pytest.raises(ValueError, match="reads through Repeater ← ShardReader, and this one.* through ShardReader:"):
        DataLoader2(numbers()).load_state_dict(state)


@here_and_by_workers
def test_what_was_skipped_is_counted_over_all_shards(service):
    def refuse_threes(x):
        if x % 3 == 0:
            raise ValueError(x)
        return x

    dp = numbers(20).sharding_filter().map(refuse_threes, on_error="skip")
    with DataLoader2(dp, reading_service=service()) as loader:
        for _ in range(2):
            assert len(list(loader)) == 13
            assert loader.stats()["map"]["skipped"] == 7
            assert len(loader.stats()["map"]["last_errors"]) == 7


def test_states_of_loaders_and_of_chains_are_not_mixed_up():
    dp = numbers().batch(2)
    with pytest.raises(ValueError, match="not a state of a loader"):
        DataLoader2(dp).load_state_dict(dp.state_dict())
    with pytest.raises(ValueError, match="not a state of a chain"):
        dp.load_state_dict(DataLoader2(dp).state_dict())


def test_an_epoch_begun_after_one_that_was_resumed_and_given_up_is_whole():
    def loader():
        dp = numbers(12).shuffle().sharding_filter().map(lambda x: time.sleep(0.01) or x)
        made = DataLoader2(dp, reading_service=MultiProcessingReadingService(3))
        made.seed(2)
        return made

    with loader() as whole:
        first, second = list(whole), list(whole)
    with loader() as stopped:
        running = iter(stopped)
        assert [next(running) for _ in range(5)] == first[:5]
        state = stopped.state_dict()
    with loader() as resumed:
        resumed.load_state_dict(state)
        assert next(iter(resumed)) == first[5]
        assert list(resumed) == second


def test_loading_a_large_state_while_workers_are_sending_does_not_wait_for_ever():
    dp = numbers(200_000).shuffle(buffer_size=100_000).sharding_filter().map(lambda x: bytes(30_000) + str(x).encode())
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(1)) as loader:
        running = iter(loader)
        first = next(running)
        state = loader.state_dict()
        second = next(running)
        loader.load_state_dict(state)
        assert first != second == next(iter(loader))


@here_and_by_workers
def test_the_length_is_that_of_an_epoch_over_all_shards(service):
    dp = numbers(23).sharding_filter().batch(3)
    with DataLoader2(dp, reading_service=service()) as loader:
        assert len(loader) == len(list(loader))
    with DataLoader2(dp.filter(len), reading_service=service()) as loader, pytest.raises(TypeError):
        len(loader)


@here_and_by_workers
def test_a_paused_iterator_goes_on_where_it_was(service):
    with DataLoader2(numbers(9).sharding_filter(), reading_service=service()) as loader:
        running = iter(loader)
        assert next(running) == 0
        running.pause()
        assert list(running) == []
        with pytest.raises(StopIteration, match="resume"):
            next(running)
        state = loader.state_dict()
        running.resume()
        assert list(running) == [*range(1, 9)]
        loader.load_state_dict(state)
        assert list(loader) == [*range(1, 9)]


@here_and_by_workers
def test_a_map_style_chain_is_divided_by_its_indices(service):
    asked = []
    dp = ps.map.SequenceWrapper(range(10)).map(lambda x: asked.append(x) or (x, asked.copy()))
    for chain in (dp, dp.shuffle().sharding_filter(), dp.shuffle().sharding_filter().batch(2)):
        with DataLoader2(chain, reading_service=service()) as loader:
            items = list(loader)
            shards = loader.state_dict()["num_shards"]
        flattened = items if isinstance(items[0], tuple) else flat(items)
        assert sorted(x for x, _ in flattened) == [*range(10)]
        if shards > 1:
            assert max(len(seen) for _, seen in flattened) <= -(-10 // shards) + 2


def test_several_loaders_are_read_at_once_and_one_by_another_thread():
    def loader():
        return DataLoader2(numbers(50).sharding_filter(), reading_service=MultiProcessingReadingService(2))

    with loader() as one, loader() as other, loader() as third:
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(third))
        thread.start()
        assert list(zip(one, other, strict=True)) == [(x, x) for x in range(50)]
        thread.join(20)
        assert seen == [*range(50)]


def test_an_iterator_that_was_never_read_is_no_epoch():
    with DataLoader2(numbers().shuffle()) as loader:
        loader.seed(1)
        iter(loader)
        first = list(loader)
        loader.seed(1)
        assert list(loader) == first


class InProcess(ps.IterDataPipe):
    def __init__(self, upstream):
        self.upstream = upstream

    def __iter__(self):
        return ((os.getpid(), item) for item in self.upstream)


def test_a_step_after_to_device_runs_in_the_main_process_whatever_it_calls_its_source():
    dp = InProcess(numbers(4).sharding_filter().to_device("cpu"))
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as loader:
        assert list(loader) == [(os.getpid(), item) for item in range(4)]


def test_a_step_of_the_main_process_amid_a_zip_is_refused():
    dp = numbers(4).sharding_filter().to_device("cpu").zip(numbers(4).sharding_filter())
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(2))
    with pytest.raises(RuntimeError, match="DeviceMover belongs in the main process"):
        next(iter(loader))


SCRIPT = """
    import penstock as ps

    print("script")
    factor = 3
    dp = ps.iter.IterableWrapper(range(4)).sharding_filter().map(lambda x: x * factor)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=2)) as loader:
        print(list(loader))
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_script_without_a_main_guard_runs_once(tmp_path, method):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("num_workers=2", f"2, {method!r}"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("script\n[0, 3, 6, 9]\n", "")


def test_the_server_of_the_workers_starts_while_the_program_goes_on():
    code = """
import penstock as ps
from multiprocessing import forkserver
from multiprocessing import forkserver
ps.MultiProcessingReadingService(0), ps.MultiProcessingReadingService(2, "spawn")
assert forkserver._forkserver._forkserver_pid is None
ps.MultiProcessingReadingService(2)
assert forkserver._forkserver._forkserver_pid is not None
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_a_script_read_from_standard_input_works():
    done = subprocess.run(
        [sys.executable], input=textwrap.dedent(SCRIPT), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("script\n[0, 3, 6, 9]\n", "")


def test_the_limit_of_csv_fields_holds_in_workers(tmp_path):
    (tmp_path / "a.csv").write_text("a," + "x" * 200_000 + "\n")
    dp = ps.iter.IterableWrapper([str(tmp_path / "a.csv")]).sharding_filter().open_files("rt").parse_csv()
    before = csv.field_size_limit(300_000)
    try:
        with DataLoader2(dp, reading_service=MultiProcessingReadingService(1)) as loader:
            assert [len(row[1]) for row in loader] == [200_000]
    finally:
        csv.field_size_limit(before)


def test_internal_steps_have_no_names_of_ours_in_errors():
    dp = numbers(4).batch(2)
    with (
        dp.iter_torch_batches(batch_size=1, collate_fn=lambda batch: 1 // 0) as loader,
        pytest.raises(ZeroDivisionError) as caught,
    ):
        list(loader)
    assert caught.value.__notes__[0].startswith("penstock: raised in iter_torch_batches, on ")


def test_reading_service_is_the_loaders_copy_or_none():
    given = MultiProcessingReadingService(2)
    with DataLoader2(numbers(), reading_service=given) as loader:
        assert type(loader.reading_service) is MultiProcessingReadingService
        assert loader.reading_service is not given
    with DataLoader2(numbers(3)) as loader:
        assert loader.reading_service is None
        assert list(loader) == [0, 1, 2]
