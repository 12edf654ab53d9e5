"""Bad input of files with columns: whatever step finds it, the error names the file, row group, column and row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper

BAD = 17
"""The row of the second file that is bad: row 7 of row group 1."""


def files(folder: Path, **bad: Any) -> list[str]:
    """Two files of 30 rows in row groups of 10, of which the second has, in its row `BAD`, a value that is bad."""
    good = {"id": [*range(30)], "pair": [[n, n] for n in range(30)]}
    paths = [str(folder / f"{name}.parquet") for name in ("good", "bad")]
    pq.write_table(pa.table(good), paths[0], row_group_size=10)
    rows = {name: [bad[name] if name in bad and n == BAD else value for n, value in enumerate(values)]
            for name, values in good.items()}  # fmt: skip
    pq.write_table(pa.table(rows), paths[1], row_group_size=10)
    return paths


def source(paths: list[str]) -> Any:
    return IterableWrapper(paths).sharding_filter()


def told_by(items: Any, kind: type[Exception] = Exception) -> str:
    """The text of the error that reading a chain ends in, and its notes."""
    with pytest.raises(kind) as caught:
        list(items)
    return "\n".join([str(caught.value), *caught.value.__notes__])


def fails_on_bad(batch: Any) -> Any:
    ids = [int(value) for value in batch["id"]]
    if BAD + 1000 in ids:
        raise ArithmeticError(f"the model cannot do row {ids.index(BAD + 1000)}")
    return batch


def model_that_fails() -> Callable[[Any], Any]:
    return fails_on_bad


# Bad values


@pytest.mark.parametrize(
    ("bad", "step", "text"),
    [
        ({"pair": [1]}, lambda dp: dp.to_tensors(), "column 'pair', row 1 is a list of 1"),
        ({"id": None}, lambda dp: dp.to_tensors(), "column 'id', row 1 is null"),
        ({"pair": [1]}, lambda dp: dp.with_format("numpy"), "column 'pair', row 1 is a list of 1"),
        ({"id": 300}, lambda dp: dp.to_tensors(dtypes={"id": torch.uint8}), "column 'id', row 1"),
    ],
)
def test_a_value_that_makes_no_tensor_is_named_by_file_row_group_column_and_row(
    tmp_path: Path, bad: Any, step: Any, text: str
) -> None:
    paths = files(tmp_path, **bad)
    told = told_by(step(source(paths).read_parquet(batch_size=6)), ValueError)
    assert text in told
    # Of the row group's ten rows, four are in its second batch; the row of the error counts from the first of these.
    assert told.count(f"from rows 6 to 9 of row group 1 of {paths[1]!r}") == 1


# Functions that fail


BATCH = "from rows 6 to 9 of row group 1 of {0}"
TWO_GROUPS = "from rows 5 to 9 of row group 1 of {0}; rows 0 to 9 of row group 2 of {0}"


def fails_on_bad_row(row: Any) -> Any:
    return fails_on_bad({"id": [row["id"]]})


class Hoarder(ps.IterDataPipe[Any]):
    """Fails on an item when it has read others since."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        for item in [*self.source]:
            yield fails_on_bad(item)


@pytest.mark.parametrize(
    ("step", "text", "where"),
    [
        (lambda dp: dp.map(dict).filter(len).map(fails_on_bad), "row 1", BATCH),
        (lambda dp: dp.header(None).map(fails_on_bad), "row 1", BATCH),
        (lambda dp: dp.threadpool_map(fails_on_bad), "row 1", BATCH),
        (lambda dp: dp.threadpool_map(dict).map(fails_on_bad), "row 1", BATCH),
        (
            lambda dp: dp.map_pool(model_that_fails, workers=1, batch_size=2, engine="threads"),
            "row 1",
            "from rows 6 to 7 of row group 1 of {0}",
        ),
        (lambda dp: dp.rows().map(fails_on_bad_row), "row 0", "from row 7 of row group 1 of {0}"),
        (lambda dp: dp.rebatch(5).rows().map(fails_on_bad_row), "row 0", "from row 7 of row group 1 of {0}"),
        (lambda dp: dp.rebatch(2).map(fails_on_bad), "row 1", "from rows 6 to 7 of row group 1 of {0}"),
        (lambda dp: dp.rebatch(15).map(fails_on_bad), "row 2", TWO_GROUPS),
        # A function may leave rows out, or move them: which rows of its batches come from which is not known.
        (lambda dp: dp.map(dict).rebatch(5).map(fails_on_bad), "row 2", "from rows 0 to 9 of row group 1 of {0}"),
        (lambda dp: dp.rebatch(15).flatmap(lambda b: [b]).rows().map(fails_on_bad_row), "row 0", TWO_GROUPS),
        # These hold back what they read: more was read than the item that fails.
        (lambda dp: dp.prefetch(1).map(fails_on_bad), "row 1", "last read upstream: rows "),
        (lambda dp: dp.shuffle_rows(10).map(fails_on_bad), "row ", "last read upstream: rows "),
        (lambda dp: dp.batch(1).map(lambda b: fails_on_bad(b[0])), "row 1", "last read upstream: rows 6 to 9 of"),
        (Hoarder, "row 1", ", last read upstream: rows 6 to 9 of row group 2 of {0}"),
    ],
)
def test_an_error_of_a_function_says_what_its_batch_was_made_of(
    tmp_path: Path, step: Any, text: str, where: str
) -> None:
    paths = files(tmp_path, id=BAD + 1000)
    told = told_by(step(source(paths).read_parquet(batch_size=6).to_tensors()), ArithmeticError)
    assert f"the model cannot do {text}" in told
    assert where.format(repr(paths[1])) in told


