"""Data sets of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...registry import Guard, IterDataPipe, OnError, functional_datapipe, own
from ...registry.extras import require
from ...registry.secrets import Options

__all__ = ["HuggingFaceHubReader"]


@functional_datapipe(None)
class HuggingFaceHubReader(IterDataPipe[dict[str, Any]]):
    r"""Yield the rows of a data set of the Hugging Face hub, each as a dict.

    `dataset` is the name of one on the hub, the path of a folder with data files, or the name of a format, such as
    `"json"`, with `data_files`. Further arguments are those of `datasets.load_dataset`: `name`, `split`, `revision`,
    `data_files`, `token`, … . Rows are streamed, without storing the data set first, unless `streaming=False`. A
    `split` must be given where there are several. Loaders do not divide the rows among workers by themselves: put a
    `sharding_filter` after it.

    `on_error` handles a data set that fails: with `"skip"`, what had not been read of it is left out.

    Raises what `datasets` raises for one that there is not, ValueError where the split is not clear, and ImportError
    where `datasets` is missing.

    >>> import json, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "train.jsonl"), "w") as file:
    ...     _ = file.write('{"text": "one"}\n{"text": "two"}\n')
    >>> dp = HuggingFaceHubReader(folder)
    >>> list(dp)
    [{'text': 'one'}, {'text': 'two'}]
    """

    gives = "rows"
    holds_items = False
    rows: Any = own(None, save=lambda rows: rows.state_dict() if hasattr(rows, "state_dict") else rows)
    """The data set that is read; after resuming, where it is to go on."""

    def __init__(self, dataset: str, *, on_error: OnError = "raise", **config_kwargs: Any) -> None:
        require("datasets", "datasets")
        self.dataset = dataset
        self.on_error = on_error
        self.guard = Guard(on_error)
        self.options = Options(config_kwargs)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for item in [self.dataset]:
            yield from self.guard.outputs(partial(self._read, self.rows))(item)

    def _read(self, begin_at: dict[str, Any] | None, dataset: str) -> Iterator[dict[str, Any]]:
        self.rows = self._load(dataset)
        if begin_at is not None:
            self.rows.load_state_dict(begin_at)
        # Not `for row in rows`: in a worker of torch's loader that would give a share of the rows, which are divided
        # by a sharding_filter, too.
        for batch in self.rows.iter(batch_size=1):
            yield {name: values[0] for name, values in batch.items()}

    def _load(self, dataset: str) -> Any:
        options = {"streaming": True, **self.options}
        loaded = require("datasets", "datasets").load_dataset(path=dataset, **options)
        if isinstance(loaded, dict):
            if len(loaded) != 1:
                raise ValueError(f"give the split to read, as in split={next(iter(loaded))!r}: there are {[*loaded]}")
            [loaded] = loaded.values()
        return loaded if options["streaming"] else loaded.to_iterable_dataset()
