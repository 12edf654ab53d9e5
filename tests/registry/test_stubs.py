from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.registry.stubs import penstock_stubs

OWN = Path(__file__).parents[1] / "typing"


def test_the_stubs_have_each_operator_of_ours() -> None:
    stubs = penstock_stubs()
    assert {"/".join(file.parts[-2:]) for file in stubs} >= {"iter/__init__.pyi", "map/__init__.pyi"}
    assert {file.name for file in stubs} == {"methods.pyi", "index.py", "__init__.pyi"}
    for file, text in stubs.items():
        assert file.read_text(encoding="utf-8") == text, "run `penstock stubs penstock`"


def stubs(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """The definitions, classes and imports in each stub that `penstock stubs` writes in a folder."""
    command = [sys.executable, "-m", "penstock", "stubs", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    written = [folder / line.removeprefix("wrote ") for line in done.stdout.splitlines()]
    lines = {file.stem: map(str.strip, file.read_text().splitlines()) for file in written}
    return {
        stem: [line for line in each if line.startswith(("def ", "class ", "from own"))] for stem, each in lines.items()
    }


def test_the_stubs_of_all_plug_ins_are_written_in_one_go(tmp_path: Path) -> None:
    """Of two: own_operators carries no stub, my_operators carries one."""
    shutil.copytree(OWN, tmp_path, dirs_exist_ok=True)
    assert main(["new", "my_operators", "--into", str(tmp_path / "made")]) == 0
    shutil.copytree(tmp_path / "made" / "my_operators" / "src" / "my_operators", tmp_path / "my_operators")
    with (tmp_path / "own_operators-1.0.dist-info" / "entry_points.txt").open("a") as file:
        file.write("my = my_operators\n")
    assert stubs(tmp_path) == {
        "__init__": [
            "class IterMethods(my_operators.penstock_methods.IterMethods[T_co], Generic[T_co]):",
            "def __iter__(self) -> collections.abc.Iterator[T_co]: ...",
            "def halves(self, buffer_size: int = 10) -> typing.Any:",
            "def pairwise(self) -> own_operators.Pairer[T_co]:",
            "def shout(self: collections.abc.Iterable[str], *, marks: int = 1) -> own_operators.Shouter:",
            "class MapMethods(my_operators.penstock_methods.MapMethods[T_co], Generic[T_co]):",
            "def __iter__(self) -> collections.abc.Iterator[T_co]: ...",
        ],
        "iter": [f"from own_operators import {name} as {name}" for name in ("Halver", "Pairer", "Shouter")],
        "map": [],
    }
    assert "from my_operators.every_nth import EveryNth as EveryNth" in (
        tmp_path / "typings" / "penstock_plugins" / "iter.pyi"
    ).read_text(encoding="utf-8")
    carried = tmp_path / "my_operators" / "penstock_methods.pyi"
    as_made = carried.read_text(encoding="utf-8")
    carried.unlink()
    assert (
        "def every_nth(self, n: int) -> my_operators.every_nth.EveryNth[T_co]:"
        in stubs(tmp_path, "my_operators", "--inside")["penstock_methods"]
    )
    assert carried.read_text(encoding="utf-8") == as_made


@pytest.mark.parametrize(
    ("package", "message"),
    [("no_such_package", "No module named 'no_such_package'"), ("json", "'json' registers no operator")],
)
def test_a_package_without_operators_is_an_error(
    package: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["stubs", package, "--output", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no plug-in is installed: name the packages"),
        (["--inside"], "--inside writes into packages: name them"),
        (["own_module", "--inside"], "'own_module' is a module: only a package, which is a folder, can carry a stub"),
        (["own_module", "--installed"], "leave --installed out"),
        (["own_folder"], "which has no __init__.py, for the package 'own_folder'"),
    ],
)
def test_stubs_that_cannot_be_written_are_an_error(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "own_module.py").write_text(
        "import penstock as ps\n@ps.functional_datapipe('own_step')\nclass Own(ps.IterDataPipe): pass\n"
    )
    (tmp_path / "own_folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("penstock.registry.stubs.entry_points", lambda group: ())
    monkeypatch.setattr("penstock.cli.stubs.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_module", raising=False)
    assert main(["stubs", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_the_stubs_of_an_environment_replace_the_empty_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "penstock_plugins").mkdir()
    monkeypatch.setattr("penstock.cli.stubs.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setattr("penstock.cli.stubs.plugged_in_stubs", lambda _: {Path("penstock_plugins/iter.pyi"): "stub"})
    assert main(["stubs", "--installed"]) == 0
    assert (tmp_path / "penstock_plugins" / "iter.pyi").read_text() == "stub"
