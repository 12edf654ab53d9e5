"""Chains read by Ray Data, and datasets of Ray Data read as chains, in a Ray on this machine."""

from __future__ import annotations

import logging
import random
import re
import subprocess
import sys
import threading
from collections import namedtuple
from itertools import chain as chained
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
import ray.exceptions
import torch

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES
from penstock.runner.on_ray.ray_shards import PenstockDatasource

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("local_ray"),
    # Ray leaves sockets and threads of its own to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

_MISSING = object()


@pytest.fixture(autouse=True, scope="module")
def quiet(local_ray: None) -> None:
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    ray.data.DataContext.get_current().enable_progress_bars = False


def wrapped(items: Any) -> Any:
    return ps.iter.IterableWrapper(items)


def in_order(dataset: Any) -> Any:
    """The dataset, which then gives shard after shard."""
    dataset.context.execution_options.preserve_order = True
    return dataset


def shards_of(dp: Any, num_shards: int, seed: int, epoch: int) -> list[list[Any]]:
    """The items of each shard as its read task gives them, of a chain that gives other items than rows."""
    tasks = PenstockDatasource(dp, num_shards, seed, epoch, False).get_read_tasks(1)
    return [[*chained.from_iterable(block.column("item").to_pylist() for block in task())] for task in tasks]


def of_loader(dp: Any, num_shards: int, seed: int, epochs: int, workers: int = 0) -> list[list[Any]]:
    service = ps.MultiProcessingReadingService(workers, num_shards=num_shards)
    with ps.DataLoader2(dp, reading_service=service) as loader:
        loader.seed(seed)
        return [[*loader] for _ in range(epochs)]


def in_turn(shards: list[list[Any]]) -> list[Any]:
    return [item for items in zip_longest(*shards, fillvalue=_MISSING) for item in items if item is not _MISSING]


# From a chain to a dataset


def test_rows_come_with_their_columns() -> None:
    rows = [
        {
            "id": number,
            "text": f"row {number}",
            "maybe": None if number % 2 else number / 4,
            "raw": bytes([number]),
            "flag": number > 3,
            "parts": [number] * (number % 3),
            "made": {"by": "hand"},
        }
        for number in range(10)
    ]
    dataset = in_order(ps.from_items(rows).to_ray_dataset())
    assert dataset.take_all() == rows
    assert dataset.count() == 10
    types = dict(zip(dataset.schema().names, dataset.schema().types, strict=True))
    assert types["id"] == pa.int64()
    assert types["text"] == pa.string()
    assert types["maybe"] == pa.float64()
    assert types["raw"] == pa.binary()


def test_tensors_of_rows_become_rays_tensors() -> None:
    rows = [
        {
            "image": torch.full((3, 4, 5), number, dtype=torch.uint8),
            "vector": np.arange(6, dtype=np.float32) + number,
            "ragged": np.full((number + 1, 2), number),
            "label": torch.tensor(number),
        }
        for number in range(5)
    ]
    dataset = in_order(ps.from_items(rows).to_ray_dataset())
    for row, expected in zip(dataset.take_all(), rows, strict=True):
        assert row["image"].dtype == np.uint8
        for name, value in expected.items():
            assert np.array_equal(row[name], np.asarray(value)), name
    (batch,) = dataset.drop_columns(["ragged"]).iter_torch_batches(batch_size=None)
    assert batch["image"].shape == (5, 3, 4, 5)
    assert batch["vector"].dtype == torch.float32
    assert batch["label"].tolist() == [0, 1, 2, 3, 4]


