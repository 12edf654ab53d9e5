"""Each row of the page about torchdata and torchtext is run, but what differs by operator; and what its bullets say."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import inspect
import io
import json
import lzma
import multiprocessing
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from torch.utils.data.graph_settings import apply_sharding as torchs_apply_sharding

import penstock as ps
from archives import zip_of
from penstock.registry import apply_sharding, operators
from ranks import run_programs

pytestmark = pytest.mark.timeout(50)

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "migration.md").read_text()
BY_OPERATOR = PAGE.partition("What a pipeline might notice, by operator:\n\n")[2].partition("\n\n")[0]
"""The table that the tests of each operator show, in tests/operators and tests/state/test_fields.py."""
IMPORTS = re.findall(r"^\| `(from torchdata[^`]*)` \| `(from penstock[^`]*)`", PAGE, re.MULTILINE)

Row = tuple[str, str]
Test = TypeVar("Test", bound=Callable[..., None])

SHOWN: list[Row] = []
"""The rows that the tests of this file show."""


def row(first: str, *seconds: str) -> Callable[[Test], Test]:
    """Say which rows of the page a test shows, by their first two cells without backticks."""

    def enter(test: Test) -> Test:
        SHOWN.extend((first, second) for second in seconds)
        return test

    return enter


def rows_of_page() -> Iterator[Row]:
    """Yield the first two cells of each row, but of the table by operator."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.replace(BY_OPERATOR, ""), re.MULTILINE):
        for line in table.splitlines()[2:]:
            first, second, *_ = (cell.strip() for cell in line[1:-1].replace("`", "").split("|"))
            yield first, second


def pipe(*items: Any) -> Any:
    return ps.iter.IterableWrapper(items, deepcopy=False)


def stream_of(path: str, content: bytes, way: Callable[[bytes], Any] = io.BytesIO) -> Any:
    return pipe((path, way(content)))


def contents(dp: Any) -> list[tuple[str, bytes]]:
    return [(path, stream.read()) for path, stream in dp]


@pytest.fixture
def under_install(tmp_path: Path) -> Callable[[str], list[Any]]:
    """A function that runs code after `install()` in a process of its own, and returns what the code says."""

    def run(code: str) -> list[Any]:
        start = "import json, penstock as ps, penstock.compat\npenstock.compat.install()\n"
        program = tmp_path / "program.py"
        program.write_text(start + "def say(what): print(json.dumps(what))\n" + code)
        run_programs(program, {tmp_path / "program": {**os.environ}}, seconds=40)
        return [json.loads(line) for line in (tmp_path / "program.out").read_text().splitlines()]

    return run


def test_each_row_has_a_test_and_each_test_a_row() -> None:
    rows = [*rows_of_page()]
    imports = [
        cells for cells in rows if cells[0].startswith("from torchdata") and cells[1].startswith("from penstock")
    ]
    assert {*rows} ^ {*SHOWN, *imports} == set()
    assert len(IMPORTS) == len(imports) >= 10
    of_operators = BY_OPERATOR.count("\n| ") - 1
    assert len(rows) == len({*rows}) == PAGE.count("\n| ") - 2 * PAGE.count("\n| ---") - of_operators
    assert len(SHOWN) == len({*SHOWN})


def test_the_table_by_operator_names_operators() -> None:
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", BY_OPERATOR, re.MULTILINE)))
    assert len(named) > 30
    there = {entry.name for entry in operators.values()}
    assert not {*named} - there - {"HuggingFaceHubReader", "Sampler"}


# Line by line


@row("PrototypeMultiProcessingReadingService(…)", "MultiProcessingReadingService(…)")
@row(
    "Batcher(datapipe=dp, batch_size=2)",
    "Batcher(dp, batch_size=2), or source=dp: the source is called source everywhere",
)
@row(
    "dp.source_datapipe, dp.datapipe, dp.datapipes",
    "dp.source, dp.sources; under install() the old names do, too",
)
def test_both_columns_import_the_same_and_old_names_do(under_install: Any) -> None:
    imported, old_names = (
        f"""
for lines in {IMPORTS}:
    theirs, ours = {{}}, {{}}
    for line, names in zip(lines, (theirs, ours)):
        exec(line, names)
        del names["__builtins__"]
    say([*lines, theirs.keys() == ours.keys(), [name for name in theirs if theirs[name] is not ours.get(name)]])
""",
        """
from torchdata.dataloader2 import CheckpointableReadingServiceInterface, PrototypeMultiProcessingReadingService
from torchdata.datapipes.iter import Batcher, IterableWrapper
a, b = IterableWrapper("a"), IterableWrapper("b")
batches, pairs = a.batch(2), a.zip(b)
class Own(CheckpointableReadingServiceInterface):
    pass
try:
    Own()
except NotImplementedError as error:
    say(str(error))
say([
    PrototypeMultiProcessingReadingService is ps.MultiProcessingReadingService,
    batches.source is batches.datapipe is batches.source_datapipe is a,
    pairs.sources == pairs.datapipes == (a, b),
    list(Batcher(datapipe=IterableWrapper([1, 2]), batch_size=2)) == [[1, 2]],
])
""",
    )
    *said, why, last = under_install(imported + old_names)
    assert [lines[:2] for lines in said] == [[*lines] for lines in IMPORTS]
    for line, _, same_names, others in said:
        assert same_names, line
        assert {*others} <= {"functional_datapipe"}, line  # the old one takes enable_df_api_tracing, too
    assert "derive the service from ReadingServiceInterface" in why
    assert last == [True] * 4
    assert ps.iter.Mapper is sys.modules["penstock.pipes.iter"].Mapper
    dp, new = pipe(1, 2), ps.iter.Batcher
    assert [*new(dp, batch_size=2), *new(source=dp, batch_size=2)] == [[1, 2]] * 2
    with pytest.raises(TypeError):
        new(datapipe=dp, batch_size=2)  # type: ignore[call-arg]


