"""Items between processes: what goes in comes out, and its memory is used again."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections import OrderedDict, namedtuple
from multiprocessing.reduction import ForkingPickler

import numpy as np
import psutil
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.workers import transport
from penstock.workers.transport import BLOCK_FROM, Inbox, Outbox

Pair = namedtuple("Pair", "left right")


class Line:
    """An outbox and an inbox in one process."""

    def __init__(self, max_blocks=100):
        self.outbox, self.inbox = Outbox(max_blocks), Inbox()
        self.descriptors = 0

    def send(self, item):
        parcel, descriptor = self.outbox.pack(item)
        self.descriptors += descriptor is not None
        return self.inbox.unpack(pickle.loads(pickle.dumps(parcel)), descriptor), parcel

    def settle(self):
        gc.collect()
        self.outbox.take_back(self.inbox.unused_blocks())


TENSORS = {
    "float": torch.randn(40, 300),
    "scalar": torch.tensor(3),
    "empty": torch.empty(0, 3),
    "bool": torch.tensor([True, False]),
    "bfloat16": torch.arange(30000).to(torch.bfloat16),
    "complex": torch.randn(5000, dtype=torch.complex64),
    "conjugated": torch.randn(5, dtype=torch.complex64).conj(),
    "channels_last": torch.randn(2, 3, 64, 64).to(memory_format=torch.channels_last),
    "strided": torch.randn(300, 100)[::2, ::3],
    "expanded": torch.randn(100, 1).expand(100, 200),
    "requires_grad": torch.randn(100, 100, requires_grad=True),
    "sparse": torch.eye(20).to_sparse(),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_arrives_equal_with_its_dtype_and_gradient_flag(name):
    sent = TENSORS[name]
    received, _ = Line().send(sent)
    assert received.dtype == sent.dtype
    assert received.requires_grad == sent.requires_grad
    assert torch.equal(received.to_dense(), sent.to_dense())


def test_channels_last_stays_channels_last():
    received, _ = Line().send(TENSORS["channels_last"])
    assert received.is_contiguous(memory_format=torch.channels_last)


ARRAYS = {
    "c": np.random.default_rng(0).random((100, 100)),
    "fortran": np.asfortranarray(np.random.default_rng(0).random((100, 100))),
    "strided": np.arange(40000).reshape(200, 200)[:, ::3],
    "objects": np.array([{"a": 1}, None], dtype=object),
    "records": np.zeros(5000, dtype=[("a", "i4"), ("b", "f8")]),
    "small": np.arange(3),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_arrives_equal_with_its_dtype(name):
    received, _ = Line().send(ARRAYS[name])
    assert received.dtype == ARRAYS[name].dtype
    assert np.array_equal(received, ARRAYS[name])


@pytest.mark.parametrize(
    "item",
    [
        b"x" * 3_000_000,
        "y" * 100_000,
        Pair(torch.zeros(2), [1, {"k": b"z" * 5000}]),
        OrderedDict(a=(1, 2.5, None), b={3}),
        {"nested": [torch.ones(100, 100), np.ones(50000), b"q" * 40000]},
        bytearray(b"w" * 50000),
    ],
    ids=["bytes", "text", "namedtuple", "ordered dict", "nested", "bytearray"],
)
def test_any_item_arrives_equal_and_of_its_type(item):
    received, _ = Line().send(item)
    assert type(received) is type(item)
    assert repr(received) == repr(item)


ARROW = {
    "numbers": pa.array(range(30000)),
    "nulls": pa.array([None if n % 3 else n for n in range(30000)]),
    "text": pa.array([f"row {n}" for n in range(30000)]),
    "lists": pa.array([[n] * (n % 3) for n in range(30000)]),
    "structs": pa.array([{"a": n, "b": str(n)} for n in range(30000)]),
    "words": pa.array([str(n % 5) for n in range(30000)]).dictionary_encode(),
    "times": pa.array(range(30000)).cast(pa.timestamp("us", "Europe/Berlin")),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(90000.0).reshape(30000, 3)),
}


@pytest.mark.parametrize("name", ARROW)
def test_a_slice_of_arrow_arrives_without_the_rest(name):
    whole = pa.record_batch({"column": ARROW[name]}, metadata={"a": "b"})
    for sent in (whole.slice(1003, 10), whole.slice(20000), whole.slice(5, 0), pa.table(whole).slice(7, 20000)):
        received, parcel = Line().send(sent)
        assert received.equals(sent, check_metadata=True)
        assert type(received) is type(sent)
        assert sum(parcel.sizes or map(len, parcel.parts)) < 2 * sent.nbytes + 2000


def test_lambdas_and_local_classes_travel():
    class Local:
        factor = 3

    received, _ = Line().send([lambda x: x + 1, Local()])
    assert received[0](1) == 2
    assert received[1].factor == 3


@pytest.mark.parametrize("size", [10, BLOCK_FROM * 4])
def test_what_arrives_can_be_written_to(size):
    tensor, array = Line().send((torch.zeros(size), np.zeros(size)))[0]
    tensor += 1
    array += 1
    assert tensor.sum() == array.sum() == size


def test_large_items_lie_in_a_block_and_small_ones_do_not():
    line = Line()
    assert line.send(b"x" * BLOCK_FROM)[1].block is not None
    assert line.send(torch.zeros(BLOCK_FROM))[1].block is not None
    assert line.send(torch.zeros(10))[1].block is None


def test_a_block_is_used_again_when_the_last_view_of_it_is_gone_and_not_before():
    line = Line()
    kept, parcel = line.send((torch.full((100_000,), 1.0), torch.full((100_000,), 2.0)))
    one = kept[1][10:20]
    del kept
    line.settle()
    _, other = line.send(torch.full((100_000,), 3.0))
    assert other.block != parcel.block
    assert one.tolist() == [2.0] * 10
    del one
    line.settle()
    _, again = line.send(torch.full((100_000,), 4.0))
    assert again.block in (parcel.block, other.block)
    assert line.descriptors == 2


def test_blocks_do_not_pile_up_when_items_grow():
    line = Line()
    for size in range(20_000, 1_000_000, 50_000):
        item, _ = line.send(torch.zeros(size))
        del item
        line.settle()
    assert len(line.outbox._blocks) == len(line.inbox._blocks) == 1


def test_beyond_the_limit_of_blocks_items_travel_along_the_connection():
    line = Line(max_blocks=2)
    sent = [line.send(torch.full((20_000,), float(n))) for n in range(4)]
    assert [parcel.block is None for _, parcel in sent] == [False, False, True, True]
    assert [tensor[5].item() for tensor, _ in sent] == [0, 1, 2, 3]


DESCRIPTORS = """
import gc, os, pickle
import torch
from penstock.workers.transport import Inbox, Outbox

