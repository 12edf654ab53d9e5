"""How many words an operator needs to resume, counted in the source: `python -m benchmarks.words [TREE]`.

Nothing is imported, so that any revision can be read: `git worktree add` it, and give its folder.
"""

from __future__ import annotations

import argparse
import ast
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from .harness import table

PROTOCOL = ("state", "iteration", "seeds", "folding", "splitter", "branches", "generations", "reading", "own")
"""The last two have what state.py had before."""
METHODS = ("snapshot", "reset", "get_state", "set_state")
ATTRIBUTES = ("transient", "payload", "resumes_from_start")
CALLS = ("ReplayLog", "own")
METHODS_CALLED = ("mark", "read", "keep_from")
"""Only `self.read()`: that of a stream is no word of ours."""
WORDS = (*METHODS, *ATTRIBUTES, "_trail", *CALLS, *METHODS_CALLED)


class Use(NamedTuple):
    """The classes that use a word, with counts."""

    operators: int
    bases: int
    uses: int


def classes_in(tree: Path) -> Iterator[tuple[ast.ClassDef, bool]]:
    """Yield the classes under pipes/ and those registered elsewhere; say of each whether it is registered."""
    for folder in ("pipes", "registry"):
        for path in sorted((tree / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    registered = any("functional_datapipe" in ast.unparse(each) for each in node.decorator_list)
                    if registered or folder == "pipes":
                        yield node, registered


def name_of(node: ast.AST) -> str:
    """Return the name of a called function, or of an assignment target."""
    if isinstance(node, ast.Subscript):  # as in ReplayLog[int](…)
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def words_of(cls: ast.ClassDef) -> Iterator[str]:
    """Yield each word as often as a class uses it."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name in METHODS:
            yield node.name
        yield from attributes_of(node)
    for node in ast.walk(cls):
        if isinstance(node, ast.Call):
            called = node.func
            of_self = isinstance(called, ast.Attribute) and name_of(called.value) == "self"
            of_an_object = isinstance(called, ast.Attribute) and name_of(called) != "read"
            if name_of(called) in CALLS or (name_of(called) in METHODS_CALLED and (of_self or of_an_object)):
                yield name_of(called)
        elif isinstance(node, ast.Attribute) and node.attr == "_trail":
            yield "_trail"


def attributes_of(statement: ast.stmt) -> Iterator[str]:
    """Yield what a statement of a class assigns, itself or, in a method, to `self`."""
    of_class = isinstance(statement, (ast.Assign, ast.AnnAssign))
    for node in ast.walk(statement):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if name_of(target) in ATTRIBUTES and (of_class or isinstance(target, ast.Attribute)):
                    yield name_of(target)


def count(tree: Path) -> tuple[dict[str, Use], int, int]:
    """Return the uses of each word, and the numbers of operators and of other classes."""
    found = [(registered, list(words_of(cls))) for cls, registered in classes_in(tree)]
    operators = sum(registered for registered, _ in found)
    uses = {
        word: Use(
            sum(word in words for registered, words in found if registered),
            sum(word in words for registered, words in found if not registered),
            sum(words.count(word) for _, words in found),
        )
        for word in WORDS
    }
    return uses, operators, len(found) - operators


def lines_of(path: Path) -> tuple[int, int]:
    """Return the lines of a file, and those of them that are code: without blank ones, comments and docstrings."""
    source = path.read_bytes()
    text = source.decode()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
    }
    other = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    code = {
        line
        for token in tokenize.tokenize(BytesIO(source).readline)
        if token.type not in other and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(text.splitlines()), len(code - strings)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.words", description=__doc__)
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument(
        "--files", nargs="*", default=[f"registry/{name}.py" for name in PROTOCOL], help="whose lines are counted"
    )
    options = parser.parse_args()
    lines = {file: lines_of(options.tree / file) for file in options.files if (options.tree / file).exists()}
    total = tuple(map(sum, zip(*lines.values(), strict=True))) if lines else (0, 0)
    print(f"\nLines of the protocol: {', '.join(set(options.files) - lines.keys()) or 'none'} not there\n")
    print(table(["", "lines", "of code"], [[name, *map(str, each)] for name, each in [*lines.items(), ("", total)]]))
    uses, operators, bases = count(options.tree)
    print(f"\nClasses that use a word, of {operators} operators and {bases} other classes under pipes/\n")
    rows = [[word, str(use.operators), str(use.bases), str(use.uses)] for word, use in uses.items()]
    print(table(["", "operators", "other classes", "uses"], rows))
    words = sum(1 for use in uses.values() if use.uses)
    print(f"\n{words} words; {sum(use.operators for use in uses.values())} times that an operator has one")


if __name__ == "__main__":
    main()
