"""schema: what it tells of the items of a chain, and that the chain stays as it is."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from penstock import IterDataPipe
from penstock.pipes.columns.schema import schema
from penstock.pipes.iter import IterableWrapper
from penstock.registry import operators
from penstock.testing.examples import maker_of_example

Point = namedtuple("Point", "x y")
IMAGES = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((1, 2, 3), np.uint8))


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        (
            pa.record_batch({"id": [1], "image": IMAGES}),
            [("id", pa.int64(), None), ("image", pa.uint8(), (2, 3))],
        ),
        (pa.table({"id": ["a"]}), [("id", pa.string(), None)]),
        (pd.DataFrame({"id": [1.0]}), [("id", np.dtype("float64"), None)]),
        (
            {"x": torch.ones(2, 3), "y": np.ones(2, np.int8), "z": ["a"], "n": 1},
            [("x", torch.float32, (2, 3)), ("y", np.dtype("int8"), (2,)), ("z", list[str], None), ("n", int, None)],
        ),
        (Point(1, "a"), [("x", int, None), ("y", str, None)]),
        ((1, "a"), [("0", int, None), ("1", str, None)]),
        (torch.ones(3), [("item", torch.float32, (3,))]),
        ("text", [("item", str, None)]),
    ],
)
def test_the_fields_of_items_of_every_kind(item: Any, fields: list[Any]) -> None:
    assert [tuple(field) for field in schema(IterableWrapper([item], deepcopy=False))] == fields


def test_it_prints_as_a_table_and_is_read_by_name() -> None:
    told = schema(IterableWrapper([{"image": torch.zeros(3, 8, 8), "label": 1, "tags": ["a"]}]))
    assert repr(told).splitlines() == [
        "name   dtype      shape",
        "image  float32    (3, 8, 8)",
        "label  int",
        "tags   list[str]",
    ]
    assert (told.names, len(told), told["label"].dtype) == (["image", "label", "tags"], 3, int)
    with pytest.raises(KeyError, match="there is no field 'z': the fields are"):
        told["z"]


def test_it_looks_at_one_item_and_closes_what_it_opened() -> None:
    seen: list[Any] = []

    def numbers() -> Iterator[int]:
        try:
            for number in range(100):
                seen.append(number)
                yield number
        finally:
            seen.append("closed")

    told = schema(IterableWrapper([0]).flatmap(lambda _: numbers()).map(lambda number: (number, str(number))))
    assert (told.names, seen) == (["0", "1"], [0, "closed"])


def test_a_pass_and_its_seeds_stay_as_they_are() -> None:
    def chain() -> IterDataPipe[Any]:
        torch.manual_seed(7)
        return IterableWrapper(range(20)).shuffle()

    expected = list(chain())
    dp = chain()
    schema(dp)
    iterator = iter(dp)
    first = next(iterator)
    state = dp.state_dict()
    schema(dp)
    assert dp.state_dict() == state
    assert [first, *iterator] == expected


def test_a_reader_is_asked_and_reads_no_row(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"id": [1, 2], "price": [0.5, 1.5], "text": ["a", "b"]}), path)
    read = ps.read_parquet(path)
    dp = read.drop_columns("text").rename_columns({"price": "cost"}).prefetch(2).select_columns(["cost", "id"])
    assert [tuple(field) for field in schema(dp)] == [("cost", pa.float64(), None), ("id", pa.int64(), None)]
    assert [field[:2] for field in schema(dp)] == [(field.name, field.type) for field in next(iter(dp)).schema]
    assert schema(read.filter(lambda batch: False).rename_columns(["a", "b", "c"])).names == ["a", "b", "c"]
    with pytest.raises(KeyError, match="no column 'none': its columns are"):
        schema(read.select_columns("none"))
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:4] + b"\xff" * (footer - 4) + content[footer:])
    dp = IterableWrapper([str(path)]).read_parquet(columns=["price"])
    with pytest.raises(OSError, match="numbers.parquet|thrift|page"):
        list(dp)
    for chain in (dp, dp.shuffle_rows(100).rebatch(2), dp.filter(bool).prefetch(2)):
        assert [tuple(field) for field in schema(chain)] == [("price", pa.float64(), None)]


KEEPING = {
    entry.name: entry.cls
    for entry in operators.values()
    if getattr(entry.cls, "keeps_schema", False) and not issubclass(entry.cls, ps.Splitter)
}


@pytest.mark.parametrize("name", sorted(KEEPING))
def test_operators_that_keep_the_schema_keep_fields(name: str) -> None:
    dp: Any = maker_of_example(KEEPING[name])()
    while type(dp) is not KEEPING[name]:
        dp = dp.source
    source = getattr(dp, "source", None) or dp.sources[0]
    assert [field[:2] for field in schema(dp)] == [field[:2] for field in schema(source)]


def test_branches_and_chosen_fields_are_known_from_the_reader() -> None:
    for branch in (Knowing().fork(2)[0], Knowing().demux(2, lambda batch: 1)[1], Knowing().round_robin_demux(2)[0]):
        assert schema(branch).names == schema(branch.shuffle()).names == ["id"]
    first, _ = IterableWrapper([("a", 1)]).unzip(2)
    assert schema(first).names == ["item"]
    assert schema(Knowing().slice(["id"])).names == schema(Knowing().slice("id")).names == ["id"]
    assert schema(Knowing().drop("id")).names == schema(Knowing().slice(["looked at"])).names == []


class Knowing(IterDataPipe[Any]):
    """A source that knows its schema, and has other fields in its items, so that one sees who was asked."""

    def __iter__(self) -> Iterator[Any]:
        yield {"looked at": torch.ones(1)}

    def schema(self) -> pa.Schema:
        return pa.schema({"id": pa.int8()})


class Step(IterDataPipe[Any]):
    def __init__(self, *sources: Any) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        yield {"other": 1}


class Keeping(Step):
    keeps_schema = True


class Same(Step):
    gives = "same"


@pytest.mark.parametrize("make", [Step, Same, lambda source: Keeping(source, Knowing())])
def test_the_reader_is_asked_through_steps_that_keep_the_schema_and_others_are_looked_at(make: Any) -> None:
    for chain in (Keeping(Knowing()), Keeping(Keeping(Knowing()).shuffle()).header(3)):
        assert schema(chain).names == ["id"]
    assert schema(make(Knowing())).names == ["other"]
    assert schema(make(Knowing()).filter(bool)).names == ["other"]


@pytest.mark.parametrize(
    "change",
    [
        lambda dp: dp.map(dict),
        lambda dp: dp.map_batches(list, 1),
        lambda dp: dp.map_pool(lambda: dict, engine="threads"),
        lambda dp: dp.add_index(),
        lambda dp: dp.batch(1).collate(),
        lambda dp: dp.to_tensors(),
        lambda dp: dp.with_format("numpy"),
        lambda dp: dp.rows(),
    ],
)
def test_steps_that_make_other_items_are_not_passed_over(change: Any) -> None:
    assert "looked at" in schema(change(Knowing())).names
    assert "looked at" in schema(change(Knowing()).filter(bool)).names


def test_what_cannot_be_looked_at_is_an_error() -> None:
    items = iter([1, 2])
    with pytest.raises(TypeError, match="IterableWrapper reads an iterator, which loses an item when looked at"):
        schema(IterableWrapper(items).map(str))
    assert list(items) == [1, 2]
    with pytest.raises(ValueError, match="gives no item"):
        schema(IterableWrapper([]))
    assert schema(ps.map.SequenceWrapper([(1, "a")])).names == ["0", "1"]
