"""The example in an operator's docstring: the names it may use, and fresh pipes made by running it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from ..registry.registration import operators
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ..state.graph import DataPipe, walk


def example_names(module: str) -> dict[str, Any]:
    """Return the names that the examples of a module may use without an import.

    These are the names of the module itself, the operator classes, and the package as `ps`. If an iterable and a
    map-style operator share a class name, it means the one that the module defines, or else the iterable one.
    """
    entries = sorted(operators.values(), key=lambda entry: entry.kind, reverse=True)
    classes = {entry.cls.__name__: entry.cls for entry in entries}
    package = sys.modules.get(__name__.partition(".")[0])
    return {**classes, "ps": package, **vars(sys.modules[module])}


def maker_of_example(cls: type) -> Callable[[], DataPipe]:
    """Return a function that makes a fresh pipe each time: the `dp` of the example in a class's docstring.

    Each call runs the example up to the definition of `dp`. The statements before the first pipe, such as those that
    write files, run only once.

    Raises ValueError if the docstring has no example in which `dp` reads through `cls`.
    """
    import doctest  # slow: it imports pdb and unittest

    names = {**example_names(cls.__module__), cls.__name__: cls}
    statements: list[Any] = []
    before: Mapping[str, Any] = dict(names)
    for example in doctest.DocTestParser().get_examples(cls.__doc__ or "", cls.__qualname__):
        statement = compile(example.source, f"<example of {cls.__qualname__}>", "exec")
        earlier = dict(names)
        _run(statement, names)
        if statements or any(_is_pipe(value) for name, value in names.items() if value is not earlier.get(name)):
            statements.append(statement)
        else:
            before = dict(names)
        made = names.get("dp")
        if _is_pipe(made) and any(type(pipe) is cls for pipe in walk(made)):
            return lambda: _make(statements, before)
    raise ValueError(f"the docstring of {cls.__qualname__} has no example that defines `dp` as a chain with it")


def _make(statements: list[Any], before: Mapping[str, Any]) -> DataPipe:
    names = dict(before)
    for statement in statements:
        _run(statement, names)
    made: DataPipe = names["dp"]
    return made


def _run(statement: Any, names: dict[str, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(statement, names)


def _is_pipe(value: object) -> TypeGuard[DataPipe]:
    return isinstance(value, (TorchIterDataPipe, TorchMapDataPipe))