def test_what_has_no_names_is_one_column_and_named_tuples_have_several() -> None:
    assert wrapped([3, 1]).to_ray_dataset().take_all() == [{"item": 3}, {"item": 1}]
    assert wrapped(["a", None]).to_ray_dataset().take_all() == [{"item": "a"}, {"item": None}]
    assert wrapped([(1, 2), (3, 4)]).to_ray_dataset().take_all() == [{"item": [1, 2]}, {"item": [3, 4]}]
    (row,) = wrapped([torch.ones(2, 3)]).to_ray_dataset().take_all()
    assert row["item"].shape == (2, 3)
    pair = namedtuple("pair", "x y")
    assert wrapped([pair(1, "a")]).to_ray_dataset().take_all() == [{"x": 1, "y": "a"}]
    indexed = ps.map.SequenceWrapper("abc")
    assert [row["item"] for row in in_order(indexed.to_ray_dataset(2)).take_all()] == ["a", "c", "b"]


def test_rows_that_lack_a_column_have_null_there() -> None:
    dataset = in_order(wrapped([{"a": 1}, {"b": "x"}]).to_ray_dataset())
    assert dataset.take_all() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_what_arrow_has_nothing_for_is_pickled_as_ray_does_it() -> None:
    (row,) = wrapped([{"number": 1 + 2j}]).to_ray_dataset().take_all()
    assert row == {"number": 1 + 2j}


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"id": [1, 2], "text": ["a", None]}),
        pa.table({"id": [1, 2], "text": ["a", None]}),
        pd.DataFrame({"id": [1, 2], "text": ["a", None]}),
        {"id": torch.tensor([1, 2]), "text": ["a", None]},
    ],
    ids=["RecordBatch", "Table", "DataFrame", "dict"],
)
def test_batches_become_blocks(batch: Any) -> None:
    dataset = in_order(wrapped([batch, batch]).to_ray_dataset(batched=True))
    assert dataset.take_all() == [{"id": 1, "text": "a"}, {"id": 2, "text": None}] * 2


def test_tensors_of_batches_become_rays_tensors(tmp_path: Path) -> None:
    images = torch.arange(48, dtype=torch.float32).reshape(4, 3, 2, 2)
    path = str(tmp_path / "images-{shard}.parquet")
    [*wrapped([{"image": images, "id": torch.arange(4)}]).write_parquet(path, 4, batched=True)]
    chain = ps.read_parquet(str(tmp_path), batch_size=3)
    for dp in (chain, chain.to_tensors(), chain.with_format("numpy")):
        (batch,) = in_order(dp.to_ray_dataset()).iter_torch_batches(batch_size=None)
        assert torch.equal(batch["image"], images)
        assert batch["id"].tolist() == [0, 1, 2, 3]


def test_the_shards_are_those_of_a_loader_with_its_seed_and_epoch() -> None:
    dp = wrapped(range(50)).shuffle().sharding_filter().map(lambda x: (x, random.random())).shuffle(buffer_size=5)
    dp = dp.map(list)
    for number, items in enumerate(of_loader(dp, 3, 7, 2, workers=2)):
        of_ray = shards_of(dp, 3, 7, number)
        assert in_turn(of_ray) == items
        dataset = in_order(dp.to_ray_dataset(3, seed=7, epoch=number))
        assert [row["item"] for row in dataset.take_all()] == [*chained(*of_ray)]
        assert [row["item"] for row in dataset.take_all()] == [*chained(*of_ray)]


def test_a_dispatched_stream_is_divided_as_a_loader_does_it() -> None:
    dp = wrapped(range(20)).shuffle().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    dp = dp.map(lambda x: x + 100)
    (items,) = of_loader(dp, 3, 5, 1)
    assert in_turn(shards_of(dp, 3, 5, 0)) == items
    assert sorted(row["item"] for row in dp.to_ray_dataset(3).take_all()) == [*range(100, 120)]


def test_each_time_is_another_epoch() -> None:
    dp = wrapped(range(30)).shuffle().sharding_filter()
    dataset = in_order(dp.to_ray_dataset(2, seed=1))
    given = [[row["item"] for row in dataset.take_all()] for _ in range(2)]
    assert given[0] != given[1]
    assert given == [[*chained(*shards_of(dp, 2, 1, epoch))] for epoch in range(2)]


