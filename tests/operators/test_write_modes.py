"""Writers to plain folders: what they name, what they do with files of earlier runs, and what `run` counts."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from penstock import MultiProcessingReadingService
from penstock.pipes.bases.writing import write_rows
from penstock.pipes.bases.writing.numbered_files import NumberedFiles
from penstock.pipes.bases.writing.write_shards import Mode
from penstock.pipes.iter import IterableWrapper, write_tar
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from resuming import assert_resumes_everywhere, passed_on
from s3 import S3Server

MODES = ["error", "overwrite", "append"]
WRITERS = ["write_parquet", "write_numpy", "write_csv", "write_json", "write_tar"]
EXTENSIONS = dict(zip(WRITERS, ["parquet", "npz", "csv", "json", "tar"], strict=True))


def rows(numbers: range) -> ps.IterDataPipe[Any]:
    """Rows that all writers take, divided among readers."""
    return IterableWrapper([{"__key__": f"{number:04d}", "id": number} for number in numbers]).sharding_filter()


def ids_in(folder: object, kind: str = "write_parquet") -> list[int]:
    """The ids in all files of a folder, as the package reads them."""
    if kind == "write_tar":
        tars = ps.iter.FileLister(str(folder), "*.tar").open_files("rb").load_from_tar()
        return sorted(sample[".id"] for sample in tars.webdataset().map(lambda s: {".id": int(s[".id"].read())}))
    source: Any = getattr(ps, kind.replace("write", "read"))(str(folder))
    return sorted(number for batch in source for number in batch.column("id").to_pylist())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a new folder, "local" or on "s3", and the folder behind it."""
    if request.param == "local":
        yield f"local://{tmp_path}/data", tmp_path / "data"
        return
    server: S3Server = request.getfixturevalue("s3_server")
    folder = server.empty_bucket("modes") / "data"
    yield "s3://modes/data", folder
    shutil.rmtree(folder)


# A plain folder


@pytest.mark.parametrize(
    ("folder", "url"),
    [
        ("memory://", "memory://part-00000.csv"),
        ("memory://a.b/", "memory://a.b/part-00000.csv"),
        ("x.csv/", "x.csv/part-00000.csv"),
        (Path("/x"), "/x/part-00000.csv"),
        ("s3://b", "s3://b/part-00000.csv"),
    ],
)
def test_the_names_in_a_folder(folder: Any, url: str) -> None:
    assert NumberedFiles(os.fspath(folder), (".csv",), "_").url(0) == url


def test_files_end_at_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_rows, "BYTES_PER_FILE", 8 * 1000)
    monkeypatch.setattr(write_tar, "BYTES_PER_FILE", 30)
    for sizes in ([3500], [100] * 35, [999, 1, 2500]):
        source = IterableWrapper([{"id": torch.zeros(size, dtype=torch.int64)} for size in sizes])
        for kind in ("write_parquet", "write_numpy"):
            dp = getattr(source, kind)(tmp_path / kind, batched=True, mode="overwrite")
            assert [number for _, number in dp] == [1000, 1000, 1000, 500]
    samples = [{"__key__": str(number), "txt": "x" * 10} for number in range(7)]
    tar = IterableWrapper(samples).write_tar(tmp_path / "tar", mode="overwrite")
    assert [number for _, number in tar] == [3, 3, 1]
    for resuming in (dp, tar):
        assert_resumes_everywhere(lambda dp=resuming: copy.deepcopy(dp), passes=1)
    with pytest.raises(TypeError, match="ends a shard at a size in bytes"):
        len(tar)
    huge = IterableWrapper([{"id": torch.zeros(3, 5000)}])  # each row is larger than a file
    assert [number for _, number in huge.write_parquet(tmp_path / "huge", batched=True)] == [1, 1, 1]


# Files of an earlier run


def loaded(dp: Any, workers: int | None) -> Any:
    """Read a chain to its end, by itself or through a loader."""
    if workers is None:
        return dp.run()
    with ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, num_shards=workers or 3)) as loader:
        return loader.run()


