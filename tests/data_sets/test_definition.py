"""Definitions of data sets: what is made of them, by name, in order and by index."""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import penstock as ps
from archives import zip_of
from penstock.datasets import Dataset, Files, IterDataset, MapDataset, Resource, check_dataset, registry
from penstock.registry import SHARDING_PRIORITIES, plug_ins
from penstock.registry.sharding import apply_sharding
from ranks import run_ranks
from s3 import S3Server
from served import FileServer, served

D = ps.datasets

ROWS = {
    split: "".join(f"{split} {number}\t{number % 2}\n" for number in range(12)).encode() for split in ("train", "test")
}
ARCHIVE = zip_of({f"words/{split}.tsv": content for split, content in ROWS.items()})


def _pair(row: list[str]) -> tuple[str, int]:
    return row[0], int(row[1])


def _by_hand(resources: Mapping[str, Files], split: str, *, upper: bool = False) -> Any:
    """Words, with whether they are odd.

    More of them.
    """
    rows = resources["archive"].open(f"words/{split}.tsv").parse_csv(delimiter="\t")
    samples = rows.shuffle().sharding_filter().map(_pair)
    return samples.map(str.upper, input_col=0) if upper else samples


def _at_its_end(resources: Mapping[str, Files], split: str) -> Any:
    """Words."""
    return resources["archive"].open(f"words/{split}.tsv").parse_csv(delimiter="\t").map(_pair)


def _dropping(resources: Mapping[str, Files], split: str) -> Any:
    """Some words."""
    rows = resources["archive"].open(f"words/{split}.tsv").parse_csv(delimiter="\t")
    return rows.shuffle().sharding_filter().map(_pair).filter(lambda pair: pair[1])


def _numbers(resources: Mapping[str, Files], split: str) -> Any:
    """Numbers in order."""
    return ps.iter.IterableWrapper(range(20)).sharding_filter()


FACTS: dict[str, Any] = {
    "splits": {"train": 12, "test": 12},
    "resources": {"archive": Resource("https://example.org/words.zip")},
    "categories": ("even", "odd"),
    "licence": "none",
    "home_page": "https://example.org",
    "citation": "Somebody, Words, 2026",
    "register": False,
}


@pytest.fixture
def words(server: FileServer) -> Dataset[Any]:
    return served(Dataset("words", _by_hand, title="Words", **FACTS), {"archive": ARCHIVE}, server, train=12, test=12)


@pytest.mark.parametrize(("pipe", "count"), [(_by_hand, 12), (_at_its_end, 12), (_numbers, 20)])
def test_a_data_set_holds_its_laws(pipe: Any, count: int, server: FileServer, tmp_path: Path) -> None:
    facts = FACTS | {"splits": {"train": count, "test": count}}
    data = served(Dataset("words", pipe, title="Words", **facts), {"archive": ARCHIVE}, server, train=count, test=count)
    check_dataset(lambda **arguments: data(tmp_path, "test", **arguments))


def test_samples_come_in_order_of_either_split(words: Dataset[Any], tmp_path: Path) -> None:
    assert list(words(tmp_path, "train")) == [(f"train {number}", number % 2) for number in range(12)]
    assert next(iter(words(tmp_path, train=False))) == ("test 0", 0)
    assert list(words(tmp_path, "train", upper=True))[3] == ("TRAIN 3", 1)
    first, second = words(tmp_path, ("train", "test"))
    assert (first.info.split, second.info.split) == ("train", "test")


def test_torchs_loader_switches_the_shuffle(words: Dataset[Any], tmp_path: Path) -> None:
    expected = list(words(tmp_path))
    plain = DataLoader(words(tmp_path), batch_size=None, shuffle=False)
    assert [tuple(pair) for pair in plain] == expected
    shuffled = [tuple(pair) for pair in DataLoader(words(tmp_path), batch_size=None, shuffle=True)]
    assert shuffled != expected
    assert sorted(shuffled) == sorted(expected)


def test_by_index(words: Dataset[Any], tmp_path: Path) -> None:
    data = words(tmp_path, map_style=True, upper=True)
    assert isinstance(data, MapDataset)
    assert len(data) == 12
    assert not list(tmp_path.iterdir()), "len needs no file"
    assert data[5] == data[-7] == ("TRAIN 5", 1)
    with pytest.raises(IndexError, match="Words has 12 samples, and none at 12"):
        data[12]
    assert sorted(data.shuffle()) == sorted(data)


