"""File extensions, in lower case: those that readers of folders take, and decoders."""

from __future__ import annotations

_OF_IMAGES = "png jpg jpeg jpe jfif bmp gif tif tiff webp pbm pgm pnm ppm"
_OF_VIDEOS = "mp4 m4v mov mkv webm avi mpg mpeg ogv wmv"
_OF_SOUNDS = "wav flac mp3 ogg oga opus m4a aac aiff"
IMAGES, VIDEOS, SOUNDS = (tuple(f".{name}" for name in names.split()) for names in (_OF_IMAGES, _OF_VIDEOS, _OF_SOUNDS))


def _also_packed(*extensions: str, codecs: tuple[str, ...] = (".gz", ".bz2", ".zst", ".lz4")) -> tuple[str, ...]:
    return tuple(extension + codec for codec in ("", *codecs) for extension in extensions)


EXTENSIONS = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": _also_packed(".csv", ".tsv"),
    "json": _also_packed(".json", ".jsonl", ".ndjson"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
    "orc": (".orc",),
    "images": IMAGES,
    "videos": VIDEOS,
    "text": _also_packed(".txt", codecs=(".gz", ".bz2", ".zst", ".xz")),
    "numpy": (".npy", ".npz"),
}
"""The extensions of each kind of `list_table_files`."""
