"""Every example in the docstrings runs and shows what it says, and every operator has one."""

from __future__ import annotations

import doctest
import inspect
import itertools
import pkgutil
import re
import runpy
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock import IterDataPipe
from penstock.cli.demo import BUILT_IN
from penstock.datasets import Dataset, registry
from penstock.pipes.groups import GROUPS
from penstock.registry import operators, walk
from penstock.testing.examples import example_names, maker_of_example
from watched import Watched

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def modules() -> Iterator[str]:
    """The modules of the installed package, whose folders lie where pytest would not import them as what they are."""
    for package in SETUPTOOLS["packages"]:
        if package == "penstock_plugins":  # a stub, which is not there at run time
            continue
        yield package
        # Not all of __path__: in the source tree, the project's own folder is on penstock's.
        for found in pkgutil.iter_modules(import_module(package).__path__[:1], f"{package}."):
            if not found.name.endswith("__main__"):
                yield found.name


@pytest.mark.parametrize("name", sorted({*modules()}))
def test_the_examples_of_a_module_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_entries", {**operators})  # what they register is gone afterwards
    module = import_module(name)
    methods = {*vars(IterDataPipe)}
    finder, names = doctest.DocTestFinder(exclude_empty=True), example_names(name)
    tests = finder.find(module, name, extraglobs=names)
    for data in vars(module).values():  # data sets are neither functions nor classes
        if isinstance(data, Dataset) and data.__module__ == name:
            tests += finder.find(data, data.title, module=module, globs={}, extraglobs=names)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    watched = Watched()
    watched.begin(monkeypatch.setattr)
    for test in tests:
        runner.run(test, out=report.append)
    for registered in vars(IterDataPipe).keys() - methods:  # the stubs would have it
        delattr(IterDataPipe, registered)
    assert not runner.failures, "".join(report)
    assert not watched.mistakes, "\n".join(watched.mistakes.values())
    assert runner.tries or ">>>" not in inspect.getsource(module)


def test_every_file_of_the_package_is_among_the_modules() -> None:
    packages = {ROOT / folder: package for package, folder in SETUPTOOLS["package-dir"].items()}
    names = {
        ".".join((package, *file.relative_to(folder).with_suffix("").parts))
        for folder, package in packages.items()
        for file in folder.rglob("*.py")
        if not file.stem.startswith("__") and next(each for each in file.parents if each in packages) == folder
    }
    assert names
    assert names <= {*modules()}


@pytest.mark.filterwarnings("ignore:with buffer_size=-1")
@pytest.mark.parametrize(
    "cls",
    [
        pytest.param(entry.cls, id=f"{entry.kind}-{entry.cls.__name__}")
        for entry in operators.values()
        if entry.cls.__module__.startswith("penstock.")
    ],
)
def test_every_operator_says_what_comes_out_and_shows_it_without_a_mistake(cls: type) -> None:
    assert inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].endswith(".")
    dp: Any = maker_of_example(cls)()
    # Not only at the end: of those that give several pipes the example shows one, or what joins them.
    assert cls in map(type, walk(dp))
    assert dp.explain().warnings == []
    assert str(dp.explain()).startswith("Order\n")


def test_the_page_has_each_operator_of_ours_once() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_operators.py"))
    ours = {entry.name for entry in operators.values() if entry.cls.__module__.startswith("penstock.")}
    listed = [name for _, names in GROUPS.values() for name in names.split()]
    assert sorted(listed) == sorted(ours), "enter it in a group of pipes/groups.py"
    assert made["PAGE"].read_text() == made["page"](), "run `python docs/make_operators.py`"


def test_the_page_of_data_sets_has_all_of_them() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_datasets.py"))
    assert made["PAGE"].read_text() == made["page"](), "run `python docs/make_datasets.py`"
    named = {each.name for each in made["data_sets"]()}
    ours = {name for name in registry.list() if registry._entered[name].__module__.startswith("penstock.datasets.")}
    assert named == ours


def test_the_code_in_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, operator = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "__main__", "itertools": itertools}
    watched = Watched()
    watched.begin(monkeypatch.setattr)
    exec(chain.replace("s3://bucket/digits", str(BUILT_IN)).replace("...\n", "break\n"), names)
    assert watched.chains
    assert not watched.mistakes
    assert names["images"].shape == (32, 1, 8, 8)
    assert names["labels"].shape == (32,)
    exec(operator, names)
    assert list(names["ps"].iter.IterableWrapper("abc").pairwise()) == [("a", "b"), ("b", "c")]
