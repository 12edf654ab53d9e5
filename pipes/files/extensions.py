"""File extensions, in lower case: those that readers of folders take, and decoders."""

from __future__ import annotations

__all__ = ["EXTENSIONS", "IMAGES"]

_OF_IMAGES = "png jpg jpeg jpe jfif bmp gif tif tiff webp pbm pgm pnm ppm"
IMAGES = tuple(f".{name}" for name in _OF_IMAGES.split())


def _also_packed(*extensions: str) -> tuple[str, ...]:
    return tuple(extension + codec for codec in ("", ".gz", ".bz2", ".zst", ".lz4") for extension in extensions)


EXTENSIONS = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": _also_packed(".csv", ".tsv"),
    "json": _also_packed(".json", ".jsonl", ".ndjson"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
    "orc": (".orc",),
    "images": IMAGES,
    "text": (".txt",),
    "numpy": (".npy", ".npz"),
}
"""The extensions of each kind of `list_table_files`."""
