"""The arguments of a chain in its states: which are compared, which may differ, and which are not shown."""

from __future__ import annotations

import enum
import json
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from resuming import as_json, assert_resumes_everywhere, from_json, passed_on

numbers = ps.iter.IterableWrapper


class Renamed(ps.IterDataPipe[Any]):
    """Keeps its arguments under other names."""

    def __init__(self, source: Any, n: Any = 2, *more: Any, key: str = "none", **options: Any) -> None:
        self.source, self.used, self.hidden = source, n, (key, more, options)

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class AnyArguments(ps.IterDataPipe[Any]):
    def __init__(self, *args: Any, **options: Any) -> None:
        self.source, *self.rest = args
        self.named = options

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class OfABase(ps.iter.Batcher[Any]):
    """A constructor of its own over that of its base."""

    def __init__(self, source: Any, size: int) -> None:
        super().__init__(source, batch_size=size)


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class Part(enum.Enum):
    TRAIN = 1
    VALID = 2


def multiplied(items: Any, *factors: Any) -> Any:
    return (item * factors[0] for item in items)


def batches(size: Any) -> Any:
    return numbers(range(12)).batch(size)


def header(limit: Any) -> Any:
    return numbers(range(12)).header(limit)


def shuffle(size: Any) -> Any:
    return numbers(range(12)).shuffle(buffer_size=size)


def of_length(length: int) -> Any:
    return numbers(range(length)).enumerate()


def sampled(weight: float) -> Any:
    return ps.iter.SampleMultiplexer({numbers(range(8)): 1.0, numbers(range(8)): weight})


def fields(indices: Any) -> Any:
    return numbers([(1, 2, 3)] * 8).slice(indices)


def split(weights: Any) -> Any:
    return numbers(range(12)).random_split(dict(weights), seed=1)[0]


def keyword(**options: Any) -> Any:
    return Renamed(numbers(range(4)), **options)


def any_number(n: Any) -> Any:
    return Renamed(numbers(range(4)), n)


Case = tuple[Callable[[Any], Any], Any, Any]

NAMED: list[tuple[Callable[[Any], Any], Any, Any, str]] = [
    (batches, 2, 3, "Batcher.*batch_size=2, and has 3 now"),
    (shuffle, 4, 400, "Shuffler.*buffer_size=4, and has 400 now"),
    (of_length, 12, 40, "IterableWrapper.*12.*40"),
    (
        lambda start: ps.map.SequenceWrapper("abcdefgh")[start : start + 4].to_iter_datapipe(),
        *(0, 4),
        r"indices='range\(0, 4\)', and has 'range\(4, 8\)' now",
    ),
    (batches, np.int64(2), np.int64(3), "batch_size=2, and has 3 now"),
    (header, np.int64(2), 3, "limit=2, and has 3 now"),
    (shuffle, np.int64(4), np.int64(3), "buffer_size=4, and has 3 now"),
    (lambda size: OfABase(numbers(range(8)), size), 2, 3, "was made with batch_size=2"),
    (sampled, 2.0, 5.0, "was made with"),
    (fields, [0, 2], [0, 1], "was made with"),
    *[
        (split, [(one, 0.75), (other, 0.25)], weights, "was made with weights=")
        for one, other in [(Part.TRAIN, Part.VALID), (("a", 1), ("b", 2)), ("a", "b")]
        for weights in ([(one, 0.25), (other, 0.75)], [(other, 0.25), (one, 0.75)])
    ],
]
UNNAMED: list[Case] = [
    (lambda n: AnyArguments(numbers(range(4)), n), 2, 3),
    (lambda n: AnyArguments(numbers(range(4)), n=n, fn=abs), 2, 3),
    (lambda n: numbers(range(4)).pipe(multiplied, n, None), 2, 3),
    (lambda n: Renamed(numbers(range(4)), n, 1, mode="a"), 2, 3),
    (lambda more: Renamed(numbers(range(4)), 2, more, mode="a"), 1, 2),
    (lambda options: keyword(**options), {"mode": "a"}, {"mode": "b"}),
    (lambda options: keyword(**options), {"mode": "a"}, {}),
    (lambda key: keyword(key=key), "a secret", "another"),
    (any_number, np.int64(2), np.int64(3)),
    (any_number, Level.TWO, Level.ONE),
    (any_number, range(9), range(1, 9)),
    (any_number, range(10**9), range(1, 10**9)),
    (any_number, np.arange(3), np.arange(4)),
    (any_number, Fraction(1, 3), Fraction(2, 3)),
    (any_number, [Decimal("0.1")], [Decimal("0.2")]),
    (any_number, torch.float16, torch.float32),
    (any_number, [[1], [b"a secret"]], [[1], [b"b"]]),
    (any_number, MappingProxyType({1: 2}), {1: 3}),
    (any_number, {None: 2}, {None: 3}),
    (any_number, {frozenset("ab"): 2}, {frozenset("ac"): 2}),
    (any_number, {abs: 2, len: 3}, {abs: 3, len: 2}),
]


