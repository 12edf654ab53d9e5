"""pytest's option --penstock: a test for each operator of a package, and each law."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock_pytest import _checks_of, pytest_configure

OPERATORS = '''
import penstock as ps

class Passing(ps.IterDataPipe):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        yield from self.source

@ps.functional_datapipe("sound")
class Sound(Passing):
    """Yield the items.

    >>> dp = IterableWrapper(range(5)).sound()
    """

@ps.functional_datapipe("one_short")
class OneShort(Passing):
    """Yield the items, and miscount them.

    >>> dp = IterableWrapper(range(5)).one_short()
    """

    def __len__(self):
        return 4

@ps.functional_datapipe("honest")
class Honest(OneShort):
    """Yield the items, and say that the count is wrong.

    >>> dp = IterableWrapper(range(5)).honest()
    """

    broken_laws = {"len_is_exact": "it cannot count"}

@ps.functional_datapipe("unshown")
class Unshown(Passing):
    """Yield the items, without an example."""
'''


def test_each_operator_of_the_package_is_checked_for_each_law(tmp_path: Path) -> None:
    (tmp_path / "tried_ops.py").write_text(OPERATORS)
    (tmp_path / "test_others.py").write_text("def test_of_others(): pass\n")
    options = ["-rA", "--penstock", "tried_ops", "--law", "len_is_exact", "--law", "two_passes_agree"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert sorted(re.findall(r"^[A-Z]+ tried_ops.*::\w+|^SKIPPED.*", done.stdout, re.MULTILINE)) == [
        "FAILED tried_ops::OneShort::len_is_exact",
        "FAILED tried_ops::Unshown::example",
        "PASSED tried_ops::Honest::two_passes_agree",
        "PASSED tried_ops::OneShort::two_passes_agree",
        "PASSED tried_ops::Sound::len_is_exact",
        "PASSED tried_ops::Sound::two_passes_agree",
        "SKIPPED [1] tried_ops.py: it cannot count",
    ], done.stdout + done.stderr
    assert "\nOneShort breaks the law 'len_is_exact': " in done.stdout
    assert "\nlen is 4, but there are 5 items\n" in done.stdout
    assert "\nValueError: the docstring of Unshown has no example that defines `dp`" in done.stdout
    assert "test_of_others" not in done.stdout


YIELDS_LOCKS = '''
import threading
import penstock as ps

LOCK = threading.Lock()

@ps.functional_datapipe("locks")
class Locks(ps.IterDataPipe):
    """Yield a lock.

    >>> dp = IterableWrapper("ab").locks()
    """

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for _ in self.source:
            yield LOCK
'''


def test_what_cannot_be_sent_to_another_process_is_skipped_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tried_ops.py").write_text(YIELDS_LOCKS)
    options = ["-rs", "--penstock", "tried_ops", "--law", "another_process_agrees", "--law", "two_passes_agree"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert "1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "Locks is not checked for the law 'another_process_agrees': its items cannot be pickled" in done.stdout


@pytest.mark.parametrize(
    ("package", "law", "message"),
    [
        ("no_such_ops", [], "--penstock no_such_ops: No module named 'no_such_ops'"),
        ("json", [], "--penstock json: 'json' registers no operator on import"),
        ("penstock", ["len_exact"], "no law 'len_exact': did you mean 'len_is_exact'"),
    ],
)
def test_a_wrong_name_is_told_before_any_test(package: str, law: list[str], message: str) -> None:
    session: Any = None
    with pytest.raises(pytest.UsageError, match=re.escape(message)):
        list(_checks_of(package, law, session))


def test_a_law_needs_a_package(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytestconfig.option, "law", ["len_is_exact"])
    with pytest.raises(pytest.UsageError, match="--law NAME chooses among the laws of --penstock PACKAGE"):
        pytest_configure(pytestconfig)


def test_pytest_starts_without_the_package() -> None:
    code = "import sys, penstock_pytest; print({'penstock', 'torch'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50).stdout == "set()\n"
