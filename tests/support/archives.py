"""Archives of files, given by their paths, for tests."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of files by their paths."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def tar_of(files: Mapping[str, bytes], compression: str = "gz", **options: Any) -> bytes:
    """Return a tar of files by their paths, compressed by gz, bz2 or xz, or, where that is empty, not."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}", **options) as archive:
        for path, content in files.items():
            header = tarfile.TarInfo(path)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()