@pytest.mark.parametrize(
    ("make", "before", "after", "text"), [*NAMED, *[(*case, "other arguments") for case in UNNAMED]]
)
def test_a_state_of_other_arguments_is_refused(make: Callable[[Any], Any], before: Any, after: Any, text: str) -> None:
    dp = make(before)
    iterator = iter(dp)
    next(iterator)
    state = passed_on(dp)
    assert "a secret" not in str(state)
    same = make(before)
    same.load_state_dict(state)
    assert [*same] == [*iterator]
    with pytest.raises(ValueError, match=text):
        make(after).load_state_dict(state)
    make(after).load_state_dict(state, strict=False)


@pytest.mark.parametrize(("make", "before", "after", "text"), NAMED[:1])
def test_a_loader_refuses_a_state_of_other_arguments(
    make: Callable[[Any], Any], before: Any, after: Any, text: str
) -> None:
    loader = ps.DataLoader2(make(before))
    assert len([*islice(loader, 2)]) == 2
    state = from_json(as_json(loader.state_dict()))
    loader = ps.DataLoader2(make(after))
    with pytest.raises(ValueError, match=text):
        loader.load_state_dict(state)
    loader.load_state_dict(state, strict=False)
    assert 0 < len([*loader]) < 60


def test_arguments_under_other_names_outlast_a_pickle() -> None:
    dp = Renamed(numbers(range(9)), 2, 1, mode="a")
    next(iter(dp))
    state = dp.state_dict()
    assert "mode" not in str(state["arguments"])
    same: Any = pickle.loads(pickle.dumps(Renamed(numbers(range(9)), 2, 1, mode="a")))
    same.load_state_dict(state)
    assert list(same) == [*range(1, 9)]


def test_a_path_is_compared_as_its_text(tmp_path: Path) -> None:
    state = ps.iter.FileLister(tmp_path / "a").state_dict()
    with pytest.raises(ValueError, match="was made with root="):
        ps.iter.FileLister(tmp_path / "b").load_state_dict(state)
    ps.iter.FileLister(str(tmp_path / "a")).load_state_dict(state)


def on_meta(_: Any) -> Any:
    return any_number(torch.empty(3, device="meta"))


def sparse(_: Any) -> Any:
    return any_number(torch.eye(3).to_sparse())


def bounded(bounds: Any) -> Any:
    return numbers(range(8)).bucket_by_length(bounds, 1, len_fn=abs)


def padded(names: list[str]) -> Any:
    return numbers([{"ids": [1], "mask": [1]}] * 8).pack(4, pad_value=dict.fromkeys(names, 0))


