"""The members of a pipe that its users see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe

_OF_AUTHORS = {
    *(name for base in (TorchIterDataPipe, TorchMapDataPipe) for name in vars(base)),
    *(
        "at_end",
        "broken_laws",
        "buffered",
        "buffers",
        "empty_arguments",
        "traits",
        "functional_name",
        "gives",
        "error_policy",
        "handle_errors",
        "resumes_from_start",
        "in_main_process",
        "interrupt",
    ),
    *(
        "faster",
        "made_of",
        "most_held",
        "result",
        "outputs_of_each",
        "payload",
        "provenance",
        "read",
        "reset",
        "transient",
    ),
    *("begin_random_pass", "is_one_of_several", "is_random", "is_sharding_filter", "keeps_rows", "keeps_schema"),
    *(
        "random_state",
        "schema_after",
        "set_random_state",
        "settle",
        "shown_as",
        "shows_progress",
        "trace_as_dataframe",
        "tuned",
        "tuner",
    ),
    "whole_sources",
    "works_in",
}
"""Names that `dir` of a pipe omits: those for authors of operators, and those of torch's base."""


def public_members(pipe: Any, names: Iterable[str]) -> list[str]:
    """Return the names for users of a pipe, without private names and those for authors of operators."""
    hidden = {*_OF_AUTHORS, *type(pipe).transient, *type(pipe)._state_fields}
    return sorted(name for name in {*names} - hidden if name[:1] != "_" or name[:2] == "__")
