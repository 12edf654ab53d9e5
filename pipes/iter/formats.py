"""Convert column batches: to tensors, arrays, data frames, Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from ...registry import IterDataPipe, OnError, functional_datapipe, own
from ..arrow import pa
from ..bases.arguments import expect_names
from ..bases.one_to_one import OneToOne
from ..bases.rows.cuts_batches import CutsBatches
from ..columns.arrow_values import stays_list
from ..columns.batch_formats import converter
from ..columns.batch_rows import as_batch
from ..columns.schema import schema_with
from ..columns.tensors import Dtypes, check_dtypes, tensors_of
from ..columns.times import times_of, with_times

_WITH_TIMES = ("arrow", "pyarrow", "pandas")
"""The formats in which a time is more than a number."""


@functional_datapipe("to_tensors")
class TensorMaker(OneToOne[dict[str, Any]]):
    """Yield each column batch as a dict of tensors by the names of its columns; text and bytes as lists.

    A column batch is a `pyarrow.RecordBatch` or `pyarrow.Table`, or a dict of tensors, arrays or lists of one length.
    `columns` selects columns, in that order. `dtypes` is a dtype for all numeric columns, or a dict of dtypes for some
    columns. The first dimension of each tensor is the row. Arrow types map to:

    - integers and floats: a tensor of that dtype, in the same memory, which must not be written to
    - booleans: `torch.bool`
    - timestamps, dates, times of day, durations: `torch.int64`, counted in the unit of the type. `schema` still has the
      type, and writers of files and `with_format("arrow")` give it back, as long as no step between makes other
      batches
    - decimals: what `dtypes` says, and without it an error
    - lists that all have one length, fixed-size lists, and fixed-shape tensors: tensors of that shape. Lists that are
      ragged are an error
    - dictionaries: the values that they encode
    - text and bytes, and lists of these: lists of Python's, with None for null
    - images, as bytes, or as Hugging Face's structs of `bytes` and `path`: a list of bytes, not decoded
    - other structs, and maps: an error

    A null among numbers is an error, or NaN where `dtypes` gives a float. A value that the dtype in `dtypes` cannot
    hold is an error: one that is too large, and, for integers, fractions and NaN. Floats are rounded to shorter floats.

    `on_error` handles a batch that fails.

    Raises ValueError, with the column and the row, for values that do not convert, TypeError for types that do not, and
    KeyError for a column that a batch lacks.

    >>> import pyarrow as pa, torch
    >>> batch = pa.record_batch({"id": [1, 2], "pair": [[1, 2], [3, 4]], "text": ["a", None]})
    >>> dp = IterableWrapper([batch]).to_tensors(dtypes={"pair": torch.int8})
    >>> list(dp)
    [{'id': tensor([1, 2]), 'pair': tensor([[1, 2],
            [3, 4]], dtype=torch.int8), 'text': ['a', None]}]
    """

    gives = "batches"
    resumes_from_start = False
    keeps_rows = True
    _made_of: list[pa.Schema] | None = own(list, saved=False)
    """The schema of the last batch, once there was one; None where it was a dict."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        columns: Sequence[str] | None = None,
        dtypes: Dtypes | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        expect_names(columns)
        check_dtypes(dtypes)
        self.source = source
        self._columns = columns
        self.dtypes = dtypes
        self.handle_errors(on_error, can_retry=False)

    def made_of(self) -> list[pa.Schema] | None:
        """Return the schema of the columns in the last Arrow batch; none before it, and None after a dict."""
        if not self._made_of or self._columns is None:
            return self._made_of
        return [schema_with(schema, dict(zip(self._columns, self._columns, strict=True))) for schema in self._made_of]

    def _function(self) -> Callable[[Any], dict[str, Any]]:
        source = self.source
        if isinstance(source, CutsBatches):
            return lambda item: item if source.is_made else self._made(as_batch(item))
        return lambda item: self._made(as_batch(item))

    def _made(self, batch: Any) -> dict[str, Any]:
        self._made_of = None if isinstance(batch, dict) else [batch.schema]
        return tensors_of(batch, self._columns, self.dtypes)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if isinstance(self.source, CutsBatches):
            self.source.make_of_whole(self._of_whole)
        return super().__iter__()

    def _of_whole(self, batch: pa.RecordBatch) -> Any:
        """Return an uncut batch as tensors, unless it has lists, whose tensors may need much memory."""
        return batch if any(map(stays_list, batch.schema.types)) else self._made(batch)


@functional_datapipe("with_format")
class Formatter(OneToOne[Any]):
    """Yield each column batch in a format: `"torch"`, `"numpy"`, `"pandas"` or `"arrow"`.

    A column batch is a `pyarrow.RecordBatch` or `pyarrow.Table`, a data frame of pandas, or a dict of tensors, arrays
    or lists of one length. Each batch becomes:

    - `"torch"`: a dict of tensors and lists, by the rules of `to_tensors`
    - `"numpy"`: a dict of arrays. Numbers, booleans, lists and tensors follow the rules of `to_tensors`. Timestamps,
      dates and durations are NumPy's own, with NaT for null; text, bytes and what has no dtype are arrays of objects
    - `"pandas"`: a `pandas.DataFrame`, as pyarrow makes it; a column of fixed-shape tensors is one of arrays
    - `"arrow"`: a `pyarrow.RecordBatch`. A tensor or array of more than one dimension has the type of fixed-shape
      tensors; a tensor that is on a device is copied to main memory

    `on_error` handles a batch that fails.

    Raises ValueError, with the column and the row, for values that the format cannot hold, and TypeError for such
    types.

    >>> import torch
    >>> dp = IterableWrapper([{"id": torch.tensor([1, 2]), "text": ["a", "b"]}]).with_format("numpy")
    >>> list(dp)
    [{'id': array([1, 2]), 'text': array(['a', 'b'], dtype=object)}]
    """

    gives = "batches"
    keeps_rows = True

    def __init__(
        self,
        source: IterDataPipe[Any],
        format: Literal["torch", "numpy", "pandas", "arrow"],
        *,
        on_error: OnError = "raise",
    ) -> None:
        converter("format", format)  # raises for an unknown one
        self.source = source
        self.format = format
        self.handle_errors(on_error, can_retry=False)

    def _function(self) -> Callable[[Any], Any]:
        convert, source = converter("format", self.format), self.source
        if self.format in _WITH_TIMES:
            return lambda item: convert(with_times(as_batch(item), times_of(source)))
        return lambda item: convert(as_batch(item))


def keeping_times(source: IterDataPipe[Any], format: str) -> IterDataPipe[Any]:
    """Return a pipe of column batches for a step that converts them to a format, which cannot ask for types of times.

    Where the format holds times, the batches are Arrow's.
    """
    return Formatter(source, "arrow") if format in _WITH_TIMES else source
