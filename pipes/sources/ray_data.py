"""Ray Data datasets, read as record batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ...errors.optional import require
from ...registry import IterDataPipe, expect_whole, own
from ..arrow import pa
from ..bases.rows.column_reader import BATCH_SIZE
from ..columns.to_arrow import array_of

if TYPE_CHECKING:
    from ray.data import DataIterator, Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]


class RayDatasetReader(IterDataPipe["pa.RecordBatch"]):
    """Yield the blocks of a Ray Data dataset as record batches: what `from_ray_dataset` returns."""

    gives = "batches"
    resumes_from_start = False
    broken_laws = {"another_process_agrees": "Ray runs in this process only, and reads with workers of its own"}
    payload = ("dataset",)
    given: int = own(0)
    """How many rows were yielded."""

    def __init__(self, dataset: Dataset | DataIterator | _Shared, batch_size: int = BATCH_SIZE) -> None:
        data = require("ray.data", "ray")
        if not isinstance(dataset, (data.Dataset, data.DataIterator, _Shared)):
            raise TypeError(
                "from_ray_dataset takes a ray.data.Dataset, or what ray.train.get_dataset_shard returns, and this is a "
                f"{type(dataset).__name__}"
            )
        expect_whole("batch_size", batch_size)
        self.dataset = dataset if isinstance(dataset, _Shared) else _Shared(dataset)
        self.batch_size = batch_size

    @property
    def is_part(self) -> bool:
        """Whether the dataset is one rank's part."""
        return isinstance(self.dataset.opened(), require("ray.data", "ray").DataIterator)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        dataset = self.dataset.opened()
        left_out = self.given
        self._expect_order(dataset, left_out)
        blocks = iter(dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
        try:
            for block in blocks:
                known = min(left_out, block.num_rows)
                left_out -= known
                table = _in_types_of_arrow(block.slice(known)).combine_chunks()
                for batch in table.to_batches(max_chunksize=self.batch_size):
                    if batch.num_rows:
                        self.given += batch.num_rows
                        yield batch
        finally:
            with suppress(AttributeError):  # iterator classes need not have it
                blocks.close()  # ends Ray's read-ahead tasks
        if left_out:
            raise RuntimeError(f"the dataset has {left_out} rows fewer than were read when the state was taken")

    def schema(self) -> pa.Schema:
        """Return the schema of the batches; where Ray does not know it, Ray reads a row.

        Raises ValueError for a dataset without rows and of unknown schema.
        """
        schema = self.dataset.opened().schema()
        if schema is None:
            raise ValueError("the dataset has no rows, so no schema")
        return pa.schema([*zip(schema.names, map(_type_of_arrow, schema.types), strict=True)])

    def _expect_order(self, dataset: Any, rows: int) -> None:
        """Make a dataset preserve row order; raise RuntimeError for resuming a part that does not."""
        if hasattr(dataset, "context"):
            dataset.context.execution_options.preserve_order = True
        elif rows and not dataset.get_context().execution_options.preserve_order:
            raise RuntimeError(
                "this part of a dataset cannot go on from a state, since Ray gives it other rows each time: set "
                "execution_options.preserve_order = True in the DataContext of the dataset before it is split, or give "
                "it to ray.train.DataConfig(execution_options=…)"
            )


class _Shared:
    """A dataset that copies share; it stays pickled where Ray does not run."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def opened(self) -> Any:
        """Return the dataset; RuntimeError where Ray does not run in this process."""
        ray = require("ray", "ray")
        if not ray.is_initialized():
            raise RuntimeError(
                "Ray does not run in this process, which therefore cannot read the dataset: read the chain where Ray "
                "was begun, with num_workers=0, since Ray reads with workers of its own"
            )
        if isinstance(self._dataset, bytes):
            self._dataset = ray.cloudpickle.loads(self._dataset)
        return self._dataset

    def __repr__(self) -> str:
        return "…" if isinstance(self._dataset, bytes) else type(self._dataset).__name__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        dataset = self._dataset
        return _Shared, (dataset if isinstance(dataset, bytes) else require("ray", "ray").cloudpickle.dumps(dataset),)


def _type_of_arrow(kind: Any) -> pa.DataType:
    """Return Arrow's type for a tensor type of Ray; any other type as is."""
    if not _is_rays_tensor(kind):
        return kind
    storage = kind.storage_type
    if not pa.types.is_struct(storage):
        return pa.fixed_shape_tensor(storage.value_type, kind.shape)
    lists = storage.field("data").type.value_type
    for _ in range(kind.ndim):
        lists = pa.list_(lists)
    return lists


def _is_rays_tensor(kind: Any) -> bool:
    tensors = require("ray.data.extensions", "ray").get_arrow_extension_tensor_types()
    return isinstance(kind, tensors) and not isinstance(kind, pa.FixedShapeTensorType)


def _in_types_of_arrow(table: pa.Table) -> pa.Table:
    """Return a table with Ray's tensors as Arrow's, or as lists where shapes differ."""
    from ray.data.block import BlockAccessor  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for place, field in enumerate(table.schema):
        if _is_rays_tensor(field.type) and len(table):
            values = BlockAccessor.for_block(table.select([field.name])).to_numpy([field.name])[field.name]
            array = array_of(values, field.name)
            table = table.set_column(place, pa.field(field.name, array.type), array)
    return table


def from_ray_dataset(dataset: Dataset | DataIterator, batch_size: int = BATCH_SIZE) -> IterDataPipe[pa.RecordBatch]:
    """Return a pipe of record batches of a Ray Data dataset, or of a training worker's part of one.

    The batches are Ray's blocks, in pieces of at most `batch_size` rows; Ray makes the next blocks meanwhile. Like
    those of `read_parquet`, they suit `to_tensors`, `rows`, `rebatch` and `iter_torch_batches`. Ray's tensor columns
    become Arrow's fixed-shape tensors, or lists where shapes differ. Ray executes the dataset again in each pass.

    `ray.train.get_dataset_shard` and `ray.data.Dataset.streaming_split` give parts. All parts of a dataset must be read
    at the same time: Ray begins an epoch once every part has requested it.

    Ray reads with its own workers. Read the pipe where Ray was started, or in a Ray task or actor, with
    `num_workers=0`. A later `sharding_filter` works, but Ray then reads the complete dataset for each shard; let Ray
    divide it instead, as by `streaming_split`.

    A state is the number of rows yielded. A resumed pass has Ray read these rows again, and skips them, which is exact
    where Ray gives the same rows again. For a dataset, the first read sets `execution_options.preserve_order` in its
    context. A dataset shuffled differently each time, as by `random_shuffle` without a seed or by `to_ray_dataset`
    without an `epoch`, must be `materialize`d before. For a part, whoever splits the dataset sets that option, as by
    `ray.train.DataConfig(execution_options=…)`; without it, resuming is an error, since other parts may get its rows.

    Raises TypeError for anything else, ImportError without Ray, and while reading RuntimeError where Ray does not run
    in this process, as in the worker processes of a loader, and what Ray raises.
    """
    return RayDatasetReader(dataset, batch_size)
