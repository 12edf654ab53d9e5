from __future__ import annotations

import json
import pickle
import re
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.datapipes.map import SequenceWrapper as TorchSequenceWrapper
from torch.utils.data.graph import traverse_dps

import penstock as ps
from penstock.pipes.bases import permutation
from penstock.pipes.bases.permutation import Permutation
from penstock.pipes.map import (
    Concater,
    Mapper,
    SequenceWrapper,
    shuffle,
)
from penstock.registry import DataChunk, walk
from resuming import assert_resumes_everywhere
from together import Together


class Squares(Dataset[int]):
    """A data set as torchvision has them, which cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __getitem__(self, index: int) -> int:
        return [0, 1, 4][index]

    def __len__(self) -> int:
        return 3


def numbers(n: int, start: int = 0) -> ps.MapDataPipe[int]:
    return SequenceWrapper(range(start, start + n))


def double(x: int) -> int:
    return 2 * x


# SequenceWrapper


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("ab", ["a", "b"]),
        ({0: "a", 1: "b"}, ["a", "b"]),
        (np.array([5, 6]), [5, 6]),
        (torch.tensor([5, 6]), [5, 6]),
    ],
)
def test_anything_with_items_and_a_length_is_a_sequence(sequence: Any, expected: list[Any]) -> None:
    dp = SequenceWrapper(sequence)
    assert (len(dp), list(dp)) == (len(expected), expected)
    by_name = SequenceWrapper({"a": 1, "b": 2})
    assert by_name["b"] == 2
    with pytest.raises(KeyError):
        list(by_name)


def test_the_sequence_is_copied_once_where_it_can_be(tmp_path: Path) -> None:
    items = [[1], [2]]
    copied, shared = SequenceWrapper(items), SequenceWrapper(items, deepcopy=False)
    items[0].append(9)
    assert copied[0] is copied[0] == [1]
    assert shared[0] is items[0]
    with pytest.warns(UserWarning, match="Squares cannot be copied .* deepcopy=False accepts") as warned:
        dp = SequenceWrapper(Squares())
    assert warned[0].filename == __file__
    assert list(dp) == [0, 1, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SequenceWrapper(Squares(), deepcopy=False)
    np.save(tmp_path / "a.npy", np.arange(4))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")  # which copying would read
    assert SequenceWrapper(mapped).sequence is mapped


def test_walking_does_not_touch_items() -> None:
    class Untouchable:
        def __reduce__(self) -> Any:
            raise AssertionError("pickled")

        def __repr__(self) -> str:
            raise AssertionError("shown")

    dp = SequenceWrapper([SequenceWrapper([1]), *[Untouchable()] * 9], deepcopy=False).map(double)
    assert [type(pipe) for pipe in walk(dp)] == [Mapper, SequenceWrapper]
    ((_, graph),) = traverse_dps(dp).values()
    assert len(graph) == 1


# Mapper, Batcher, Zipper, Concater


def test_map_computes_an_item_when_it_is_asked_for() -> None:
    calls: list[int] = []

    def seen(x: int) -> int:
        calls.append(x)
        return x * 10

    dp = numbers(5).map(seen)
    assert (len(dp), calls) == (5, [])
    assert (dp[3], calls) == (30, [3])
    assert list(numbers(3).map()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("drop_last", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]
)
def test_batches(drop_last: bool, expected: list[list[int]]) -> None:
    dp = numbers(7).batch(3, drop_last=drop_last)
    assert list(dp) == expected
    assert [dp[-1 - number] for number in range(len(dp))] == expected[::-1]
    assert isinstance(dp[0], DataChunk)
    for index in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError, match=f"index {index} is out of range: the length is {len(expected)}"):
            dp[index]
    assert list(numbers(4).batch(2, drop_last, wrapper_class=tuple)) == [(0, 1), (2, 3)]


def test_a_batch_does_not_hide_an_index_error_of_a_function() -> None:
    dp = numbers(4).map(lambda x: [0, 1, 2][x]).batch(2)
    assert dp[0] == [0, 1]
    with pytest.raises(IndexError, match="list index out of range") as raised:
        dp[1]
    assert "Mapper" in raised.value.__notes__[0]


def test_zip_is_as_long_as_the_shortest_and_counts_from_its_end() -> None:
    dp = numbers(3).zip(numbers(9, 10), SequenceWrapper("abcd"))
    assert list(dp) == [(0, 10, "a"), (1, 11, "b"), (2, 12, "c")]
    assert dp[-1] == (2, 12, "c")
    for index in (3, -4):
        with pytest.raises(IndexError):
            dp[index]
    assert SequenceWrapper({"a": 1, "b": 2}).zip(SequenceWrapper({"b": 20, "a": 10}))["b"] == (2, 20)


def test_concat_has_one_running_index() -> None:
    dp = numbers(2).concat(numbers(0), numbers(3, 10), SequenceWrapper("x"))
    expected = [0, 1, 10, 11, 12, "x"]
    assert list(dp) == [dp[index] for index in range(-6, 0)] == expected
    assert dp[np.int64(3)] == 11
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"index {index} is out of range: the length is 6"):
            dp[index]


@pytest.mark.parametrize(
    "outer",
    [
        lambda dp: dp,
        lambda dp: dp.map(double),
        lambda dp: dp.zip(dp),
        lambda dp: dp.concat(dp),
        lambda dp: dp.batch(2),
        lambda dp: dp.to_iter_datapipe(),
        lambda dp: dp.shuffle().set_shuffle(False),
    ],
)
def test_an_error_names_the_operator_and_the_index_once(outer: Callable[[Any], Any]) -> None:
    def no_three(x: int) -> int:
        return 1 // (x - 3)

    with pytest.raises(ZeroDivisionError) as raised:
        list(outer(numbers(5).map(no_three)))
    (note,) = raised.value.__notes__
    assert re.search(r"raised in Mapper\(.*no_three.* on 3$", note)


def test_pipes_of_torch_and_ours_mix() -> None:
    theirs = TorchSequenceWrapper([1, 2])
    assert list(numbers(2).zip(theirs)) == [(0, 1), (1, 2)]
    assert list(Concater(theirs, numbers(1))) == [1, 2, 0]
    assert list(Mapper(theirs, double)) == [2, 4]
    assert list(theirs.to_iter_datapipe()) == [1, 2]


# Shuffler


def test_shuffle_gives_every_item_once_in_another_order_each_pass() -> None:
    dp = numbers(20).shuffle().set_seed(3)
    passes = [list(dp) for _ in range(3)]
    assert [sorted(items) for items in passes] == [[*range(20)]] * 3
    assert len({tuple(items) for items in passes}) == 3
    assert [list(dp.set_seed(3)), list(dp)] == passes[:2]
    assert list(numbers(20).shuffle().set_seed(4)) != passes[0]


def test_shuffle_can_be_switched_off_and_takes_indices() -> None:
    dp = numbers(20).shuffle().set_seed(0).set_shuffle(False)
    assert list(dp) == [*range(20)]
    assert list(dp.set_shuffle()) != [*range(20)]
    chosen = SequenceWrapper({"a": 1, "b": 2, "c": 3}).shuffle(indices=["a", "c"])
    assert (sorted(chosen), len(chosen)) == ([1, 3], 2)


def test_torchs_data_loader_finds_the_shuffle() -> None:
    dp = numbers(20).shuffle()
    assert [int(x) for x in DataLoader(dp, shuffle=False, batch_size=None)] == [*range(20)]
    shuffled = [int(x) for x in DataLoader(dp, shuffle=True, batch_size=None)]
    assert sorted(shuffled) == [*range(20)] != shuffled


# Converters


def test_to_map_reads_the_stream_when_the_first_item_is_asked_for() -> None:
    read: list[str] = []

    def with_length(word: str) -> tuple[str, int]:
        read.append(word)
        return word, len(word)

    dp = ps.iter.IterableWrapper(["a", "bcd"]).to_map_datapipe(with_length)
    assert read == []
    assert [dp["bcd"], dp["a"], len(dp)] == [3, 1, 2]
    assert read == ["a", "bcd"]


def test_to_map_takes_pairs_and_counts_its_own_keys() -> None:
    dp = ps.iter.IterableWrapper([(0, "a"), [1, "b"]]).filter(bool).to_map_datapipe()
    before = pickle.dumps(dp)
    assert (len(dp), list(dp)) == (2, ["a", "b"])
    assert pickle.dumps(dp) == before  # what was loaded does not travel
    with pytest.raises(IndexError, match="none of the 2 keys is 7"):
        dp[7]
    repeating = ps.iter.IterableWrapper([("a", 1), ("a", 2), ("b", 3), ("a", 4)]).to_map_datapipe()
    with pytest.warns(UserWarning, match="2 items repeat a key, 'a' first"):
        assert (repeating["a"], len(repeating)) == (4, 2)


@pytest.mark.parametrize(("item", "shown"), [("ab", "'ab'"), ((1, 2, 3), r"\(1, 2, 3\)")])
def test_to_map_of_what_is_no_pair_says_to_give_a_function(item: Any, shown: str) -> None:
    dp = ps.iter.IterableWrapper([(1, 2), item]).to_map_datapipe()
    for _ in range(2):
        with pytest.raises(TypeError, match=f"got {shown}.*give a key_value_fn"):
            dp[1]


def test_to_iter_takes_any_indices_that_can_be_read_again() -> None:
    values = {"a": 1, "b": 2}
    dp = SequenceWrapper(values).to_iter_datapipe(values.keys())
    assert list(dp) == list(dp) == [1, 2]
    assert list(SequenceWrapper([5, 6]).to_iter_datapipe(np.array([1, 1, 0]))) == [6, 6, 5]
    assert list(numbers(3).to_iter_datapipe(indices=[])) == []


# Resuming


def test_batches_that_are_read_at_once_resume_after_every_item() -> None:
    assert_resumes_everywhere(lambda: together(5)[1].map(double).shuffle().set_seed(3).batch(2), passes=2)


def test_reading_by_index_resumes_without_reading_what_came_before() -> None:
    read: list[int] = []

    class Noting(TorchSequenceWrapper):  # type: ignore[type-arg]
        def __getitem__(self, index: int) -> int:
            read.append(index)
            return index

    dp = Noting([*range(9)]).to_iter_datapipe()
    dp.take(6)
    state = json.loads(json.dumps(dp.state_dict()))
    read.clear()
    resumed = Noting([*range(9)]).to_iter_datapipe()
    resumed.load_state_dict(state)
    assert list(resumed) == read == [6, 7, 8]


def test_to_map_leaves_out_what_fails_where_that_was_asked_for() -> None:
    source = ps.iter.IterableWrapper(["1", "x", "3"])
    dp = source.to_map_datapipe(lambda text: (int(text), text), on_error="skip")
    assert [dp[1], dp[3], len(dp)] == ["1", "3", 2]
    assert dp.stats()["to_map_datapipe"]["skipped"] == 1
    with pytest.raises(KeyError, match="'b'"):  # not taken for a missing key
        source.to_map_datapipe(lambda text: ({}["b"], text))[0]


# Any size: orders that are computed, and shares of them


N = 10**9


def huge(parts: int = 1, part: int = 0) -> Any:
    dp = SequenceWrapper(range(N)).shuffle().set_seed(5)
    if parts == 1:
        return dp
    dp = dp.sharding_filter()
    dp.apply_sharding(parts, part)
    return dp


def test_a_thousand_million_items_are_shuffled_without_a_list_of_them() -> None:
    tracemalloc.start()
    try:
        dp = huge()
        first = dp.take(20_000)
        assert (len({*first}), len(dp)) == (20_000, N)
        assert 0 <= min(first) < N // 1000
        assert N - N // 1000 < max(first) < N
        thirds = [huge(3, part).take(7) for part in range(3)]
        assert [item for items in zip(*thirds, strict=True) for item in items] == first[:21]
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_a_shuffle_resumes_by_one_integer_wherever_it_stands() -> None:
    dp = huge()
    dp.take(5)
    state = json.loads(json.dumps(dp.state_dict()))
    [step] = state["state"]["steps"]
    assert step["own"] == {"pass_seed": dp.pass_seed, "position": 5}
    step["own"]["position"] = 7 * 10**8
    expected = Permutation(dp.pass_seed, N).at(np.arange(7 * 10**8, 7 * 10**8 + 10)).tolist()
    for _ in range(2):
        resumed = SequenceWrapper(range(N)).shuffle()
        resumed.load_state_dict(state)
        iterator = iter(resumed)
        assert [next(iterator) for _ in range(5)] == expected[:5]
        state = resumed.state_dict()
        expected = expected[5:]


def test_an_order_that_is_computed_piece_by_piece_resumes_after_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "_SMALL", 0)
    monkeypatch.setattr(shuffle, "_AT_A_TIME", 4)

    def third() -> Any:
        dp = numbers(21).shuffle().set_seed(1).sharding_filter()
        dp.apply_sharding(3, 1)
        return dp

    assert sorted(numbers(21).shuffle()) == [*range(21)]
    assert_resumes_everywhere(third, passes=2)
    assert_resumes_everywhere(lambda: third().batch(2), passes=1)


def test_indices_of_a_range_are_not_listed_either() -> None:
    source, far = SequenceWrapper(range(10**15)), 9 * 10**14  # days, if they were gone through
    halves = source.shuffle(indices=range(0, 10**15, 2)).set_seed(1)
    assert all(number % 2 == 0 for number in halves.take(100))
    for resumed in (source.to_iter_datapipe(indices=range(5, 10**15)), source.map(int).to_iter_datapipe()):
        state = resumed.state_dict()
        state["state"]["steps"] = [{"own": {"position": far}}]
        resumed.load_state_dict(state)
        first = resumed.source[far] if resumed.indices is None else far + 5
        assert resumed.take(2) == [first, first + 1]


# __getitems__


def together(n: int) -> tuple[Together, ps.MapDataPipe[int]]:
    data = Together(n)
    return data, SequenceWrapper(data, deepcopy=False)


PASSING_ON: dict[str, Callable[[Any], Any]] = {
    "map": lambda dp: dp.map(double),
    "zip": lambda dp: dp.zip(SequenceWrapper(Together(9)).map(double)),
    "concat": lambda dp: dp.concat(SequenceWrapper(Together(3))),
    "in_memory_cache": lambda dp: dp.in_memory_cache(),
}


@pytest.mark.parametrize("chain", PASSING_ON.values(), ids=PASSING_ON)
def test_several_items_at_once_are_those_one_by_one_where_the_source_can(chain: Callable[[Any], Any]) -> None:
    dp = chain(together(5)[1])
    wanted = [4, 0, -1, 2, 4]
    assert list(dp.__getitems__(wanted)) == [dp[index] for index in wanted]
    assert list(dp.__getitems__([])) == []
    with pytest.raises(IndexError):
        dp.__getitems__([1, len(dp)])
    for without in (numbers(5), TorchSequenceWrapper([1])):
        assert not hasattr(chain(without), "__getitems__")
    assert not hasattr(numbers(2).concat(together(2)[1]), "__getitems__")


def test_a_subclass_with_a_getitem_of_its_own_is_not_passed_by() -> None:
    class Negative(SequenceWrapper[int]):
        def __getitem__(self, index: int) -> int:
            return -super().__getitem__(index)

    assert list(Negative(Together(4)).to_iter_datapipe().batch(2)) == [[0, -1], [-2, -3]]


def test_concat_asks_each_source_once_for_its_own() -> None:
    (first, dp), (second, other), (third, last) = together(3), together(2), together(1)
    assert list(dp.concat(other, last).__getitems__([3, 2, -2, 0, 3])) == [0, 2, 1, 0, 0]
    assert [first.calls, second.calls, third.calls] == [[[2, 0]], [[0, 1, 0]], []]


def test_batches_are_read_by_one_call_each_also_by_torchs_loaders() -> None:
    data, dp = together(5)
    assert list(dp.batch(2)) == [[0, 1], [2, 3], [4]]
    chosen = Subset(dp.map(double), range(3))  # type: ignore[arg-type, var-annotated]
    assert [batch.tolist() for batch in DataLoader(chosen, batch_size=2)] == [[0, 2], [4]]
    assert data.calls == [[0, 1], [2, 3], [4], [0, 1], [2]]


def test_a_cache_asks_for_what_it_has_not_and_for_each_once() -> None:
    data, dp = together(5)
    cached = dp.in_memory_cache()
    assert cached[1] == 1
    assert list(cached.__getitems__([1, 3, torch.tensor(3), 0])) == [1, 3, 3, 0]
    assert list(cached.__getitems__([0, 1])) == [0, 1]
    assert data.calls == [1, [3, 0]]


def test_an_error_in_one_of_several_names_the_operator_and_its_index() -> None:
    def no_three(x: int) -> int:
        return 1 // (x - 3)

    mapped = together(6)[1].map(no_three).map(double)
    for indices, error, note in [
        ([5, 1, 3, 0], ZeroDivisionError, r"raised in Mapper\(.*no_three.* on 3$"),
        ([1, 7], IndexError, r"raised in SequenceWrapper\(.* on \[1, 7\]$"),
    ]:
        with pytest.raises(error) as raised:
            list(mapped.to_iter_datapipe(indices).batch(3))
        assert len(raised.value.__notes__) == 1
        assert re.search(note, raised.value.__notes__[0])


class Unlike(Together):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return super().__getitems__(indices)[: self.n - 4] * 2


@pytest.mark.parametrize(("n", "gives"), [(5, 2), (8, 6)], ids=["fewer", "more"])
def test_a_wrong_number_of_items_is_an_error(n: int, gives: int) -> None:
    class Theirs(TorchSequenceWrapper):  # type: ignore[type-arg]
        def __getitems__(self, indices: list[int]) -> list[int]:
            return Unlike(n).__getitems__(indices)

    ours, theirs = SequenceWrapper(Unlike(n)), Theirs([*range(9)])
    for chain in (
        ours.map(double).shuffle().batch(3),
        theirs.to_iter_datapipe().batch(3),
        Mapper(theirs, double).batch(3),
    ):
        with pytest.raises(ValueError, match=f"__getitems__ gave {gives} items for 3 indices"):
            list(chain)


class Endless(list[int]):
    __len__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "read",
    [
        lambda dp: dp.to_iter_datapipe(),
        lambda dp: dp.shuffle(),
        lambda dp: dp.to_iter_datapipe().batch(2),
        lambda dp: dp.to_iter_datapipe(Endless([0, 1])).batch(2),
    ],
)
def test_a_stop_iteration_of_a_function_does_not_end_the_stream_in_silence(read: Any) -> None:
    def stop(x: int) -> int:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(read(together(3)[1].map(stop)))


def test_of_several_at_once_none_is_read_that_was_not_asked_for() -> None:
    data, dp = together(9)
    next(iter(dp.to_iter_datapipe()))
    next(iter(dp.shuffle(indices=[4])))
    next(iter(dp.to_iter_datapipe().batch(2)))
    next(iter(dp.to_iter_datapipe().map(double).batch(2)))
    assert data.calls == [0, 4, [0, 1], 0, 1]
