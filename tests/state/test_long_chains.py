"""Chains of thousands of steps: what is done before they are read; nothing takes the square of their length."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from long_chains import STEPS, branched, maps, mixed
from penstock.registry import (
    Provenance,
    ReadRows,
    apply_sharding,
    copy_of,
    provenance_of,
    seed_graph,
    sharding_points,
    sources_first,
    sources_of,
    walk,
)
from penstock.runner.graph import find_dps, list_dps, remove_dp, replace_dp, traverse_dps
from penstock.runner.seeds import SeedGenerator, set_graph_random_seed
from penstock.state.error_context import describe_step
from penstock.state.passes import Pass

pytestmark = pytest.mark.timeout(30)  # on a busy machine; each takes less than a second


def torchs(dp: Any, steps: int = STEPS) -> Any:
    """Torch's own pipes in the middle of ours."""
    theirs = maps(TorchIterableWrapper(dp), steps)
    return theirs.enumerate()


CHAINS = pytest.mark.parametrize("lengthen", [maps, mixed, torchs, branched])


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(3))


def kinds(dp: Any) -> list[str]:
    return [type(pipe).__name__ for pipe in walk(dp)]


def test_a_chain_shows_each_step() -> None:
    assert repr(maps(numbers())).splitlines() == ["IterableWrapper(range(0, 3))", *["    .map(abs)"] * STEPS]
    assert str(maps(numbers())).count(".map(abs)") == STEPS
    shown = repr(branched(numbers()))
    assert shown.count(".map(abs)") == STEPS // 3 * 3
    assert (shown.count("\n    .fork(2)[0]\n"), shown.count("        ….fork(2)[1]\n")) == (1, 1)
    theirs = repr(torchs(TorchIterableWrapper(range(3))))
    assert (theirs.count("MapperIterDataPipe("), theirs.count(", abs)")) == (STEPS, STEPS)


@CHAINS
def test_the_steps_of_a_chain_are_found(lengthen: Callable[[Any], Any]) -> None:
    root = numbers()
    dp = lengthen(root)
    pipes = [*walk(dp)]
    assert len(pipes) > STEPS - 3
    graph = traverse_dps(dp)
    assert {id(pipe) for pipe in list_dps(graph)} == {id(pipe) for pipe in pipes}
    depth, below = 0, graph
    while below:
        ((pipe, below), *_), depth = below.values(), depth + 1
    assert pipe is root
    assert depth > STEPS // 2
    assert find_dps(graph, ps.iter.IterableWrapper)[-1] is pipe
    assert list_dps(graph, exclude_dps=pipes[1:]) == [dp]


def test_steps_are_replaced_and_removed() -> None:
    first, other = numbers(), ps.iter.IterableWrapper("ab")
    dp = maps(first)
    graph = replace_dp(traverse_dps(dp), first, other)
    assert list_dps(graph)[-1] is other
    assert len(list_dps(remove_dp(graph, dp.source))) == STEPS


def test_sources_come_first_where_several_read_from_one() -> None:
    dp = branched(numbers())
    found = sources_first(dp)
    places = {id(pipe): place for place, pipe in enumerate(found)}
    assert places.keys() == {id(pipe) for pipe in walk(dp)}
    assert all(places[id(source)] < places[id(pipe)] for pipe in found for source in sources_of(pipe))


def test_seeds_are_given_and_what_was_skipped_is_told() -> None:
    shuffled = numbers().shuffle()
    dp = maps(shuffled.sharding_filter()).map(abs, on_error="skip").shuffle()
    seed_graph(dp, 1)
    seeds = shuffled.random_state()["seed"], dp.random_state()["seed"]
    set_graph_random_seed(dp, SeedGenerator(2))
    assert seeds != (shuffled.random_state()["seed"], dp.random_state()["seed"])
    assert dp.stats() == {"map": {"skipped": 0, "retried": 0, "last_errors": []}}


def test_a_chain_is_sharded_once_on_each_path() -> None:
    long = maps(numbers())
    points = [branch.sharding_filter() for branch in long.fork(500)]
    dp = points[0].zip(*points[1:])
    apply_sharding(dp, 2, 1)
    assert {point.shares()[1] for point in points} == {(2, 1)}
    assert len(sharding_points(dp)) == 500
    with pytest.raises(RuntimeError, match="sharded twice on one path"):
        apply_sharding(maps(dp).sharding_filter(), 2, 1)