def test_without_a_seed_torchs_generator_draws_it() -> None:
    dp = wrapped(range(30)).shuffle()
    given = []
    for _ in range(2):
        torch.manual_seed(3)
        given.append(dp.to_ray_dataset(epoch=0).take_all())
    assert given[0] == given[1] != dp.to_ray_dataset(epoch=0).take_all()


def test_the_union_of_the_shards_is_the_whole_with_more_shards_than_items_too() -> None:
    dataset = wrapped([{"id": 1}, {"id": 2}]).sharding_filter().to_ray_dataset(5)
    assert sorted(row["id"] for row in dataset.take_all()) == [1, 2]
    assert dataset.schema().names == ["id"]
    empty = ps.from_items([]).sharding_filter().to_ray_dataset(3)
    assert empty.take_all() == []
    assert empty.count() == 0


def test_without_a_number_there_is_a_shard_for_each_cpu_where_the_chain_can_be_divided() -> None:
    assert wrapped(range(8)).sharding_filter().to_ray_dataset().materialize().num_blocks() == 4
    assert wrapped(range(8)).to_ray_dataset().materialize().num_blocks() == 1


def test_a_shard_comes_in_blocks_of_which_each_is_bounded() -> None:
    dp = wrapped(range(1000)).map(lambda x: {"id": x})
    (task,) = PenstockDatasource(dp, 1, 0, 0, None).get_read_tasks(1)
    assert [block.num_rows for block in task()] == [256, 256, 256, 232]
    large = wrapped(range(20)).map(lambda x: {"x": np.zeros(2**18)})  # 2 MiB each
    (task,) = PenstockDatasource(large, 1, 0, 0, False).get_read_tasks(1)
    assert [block.num_rows for block in task()] == [4] * 5
    dataset = large.to_ray_dataset(batched=False)
    dataset.context.target_max_block_size = 8 * 2**20
    assert max(block.num_rows for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow")) <= 8


def test_no_more_is_read_than_rays_limit_needs() -> None:
    dp = wrapped([0]).cycle()
    (task,) = PenstockDatasource(dp, 1, 0, 0, None).get_read_tasks(1, per_task_row_limit=3)
    assert [block.num_rows for block in task()] == [3]
    endless = dp.to_ray_dataset()
    assert len(endless.select_columns(["item"]).take(5)) == 5  # where Ray tells the tasks of its limit


def test_what_ray_does_next_goes_on_from_there() -> None:
    dp = wrapped(range(10)).sharding_filter().map(lambda x: {"x": x, "image": torch.full((2, 2), x)})
    dataset = dp.to_ray_dataset(2)
    sums = dataset.map_batches(lambda batch: {"sum": batch["image"].sum(axis=(1, 2))})
    assert sorted(row["sum"] for row in sums.take_all()) == [4 * x for x in range(10)]
    batches = [*dataset.iter_torch_batches(batch_size=4)]
    assert [batch["image"].shape for batch in batches] == [(4, 2, 2), (4, 2, 2), (2, 2, 2)]
    assert sorted(torch.cat([batch["x"] for batch in batches]).tolist()) == [*range(10)]
    assert dataset.sum("x") == 45


def test_options_reach_ray() -> None:
    dataset = wrapped(range(3)).to_ray_dataset(num_cpus=0.5, concurrency=1)
    assert dataset.count() == 3


# What is wrong is said


def test_a_chain_without_a_sharding_point_is_an_error() -> None:
    dp = wrapped(range(4)).map(str)
    with pytest.raises(RuntimeError, match=r"no sharding point .* each of the 3 shards would read all of it"):
        dp.to_ray_dataset(3)
    dataset = dp.to_ray_dataset(3, require_sharding=False)
    assert dataset.count() == 12


def test_steps_of_the_main_process_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="DeviceMover belongs in the process that uses the items"):
        wrapped([1]).to_device("cpu").to_ray_dataset()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_shards": 0}, ValueError),
        ({"num_shards": 1.5}, TypeError),
        ({"seed": -1}, ValueError),
        ({"epoch": -1}, ValueError),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        wrapped([1]).sharding_filter().to_ray_dataset(**arguments)
    with pytest.raises(TypeError, match="list"):
        ps.to_ray_dataset([1, 2])  # type: ignore[arg-type]


