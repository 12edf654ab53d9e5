"""Which pipes a pipe reads from."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from passing import Holding
from penstock.registry import sources_of, walk
from penstock.state.graph import _roles


def pipe() -> Any:
    return ps.iter.IterableWrapper("ab")


a, b = pipe(), pipe()


@pytest.mark.parametrize(
    ("held", "sources"),
    [
        ((a, [b]), [a, b]),
        ({"x": a, "y": (b,)}, [a, b]),
        ({a: 0.5, b: 0.5}, [a, b]),
        ({a}, [a]),
        ("ab", []),
        (None, []),
    ],
)
def test_sources_are_found_in_attributes_and_their_containers(held: Any, sources: list[Any]) -> None:
    found = sources_of(Holding(held))
    assert len(found) == len(sources)
    assert all(one is other for one, other in zip(found, sources, strict=True))


def test_what_holds_items_is_not_searched() -> None:
    assert sources_of(Holding(a, items=[b])) == [a]


class StandsFor:
    """Says that it is of the class of another object, as proxies do."""

    def __init__(self, other: Any) -> None:
        self.other = other

    @property
    def __class__(self) -> Any:
        return type(self.other)

    def __iter__(self) -> Any:
        return iter(self.other)


def test_what_stands_for_an_object_is_taken_for_it_each_for_its_own() -> None:
    proxies = [StandsFor(3), StandsFor(a), StandsFor([b]), StandsFor("ab")]
    for _ in range(2):
        assert [len(sources_of(Holding(proxy))) for proxy in proxies] == [0, 1, 1, 0]
    assert sources_of(Holding(proxies[2])) == [b]


def test_types_that_come_and_go_are_not_kept_for_ever() -> None:
    for number in range(1100):
        kind = type(f"Tuple{number}", (tuple,), {})
        assert sources_of(Holding(kind([a, number]))) == [a]
    assert len(_roles) <= 1000


class Untouchable:
    def __getattribute__(self, name: str) -> Any:
        if name != "__class__":
            raise AssertionError(f"an item was asked for {name}")
        return object.__getattribute__(self, name)

    def __iter__(self) -> Any:
        raise AssertionError("an item was iterated")


def test_no_item_is_touched() -> None:
    assert [type(step).__name__ for step in walk(Holding([Untouchable()], items=Untouchable()).map(str))] == [
        "Mapper",
        "Holding",
    ]


def test_walking_goes_depth_first_and_sees_each_pipe_once() -> None:
    shared = pipe()
    left, right = shared.map(str), shared.filter(len)
    dp = left.zip(right)
    assert [id(step) for step in walk(dp)] == [id(step) for step in (dp, left, shared, right)]


def test_walking_goes_through_both_kinds_and_through_pipes_of_torch() -> None:
    dp = TorchIterableWrapper(range(3)).map(str).enumerate().to_map_datapipe().map(len).to_iter_datapipe()
    assert [type(step).__name__ for step in walk(dp)] == [
        "MapToIterConverter",
        "Mapper",
        "IterToMapConverter",
        "Enumerator",
        "MapperIterDataPipe",
        "IterableWrapperIterDataPipe",
    ]
