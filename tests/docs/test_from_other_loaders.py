"""Each cell on the right of the tables about other libraries is run."""

from __future__ import annotations

import io
import re
import tarfile
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import RandomSampler

import penstock as ps

PAGE = (Path(__file__).parents[2] / "docs" / "from_other_loaders.md").read_text()
CELLS = sorted(
    {*re.findall(r"^\| `[^|]*`(?: of such)? \| `([^|]*)` \|$", PAGE.split("What has another name:")[1], re.MULTILINE)}
)
CELLS = sorted({*re.findall(r"^\| `[^|]*` \| `([^|]*)` \|$", PAGE.split("What has another name:")[1], re.MULTILINE)})
OF_LOADERS = [cell for cell in CELLS if cell.startswith("ps.DataLoader2(")]
SPELLINGS = re.findall(
    r"^\| `dp\.(\w+)\(([^|]*)\)`(?: of columns)? \| .* \|$", PAGE.split("What has another name:")[0], re.MULTILINE
)
TABLE = {"x": [0, 1, 2, 3, 4, 5], "y": [0] * 6}
EXAMPLE = bytes.fromhex("0f000000000000006d532b090a0d0a0b0a016e12061a040a020307499e3a8f")
ANY_ORDER = ("shuffle", "mix", "ordered=False")