@pytest.mark.filterwarnings("ignore:Some.* should have 12 samples")
def test_where_more_than_map_follows_its_length_is_the_one_defined(server: FileServer, tmp_path: Path) -> None:
    data = served(Dataset("words", _dropping, title="Some", **FACTS), {"archive": ARCHIVE}, server, train=12)
    assert [number for _, number in data(tmp_path)] == [1] * 6
    assert len(data(tmp_path)) == 12
    with pytest.raises(TypeError, match="Some cannot be read by index: other steps than map follow"):
        data(tmp_path, map_style=True)


def test_the_card_tells_what_it_is(words: Dataset[Any], tmp_path: Path) -> None:
    data = words(tmp_path)
    lines = str(data).splitlines()
    assert lines == repr(data).splitlines() == str(words(tmp_path, map_style=True)).splitlines()
    assert len(lines) <= 10
    assert lines[:3] == [
        "Words: Words, with whether they are odd.",
        "  split       'train', upper=False, of train (12), test (12)",
        "  categories  even, odd",
    ]
    assert "downloaded when first read" in lines[3]
    assert lines[4:] == [
        "  licence     none",
        "  home page   https://example.org",
        "  citation    Somebody, Words, 2026",
    ]
    list(data)
    assert f"in {tmp_path}/words: words.zip" in str(data)
    assert str(data.batch(2)) == "Words('train').batch(2)"
    assert data.info.categories == ("even", "odd")
    assert str(words) == "<data set Words: Words, with whether they are odd.>"


