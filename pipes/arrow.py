"""pyarrow's modules, imported on first use: many chains need none of them, and the import takes a while."""

from typing import TYPE_CHECKING

from ..errors.optional import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    import pyarrow.dataset as ds  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
else:
    pa, pc, ds, pq = map(LazyModule, ("pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"))

__all__ = ["ds", "pa", "pc", "pq"]
