"""The graph functions of torchdata."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper
from torch.utils.data.graph import traverse_dps as torch_traverse

import penstock as ps
from passing import Holding
from penstock.registry import sources_of
from penstock.runner.graph import find_dps, list_dps, remove_dp, replace_dp, traverse_dps


def kinds(pipes: list[Any]) -> list[str]:
    return [type(pipe).__name__ for pipe in pipes]


def test_a_pipe_without_items_can_be_excluded_from_a_list() -> None:
    excluded = ps.iter.IterableWrapper([])
    dp = excluded.batch(2)
    assert list_dps(traverse_dps(dp), exclude_dps=excluded) == [dp]


BUILDERS = {
    "ours": ps.iter.IterableWrapper,
    "torch's": TorchIterableWrapper,
}


@pytest.mark.parametrize("wrap", BUILDERS.values(), ids=BUILDERS)
def test_a_graph_is_the_one_that_torch_sees(wrap: Any) -> None:
    numbers = wrap(range(4))
    shuffled = numbers.shuffle()
    dp = shuffled.map(str).zip(shuffled)
    graph = traverse_dps(dp)
    assert graph == torch_traverse(dp)
    assert list_dps(graph) == [dp, *sources_of(dp), numbers]
    assert list_dps(graph, exclude_dps=shuffled) == [dp, sources_of(dp)[0]]
    assert list_dps(graph, exclude_dps=[dp]) == []
    assert list_dps(graph, exclude_dps=None) == list_dps(graph)
    assert find_dps(graph, type(shuffled)) == [shuffled]
    assert find_dps(graph, ps.IterDataPipe) == []


def test_an_operator_of_ours_and_torchs_of_that_name_are_one_to_find() -> None:
    theirs = TorchIterableWrapper(range(4)).shuffle()
    ours = ps.iter.Shuffler(theirs)

    class Own(ps.iter.Shuffler):
        pass

    graph = traverse_dps(Own(ours))
    for cls in (ps.iter.Shuffler, type(theirs)):
        assert find_dps(graph, cls) == [ours, theirs]
    assert kinds(find_dps(graph, Own)) == ["Own"]
    assert find_dps(traverse_dps(ps.map.SequenceWrapper("ab").map(str)), ps.iter.Mapper) == []


@pytest.mark.parametrize("wrap", BUILDERS.values(), ids=BUILDERS)
def test_replacing_a_pipe_or_putting_one_in_between(wrap: Any) -> None:
    numbers = wrap(range(4))
    mapped = numbers.map(str)
    dp = mapped.batch(2)
    graph = replace_dp(traverse_dps(dp), mapped, mapped.map(lambda text: text + "!"))
    assert kinds(list_dps(graph)) == kinds([dp, mapped, mapped, numbers])
    assert [[*batch] for batch in dp] == [["0!", "1!"], ["2!", "3!"]]
    graph = replace_dp(graph, numbers, wrap(range(8, 10)))
    assert [[*batch] for batch in dp] == [["8!", "9!"]]
    end = dp.map(len)
    assert list_dps(replace_dp(graph, dp, end))[0] is end


def test_replacing_reaches_into_containers_and_leaves_shared_ones_and_items_alone() -> None:
    Pair = namedtuple("Pair", "first second")
    old, new = ps.iter.IterableWrapper("a"), ps.iter.IterableWrapper("b")
    shared = {"x": [old, (old, 1)], "pair": Pair(old, 2), "set": frozenset([old])}
    dp = Holding(shared, items=[old])
    replace_dp(traverse_dps(dp), old, new)
    assert dp.held == {"x": [new, (new, 1)], "pair": Pair(new, 2), "set": frozenset([new])}
    assert type(dp.held["pair"]) is Pair
    assert dp.items == [old]
    assert shared["x"][0] is old


@pytest.mark.parametrize("wrap", BUILDERS.values(), ids=BUILDERS)
def test_removing_a_pipe(wrap: Any) -> None:
    numbers = wrap(range(4))
    mapped = numbers.map(str)
    dp = mapped.batch(2)
    assert list_dps(remove_dp(traverse_dps(dp), mapped)) == [dp, numbers]
    assert [[*batch] for batch in dp] == [[0, 1], [2, 3]]
    assert list_dps(remove_dp(traverse_dps(dp), dp)) == [numbers]
    with pytest.raises(RuntimeError, match="reads from 0: use replace_dp"):
        remove_dp(traverse_dps(dp), numbers)
    both = numbers.zip(wrap("ab"))
    with pytest.raises(RuntimeError, match="reads from 2: use replace_dp"):
        remove_dp(traverse_dps(both.batch(2)), both)


def test_a_graph_of_what_is_no_pipe_is_refused_and_one_in_a_circle_ends() -> None:
    with pytest.raises(TypeError, match="a pipe is needed, and this is of type int"):
        traverse_dps(3)  # type: ignore[arg-type]
    one = Holding(None)
    one.held = [Holding(one)]
    assert len(list_dps(traverse_dps(one))) == 2


def test_a_graph_of_many_joins_is_not_unfolded() -> None:
    dp: Any = ps.iter.IterableWrapper(range(2))
    for _ in range(60):
        dp = dp.zip(dp)
    assert len(list_dps(traverse_dps(dp))) == 61
