"""in_memory_cache: a source is read once, a limit is one of real sizes, and every pass is the same."""

import io
import pickle
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import penstock as ps
from penstock.pipes.bases.sizes import size_of
from penstock.registry import Throttle
from resuming import ALWAYS, passed_on

MB = 2**20
ROOM_FOR = pytest.mark.filterwarnings("ignore:in_memory_cache has room for")


class Counted:
    """An iterable that knows what was taken from it."""

    def __init__(self, items):
        self.items = items
        self.taken = []

    def __iter__(self):
        for item in self.items:
            self.taken.append(item)
            yield item


def cached(items, size=None):
    source = Counted(items)
    return source, ps.iter.IterableWrapper(source, deepcopy=False).in_memory_cache(size)


@pytest.mark.parametrize("size", [None, 1])
def test_after_a_whole_pass_the_source_is_never_touched(size):
    source, dp = cached([[0], [1], [2]], size)
    first = list(dp)
    for _ in range(2):
        assert all(one is other for one, other in zip(list(dp), first, strict=True))
    assert source.taken == first == [[0], [1], [2]]


def test_what_a_pass_that_was_given_up_had_read_is_read_again():
    source, dp = cached(range(5))
    assert list(islice(dp, 3)) == [0, 1, 2]
    assert list(dp) == list(dp) == [0, 1, 2, 3, 4]
    assert source.taken == [0, 1, 2, 0, 1, 2, 3, 4]


def test_after_an_error_of_the_source_it_is_read_again():
    failures = [ValueError("once")]

    def once(item):
        if item == 2 and failures:
            raise failures.pop()
        return item

    dp = ps.iter.IterableWrapper(range(4)).map(once).in_memory_cache()
    with pytest.raises(ValueError, match="once"):
        list(dp)
    assert list(dp) == list(dp) == [0, 1, 2, 3]


