"""The command line: `penstock` and its commands."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import TheirError, WrongUse, print_as_theirs

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["main"]

_OVERVIEW = """\
Small, composable DataPipes for PyTorch.

  penstock ops tar archives                    find operators by words
  penstock ops shuffle                         explain one, with an example
  penstock graph train:chain -o chain.svg      draw the chain that chain() in train.py returns
  penstock explain train:chain                 say what it will do, before anything is read
  penstock profile train:chain -n 1000         read it, and say where the time goes
"""
_FOUND = """\
MODULE:NAME is a chain or a DataLoader2, or a function that returns one: train:chain, package.module:chain, or
path/to/train.py:chain. Modules of the current folder are found. --arg gives the function an argument.
"""
_FAILED, _WRONG_USE, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status.

    It is 0, or 1 where the command failed, 2 where it was used in a wrong way, and 130 after Ctrl-C.
    """
    try:
        try:
            return _run(_parser(), arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # such as of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to write is lost silently
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    options = vars(parser.parse_args(arguments))
    if options.pop("version"):
        from .. import __version__

        print(f"penstock {__version__}")
        return 0
    command = options.pop("command")
    if command is None:
        parser.print_help()
        return 0
    run = options.pop("run")
    try:
        return run(**options)  # type: ignore[no-any-return]
    except WrongUse as error:
        print(f"penstock {command}: {error}", file=sys.stderr)
        return _WRONG_USE
    except TheirError as error:
        print_as_theirs(error.raised)
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    """Return the parser. Each command has a function `run`, and its options are named after that function's."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="penstock", description=_OVERVIEW, formatter_class=plain)
    parser.add_argument("--version", action="store_true", help="print the version, and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_ops(commands)
    _add_chain_commands(commands)
    _add_demo(commands)
    _add_new(commands)
    _add_stubs(commands)
    return parser


def _on_call(module: str, name: str) -> Callable[..., int]:
    """Return a function of a module here, which is imported when it is called: a command imports what it needs."""

    def run(**options: Any) -> int:
        return getattr(import_module(f".{module}", __name__), name)(**options)  # type: ignore[no-any-return]

    return run


def _add_ops(commands: _Commands) -> None:
    ops = commands.add_parser(
        "ops",
        help="find operators by words, or explain one",
        description="List the operators whose name, description or group has all the words; without words, all of them "
        "by what they are for. The exact name of an operator shows what it does, its parameters and an example.",
    )
    ops.add_argument("words", metavar="WORD", nargs="*", help="such as: tar archives")
    ops.set_defaults(run=_on_call("ops", "show_operators"))


def _add_chain_commands(commands: _Commands) -> None:
    def add(name: str, purpose: str, description: str, function: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=purpose, description=description, epilog=_FOUND)
        command.add_argument("address", metavar="MODULE:NAME", help="such as train:chain")
        command.add_argument(
            "--arg",
            metavar="NAME=VALUE",
            dest="arguments",
            action="append",
            default=[],
            help="an argument of the function: a Python literal, or else text",
        )
        command.set_defaults(run=_on_call("chains", function))
        return command

    graph = add("graph", "draw a chain", "Draw a chain.", "draw")
    graph.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="an .svg, .png or .mmd to write (default: a tree, as text)"
    )
    explain = add(
        "explain",
        "say what a chain will do, before anything is read",
        "Say what a chain will do, before anything is read, and warn of what is likely wrong.",
        "explain_chain",
    )
    explain.add_argument("--strict", action="store_true", help="exit with 1 if there are warnings")
    profile = add(
        "profile",
        "read a chain, and say where the time goes",
        "Read a chain, and say in which steps the time goes.",
        "profile_chain",
    )
    profile.add_argument("-n", metavar="ITEMS", dest="items", type=int, help="how many items to read (default: all)")
    profile.add_argument(
        "--trace", metavar="FILE", type=Path, help="a trace to write, for chrome://tracing or Perfetto"
    )


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser("demo", help="train a small model on digit images from tar shards")
    demo.add_argument(
        "--data", metavar="URL", dest="url", help="a folder of shards, at any URL that fsspec reads (default: built in)"
    )
    demo.add_argument("--workers", type=int, default=2, help="processes that read (default: 2)")
    demo.add_argument("--epochs", type=int, default=10, help="passes over the training shards (default: 10)")
    demo.add_argument(
        "--device",
        metavar="DEVICE",
        dest="device_name",
        help="where to train (default: the accelerator, or the CPU without one)",
    )
    demo.set_defaults(run=_run_demo)


def _run_demo(**options: Any) -> int:
    from .demo import run_demo

    try:
        return run_demo(**options)
    except (ImportError, FileNotFoundError, ValueError) as error:  # missing packages or files, wrong arguments
        raise WrongUse("".join(traceback.format_exception_only(error)).rstrip()) from None


def _add_new(commands: _Commands) -> None:
    new = commands.add_parser(
        "new",
        help="write a package of your own operators, ready to be published",
        description="Write a package with one operator, its tests, types and stub, to a new folder of its name.",
    )
    new.add_argument("name", metavar="NAME", help="such as my_operators")
    new.add_argument("--into", metavar="FOLDER", type=Path, default=Path(), help="where the folder is made")
    new.set_defaults(run=_on_call("new", "write_package"))


def _add_stubs(commands: _Commands) -> None:
    stubs = commands.add_parser(
        "stubs",
        help="write typed stubs of plug-ins and of your own operators, for type checkers and editors",
        description="Write stubs that have the operators of all installed plug-ins, and of packages, as methods of all "
        "pipes. pyright and Pylance look into the folder 'typings' by themselves; mypy does with the option "
        'mypy_path = "typings".',
    )
    stubs.add_argument("packages", metavar="PACKAGE", nargs="*", help="what to import for operators of your own")
    where = stubs.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="FOLDER", type=Path, default=Path("typings"), help="(default: typings)")
    where.add_argument(
        "--installed", action="store_true", help="write beside the installed Penstock: no option is needed"
    )
    where.add_argument("--inside", action="store_true", help="write into each package the stub that its wheel carries")
    stubs.set_defaults(run=_on_call("stubs", "write_stubs"))
