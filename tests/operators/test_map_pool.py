"""map_pool: models made once, called with items or batches, in order, resumed exactly; deaths and errors are named."""

import functools
import gc
import os
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from models import FailsAt, Net, Scaler, tensors

pytestmark = pytest.mark.timeout(50)

numbers = ps.iter.IterableWrapper
either = pytest.mark.parametrize("engine", ["processes", "threads"])


class Seen:
    """Says what it was called with, and how."""

    def __call__(self, item):
        return type(item).__name__, item, torch.is_inference_mode_enabled(), os.getpid()


class SeenInInferenceMode(Seen):
    inference_mode = True


@either
def test_results_come_in_order_from_models_made_once_for_all_passes(engine, tmp_path):
    dp = numbers(range(20)).map_pool(functools.partial(Scaler, 3, folder=tmp_path), engine=engine)
    for _ in range(3):
        assert list(dp) == [x * 3 for x in range(20)]
    assert 1 <= len(list(tmp_path.iterdir())) <= 2
    assert {int(file.name.partition("-")[0]) == os.getpid() for file in tmp_path.iterdir()} == {engine == "threads"}
    assert len(dp) == 20


def test_no_more_items_are_pulled_than_may_be_in_flight():
    pulled = []
    source = numbers(range(100)).map(lambda x: pulled.append(x) or x)
    for in_flight, options in ((4, {}), (3, {"prefetch": 3})):
        pulled.clear()
        running = iter(source.map_pool(Scaler, engine="threads", **options))
        next(running)
        assert len(pulled) == in_flight
        running.close()


# batches


@pytest.mark.parametrize(
    "row",
    [
        lambda n: n,
        lambda n: {"id": n, "x": np.zeros(3)},
        lambda n: {"id": torch.tensor(n), "x": np.zeros(3)},  # a tensor of no dimension
        lambda n: {"text": str(n), "tokens": [n]},
        lambda n: (torch.zeros(3), n),
    ],
)
def test_rows_come_to_the_model_in_lists_of_the_batch_size(row):
    seen = list(numbers([row(n) for n in range(5)]).map_pool(Seen, workers=1, batch_size=2, engine="threads"))
    assert [kind for kind, *_ in seen] == ["list"] * 3
    rows = [each for _, batch, *_ in seen for each in batch]
    assert repr(rows) == repr([row(n) for n in range(5)])
    assert [len(batch) for _, batch, *_ in seen] == [2, 2, 1]


@either
def test_batches_come_to_the_model_as_such_of_the_batch_size(engine):
    source = numbers([tensors(0, 4), tensors(4, 1), tensors(5, 5)])
    pool = source.map_pool(Seen, workers=1, batch_size=3, engine=engine, batched=True)
    seen = [batch for _, batch, *_ in pool]
    assert [batch["id"].tolist() for batch in seen] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert {tuple(batch["x"].shape[1:]) for batch in seen} == {(3,)}
    source = numbers([pa.record_batch({"id": [*range(7)]}), pa.record_batch({"id": [7, 8]})])
    seen = [*source.map_pool(Seen, workers=1, batch_size=4, engine="threads")]
    assert [kind for kind, *_ in seen] == ["RecordBatch"] * 3
    assert [batch["id"].to_pylist() for _, batch, *_ in seen] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]


def test_without_a_batch_size_items_come_to_the_model_as_they_are():
    items = [pa.record_batch({"id": [1, 2]}), tensors(0, 2), [1, 2]]
    seen = [*numbers(items).map_pool(Seen, workers=1)]
    assert [kind for kind, *_ in seen] == ["RecordBatch", "dict", "list"]
    assert repr([item for _, item, *_ in seen]) == repr(items)


def test_a_dict_of_tensors_that_may_be_batch_or_row_is_an_error_that_says_what_to_do():
    row = {"image": torch.zeros(4, 4), "boxes": np.zeros((4, 4))}
    with pytest.raises(ValueError, match="may be a batch.*or a row.*give batched=True, or batched=False for rows"):
        list(numbers([row]).map_pool(Seen, batch_size=2, engine="threads"))
    for told in (
        numbers([row, row]).map_pool(Seen, batch_size=2, engine="threads", batched=False),
        ps.from_items([row, row]).map(dict).map_pool(Seen, batch_size=2, engine="threads"),
    ):
        ((kind, seen, *_),) = told
        assert (kind, len(seen)) == ("list", 2)
    ((kind, seen, *_),) = numbers([row]).to_tensors().map_pool(Seen, batch_size=4, engine="threads")
    assert (kind, len(seen["image"])) == ("dict", 4)