def test_over_the_limit_one_warning_tells_and_the_rest_is_read_in_each_pass():
    items = [bytes([n]) * (MB // 4) for n in range(6)]
    _, dp = cached(items, 1)
    with pytest.warns(UserWarning, match="has room for 3 items") as told:
        passes = [list(dp) for _ in range(3)]
    assert passes == [items] * 3
    assert len(told) == 1
    assert len(dp._kept) == 3


@ROOM_FOR
def test_behind_the_limit_a_source_that_can_go_on_is_not_read_from_its_start(monkeypatch):
    monkeypatch.setattr(Throttle, "step", ALWAYS)
    pulled = []
    dp = ps.iter.IterableWrapper(range(8)).map(lambda n: pulled.append(n) or bytes([n]) * (MB // 4)).in_memory_cache(1)
    first = list(dp)
    pulled.clear()
    assert list(dp) == first
    assert 0 not in pulled
    assert pulled[-5:] == [3, 4, 5, 6, 7]


@ROOM_FOR
def test_a_limit_of_nothing_keeps_nothing_and_a_small_item_behind_a_large_one_is_not_kept():
    source, dp = cached(range(3), 0)
    assert list(dp) == list(dp) == [0, 1, 2]
    assert source.taken == [0, 1, 2] * 2
    source, dp = cached([1, b"x" * MB, 2], 0.5)
    assert list(dp) == list(dp)
    assert dp._kept == [1]


@ROOM_FOR
@pytest.mark.parametrize("size", [None, 1], ids=["all", "some"])
def test_every_pass_over_a_shuffled_source_has_the_order_of_the_first(size):
    dp = ps.iter.IterableWrapper(range(8)).shuffle().map(lambda n: (n, b"x" * (MB // 4))).in_memory_cache(size)
    passes = [[n for n, _ in dp] for _ in range(3)]
    assert sorted(passes[0]) == [*range(8)]
    assert passes == [passes[0]] * 3


def test_a_state_is_small_and_a_resumed_pass_fills_the_memory_again():
    source, dp = cached([b"x" * 1000] * 4)
    list(dp)
    iterator = iter(dp)
    next(iterator)
    state = passed_on(dp)
    assert len(repr(state)) < 1000
    source, resumed = cached([b"x" * 1000] * 4)
    resumed.load_state_dict(state)
    assert len(list(resumed)) == 3
    assert len(list(resumed)) == 4
    assert len(source.taken) == 4


def test_a_state_of_another_order_is_not_answered_from_what_is_kept():
    def chain(seed):
        return ps.iter.IterableWrapper(range(6)).shuffle().set_seed(seed).in_memory_cache()

    other = chain(1)
    before = other.state_dict()
    expected = list(other)
    iterator = iter(other)
    list(islice(iterator, 2))
    for state, rest in [(before, expected), (other.state_dict(), expected[2:])]:
        dp = chain(2)
        assert list(dp) != expected
        dp.load_state_dict(state)
        assert list(dp) == rest
        assert list(dp) == expected


def test_pickles_go_without_the_items():
    dp = ps.iter.IterableWrapper(range(3)).map(str).in_memory_cache()
    list(dp)
    assert "_kept" not in vars(pickle.loads(pickle.dumps(dp)))
    by_index = ps.map.SequenceWrapper(["x" * 100]).map(str.upper).in_memory_cache()
    assert by_index[0] == "X" * 100
    assert b"XXXX" not in pickle.dumps(by_index)


# Sizes


class Plain:
    def __init__(self, content):
        self.content = content


class Slotted:
    __slots__ = ("content",)

    def __init__(self, content):
        self.content = content


class Single:
    __slots__ = "content"

    def __init__(self, content):
        self.content = content


@pytest.mark.parametrize(
    "item",
    [
        torch.zeros(25000),
        torch.zeros(25000)[::5000],
        torch.eye(5000).to_sparse(),
        np.zeros((100, 1000), dtype=np.uint8)[3:5].T,
        np.array([b"x" * 100_000, "y"], dtype=object),
        pa.record_batch({"a": pa.array(range(12500), pa.int64())}),
        b"x" * 100_000,
        bytearray(100_000),
        "x" * 100_000,
        io.BytesIO(b"x" * 100_000),
        Image.new("RGB", (200, 167)),
        [b"x" * 50_000, ("y" * 50_000,)],
        {"a": b"x" * 50_000, "y" * 50_000: {1}},
        {b"x" * 100_000},
        Plain(b"x" * 100_000),
        Slotted(b"x" * 100_000),
        Single(b"x" * 100_000),
    ],
    ids=lambda item: type(item).__name__,
)
def test_a_size_has_all_that_an_item_holds(item):
    assert 100_000 <= size_of(item) < 125_000


def test_what_an_item_holds_twice_counts_once():
    tensor, text = torch.zeros(25000), "x" * 100_000
    assert size_of([tensor, tensor[1:], tensor.view(5, 5000), text, {"text": text}]) < 210_000
    circle = [text]
    circle.append(circle)
    assert size_of(circle) < 110_000


# Map-style


def test_each_index_of_a_map_style_source_is_read_once():
    asked = []
    dp = ps.map.SequenceWrapper("abc").map(lambda item: asked.append(item) or item.upper()).in_memory_cache()
    assert [dp[2], dp[0], dp[2], dp[np.int64(2)], dp[torch.tensor(0)]] == ["C", "A", "C", "C", "A"]
    assert list(dp) == list(dp) == ["A", "B", "C"]
    assert asked == ["c", "a", "b"]


def test_a_map_style_source_is_read_by_any_key_and_its_errors_are_not_kept():
    dp = ps.map.SequenceWrapper({"a": [1], ("b", 2): None}).in_memory_cache()
    assert dp["a"] is dp["a"]
    assert dp["b", 2] is None
    with pytest.raises((KeyError, IndexError)):
        dp["c"]
    array = ps.map.SequenceWrapper(np.arange(6).reshape(2, 3)).in_memory_cache()
    assert array[0, 1] == 1
    for no_key in ([0, 1], np.array([0, 1]), ([0], 1)):
        with pytest.raises(TypeError, match="unhashable") as caught:
            array[no_key]
        assert "InMemoryCacheHolder" in caught.value.__notes__[0]


def test_open_streams_are_warned_of_where_they_come_from_memory(tmp_path):
    path = tmp_path / "one"
    path.write_bytes(b"1")
    files = ps.iter.IterableWrapper([str(path)]).open_files("rb")
    kept = files.in_memory_cache()
    assert [stream.read() for _, stream in kept] == [b"1"]
    with pytest.warns(UserWarning, match="in_memory_cache keeps open streams"):
        [(_, stream)] = kept
    assert stream.read() == b""
    stream.close()
    read = files.read_from_stream().in_memory_cache()
    assert [list(read), list(read)] == [[(str(path), b"1")]] * 2