def _defined(pipe: Any = _at_its_end, splits: Any = {"all": 1}, **resources: Resource) -> Dataset[Any]:  # noqa: B006
    return Dataset("defined", pipe, resources=resources, splits=splits, title="Defined", register=False)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: _defined(splits={}), ValueError, "give splits"),
        (lambda: _defined(splits=["train"]), ValueError, "give splits, a dict"),
        (lambda: _defined(lambda resources, split, *, shuffle=1: None), ValueError, "every data set takes shuffle"),
        (lambda: _defined(lambda resources, split: [1])(), TypeError, "must return a chain, and returned"),
        (
            lambda: _defined(a=Resource("https://h/labels"), b=Resource("https://h/labels.gz", unpack=True)),
            ValueError,
            "two resources would be kept as 'labels': give one of them another",
        ),
        (
            lambda: _defined(splits={"a": 1, "b": None})(train=True),
            TypeError,
            "one of 'a', 'b', not train=",
        ),
        (
            lambda: D.MNIST("r", "tset"),
            ValueError,
            r"splits 'train', 'test', not 'tset': did you mean 'test'",
        ),
        (lambda: D.MNIST("r", "train", train=True), TypeError, "give only one"),
        (lambda: D.MNIST("r", train="test"), TypeError, "train must be True or False"),
        (
            lambda: D.MNIST("r", shufle=True),
            TypeError,
            "takes root, split, .*not shufle: did you mean 'shuffle'",
        ),
        (lambda: D.MNIST("r", map_style=True, shuffle=True), ValueError, "give shuffle or map_style"),
        (lambda: D.MNIST("r", download=True), TypeError, "downloaded when the first sample is read"),
        (lambda: D.MNIST("r", transform=str), TypeError, r"use \.map, which gets the whole sample"),
        (lambda: D.load("MNIST"), ValueError, "did you mean 'mnist'"),
        (lambda: check_dataset(lambda **_: ps.iter.IterableWrapper([1])), TypeError, "make must return a split"),  # type: ignore[arg-type, return-value]
        (lambda: check_dataset(D.BreastCancer, laws=["counts_hodl"]), ValueError, "did you mean 'counts_hold'"),
    ],
)
def test_a_wrong_definition_or_argument_is_refused(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are entered in a test are gone after it; ours, which are entered by one import, are not."""
    D.list()
    monkeypatch.setattr(registry, "_entered", {**registry._entered})


@pytest.mark.usefixtures("own_names")
def test_data_sets_have_names(tmp_path: Path) -> None:
    @D.dataset("numbers-of-a-test", splits={"all": 3}, title="Numbers")
    def numbers(resources: Mapping[str, Files], split: str) -> ps.IterDataPipe[int]:
        """Numbers."""
        return ps.iter.IterableWrapper(range(3))

    assert "numbers-of-a-test" in D.list()
    assert list(D.load("numbers-of-a-test", tmp_path)) == [0, 1, 2]
    with pytest.raises(ValueError, match="no data set 'numbers-of-a-tset': did you mean 'numbers-of-a-test'"):
        D.load("numbers-of-a-tset")
    Dataset("numbers-of-a-test", _again, splits={"all": 3}, title="Numbers")  # as a cell that is run again
    with pytest.raises(ValueError, match="two data sets claim the name 'numbers-of-a-test'"):
        Dataset("numbers-of-a-test", _again, splits={"all": 3}, title="Others")


def _again(resources: Mapping[str, Files], split: str) -> ps.IterDataPipe[int]:
    """Numbers."""
    return ps.iter.IterableWrapper(range(3))


@pytest.mark.usefixtures("own_names")
def test_plug_ins_bring_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def __init__(self, name: str) -> None:
            self.name, self.module, self.value = name, f"{name}.module", f"{name}.module"

        def load(self) -> None:
            if self.name == "broken":
                raise ImportError("no such module")
            Dataset("of-a-plug-in", _again, splits={"all": 3}, title="Plugged")

    monkeypatch.setattr(registry, "_entered", {})
    monkeypatch.setattr(registry, "_imported", False)
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [Found("broken"), Found("good")])
    with pytest.warns(UserWarning, match="the plug-in 'broken' .* could not be loaded: ImportError"):
        assert isinstance(D.load("of-a-plug-in"), IterDataset)


def test_a_wrong_count_is_noticed_by_index_and_in_a_pass() -> None:
    def made(count: int, **arguments: Any) -> Any:
        return Dataset("numbers", _numbers, splits={"all": count}, register=False)(**arguments)

    with pytest.raises(RuntimeError, match="numbers should have 5 samples, and has 20"):
        made(5, map_style=True)[0]
    text = r"numbers\('all'\) should have 5 samples, and has 20"
    for arguments in ({}, {"shuffle": True}):
        with pytest.warns(UserWarning, match=text):
            list(made(5, **arguments))
    read = made(5)
    read.take(7)
    resumed = made(5)
    resumed.load_state_dict(read.state_dict())
    with pytest.warns(UserWarning, match=text):
        assert list(resumed) == list(range(7, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(made(20))
        made(5).take(20)
        sharded = made(5)
        apply_sharding(sharded, 2, 1)
        assert list(sharded) == list(range(1, 20, 2))


def test_a_function_that_cannot_be_pickled_breaks_a_law() -> None:
    def with_a_lambda(resources: Mapping[str, Files], split: str) -> Any:
        """Numbers."""
        return _numbers(resources, split).map(functools.partial(lambda number: number))

    data = Dataset("numbers", with_a_lambda, splits={"all": 20}, title="Numbers", register=False)
    text = r"workers of torch's DataLoader need a plain pickle, and Mapper\.fn, which is functools\.partial.*lambda"
    with pytest.raises(AssertionError, match=text):
        check_dataset(lambda **arguments: data(**arguments), ["pickles_and_copies_agree"])


def test_threads_may_read_the_first_sample_at_once() -> None:
    data = Dataset("numbers", _numbers, splits={"all": 20}, register=False)(map_style=True)
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(data[7])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [7] * 8
    assert data[torch.tensor(3)] == 3
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        data["3"]


def test_a_root_is_a_folder_or_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset("numbers", _numbers, splits={"all": 20}, register=False)
    monkeypatch.chdir(tmp_path)
    assert data("here").info.folder == str(tmp_path / "here" / "numbers")
    assert data("memory://").info.folder == "memory://numbers"
    assert data("s3://bucket/").info.folder == "s3://bucket/numbers"
    assert data("~/x").info.folder == os.path.expanduser("~/x/numbers")
    assert "SECRET" not in str(data("s3://KEY:SECRET@bucket/x"))
    monkeypatch.setenv("PENSTOCK_DATASETS", str(tmp_path / "all"))
    assert data().info.folder == str(tmp_path / "all" / "numbers")


# The laws


def _broken(law: str) -> Any:
    passes = iter(range(1000))

    def pipe(resources: Mapping[str, Files], split: str) -> Any:
        """Broken."""
        rows = [f"{number}" for number in range(6)]
        if law == "construction_reads_nothing":
            resources["archive"].path()
        if law == "samples_are_alike":
            rows = [*rows, 7]  # type: ignore[list-item]
        if law == "counts_hold":
            rows = rows[:-1]
        dp: Any = ps.iter.IterableWrapper(rows)
        if law == "two_passes_agree":
            dp = dp.map(lambda row: (row, next(passes)))
        if law == "shuffles_then_divides":
            return dp.sharding_filter().zip(ps.iter.IterableWrapper(rows).sharding_filter())
        if law == "two_ranks_read_it":
            return dp.shuffle().sharding_filter(SHARDING_PRIORITIES.MULTIPROCESSING)
        if law == "shuffling_keeps_the_samples":
            return dp.shuffle().sharding_filter().pipe(lambda items: list(items)[:3])
        if law == "root_is_clean":
            dp = dp.map(lambda row: _left(resources["archive"], row))
        if law == "by_index_it_is_the_same":
            return dp.shuffle().sharding_filter().map(_Odd())
        return dp

    return pipe


def _left(files: Files, row: str) -> str:
    Path(files.folder).mkdir(parents=True, exist_ok=True)
    Path(files.folder, "left.tmp").write_text(row)
    return row


class _Odd:
    """A function that remembers how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, row: str) -> tuple[str, int]:
        self.calls = self.calls % 6 + 1
        return row, self.calls


