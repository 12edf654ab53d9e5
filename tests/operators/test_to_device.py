"""pin_memory and to_device: tensors move, the rest stays, order and state are kept."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest
import torch

import penstock as ps
import penstock.pipes.iter.device as device_family
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper
Sample = namedtuple("Sample", "image label")

needs_accelerator = pytest.mark.skipif(
    not torch.accelerator.is_available(), reason="copies on a side stream need an accelerator"
)


class Graph:
    """Moves by a method of its own."""

    def __init__(self, device="cpu"):
        self.device = torch.device(device)

    def to(self, device):
        return Graph(device)


def test_tensors_in_nested_containers_move_and_the_rest_stays():
    def devices(item):
        moving = item["tensor"], item["list"][0], item["sample"].image, *item["ordered"].values(), item["default"]["x"]
        return {each.device.type for each in (*moving, item["graph"])}

    source = {
        "tensor": torch.ones(2),
        "list": [torch.zeros(1), "text"],
        "sample": Sample(torch.ones(1), 3),
        "ordered": OrderedDict(x=torch.ones(1)),
        "default": defaultdict(list, x=torch.ones(1)),
        "number": 5,
        "graph": Graph(),
    }
    (moved,) = numbers([source], deepcopy=False).to_device("meta")
    assert devices(moved) == {"meta"}
    assert (moved["list"][1], moved["sample"].label, moved["number"]) == ("text", 3, 5)
    assert (type(moved["sample"]), type(moved["ordered"])) == (Sample, OrderedDict)
    assert moved["default"]["new"] == []
    assert devices(source) == {"cpu"}
    del source["graph"]
    (same,) = numbers([source], deepcopy=False).to_device("cpu")
    assert same is source
    with pytest.raises(RuntimeError, match="nonsense"):
        numbers([]).to_device("nonsense")


def test_pinning_takes_a_function_and_without_an_accelerator_leaves_items_as_they_are():
    dp = numbers([1, 2]).pin_memory(device="somewhere", pin_memory_fn=lambda item, device: (item, device))
    assert list(dp) == [(1, "somewhere"), (2, "somewhere")]
    (item,) = numbers([torch.ones(2)]).pin_memory()
    assert torch.equal(item, torch.ones(2))
    assert item.is_pinned() == torch.accelerator.is_available()


@needs_accelerator
def test_batches_arrive_on_the_accelerator_in_order_and_whole():
    dp = numbers(range(20)).map(lambda n: {"x": torch.full((256, 1024), n), "n": n}).to_device()
    seen = []
    for item in dp:
        assert item["x"].device.type == torch.accelerator.current_accelerator().type
        assert (item["x"] * 2 == 2 * item["n"]).all()
        seen.append(item["n"])
    assert seen == list(range(20))
    assert_resumes_everywhere(lambda: numbers(range(7)).to_device().map(lambda n: n))


@pytest.fixture
def pretended_accelerator(monkeypatch):
    """An accelerator without streams: what is left is which item is pulled, copied and handed out when."""
    copied = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "Stream", lambda device: "the side stream")
    monkeypatch.setattr(device_family, "_start_copy", lambda item, device, side: (copied.append(item) or item, side))
    monkeypatch.setattr(device_family, "_arrived", lambda moved, copy, device: moved)
    return copied


def test_one_item_is_copied_ahead_of_the_one_handed_out(pretended_accelerator):
    running = iter(numbers(range(4)).to_device())
    assert pretended_accelerator == []
    for number, ahead in enumerate([[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]):
        assert next(running) == number
        assert pretended_accelerator == ahead
    assert list(running) == []


@pytest.mark.usefixtures("pretended_accelerator")
def test_a_state_goes_back_to_before_the_item_that_was_copied_ahead():
    assert_resumes_everywhere(lambda: numbers(range(7)).shuffle(buffer_size=3).set_seed(1).to_device().map(str))
