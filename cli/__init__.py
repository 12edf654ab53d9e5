"""The command line: `penstock demo`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="penstock", description="Small, composable DataPipes for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="train a small model on digit images out of tar shards")
    demo.add_argument(
        "--data", metavar="URL", help="a folder of shards, at any URL that fsspec reads (default: built in)"
    )
    demo.add_argument("--workers", type=int, default=2, help="processes that read (default: 2)")
    demo.add_argument("--epochs", type=int, default=10, help="passes over the training shards (default: 10)")
    demo.add_argument("--device", help="where to train (default: the accelerator, or the CPU where there is none)")
    chosen = parser.parse_args(arguments)

    from .demo import run  # it needs the extra, which the other commands do not

    return run(chosen.data, chosen.workers, chosen.epochs, chosen.device)