@pytest.mark.parametrize(
    ("workers", "chain"),
    [
        (2, lambda dp: dp.sharding_filter().read_parquet(batch_size=6).to_tensors().map(fails_on_bad)),
        (2, lambda dp: dp.read_parquet(batch_size=6).sharding_filter().to_tensors().map(fails_on_bad)),
        (0, lambda dp: dp.read_parquet(batch_size=6).to_tensors().map_pool(model_that_fails, workers=1, prefetch=4)),
    ],
    ids=["files are shared out", "batches are shared out", "map_pool"],
)
def test_an_error_in_another_process_says_what_its_batch_was_made_of(tmp_path: Path, workers: int, chain: Any) -> None:
    paths = files(tmp_path, id=BAD + 1000)
    service = ps.MultiProcessingReadingService(workers, timeout=60) if workers else None
    with ps.DataLoader2(chain(IterableWrapper(paths)), reading_service=service) as loader:
        assert BATCH.format(repr(paths[1])) in told_by(loader, ArithmeticError)


def test_behind_a_filter_no_row_numbers_are_told(tmp_path: Path) -> None:
    paths = files(tmp_path, pair=[1])
    told = told_by(source(paths).read_parquet(filter="id != 15", batch_size=6).to_tensors(), ValueError)
    assert f"from the rows that match of row group 1 of {paths[1]!r}" in told


def test_a_resumed_pass_tells_the_same_rows(tmp_path: Path) -> None:
    paths = files(tmp_path, id=BAD + 1000)

    def chain() -> Any:
        return source(paths).read_parquet(batch_size=6).to_tensors().rebatch(4).map(fails_on_bad)

    begun, resumed = chain(), chain()
    items = iter(begun)
    for _ in range(11):  # up to the middle of the batch before the one that fails
        next(items)
    resumed.load_state_dict(begun.state_dict())
    assert told_by(resumed) == told_by(items)


def test_of_files_that_were_read_before_nothing_is_told(tmp_path: Path) -> None:
    paths = files(tmp_path, id=BAD + 1000)
    first, second = (source([path]).read_parquet() for path in paths)
    told = told_by(first.concat(second).map(lambda batch: fails_on_bad(batch.to_pydict())), ArithmeticError)
    assert f"last read upstream: rows 0 to 9 of row group 1 of {paths[1]!r}" in told
    assert paths[0] not in told


@pytest.mark.parametrize(
    ("kind", "part", "write"),
    [
        ("csv", "block", pa.csv.write_csv),
        ("json", "block", lambda rows, path: Path(path).write_text("".join(f'{{"id": {n}}}\n' for n in rows["id"]))),
        ("ipc", "record batch", pa.feather.write_feather),
        ("orc", "stripe", pa.orc.write_table),
    ],
)
def test_other_kinds_of_files_tell_their_parts(tmp_path: Path, kind: str, part: str, write: Any) -> None:
    path = str(tmp_path / f"a.{kind}")
    write(pa.table({"id": [1, 2, BAD + 1000]}), path)
    dp = getattr(source([path]), f"read_{kind}")(batch_size=2).to_tensors().map(fails_on_bad)
    assert f"from row 2 of {part} 0 of {path!r}" in told_by(dp, ArithmeticError)
