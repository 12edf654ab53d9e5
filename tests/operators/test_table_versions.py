"""read_delta, read_iceberg and read_lance: what they share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from lake_tables import KINDS, LakeTables
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from resuming import passed_on


@pytest.fixture(params=KINDS)
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTables:
    return KINDS[request.param](tmp_path)


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_the_rows_of_all_files_come_in_batches_of_the_tables_columns(tables: LakeTables) -> None:
    tables.of_numbers(range(5), range(5, 8))
    batches = [*tables.read(batch_size=2)]
    assert sorted(ids(batches)) == [*range(8)]
    assert sorted(batch.num_rows for batch in batches) == [1, 1, 2, 2, 2]
    assert {batch.schema for batch in batches} == {tables.read().schema()}
    assert all(text == f"t{n}" for b in batches for n, text in zip(*b.to_pydict().values(), strict=True))


def test_columns_and_a_filter_are_selected(tables: LakeTables) -> None:
    tables.of_numbers(range(5), range(5, 8))
    for condition in ("id >= 3 and text != 't6'", (pc.field("id") >= 3) & (pc.field("text") != "t6")):
        read = tables.read(columns=["text"], filter=condition)
        assert sorted(text for batch in read for text in batch["text"].to_pylist()) == ["t3", "t4", "t5", "t7"]
        assert read.schema().names == ["text"]
    assert [batch.num_columns for batch in tables.read(columns=[], filter="id == 1")] == [0]


def test_a_version_is_read_as_it_was(tables: LakeTables) -> None:
    tables.of_numbers(range(5), range(5, 8), range(8, 9))
    counts = [len(ids(tables.read(version))) for version in tables.versions()]
    assert counts == [5, 8, 9]


def test_a_pass_keeps_the_version_with_which_it_began(tables: LakeTables) -> None:
    tables.of_numbers(range(5), range(5, 8))
    read = tables.read(batch_size=2)
    before = ids(tables.read(batch_size=2))
    batches = iter(read)
    first = ids([next(batches)])
    tables.of_numbers(range(8, 20))
    state = passed_on(read)
    assert first + ids(batches) == before
    resumed = tables.read(batch_size=2)
    resumed.load_state_dict(state)
    assert first + ids(resumed) == before
    assert sorted(ids(read)) == [*range(20)]  # the next pass


def test_resuming_is_exact_after_each_batch(tables: LakeTables) -> None:
    tables.of_numbers(range(7), range(7, 10), range(10, 11))
    whole = ids(tables.read(batch_size=2, filter="id != 4"))
    read, given = tables.read(batch_size=2, filter="id != 4"), []
    for batch in read:
        given += ids([batch])
        resumed = tables.read(batch_size=2, filter="id != 4")
        resumed.load_state_dict(passed_on(read))
        assert given + ids(resumed) == whole


def test_readers_share_the_files(tables: LakeTables) -> None:
    tables.of_numbers(*([n, n + 10] for n in range(4)))
    found = []
    for part in range(3):
        read = tables.read(tables.versions()[-1])
        apply_sharding(read, 3, part)
        found += ids(read)
        assert part or len(ids(read)) == 4
    assert sorted(found) == [*range(4), *range(10, 14)]


def test_processes_read_one_version_and_resume_it(tables: LakeTables) -> None:
    tables.of_numbers(*([n, n + 10, n + 20] for n in range(4)))
    chain = tables.read(batch_size=2)
    with ps.DataLoader2(chain, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        batches = iter(loader)
        first = ids([next(batches)])
        tables.of_numbers(range(100, 103))
        state = loader.state_dict()
        rest = ids(batches)
    assert sorted(first + rest) == sorted(n + more for n in range(4) for more in (0, 10, 20))
    with ps.DataLoader2(tables.read(batch_size=2), reading_service=ps.MultiProcessingReadingService(2)) as loader:
        loader.load_state_dict(state)
        assert ids(loader) == rest


def test_processes_that_would_each_look_up_the_newest_version_are_refused(tables: LakeTables) -> None:
    tables.of_numbers(range(2), range(2, 4))
    read = tables.read()
    with pytest.raises(RuntimeError, match=f"look up the newest (version|snapshot): give {tables.version_name}=…, the"):
        read.settle([(2, 1)])
    apply_sharding(read, 2, 0)  # as torch's DataLoader does in its workers
    with pytest.raises(RuntimeError, match="several processes would each look up the newest (version|snapshot)"):
        list(read)
    of_ranks = tables.read()
    apply_sharding(of_ranks, 2, 0, SHARDING_PRIORITIES.DISTRIBUTED)
    with pytest.raises(RuntimeError, match="several processes would each look up the newest (version|snapshot)"):
        of_ranks.settle([(2, 0), (2, 1)])  # both of this rank's workers, and none of the other's


def test_a_column_that_came_later_is_null_before(tables: LakeTables) -> None:
    tables.of_numbers(range(2))
    tables.add_column("more")
    tables.append(pa.table({"id": [2], "text": ["t2"], "more": [7]}))
    values = {row["id"]: row["more"] for row in tables.read(filter="id < 9").rows()}
    assert values == {0: None, 1: None, 2: 7}
    assert {row["id"] for row in tables.read(filter="more is None").rows()} == {0, 1}
    assert tables.read(tables.versions()[0]).schema().names == ["id", "text"]


def test_a_table_without_rows_gives_none_and_has_a_schema(tables: LakeTables) -> None:
    tables.append(pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())}))
    assert list(tables.read()) == []
    assert tables.read(columns=["id"]).schema() == pa.schema([("id", pa.int64())])


def test_an_error_names_the_reader_and_the_file(tables: LakeTables) -> None:
    tables.of_numbers(range(2))
    for chain in (tables.read(columns=["other"]), tables.read(columns=["other"]).schema):
        with pytest.raises(KeyError, match=r"no column 'other': its columns are \['id', 'text'\]") as found:
            list(chain) if isinstance(chain, ps.IterDataPipe) else chain()
        if isinstance(chain, ps.IterDataPipe):
            assert "on Fragment(url=" in found.value.__notes__[0]
    with pytest.raises(TypeError, match=f"{tables.version_name} must be a whole number"):
        tables.read("yesterday")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{tables.version_name} must be at least 0"):
        tables.read(-1)
    with pytest.raises(TypeError, match="takes no filters: write them as filter="):
        tables.read(filters=[("id", ">", 1)])
    with pytest.raises(ValueError, match="cannot be read"):
        tables.read(filter="id >")


def test_a_version_that_is_not_there_is_named(tables: LakeTables) -> None:
    tables.of_numbers(range(2))
    with pytest.raises((ValueError, FileNotFoundError), match="(version|snapshot) 77.* there (is none|never was)"):
        list(tables.read(77))
