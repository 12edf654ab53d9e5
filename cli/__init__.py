"""The command line: `penstock` and its commands."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from .errors import TheirError, WrongUse, print_as_theirs

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
    chosen = parser.parse_args(arguments)
    if chosen.version:
        from .. import __version__

        print(f"penstock {__version__}")
        return 0
    if chosen.command is None:
        parser.print_help()
        return 0
    try:
        return _run_command(chosen)
    except WrongUse as error:
        print(f"penstock {chosen.command}: {error}", file=sys.stderr)
        return _WRONG_USE
    except TheirError as error:
        print_as_theirs(error.raised)
        return _FAILED


def _run_command(chosen: argparse.Namespace) -> int:
    """Run a command; only what it needs is imported."""
    if chosen.command == "new":
        from .new import write_package

        return write_package(chosen.name, chosen.into)
    if chosen.command == "stubs":
        from .stubs import write_stubs

        return write_stubs(chosen.packages, chosen.output, chosen.installed, chosen.inside)
    if chosen.command == "ops":
        from .ops import show_operators

        return show_operators(chosen.words)
    if chosen.command == "demo":
        from .demo import run_demo

        try:
            return run_demo(chosen.data, chosen.workers, chosen.epochs, chosen.device)
        except (ImportError, FileNotFoundError, ValueError) as error:  # missing packages or files, wrong arguments
            raise WrongUse("".join(traceback.format_exception_only(error)).rstrip()) from None
    from . import chains

    if chosen.command == "graph":
        return chains.draw(chosen.found, chosen.arg, chosen.output)
    if chosen.command == "explain":
        return chains.explain_chain(chosen.found, chosen.arg, chosen.strict)
    return chains.profile_chain(chosen.found, chosen.arg, chosen.items, chosen.trace)


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="penstock", description=_OVERVIEW, formatter_class=plain)
    parser.add_argument("--version", action="store_true", help="print the version, and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    ops = commands.add_parser(
        "ops",
        help="find operators by words, or explain one",
        description="List the operators whose name, description or group has all the words; without words, all of them "
        "by what they are for. The exact name of an operator shows what it does, its parameters and an example.",
    )
    ops.add_argument("words", metavar="WORD", nargs="*", help="such as: tar archives")

    of_chain = argparse.ArgumentParser(add_help=False)
    of_chain.add_argument("found", metavar="MODULE:NAME", help="such as train:chain")
    of_chain.add_argument(
        "--arg",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the function: a Python literal, or else text",
    )
    graph = commands.add_parser(
        "graph", parents=[of_chain], help="draw a chain", description="Draw a chain.", epilog=_FOUND
    )
    graph.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="an .svg, .png or .mmd to write (default: a tree, as text)"
    )
    explain = commands.add_parser(
        "explain",
        parents=[of_chain],
        help="say what a chain will do, before anything is read",
        description="Say what a chain will do, before anything is read, and warn of what is likely wrong.",
        epilog=_FOUND,
    )
    explain.add_argument("--strict", action="store_true", help="exit with 1 if there are warnings")
    profile = commands.add_parser(
        "profile",
        parents=[of_chain],
        help="read a chain, and say where the time goes",
        description="Read a chain, and say in which steps the time goes.",
        epilog=_FOUND,
    )
    profile.add_argument("-n", metavar="ITEMS", dest="items", type=int, help="how many items to read (default: all)")
    profile.add_argument(
        "--trace", metavar="FILE", type=Path, help="a trace to write, for chrome://tracing or Perfetto"
    )

    demo = commands.add_parser("demo", help="train a small model on digit images from tar shards")
    demo.add_argument(
        "--data", metavar="URL", help="a folder of shards, at any URL that fsspec reads (default: built in)"
    )
    demo.add_argument("--workers", type=int, default=2, help="processes that read (default: 2)")
    demo.add_argument("--epochs", type=int, default=10, help="passes over the training shards (default: 10)")
    demo.add_argument("--device", help="where to train (default: the accelerator, or the CPU without one)")
    new = commands.add_parser(
        "new",
        help="write a package of your own operators, ready to be published",
        description="Write a package with one operator, its tests, types and stub, to a new folder of its name.",
    )
    new.add_argument("name", metavar="NAME", help="such as my_operators")
    new.add_argument("--into", metavar="FOLDER", type=Path, default=Path(), help="where the folder is made")
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
    return parser
