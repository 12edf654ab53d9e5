"""map_pool on Ray's actors: order, errors and states as with processes; placed as asked, ended with the pipe."""

import functools
import gc
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from itertools import islice

import cloudpickle
import numpy as np
import psutil
import pytest
import ray
import torch

import models
import penstock as ps
from models import FailsAt, Net, Scaler, tensors
from penstock.workers import cluster as cluster_module
from penstock.workers.threads import Interrupted

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("local_ray")]

# Actors have no path to this folder, and get what is defined here by value, as from a notebook.
for module in (sys.modules[__name__], models):
    cloudpickle.register_pickle_by_value(module)

numbers = ps.iter.IterableWrapper


class Seen:
    """Says what it was called with, and where."""

    def __call__(self, item):
        context = ray.get_runtime_context()
        return {
            "kind": type(item).__name__,
            "item": item,
            "process": os.getpid(),
            "ray": context.gcs_address,
            "has": context.get_assigned_resources(),
            "threads": torch.get_num_threads(),
        }


class WaitsForTheOther:
    """Returns when as many were called as there are to be."""

    def __init__(self, folder, after=Seen):
        self.folder, self.after = folder, after()

    def __call__(self, item):
        (self.folder / str(item)).touch()
        for _ in range(60_000):
            if (self.folder / str(1 - item)).exists():
                return self.after(item)
            threading.Event().wait(0.001)
        raise TimeoutError


class WritesToWhatItGets:
    def __call__(self, batch):
        batch["x"][0] = 7
        batch["a"][0] = 7
        return batch


class ABadRow(Exception):
    def __init__(self, row, where):
        super().__init__(f"row {row} is bad")
        self.where = where


def raises():
    raise ABadRow(3, where="here")


