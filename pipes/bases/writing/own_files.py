"""Find the step of a chain that reads where a writer at its end writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ....registry import walk
from ....state.foreign import declared, declares
from ....state.graph import DataPipe, sources_of
from ....storage.addresses import parts_of
from ..listers_and_openers import matches
from .numbered_files import NumberedFiles


def step_that_reads(files: NumberedFiles, source: DataPipe, options: Mapping[str, Any]) -> tuple[DataPipe, str] | None:
    """Return a step before a writer that lists or reads files like the writer's where it writes, and their address.

    Listers tell by their roots, readers by the lists of paths that they read. None where no step is found.
    """
    steps = [*walk(source)]
    written = parts_of(files.url(0))
    stores = {_endpoint(vars(step)["storage_options"]) for step in steps if "storage_options" in vars(step)}
    if written[0] != "file" and stores and _endpoint(options) not in stores:
        return None  # another server's bucket of the same name
    for step in steps:
        if declares(step, "recursive"):
            for root in _roots(step):
                if _lists(root, step, files, written):
                    return step, root
        for path in _texts_of(step):
            if files.numbers([path.rpartition("/")[2]]) and parts_of(path)[:-1] == written[:-1]:
                return step, path
    return None


def _roots(lister: Any) -> Iterator[str]:
    root = vars(lister).get("root")
    if isinstance(root, (str, os.PathLike)):
        yield os.fspath(root)
    elif isinstance(root, Sequence):
        yield from map(os.fspath, root)
    for source in sources_of(lister):
        for pipe in walk(source):
            yield from _texts_of(pipe)


def _texts_of(pipe: Any) -> Iterator[str]:
    """Yield the texts and paths among the items that a pipe has in a list."""
    for name in declared(pipe, "payload", ()):
        items = vars(pipe).get(name)
        if isinstance(items, (list, tuple)):
            yield from (os.fspath(item) for item in items if isinstance(item, (str, os.PathLike)))


def _lists(root: str, lister: Any, files: NumberedFiles, written: tuple[str, ...]) -> bool:
    """Say whether a lister of this root lists files of the writer's names, in its folder, or from below or above it."""
    *folder, name = written
    wanted, masks, recursive = [*parts_of(root)], lister.masks, lister.recursive
    any_case = declared(lister, "any_case", False)
    is_pattern = re.search(r"[*?\[]", root) is not None
    if is_pattern and "**" in wanted:
        masks, recursive, is_pattern, any_case = wanted[-1], True, False, False
        wanted = wanted[: wanted.index("**")]
    if not all(part == there or fnmatchcase(there, part) for part, there in zip(wanted, folder, strict=False)):
        return False
    last = wanted[-1]
    if len(wanted) <= len(folder) and (is_pattern or not (recursive or len(wanted) == len(folder))):
        return False
    if len(wanted) == len(written) and (is_pattern or (masks and matches(last, masks, any_case))):
        return fnmatchcase(name, last) or bool(files.numbers([last]))
    return matches("/".join(written), masks, any_case)


def _endpoint(options: Mapping[str, Any]) -> Any:
    return options.get("endpoint_url") or (options.get("client_kwargs") or {}).get("endpoint_url")