def test_an_error_in_a_task_says_where() -> None:
    def refusing(x: int) -> int:
        if x == 5:
            raise ValueError("five")
        return x

    dataset = wrapped(range(8)).sharding_filter().map(refusing).to_ray_dataset(2)
    with pytest.raises(ValueError, match="five") as caught:
        dataset.take_all()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert "penstock: raised in Mapper(refusing), on 5" in str(caught.value)
    assert "penstock: in shard 1 of 2, read by Ray Data" in str(caught.value)


@pytest.mark.parametrize(
    ("item", "error", "said"),
    [
        ({"x": torch.zeros(2)}, ValueError, "give batched=True, or batched=False for rows"),
        ((torch.zeros(2), 1), TypeError, 'convert it to a dict, as with .map(lambda pair: {"image": pair[0]'),
        ({"x": torch.zeros(2, dtype=torch.bfloat16), "y": 1}, TypeError, "column 'x': NumPy, and so Ray, has no type"),
        ({1: 2}, TypeError, "the names of columns must be strings, and one is 1"),
    ],
    ids=["ambiguous", "pair", "bfloat16", "name"],
)
def test_an_item_that_cannot_be_a_row_is_an_error_that_names_it(item: Any, error: type[Exception], said: str) -> None:
    (task,) = PenstockDatasource(wrapped([item]).map(lambda x: x), 1, 0, 0, None).get_read_tasks(1)
    with pytest.raises(error, match=re.escape(said)) as caught:
        [*task()]
    notes = "\n".join(caught.value.__notes__)
    assert "penstock: raised in" in notes
    assert "shard 0 of 1" in notes
    with pytest.raises(error):
        wrapped([item]).to_ray_dataset().take_all()


def test_columns_of_different_lengths_are_an_error() -> None:
    dp = wrapped([{"x": torch.zeros(2), "y": [1]}])
    with pytest.raises(ValueError, match="must have the same number of rows"):
        dp.to_ray_dataset(batched=True).take_all()


def test_importing_penstock_does_not_import_ray() -> None:
    subprocess.run([sys.executable, "-c", "import sys, penstock; assert 'ray' not in sys.modules"], check=True)


def test_without_ray_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(ImportError, match=r'pip install "penstock\[ray\]"'):
        wrapped([1]).to_ray_dataset()
    with pytest.raises(ImportError, match=r'pip install "penstock\[ray\]"'):
        ps.from_ray_dataset(None)  # type: ignore[arg-type]


# From a dataset to a chain


@pytest.fixture(scope="module")
def numbers(local_ray: None) -> Any:
    """A dataset of 200 rows in 5 blocks, that is read anew each time."""
    return ray.data.range(200, override_num_blocks=5).map_batches(lambda batch: {**batch, "half": batch["id"] / 2})


@pytest.fixture(scope="module", params=["lazy", "materialized"])
def either(request: pytest.FixtureRequest, numbers: Any) -> Any:
    return numbers if request.param == "lazy" else numbers.materialize()


def ids(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_a_dataset_is_read_as_record_batches_in_order(either: Any) -> None:
    dp = ps.from_ray_dataset(either, batch_size=16)
    batches = [*dp]
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows <= 16 for batch in batches)
    assert ids(batches) == [*range(200)]
    assert ids(dp) == [*range(200)]
    assert dp.schema() == pa.schema({"id": pa.int64(), "half": pa.float64()})
    assert [*ps.schema(dp.shuffle())] == [*ps.schema(dp)]
    with pytest.raises(TypeError):
        len(dp)