GIVES: dict[str, list[Any]] = {
    "dp": [0, 1, 2, 3, 4, 5],
    'dp.map(with_rng, rng="numpy")': [0, 1, 2, 3, 4, 5],
    "dp.map(fn)": [1, 2, 3, 4, 5, 6],
    "dp.threadpool_map(fn, max_workers=2)": [1, 2, 3, 4, 5, 6],
    "dp.filter(is_even)": [0, 2, 4],
    "dp.flatmap(pair)": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    "dp.shuffled_flatmap(pair, buffer_size=2)": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    "dp.map_batches(reverse, batch_size=2)": [1, 0, 3, 2, 5, 4],
    "dp.header(3)": [0, 1, 2],
    "dp.concat(other)": [0, 1, 2, 3, 4, 5, 6, 7],
    "dp.zip(other)": [(0, 6), (1, 7)],
    "dp.batch(4)": [[0, 1, 2, 3], [4, 5]],
    "dp.batch(4).collate()": [[0, 1, 2, 3], [4, 5]],
    "dp.batch(4, drop_last=True)": [[0, 1, 2, 3]],
    "dp.threadpool_map(fn, max_workers=4, ordered=False)": [1, 2, 3, 4, 5, 6],
    "dp.threadpool_map(fn, max_workers=4)": [1, 2, 3, 4, 5, 6],
    "dp.threadpool_map(fn, max_workers=4).batch(4).prefetch(2)": [[1, 2, 3, 4], [5, 6]],
    "dp.async_map_batches(async_fn, batch_size=8, max_concurrency=4)": [1, 2, 3, 4, 5, 6],
    "texts.pack(4)": [
        {"x": [1, 2, 3, 4], "document_ids": [1, 1, 1, 2], "position_ids": [0, 1, 2, 0]},
        {"x": [5, 0, 0, 0], "document_ids": [1, 0, 0, 0], "position_ids": [0, 0, 1, 2]},
    ],
    "texts.pack(4, bos=0, repeat_bos=True)": [
        {"x": [0, 1, 2, 3], "document_ids": [1, 1, 1, 1], "position_ids": [0, 1, 2, 3]},
        {"x": [0, 4, 5, 0], "document_ids": [1, 1, 1, 0], "position_ids": [0, 1, 2, 0]},
    ],
    'texts.pack(4, "first_fit", buffer_size=1)': [
        {"x": [1, 2, 3, 0], "document_ids": [1, 1, 1, 0], "position_ids": [0, 1, 2, 0]},
        {"x": [4, 5, 0, 0], "document_ids": [1, 1, 0, 0], "position_ids": [0, 1, 0, 1]},
    ],
    "dp.cycle(2)": [0, 1, 2, 3, 4, 5] * 2,
    "dp.cycle().header(8)": [0, 1, 2, 3, 4, 5, 0, 1],
    "dp.enumerate()": [*enumerate(range(6))],
    'dp.map(fails_on_0, on_error="skip")': [1, 2, 3, 4, 5],
    "dp.map(fails_on_3).until_error()": [0, 1, 2],
    "dp.mix(other, weights=[1, 1])": [0, 1, 2, 3, 4, 5, 6, 7],
    "dp.mix(other, weights=[0.5, 0.5])": [0, 1, 2, 3, 4, 5, 6, 7],
    "ps.iter.IterableWrapper(range(6))": [0, 1, 2, 3, 4, 5],
    "ps.iter.IterableWrapper([1, 2])": [1, 2],
    "ps.read_parquet(path)": [pa.record_batch(TABLE)],
    "ps.read_parquet(path).rows()": [{"x": x, "y": 0} for x in range(6)],
    'ps.read_parquet(path).drop_columns("y").rows()': [{"x": x} for x in range(6)],
    "ps.map.SequenceWrapper([1, 2])": [1, 2],
    "by_index[2:4]": [2, 3],
    "by_index.map(fn)": [1, 2, 3, 4, 5, 6],
    "by_index.filter(is_even)": [0, 2, 4],
    "by_index.repeat(2)": [0, 1, 2, 3, 4, 5] * 2,
    "by_index.mix(more, weights=[2, 1])": [0, 1, 2, 3, 4, 5, 6, 7],
    "by_index.concat(more)": [0, 1, 2, 3, 4, 5, 6, 7],
    "by_index.batch(4)": [[0, 1, 2, 3], [4, 5]],
    "by_index.shuffle().set_seed(1)": [0, 1, 2, 3, 4, 5],
    "by_index.to_iter_datapipe()": [0, 1, 2, 3, 4, 5],
    'samples.routed_decode(only=["txt"])': [
        {"__key__": "0", ".txt": "0", ".cls": b"0"},
        {"__key__": "1", ".txt": "1", ".cls": b"1"},
    ],
    'samples.routed_decode().map(lambda sample: (sample[".txt"], sample[".cls"]))': [("0", 0), ("1", 1)],
}
PACKED_PAIRS = [
    {
        "x": [1, 2, 3, 6],
        "x_document_ids": [1, 1, 1, 2],
        "x_position_ids": [0, 1, 2, 0],
        "y": [4, 5, 7],
        "y_document_ids": [1, 1, 2],
        "y_position_ids": [0, 1, 0],
    }
]
THE_SAME = r"dp\.(shuffle|batch\(4\)\.unbatch|in_memory_cache|prefetch|sharding_filter)\(.*\)"


