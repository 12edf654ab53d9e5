"""`penstock new`: what it writes can be installed, tested and published."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from penstock.cli import main


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


def clean_environment(folder: Path) -> Path:
    """Return the Python of a new environment, which sees the packages of this one."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (site / "here.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder / "bin" / "python"


@pytest.mark.timeout(180)
def test_a_new_package_is_built_installed_and_keeps_the_laws(tmp_path: Path) -> None:
    """In a clean environment, which sees the packages of this one, and away from the source of the new one."""
    assert main(["new", "tiny_ops", "--into", str(tmp_path)]) == 0
    made, wheels, users = tmp_path / "tiny_ops", tmp_path / "wheels", tmp_path / "users"
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", wheels, made, cwd=tmp_path)
    (wheel,) = wheels.iterdir()
    assert {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name} == {
        f"tiny_ops/{name}" for name in ("__init__.py", "every_nth.py", "penstock_methods.pyi", "py.typed")
    }

    python = clean_environment(tmp_path / "clean")
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (made / "tests").rename(users)
    told = run(python, "-m", "pytest", "-q", "-rA", "--penstock", "tiny_ops", users, cwd=users)
    assert "PASSED tiny_ops::EveryNth::resumed_after_every_item" in told
    assert "test_every_nth.py::test_it_keeps_the_laws" in told
    assert "failed" not in told


def test_a_program_beside_the_project_finds_its_operators(tmp_path: Path) -> None:
    """The project is installed to be edited, and its folder has the name of the package."""
    assert main(["new", "tiny_ops", "--into", str(tmp_path)]) == 0
    python = clean_environment(tmp_path / "clean")
    install = [*PIP, "--python", python, "install", "--no-deps", "--no-build-isolation", "--no-index"]
    run(*install, "-e", tmp_path / "tiny_ops", cwd=tmp_path)
    program = "import penstock as ps; print(ps.iter.IterableWrapper(range(7)).every_nth(3).take_all())"
    (tmp_path / "program.py").write_text(program)
    for place in (tmp_path, tmp_path / "tiny_ops"):
        assert run(python, tmp_path / "program.py", cwd=place) == "[0, 3, 6]\n"
        assert run(python, "-c", program, cwd=place) == "[0, 3, 6]\n"
    assert f"{tmp_path}/tiny_ops/src/tiny_ops/penstock_methods.pyi" in run(
        python, "-m", "penstock", "stubs", "tiny_ops", "--inside", cwd=tmp_path
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["taken"], "taken exists already: choose another name, or another folder by --into"),
        (["My-Ops"], "'My-Ops' cannot be the name of a package: use lower-case letters, digits and _"),
        (["class"], "'class' cannot be the name of a package"),
        (["../ops"], "'../ops' cannot be the name of a package"),
        (["json"], "'json' is the name of a module that is installed: choose another"),
        (["torch"], "'torch' is the name of a module that is installed: choose another"),
    ],
)
def test_what_cannot_be_made_is_told_in_a_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    assert main(["new", *arguments, "--into", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
