"""The code in the pages of documentation runs, and explain finds no mistake in its chains."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

import videos
from penstock.cli import main
from ranks import run_programs
from watched import Watched, watched_program

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {*DOCS.glob("*.md"), *DOCS.glob("concepts/*.md")} - {DOCS / "trainers.md"}  # test_trainers.py runs its programs
BLOCKS = [
    pytest.param(block, id=f"{page.stem} {number}")
    for page in sorted(PAGES)
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def run_block(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block as the main module in a folder, and fail if explain finds mistakes in its chains."""
    watched = Watched()
    watched.begin(monkeypatch.setattr)
    monkeypatch.chdir(folder)
    exec(compile(block, "block.py", "exec"), {"__name__": "__main__"})
    assert not watched.mistakes, "\n".join(watched.mistakes.values())


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_code_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "torchcodec" in block and videos.LACKING:
        pytest.skip(videos.LACKING)
    # Other processes, or plain pickles, import its module; or it changes Penstock for the rest of the process.
    if any(sign in block for sign in ("__main__", "check_dataset(", "compat.install()")):
        (tmp_path / "block.py").write_text(watched_program(block))
        run_programs(tmp_path / "block.py", {tmp_path / "block": {**os.environ}}, seconds=50)
    else:
        run_block(block, tmp_path, monkeypatch)


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) >= 7


def test_a_mistake_in_a_block_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = "import penstock as ps\nlist(ps.iter.IterableWrapper(range(9)).batch(2).shuffle())\n"
    with pytest.raises(AssertionError, match=r"shuffle comes after batch\."):
        run_block(block, tmp_path, monkeypatch)


COMMAND_LINE = (DOCS / "command_line.md").read_text()
COMMANDS = re.findall(
    r"^\$ penstock (.*)\n((?:(?!\$ penstock).*\n)*)",
    "".join(re.findall(r"```console\n(.*?)```", COMMAND_LINE, re.DOTALL)),
    re.MULTILINE,
)


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_writes_what_the_page_says(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(re.findall(r"```python\n(.*?)```", COMMAND_LINE, re.DOTALL)[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "train", raising=False)
    name, *_ = arguments = shlex.split(command)
    status = main(arguments)
    told = capsys.readouterr()
    assert output in ("", told.out + told.err)
    assert status == (0 if told.out else 1 if name == "ops" else 2)


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) >= 8