@pytest.mark.parametrize(
    ("place", "kind"), [*(("local", kind) for kind in WRITERS), ("s3", "write_parquet")], indirect=["place"]
)
def test_300_rows_and_then_100(place: tuple[str, Path], kind: str) -> None:
    url, folder = place

    def write(numbers: range, **arguments: Any) -> Any:
        return getattr(rows(numbers), kind)(url, 40, **arguments)

    write(range(300)).run()
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    mends = "(?=.*mode='overwrite')(?=.*mode='append')"
    with pytest.raises(FileExistsError, match=rf"{mends}{url}/ has 8 files of an earlier run, .*part-00000"):
        write(range(100)).run()
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before
    write(range(300, 400), mode="append").run()
    assert ids_in(folder, kind) == [*range(400)]
    write(range(400, 500), mode="append").run()
    assert ids_in(folder, kind) == [*range(500)]
    write(range(100), mode="overwrite").run()
    assert ids_in(folder, kind) == [*range(100)]
    index = json.loads(next(folder.glob("*part-index.json")).read_bytes())
    told = [entry["name"] for entry in index["shards"]]
    assert names(folder) == sorted([*told, "part-index.json" if kind == "write_tar" else ".part-index.json"])
    if url.startswith("local://") and kind != "write_tar":
        assert ids_in(url, kind) == [*range(100)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("write_parquet", "old.PARQUET"),
        ("write_csv", "old.Tsv"),
        ("write_json", "old.ndjson.gz"),
        ("write_numpy", "x.NPY"),
    ],
)
def test_files_that_readers_would_take_too_are_found_in_any_case(tmp_path: Path, kind: str, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / f"{name}.doc").touch()
    with pytest.raises(FileExistsError, match=f"1 file that this step did not name, such as '{name}'"):
        getattr(rows(range(3)), kind)(tmp_path).run()
    assert getattr(rows(range(3)), kind)(tmp_path, mode="append").run()["rows"] == 3


@pytest.mark.parametrize(("before", "after"), [(None, 0), (0, None), (2, 1)])
def test_another_number_of_readers_finds_the_files_of_all(
    tmp_path: Path, before: int | None, after: int | None
) -> None:
    def write(numbers: range, workers: int | None, **arguments: Any) -> Any:
        return loaded(rows(numbers).write_csv(tmp_path, 7, **arguments), workers)

    write(range(60), before)
    found = names(tmp_path)
    with pytest.raises(FileExistsError, match="files of an earlier run") as caught:
        write(range(20), after)
    assert "CSVWriter" in "".join(caught.value.__notes__)
    assert names(tmp_path) == found
    write(range(60, 80), after, mode="append")
    assert ids_in(tmp_path, "write_csv") == [*range(80)]
    write(range(20), after, mode="overwrite")
    assert ids_in(tmp_path, "write_csv") == [*range(20)]
    listed = [entry["name"] for file in tmp_path.glob(".*") for entry in json.loads(file.read_bytes())["shards"]]
    assert sorted(listed) == [name for name in names(tmp_path) if name[0] != "."]


