"""Foreign pipes: those of torch and of other libraries, chained with ours both ways, in both orders of import."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper
from torch.utils.data.datapipes.iter import Shuffler as TorchShuffler
from torch.utils.data.datapipes.map import SequenceWrapper as TorchSequenceWrapper

import penstock as ps
from fresh import outputs_of
from penstock.registry import apply_sharding, seed_graph
from resuming import as_json, from_json, passed_on


def test_pipes_of_torch_have_our_methods_but_where_torch_has_the_name() -> None:
    theirs, theirs_by_index = TorchIterableWrapper(range(6)), TorchSequenceWrapper("ab")
    assert type(theirs.enumerate()) is ps.iter.Enumerator
    assert list(theirs_by_index.to_iter_datapipe()) == ["a", "b"]
    assert type(theirs.batch(2)) is not ps.iter.Batcher
    assert type(theirs_by_index.map(str)) is not ps.map.Mapper
    assert list(theirs.map(str).header(6).batch(4).fork(2)[0]) == [["0", "1", "2", "3"], ["4", "5"]]


def is_odd(x: int) -> int:
    return x % 2


@pytest.mark.parametrize("wrapper", [TorchIterableWrapper, TorchSequenceWrapper])
def test_an_unknown_method_of_a_pipe_of_torch_is_an_error_with_the_nearest_names(wrapper: Any) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'shufle': did you mean 'shuffle'"):
        wrapper("ab").shufle  # noqa: B018


def test_torch_still_refuses_a_name_that_it_has_and_takes_one_that_only_we_have() -> None:
    from torch.utils.data import functional_datapipe

    class Theirs(TorchIterDataPipe):  # type: ignore[type-arg]
        pass

    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("batch")(Theirs)
    try:
        functional_datapipe("header")(Theirs)
        assert type(ps.iter.IterableWrapper("ab").header(1)) is ps.iter.Header
    finally:
        del TorchIterDataPipe.functions["header"]


def test_a_pipe_of_torch_with_seeds_and_shards_takes_them_from_us() -> None:
    def chain() -> Any:
        return TorchIterableWrapper(range(20)).shuffle().sharding_filter().enumerate()

    items = []
    for shard in range(2):
        dp = chain()
        seed_graph(dp, 3, shard)
        apply_sharding(dp, 2, shard)
        items += [item for _, item in dp]
    assert sorted(items) == list(range(20))


THEIRS = """
from torch.utils.data import IterDataPipe, functional_datapipe

@functional_datapipe("only_theirs")
class OnlyTheirs(IterDataPipe):
    def __init__(self, source):
        self.source = source
    def __iter__(self):
        yield "theirs"
        yield from self.source

@functional_datapipe("header")
class Header(OnlyTheirs):
    pass
"""
OURS = "import penstock as ps\n"
USE = """
from torch.utils.data.datapipes.iter import IterableWrapper
theirs, ours = IterableWrapper(range(3)), ps.iter.IterableWrapper(range(3))
print(list(ours.only_theirs()), list(theirs.only_theirs().enumerate()))
print(type(ours.header(1)).__module__, type(theirs.header()).__module__, type(ours.only_theirs().header()).__module__)
print(list(ours.header(1)), list(theirs.header()), list(ours.only_theirs().header()))
"""


def test_what_others_register_with_torch_is_on_ours_whoever_is_imported_first() -> None:
    for shown in outputs_of(OURS + THEIRS + USE, THEIRS + OURS + USE):
        assert shown.splitlines() == [
            "['theirs', 0, 1, 2] [(0, 'theirs'), (1, 0), (2, 1), (3, 2)]",
            "penstock.pipes.iter.filter __main__ __main__",
            "[0] ['theirs', 0, 1, 2] ['theirs', 'theirs', 0, 1, 2]",
        ]


def test_pipes_of_torch_have_the_functions_of_all_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    dp = TorchIterableWrapper(range(6)).batch(2)
    assert dp.take(1) == [[0, 1]]
    assert dp.take_all() == [[0, 1], [2, 3], [4, 5]]
    assert dp.count() == 3
    dp.show(1)
    assert capsys.readouterr().out.endswith("0: [0, 1]\n")
    assert TorchSequenceWrapper("abc").count() == 3
    dp = TorchIterableWrapper([1, 2])
    assert dp.run()["items"] == 2
    assert [batch.tolist() for batch in dp.iter_torch_batches(2)] == [[1, 2]]
    with pytest.raises(AttributeError, match="'IterableWrapperIterDataPipe' object has no attribute 'at_end'"):
        dp.at_end  # noqa: B018


CHAINS = {
    "torch above": lambda: TorchIterableWrapper(range(7)).enumerate().batch(2),
    "torch between": lambda: ps.iter.IterableWrapper(range(8)).shuffle().set_seed(3).groupby(is_odd).enumerate(),
    "torch between, twice": lambda: (
        ps.iter.IterableWrapper(range(8)).shuffle().set_seed(3).groupby(is_odd).enumerate().groupby(len).header(3)
    ),
    "a shuffler of torch": lambda: TorchIterableWrapper(range(9)).shuffle(buffer_size=4).set_seed(5).enumerate(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_pass_through_pipes_of_torch_resumes_exactly(name: str) -> None:
    uninterrupted = CHAINS[name]()
    expected = list(uninterrupted)
    for handed_out in range(len(expected) + 1):
        interrupted = CHAINS[name]()
        iterator = iter(interrupted)
        assert list(islice(iterator, handed_out)) == expected[:handed_out]
        resumed = CHAINS[name]()
        resumed.load_state_dict(passed_on(interrupted))
        assert list(resumed) == expected[handed_out:]


@pytest.mark.parametrize("stop", [0, 3])
@pytest.mark.parametrize("seeds", [None, (1, 2)], ids=["unseeded", "seeded otherwise"])
def test_a_shuffler_of_torch_resumes_in_its_order(seeds: tuple[int, int] | None, stop: int) -> None:
    dp, resumed = (ps.iter.Mapper(TorchShuffler(ps.iter.IterableWrapper(range(8))), str) for _ in range(2))
    if seeds:
        seed_graph(dp, seeds[0])
        seed_graph(resumed, seeds[1])
    iterator: Any = dp
    if stop:
        iterator = iter(dp)
        assert len([*islice(iterator, stop)]) == stop
    resumed.load_state_dict(passed_on(dp))
    assert [list(resumed), list(resumed)] == [list(iterator), list(dp)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reads_and_resumes_a_chain_that_ends_in_a_pipe_of_torch(workers: int) -> None:
    def loader() -> Any:
        dp = ps.iter.IterableWrapper(range(16)).shuffle().sharding_filter().groupby(is_odd, group_size=2)
        made = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(workers))
        made.seed(4)
        return made

    with loader() as whole:
        first, second = list(whole), list(whole)
    assert sorted(item for group in first for item in group) == list(range(16))
    with loader() as stopped:
        iterator = iter(stopped)
        assert list(islice(iterator, 3)) == first[:3]
        saved = from_json(as_json(stopped.state_dict()))
    with loader() as resumed:
        resumed.load_state_dict(saved)
        assert list(resumed) == first[3:]
        assert list(resumed) == second
