"""Mutants of the source, each a small change of one place as a slip of the pen makes it, and the tests that run them.

A sample of them is the same for the same sources. A mutant is drawn by a hash of its function, line and change, so that
an edit elsewhere, or a move to another file, leaves most of the sample as it is.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import itertools
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from coverage import CoverageData

ROOT = Path(__file__).parent.parent

ROOMS = ("state", "registry", "errors", "pipes", "workers", "storage", "runner", "views", "testing", "checkpoint")

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

LARGEST_BOUND = 16
"""A larger number is a size or a wait, of which one more or less makes no difference to anyone."""

NOT_RUN = {"annotation", "returns", "exc", "msg", "type_params"}
"""Fields of nodes that hold types and messages."""


class Mutant(NamedTuple):
    file: str
    place: tuple[int, int, int, int]  # line and column, in bytes, of the first and behind the last
    statement: range  # the lines of the statement that it is in; of one that has a body, those above it
    before: str
    after: str
    text: str  # of its first line
    key: str

    @property
    def change(self) -> str:
        return f"{self.file}:{self.place[0]}: {self.before} → {self.after}  in  {self.text}"

    def applied(self, source: str) -> str:
        """Return the source of the file with this change, and with as many lines."""
        lines = source.encode().splitlines(keepends=True)
        first, column, last, end = self.place
        more = "\n" * (last - first)
        after = f"[] and {self.before}" if self.after == "pass" else self.after  # the function keeps its closure
        changed = lines[first - 1][:column] + f"({after}{more})".encode() + lines[last - 1][end:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()


def sample(package: Path, number: int) -> list[Mutant]:
    """Return so many mutants of an installed package, of each room in proportion to its lines, in a mixed order."""
    sources = {
        room: {file.relative_to(package).as_posix(): file.read_text() for file in (package / room).rglob("*.py")}
        for room in ROOMS
    }
    lines = {room: sum(source.count("\n") for source in files.values()) for room, files in sources.items()}
    chosen = list[Mutant]()
    for room, files in sources.items():
        found = [mutant for file, source in sorted(files.items()) for mutant in mutants(file, source)]
        share = round(number * lines[room] / sum(lines.values()))
        chosen += sorted(found, key=lambda mutant: mutant.key)[:share]
    return sorted(chosen, key=lambda mutant: mutant.key)


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of the bodies of a file's functions: what runs at import cannot be changed later."""
    lines = source.splitlines()
    alike = Counter[tuple[str, ...]]()
    for parent, statement, function in _run(ast.parse(source), range(0), ""):
        for node, change in _changes(parent):
            place = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
            before, after, text = ast.unparse(node), ast.unparse(change), lines[node.lineno - 1].strip()
            marks = (function, text, before, after)
            alike[marks] += 1
            key = hashlib.sha256(repr((*marks, alike[marks])).encode()).hexdigest()[:16]
            yield Mutant(file, place, statement, before, after, text, key)


def _run(node: ast.AST, statement: range, function: str, in_body: bool = False) -> Iterator[tuple[ast.AST, range, str]]:
    """Yield what runs when a function is called and is no message, with the lines of its statement and the function."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.stmt):
        body = getattr(node, "body", None)
        statement = range(node.lineno, body[0].lineno if body else (node.end_lineno or node.lineno) + 1)
    if in_body:
        yield node, statement, function
    for field, value in ast.iter_fields(node):
        called = in_body or (field == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))
        for child in value if isinstance(value, list) else [value]:
            if field not in NOT_RUN and isinstance(child, ast.AST):
                yield from _run(child, statement, function, called)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield parts of a node, or itself, each with what may stand in its place."""
    match node:
        case ast.Compare(left, operators, others):
            for place, operator in enumerate(operators):
                other = COMPARISONS[type(operator)]()
                yield node, ast.Compare(left, [*operators[:place], other, *operators[place + 1 :]], others)
        case ast.BoolOp(operator, values):
            yield node, ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.Constant(int(value)) if type(value) is int and value <= LARGEST_BOUND:
            yield node, ast.Constant(value + 1)
        case ast.BinOp(left, ast.Add() | ast.Sub(), ast.Constant(int())):
            yield node, left
        case ast.Expr(ast.Call()):
            yield node, ast.Pass()
        case ast.If(test=test) | ast.IfExp(test=test):
            yield from _negated(test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(test)


def _negated(test: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return  # the other operator says the same
        case ast.UnaryOp(ast.Not(), operand):
            yield test, operand
        case _:
            yield test, ast.UnaryOp(ast.Not(), test)


def put_in_place(mutant: Mutant, source: str, package: Path) -> None:
    """Change the functions of this process that were made of a file's source; a module not yet imported is left."""
    path = str(package / mutant.file)
    before, after = (
        _codes(compile(text, path, "exec", dont_inherit=True)) for text in (source, mutant.applied(source))
    )
    changed = {_mark(old): new for old, new in zip(before, after, strict=True)}
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == path:
            function.__code__ = changed.get(_mark(function.__code__), function.__code__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _mark(code: CodeType) -> tuple[Any, ...]:
    """Return what tells the functions of a file apart."""
    return code.co_qualname, code.co_firstlineno, code.co_varnames, code.co_names


TESTS = 50
"""So many tests of a mutant are run, where there are more."""


class Coverage:
    """Which tests run which lines, as one run of the tests has measured, and how long each test takes."""

    def __init__(self, data: Path, report: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        self._package = next(iter(self._data.measured_files())).partition("/penstock/")[0]
        self._seconds = {
            f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}": float(case.attrib["time"])
            for case in ElementTree.parse(report).iter("testcase")
            if not any(child.tag in ("failure", "error", "skipped") for child in case)
        }

    def tests(self, mutant: Mutant) -> tuple[str, set[str]]:
        """Return by what the tests of a mutant were found, its line or its module's name, and the tests."""
        by_line = self._data.contexts_by_lineno(f"{self._package}/penstock/{mutant.file}")
        first, _, last, _ = mutant.place
        found = {context for line in (*range(first, last + 1), *mutant.statement) for context in by_line.get(line, ())}
        if any(found):  # "" is no test, but an import
            return "line", self._chosen(found)
        return "name", self._chosen(test for test in self._seconds if _names(test.partition("::")[0], mutant.file))

    def _chosen(self, contexts: Iterable[str]) -> set[str]:
        """Return the fastest tests of each file in turn; first come the files with most of the tests."""
        by_file: dict[str, list[str]] = {}
        for test in {context.partition("|")[0] for context in contexts} & self._seconds.keys():
            by_file.setdefault(test.partition("::")[0], []).append(test)
        files = [sorted(tests, key=lambda test: (self._seconds[test], test)) for _, tests in sorted(by_file.items())]
        files.sort(key=len, reverse=True)
        turns = itertools.chain.from_iterable(itertools.zip_longest(*files))
        return set(itertools.islice((test for test in turns if test), TESTS))


@functools.cache
def _names(tests: str, file: str) -> bool:
    """Say whether a file of tests names a module of the package, or is named for it."""
    package, _, name = file.removesuffix(".py").replace("/", ".").rpartition(".")
    text = (ROOT / tests).read_text()
    imports = (f"penstock.{package}.{name}", f"from penstock.{package} import {name}")
    return Path(tests).stem == f"test_{name}" or any(each in text for each in imports)