def test_reading_holds_the_laws(numbers: Any) -> None:
    kept = numbers.materialize()
    ps.check_operator(lambda: ps.from_ray_dataset(kept, 25))
    ps.check_operator(lambda: ps.from_ray_dataset(numbers, 100), ["two_passes_agree", "resumed_again_and_again"])


def test_reading_resumes_in_the_middle_of_a_block(either: Any) -> None:
    dp = ps.from_ray_dataset(either, 30)
    given = ids(islice(dp, 3))
    resumed = ps.from_ray_dataset(either, 30)
    resumed.load_state_dict(dp.state_dict())
    assert given + ids(resumed) == [*range(200)]
    elsewhere = ps.from_ray_dataset(either.materialize(), 30)
    elsewhere.load_state_dict(dp.state_dict())
    assert given + ids(elsewhere) == [*range(200)]
    with ps.DataLoader2(ps.from_ray_dataset(either).rows().batch(7)) as loader:
        first = [row["id"] for batch in islice(loader, 9) for row in batch]
        state = loader.state_dict()
    with ps.DataLoader2(ps.from_ray_dataset(either).rows().batch(7)) as loader:
        loader.load_state_dict(state)
        assert first + [row["id"] for batch in loader for row in batch] == [*range(200)]


def test_a_state_of_a_dataset_with_more_rows_is_an_error(numbers: Any) -> None:
    dp = ps.from_ray_dataset(numbers)
    iterator = iter(dp)
    [next(iterator) for _ in range(4)]
    shorter = ps.from_ray_dataset(ray.data.range(100))
    shorter.load_state_dict(dp.state_dict())
    with pytest.raises(RuntimeError, match="the dataset has 60 rows fewer than were read"):
        list(shorter)


def test_tensors_of_rays_become_arrows_and_lists_where_shapes_differ() -> None:
    rows = [{"image": np.full((2, 3), x, np.uint8), "ragged": np.ones((x + 1, 2)), "id": x} for x in range(4)]
    dp = ps.from_ray_dataset(ray.data.from_items(rows, override_num_blocks=1))
    (batch,) = dp
    assert batch.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), [2, 3])
    assert batch["ragged"].to_pylist() == [[[1.0, 1.0]] * (x + 1) for x in range(4)]
    assert dp.schema() == batch.schema
    (tensors,) = dp.to_tensors(columns=["image", "id"])
    assert tensors["image"].shape == (4, 2, 3)
    assert tensors["image"][3].eq(3).all()


def test_pandas_blocks_and_objects_are_read() -> None:
    (batch,) = ps.from_ray_dataset(ray.data.from_pandas(pd.DataFrame({"x": [1, 2], "y": ["a", None]})))
    assert batch.to_pydict() == {"x": [1, 2], "y": ["a", None]}
    (row,) = ps.from_ray_dataset(ray.data.from_items([{"number": 1 + 2j}])).rows()
    assert row == {"number": 1 + 2j}


def test_a_dataset_without_rows_is_empty() -> None:
    empty = ray.data.range(5).filter(lambda row: row["id"] > 9)
    assert [*ps.from_ray_dataset(empty)] == []


def test_a_pass_that_is_given_up_ends_rays(numbers: Any) -> None:
    iterator = iter(ps.from_ray_dataset(numbers, 10))
    next(iterator)
    iterator.close()
    assert not [thread.name for thread in threading.enumerate() if "StreamingExecutor" in thread.name]


