"""A chain shows how far it is, to those who watch, and changes nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.bases.writing import write_shards
from penstock.views import read_all
from terminal import Terminal, on_terminal, writing_to_terminal

pytestmark = pytest.mark.timeout(60)


def numbers(*, wrong: tuple[int, ...] = ()) -> Any:
    def double(number: int) -> int:
        if number in wrong:
            raise ValueError("wrong")
        return 2 * number

    return ps.iter.IterableWrapper(range(6)).map(double, on_error="skip" if wrong else "raise")


@writing_to_terminal
def test_the_bar_of_a_chain_has_its_number_its_length_and_what_it_lost(terminal: Terminal) -> None:
    assert list(numbers().progress("doubles", unit="numbers")) == [0, 2, 4, 6, 8, 10]
    assert terminal.last_line.startswith("doubles: 100%|")
    assert "6/6 [00:00<00:00, " in terminal.last_line
    assert "numbers/s]" in terminal.last_line
    assert list(numbers(wrong=(1, 4)).progress()) == [0, 4, 6, 10]
    assert terminal.last_line.startswith("4 items [")
    assert terminal.last_line.endswith(", skipped 2]")


@writing_to_terminal
def test_a_resumed_pass_goes_on_counting(terminal: Terminal) -> None:
    dp = numbers().progress("doubles")
    iterator = iter(dp)
    assert [next(iterator) for _ in range(4)] == [0, 2, 4, 6]
    resumed = numbers().progress("doubles")
    resumed.load_state_dict(dp.state_dict())
    del iterator  # which ends its bar
    before = len(terminal.getvalue())
    assert list(resumed) == [8, 10]
    assert terminal.getvalue()[before:].lstrip("\r").startswith("doubles:  67%|")


@pytest.mark.parametrize("end", ["close", "replace", "fail"])
@writing_to_terminal
def test_a_pass_that_is_given_up_ends_its_bar(end: str, terminal: Terminal) -> None:
    dp = numbers().map(lambda number: 1 // (number - 4)).progress()
    iterator: Any = iter(dp)
    next(iterator)
    if end == "close":
        iterator.close()
    elif end == "replace":
        iter(dp)
    else:
        with pytest.raises(ZeroDivisionError):
            list(iterator)
    assert "penstock-progress" not in {thread.name for thread in threading.enumerate()}
    assert terminal.getvalue().endswith("\n")


@writing_to_terminal
def test_reading_all_shows_a_bar_after_a_while(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting_for(text: str) -> Iterator[bool]:
        yield terminal.shown(text)

    assert ps.iter.IterableWrapper(range(3)).take_all() == [0, 1, 2]
    assert terminal.getvalue() == ""
    monkeypatch.setattr(read_all, "BAR_AFTER", 0.01)
    assert ps.iter.IterableWrapper(waiting_for("take_all: 0 items"), deepcopy=False).take_all() == [True]
    assert ps.iter.IterableWrapper(waiting_for("count: 0 items"), deepcopy=False).count() == 1
    assert ps.iter.IterableWrapper(waiting_for("mine: 0 items"), deepcopy=False).progress("mine").count() == 1
    before, _, last = terminal.getvalue().partition("mine: ")
    assert "\n" not in before  # they leave nothing behind
    assert "count: " not in last  # a step of the chain had a bar


@writing_to_terminal
def test_writers_show_how_much_they_have_written(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(write_shards, "BAR_AFTER", 0.01)

    def row(number: int) -> dict[str, Any]:
        if number == 5:  # in the second file
            assert terminal.shown("write_csv: 11.0B [")  # a line for each row, and the names of the columns
            assert terminal.shown("B/s, 1 files]")
        return {"id": number}

    rows = ps.iter.IterableWrapper(range(6)).map(row)
    assert [number for _, number in rows.write_csv(str(tmp_path / "{shard}.csv"), rows_per_file=3)] == [3, 3]
    assert terminal.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip() == ""


def test_text_is_needed_for_the_words_of_a_bar() -> None:
    with pytest.raises(TypeError, match="must be text, and are 3 and 'items'"):
        numbers().progress(3)


PROGRAM = """
import penstock as ps
from penstock.pipes.iter import IterableWrapper

if __name__ == "__main__":
    dp = IterableWrapper(range(6)).sharding_filter().progress("inside")
    service = ps.MultiProcessingReadingService(num_workers=1)
    with ps.DataLoader2(dp, reading_service=service, progress=True) as loader:
        print(sum(loader))
    print(sum(dp.progress("outside")))
"""


def test_on_a_real_terminal_the_main_process_shows_its_bars_and_workers_none(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    status, text = on_terminal("program.py", cwd=tmp_path)
    assert status == 0, text
    loading, _, here = text.partition("15\r\n")
    assert "epoch 1: 100%|" in loading
    assert "inside" not in loading
    assert "outside: 100%|" in here
    assert "inside: 100%|" in here


NOTEBOOK = """
import warnings
warnings.simplefilter("error")
import penstock as ps
list(ps.iter.IterableWrapper(range(6)).progress("in a notebook"))
"""


@pytest.mark.timeout(120)
def test_in_a_notebook_there_is_a_bar_without_a_warning(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    told = "".join(output.get("text", "") + str(output.get("data", "")) for output in notebook.cells[0].outputs)
    assert "in a notebook: 100%" in told
    assert "6/6" in told
    assert "[0, 1, 2, 3, 4, 5]" in told
    assert "arning" not in told
