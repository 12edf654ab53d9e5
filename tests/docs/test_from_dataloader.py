"""Each row of the page about torch's DataLoader is run, both sides of it, by the test of its argument's name."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import re
import time
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset
from torch.utils.data.distributed import DistributedSampler

import penstock as ps

pytestmark = pytest.mark.timeout(50)

PAGE = (Path(__file__).parents[2] / "docs" / "from_dataloader.md").read_text()
ROWS = re.findall(r"^\| `((\w+)=[^`]*)` \| `([^`]*)` \|", PAGE, re.MULTILINE)


class Squares(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index * index

    def __len__(self) -> int:
        return 10


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(5))


class Pairs(BatchSampler):
    """Indices from both ends."""

    def __init__(self, data_source: Any) -> None:
        self.length = len(data_source)

    def __iter__(self) -> Any:
        return ([n, self.length - 1 - n] for n in range(self.length // 2))

    def __len__(self) -> int:
        return self.length // 2


def prepare(worker: int) -> None:
    os.environ["PREPARED"] = f"worker {worker}"


def names_of(folder: Path) -> dict[str, Any]:
    """What the expressions of the page may name."""
    dataset = Squares()
    dp = ps.map.SequenceWrapper(dataset)

    def waiting(item: int) -> int:
        while item == 0 and not (folder / "last").exists():
            time.sleep(0.001)
        if item == 81:
            (folder / "last").touch()
        return item

    return {
        **vars(torch.utils.data),
        **globals(),
        "DistributedSampler": DistributedSampler,
        "dataset": dataset,
        "stream": Stream(),
        "dp": dp,
        "items": dp.to_iter_datapipe(),
        "weights": [0.0] * 5 + [1.0] * 5,
        "padded": lambda batch: torch.nn.functional.pad(torch.tensor(batch), (0, 4 - len(batch))),
        "slow": ps.iter.IterableWrapper([1]).sharding_filter().map(lambda _: time.sleep(30)),
        "prepare_chain": lambda datapipe, worker_info: prepare(worker_info.worker_id) or datapipe,
        "prepared": lambda _: os.environ.get("PREPARED"),
        "start_method": lambda _: type(multiprocessing.current_process()).__name__,
        "process": lambda _: os.getpid(),
        "noted": lambda item: (folder / str(item)).touch() or item,
        "waiting": waiting,
        "seeded": lambda loader, seed: loader.seed(seed) or loader,
    }


class Row(NamedTuple):
    theirs: dict[str, Any]
    ours: Any

    def read_theirs(self, **more: Any) -> list[Any]:
        return list(DataLoader(**{"dataset": Squares(), "batch_size": None, **more, **self.theirs}))


@pytest.fixture
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The rows of the page for the argument that the test is named for, evaluated."""
    argument = request.function.__name__.removeprefix("test_")
    found = [row for row in ROWS if row[1] == argument]
    names = names_of(tmp_path)
    made = [Row(eval(f"dict({theirs})", names), eval(ours, names)) for theirs, _, ours in found]
    yield made
    for row in made:
        if isinstance(row.ours, ps.DataLoader2):
            row.ours.shutdown()