def dies_once(folder):
    try:
        (folder / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(7)


def on_ray(items, model, **options):
    return numbers(items).map_pool(model, engine="ray", **options)


def test_results_come_in_order_from_models_made_once_for_all_passes(tmp_path):
    dp = on_ray(range(40), functools.partial(Scaler, 3, folder=tmp_path))
    for _ in range(3):
        assert list(dp) == [x * 3 for x in range(40)]
    processes = {int(file.name.partition("-")[0]) for file in tmp_path.iterdir()}
    assert 1 <= len(list(tmp_path.iterdir())) <= 2
    assert os.getpid() not in processes
    assert len(dp) == 40


def test_actors_are_gone_with_their_pipe():
    dp = on_ray(range(4), Seen, workers=1)
    (process,) = {seen["process"] for seen in dp}
    assert psutil.pid_exists(process)
    del dp
    gc.collect()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(process):
        assert time.monotonic() < deadline
        time.sleep(0.05)


# what travels


@pytest.mark.parametrize("rows", [2, 300_000], ids=["small", "in the object store"])
def test_arrays_and_tensors_can_be_written_to_there_and_here(rows):
    item = {"x": torch.zeros(rows), "a": np.zeros(rows), "half": torch.ones(rows, dtype=torch.bfloat16)}
    for _ in range(2):
        (result,) = on_ray([item], WritesToWhatItGets, workers=1)
        assert result["x"][:2].tolist() == result["a"][:2].tolist() == [7, 0]
        assert item["x"][0] == item["a"][0] == 0
        result["x"] += 1
        result["a"] += 1
        assert result["half"].dtype == torch.bfloat16
        assert result["half"].sum() == rows or rows > 2


def test_models_and_items_of_a_notebook_travel():
    class Local:
        def __call__(self, item):
            return Wrapped(item)

    class Wrapped:
        def __init__(self, item):
            self.item = item

    assert [result.item for result in on_ray([1, 2], lambda: Local(), workers=1)] == [1, 2]


# what actors ask of Ray


def test_each_actor_has_the_resources_that_it_asks_for(tmp_path):
    dp = on_ray(range(2), functools.partial(WaitsForTheOther, tmp_path), resources_per_worker={"CPU": 2})
    seen = list(dp)
    assert [each["item"] for each in seen] == [0, 1]
    assert len({each["process"] for each in seen}) == 2
    assert [each["has"] for each in seen] == [{"CPU": 2.0}] * 2
    assert [each["threads"] for each in seen] == [2, 2]


@pytest.mark.parametrize(("resources", "error"), [({"GPU": "all"}, TypeError), ({"CPU": -1}, ValueError)])
def test_resources_that_actors_do_not_have_raise_at_construction(resources, error):
    with pytest.raises(error) as caught:
        on_ray([1], Scaler, resources_per_worker=resources)
    assert "resources are what each actor asks of Ray" in caught.value.__notes__[0]


def test_a_pass_goes_on_with_the_actors_that_ray_has_room_for(monkeypatch):
    monkeypatch.setattr(cluster_module, "_STARTS_WITHIN", 0.5)
    dp = on_ray(range(6), functools.partial(FailsAt, None, None), resources_per_worker={"CPU": 3})
    for _ in range(2):
        assert list(dp) == [*range(6)]
    began = time.monotonic()
    running = iter(dp)
    assert next(running) == 0
    running.close()
    assert time.monotonic() - began < 4  # the actor that is not there is not waited for
    dp.source.iterable = [0]  # which is work for one
    assert list(dp) == [0]


def test_an_actor_that_ray_cannot_place_is_told_of(monkeypatch):
    monkeypatch.setattr(cluster_module, "_STARTS_WITHIN", 0.3)
    dp = on_ray([1], Scaler, workers=1, resources_per_worker={"moon": 1})
    threading.Timer(3, dp.interrupt).start()
    expected = r"an actor of ModelPoolMapper\(.*has not started for 0.3 s: it needs .*'moon': 1.*has free {'CPU': "
    with pytest.warns(RuntimeWarning, match=expected), pytest.raises(Interrupted):
        list(dp)


# errors


def test_an_error_comes_in_its_turn_as_itself_and_names_the_item():
    running = iter(on_ray(range(6), functools.partial(FailsAt, 3, raises), workers=1))
    assert list(islice(running, 3)) == [0, 1, 2]
    with pytest.raises(ABadRow, match="row 3 is bad") as caught:
        next(running)
    assert type(caught.value) is ABadRow
    assert caught.value.where == "here"
    assert "in raises" in str(caught.value.__cause__)
    assert "ModelPoolMapper(" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith(", on 3")


class CannotBeMade:
    def __init__(self):
        raise OSError("no weights")

    def __call__(self, item):
        return item


def test_a_model_that_cannot_be_made_is_an_error_of_no_item():
    with pytest.raises(OSError, match="no weights") as caught:
        list(on_ray([1], CannotBeMade, workers=1))
    assert caught.value.__notes__[0].endswith("before it was ready for items")


@pytest.mark.parametrize(
    ("die", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "worker process has died"),
        (lambda: os._exit(7), "worker process has died"),
        (lambda: sys.exit(3), "exit code 3"),
    ],
    ids=["killed", "ended", "exits"],
)
def test_the_death_of_an_actor_is_an_error_of_its_item(die, how):
    dp = on_ray(range(9), functools.partial(FailsAt, 4, die), workers=1)
    for _ in range(2):  # the pass after it begins with a new actor
        running = iter(dp)
        assert list(islice(running, 4)) == [0, 1, 2, 3]
        with pytest.raises(RuntimeError, match=f"the model's actor was lost.*{how}") as caught:
            next(running)
        assert caught.value.__notes__[0].endswith(", on 4")
        assert isinstance(caught.value.__cause__, ray.exceptions.ActorDiedError)


