"""NumPy's structured arrays and their records: the names of their fields are kept wherever they are written or read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.pipes.columns.to_arrow import array_of
from penstock.pipes.iter import IterableWrapper

POINTS = np.array([(1, 2.5), (2, 3.5), (3, 4.5)], [("id", "i4"), ("price", "f4")])
TEXTS = np.array([("a", 1), ("bc", 2)], [("name", "U3"), ("n", ">u2")])
NESTED = np.array([(1, (2, 0.5), [7, 8]), (3, (4, 1.5), [9, 10])], [
    ("id", "u1"), ("at", [("x", "i2"), ("y", "f8")]), ("pair", "i2", (2,)),
])  # fmt: skip
WRITERS = {"write_parquet": ps.read_parquet, "write_csv": ps.read_csv, "write_json": ps.read_json}


def plain(array: Any) -> list[dict[str, Any]]:
    """The records as dicts."""

    def value(each: Any) -> Any:
        if isinstance(each, np.void):
            return {name: value(each[name]) for name in each.dtype.names or ()}
        return each.tolist()

    return [value(record) for record in array]


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("batched", [None, True, False])
@pytest.mark.parametrize("array", [POINTS, TEXTS], ids=["numbers", "text"])
@pytest.mark.parametrize("kind", WRITERS)
def test_arrays_are_batches_of_their_fields_and_records_rows(
    kind: str, array: Any, batched: bool | None, tmp_path: Path
) -> None:
    for name, items in (("batches", [array, array[:1]]), ("rows", [*array, array[0]])):
        getattr(IterableWrapper(items), kind)(tmp_path / name, 2, batched=batched).run()
        assert rows(WRITERS[kind](tmp_path / name)) == plain([*array, array[0]])


def test_dtypes_are_kept(tmp_path: Path) -> None:
    for name, items in (("batches", [NESTED]), ("rows", [*NESTED])):
        IterableWrapper(items).write_parquet(tmp_path / name).run()
        schema = ps.read_parquet(tmp_path / name).schema()
        struct = pa.struct([("x", pa.int16()), ("y", pa.float64())])
        assert [(field.name, field.type) for field in schema] == [
            ("id", pa.uint8()), ("at", struct), ("pair", pa.fixed_shape_tensor(pa.int16(), [2])),
        ]  # fmt: skip
        assert rows(ps.read_parquet(tmp_path / name)) == plain(NESTED)
        IterableWrapper(items).write_numpy(tmp_path / name / "numpy").run()
        with np.load(tmp_path / name / "numpy" / "part-00000.npz") as arrays:
            assert {each: arrays[each].tolist() for each in arrays} == {
                each: NESTED[each].tolist() for each in ("id", "at", "pair")
            }
            assert arrays["at"].dtype == NESTED.dtype["at"]


@pytest.mark.parametrize("array", [POINTS, TEXTS, NESTED], ids=["numbers", "text", "nested"])
@pytest.mark.parametrize("kind", ["write_parquet", "write_json"])
def test_records_within_columns_are_structs(kind: str, array: Any, tmp_path: Path) -> None:
    two, expected = array[:2], plain(array[:2])
    cases: dict[str, tuple[Any, list[Any], bool]] = {
        "a batch": ([{"r": two}], expected, True),
        "a batch of two dimensions": ([{"r": two.reshape(2, 1)}], [[each] for each in expected], True),
        "a batch of three dimensions": ([{"r": two.reshape(1, 2, 1)}], [[[each] for each in expected]], True),
        "rows of records": ([{"r": each} for each in two], expected, False),
        "rows of arrays": ([{"r": two}, {"r": two}], [expected] * 2, False),
        "rows of arrays of other lengths": ([{"r": two}, {"r": two[:1]}], [expected, expected[:1]], False),
        "lists of records": ([{"r": [*two]}], [expected], False),
        "dicts": ([{"r": {"s": two}}], [{"s": expected}], False),
    }
    for name, (items, values, batched) in cases.items():
        getattr(IterableWrapper(items), kind)(tmp_path / name, batched=batched).run()
        assert [row["r"] for row in rows(WRITERS[kind](tmp_path / name))] == values, name


def test_what_a_format_cannot_hold_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the column 'at' is struct<.*>, and a field of CSV holds"):
        IterableWrapper([NESTED]).write_csv(tmp_path).run()
    with pytest.raises(ValueError, match="there is a column 'b', and before it|there is no column 'id'"):
        IterableWrapper([POINTS, TEXTS]).write_parquet(tmp_path / "two").run()
    with pytest.raises(TypeError, match="is of type ndarray"):
        IterableWrapper([np.arange(3)]).write_parquet(tmp_path / "none").run()
    with pytest.raises(TypeError, match=r"column 'r\.z': Arrow has no type for an array of complex64"):
        array_of(np.zeros(2, [("z", "c8")]), "r")


def test_records_in_json_keep_their_names(tmp_path: Path) -> None:
    samples = [{"__key__": "a", "json": POINTS[0], "more.json": [*NESTED["at"]]}]
    IterableWrapper(samples).write_tar(tmp_path).run()
    with tarfile.open(tmp_path / "part-00000.tar") as tar:
        found: list[Any] = [json.load(tar.extractfile(member)) for member in tar]  # type: ignore[arg-type]
    assert found == [plain(POINTS)[0], plain(NESTED["at"])]


def test_structured_arrays_are_read_as_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NESTED)
    assert rows(ps.read_numpy(tmp_path)) == rows(ps.from_numpy([NESTED[:1], NESTED[1:]])) == plain(NESTED)
    [batch] = ps.read_numpy(tmp_path, include_paths=True)
    assert batch.schema.names == ["id", "at", "pair", "path"]
    np.savez(tmp_path / "b.npz", points=POINTS, k=np.arange(3))
    assert rows(ps.read_numpy(tmp_path / "b.npz")) == [
        {"points": point, "k": k} for k, point in enumerate(plain(POINTS))
    ]
