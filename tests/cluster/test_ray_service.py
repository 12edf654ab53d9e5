"""Chains that are read by actors of a real Ray."""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES
from penstock.runner.on_ray import actor_hosts, actors
from penstock.workers import cluster

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("local_ray")]


@pytest.fixture(scope="module")
def fleet(local_ray: None) -> Iterator[ps.RayFleet]:
    with ps.RayFleet(2) as fleet:
        yield fleet


def loader(dp: Any, service: Any, seed: int = 3) -> ps.DataLoader2[Any]:
    made: ps.DataLoader2[Any] = ps.DataLoader2(dp, reading_service=service)
    made.seed(seed)
    return made


def numbers(count: int = 60) -> Any:
    return ps.iter.IterableWrapper(range(count)).shuffle().sharding_filter()


def process_of(item: int) -> tuple[int, int]:
    time.sleep(0.01)
    return item, os.getpid()


def change_addresses(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let loaders give actors other addresses."""

    class Listener(actor_hosts.Listener):
        def __init__(self) -> None:
            super().__init__()
            self.address = dataclasses.replace(self.address, **changes)

    monkeypatch.setattr(actors, "Listener", Listener)


@pytest.mark.parametrize("by", ["shared memory", "TCP"])
def test_arrays_and_tensors_arrive_writable_by_any_way(
    by: str, fleet: ps.RayFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "TCP":
        change_addresses(monkeypatch, local="")
    dp = ps.iter.IterableWrapper(range(20)).sharding_filter().map(lambda x: (torch.full((300, 300), x), np.ones(9)))
    with loader(dp, ps.RayReadingService(fleet=fleet)) as reader:
        for epoch in range(2):
            for number, (tensor, array) in enumerate(reader):
                assert torch.equal(tensor, torch.full((300, 300), number)), epoch
                tensor += 1
                array += 1


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV])
def test_an_actor_that_dies_is_replaced_and_nothing_is_lost_or_twice(kill: int) -> None:
    generator = random.Random(int(kill))
    when = set(generator.sample(range(30, 150), 2))
    dp = numbers(160).map(process_of)
    with loader(dp, ps.MultiProcessingReadingService(0, num_shards=4)) as reader:
        expected = [number for number, _ in reader]
    seen: list[int] = []

    def read(reader: Any) -> None:
        for place, (number, process) in enumerate(reader):
            seen.append(number)
            if place in when:
                os.kill(process, kill)

    with loader(dp, ps.RayReadingService(2, num_shards=4)) as reader:
        with pytest.warns(RuntimeWarning) as warned:
            read(reader)
        assert seen == expected
        assert reader.stats()["workers"] == {"replaced": 2}
        assert len(list(reader)) == 160
    said = [str(each.message) for each in warned if "Another worker resumes after its last item" in str(each.message)]
    assert len(said) == 2
    how = f"was killed by {signal.Signals(kill).name}"
    assert all("actor" in each and "of 2 (on " in each and how in each for each in said)


def test_an_actor_that_is_killed_with_its_processes_is_started_again() -> None:
    import ray

    with ps.RayFleet(1) as fleet:
        dp = ps.iter.IterableWrapper(range(300)).sharding_filter().map(process_of)
        with loader(dp, ps.RayReadingService(fleet=fleet)) as reader:
            items = iter(reader)
            number, process = next(items)
            ray.kill(fleet.actor(0), no_restart=False)
            with pytest.warns(RuntimeWarning, match="Another worker resumes"):
                rest = [*items]
        assert [number, *(number for number, _ in rest)] == list(range(300))
        assert not is_running(process)


def test_an_actor_that_is_killed_for_good_is_an_error() -> None:
    import ray

    with ps.RayFleet(1) as fleet:
        dp = ps.iter.IterableWrapper(range(300)).sharding_filter().map(process_of)
        with loader(dp, ps.RayReadingService(fleet=fleet)) as reader, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            items = iter(reader)
            next(items)
            ray.kill(fleet.actor(0))
            with pytest.raises(RuntimeError, match="actor 0 of 1 has died: it was killed"):
                list(items)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_actor_that_dies_while_it_connects_is_replaced(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    killed: list[str] = []

    def kill(when: str) -> None:
        if when == moment and not killed:
            killed.append(when)
            ray.kill(fleet.actor(0), no_restart=False)
            time.sleep(0.5)

    class Listener(actor_hosts.Listener):
        def __init__(self) -> None:
            super().__init__()
            kill("before")

        def accept(self, number: int) -> Any:
            kill("after")
            return super().accept(number)

    with ps.RayFleet(1) as fleet:
        monkeypatch.setattr(actors, "Listener", Listener)
        with loader(numbers(20), ps.RayReadingService(fleet=fleet)) as reader, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert sorted(reader) == list(range(20))
    assert killed


def test_a_fleet_that_was_shut_down_says_so() -> None:
    with ps.RayFleet(1) as fleet:
        service = ps.RayReadingService(fleet=fleet)
    with pytest.raises(RuntimeError, match="the fleet was shut down"):
        loader(numbers(20), service)


def test_an_item_at_which_every_actor_dies_is_an_error() -> None:
    def dies(item: int) -> int:
        if item == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    dp = ps.iter.IterableWrapper(range(8)).sharding_filter().map(dies)
    seen: list[int] = []
    with (
        loader(dp, ps.RayReadingService(1)) as reader,
        pytest.warns(RuntimeWarning, match="Another worker resumes"),
        pytest.raises(RuntimeError, match=r"actor 0 of 1 \(on .*\) was killed by SIGKILL") as caught,
    ):
        seen.extend(reader)
    assert seen == [0, 1, 2, 3, 4]
    assert "penstock: waiting for the next item of shard 0 of 1" in caught.value.__notes__


def test_an_error_arrives_as_it_is_and_says_where(fleet: ps.RayFleet) -> None:
    dp = ps.iter.IterableWrapper([1, 0, 1, 1]).sharding_filter().map(lambda x: 1 // x)
    with loader(dp, ps.RayReadingService(fleet=fleet)) as reader, pytest.raises(ZeroDivisionError) as caught:
        list(reader)
    notes = "\n".join(caught.value.__notes__)
    assert "raised in Mapper(<lambda>), on 0" in notes
    assert "in actor 1 of 2, shard 1 of 2 (process" in notes
    assert "1 // x" in str(caught.value.__cause__)


class CannotArrive:
    def __reduce__(self) -> Any:
        return __import__, ("a_module_that_is_nowhere",)


@pytest.mark.parametrize("on_ray", [True, False])
def test_what_hangs_at_its_first_item_is_not_waited_for_in_the_next_epoch(on_ray: bool, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    hangs.touch()

    def waits(item: int) -> int:
        while item == 1 and hangs.exists():
            time.sleep(0.1)
        return item

    dp = ps.iter.IterableWrapper(range(6)).sharding_filter().map(waits)
    service = ps.RayReadingService(2) if on_ray else ps.MultiProcessingReadingService(2)
    with loader(dp, service) as reader:
        assert next(iter(reader)) == 0
        again = iter(reader)  # worker 1 gives nothing, and others take the place of both
        hangs.unlink()
        assert list(again) == [*range(6)]


@pytest.mark.parametrize("on_ray", [True, False])
def test_a_chain_that_cannot_be_read_there_says_why(on_ray: bool, fleet: ps.RayFleet) -> None:
    dp = ps.iter.IterableWrapper([CannotArrive()], deepcopy=False).sharding_filter()
    service = ps.RayReadingService(fleet=fleet) if on_ray else ps.MultiProcessingReadingService(1)
    with loader(dp, service) as reader, pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere"):
        list(reader)


def test_an_epoch_is_given_up_and_what_hangs_in_it_is_ended(fleet: ps.RayFleet, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    hangs.touch()

    def waits(item: int) -> int:
        while item == 9 and hangs.exists():
            time.sleep(0.1)
        return item

    dp = ps.iter.IterableWrapper(range(40)).sharding_filter().map(waits)
    with (
        loader(dp, ps.RayReadingService(fleet=fleet)) as reader,
        loader(numbers(8), ps.RayReadingService(fleet=fleet)) as other,
    ):
        items = iter(reader)
        assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
        again = iter(reader)  # the actor is at item 9, ahead, for ever
        assert [next(again) for _ in range(5)] == [0, 1, 2, 3, 4]
        hangs.unlink()
        assert list(again) == list(range(5, 40))
        assert sorted(other) == list(range(8))


def test_a_timeout_says_what_the_actor_was_at(fleet: ps.RayFleet) -> None:
    def slow(item: int) -> int:
        time.sleep(8 if item == 2 else 0)
        return item

    dp = ps.iter.IterableWrapper(range(4)).sharding_filter().map(slow)
    with loader(dp, ps.RayReadingService(fleet=fleet, timeout=4)) as reader:
        items = iter(reader)
        assert [next(items), next(items)] == [0, 1]
        with pytest.raises(
            TimeoutError, match=r"actor 0 of 2 .* gave no item for timeout=4 s; it was at Mapper\(slow\), on 2"
        ):
            next(items)


def test_a_dispatched_stream_is_read_once_by_a_process_of_this_machine(fleet: ps.RayFleet) -> None:
    dp = ps.iter.IterableWrapper(range(30)).shuffle().map(process_of)
    dp = dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING).map(lambda x: (*x, os.getpid()))
    with loader(dp, ps.MultiProcessingReadingService(0, num_shards=4)) as reader:
        whole = [number for number, *_ in reader]
    with loader(dp, ps.RayReadingService(fleet=fleet, num_shards=4)) as reader:
        items = iter(reader)
        begun = [next(items) for _ in range(11)]
        state = reader.state_dict()
    (reading,) = {reading for _, reading, _ in begun}
    assert reading not in {mapping for _, _, mapping in begun}
    assert len({mapping for _, _, mapping in begun}) == 2
    with loader(dp, ps.RayReadingService(fleet=fleet), seed=1) as reader:
        reader.load_state_dict(state)
        assert [number for number, *_ in [*begun, *reader]] == whole


def test_a_process_that_was_forked_off_says_that_it_cannot_use_ray(fleet: ps.RayFleet) -> None:
    with loader(numbers(40), ps.RayReadingService(fleet=fleet)) as reader:
        items = iter(reader)
        seen = [next(items)]
        here, there = os.pipe()
        child = os.fork()
        if not child:
            try:
                next(iter(reader))
            except BaseException as error:
                os.write(there, str(error).encode())
            os._exit(0)
        os.close(there)
        with open(here) as told:
            assert "forked off" in told.read()
        os.waitpid(child, 0)
        assert sorted([*seen, *items]) == list(range(40))


def test_what_happens_to_one_loader_of_a_fleet_is_nothing_to_another(fleet: ps.RayFleet) -> None:
    def does_what_it_is_told(deed: str) -> str:
        if deed == "hang":
            time.sleep(600)
        elif deed == "die":
            os._exit(7)
        elif deed == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        return deed

    def reading(*deeds: str) -> Any:
        dp = ps.iter.IterableWrapper(deeds).sharding_filter().map(does_what_it_is_told)
        return loader(dp, ps.RayReadingService(fleet=fleet, worker_prefetch_cnt=1, main_prefetch_cnt=0, num_shards=2))

    expected = sorted(numbers(40))
    with loader(numbers(40), ps.RayReadingService(fleet=fleet)) as other:
        items = iter(other)
        seen = [next(items) for _ in range(4)]
        with reading("nothing", "hang") as hanging:
            assert next(iter(hanging)) == "nothing"
            seen += [next(items) for _ in range(4)]
            with reading("die") as dying, warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                with pytest.raises(RuntimeError, match=r"actor 0 of 2 .* ended with exit code 7"):
                    list(dying)
            with (
                reading("stop") as stopped,
                pytest.raises(RuntimeError, match=r"actor 0 of 2 .* was stopped, as by SIGSTOP"),
            ):
                list(stopped)
            seen += [next(items) for _ in range(4)]
        seen += items
        assert sorted(seen) == expected
        assert other.stats().get("workers") is None


def test_a_chain_may_use_the_same_ray_itself(fleet: ps.RayFleet) -> None:
    import ray

    def remembered(key: str) -> str:
        return str(ray.get_runtime_context().gcs_address) + key

    dp = ps.iter.IterableWrapper("ab").sharding_filter().map(remembered)
    with loader(dp, ps.RayReadingService(fleet=fleet)) as reader:
        here = ray.get_runtime_context().gcs_address
        assert list(reader) == [f"{here}a", f"{here}b"]


def test_a_process_whose_loader_has_gone_is_ended_though_it_hangs(fleet: ps.RayFleet, tmp_path: Path) -> None:
    def hangs(item: int) -> int:
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(600)
        return item

    dp = ps.iter.IterableWrapper([1]).sharding_filter().map(hangs)
    with loader(dp, ps.RayReadingService(fleet=fleet, timeout=2, num_shards=1)) as reader, pytest.raises(TimeoutError):
        list(reader)
    process = int((tmp_path / "process").read_text())
    deadline = time.monotonic() + 20
    while is_running(process):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_loaders_and_a_copy_of_the_fleet_read_in_turn(fleet: ps.RayFleet) -> None:
    dp = ps.iter.IterableWrapper(range(20)).sharding_filter().map(lambda x: (x, random.random()))
    with loader(dp, ps.MultiProcessingReadingService(2)) as reader:
        expected = list(reader)
    copy = pickle.loads(pickle.dumps(fleet))
    with loader(dp, ps.RayReadingService(fleet=fleet)) as one, loader(dp, ps.RayReadingService(fleet=copy)) as other:
        assert [*zip(one, other, strict=True)] == [*zip(expected, expected, strict=True)]


def test_who_has_no_key_is_not_served_and_keeps_nobody_out() -> None:
    with actor_hosts.Listener() as listener:
        address = listener.address
        assert address.key not in repr(address).encode()
        with (
            socket.create_connection(address.remote),  # and says nothing
            dataclasses.replace(address, key=bytes(32)).connect() as stranger,
            address.connect() as known,
        ):
            (accepted,) = listener.accept(1)
            known.send("it is me")
            assert accepted.recv() == "it is me"
            with pytest.raises(EOFError):
                stranger.recv()
            accepted.close()
    with pytest.raises(ConnectionError, match="cannot reach its loader"):
        address.connect()


def test_resources_that_the_cluster_has_not_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_STARTS_WITHIN", 0.5)
    service = ps.RayReadingService(1, resources_per_worker={"CPU": 1, "a_tpu": 1}, timeout=1)
    with (
        loader(numbers(6), service) as reader,
        pytest.raises(TimeoutError, match=r"actor 0 of 1 has not started for 1 s: it needs .*a_tpu.*has free .*CPU"),
    ):
        list(reader)


def test_an_actor_that_is_late_is_told_of_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_STARTS_WITHIN", 0.01)
    monkeypatch.setattr(cluster, "_GLANCE", 0.01)
    with loader(numbers(6), ps.RayReadingService(1)) as reader, pytest.warns(RuntimeWarning, match="has not started"):
        assert sorted(reader) == list(range(6))


def test_actors_end_with_their_loader(fleet: ps.RayFleet) -> None:
    import ray

    dp = numbers(8).map(process_of)
    with loader(dp, ps.RayReadingService(2)) as reader:
        processes = {process for _, process in reader}
        assert len(processes) == 2
        assert ray.available_resources().get("CPU", 0) < 2
    deadline = time.monotonic() + 20
    while any(map(is_running, processes)) or ray.available_resources().get("CPU", 0) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"num_workers": -1}, "num_workers must be at least 0, and is -1"),
        ({"num_workers": 1, "num_shards": 0}, "num_shards must be at least 1, and is 0"),
        ({"num_workers": 1, "timeout": 0}, "timeout must be seconds, more than 0, and is 0"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ps.RayReadingService(**given)


def test_a_fleet_says_what_it_has(fleet: ps.RayFleet) -> None:
    with pytest.raises(ValueError, match="a fleet has its own num_workers"):
        ps.RayReadingService(2, fleet=fleet)
    with pytest.raises(ValueError, match="num_workers must be at least 1, and is 0"):
        ps.RayFleet(0)
    assert repr(fleet) == "RayFleet(2, resources_per_worker={'CPU': 1})"


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "penstock\[ray\]"'):
        ps.RayReadingService(2)


def test_with_no_workers_everything_happens_here() -> None:
    here = threading.get_ident()
    dp = ps.iter.IterableWrapper(range(3)).sharding_filter().map(lambda x: threading.get_ident() == here)
    with loader(dp, ps.RayReadingService(0)) as reader:
        assert list(reader) == [True] * 3


def test_a_pass_that_is_given_up_while_actors_start_ends_soon_and_leaves_nothing() -> None:
    def give_up(*_: object) -> None:
        raise KeyboardInterrupt

    service = ps.RayReadingService(1, resources_per_worker={"CPU": 100})
    reader = loader(numbers(4).prefetch(2), service)
    before = signal.signal(signal.SIGALRM, give_up)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 2)
        with pytest.raises(KeyboardInterrupt):
            list(reader)
    finally:
        signal.signal(signal.SIGALRM, before)
    reader.shutdown()
    assert time.monotonic() - began < 10
    assert not [thread for thread in threading.enumerate() if "penstock-prefetch" in thread.name]


def test_an_actor_behind_a_firewall_is_named(fleet: ps.RayFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    change_addresses(monkeypatch, local="", remote=address)
    service = ps.RayReadingService(fleet=fleet)
    with pytest.raises(RuntimeError, match=r"actor 0 of 2 cannot reach its loader at 127.0.0.1:\d+, as behind a fire"):
        list(loader(numbers(4), service))


@pytest.mark.parametrize("on_ray", [True, False])
def test_a_dispatched_stream_that_cannot_be_loaded_says_why(on_ray: bool, fleet: ps.RayFleet) -> None:
    dp = ps.iter.IterableWrapper([CannotArrive()], deepcopy=False)
    dp = dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    service: Any = ps.RayReadingService(fleet=fleet) if on_ray else ps.MultiProcessingReadingService(2)
    with loader(dp, service) as reader, pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere") as caught:
        list(reader)
    assert any("the process that reads the dispatched stream loaded" in note for note in caught.value.__notes__)


def test_resources_that_no_actor_can_have_are_an_error_at_once() -> None:
    for make in (
        lambda: ps.RayReadingService(1, resources_per_worker={"CPU": -1}),
        lambda: ps.RayFleet(1, {"CPU": -1}),
    ):
        with pytest.raises(ValueError, match="negative"):
            make()
