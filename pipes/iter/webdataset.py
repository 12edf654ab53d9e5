"""Group files into samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from ...registry import IterDataPipe, OnError, close, functional_datapipe
from ..files.members import MemberPath
from ..files.streams import close_parts, path_and_content


@functional_datapipe("webdataset")
class WebDataset(IterDataPipe[dict[str, Any]]):
    """Yield a dict for each sample: consecutive files whose paths are the same up to the first dot of the name.

    Take it after `load_from_tar`, for tars in which the files of a sample follow each other. Takes pairs of a path and
    a stream (or bytes, or anything else), as from `load_from_tar`. In the dict, `"__key__"` is the path up to that dot,
    with forward slashes. The rest, dot included, such as `".seg.png"`, is the key of the stream, in lower case unless
    `lower_case=False`. Files whose name has no dot, or begins with one, are metadata by convention: they are closed and
    left out.

    The path begins with that of the archive, as in torchdata, so keys of several archives differ. With `with_url`, as
    in WebDataset, `"__key__"` is the path in the archive alone, and `"__url__"` the address of the archive. `write_tar`
    takes such samples as they are.

    `on_error` handles a file that cannot be added to its sample; a skipped file is missing in it. It cannot be a
    `Retry`.

    Raises ValueError for a second file with the same key in a sample. With `with_url`, raises TypeError for a path that
    is not as an archive's loader gave it.

    >>> dp = IterableWrapper([("t.tar/1.txt", b"one"), ("t.tar/1.cls", b"1"), ("t.tar/2.txt", b"two")]).webdataset()
    >>> list(dp)
    [{'__key__': 't.tar/1', '.txt': b'one', '.cls': b'1'}, {'__key__': 't.tar/2', '.txt': b'two'}]
    """

    traits = ("gathers",)
    gives = "rows"
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[tuple[str, Any]],
        *,
        with_url: bool = False,
        lower_case: bool = True,
        on_error: OnError = "raise",
    ) -> None:
        self.source = source
        self.with_url = with_url
        self.lower_case = lower_case
        self.handle_errors(on_error, can_retry=False)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        items = self.read(self.source, drop=close_parts)
        sample: dict[str, Any] = {}
        of_sample: dict[str, str] = {}

        def read(item: tuple[str, Any]) -> tuple[dict[str, str], str, Any]:
            names, suffix, data = self._read(item)
            if suffix in sample and names == of_sample:
                close_parts(item)
                key = names["__key__"]
                raise ValueError(f"the sample {key!r} has two files {suffix!r}: {item[0]!r} is the second")
            return names, suffix, data

        file_of: Callable[[Any], Any] = self.error_policy.wrap(read)
        skips, keep = self.error_policy.skips, self.error_policy.keep
        for number, item in items:
            file = file_of(item)
            if skips and not keep(file):
                continue
            names, suffix, data = file
            if not suffix:
                close(data)
                continue
            if names != of_sample:
                if sample:
                    items.keep_from(number)  # the first of the next sample has been pulled
                    yield sample
                sample, of_sample = {**names}, names
            sample[suffix] = data
        items.keep_from(items.pulled)
        if sample:
            yield sample

    def _read(self, item: tuple[str, Any]) -> tuple[dict[str, str], str, Any]:
        """Return the names of the sample, the key of the file in it, if any, and the data."""
        path, data = path_and_content(item)
        names = {}
        if self.with_url:
            if not isinstance(path, MemberPath):
                raise TypeError(
                    f"with_url needs paths as load_from_tar gives them, which know their archive, and {path!r:.100} is "
                    f"a {type(path).__name__}: change paths after webdataset"
                )
            names["__url__"] = path.archive
            path = path.within
        key, suffix = key_and_suffix(path)
        return {"__key__": key, **names}, suffix.lower() if self.lower_case else suffix, data


def key_and_suffix(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a path at the first dot of its name; the second part has the dot, or is empty without a stem."""
    path = os.fspath(path).replace("\\", "/")  # Windows paths of archives have member paths appended
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.partition(".")
    return f"{folder}{slash}{stem}", dot + extension if stem else ""
