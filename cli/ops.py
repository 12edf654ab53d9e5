"""`penstock ops`: find operators, and explain them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from ..errors.hints import did_you_mean
from ..pipes.groups import GROUPS, entries_of
from ..registry import Operator, operators
from ..registry.registration import functions_of_all_pipes
from ..registry.synonyms import operators_for, operators_for_parts, other_advice

_WIDEST = 100
_EXAMPLE = "\n>>> "


def show_operators(words: list[str]) -> int:
    """Print all operators, those that have some words, or one whose name is given; return the exit status.

    >>> show_operators(["zip", "archives"])
      load_from_zip  Yield the path and the stream of each file in zip archives.
      load_from_rar  Yield the path and the stream of each file in RAR archives.
    <BLANKLINE>
    penstock ops NAME explains one, with an example.
    0
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not words:
        for title, names in _groups().items():
            console.print(Text(title, "bold"), soft_wrap=True)
            _list(console, [entry for name in names for entry in entries_of(name)])
            console.print()
        _advise(console, "penstock ops WORD … finds operators by words, and penstock ops NAME explains one.")
        return 0
    text = " ".join(words)
    named = [
        entry for entry in operators.values() if text in (entry.name, f"{entry.on}.{entry.name}", entry.cls.__name__)
    ]
    named += [function for function in _functions() if text == function.name]
    matching = _matching(text)
    advice = other_advice(text)
    if len({entry.name for entry in matching}) == 1:
        named = named or matching
    if advice and not named and not operators_for(text):
        console.print(f"{advice}.", soft_wrap=True)
        return 0
    if not named and not matching:
        names = [name for entry in operators.values() for name in (entry.name, entry.cls.__name__)]
        print(f"penstock ops: no operator matches {text!r}{did_you_mean(text, names)}", file=sys.stderr)
        return 1
    for entry in named:
        _explain(console, entry)
    if not named:
        _list(console, matching)
        console.print()
        _advise(console, f"{advice}." if advice else "penstock ops NAME explains one, with an example.")
    elif others := [entry for entry in matching if _is_akin(entry.name, text) and entry not in named]:
        console.print(Text("Others of this kind", "bold"), soft_wrap=True)
        _list(console, others)
    return 0


def _groups() -> dict[str, list[str]]:
    """Return the names of operators by group, with those of plug-ins last."""
    groups = {title: names.split() for title, (_, names) in GROUPS.items()}
    grouped = {name for names in groups.values() for name in names}
    others = [entry.name for entry in operators.values() if entry.name not in grouped]
    return {**groups, "Of plug-ins and programs": others} if others else groups


def _functions() -> list[Operator]:
    """Return the functions of all pipes that are no operators, such as `build_vocab`, to be shown like some."""
    functions: dict[str, Any] = functions_of_all_pipes()
    return [Operator(name, "iter", function, file="", line=0, method=True) for name, function in functions.items()]


def _is_akin(name: str, text: str) -> bool:
    return text in name or name in operators_for(text)


def _matching(text: str) -> list[Operator]:
    """Return the operators that have all words of a text in their name or description, or in their group's title."""
    found = [*operators.search(text)]
    if meant := operators_for(text):
        found += [function for function in _functions() if function.name in meant]
        found.sort(key=lambda entry: meant.index(entry.name) if entry.name in meant else len(meant))
        return found
    found += [function for function in _functions() if function.name in operators_for_parts(text)]
    for title, names in _groups().items():
        if all(word in title.lower() for word in text.lower().split()):
            found += [entry for name in names for entry in entries_of(name) if entry not in found]
    return found


def _list(console: Console, entries: Sequence[Operator]) -> None:
    by_name = {entry.name: entry for entry in reversed(entries)}  # of two kinds of pipe, the first
    width = max(map(len, by_name), default=0)
    for entry in reversed(by_name.values()):
        line = Text.assemble("  ", (entry.name.ljust(width), "cyan"), "  ", entry.summary)
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            console.print(line, soft_wrap=True)


def _explain(console: Console, entry: Operator) -> None:
    described, example, code = (inspect.cleandoc(entry.cls.__doc__ or "") + "\n").partition(_EXAMPLE)
    begins = "." if entry.method else f"ps.{entry.kind}."
    call = Text.assemble(begins, (entry.name, "bold cyan"), str(signature_of(entry.cls)))
    of_maps = " of map-style pipes" if entry.on == "map" else ""
    console.print(call, Text(f"{entry.cls.__module__}.{entry.cls.__name__}{of_maps}", "dim"), sep="\n", soft_wrap=True)
    console.print()
    code = (example + code).strip()
    if console.is_terminal:
        width = min(console.width, _WIDEST)
        console.print(Markdown(described), width=width)
        console.print(Padding(Syntax(code, "pycon", background_color="default", word_wrap=True), (1, 2)), width=width)
    else:
        console.print(described.rstrip(), "", code, "", sep="\n", soft_wrap=True)


def signature_of(cls: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of an operator, or of a function of a chain, without its source, as it is written."""
    signature = inspect.signature(cls)
    parameters = [_as_written(each) for name, each in signature.parameters.items() if name not in ("source", "dp")]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def _as_written(parameter: inspect.Parameter) -> inspect.Parameter:
    if isinstance(parameter.annotation, str):
        parameter = parameter.replace(annotation=_AsWritten(parameter.annotation))
    if isinstance(parameter.default, type) and parameter.default is not inspect.Parameter.empty:
        parameter = parameter.replace(default=_AsWritten(parameter.default.__name__))
    return parameter


class _AsWritten(str):
    """An annotation or a default that is shown as the text it is."""

    __repr__ = str.__str__


def _advise(console: Console, advice: str) -> None:
    console.print(Text(advice, "dim"), soft_wrap=True)