def line_of(outbox, inbox, item):
    parcel, descriptor = outbox.pack(item)
    return inbox.unpack(pickle.loads(pickle.dumps(parcel)), descriptor)

def descriptors():
    return len(os.listdir("/proc/self/fd"))

outbox, inbox = Outbox(100), Inbox()
before = descriptors()
kept = [line_of(outbox, inbox, torch.zeros(20_000)) for _ in range(10)]
del kept
outbox.take_back(inbox.unused_blocks())
print(descriptors() - before, len(outbox._blocks))
del outbox, inbox
gc.collect()
print(descriptors() - before)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_no_descriptor_stays_open():
    # In a program of its own: threads that earlier tests have left close connections at any time.
    ran = subprocess.run([sys.executable, "-c", DESCRIPTORS], capture_output=True, text=True, check=True, timeout=60)
    while_open, blocks, at_end = map(int, ran.stdout.split())
    assert 0 < while_open <= 2 * blocks  # each side's mapping of a live block holds one descriptor of its file
    assert at_end == 0


def test_an_item_that_cannot_be_pickled_raises_and_the_line_goes_on():
    line = Line()
    with pytest.raises(TypeError, match="lock"):
        line.send([torch.zeros(20_000), threading.Lock()])
    assert line.send(1)[0] == 1


def test_an_item_goes_along_the_connection_where_there_is_no_shared_memory(monkeypatch):
    def refuse(size):
        raise OSError(28, "No space left on device")

    outbox, inbox = transport.Outbox(10), transport.Inbox()
    monkeypatch.setattr(transport, "anonymous_file", refuse)
    item = torch.arange(50_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        parcels = [outbox.pack(item)[0] for _ in range(3)]
    assert [str(each.message) for each in caught] == [
        "without shared memory ([Errno 28] No space left on device), large items travel slowly"
    ]
    assert all(torch.equal(inbox.unpack(parcel, None), item) for parcel in parcels)
    monkeypatch.undo()
    parcel, descriptor = outbox.pack(item)
    assert torch.equal(inbox.unpack(parcel, descriptor), item)  # which closes it


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptor = transport.anonymous_file(100_000)
    assert os.fstat(descriptor).st_blocks * 512 >= 100_000  # reserved, and not a file of holes
    os.close(descriptor)
    assert [*tmp_path.iterdir()] == []
    descriptors = psutil.Process().num_fds()
    with pytest.raises(OSError, match=r"."):
        transport.anonymous_file(2**55)
    assert psutil.Process().num_fds() == descriptors


def test_a_block_is_given_back_when_its_last_array_is_gone() -> None:
    outbox, inbox = Outbox(2), Inbox()
    parcel, descriptor = outbox.pack({"a": np.zeros(100_000), "b": np.ones(100_000)})
    item = inbox.unpack(parcel, descriptor)
    kept = item.pop("b")[5:]
    del item
    gc.collect()
    assert inbox.unused_blocks() == []
    assert kept.sum() == 99_995
    del kept
    gc.collect()
    assert inbox.unused_blocks() == [parcel.block]


class Opened:
    """It cannot be pickled, as a handle."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        raise TypeError("opened things cannot be pickled")


@pytest.fixture
def reducer():
    ForkingPickler.register(Opened, lambda opened: (Opened, (f"{opened.name}, reopened",)))
    yield
    del ForkingPickler._extra_reducers[Opened]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_programs_own_reducer_is_used_between_workers_and_the_program(reducer, method):
    dp = ps.iter.IterableWrapper("ab").sharding_filter().map(Opened)
    service = ps.MultiProcessingReadingService(1, multiprocessing_context=method)
    with ps.DataLoader2(dp, reading_service=service) as loader:
        assert [opened.name for opened in loader] == ["a, reopened", "b, reopened"]


def test_a_programs_own_reducer_is_used_by_processpool_map(reducer):
    dp = ps.iter.IterableWrapper("ab").processpool_map(Opened, workers=1)
    assert [opened.name for opened in dp] == ["a, reopened", "b, reopened"]


def test_torchs_reducers_are_not_used():
    """They share memory by descriptors of their own, which outlive an item."""
    assert torch.nn.Parameter in ForkingPickler._extra_reducers
    assert torch.nn.Parameter not in transport.reducers_of_program()
