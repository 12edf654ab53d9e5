"""Endings of the names of files, in lower case: what readers of folders take, and decoders by extension."""

from __future__ import annotations

__all__ = ["ENDINGS", "IMAGES"]

_OF_IMAGES = "png jpg jpeg jpe jfif bmp gif tif tiff webp pbm pgm pnm ppm"
IMAGES = tuple(f".{ending}" for ending in _OF_IMAGES.split())


def _also_packed(*endings: str) -> tuple[str, ...]:
    return tuple(ending + codec for codec in ("", ".gz", ".bz2", ".zst", ".lz4") for ending in endings)


ENDINGS = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": _also_packed(".csv", ".tsv"),
    "json": _also_packed(".json", ".jsonl", ".ndjson"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
    "orc": (".orc",),
    "images": IMAGES,
    "text": (".txt",),
    "numpy": (".npy", ".npz"),
}
"""The endings of each kind of `list_table_files`."""