async def later(x: int) -> int:
    return x + 1


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the cells may name."""
    folder = tmp_path_factory.mktemp("loaders")
    pq.write_table(pa.table(TABLE), folder / "table.parquet")
    (folder / "a.tfrecord").write_bytes(EXAMPLE)
    for number in range(2):
        with tarfile.open(folder / f"shard-{number}.tar", "w") as tar:
            for ending in ("txt", "cls"):
                member = tarfile.TarInfo(f"{number}.{ending}")
                member.size = 1
                tar.addfile(member, io.BytesIO(b"%d" % number))
    names: dict[str, Any] = {
        "ps": ps,
        "fn": lambda x: x + 1,
        "async_fn": later,
        "with_rng": lambda x, rng: x + int(rng.integers(1)),
        "texts": ps.iter.IterableWrapper([{"x": [1, 2, 3]}, {"x": [4, 5]}]),
        "pairs": ps.iter.IterableWrapper([{"x": [1, 2, 3], "y": [4, 5]}, {"x": [6], "y": [7]}]),
        "is_even": lambda x: x % 2 == 0,
        "pair": lambda x: [x, x],
        "reverse": lambda batch: batch[::-1],
        "fails_on_0": lambda x: x * x // x,
        "fails_on_3": lambda x: x * (x - 3) // (x - 3),
        "folder": f"{folder}/written",
        "path": str(folder / "table.parquet"),
        "urls": str(folder / "shard-{0..1}.tar"),
        "command": f"pipe:cat {folder}/shard-{{0..1}}.tar",
        "shards": [str(folder / f"shard-{number}.tar") for number in range(2)],
        "RandomSampler": RandomSampler,
        "files": ps.iter.IterableWrapper([str(folder / "a.tfrecord")]),
    }
    [reading] = [cell for cell in CELLS if cell.endswith('(mode="rb").load_from_tar().webdataset(with_url=True)')]
    return {**names, "samples": eval(reading, names)}


def test_every_row_is_found() -> None:
    spellings, others = PAGE.split("What has another name:")
    rows = [line for line in others.splitlines() if line.startswith("| `")]
    assert len(rows) == len(re.findall(r"^\| `[^|]*`(?: of such)? \| `[^|]*` \|$", others, re.MULTILINE)) >= 45
    assert len(SPELLINGS) == len([line for line in spellings.splitlines() if line.startswith("| `")])


def plain(item: Any) -> Any:
    """Return a tensor as a list, and a sample without the address of its shard."""
    if isinstance(item, torch.Tensor):
        return item.tolist()
    return {name: value for name, value in item.items() if name != "__url__"} if isinstance(item, dict) else item


@pytest.mark.filterwarnings("ignore:.*skip")
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in OF_LOADERS])
def test_a_cell_gives_the_items_that_the_row_means(cell: str, names: dict[str, Any]) -> None:
    dp, other = ps.iter.IterableWrapper(range(6)), ps.iter.IterableWrapper([6, 7])
    by_index, more = ps.map.SequenceWrapper(range(6)), ps.map.SequenceWrapper([6, 7])
    here = {"dp": dp, "other": other, "by_index": by_index, "more": more}
    got = [*islice(eval(cell, {**names, **here}), 50)]
    if any(word in cell for word in ANY_ORDER):
        got.sort()
    if cell.startswith("pairs"):
        assert got == PACKED_PAIRS
    elif cell in GIVES or re.fullmatch(THE_SAME, cell):
        assert [*map(plain, got)] == GIVES.get(cell, GIVES["dp"])
    elif "RandomSampler" in cell:
        assert len(got) == 50
        assert {*got} == {*names["shards"]}
    elif "write_tar" in cell:
        assert [number for _, number in got] == [2]
    elif "tfrecord" in cell:
        assert [row["n"].tolist() for row in got] == [[3, 7]]
    elif "with_format" in cell:
        assert [x for batch in got for x in batch["x"].tolist()] == TABLE["x"]
    else:
        assert [str(sample["__key__"])[-1] for sample in got] == ["0", "1"]


@pytest.mark.parametrize("cell", OF_LOADERS)
def test_a_loader_reads_the_items_that_the_row_means(cell: str, names: dict[str, Any]) -> None:
    with eval(cell, {**names, "dp": ps.iter.IterableWrapper(range(6))}) as loader:
        assert [*loader] == GIVES["dp"]


@pytest.mark.parametrize(("method", "arguments"), SPELLINGS)
def test_a_spelling_is_a_method_that_takes_these_arguments(method: str, arguments: str, names: dict[str, Any]) -> None:
    class Predictor:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return batch

    dp = ps.from_arrow(pa.table(TABLE), batch_size=4)
    made = eval(f"dp.{method}({arguments})", {**names, "dp": dp, "fn": dict, "Predictor": Predictor})
    chains = made if isinstance(made, tuple) else [made] if made is not None else []
    for chain in chains:
        assert [*chain] != []