@pytest.mark.parametrize("mode", MODES)
def test_readers_that_begin_later_leave_the_files_of_the_others(tmp_path: Path, mode: Any) -> None:
    for _ in range(1 if mode == "error" else 2):
        for rank in (1, 0):
            for worker in (1, 0):
                dp = rows(range(40)).write_csv(tmp_path, 3, mode=mode)
                apply_sharding(dp, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
                apply_sharding(dp, 2, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
                dp.run()
    assert ids_in(tmp_path, "write_csv") == sorted([*range(40)] * (2 if mode == "append" else 1))


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("data.csv", "_hidden.csv", "notes.txt"):
        (tmp_path / name).write_text("id\n7\n")
    for mode in ("error", "overwrite"):
        with pytest.raises(FileExistsError, match=r"has 1 file that this step did not name, such as 'data\.csv'"):
            rows(range(3)).write_csv(tmp_path, mode=mode).run()
    rows(range(3)).map(lambda row: {"id": row["id"]}).write_csv(tmp_path, mode="append").run()
    assert ids_in(tmp_path, "write_csv") == [0, 1, 2, 7]
    for content in ("[]", "not JSON", "{}", '{"shards": 3}'):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / ".part-index.json").write_text(content)
        with pytest.raises(ValueError, match=".part-index.json is not an index of a writer: remove it"):
            rows(range(3)).write_csv(tmp_path / "other", mode="overwrite").run()


def test_a_template_counts_only_its_own_names(tmp_path: Path) -> None:
    valid = rows(range(100, 105)).write_csv(f"{tmp_path}/valid-{{shard}}.csv", 2)
    train = rows(range(9)).write_csv(f"{tmp_path}/train-{{shard:03d}}.csv", 2)
    assert (valid.run()["files"], train.run()["files"]) == (3, 5)
    (tmp_path / "train-7.csv").write_text("id\n7\n")  # not as {shard:03d} writes it
    with pytest.raises(FileExistsError, match="has 5 files of an earlier run"):
        train.run()
    rows(range(3)).write_csv(f"{tmp_path}/train-{{shard:03d}}.csv", 2, mode="overwrite").run()
    expected = [".train-index.json", ".valid-index.json", "train-000.csv", "train-001.csv", "train-7.csv"]
    assert names(tmp_path) == [*expected, *(f"valid-{number}.csv" for number in range(3))]

    def write_below(**arguments: Any) -> Any:
        return rows(range(5)).write_csv(f"{tmp_path}/{{shard}}/data.csv", 2, **arguments).run()

    write_below()
    with pytest.raises(FileExistsError, match="has 3 files of an earlier run"):
        write_below()
    write_below(mode="append")
    assert sorted(path.parent.name for path in tmp_path.rglob("data.csv")) == [*"012345"]


@pytest.mark.parametrize("spec", ["{shard}", "{shard:05d}", "{shard:02}", "{shard:012d}", "{{a}}{shard:03d}{{b}}"])
def test_numbers_are_found_in_any_form(spec: str) -> None:
    files = NumberedFiles(f"folder/x-{spec}-y.csv", (".csv",), "_")
    written = [files.url(number).rpartition("/")[2] for number in (0, 9, 31, 1234)]
    assert files.numbers([*written, "x-_-y.csv", "x--y.csv", "x-0.csv", "x-٣-y.csv", "x--1-y.csv", "x--01-y.csv"]) == [
        0,
        9,
        31,
        1234,
    ]


def test_each_pass_is_a_run(tmp_path: Path) -> None:
    dp = rows(range(5)).write_csv(tmp_path, 2)
    dp.run()
    with pytest.raises(FileExistsError, match="files of an earlier run"):
        dp.run()
    loader = ps.DataLoader2(rows(range(5)).write_csv(tmp_path, 2, mode="append"))
    loader.run()
    list(loader.datapipe)
    assert ids_in(tmp_path, "write_csv") == sorted([*range(5)] * 3)
    failing = rows(range(20, 30)).map(lambda row: {"id": 1 // (row["id"] - 25)})
    with pytest.raises(ZeroDivisionError):
        failing.write_csv(tmp_path, 10, mode="overwrite").run()
    assert len(ids_in(tmp_path, "write_csv")) == 15  # nothing is removed


@pytest.mark.parametrize(
    ("place", "workers", "mode"),
    [("local", None, "error"), ("s3", None, "overwrite"), ("local", 2, "overwrite")],
    indirect=["place"],
)
def test_a_run_in_another_format_is_not_replaced(place: tuple[str, Path], workers: int | None, mode: Mode) -> None:
    url, folder = place
    loaded(rows(range(9)).write_parquet(url, 2), workers)
    before = {name: (folder / name).read_bytes() for name in names(folder)}
    with pytest.raises(FileExistsError, match=rf"{url}/ has \d files .* in another format, such as 'part"):
        loaded(rows(range(9)).write_csv(url, mode=mode), workers)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before
    for numbers in (range(4), range(4, 7)):
        loaded(rows(numbers).write_csv(url, mode="append"), 0 if workers else None)
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert ids_in(folder, "write_csv") == [*range(7)]
    told = [entry["name"] for path in folder.glob(".*") for entry in json.loads(path.read_bytes())["shards"]]
    assert sorted(told) == sorted(path.name for path in folder.glob("part-*"))


@pytest.mark.parametrize(
    ("earlier", "then", "mode"), [("write_tar", "write_csv", "error"), ("write_parquet", "write_tar", "overwrite")]
)
def test_a_killed_run_in_another_format_counts(tmp_path: Path, earlier: str, then: str, mode: Mode) -> None:
    writing = iter(getattr(rows(range(9)), earlier)(tmp_path, 2))
    next(writing)
    del writing  # without an index
    with pytest.raises(FileExistsError, match=rf"in another format, such as 'part-00000\.{EXTENSIONS[earlier]}'"):
        getattr(rows(range(9)), then)(tmp_path, mode=mode).run()


def test_with_a_template_the_index_tells_the_format(tmp_path: Path) -> None:
    rows(range(9)).write_parquet(f"{tmp_path}/a-{{shard}}.parquet", 2).run()
    with pytest.raises(FileExistsError, match="has 5 files of an earlier run in another format, such as 'a-0.parquet'"):
        rows(range(9)).write_csv(f"{tmp_path}/a-{{shard}}.csv", mode="overwrite").run()
    for path in tmp_path.glob("*.parquet"):
        path.unlink()
    with pytest.raises(FileExistsError, match="has an index of an earlier run, '.a-index.json': mode='overwrite' repl"):
        rows(range(9)).write_csv(f"{tmp_path}/a-{{shard}}.csv").run()
    rows(range(9)).write_csv(f"{tmp_path}/a-{{shard}}.csv", mode="overwrite").run()
    assert names(tmp_path) == [".a-index.json", "a-0.csv"]


# Resuming


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ahead", [False, True], ids=["alone", "read ahead"])
def test_a_resumed_pass_goes_on_in_every_mode(tmp_path: Path, mode: Any, ahead: bool) -> None:
    for stop in (1, 3, 5):
        folder = tmp_path / str(stop)
        if mode != "error":
            rows(range(100, 120)).write_csv(folder, 3).run()

        def make(folder: Path = folder) -> Any:
            dp = rows(range(10)).write_csv(folder, 2, mode=mode)
            return dp.prefetch(3) if ahead else dp

        dp = make()
        iterator = iter(dp)
        list(islice(iterator, stop))
        state = passed_on(dp)
        del iterator
        resumed = make()
        resumed.load_state_dict(state)
        assert len(list(resumed)) == 5 - stop
        assert ids_in(folder, "write_csv") == [*range(10), *(range(100, 120) if mode == "append" else ())]


@pytest.mark.parametrize(("mode", "stop"), [("error", 1), ("overwrite", 9), ("append", 1)])
def test_a_loader_goes_on_in_every_mode(tmp_path: Path, mode: Any, stop: int) -> None:
    def make(workers: int) -> Any:
        dp = rows(range(24)).write_csv(tmp_path, 1, mode=mode)
        return ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, num_shards=4))

    if mode != "error":
        rows(range(100, 120)).write_csv(tmp_path, 3).run()
    with make(2) as loader:  # after the first item, some shards have given nothing yet
        begun = list(islice(loader, stop))
        state = json.loads(json.dumps(loader.state_dict()))
    with make(0) as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert len({url for url, _ in begun + rest}) == len(begun + rest) == 24
    assert ids_in(tmp_path, "write_csv") == [*range(24), *(range(100, 120) if mode == "append" else ())]


# A writer that is not read


def said(make: Callable[[], object]) -> list[str]:
    """The warnings while something is made and dropped."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
        gc.collect()
    return [str(each.message) for each in caught if "nothing was written" in str(each.message)]


@pytest.mark.parametrize("kind", ["write_parquet", "write_tar"])
def test_a_writer_that_is_dropped_unread_warns(tmp_path: Path, kind: str) -> None:
    def write() -> Any:
        return getattr(rows(range(3)), kind)(tmp_path)

    text = f"{kind}({str(tmp_path)!r}): nothing was written: read the chain, as by `.run()`"
    assert said(lambda: write().map(str).prefetch(2)) == [text]
    assert said(lambda: copy.deepcopy(write())) == [text]
    assert said(lambda: (repr(write()), write().explain())) == [text] * 2
    assert said(lambda: ps.DataLoader2(write())) == [text]
    with pytest.warns(UserWarning, match="nothing was written: read the chain") as caught:
        getattr(rows(range(3)), kind)(tmp_path)
    assert [each.filename for each in caught] == [__file__]


def test_a_writer_that_is_read_does_not_warn(tmp_path: Path) -> None:
    def write(**arguments: Any) -> Any:
        return rows(range(3)).write_csv(tmp_path, mode="overwrite", **arguments)

    def wrong() -> None:
        with pytest.raises(TypeError):
            write(rows_per_file="3")
        with pytest.raises(FileExistsError):
            loaded(rows(range(3)).write_csv(tmp_path), None)

    ways: list[Callable[[], object]] = [
        lambda: next(iter(write().map(str).prefetch(2))),
        lambda: write().peek(),
        lambda: copy.deepcopy(write()).run(),
        lambda: loaded(write(), 2),
        lambda: list(write().fork(num_instances=2)[0]),
        lambda: pickle.loads(pickle.dumps(write())),
        lambda: list(torch.utils.data.DataLoader(write(), num_workers=1, batch_size=None)),  # forked
        wrong,
    ]
    assert [said(way) for way in ways] == [[] for _ in ways]


def test_a_program_that_ends_says_nothing(tmp_path: Path) -> None:
    program = f"""
        import penstock as ps
        dp = ps.from_items([{{"id": 3}}]).write_csv({str(tmp_path)!r})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""


# run


def test_run_counts(tmp_path: Path) -> None:
    dp = IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
    assert dp.run() == {"items": 2, "skipped": 1, "retried": 0}
    assert ps.map.SequenceWrapper("abc").run() == {"items": 3, "skipped": 0, "retried": 0}
    samples = rows(range(5)).write_tar(tmp_path, 2)
    assert samples.run() == {"files": 3, "samples": 5, "skipped": 0, "retried": 0}
    bad = IterableWrapper([{"a": 1}, 3, {"a": 2}]).write_json(tmp_path / "bad", on_error="skip")
    assert bad.run() == {"files": 1, "rows": 2, "skipped": 1, "retried": 0}
    begun, resumed = (rows(range(9)).write_csv(tmp_path / "resumed", 2) for _ in range(2))
    next(iter(begun))
    resumed.load_state_dict(passed_on(begun))
    assert resumed.run() == {"files": 4, "rows": 7, "skipped": 0, "retried": 0}  # what was left
    assert ids_in(tmp_path / "resumed", "write_csv") == [*range(9)]


def test_a_loader_runs_an_epoch(tmp_path: Path) -> None:
    source = IterableWrapper([*range(9), "x"]).sharding_filter().map(lambda x: {"id": x + 0}, on_error="skip")
    dp = source.write_csv(tmp_path, 2)
    with ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as loader:
        assert loader.run() == {"files": 5, "rows": 9, "skipped": 1, "retried": 0}
    assert ids_in(tmp_path, "write_csv") == [*range(9)]


def test_a_chain_that_never_ends_is_an_error() -> None:
    for dp in (rows(range(3)).cycle(), ps.DataLoader2(rows(range(3)).cycle())):
        with pytest.raises(ValueError, match="never ends"):
            dp.run()
