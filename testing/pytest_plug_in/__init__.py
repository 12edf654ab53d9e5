"""pytest's option `--penstock PACKAGE`: a test for each operator that a package registers, and each law.

pytest imports this module at each start, in every project. So it is no part of the package, and imports that, and with
it torch, only when the option is given.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

__all__: list[str] = []

_EXAMPLE = "example"
"""The name of the test that fails where the example in a docstring makes no chain."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock", "laws of Penstock's operators")
    group.addoption(
        "--penstock",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="check the laws of all operators that PACKAGE registers, by the examples in their docstrings; "
        "other tests run only where files are named",
    )
    group.addoption("--law", metavar="NAME", action="append", default=[], help="check this law only; may be repeated")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.law and not config.option.penstock:
        raise pytest.UsageError("--law NAME chooses among the laws of --penstock PACKAGE, which is missing")


def pytest_collection(session: pytest.Session) -> bool | None:
    """Collect the laws only, unless files are named."""
    config, hook = session.config, session.config.hook
    are_named = config.args_source is pytest.Config.ArgsSource.ARGS
    if not config.option.penstock or are_named or config.pluginmanager.hasplugin("dsession"):  # xdist: workers collect
        return None
    session.items = []
    hook.pytest_collection_modifyitems(session=session, config=config, items=session.items)
    hook.pytest_collection_finish(session=session)
    session.testscollected = len(session.items)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for package in config.option.penstock:
        items += _checks_of(package, config.option.law, session)


def _checks_of(package: str, chosen: list[str], session: pytest.Session) -> Iterator[pytest.Item]:
    from penstock.registry import operators
    from penstock.testing import LAWS, expect_law
    from penstock.testing.examples import maker_of_example

    try:
        for law in chosen:
            expect_law(law)
        theirs = operators.of_package(package)
    except (ImportError, ValueError) as error:
        raise pytest.UsageError(f"--penstock {package}: {error}") from None
    for entry in theirs:
        try:
            make = maker_of_example(entry.cls)
        except Exception as error:  # an example may raise anything
            yield Check.of(session, _EXAMPLE, entry, package, _raising(error))
            continue
        for law in LAWS[entry.kind]:
            if law in chosen or not chosen:
                yield Check.of(session, law, entry, package, make)


def _raising(error: Exception) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


class Check(pytest.Item):
    """The test of one law for one operator."""

    operator: Any
    make: Callable[[], Any]

    @classmethod
    def of(cls, session: pytest.Session, law: str, operator: Any, package: str, make: Callable[[], Any]) -> Check:
        """Return the test, which has the name of the package, the class and the law."""
        nodeid = f"{package}::{operator.cls.__name__}::{law}"
        check: Check = cls.from_parent(session, name=law, nodeid=nodeid)
        check.operator, check.make = operator, make
        broken = operator.cls.broken_laws
        if isinstance(broken, Mapping) and law in broken:  # else check_operator says what is wrong
            check.add_marker(pytest.mark.skip(reason=broken[law]))
        return check

    def runtest(self) -> None:
        from penstock import check_operator
        from penstock.testing import NotChecked

        with warnings.catch_warnings():
            warnings.simplefilter("error", NotChecked)
            try:
                check_operator(self.make, [self.name])
            except NotChecked as reason:
                pytest.skip(str(reason))

    def reportinfo(self) -> tuple[Path, int, str]:
        return Path(self.operator.file), self.operator.line - 1, self.nodeid

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message: what it tried and found. What raised in the operator comes with its traceback."""
        error = excinfo.value
        if self.name == _EXAMPLE:
            return "".join(traceback.format_exception_only(error)).rstrip()
        if isinstance(error, AssertionError) and isinstance(error.__cause__, AssertionError):
            return str(error)
        return super().repr_failure(excinfo, style)
