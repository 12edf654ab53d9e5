"""Values encoded as files by extension: the inverse of decoding."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import numpy as np
import torch

from ...registry import close
from ...storage.streaming.streams import expect_bytes
from .images import as_png, is_picture
from .tenbin import to_tenbin


def encoded(extensions: str, value: Any) -> bytes:
    """Return a value as the bytes of a file, which `routed_decode` decodes again; the last of its extensions decides.

    Bytes stay as they are, byte streams are read and closed, and str becomes UTF-8. `pt` and `pth` take tensors, and
    dicts and lists with tensors; `npy` takes arrays, `ten` lists of arrays, and `png` arrays, tensors and images of
    Pillow. Under other extensions numbers, dicts and lists become JSON. Under `gz`, the extension before decides, and
    the file is compressed.

    Raises TypeError for values of other kinds.

    >>> encoded("cls", 7), encoded("json", {"a": [1, "ü"]}).decode()
    (b'7', '{"a": [1, "ü"]}')
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    before, _, extension = extensions.lower().rpartition(".")
    if hasattr(value, "read"):
        try:
            expect_bytes(value)
            return bytes(value.read())
        finally:
            close(value)
    if extension == "gz" and before:
        return gzip.compress(encoded(before, value), mtime=0)  # without the time, for reproducible bytes
    if isinstance(value, str):
        return value.encode()
    buffer = io.BytesIO()
    if extension in {"pt", "pth"}:
        torch.save(_on_its_own(value), buffer)
    elif extension == "npy" and isinstance(value, np.ndarray):
        np.lib.format.write_array(buffer, value, allow_pickle=False)
    elif extension in {"ten", "tb"} and isinstance(value, list):
        buffer.write(to_tenbin(value))
    elif extension == "png" and is_picture(value):
        buffer.write(as_png(value))
    elif extension not in {"npy", "npz", "ten", "tb", "png"} and isinstance(
        value, (int, float, dict, list, np.generic)
    ):
        buffer.write(json.dumps(value, ensure_ascii=False, default=_json_default).encode())
    else:
        raise TypeError(
            f"a {type(value).__name__} cannot be written under the extension {extension!r}: tensors go under pt, "
            "arrays under npy and png, lists of them under ten; numbers, dicts and lists become JSON; encode all else "
            "first"
        )
    return buffer.getvalue()


def _json_default(value: object) -> Any:
    """Return a NumPy scalar as a Python one, and a record as a dict of its fields, for JSON."""
    if isinstance(value, np.void) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"JSON has no {type(value).__name__}, only numbers, text, bool, None, dicts and lists")


def _on_its_own(value: Any) -> Any:
    """Return a value that torch.load takes with `weights_only`; tensors are on the CPU, with their own storage."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {name: _on_its_own(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_its_own(part) for part in value)
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    raise TypeError(
        f"torch.load would refuse a {type(value).__name__}: it takes tensors, numbers, text, dicts and lists"
    )
