"""What ranks read, how they end, and what is said where they do not fit together; ranks are real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.workers.ranks import AllRanks
from ranks import run_ranks

LOADER = """
import time, warnings
def loader(n, num_shards=None, chain=None, workers=0, **given):
    dp = ps.iter.IterableWrapper(range(n)).sharding_filter() if chain is None else chain
    service = ps.DistributedReadingService(timeout=20, **given)
    workers = ps.MultiProcessingReadingService(workers, num_shards=num_shards)
    return ps.DataLoader2(dp, reading_service=ps.SequentialReadingService(service, workers))
def told(act):
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


def both(tmp_path: Path, code: str, ranks: int = 2, seconds: float = 45) -> list[list[Any]]:
    return run_ranks(tmp_path, LOADER + code, ranks, seconds)


@pytest.mark.parametrize("level", ["", "SHARDING_PRIORITIES.DISTRIBUTED"])
def test_ranks_share_the_rows_of_one_file_and_resume(level: str, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text("".join(f'{{"id": {number}}}\n' for number in range(600)))
    code = f"""
from penstock.registry import SHARDING_PRIORITIES
def chain():
    files = ps.iter.IterableWrapper([{str(path)!r}]).shard_files("json", {level or None}, min_bytes=300)
    return files.read_json(block_size=300).rows().map(lambda row: row["id"])
one_each = {level!r} != ""
with loader(0, 2 if one_each else 4, chain(), require_sharding=not one_each) as reading:
    whole = list(reading)
    repeated = reading.stats()["ranks"]["repeated"]
    say(whole[: len(whole) - repeated])
with loader(0, 2 if one_each else 4, chain(), require_sharding=not one_each) as stopped:
    iterator = iter(stopped)
    begun = [next(iterator) for _ in range(100)]
    state = stopped.state_dict()
with loader(0, 2 if one_each else 4, chain(), require_sharding=not one_each) as resumed:
    resumed.load_state_dict(state)
    say(begun + list(resumed) == whole)
"""
    parts = both(tmp_path, code)
    assert sorted(number for items, _ in parts for number in items) == [*range(600)]
    assert min(len(items) for items, _ in parts) > 200
    assert [exact for _, exact in parts] == [True, True]


def test_uneven_parts_are_padded_or_dropped_and_counted(tmp_path: Path) -> None:
    code = """
for ends in ("pad", "stop", "drop"):
    dp = ps.iter.IterableWrapper(range(20)).sharding_filter().filter(lambda x: x % 2 == 0 or x < 6)
    with warnings.catch_warnings(record=True) as caught, loader(0, chain=dp, ends=ends) as reading:
        warnings.simplefilter("always")
        items = [list(reading), list(reading)]
        say([*items, reading.stats()["ranks"], [str(each.message) for each in caught]])
"""
    (pad, stop, drop), (pad_1, stop_1, drop_1) = both(tmp_path, code)
    even = list(range(0, 20, 2))
    assert pad == [even, even, {"repeated": 0, "dropped": 0}, []]
    assert pad_1 == [[1, 3, 5, 1, 3, 5, 1, 3, 5, 1]] * 2 + [{"repeated": 7, "dropped": 0}, []]
    assert stop[:3] == drop[:3] == [[0, 2, 4], [0, 2, 4], {"repeated": 0, "dropped": 7}]
    assert stop_1 == drop_1 == [[1, 3, 5], [1, 3, 5], {"repeated": 0, "dropped": 0}, []]
    assert drop[3] == []
    (warning,) = stop[3]
    assert (
        "end with the shortest part, after 3 items each, and 7 items of the others are dropped: {0: 7, 1: 0}" in warning
    )


def test_an_epoch_has_as_many_steps_as_wanted(tmp_path: Path) -> None:
    code = """
with loader(7, steps_per_epoch=6) as reading:
    say([len(reading), list(reading), list(reading)])
with loader(10**9, steps_per_epoch=2) as reading:
    iterator = iter(reading)
    first = next(iterator)
    state = reading.state_dict()
with loader(10**9, steps_per_epoch=2) as reading:
    reading.load_state_dict(state)
    say([first, list(reading)])
"""
    said = both(tmp_path, code)
    assert said[0] == [[6, [0, 2, 4, 6, 0, 2], [0, 2, 4, 6, 0, 2]], [0, [2]]]
    assert said[1] == [[6, [1, 3, 5, 1, 3, 5], [1, 3, 5, 1, 3, 5]], [1, [3]]]


def test_the_length_is_that_of_all_ranks(tmp_path: Path) -> None:
    code = """
for ends in ("pad", "drop"):
    with loader(11, 5, ends=ends) as reading:
        say([len(reading), len(list(reading))])
"""
    assert both(tmp_path, code) == [[[7, 7], [4, 4]]] * 2


def test_an_empty_part_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    code = """
for ends in ("pad", "stop"):
    with loader(1, ends=ends) as reading:
        say(told(lambda: list(reading)))
with loader(0) as reading:
    say(list(reading))
"""
    for said in both(tmp_path, code):
        for error in said[:2]:
            assert "RuntimeError: part 1 of 2 is empty, so a rank has nothing to read" in error
        assert said[2] == []


def test_a_state_before_the_first_item_is_of_all_ranks_and_changes_nothing(tmp_path: Path) -> None:
    code = """
def unseeded():
    return ps.iter.IterableWrapper(range(12)).shuffle().sharding_filter()
for seeded in ((), (0,), (0, 1)):
    with loader(0, chain=unseeded()) as reading:
        if rank in seeded:
            reading.seed(3)
        state = json.loads(json.dumps(reading.state_dict()))
        items = list(reading)
    with loader(0, chain=unseeded()) as again:
        again.load_state_dict(state)
        say([state, items, list(again) == items])
with loader(0, chain=unseeded()) as reading:
    reading.state_dict(local=True)
    say(list(reading))
"""
    one, other = both(tmp_path, code)
    for (state, items, same), (state_1, items_1, same_1) in zip(one[:3], other[:3], strict=True):
        assert state == state_1
        assert same is same_1 is True
        assert sorted(items + items_1) == list(range(12))
    assert sorted(one[3] + other[3]) == list(range(12))


def test_states_of_other_worlds_and_moments_are_not_merged(tmp_path: Path) -> None:
    code = """
def own(steps, **given):
    with loader(24, 12, **given) as reading:
        iterator = iter(reading)
        for _ in range(steps):
            next(iterator)
        return reading.state_dict(local=True)
states = [None] * ranks
dist.all_gather_object(states, (own(2), own(3)))
(first, later), (second, _) = states
say(told(lambda: ps.merge_state_dicts([first, {**second, "rank": [1, 4, False]}])))
say(told(lambda: ps.merge_state_dicts([first, later, second])))
state = json.loads(json.dumps(ps.merge_state_dicts([first, second, first])))
own = state["state"]["steps"][0]["own"]
own["repeated"] = [3_000_000, 0]
say(told(lambda: loader(24).load_state_dict(state)))
own["given"] = 3_000_000
with loader(24) as reading:
    reading.load_state_dict(state)
    say(len(list(reading)) > 0)
"""
    for worlds, moments, more, ended in both(tmp_path, code):
        assert "these are states of 2 ranks and of 4" in worlds
        assert "two states of rank 0 of 2 were not taken at the same point" in moments
        assert "how many of them it repeated" in more
        assert ended is True


def test_ranks_that_are_interrupted_at_different_items_have_one_state_of_what_all_are_done_with(tmp_path: Path) -> None:
    code = """
import os, signal, threading
with loader(60, 6) as reading:
    items = []
    try:
        for item in reading:  # rank 0 waits for its next item, of which rank 1 is to say that there is one
            if rank and len(items) == 3:
                time.sleep(1)
                signal.raise_signal(signal.SIGINT)
            items.append(item)
            if not rank and len(items) == 4:
                threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    except KeyboardInterrupt:
        pass
    state = reading.state_dict()
    say([len(items), state])
    reading.load_state_dict(state)
    say(items[:3] + list(reading))
"""
    (first, whole_0), (second, whole_1) = both(tmp_path, code)
    assert (first[0], second[0]) == (4, 3)
    assert first[1] == second[1]
    assert sorted(whole_0 + whole_1) == list(range(60))


def test_steps_after_the_workers_give_one_item_for_each(tmp_path: Path) -> None:
    code = """
def chain():
    dp = ps.iter.IterableWrapper(range(21)).sharding_filter().to_device("cpu")
    return dp.map(lambda x: 10 * x).fullsync(timeout=20)
with loader(0, 6, chain()) as reading:
    iterator = iter(reading)
    head = [next(iterator) for _ in range(3)]
    state = reading.state_dict()
    rest = list(iterator)
with loader(0, 6, chain()) as again:
    again.load_state_dict(json.loads(json.dumps(state)))
    say([list(again) == rest, len(rest), state["rank"]])
say(told(lambda: list(loader(0, 6, chain().batch(2)))))
say(told(lambda: list(loader(0, 6, chain().prefetch(2)))))
"""
    for resumed, error, reads_ahead in both(tmp_path, code):
        assert resumed == [True, 8, None]
        assert "of DeviceMover, Mapper, FullSync, Batcher, which run on each rank after the ranks" in error
        assert "Prefetcher" in reads_ahead
        assert "or read ahead, so that ranks would wait for each other: put them before the first" in reads_ahead


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_in_which_a_rank_failed_does_not_disturb_the_next(tmp_path: Path, workers: int) -> None:
    code = f"""
import gc
fails = {str(tmp_path / "fails")!r}
if rank == 0:
    open(fails, "w").close()
dist.barrier()
def fn(x):
    if x == 9 and os.path.exists(fails):
        raise KeyError("gone")
    return x
gc.disable()
dp = ps.iter.IterableWrapper(range(40)).sharding_filter().map(fn)
service = ps.SequentialReadingService(
    ps.DistributedReadingService(timeout=20, num_shards=4), ps.MultiProcessingReadingService({workers})
)
with ps.DataLoader2(dp, reading_service=service) as reading:
    reading.seed(0)
    try:
        list(reading)
    except Exception as error:
        say(repr(error))
    dist.barrier()
    if rank == 0:
        os.remove(fails)
    dist.barrier()
    seen = []
    for item in reading:
        seen.append(item)
        gc.collect()
    say(len(seen))
"""
    (another, here), (own, there) = run_ranks(tmp_path, code)
    assert "rank 1 failed: KeyError: 'gone'" in another
    assert own == "KeyError('gone')"
    assert here == there == 20


def test_an_answer_that_comes_just_when_a_look_at_it_gives_up_is_no_failure() -> None:
    class Work:
        is_done = fails = False

        def wait(self, timeout: timedelta | None = None) -> bool:
            if self.is_done and not self.fails:
                return True
            self.is_done = True
            raise RuntimeError("Operation timed out!")

        def is_completed(self) -> bool:
            return self.is_done

    assert AllRanks._is_done(Work(), 1)
    failing = Work()
    failing.fails = True
    with pytest.raises(RuntimeError, match="timed out"):
        AllRanks._is_done(failing, 1)


def test_a_rank_that_has_begun_alone_keeps_nobody_from_reading_together(tmp_path: Path) -> None:
    code = """
import time
def reading(timeout):
    dp = ps.iter.IterableWrapper(range(8)).sharding_filter().to_device("cpu")
    made = ps.DataLoader2(dp, reading_service=ps.DistributedReadingService(timeout=timeout))
    made.seed(0)
    return made
def told(timeout):
    try:
        return list(reading(timeout))
    except Exception as error:
        return str(error)
if rank == 0:
    say(told(2))
dist.barrier()
say(told(20))
"""
    (alone, one), (other,) = run_ranks(tmp_path, code)
    assert "rank 0 was to begin to read together, and rank 1 did not" in alone
    assert [one, other] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_the_length_of_a_stream_that_is_divided_among_ranks_only(tmp_path: Path) -> None:
    code = """
from penstock.registry import SHARDING_PRIORITIES
dp = ps.iter.IterableWrapper(range(25)).sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
for given in ({}, {"ends": "drop"}, {"steps_per_epoch": 4}):
    with ps.DataLoader2(dp, reading_service=ps.DistributedReadingService(**given)) as reading:
        say([len(reading), len(list(reading))])
"""
    assert run_ranks(tmp_path, code) == [[[13, 13], [12, 12], [4, 4]]] * 2


def test_a_stream_that_is_divided_among_ranks_only_goes_on_on_as_many(tmp_path: Path) -> None:
    code = """
from penstock.registry import SHARDING_PRIORITIES
def chain():
    dp = ps.iter.IterableWrapper(range(24)).sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
    return dp.shuffle().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
with loader(0, 6, chain()) as reading:
    reading.seed(1)
    iterator = iter(reading)
    head = [next(iterator) for _ in range(5)]
    state = json.loads(json.dumps(reading.state_dict()))
    rest = list(iterator)
with loader(0, 6, chain()) as again:
    again.load_state_dict(state)
    say([list(again) == rest, head + rest])
alone = ps.DataLoader2(chain(), reading_service=ps.InProcessReadingService(require_sharding=False))
say(told(lambda: alone.load_state_dict(state)))
"""
    one, other = both(tmp_path, code)
    assert one[0][0] is other[0][0] is True
    assert [sorted(one[0][1]), sorted(other[0][1])] == [list(range(0, 24, 2)), list(range(1, 24, 2))]
    assert "the state is that of 2 ranks, and this loader's would be that of no rank" in one[1]


def test_ranks_that_hold_parts_of_one_model_read_the_same(tmp_path: Path) -> None:
    code = """
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
reads = []
def chain():
    return ps.iter.IterableWrapper(range(10)).sharding_filter().map(lambda x: reads.append(x) or x)
for others in ("same", "broadcast"):
    reads.clear()
    with loader(0, 4, chain(), mesh=mesh, data_dims="dp", others=others) as reading:
        items = list(reading)
        iterator = iter(reading)
        next(iterator)
        states = reading.state_dict()
        say([items, len(reads) > 1, states["state"]["steps"][0]["own"]["standing"]])
with loader(0, 4, chain(), data_rank=None if rank == 3 else rank % 2, data_ranks=2) as reading:
    say(list(reading))
line = init_device_mesh("cpu", (4,), mesh_dim_names=("pp",))
say(told(lambda: loader(0, 4, chain(), mesh=line, data_dims="dp")))
stages = init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "pp"))
with loader(0, 4, chain(), mesh=stages, data_dims=("dp",), others={"pp": "none"}) as reading:
    say(list(reading))
say(told(lambda: list(loader(0, 4, chain(), data_rank=0, data_ranks=2))))
say(told(lambda: loader(0, 4, chain(), mesh=mesh, data_dims="dp", others={"pt": "broadcast"})))
"""
    said = both(tmp_path, code, ranks=4)
    parts = [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    for rank, (same, broadcast, plain, unknown, stage, missing, misspelt) in enumerate(said):
        assert same[0] == broadcast[0] == parts[rank // 2]
        assert [same[1], broadcast[1]] == [True, rank % 2 == 0]
        assert same[2] == broadcast[2] == said[0][0][2]
        assert plain == ([None] * 5 if rank == 3 else parts[rank % 2])
        assert "data_dims must be dimensions of the mesh, pp, and is 'dp'" in unknown
        assert "others is by the mesh's other dimensions, tp, and is {'pt': 'broadcast'}" in misspelt
        assert stage == ([None] * 10 if rank in (1, 2) else list(range(10)))
        assert "each part of the data must be read by a rank" in missing


def test_batches_of_columns_are_cut_in_the_shards_of_each_rank(tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    for start in range(0, 100, 10):
        pq.write_table(pa.table({"x": range(start, start + 10)}), tmp_path / "columns" / f"{start}.parquet")
    program = """
    dp = ps.read_parquet({path!r})
    service = ps.SequentialReadingService(
        ps.DistributedReadingService(num_shards=4), ps.MultiProcessingReadingService(1)
    )
    with ps.iter_torch_batches(dp, 4, reading_service=service) as loader:
        loader.seed(1)
        if {state!r}:
            loader.load_state_dict(json.loads({state!r}))
        for number, batch in enumerate(loader):
            say(batch["x"].tolist())
            if number == {stop}:
                say(json.dumps(loader.state_dict()))
                break
    """
    path = str(tmp_path / "columns")
    begun = run_ranks(tmp_path, program.format(path=path, state="", stop=3))
    (state, same) = (said.pop() for said in begun)
    assert state == same
    rest = run_ranks(tmp_path, program.format(path=path, state=state, stop=-1), ranks=3)
    batches = [batch for said in [*begun, *rest] for batch in said]
    assert {len(batch) for batch in batches[:8]} == {4}
    assert {number for batch in batches for number in batch} == set(range(100))


def test_a_loader_that_knows_nothing_of_ranks_is_an_error(tmp_path: Path) -> None:
    code = """
dp = ps.iter.IterableWrapper(range(4)).sharding_filter()
say(told(lambda: list(ps.DataLoader2(dp))))
service = ps.MultiProcessingReadingService(0, num_shards=2)
say(told(lambda: list(ps.DataLoader2(dp, reading_service=service))))
meant = ps.InProcessReadingService(require_sharding=False)
say(list(ps.DataLoader2(dp, reading_service=meant)))
say(told(lambda: list(loader(4, 3, workers=2))))
"""
    for said in both(tmp_path, code):
        for error in said[:2]:
            assert "each would read all of the data: read through a DistributedReadingService" in error
        assert said[2] == [0, 1, 2, 3]
        assert "num_shards is 3, and 2 ranks with 2 workers each are 4 readers" in said[3]


def test_ranks_that_do_not_fit_together_are_told_apart(tmp_path: Path) -> None:
    code = """
began = time.monotonic()
dp = ps.iter.IterableWrapper(range(8))
say(told(lambda: list(loader(0, chain=dp.sharding_filter().map(abs) if rank else dp.sharding_filter()))))
say(told(lambda: list(loader(0, chain=dp.sharding_filter().batch(2 + rank)))))
seeded = loader(8)
seeded.seed(rank)
say(told(lambda: list(seeded)))
say(told(lambda: list(loader(8, 2 + 2 * rank))))
with loader(8) as reading:
    iterator = iter(reading)
    next(iterator)
    state = json.loads(json.dumps(reading.state_dict()))
state["epoch"] += rank
with loader(8) as reading:
    reading.load_state_dict(state)
    say(told(lambda: list(reading)))
with loader(8) as reading:
    iterator = iter(reading)
    next(iterator)
    own = reading.state_dict(local=True)
    say(told(lambda: next(iterator) if rank else reading.state_dict()))
say(told(lambda: ps.merge_state_dicts([own])))
say(time.monotonic() - began < 10)
"""
    for rank, said in enumerate(both(tmp_path, code)):
        chain, arguments, seeds, shards, state, step, merged, in_time = said
        assert "the ranks do not read the same: chain is rank 0: ['ShardingFilter'" in chain
        assert "arguments[0]['batch_size'] is rank 0: 2; rank 1: 3" in arguments
        assert "the ranks have different seeds: rank 0: 0; rank 1: 1" in seeds
        assert "num_shards is rank 0: 2; rank 1: 4" in shards
        assert "epoch is rank 0: 0; rank 1: 1" in state
        assert "not in step: rank 0: take a state; rank 1: ask for item 1 of the epoch" in step
        assert f"the state of rank {1 - rank} of 2 is missing" in merged
        assert in_time


def test_a_rank_that_is_missing_is_named_on_every_other(tmp_path: Path) -> None:
    code = """
if rank != 1:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dp = ps.iter.IterableWrapper(range(8)).sharding_filter()
        service = ps.DistributedReadingService(timeout=7)
        say(told(lambda: list(ps.DataLoader2(dp, reading_service=service))))
        say([str(each.message) for each in caught])
else:
    time.sleep(9)
"""
    said = both(tmp_path, code, ranks=3)
    for rank in (0, 2):
        error, warned = said[rank]
        assert f"rank {rank} was to begin to read together, and rank 1 did not" in error
        assert warned == [f"rank {rank} waits for rank 1 to begin to read together, for 7 s at most"]


def test_where_a_rank_fails_or_is_killed_the_others_end(tmp_path: Path) -> None:
    code = """
def fails(x):
    if x == 5:
        raise KeyError("gone")
    return x
dp = ps.iter.IterableWrapper(range(10)).sharding_filter().map(fails)
say(told(lambda: list(loader(0, chain=dp))))
reading = loader(100)
iterator = iter(reading)
next(iterator)
dist.barrier()
if rank == 1:
    os._exit(0)
began = time.monotonic()
say(told(lambda: list(iterator)))
say(time.monotonic() - began < 10)
os._exit(0)
"""
    (failed, killed, in_time), (own,) = both(tmp_path, code)
    assert failed == "RuntimeError: all ranks stop here, after 2 items of this epoch: rank 1 failed: KeyError: 'gone'"
    assert own == "KeyError: 'gone'"
    assert "rank 0 was to ask for item 1 of the epoch, and rank 1 did not: it has ended" in killed
    assert in_time


def test_a_loader_is_part_of_a_distributed_checkpoint(tmp_path: Path) -> None:
    code = f"""
import torch.distributed.checkpoint as dcp
with loader(30, 6) as reading:
    reading.seed(1)
    iterator = iter(reading)
    head = [next(iterator) for _ in range(4)]
    dcp.save({{"loader": reading}}, checkpoint_id={str(tmp_path / "checkpoint")!r})
    rest = list(iterator)
with loader(30, 6) as reading:
    dcp.load({{"loader": reading}}, checkpoint_id={str(tmp_path / "checkpoint")!r})
    say([rest, list(reading)])
"""
    for ((rest, resumed),) in both(tmp_path, code):
        assert resumed == rest


RESTARTED = """
import json, os, signal, sys
from pathlib import Path
import torch.distributed as dist
import penstock as ps
dist.init_process_group("gloo")
rank, folder = dist.get_rank(), Path(sys.argv[1])
state = folder / "state.json"
dp = ps.iter.IterableWrapper(range(40)).shuffle().sharding_filter()
service = ps.SequentialReadingService(ps.DistributedReadingService(timeout=20, num_shards=8),
                                      ps.MultiProcessingReadingService(1))
with ps.DataLoader2(dp, reading_service=service) as loader:
    loader.seed(3)
    seen = []
    if state.exists():
        saved = json.loads(state.read_text())
        seen = saved["seen"][rank]
        loader.load_state_dict(saved["loader"])
    for number, item in enumerate(loader):
        seen.append(item)
        everything = [None] * dist.get_world_size()
        dist.all_gather_object(everything, seen)
        now = {"loader": loader.state_dict(), "seen": everything}
        if rank == 0:
            (folder / "new").write_text(json.dumps(now))
            os.replace(folder / "new", state)
        if number == 6 and rank == 1 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
(folder / f"{rank}.json").write_text(json.dumps(seen))
dist.destroy_process_group()
"""


@pytest.mark.timeout(120)
def test_killed_under_torchrun_all_ranks_go_on_from_the_last_state(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(RESTARTED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    # Without it, gloo's ranks of torch 2.13 look for those before the restart, in whatever program.
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(
        [*command, str(program), str(tmp_path)], capture_output=True, text=True, timeout=100, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").exists()
    seen = [item for rank in range(2) for item in json.loads((tmp_path / f"{rank}.json").read_text())]
    assert sorted(seen) == list(range(40))


def test_states_that_are_not_those_of_all_ranks() -> None:
    with pytest.raises(ValueError, match="only states of several ranks can be merged"):
        ps.merge_state_dicts([])
    loader = ps.DataLoader2(ps.iter.IterableWrapper(range(4)))
    with pytest.raises(ValueError, match="only states of several ranks can be merged"):
        ps.merge_state_dicts([loader.state_dict(), loader.state_dict()])
    with pytest.raises(RuntimeError, match="no item was yielded since the epoch began"):
        loader.state_dict(before_last=True)


APART: dict[str, str] = {
    "a chain": "loader(0, 12, ps.iter.IterableWrapper(range(20)) if rank else None)",
    "a number of shards": "loader(20, 1 if rank else 12)",
    "a part": "loader(20, 12, data_rank=2 * rank, data_ranks=2)",
    "no service": "ps.DataLoader2(ps.iter.IterableWrapper(range(20)).sharding_filter()) if rank else loader(20, 12)",
}


@pytest.mark.parametrize("what", APART)
def test_what_fails_on_one_rank_before_the_ranks_meet_is_told_on_all_soon(tmp_path: Path, what: str) -> None:
    code = f"""
began = time.monotonic()
say(told(lambda: list({APART[what]})))
say(time.monotonic() - began < 10)
if rank:
    time.sleep(8)
os._exit(0)
"""
    (heard, soon), (own, at_once) = both(tmp_path, code)
    assert not own.startswith("[")
    assert heard == f"RuntimeError: rank 1 has failed: {own}"
    assert soon
    assert at_once


def test_what_fails_on_one_rank_between_epochs_is_told_while_that_rank_lives_on(tmp_path: Path) -> None:
    code = """
with loader(20, 4) as reading:
    say(len(list(reading)))
    began = time.monotonic()
    if rank:
        say(told(lambda: reading.load_state_dict({"bad": 1})))
        time.sleep(12)
    else:
        say(told(lambda: list(reading)))
        say(time.monotonic() - began < 10)
"""
    (_, heard, soon), (_, own) = both(tmp_path, code)
    assert heard == f"RuntimeError: rank 1 has failed: {own}"
    assert soon


def test_ranks_that_failed_together_or_alone_and_come_again_read_on(tmp_path: Path) -> None:
    code = """
with loader(20, 4) as reading:
    list(reading)
    say(told(lambda: reading.load_state_dict({"bad": 1})).partition(":")[0])
    if rank:
        time.sleep(4)
    say(len(list(reading)))
    if rank:
        say(told(lambda: reading.load_state_dict({"bad": 1})).partition(":")[0])
    say(len(list(reading)))
    if rank:
        time.sleep(4)
    say(len(list(reading)))
"""
    first, second = both(tmp_path, code)
    assert first == ["ValueError", 10, 10, 10]
    assert second == ["ValueError", 10, "ValueError", 10, 10]


def test_what_is_sent_to_other_ranks_is_pickled_before_they_wait_for_it_and_repeats_are_counted(tmp_path: Path) -> None:
    code = """
mesh = dist.device_mesh.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
def sent(chain):
    return loader(0, 2, chain.sharding_filter(), mesh=mesh, data_dims="dp", others="broadcast")
numbers = ps.iter.IterableWrapper(range(6))
began = time.monotonic()
try:
    list(sent(numbers.map(lambda x: (lambda: x) if x == 3 else x)))
except Exception as error:
    say([type(error).__name__, str(error), getattr(error, "__notes__", [])[:1]])
say(time.monotonic() - began < 10)
with sent(numbers) as reading:
    say(list(reading))
"""
    own, other = both(tmp_path, code)
    assert own[0][0] == "AttributeError"
    assert "could not be pickled, so it cannot be sent to the other ranks of its part" in own[0][2][0]
    assert other[0][:2] == [
        "RuntimeError",
        f"all ranks stop here, after 3 items of this epoch: rank 0 failed: AttributeError: {own[0][1]}",
    ]
    assert own[1:] == other[1:] == [True, [0, 1, 2, 3, 4, 5]]


def test_repeats_of_items_that_are_sent_are_counted_on_every_rank_of_the_part(tmp_path: Path) -> None:
    code = """
mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
with loader(9, 12, mesh=mesh, data_dims="dp", others="broadcast") as reading:
    say([list(reading), reading.stats()["ranks"]["repeated"]])
"""
    said = [own for (own,) in both(tmp_path, code, ranks=4)]
    assert said == [[[0, 2, 4, 6, 8], 0]] * 2 + [[[1, 3, 5, 7, 1], 1]] * 2


def test_a_look_of_less_than_a_millisecond_is_no_wait_without_limit() -> None:
    waited: list[float] = []

    class Work:
        def wait(self, timeout: timedelta) -> None:
            waited.append(timeout.total_seconds() * 1000 // 1)  # gloo takes whole milliseconds, and 0 as no limit
            raise RuntimeError("timed out")

        def is_completed(self) -> bool:
            return False

    assert not AllRanks._is_done(Work(), 0.0005)  # type: ignore[arg-type]
    assert waited
    assert min(waited) >= 1
