"""Row groups as items: listed, shuffled, shared out, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.pipes.columns import formats
from penstock.pipes.columns.origins import RowGroup
from penstock.pipes.iter import IterableWrapper


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Three files of five row groups with two rows each."""
    made = [str(tmp_path / f"{n}.parquet") for n in range(3)]
    for number, path in enumerate(made):
        pq.write_table(pa.table({"id": range(number * 10, number * 10 + 10)}), path, row_group_size=2)
    return made


def ids(batches: Any) -> list[int]:
    return [row for batch in batches for row in batch["id"].to_pylist()]


def test_row_groups_are_listed_with_their_rows_unless_they_cannot_match(paths: list[str]) -> None:
    groups = list(IterableWrapper(paths).list_row_groups())
    assert groups == [RowGroup(path, number, 2) for path in paths for number in range(5)]
    groups = list(IterableWrapper(paths).list_row_groups("3 <= id < 5 or id == 29"))
    assert [(group.url, group.number) for group in groups] == [(paths[0], 1), (paths[0], 2), (paths[2], 4)]


def test_row_groups_are_read_as_they_come(paths: list[str]) -> None:
    read = ids(IterableWrapper(paths).list_row_groups().shuffle().set_seed(1).read_parquet(batch_size=1))
    assert sorted(read) == [*range(30)]
    assert read[::2] == [row - 1 for row in read[1::2]]  # row groups stay together
    assert read[::2] != sorted(read[::2])


def test_a_shuffled_listing_has_every_row_group_once(paths: list[str]) -> None:
    dp = IterableWrapper(paths).shuffle_row_groups().set_seed(0)
    first, second = list(dp), list(dp)
    assert sorted(first) == sorted(second) == list(IterableWrapper(paths).list_row_groups())
    assert first != second
    assert list(dp.set_shuffle(False)) == sorted(first)


def test_the_footer_of_a_file_is_read_once_for_all_its_row_groups(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[bool] = []
    right = formats.ParquetFormat.__init__

    def counted(self: Any, open_stream: Any, options: Any, footer: Any = None) -> None:
        known.append(footer is not None)
        right(self, open_stream, options, footer)

    groups = list(IterableWrapper(paths[:1]).list_row_groups())
    monkeypatch.setattr(formats.ParquetFormat, "__init__", counted)
    assert ids(IterableWrapper(groups).read_parquet(prefetch=1)) == [*range(10)]
    assert known == [False, True, True, True, True]


def test_a_file_without_a_footer_is_named_or_left_out(paths: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(Path(paths[0]).read_bytes()[:-8])
    with pytest.raises(pa.ArrowInvalid) as caught:
        list(IterableWrapper([str(bad)]).list_row_groups())
    assert caught.value.__notes__ == [f"penstock: raised in RowGroupLister(), on {str(bad)!r}"]
    dp = IterableWrapper([paths[0], str(bad), paths[1]]).list_row_groups(on_error="skip")
    assert [group.url for group in dp] == [paths[0]] * 5 + [paths[1]] * 5
    assert dp.stats()["list_row_groups"]["skipped"] == 1
    with pytest.raises(IndexError, match="the file has 5 row groups, and none of number 7"):
        list(IterableWrapper([RowGroup(paths[0], 7, 2)]).read_parquet())