@row("from torchdata.datapipes.utils import StreamWrapper", "streams are Python's own: none is needed")
def test_streams_are_pythons_own(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    ((_, stream),) = pipe(str(tmp_path / "a.txt")).open_files("rb")
    assert isinstance(stream, io.BufferedReader)
    assert not hasattr(stream, "file_obj")
    file = stream.raw
    del stream
    assert file.closed


@row("to_graph(dp)", "dp.visualize(), a [picture](pictures.md) without Graphviz; or print(dp)")
def test_a_chain_is_drawn_without_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    dp = pipe(1, 2).batch(2)
    dp.visualize(tmp_path / "chain.svg")
    assert "batch" in (tmp_path / "chain.svg").read_text()
    assert str(dp) == "IterableWrapper((1, 2), deepcopy=False).batch(2)"


@row(
    "torch.utils.data.graph_settings.apply_sharding(dp, n, i)",
    "the same, or penstock.registry.apply_sharding(dp, n, i)",
)
def test_a_chain_is_sharded_by_torchs_function_and_by_ours() -> None:
    for shard in (torchs_apply_sharding, apply_sharding):
        dp = pipe(*range(5)).sharding_filter()
        shard(dp, 2, 1)
        assert list(dp) == [1, 3]


# Two names for one job


@row(
    "decompress()",
    "extract(), load_from_bz2(), load_from_xz(): the same with a fixed type, or under an older name",
)
def test_one_operator_decompresses() -> None:
    for path, packed, older in (
        ("a.gz", gzip.compress(b"one"), "extract"),
        ("a.bz2", bz2.compress(b"one"), "load_from_bz2"),
        ("a.xz", lzma.compress(b"one"), "load_from_xz"),
    ):
        dp = getattr(stream_of(path, packed), older)()
        assert isinstance(dp, ps.iter.Decompressor)
        assert [content for _, content in contents(dp)] == [b"one"]
        assert contents(stream_of(path, packed).decompress()) == [(path, b"one")]


@row("mix(*others, weights=…)", "SampleMultiplexer({dp: weight, …})")
def test_a_mix_is_a_sample_multiplexer() -> None:
    ones, twos = pipe(*[1] * 20), pipe(*[2] * 20)
    old = ps.iter.SampleMultiplexer({ones: 3, twos: 1}, seed=5)
    assert list(ones.mix(twos, weights=[3, 1]).set_seed(5)) == list(old)


@row('on_error="skip"', "skip_on_error=True of read_from_http, read_from_gdrive, read_from_remote")
@pytest.mark.filterwarnings("ignore:.*skip")
@pytest.mark.parametrize("name", ["read_from_http", "read_from_gdrive", "read_from_remote"])
def test_a_page_that_is_missing_is_skipped(name: str, web: str) -> None:
    for told in ({"on_error": "skip"}, {"skip_on_error": True}):
        dp = getattr(pipe(f"{web}/missing"), name)(**told)
        assert list(dp) == []
        assert [counts["skipped"] for counts in dp.stats().values()] == [1]


@row("open_files_by_fsspec()", "open_files_by_iopath(); open_files() for local files")
def test_three_operators_open_files(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    Path(path).write_text("one")
    for name in ("open_files_by_fsspec", "open_files_by_iopath", "open_files"):
        assert contents(getattr(pipe(path), name)(mode="rb")) == [(path, b"one")]


@row("map(fn)", "collate(fn), where fn is your own")
def test_collate_with_a_function_is_map() -> None:
    assert list(pipe([1, 2]).collate(sum)) == list(pipe([1, 2]).map(sum)) == [3]


@row(
    "bucket_by_length(…), which loses nothing and cuts by length alone",
    "bucketbatch(…), which pools and shuffles too",
)
def test_of_two_ways_to_make_buckets_one_cuts_by_length_alone() -> None:
    words = ["a", "bbb", "cc", "dddd"]
    assert list(pipe(*words).bucket_by_length([3], 2)) == [["a", "cc"], ["bbb", "dddd"]]
    assert len({str(list(pipe(*words).bucketbatch(2).set_seed(seed))) for seed in range(9)}) > 1


# From torchtext


@row('torchtext.datasets.SST2(root, split="train")', 'ps.datasets.SST2(root, "train")')
@row("SST2(root), which gives all splits", 'SST2(root, ("train", "dev", "test")); without a split it is the first')
def test_splits_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {
        "train": "sentence\tlabel\ngood\t1\n",
        "dev": "sentence\tlabel\nbad\t0\n",
        "test": "n\tsentence\n0\tdull\n",
    }
    content = zip_of({f"SST-2/{split}.tsv": text.encode() for split, text in lines.items()})
    sst2 = ps.datasets.SST2
    ((name, archive),) = sst2.resources.items()
    small = replace(archive, sha256=hashlib.sha256(content).hexdigest(), md5=None, size=len(content))
    monkeypatch.setattr(sst2, "resources", {name: small})
    monkeypatch.setattr(sst2, "splits", dict.fromkeys(lines, 1))
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / archive.name).write_bytes(content)
    splits = sst2(tmp_path, ("train", "dev", "test"))
    assert [list(chain) for chain in splits] == [[("good", 1)], [("bad", 0)], [("dull",)]]
    assert list(sst2(tmp_path, "train")) == list(sst2(tmp_path)) == [("good", 1)]


@row(
    'build_vocab_from_iterator(tokens, min_freq=2, specials=["<unk>"])',
    'ps.build_vocab(tokens, min_freq=2, specials=["<unk>"]), or dp.build_vocab(…) on a chain',
)
@row('vocab.set_default_index(vocab["<unk>"])', 'the same, or build_vocab(…, default="<unk>")')
@row("torch.save(vocab, path)", "vocab.save(url), ps.Vocab.load(url)")
def test_a_vocabulary_is_built_and_saved(tmp_path: Path) -> None:
    tokens = [["a", "b"], ["b", "c"], ["c", "b"]]
    vocab = ps.build_vocab(tokens, min_freq=2, specials=["<unk>"])
    assert vocab.get_itos() == ["<unk>", "b", "c"]
    assert pipe(*tokens).build_vocab(min_freq=2, specials=["<unk>"]) == vocab
    with pytest.raises(KeyError, match="'other'"):
        vocab["other"]
    vocab.set_default_index(vocab["<unk>"])
    assert vocab["other"] == 0
    assert ps.build_vocab(tokens, min_freq=2, specials=["<unk>"], default="<unk>") == vocab
    with pytest.raises(ValueError, match="twice"):
        ps.build_vocab(tokens, specials=["<unk>", "<unk>"])
    vocab.save(str(tmp_path / "vocab.json"))
    assert ps.Vocab.load(str(tmp_path / "vocab.json")) == vocab


@row("vocab(tokens), vocab[token], token in vocab, lookup_token, lookup_tokens, get_itos, get_stoi", "the same")
@row("vocab.lookup_indices(tokens)", "vocab(tokens)")
@row("torchtext.vocab.vocab(ordered_dict)", "ps.Vocab(tokens)")
def test_a_vocabulary_is_asked_as_ever() -> None:
    vocab = ps.Vocab(OrderedDict(b=1, a=5))
    assert (vocab(["a", "b"]), vocab["a"], "a" in vocab, "c" in vocab) == ([1, 0], 1, True, False)
    assert (vocab.lookup_token(1), vocab.lookup_tokens([1, 0])) == ("a", ["a", "b"])
    assert (vocab.get_itos(), vocab.get_stoi()) == (["b", "a"], {"b": 0, "a": 1})


# What only a bullet says


def test_a_lambda_is_called_in_a_worker_of_a_fork_server() -> None:
    dp = pipe(1).map(lambda _: type(multiprocessing.current_process()).__name__)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(1)) as loader:
        assert list(loader) == ["ForkServerProcess"]


def test_operators_that_call_functions_or_read_from_outside_have_on_error() -> None:
    entries: Any = operators.values()
    without = {
        entry.name
        for entry in entries
        if entry.cls.__module__.startswith("penstock.")
        and "on_error" not in (taken := inspect.signature(entry.cls).parameters)
        and (
            any("Callable" in str(each.annotation) for each in taken.values())
            or {"expensive", "opens", "unpacks"}.intersection(entry.cls.traits)
        )
    }
    assert "on_error" in inspect.signature(ps.iter.EndOnDiskCacheHolder).parameters
    assert without == {"batch", "pipe", "pin_memory", "dataframe", "Sampler", "on_disk_cache"}
