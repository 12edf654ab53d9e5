"""Tracebacks that show a user's frames, without those of ours between them."""

from __future__ import annotations

import linecache
import re
import sys
from itertools import pairwise
from types import CodeType, FrameType, TracebackType
from typing import Any

_WITHOUT_SOURCE = re.compile(r'^( *)File "([^"\n]+)", line (\d+), in (.*)\n(?!\1  )', re.MULTILINE)


def is_ours(frame: FrameType) -> bool:
    """Say whether a frame runs code of Penstock, or of an import."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in ("penstock", "importlib")


def fold_traceback(error: BaseException) -> None:
    """Remove frames of ours from a traceback, but the one that raised the error, and the first, which passes it on."""
    if (first := error.__traceback__) is not None:
        first.tb_next = folded_traceback(first.tb_next, not isinstance(error, KeyboardInterrupt))


def folded_traceback(traceback: TracebackType | None, with_deepest: bool = True) -> TracebackType | None:
    """Return a traceback without frames of ours, but the one that raised the error; an interrupt may fall anywhere."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame) or (traceback.tb_next is None and with_deepest):
            kept.append(traceback)
        traceback = traceback.tb_next
    for one, following in pairwise(kept):
        one.tb_next = following
    return kept[0] if kept else None


def shorten_traceback(error: BaseException, passing_on: CodeType) -> None:
    """Remove the frames of pipes that only passed an error on; `passing_on` is their code."""
    top = error.__traceback__
    if top is None:
        return
    deepest, current = top, top.tb_next
    while current is not None:
        if current.tb_frame.f_code is passing_on:
            deepest = current
        current = current.tb_next
    top.tb_next = deepest.tb_next


class RemoteTraceback(Exception):
    """The traceback of an error in another process, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{_WITHOUT_SOURCE.sub(_with_source, self.text)}"""'


def _with_source(frame: re.Match[str]) -> str:
    """Return a frame with its line of source, which only this process has where it is a notebook's."""
    indent, file, line, name = frame.groups()
    source = linecache.getline(file, int(line)).strip()
    where = _cell(file) or f'File "{file}"'
    return f"{indent}{where}, line {line}, in {name}\n" + (f"{indent}  {source}\n" if source else "")


def _cell(file: str) -> str | None:
    """Return the name of a notebook's cell, as `Cell In[7]`; None for what is no cell here."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None else " ".join(shell.compile.format_code_name(file) or ()) or None