LAWS_BROKEN = [
    *("construction_reads_nothing", "samples_are_alike", "counts_hold", "two_passes_agree", "shuffles_then_divides"),
    *("shuffling_keeps_the_samples", "two_ranks_read_it", "root_is_clean", "by_index_it_is_the_same"),
]


@pytest.mark.filterwarnings("ignore:Broken.* should have 6 samples")
@pytest.mark.parametrize("law", LAWS_BROKEN)
def test_a_law_that_is_broken_is_named(law: str, server: FileServer, tmp_path: Path) -> None:
    facts = FACTS | {"splits": {"train": 6, "test": 6}}
    data = served(Dataset("words", _broken(law), title="Broken", **facts), {"archive": ARCHIVE}, server, test=6)
    with pytest.raises(AssertionError, match=f"Broken breaks the law '{law}': "):
        check_dataset(lambda **arguments: data(tmp_path, "test", **arguments), laws=[law])


def test_a_shuffle_of_one_file_is_none() -> None:
    def one_file(resources: Any, split: str) -> Any:
        return ps.iter.IterableWrapper([12]).shuffle().sharding_filter().flatmap(range)

    data = Dataset("one", one_file, splits={"all": 12}, register=False)
    with pytest.raises(AssertionError, match="shuffling left the order as it was, with ten seeds"):
        check_dataset(data, laws=["shuffling_keeps_the_samples"])


# Where it is read


def test_ranks_download_it_once_and_read_it_once(words: Dataset[Any], server: FileServer, tmp_path: Path) -> None:
    code = f"""
    import sys
    sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1] / "support")!r}]
    from test_definition import _by_hand
    url, digest, size = {[words.resources["archive"].url, words.resources["archive"].sha256, len(ARCHIVE)]!r}
    resource = ps.datasets.Resource(url, sha256=digest, size=size)
    words = ps.datasets.Dataset("words", _by_hand, resources={{"archive": resource}}, splits={{"train": 12}})
    data = words({str(tmp_path / "root")!r}, shuffle=True)
    services = ps.DistributedReadingService(num_shards=4), ps.MultiProcessingReadingService(1)
    with ps.DataLoader2(data, reading_service=ps.SequentialReadingService(*services)) as loader:
        loader.seed(1)
        say(sorted(loader))
    """
    first, second = run_ranks(tmp_path, code)
    assert sorted(map(tuple, first[0] + second[0])) == sorted(words(tmp_path / "root"))
    assert server.requests["words/words.zip"] == 1


def test_a_root_in_a_store(words: Dataset[Any], s3_server: S3Server, server: FileServer) -> None:
    (s3_server.root / "roots").mkdir(exist_ok=True)
    data = words("s3://roots/here", shuffle=True)
    with ps.DataLoader2(data, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        assert sorted(loader) == [(f"train {number}", number % 2) for number in sorted(range(12), key=str)]
    assert words("s3://roots/here", map_style=True)[3] == ("train 3", 1)
    assert server.requests["words/words.zip"] == 1