SAME: list[Case] = [
    (lambda options: keyword(**options), {}, {"n": 2}),
    (lambda options: keyword(**options), {"n": 2**64}, {"n": 2**64}),
    (any_number, np.int64(2), 2),
    (any_number, range(3, 7, 3), [3, 6]),
    (any_number, np.array([[1.0, 2.0]]), torch.tensor([[1, 2]])),
    (any_number, MappingProxyType({"a": 1, "b": 2}), {"b": 2, "a": 1}),
    (any_number, {"b", "a"}, frozenset(["a", "b"])),
    (batches, np.int64(2), 2),
    (header, np.int64(2), 2),
    (shuffle, np.int64(2), 2),
    (bounded, [3, 5], [np.int64(3), 5.0]),
    (padded, ["ids", "mask"], ["mask", "ids"]),
    # tensors of which no list can be made
    (on_meta, None, None),
    (sparse, None, None),
]


@pytest.mark.parametrize(("make", "before", "after"), SAME)
def test_an_argument_in_another_form_is_the_same(make: Callable[[Any], Any], before: Any, after: Any) -> None:
    dp = make(before)
    iterator = iter(dp)
    next(iterator)
    resumed = make(after)
    resumed.load_state_dict(dp.state_dict())
    assert repr([*resumed]) == repr([*iterator])


class Changes(ps.IterDataPipe[Any]):
    """Changes what it was made with while it reads, and has an attribute of a pass that is named as an argument."""

    resumes_from_start = False
    number: int = ps.own(0)

    def __init__(self, source: Any, seen: Any = (), number: int = 0) -> None:
        self.source = source
        self.seen = [*seen]

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            self.seen.append(item)
            self.number += 1
            yield item


def test_an_argument_that_a_pass_changes_is_no_other_argument() -> None:
    assert_resumes_everywhere(lambda: Changes(numbers(range(6)), [1, 2]))


def test_functions_and_seeds_may_be_others() -> None:
    dp = numbers(range(9)).shuffle().map(lambda x: x + 1)
    dp.take(2)
    other = numbers(range(9)).shuffle().set_seed(7).map(lambda x: x + 2)
    other.load_state_dict(passed_on(dp))
    assert len([*other]) == 7


NOT_COMPARED: dict[str, Case] = {
    "how much is prefetched": (lambda n: numbers(range(9)).prefetch(n), 10, 20),
    "how many workers": (lambda n: numbers(range(9)).processpool_map(abs, workers=n, prefetch=n), 10, 20),
    "the buffer of a fork": (lambda n: numbers(range(9)).fork(2, n)[0], 1000, 2000),
    "the bytes loading": (lambda n: numbers(["s3://a/b"]).load_files_by_s3(max_bytes=n), 1000, 2000),
    "the folder of a cache": (lambda path: numbers(["a"]).cache_files(path, 10**9), "/a", "/b"),
    "the device": (lambda device: numbers(range(9)).pin_memory(device), "cuda:0", "cuda:1"),
    "names of threads": (lambda name: numbers(range(9)).threadpool_map(abs, thread_name_prefix=name), "a", "b"),
    "a secret": (lambda key: numbers(["az://a/b"]).open_files_by_fsspec(connection_string=key), "Key=1", "Key=2"),
    "a password": (lambda word: ps.iter.FSSpecFileLister(f"https://me:{word}@host/a"), "old", "new"),
    "a signature": (lambda word: ps.iter.FSSpecFileLister(f"https://host/a?X-Amz-Signature={word}"), "1", "2"),
}


@pytest.mark.parametrize(("make", "one", "other"), NOT_COMPARED.values(), ids=NOT_COMPARED)
def test_arguments_that_change_no_items_may_differ(make: Callable[[Any], Any], one: Any, other: Any) -> None:
    state = make(one).state_dict()
    assert not {str(one), str(other)} & {str(value) for step in state["arguments"] for value in step.values()}
    make(other).load_state_dict(json.loads(json.dumps(state)))


def test_no_text_of_a_list_is_in_a_state() -> None:
    dp = numbers([{"a": 1, "hunter2": 2}]).drop(["hunter2"])
    assert "hunter2" not in json.dumps(dp.state_dict())
    assert json.dumps(numbers(range(3)).map(abs, input_col=2**70).state_dict())
