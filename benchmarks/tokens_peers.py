"""The contestants of `benchmarks.tokens`: JSON lines, tokenized, packed and batched, by two processes.

Each runs in its own process, so imports are inside the functions. Settings gave the best rates of those tried: 100,
1,000 and 5,000 texts in a call of the tokenizer, 2 to 16 batches ahead.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BATCH, LENGTH, WORKERS = 8, 1024, 2
TEXTS = 1000
"""Texts in a call of the tokenizer."""

Peer = Callable[[list[str], str], Callable[[], Iterable[Any]]]
"""Given the JSON files and the tokenizer's file, returns an epoch: it yields batches of packs."""


@cache
def tokenizer(path: str) -> Any:
    """Return the tokenizer, once in each process."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(path)


def encode(path: str, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer(path).encode_batch(texts, add_special_tokens=False)]


def tokens_in(batches: Iterable[Any]) -> int:
    """Count the tokens of batches of packs, each of which is a tensor, an array, or a dict with `"tokens"`."""
    number = 0
    for batch in batches:
        tokens = batch["tokens"] if isinstance(batch, dict) else batch
        assert tokens.shape[1] == LENGTH
        number += tokens.shape[0] * LENGTH
    return number


def texts_of(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)["text"]


def packs(paths: Sequence[str], file: str) -> Iterator[torch.Tensor]:
    """The hand-written loop: texts are tokenized by the thousand, and the tokens are cut into packs."""
    import torch

    texts, tokens = list[str](), list[int]()
    for text in texts_of(paths):
        texts.append(text)
        if len(texts) < TEXTS:
            continue
        for ids in encode(file, texts):
            tokens += ids
        texts.clear()
        full = len(tokens) // LENGTH * LENGTH
        yield from torch.tensor(tokens[:full]).view(-1, LENGTH)
        del tokens[:full]
    for ids in encode(file, texts):
        tokens += ids
    yield from torch.tensor(tokens[: len(tokens) // LENGTH * LENGTH]).view(-1, LENGTH)


def dataloader(paths: list[str], file: str) -> Callable[[], Iterable[Any]]:
    """torch's DataLoader over an IterableDataset written by hand, whose workers have every second file each."""
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Packs(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            return packs(paths if info is None else paths[info.id :: info.num_workers], file)

    loader = DataLoader(Packs(), BATCH, num_workers=WORKERS, prefetch_factor=8, persistent_workers=True)
    return lambda: loader


def penstock(paths: list[str], file: str, to: str = "numpy.array") -> Callable[[], Iterable[Any]]:
    """The naive chain: a text at a time, to an array. `torch.tensor` takes five times as long to read a list."""
    module, _, name = to.partition(".")
    array_of = getattr(import_module(module), name)

    import penstock as ps

    def tokens(row: dict[str, str]) -> Any:
        return array_of(tokenizer(file).encode(row["text"], add_special_tokens=False).ids)

    dp = ps.read_json(paths).rows().map(tokens).pack(LENGTH).batch(BATCH).collate()
    return read_by_workers(dp)


def penstock_batches(paths: list[str], file: str) -> Callable[[], Iterable[Any]]:
    """The chain of the recipe: the tokenizer is called with batches of columns."""
    import numpy as np

    import penstock as ps

    def tokens(batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": [np.array(ids) for ids in encode(file, batch["text"])]}

    dp = ps.read_json(paths, ["text"]).map_batches(tokens, TEXTS).rows().pack(LENGTH).batch(BATCH).collate()
    return read_by_workers(dp)


def read_by_workers(dp: Any) -> Callable[[], Iterable[Any]]:
    import penstock as ps

    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(WORKERS))
    return lambda: loader


def datasets(paths: list[str], file: str) -> Callable[[], Iterable[Any]]:
    """Hugging Face datasets, streamed: two batched maps, as its documents show, and torch's DataLoader."""
    from datasets import load_dataset
    from torch.utils.data import DataLoader

    def tokens(batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": encode(file, batch["text"])}

    def grouped(batch: dict[str, Any]) -> dict[str, Any]:
        joined = [token for ids in batch["tokens"] for token in ids]
        full = len(joined) // LENGTH * LENGTH
        return {"tokens": [joined[start : start + LENGTH] for start in range(0, full, LENGTH)]}

    rows = load_dataset("json", data_files=paths, split="train", streaming=True)
    rows = rows.map(tokens, batched=True, batch_size=TEXTS, remove_columns=["id", "text", "meta"])
    rows = rows.map(grouped, batched=True, batch_size=TEXTS).with_format("torch")
    loader = DataLoader(rows, BATCH, num_workers=WORKERS, prefetch_factor=8, persistent_workers=True)
    return lambda: loader


class Lines:
    """The lines of files, by index, for Grain, which reads by index what it divides among processes."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        counts = [sum(1 for _ in open(path, "rb")) for path in paths]  # noqa: SIM115
        self._ends = [*accumulate(counts)]

    @cache  # noqa: B019 - for a process's life
    def _lines(self) -> tuple[list[int], list[Any]]:
        starts: list[Any] = []
        for path in self._paths:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            at = 0
            while at < len(mapped):
                end = mapped.find(b"\n", at) + 1
                starts.append((mapped, at, end))
                at = end
        return self._ends, starts

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> str:
        mapped, start, end = self._lines()[1][index]
        text: str = json.loads(mapped[start:end])["text"]
        return text


def grain(paths: list[str], file: str) -> Callable[[], Iterable[Any]]:
    """Grain's ConcatThenSplit, in two processes."""
    import numpy as np
    import torch
    from absl import flags
    from grain import MapDataset, MultiprocessingOptions, ReadOptions, experimental

    flags.FLAGS(["benchmarks.tokens"])  # its workers want absl's flags to be parsed

    def tokens(text: str) -> dict[str, Any]:
        return {"tokens": np.array(tokenizer(file).encode(text, add_special_tokens=False).ids)}

    rows = MapDataset.source(Lines(paths)).map(tokens).to_iter_dataset(ReadOptions(0, 0))
    packed = experimental.ConcatThenSplitIterDataset(rows, length_struct={"tokens": LENGTH})
    dataset = packed.batch(BATCH).mp_prefetch(MultiprocessingOptions(WORKERS, per_worker_buffer_size=8))
    return lambda: ({"tokens": torch.from_numpy(batch["tokens"])} for batch in dataset)


def by_hand(paths: list[str], file: str) -> Callable[[], Iterable[Any]]:
    """One process, and no loader."""
    import torch

    def batches() -> Iterator[Any]:
        batch = []
        for pack in packs(paths, file):
            batch.append(pack)
            if len(batch) == BATCH:
                yield torch.stack(batch)
                batch = []
        if batch:
            yield torch.stack(batch)

    return batches


PEERS: dict[str, Peer] = {
    "hand loop, one process": by_hand,
    "penstock, a text at a time": penstock,
    "penstock, a text at a time, by torch.tensor": partial(penstock, to="torch.tensor"),
    "penstock, map_batches": penstock_batches,
    "torch DataLoader, by hand": dataloader,
    "Hugging Face datasets, streamed": datasets,
    "Grain": grain,
}
