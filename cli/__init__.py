"""The command line: `penstock demo` and `penstock stubs`."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="penstock", description="Small, composable DataPipes for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="train a small model on digit images from tar shards")
    demo.add_argument(
        "--data", metavar="URL", help="a folder of shards, at any URL that fsspec reads (default: built in)"
    )
    demo.add_argument("--workers", type=int, default=2, help="processes that read (default: 2)")
    demo.add_argument("--epochs", type=int, default=10, help="passes over the training shards (default: 10)")
    demo.add_argument("--device", help="where to train (default: the accelerator, or the CPU without one)")
    stubs = commands.add_parser(
        "stubs",
        help="write typed stubs of your own operators, for type checkers and editors",
        description="Write a stub that has the operators of packages as methods of all pipes. pyright and Pylance look "
        "into the folder 'typings' by themselves; mypy does with the option mypy_path = \"typings\".",
    )
    stubs.add_argument("packages", metavar="PACKAGE", nargs="+", help="what to import for the operators")
    stubs.add_argument("--output", metavar="FOLDER", type=Path, default=Path("typings"), help="(default: typings)")
    chosen = parser.parse_args(arguments)

    if chosen.command == "stubs":
        from .stubs import write_stubs

        return write_stubs(chosen.packages, chosen.output)

    from .demo import run  # only this command needs the extra

    try:
        return run(chosen.data, chosen.workers, chosen.epochs, chosen.device)
    except (ImportError, FileNotFoundError, ValueError) as error:  # missing packages or files, wrong arguments
        parser.exit(2, f"penstock demo: {''.join(traceback.format_exception_only(error))}")