def read_parts(
    preserve_order: bool, stop: int | None = None, states: list[Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """What each of two parts of a dataset gives, or raises, and its state where it is given up after some batches."""
    dataset = ray.data.range(100, override_num_blocks=10)
    dataset.context.execution_options.preserve_order = preserve_order
    parts = dataset.streaming_split(2, equal=True)
    given: list[Any] = [None, None]
    taken: list[Any] = [None, None]

    def read(place: int) -> None:
        try:
            dp = ps.from_ray_dataset(parts[place], 4)
            if states is not None:
                dp.load_state_dict(states[place])
            given[place] = ids(islice(dp, stop))
            taken[place] = dp.state_dict()
        except Exception as error:
            given[place] = error

    threads = [threading.Thread(target=read, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given, taken


def test_a_part_of_a_dataset_is_read_and_resumes_where_the_order_is_kept() -> None:
    whole, _ = read_parts(preserve_order=True)
    assert sorted(chained(*whole)) == [*range(100)]
    first, states = read_parts(preserve_order=True, stop=5)
    rest, _ = read_parts(preserve_order=True, states=states)
    assert [before + after for before, after in zip(first, rest, strict=True)] == whole


def test_a_part_of_a_dataset_without_an_order_cannot_be_resumed() -> None:
    _, states = read_parts(preserve_order=False, stop=5)
    errors, _ = read_parts(preserve_order=False, states=states)
    for error in errors:
        assert isinstance(error, RuntimeError)
        assert "Ray gives it other rows each time: set execution_options.preserve_order = True" in str(error)


def test_what_is_no_dataset_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"from_ray_dataset takes a ray\.data\.Dataset, .* this is a list"):
        ps.from_ray_dataset([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch_size"):
        ps.from_ray_dataset(ray.data.range(1), 0)


def test_a_worker_process_says_that_ray_does_not_run_there(either: Any) -> None:
    dp = ps.from_ray_dataset(either).sharding_filter()
    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(1))
    with loader, pytest.raises(RuntimeError, match="Ray does not run in this process, .* with num_workers=0"):
        list(loader)


def test_a_task_of_rays_reads_a_chain_over_a_dataset(either: Any) -> None:
    @ray.remote(num_cpus=0)
    def total(dp: Any) -> int:
        return sum(sum(batch["id"].to_pylist()) for batch in dp)  # a worker of Ray's cannot import this file

    assert ray.get(total.remote(ps.from_ray_dataset(either))) == sum(range(200))


@pytest.mark.parametrize("heading", ["Workers on other machines", "Ray Data", "Batch inference on actors"])
def test_the_programs_of_the_page_run(heading: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "ray.md").read_text()
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)  # not ```python: Ray takes long to start
    exec(program.replace("ray.init(num_cpus=2)", ""), {"__name__": "__main__"})


@pytest.mark.parametrize("none_at", [0, 100, 260])
@pytest.mark.parametrize("lacking", [{"i": 1, "x": None}, {"i": 1}])
def test_a_column_with_tensors_in_some_rows_only_is_an_error_that_names_the_row(none_at: int, lacking: Any) -> None:
    def row(i: int) -> dict[str, Any]:
        return {**lacking, "i": i} if i == none_at else {"i": i, "x": torch.ones(2)}

    (task,) = PenstockDatasource(wrapped(range(300)).map(row), 1, 0, 0, False).get_read_tasks(1)
    with pytest.raises(TypeError, match="column 'x' has a tensor in some rows and none in others") as caught:
        list(task())
    assert f"'i': {none_at or 1}" in "".join(caught.value.__notes__)


def test_rows_and_columns_that_ray_has_nothing_for_are_errors() -> None:
    (task,) = PenstockDatasource(wrapped([{}, {}]), 1, 0, 0, False).get_read_tasks(1)
    with pytest.raises(TypeError, match="the row has no columns"):
        list(task())
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2], None], pa.list_(pa.int32(), 2))
    )
    batches = wrapped([pa.record_batch({"x": tensors})])
    (task,) = PenstockDatasource(batches, 1, 0, 0, True).get_read_tasks(1)
    with pytest.raises(ValueError, match="column 'x' has no tensor in some rows"):
        list(task())
