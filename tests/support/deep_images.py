"""Images of 16 bits for each channel, of one to four channels: Pillow writes them in grey only."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def png_of(pixels: Any) -> bytes:
    """Return an array of shape (height, width, channels) as a PNG."""
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def tiff_of(pixels: Any, compressed: bool = False) -> bytes:
    """Return an array of three or four channels as a TIFF."""
    height, width, channels = pixels.shape
    rows = pixels.astype("<u2").tobytes()
    rows = zlib.compress(rows) if compressed else rows
    entries = [  # tag, type, count, value
        (256, 3, 1, width),
        (257, 3, 1, height),
        (258, 3, channels, 8),
        (259, 3, 1, 8 if compressed else 1),
        (262, 3, 1, 2),
        (273, 4, 1, 16),
        (277, 3, 1, channels),
        (279, 4, 1, len(rows)),
        *([(338, 3, 1, 2)] if channels == 4 else []),
    ]
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    bits = np.full(4, 16, "<u2").tobytes()
    return b"II*\0" + struct.pack("<I", 16 + len(rows)) + bits + rows + directory + bytes(4)


def pnm_of(pixels: Any) -> bytes:
    """Return an array of one or three channels as a PGM or a PPM."""
    height, width, channels = pixels.shape
    return (b"P6" if channels == 3 else b"P5") + b"\n%d %d\n40000\n" % (width, height) + pixels.astype(">u2").tobytes()