@pytest.mark.parametrize(
    ("lengthen", "copied_by"),
    [
        *[(lengthen, copied_by) for lengthen in (maps, torchs, branched) for copied_by in (copy_of, copy.deepcopy)],
        *[(lengthen, lambda dp: pickle.loads(pickle.dumps(dp))) for lengthen in (maps, mixed, torchs, branched)],
        (mixed, lambda dp: pickle.loads(pickle.dumps(dp, protocol=0))),
        (torchs, lambda dp: pickle.loads(cloudpickle.dumps(dp))),
        (branched, lambda dp: pickle.loads(cloudpickle.dumps(dp))),
        (torchs, lambda dp: pickle._loads(pickle._dumps(dp))),  # type: ignore[attr-defined]  # in Python, as dill's is
    ],
)
def test_a_chain_is_copied(lengthen: Callable[[Any], Any], copied_by: Callable[[Any], Any]) -> None:
    dp = lengthen(numbers())
    copied = copied_by(dp)
    assert kinds(copied) == kinds(dp)
    assert not {id(pipe) for pipe in walk(copied)} & {id(pipe) for pipe in walk(dp)}


def test_several_chains_in_one_pickle_have_in_common_what_they_had() -> None:
    long = maps(numbers())
    one, other, again = pickle.loads(pickle.dumps([long.batch(2), long.batch(3), long]))
    assert one.source is other.source is again
    assert (one.batch_size, other.batch_size) == (2, 3)


class Told:
    """Something that a pipe holds, and that pickles a chain of its own."""

    def __init__(self, chain: Any) -> None:
        self.chain = chain

    def __reduce__(self) -> Any:
        return Told, (pickle.loads(pickle.dumps(self.chain)),)


def test_a_chain_in_the_middle_of_the_pickle_of_another_is_copied_too() -> None:
    dp = maps(maps(numbers().map(Told(maps(numbers())).__init__)))  # type: ignore[misc]
    copied = pickle.loads(pickle.dumps(dp))
    assert kinds(copied) == kinds(dp)
    assert len(kinds([*walk(copied)][-2].fn.__self__.chain)) == STEPS + 1


def test_a_chain_that_cannot_be_pickled_says_so_each_time() -> None:
    dp = maps(numbers().map(lambda x: x))
    for _ in range(2):
        with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
            pickle.dumps(dp)
    assert kinds(pickle.loads(cloudpickle.dumps(dp))) == kinds(dp)


class Reader(ps.IterDataPipe[int]):
    """Knows where its item was read, and counts how often it was asked."""

    asked = 0

    def provenance(self) -> Provenance:
        Reader.asked += 1
        return Provenance((ReadRows("a.parquet", "row group 0", range(1)),))


class Nowhere(ps.IterDataPipe[int]):
    """Does not know."""


def begun(dp: Any) -> Any:
    """A chain as it is in a pass, so far as those who ask for the provenance see."""
    for pipe in walk(dp):
        pipe._pass = Pass(pipe)
        pipe._pass.begun = True
    return dp


@pytest.mark.parametrize("lengthen", [maps, branched])
def test_where_something_was_read_last_is_found_far_above_and_each_pipe_asked_once(lengthen: Any) -> None:
    Reader.asked = 0
    dp = begun(lengthen(Reader().batch(2)).map(len))
    assert describe_step(dp, 7) == "Mapper(len), on 7, last read upstream: row 0 of row group 0 of 'a.parquet'"
    assert Reader.asked == 1
    assert describe_step(begun(lengthen(Nowhere()).map(len)), 7) == "Mapper(len), on 7"
    assert str(provenance_of(begun(maps(Reader())))) == "row 0 of row group 0 of 'a.parquet'"
    joined: Any = Nowhere()
    for _ in range(60):
        joined = joined.zip(joined)
    assert describe_step(begun(joined.map(len)), 7) == "Mapper(len), on 7"


class Failing(ps.IterDataPipe[int]):
    """Fails where it is asked, which nobody does behind a batch."""

    def provenance(self) -> Provenance:
        raise LookupError("asked")


def test_a_pipe_that_fails_when_asked_fails_only_who_asks_it() -> None:
    dp = begun(maps(Failing()).batch(2).map(len))
    assert provenance_of(dp) is None
    assert describe_step(dp.source, provenance=None) == "Batcher(2)"
    with pytest.raises(LookupError, match="asked"):
        provenance_of(dp.source.source)