def test_items_after_a_death_go_to_a_new_actor(tmp_path):
    model = functools.partial(FailsAt, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
    dp = on_ray(range(6), model, workers=1, on_error="skip")
    assert list(dp) == [0, 1, 3, 4, 5]
    assert dp.stats()["map_pool"]["skipped"] == 1
    once = functools.partial(FailsAt, 2, functools.partial(dies_once, tmp_path))
    assert list(on_ray(range(6), once, workers=1, on_error=ps.Retry(2, backoff=0))) == [*range(6)]


def test_an_item_that_cannot_be_pickled_says_so():
    with pytest.raises(TypeError) as caught:
        list(on_ray([threading.Lock()], Scaler, workers=1))
    assert "the model's argument cannot be pickled" in caught.value.__notes__[0]


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "penstock\[ray\]"'):
        on_ray([1], Scaler)


# ends of passes, and going on


class Slow:
    def __call__(self, item):
        if item:
            time.sleep(60)
        return item


def test_a_pass_that_is_given_up_while_actors_are_busy_ends_soon():
    dp = on_ray([0, 0, 1, 1, 1, 1], Slow)
    running = iter(dp)
    assert [next(running), next(running)] == [0, 0]
    time.sleep(0.5)
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < 15
    assert next(iter(dp)) == 0


def test_resuming_is_exact():
    def make(**options):
        source = numbers([tensors(n * 3, 3) for n in range(4)])
        return source.map_pool(Net, batch_size=2, batched=True, **options)

    stopped, resumed, elsewhere = make(engine="ray"), make(engine="ray"), make()
    running = iter(stopped)
    begun = [next(running)["id"].tolist() for _ in range(3)]
    state = json.loads(json.dumps(stopped.state_dict()))
    resumed.load_state_dict(state)
    elsewhere.load_state_dict(state, strict=False)
    rest = [[batch["id"].tolist() for batch in going_on] for going_on in (running, resumed, elsewhere)]
    for each in rest:
        assert begun + each == [[n, n + 1] for n in range(0, 12, 2)]


# other processes


def test_the_workers_of_a_loader_use_the_ray_of_the_process_that_started_them():
    dp = numbers(range(8)).sharding_filter().map_pool(Seen, workers=1, engine="ray")
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        seen = list(loader)
    assert [each["item"] for each in seen] == [*range(8)]
    assert len({each["process"] for each in seen}) == 2
    assert {each["ray"] for each in seen} == {ray.get_runtime_context().gcs_address}


def test_a_worker_without_a_ray_to_use_is_an_error(monkeypatch):
    cluster = cluster_module.Cluster()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster.connect() is ray  # and will be connected at its first use
    monkeypatch.setattr(cluster_module, "parent_process", lambda: "a process")
    with pytest.raises(RuntimeError, match=r"call ray.init\(\) before the chain goes to workers"):
        cluster.connect()


def _read_in_fork(dp, connection):
    try:
        list(dp)
    except RuntimeError as error:
        connection.send(str(error))
    os._exit(0)


def test_a_process_that_was_forked_off_says_that_it_cannot_use_ray():
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_read_in_fork, args=(on_ray([1], Scaler), there))
    process.start()
    assert here.poll(30)
    assert f"forked off from process {os.getpid()}" in here.recv()
    process.join(10)
    process.close()


def test_an_actor_that_has_died_between_two_passes_costs_no_item():
    dp = on_ray(range(4), Seen, workers=1, on_error="skip")
    os.kill(next(iter(dp))["process"], signal.SIGKILL)
    for _ in range(100):
        time.sleep(0.05)
        if not any(actor["State"] == "ALIVE" for actor in ray._private.state.actors().values()):
            break
    assert [seen["item"] for seen in dp] == [0, 1, 2, 3]
    assert dp.stats()["map_pool"]["skipped"] == 0


def test_memory_can_be_asked_for_and_what_cannot_be_is_said_at_once():
    assert [seen["has"]["memory"] for seen in on_ray([1], Seen, resources_per_worker={"memory": 2**20})] == [2**20]
    with pytest.raises(ValueError, match="negative") as caught:
        on_ray([1], Seen, resources_per_worker={"CPU": -1})
    assert "resources are what each actor asks of Ray" in caught.value.__notes__[0]
