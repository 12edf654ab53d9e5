"""The provenance of the last item of a pipe."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors.provenance import Provenance
from .foreign import declared
from .graph import sources_first

__all__ = ["asked_once", "provenance_of"]

_answers: dict[int, dict[int, Provenance | Exception | None]] = {}
"""By thread id, for threads in `asked_once`: the results or errors of pipes, by their ids."""


@contextmanager
def asked_once() -> Iterator[None]:
    """Cache the provenance of each pipe in this thread. Nothing may be read meanwhile."""
    thread = threading.get_ident()
    if thread in _answers:
        yield
        return
    _answers[thread] = {}
    try:
        yield
    finally:
        del _answers[thread]


def provenance_of(pipe: Any) -> Provenance | None:
    """Return the provenance of the last item of a pipe, or None if unknown."""
    answers = _answers.get(threading.get_ident()) if _answers else None
    if answers is None:
        try:
            return _provenance_now(pipe)
        except RecursionError:  # a long chain: each pipe calls its source
            with asked_once():
                return provenance_of(pipe)
    for part in sources_first(pipe, stop=lambda part: id(part) in answers):
        if id(part) not in answers:
            try:
                answers[id(part)] = _provenance_now(part)
            except Exception as error:
                answers[id(part)] = error
    answer = answers[id(pipe)]
    if isinstance(answer, Exception):
        raise answer
    return answer


def _provenance_now(pipe: Any) -> Provenance | None:
    find = declared(pipe, "provenance", None)
    current = vars(pipe).get("_pass")  # other libraries' pipes have none
    if find is None or current is None or not current.begun:
        return None
    found: Provenance | None = find(pipe)
    return found if found is not None and found.places else None