# inference mode and devices


@either
def test_a_module_is_in_eval_mode_and_called_in_inference_mode(engine):
    first, second = numbers([tensors(0, 2), tensors(2, 2)]).map_pool(Net, workers=1, engine=engine)
    assert first["flags"] == second["flags"] == (False, True, "cpu")
    assert second["id"].tolist() == [2, 3]
    assert second["sum"].tolist() == [3.0, 3.0]
    assert not torch.is_inference_mode_enabled()


def test_another_class_asks_for_inference_mode_by_an_attribute():
    for model, expected in ((Seen, False), (SeenInInferenceMode, True)):
        ((_, _, inference, _),) = numbers([1]).map_pool(model, engine="threads")
        assert inference is expected


class OnDevice:
    def __init__(self, device="nowhere"):
        self.device = device

    def __call__(self, item):
        return str(self.device), item["x"].device.type


def test_a_device_is_handed_to_what_has_a_parameter_of_that_name():
    items = numbers([tensors(0, 1)])
    assert list(items.map_pool(OnDevice, device="cpu", engine="threads")) == [("cpu", "cpu")]
    assert list(items.map_pool(OnDevice, engine="threads")) == [("nowhere", "cpu")]


def test_a_module_and_the_tensors_that_it_gets_are_moved():
    class Meta(torch.nn.Linear):
        def forward(self, batch):
            return self.weight.device.type, batch["x"].device.type, batch["name"]

    items = numbers([{"x": torch.ones(1, 3), "name": "a"}])
    make = functools.partial(torch.nn.Sequential, Meta(3, 2))
    assert list(items.map_pool(make, device="meta", engine="threads")) == [("meta", "meta", "a")]


def test_tensors_in_the_results_are_brought_back_from_the_device():
    with pytest.raises(NotImplementedError, match="meta tensor"):  # which has nothing that could be brought
        list(numbers([torch.ones(1, 3)]).map_pool(torch.nn.Identity, device="meta", engine="threads"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="moving a model to an accelerator needs CUDA")
@either
def test_a_module_computes_on_the_accelerator_and_results_come_back(engine):
    source = numbers([tensors(n * 4, 4) for n in range(5)])
    for number, result in enumerate(source.map_pool(Net, device="cuda", engine=engine)):
        assert result["flags"] == (False, True, "cuda")
        assert result["sum"].device.type == result["id"].device.type == "cpu"
        assert result["id"].tolist() == [*range(number * 4, number * 4 + 4)]


# errors


@pytest.mark.parametrize(
    ("engine", "make", "device", "message"),
    [
        ("threads", lambda: object(), None, "the model must be callable with items, and this is not"),
        ("processes", lambda: Scaler(), "cpu", "Scaler is neither made with a parameter device"),
    ],
)
def test_what_a_function_makes_and_cannot_be_used_is_an_error_of_no_item(engine, make, device, message):
    with pytest.raises(TypeError, match=message) as caught:
        list(numbers([1]).map_pool(make, workers=1, device=device, engine=engine))
    assert caught.value.__notes__[0].endswith("before it was ready for items")


def raises():
    raise ValueError("a bad row")


@either
def test_an_error_comes_in_its_turn_and_names_the_item_or_is_skipped(engine):
    dp = numbers(range(6)).map_pool(functools.partial(FailsAt, 3, raises), workers=1, engine=engine)
    running = iter(dp)
    assert list(islice(running, 3)) == [0, 1, 2]
    with pytest.raises(ValueError, match="a bad row") as caught:
        next(running)
    assert "ModelPoolMapper(" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith(", on 3")
    dp = numbers(range(6)).map_pool(functools.partial(FailsAt, 3, raises), engine="threads", on_error="skip")
    assert list(dp) == [0, 1, 2, 4, 5]
    assert dp.stats()["map_pool"]["skipped"] == 1


# resuming


def test_models_of_threads_are_gone_with_their_pipe_and_do_not_travel():
    made = []

    class Noted(Scaler):
        def __init__(self):
            super().__init__()
            made.append(self)

    dp = numbers(range(3)).map_pool(Noted, workers=1, engine="threads")
    assert list(dp) == [0, 10, 20]
    assert "_made" not in dp.__getstate__()
    del dp
    gc.collect()
    assert len(gc.get_referrers(made[0])) == 1  # the list above
