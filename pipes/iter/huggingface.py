"""Read data sets of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...errors.optional import require
from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, functional_datapipe, own


@functional_datapipe(None)
class HuggingFaceHubReader(IterDataPipe[dict[str, Any]]):
    r"""Yield the rows of a data set of the Hugging Face hub, each as a dict.

    `dataset` is a name on the hub, the path of a folder with data files, or a format, such as `"json"`, with
    `data_files`. Further arguments are those of `datasets.load_dataset`: `name`, `split`, `revision`, `data_files`,
    `token`, … . Rows are streamed, without storing the data set first, unless `streaming=False`. Give a `split` where
    there are several. To divide the rows among workers, put a `sharding_filter` after this.

    `on_error` handles a data set that fails: `"skip"` leaves out the rest of it.

    Raises the errors of `datasets` for a missing data set, ValueError where a split must be given, and ImportError
    where `datasets` is not installed.

    >>> import json, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "train.jsonl"), "w") as file:
    ...     _ = file.write('{"text": "one"}\n{"text": "two"}\n')
    >>> dp = HuggingFaceHubReader(folder)
    >>> list(dp)
    [{'text': 'one'}, {'text': 'two'}]
    """

    gives = "rows"
    resumes_from_start = False
    broken_laws = {"abandoned_pass_closes_its_files": "`datasets` counts epochs in shared memory"}
    rows: Any = own(None, save=lambda rows: rows.state_dict() if hasattr(rows, "state_dict") else rows)
    """The current data set; after resuming, the state to continue from."""

    def __init__(self, dataset: str, *, on_error: OnError = "raise", **config_kwargs: Any) -> None:
        require("datasets", "datasets")
        self.dataset = dataset
        self.handle_errors(on_error)
        self.options = Options(config_kwargs)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.error_policy.outputs(partial(self._read, self.rows))(self.dataset)

    def _read(self, begin_at: dict[str, Any] | None, dataset: str) -> Iterator[dict[str, Any]]:
        self.rows = self._load(dataset)
        if begin_at is not None:
            self.rows.load_state_dict(begin_at)
        # Not `for row in rows`: in workers of torch's loader, datasets would shard the rows again.
        for batch in self.rows.iter(batch_size=1):
            yield {name: values[0] for name, values in batch.items()}

    def _load(self, dataset: str) -> Any:
        options = {"streaming": True, **self.options}
        loaded = require("datasets", "datasets").load_dataset(path=dataset, **options)
        splits = [*loaded.values()] if isinstance(loaded, dict) else [loaded]
        if len(splits) != 1:
            raise ValueError(f"give the split to read, as in split={next(iter(loaded))!r}: there are {[*loaded]}")
        return splits[0] if options["streaming"] else splits[0].to_iterable_dataset()
