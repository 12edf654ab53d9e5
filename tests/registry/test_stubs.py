from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.registry import operators
from penstock.registry.stubs import penstock_stubs

OWN = Path(__file__).parents[1] / "typing"


@pytest.mark.parametrize("name", ["methods.pyi", "index.py", "iter/__init__.pyi", "map/__init__.pyi"])
def test_the_stubs_have_each_operator_of_ours(name: str) -> None:
    ((file, text),) = [(file, text) for file, text in penstock_stubs().items() if file.as_posix().endswith(name)]
    assert file.read_text(encoding="utf-8") == text, "run `penstock stubs penstock`"


def test_every_method_is_in_the_stubs_with_its_docstring() -> None:
    (methods,) = [text for file, text in penstock_stubs().items() if file.name == "methods.pyi"]
    ours = [entry for entry in operators.values() if entry.method and entry.cls.__module__.startswith("penstock.")]
    assert len(ours) > 30
    for entry in ours:
        assert f"    def {entry.name}(" in methods
        assert f'"""{entry.summary}' in methods


def test_the_stub_of_a_users_package_has_its_methods_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli", "stubs", "own_operators", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=OWN, capture_output=True, text=True, timeout=50)
    stub = tmp_path / "penstock_plugins" / "__init__.pyi"
    assert (done.returncode, done.stdout.split()) == (0, ["wrote", str(stub)]), done.stderr
    lines = [line.strip() for line in stub.read_text().splitlines()]
    assert [line for line in lines if line.startswith("def ")] == [
        "def __iter__(self) -> collections.abc.Iterator[T_co]: ...",
        "def halves(self, buffer_size: int = 10) -> typing.Any:",
        "def pairwise(self) -> own_operators.Pairer[T_co]:",
        "def shout(self: collections.abc.Iterable[str], *, marks: int = 1) -> own_operators.Shouter:",
        "def __iter__(self) -> collections.abc.Iterator[T_co]: ...",
    ]
    assert '"""Yield each text in capitals, with so many exclamation marks."""' in lines


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
