"""The command line: what it finds, what it says, and how it exits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cli import main
from penstock.pipes.groups import GROUPS
from penstock.registry import operators
from penstock.registry.registration import functions_of_all_pipes
from penstock.registry.synonyms import SYNONYMS
from terminal import on_terminal

pytestmark = pytest.mark.timeout(60)

MODULE = """
import penstock as ps

def chain(number=10, path="data"):
    return ps.iter.IterableWrapper(range(number)).map(divide).batch(2)

def divide(number):
    return 1 // (number - 3)

def loader():
    return ps.DataLoader2(chain())

def mapped():
    return ps.map.SequenceWrapper([1, 2])

def fails():
    try:
        chain(number="ten")
    except TypeError as error:
        raise KeyError("their own") from error

def reads():
    return chain().take_all()

def interrupted():
    raise KeyboardInterrupt

def leaves():
    raise SystemExit(7)

class Holder:
    chain = chain()

ready = chain()
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("train", "broken", "wrong", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Methods that note with what they were called, in place of those that look at a chain."""
    seen: list[Any] = []

    def visualize(self: Any, path: str | None = None) -> str:
        seen.append((self, path))
        return "a tree"

    def explain(self: Any) -> Any:
        seen.append(self)
        warnings = ["drawn twice"] if len(seen) > 1 else []
        return Told("a text", warnings)

    def profile(self: Any, n: int | None = None) -> Any:
        seen.append((self, n))
        return Told("a table", [])

    for kind in (ps.IterDataPipe, ps.MapDataPipe, ps.DataLoader2):
        for method in (visualize, explain, profile):
            monkeypatch.setattr(kind, method.__name__, method, raising=False)
    return seen


class Told:
    def __init__(self, text: str, warnings: list[str]) -> None:
        self.text, self.warnings = text, warnings

    def __str__(self) -> str:
        return self.text

    def save(self, path: str) -> None:
        Path(path).write_text("a trace")


# penstock, and penstock ops


def test_alone_it_says_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {ps.__version__}\n"
    assert main([]) == 0
    told = capsys.readouterr().out
    for command in ("ops", "graph", "explain", "profile", "demo", "stubs"):
        assert f"\n    {command} " in told
    assert "penstock ops tar archives" in told


@pytest.mark.parametrize("arguments", [["grph"], ["new"], ["profile", "train:chain", "-n", "many"]])
def test_a_wrong_use_of_the_parser_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: penstock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("zip archives", ["load_from_zip", "load_from_rar"]),
        ("tokenise", ["map", "map_batches"]),
        ("Resize", ["map", "read_images", "routed_decode"]),
        ("train-test-split", ["train_test_split"]),
        ("gpu", ["to_device", "pin_memory"]),
        ("csv label", ["join", "read_csv"]),
        ("weighted sampler", ["Sampler", "mix"]),
        ("num_workers", ["sharding_filter", "processpool_map"]),
        ("zip archives by num workers", ["sharding_filter"]),
    ],
)
def test_words_of_other_libraries_find_operators(
    words: str, first: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", *words.split()]) == 0
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines()[: len(first)]] == first


@pytest.mark.parametrize(
    ("words", "begin", "then"),
    [
        ("resume", "Each chain resumes: loader.state_dict() and loader.load_state_dict(", ""),
        ("distributed", "  sharding_filter ", "DataLoader2(dp, reading_service=DistributedReadingService()).\n"),
        ("repeat", ".repeat(", "  cycle "),
        ("build_vocab", ".build_vocab(*, min_freq: int = 1", ""),
        ("share work", "  shard", "  fullsync "),
        ("iter.shuffle", ".shuffle(*, buffer_size", ""),
        ("Shuffler", ".shuffle(*, buffer_size", ""),
        ("IterableWrapper", "ps.iter.IterableWrapper(iterable", ""),
        ("pairs of a running number", ".enumerate(starting_index", ""),  # nothing else has these words
    ],
)
def test_a_name_or_a_question_is_answered(
    words: str, begin: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", *words.split()]) == 0
    told = capsys.readouterr().out
    assert told.startswith(begin)
    assert then in told


def test_each_word_of_other_libraries_is_for_something_that_there_is() -> None:
    there = {entry.name for entry in operators.values()} | functions_of_all_pipes().keys()
    for word, names in SYNONYMS.items():
        assert len({*names.split()}) == len(names.split()), word
        assert {*names.split()} - there <= {"join"}, word
        assert word == word.lower()


def test_a_name_explains_an_operator_of_either_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "shuffle"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        ".shuffle(*, buffer_size: int = 10000, unbatch_level: int = 0)\npenstock.pipes.iter.shuffle.Sh"
    )
    assert "place. A buffer at least as large as the stream shuffles it fully; size 1 keeps the order." in told
    assert ">>> dp = IterableWrapper(range(6)).shuffle().set_seed(1)\n>>> sorted(dp)\n[0, 1, 2, 3, 4, 5]\n" in told
    assert ".shuffle(*, indices: Iterable[Any] | None = None)\npenstock.pipes.map.shuffle.Shuffler of map-style" in told
    assert "  shuffle_rows " in told.partition("Others of this kind\n")[2]


def test_without_words_all_are_listed_by_what_they_are_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "_entries", {**operators})

    @ps.functional_datapipe("of_a_program")
    class OfAProgram(ps.IterDataPipe[Any]):
        """Yield what a program needs."""

    del ps.IterDataPipe.of_a_program  # the stubs would have it
    assert main(["ops"]) == 0
    told = capsys.readouterr().out
    for title, (_, names) in GROUPS.items():
        assert f"{title}\n  {names.split()[0]} " in told
    assert told.count("  shuffle ") == 1
    assert "Of plug-ins and programs\n  of_a_program  Yield what a program needs.\n" in told


def test_no_operator_exits_with_1_and_the_nearest_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "shufle"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("penstock ops: no operator matches 'shufle': did you mean 'shuffle' or ")


def test_there_are_colours_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(**environment: str) -> str:
        for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert main(["ops", "pairs"]) == 0
        return capsys.readouterr().out

    assert "\x1b" not in told()
    assert "\x1b[36m" in told(FORCE_COLOR="1")
    assert "\x1b[36m" not in told(FORCE_COLOR="1", NO_COLOR="1")


def test_on_a_terminal_there_are_colours_and_text_is_set_to_its_width(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(
        "from penstock.cli import main\nmain(['ops', 'add_index'])\nmain(['ops', 'dict'])"
    )
    status, text = on_terminal("both.py", cwd=tmp_path, env={"NO_COLOR": ""}, columns=60)
    assert status == 0
    explained, _, listed = text.partition(">>> ")
    assert "`index_name`" not in explained
    assert "index_name" in explained
    lines = [line for line in listed.split("\r\n") if "\x1b[36m" in line]
    assert any(line.endswith("…") for line in lines)


@pytest.mark.parametrize("command", ["penstock ops", "penstock --help"])
def test_a_closed_pipe_is_silent(command: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m {command} | true"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert done.stderr == ""


# penstock graph, explain and profile


def test_a_picture_is_written_or_printed_as_text(
    folder: Path, looks: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "train:chain"]) == 0
    assert main(["graph", "train:loader", "-o", "chain.svg"]) == 0
    assert main(["graph", "train:mapped", "--output", "chain.png"]) == 0
    assert capsys.readouterr().out == "a tree\nwrote chain.svg\nwrote chain.png\n"
    assert [path for _, path in looks] == [None, "chain.svg", "chain.png"]
    assert [type(pipe).__name__ for pipe, _ in looks] == ["Batcher", "DataLoader2", "SequenceWrapper"]


def test_warnings_fail_if_asked_for(folder: Path, looks: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--strict", "train:chain"]) == 0
    assert main(["explain", "train:chain"]) == 0  # with a warning
    assert main(["explain", "train:chain", "--strict"]) == 1
    assert capsys.readouterr().out == "a text\n" * 3


def test_chains_and_loaders_are_profiled(folder: Path, looks: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "train:chain", "-n", "5", "--trace", "trace.json"]) == 0
    assert main(["profile", "train:loader", "-n", "1"]) == 0
    assert capsys.readouterr().out == "a table\nwrote trace.json\na table\n"
    (chain, items), *of_loader = looks
    assert (type(chain).__name__, items) == ("Batcher", 5)
    assert [type(loader).__name__ for loader, _ in of_loader] == ["DataLoader2"] * 2  # before and after it is read
    assert of_loader[0][0].valid_iterator_id == 0
    assert (folder / "trace.json").read_text() == "a trace"


@pytest.mark.parametrize(
    "address", ["train:chain", "train.py:chain", "train:ready", "train:Holder.chain", "deep/other.py:chain"]
)
def test_chains_are_found(address: str, folder: Path, looks: list[Any]) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "beside.py").write_text("number = 4")
    (folder / "deep" / "other.py").write_text(f"from beside import number\n{MODULE}")
    assert main(["explain", address]) == 0
    assert repr(looks[0]) == "IterableWrapper(range(0, 10)).map(divide).batch(2)"


def test_arguments_are_literals_or_text(folder: Path, looks: list[Any]) -> None:
    assert main(["explain", "train:chain", "--arg", "number=4", "--arg", "path=a/b=c"]) == 0
    assert repr(looks[0]) == "IterableWrapper(range(0, 4)).map(divide).batch(2)"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("explain train", "'train' is not like module:name or path/to/file.py:name"),
        ("explain trian:chain", "no module 'trian' is in {folder} or installed: did you mean 'train'?"),
        ("explain train:chian", "train has no 'chian': did you mean 'chain'?"),
        ("explain deep/train.py:chain", "there is no file 'deep/train.py'"),
        ("explain train:number", "train:number is of type int: name a chain, a loader or a function"),
        ("explain train:divide --arg number=1", "train:divide returns int, and should return a chain"),
        ("explain train:divide", "divide(number): missing a required argument: 'number'; give --arg number=…"),
        ("explain train:chain --arg size=3", "unexpected keyword argument 'size'; give --arg number=… --arg path"),
        ("explain train:chain --arg size", "--arg size is not like --arg name=value"),
        ("explain train:ready --arg number=3", "train:ready is a Batcher, and takes no --arg: name a function"),
        ("graph train:chain -o chain.gif", "written to an .svg, .png or .mmd, and not to 'chain.gif'"),
        ("graph train:chain -o no/chain.svg", "there is no folder 'no'"),
        ("profile train:chain --trace no/trace.json", "there is no folder 'no'"),
        ("profile train:chain -n 0", "-n is a number of items, at least 1, and not 0"),
    ],
)
def test_a_wrong_address_or_option_exits_with_2(
    given: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"penstock {given.split()[0]}: ")
    assert told.format(folder=folder) in said.err
    assert said.err.count("\n") == 1


def frames(traceback: str) -> list[str]:
    return [line.split(", in ")[1] for line in traceback.splitlines() if line.startswith("  File ") and ", in " in line]


def test_an_error_of_the_function_has_the_note_and_none_of_our_frames(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "train:fails"]) == 1
    told = capsys.readouterr().err
    assert told.endswith("KeyError: 'their own'\n")
    assert "TypeError: 'str' object cannot be interpreted as an integer" in told
    assert frames(told) == ["fails", "chain", "fails"]  # of the cause, and then of the error
    assert "penstock/" not in told
    assert main(["explain", "train:reads"]) == 1
    told = capsys.readouterr().err
    assert frames(told) == ["reads", "divide"]
    assert told.endswith("by zero\npenstock: raised in Mapper(divide), on 3\n")


def test_an_error_of_the_module_is_shown_as_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    assert main(["explain", "broken:chain"]) == 1
    told = capsys.readouterr().err
    assert frames(told) == ["<module>"]
    assert told.endswith("ModuleNotFoundError: No module named 'nothing_of_this_name'\n")
    (folder / "wrong.py").write_text("number = = 3\n")
    assert main(["explain", "wrong.py:chain"]) == 1
    assert "    number = = 3\n" in (told := capsys.readouterr().err)
    assert told.endswith("SyntaxError: invalid syntax\n")


def test_ctrl_c_exits_with_130_and_a_function_with_its_own_status(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "train:interrupted"]) == 130
    assert capsys.readouterr() == ("", "")
    with pytest.raises(SystemExit) as ended:
        main(["explain", "train:leaves"])
    assert ended.value.code == 7