def lists(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


def test_every_argument_of_torchs_loader_has_a_row_and_each_row_a_test() -> None:
    arguments = {*inspect.signature(DataLoader).parameters}
    assert {argument for _, argument, _ in ROWS} == arguments
    assert len(ROWS) == PAGE.count("\n| `")
    assert not [argument for argument in arguments if f"test_{argument}" not in globals()]


def test_dataset(rows: list[Row]) -> None:
    by_index, stream = rows
    assert list(by_index.ours) == by_index.read_theirs()
    assert len(by_index.ours) == 10
    assert list(stream.ours) == stream.read_theirs() == [0, 1, 2, 3, 4]


def test_batch_size(rows: list[Row]) -> None:
    four, none = rows
    assert lists(four.ours) == lists(four.read_theirs()) == [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    assert list(none.ours) == none.read_theirs()


def test_shuffle(rows: list[Row]) -> None:
    (row,) = rows
    assert sorted(row.ours) == sorted(row.read_theirs()) == [n * n for n in range(10)]
    assert len({tuple(row.ours) for _ in range(5)}) > 1


def test_sampler(rows: list[Row]) -> None:
    order, instance, weighted, distributed = rows
    assert list(order.ours) == order.read_theirs() == [16, 0, 4]
    assert sorted(instance.ours) == sorted(instance.read_theirs()) == [n * n for n in range(10)]
    assert len({tuple(instance.ours) for _ in range(5)}) > 1
    for epoch in range(2):
        distributed.theirs["sampler"].set_epoch(epoch)
        assert list(distributed.ours) == distributed.read_theirs()
    assert len({*distributed.ours}) == 5
    for drawn in (list(weighted.ours), weighted.read_theirs()):
        assert len(drawn) == 6
        assert {*drawn} <= {25, 36, 49, 64, 81}
    assert len({tuple(weighted.ours) for _ in range(5)}) > 1
    loaders = [ps.DataLoader2(weighted.ours) for _ in range(2)]
    for loader in loaders:
        loader.seed(3)
    running = iter(loaders[0])
    head = [next(running) for _ in range(2)]
    loaders[1].load_state_dict(loaders[0].state_dict())
    assert list(loaders[1]) == list(running)
    assert len(head) == 2


def test_batch_sampler(rows: list[Row]) -> None:
    batches, row = rows
    assert lists(batches.ours) == lists(batches.read_theirs(batch_size=1)) == [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
    assert lists(row.ours) == lists(row.read_theirs(batch_size=1)) == [[0, 81], [1, 64], [4, 49], [9, 36], [16, 25]]


def test_num_workers(rows: list[Row]) -> None:
    (row,) = rows
    assert sorted(chain.from_iterable(lists(row.ours))) == sorted(row.read_theirs()) == [n * n for n in range(10)]
    dataset = Squares()
    whole = ps.iter.Sampler(dataset).batch(2).sharding_filter().map(lambda batch: [dataset[n] for n in batch]).collate()
    with ps.DataLoader2(whole, reading_service=ps.MultiProcessingReadingService(num_workers=2)) as loader:
        assert lists(loader) == lists(row.read_theirs(batch_size=2))


def test_collate_fn(rows: list[Row]) -> None:
    (row,) = rows
    assert lists(row.ours) == lists(row.read_theirs(batch_size=3))
    assert lists(row.ours)[-1] == [81, 0, 0, 0]


@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
def test_pin_memory(rows: list[Row]) -> None:
    (row,) = rows
    assert lists(row.ours) == lists(row.read_theirs(batch_size=4))
    assert {batch.is_pinned() for batch in row.ours} == {torch.accelerator.is_available()}


def test_drop_last(rows: list[Row]) -> None:
    (row,) = rows
    assert lists(row.ours) == lists(row.read_theirs(batch_size=4)) == [[0, 1, 4, 9], [16, 25, 36, 49]]


def test_timeout(rows: list[Row]) -> None:
    (row,) = rows
    with pytest.raises(TimeoutError, match="on 1"):
        list(row.ours)
    with pytest.raises(RuntimeError, match="timed out"):
        list(DataLoader(Hanging(), num_workers=1, **row.theirs))


class Hanging(Squares):
    def __getitem__(self, index: int) -> int:
        time.sleep(30)
        return index


class Told(Squares):
    """Says what is known where an item is read."""

    def __getitem__(self, index: int) -> Any:
        return os.environ.get("PREPARED"), type(multiprocessing.current_process()).__name__, os.getpid()


def test_worker_init_fn(rows: list[Row]) -> None:
    (row,) = rows
    assert {*row.ours} == {"worker 0"}
    assert {prepared for prepared, *_ in row.read_theirs(dataset=Told(), num_workers=1)} == {"worker 0"}
    assert "PREPARED" not in os.environ


def test_multiprocessing_context(rows: list[Row]) -> None:
    (row,) = rows
    assert {*row.ours} == {"SpawnProcess"}
    assert DataLoader(Told(), num_workers=1, **row.theirs).multiprocessing_context.get_start_method() == "spawn"


def test_generator(rows: list[Row]) -> None:
    (row,) = rows
    epochs = [list(row.ours), list(row.ours)]
    row.ours.seed(7)
    assert [list(row.ours), list(row.ours)] == epochs
    assert epochs[0] != epochs[1]
    theirs = row.read_theirs(shuffle=True)
    row.theirs["generator"].manual_seed(7)
    assert row.read_theirs(shuffle=True) == theirs


def test_prefetch_factor(rows: list[Row], tmp_path: Path) -> None:
    (row,) = rows
    running = iter(row.ours)
    next(running)
    deadline = time.monotonic() + 10
    while len(os.listdir(tmp_path)) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    assert len(os.listdir(tmp_path)) == 3
    assert DataLoader(Squares(), num_workers=1, **row.theirs).prefetch_factor == 2


def test_persistent_workers(rows: list[Row]) -> None:
    (row,) = rows
    assert len({*row.ours} | {*row.ours}) == 1
    theirs = DataLoader(Told(), batch_size=None, num_workers=1, **row.theirs)
    assert len({pid for _ in range(2) for *_, pid in theirs}) == 1


@pytest.mark.skipif(torch.version.cuda is not None and not torch.cuda.is_available(), reason="CUDA has no driver here")
@pytest.mark.filterwarnings("ignore:.*pin_memory:UserWarning")
def test_pin_memory_device(rows: list[Row]) -> None:
    (row,) = rows
    assert lists(row.ours) == lists(row.read_theirs(batch_size=4, pin_memory=True))


def test_in_order(rows: list[Row]) -> None:
    (row,) = rows
    seen = list(row.ours)
    assert seen[0] != 0
    assert sorted(seen) == sorted(row.read_theirs())
