"""Variables in MATLAB's files, by scipy."""

from __future__ import annotations

import io
from typing import Any

from ...errors.optional import require
from ..files import Files
from .rows import flawed

__all__ = ["variables"]


def variables(files: Files, path: str, *names: str, simple: bool = False) -> list[Any]:
    """Return variables of a `.mat` file of a resource; with `simple`, without dimensions of size 1.

    Raises ValueError for a file that is none, or has no such variable, and ImportError without scipy.
    """
    scipy_io = require("scipy.io", "datasets-vision")
    try:
        found = scipy_io.loadmat(io.BytesIO(files.read(path)), squeeze_me=simple, variable_names=names)
    except OSError:
        raise
    except Exception as error:  # scipy's reader raises much, such as zlib.error
        raise flawed(files, path, f"it is no MATLAB file: {error!r}") from None
    if absent := [name for name in names if name not in found]:
        raise flawed(files, path, f"it has no variable {', '.join(absent)}")
    return [found[name] for name in names]
