"""Metrics of a loader: what they count, when they are sent, and to whom."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event

import penstock as ps
from fresh import outputs_of
from penstock import DataLoader2, MultiProcessingReadingService


def numbers(count: int = 20) -> Any:
    return ps.iter.IterableWrapper(range(count)).sharding_filter()


def pause(item: int) -> int:
    time.sleep(0.01)
    return item


def test_without_a_request_nothing_is_measured() -> None:
    loader = DataLoader2(numbers())
    assert list(loader) == [*range(20)]
    with pytest.raises(RuntimeError, match="make the loader with metrics=True"):
        loader.metrics()
    with pytest.raises(RuntimeError, match="make the loader with profile=True"):
        DataLoader2(numbers(), metrics=True).profile()


def test_items_count_over_epochs() -> None:
    loader = DataLoader2(numbers(5), metrics=True)
    assert loader.metrics()["items"] == 0
    for epoch in (1, 2):
        list(loader)
        found = loader.metrics()
        assert (found["epoch"], found["items"], found["total_items"]) == (epoch, 5, 5 * epoch)
    next(iter(loader))
    assert (loader.metrics()["epoch"], loader.metrics()["items"], loader.metrics()["total_items"]) == (3, 1, 11)


def test_the_share_of_waiting_and_the_rate() -> None:
    loader = DataLoader2(numbers(40).map(pause), metrics=True)
    list(loader)
    waits = loader.metrics()
    assert waits["wait_share"] > 0.9
    assert waits["items_per_second"] == pytest.approx(40 / waits["seconds"])
    loader = DataLoader2(numbers(40), metrics=True)
    for item in loader:
        pause(item)
    assert loader.metrics()["wait_share"] < 0.1


@pytest.mark.parametrize("workers", [0, 2])
def test_losses_of_all_shards(workers: int) -> None:
    dp = numbers().map(lambda item: item // (item % 5), on_error="skip")
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(workers), metrics=True) as loader:
        list(loader)
        assert loader.metrics()["skipped"] == 4
        assert loader.metrics()["retried"] == 0


def test_the_queue_of_the_main_process() -> None:
    service = MultiProcessingReadingService(1, main_prefetch_cnt=3)
    with DataLoader2(numbers(), reading_service=service, metrics=True) as loader:
        iterator = iter(loader)
        next(iterator)
        deadline = time.monotonic() + 20
        while loader.metrics()["queue_items"] < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loader.metrics()["queue_items"] == loader.metrics()["queue_capacity"] == 3
    assert "queue_items" not in DataLoader2(numbers(), metrics=True).metrics()


def test_steps_where_they_are_profiled() -> None:
    loader = DataLoader2(numbers(10).map(pause), profile=True)
    list(loader)
    found = loader.metrics()
    assert found["step/2_map/items"] == 10
    assert found["step/2_map/seconds"] >= 0.1 > found["step/1_sharding_filter/seconds"]


def test_a_function_receives_them_now_and_then_and_at_the_end_of_each_epoch() -> None:
    received: list[dict[str, float]] = []
    loader = DataLoader2(numbers(10).map(pause), metrics=received.append, metrics_interval=0.03)
    list(loader)
    assert 2 < len(received) <= 5
    assert [each["items"] for each in received] == sorted({each["items"] for each in received})
    assert received[-1]["items"] == 10
    received.clear()
    loader = DataLoader2(numbers(10), metrics=received.append)
    list(loader), list(loader)
    assert [(each["epoch"], each["items"]) for each in received] == [(1, 10), (2, 10)]
    assert all(isinstance(value, (int, float)) for each in received for value in each.values())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_at_the_end_of_an_epoch_begins_the_next(workers: int) -> None:
    states: list[Any] = []
    service = MultiProcessingReadingService(workers, num_shards=2)
    dp = ps.iter.IterableWrapper(range(20)).shuffle().sharding_filter()
    with DataLoader2(dp, reading_service=service, metrics=lambda _: states.append(loader.state_dict())) as loader:
        list(loader)
        following = list(loader)
    with DataLoader2(dp, reading_service=service) as resumed:
        resumed.load_state_dict(states[0])
        assert list(resumed) == following


def test_counts_of_an_epoch_that_is_resumed_go_on() -> None:
    loader = DataLoader2(numbers(6), metrics=True)
    list(loader)
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    list(loader)
    found = loader.metrics()
    assert (found["epoch"], found["items"], found["total_items"]) == (2, 6, 12)
    resumed = DataLoader2(numbers(6), metrics=True)
    resumed.load_state_dict(state)
    list(resumed)
    assert (resumed.metrics()["epoch"], resumed.metrics()["items"]) == (2, 6)


def test_an_error_of_the_function_is_raised_in_the_loop() -> None:
    def full(metrics: object) -> None:
        raise OSError("no space left")

    loader = DataLoader2(numbers(3), metrics=full)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="no space left") as raised:
        next(iterator)
    assert "raised in the function that receives the loader's metrics" in raised.value.__notes__[0]


def test_metrics_change_no_state() -> None:
    plain, measured = (DataLoader2(numbers().shuffle(), metrics=metrics) for metrics in (False, True))
    for loader in (plain, measured):
        loader.seed(0)
    assert [item for item, _ in zip(plain, range(7), strict=False)] == [
        item for item, _ in zip(measured, range(7), strict=False)
    ]
    assert plain.state_dict() == measured.state_dict()


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for _ in range(2):
        list(DataLoader2(numbers(4), metrics=ps.metrics.json_lines(path)))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["items"] for line in lines] == [4, 4]
    assert abs(lines[0]["time"] - time.time()) < 60


def events_in(path: Path) -> list[Any]:
    """TFRecords: a length of 8 bytes and its check value of 4, the event, and its check value."""
    data, at, events = path.read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        events.append(Event.FromString(data[at + 12 : at + 12 + size]))
        at += 16 + size
    return events


def test_tensorboard(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        loader = DataLoader2(numbers(4), metrics=ps.metrics.tensorboard(writer, prefix="train/"))
        list(loader), list(loader)
    (file,) = tmp_path.iterdir()
    scalars = [
        (value.tag, event.step, value.simple_value) for event in events_in(file) for value in event.summary.value
    ]
    assert [each for each in scalars if each[0] == "train/items"] == [("train/items", 4, 4.0), ("train/items", 8, 4.0)]


def test_prometheus() -> None:
    registry = CollectorRegistry()
    train, valid = (ps.metrics.prometheus(f"{name}_", registry) for name in ("train", "valid"))
    loader = DataLoader2(numbers(4).map(pause), metrics=train, profile=True)
    list(loader), list(loader)
    list(DataLoader2(numbers(3), metrics=valid))
    assert registry.get_sample_value("train_total_items") == 8
    assert registry.get_sample_value("train_step_2_map_items") == 4
    assert registry.get_sample_value("valid_items") == 3


def test_the_receivers_are_there_before_a_loader_is() -> None:
    assert outputs_of("import penstock as ps; print(ps.metrics.json_lines.__name__)") == ["json_lines\n"]
