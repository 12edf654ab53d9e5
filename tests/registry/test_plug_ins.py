"""Operators of other distributions, found by the entry points of the group `penstock.operators`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

PLUG_IN = """
import penstock as ps

@ps.functional_datapipe({name!r})
class {cls}(ps.IterDataPipe):
    '''Yield each item three times.'''

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for item in self.source:
            yield from [item] * 3
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a distribution that has three plug-ins: one that works and two that do not."""
    (tmp_path / "tiny_plug_in.py").write_text(PLUG_IN.format(name="thrice", cls="Tripler"))
    (tmp_path / "tiny_clash.py").write_text(PLUG_IN.format(name="batch", cls="Batcher"))
    (tmp_path / "tiny_broken.py").write_text("import a_module_that_is_not_there\n")
    info = tmp_path / "tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[penstock.operators]\nthrice = tiny_plug_in:Tripler\nclash = tiny_clash\nbroken = tiny_broken\n"
    )
    return tmp_path


def run(folder: Path, code: str) -> str:
    """What a fresh Python prints, in which a folder's distributions are installed."""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", dedent(code)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_plug_in_is_loaded_when_its_method_is_needed_and_not_before(installed: Path) -> None:
    shown = run(
        installed,
        """
        import sys
        import penstock as ps
        from penstock.registry import apply_sharding, seed_graph

        dp = ps.iter.IterableWrapper(range(4)).shuffle().sharding_filter().map(str).batch(2)
        seed_graph(dp, 0)
        apply_sharding(dp, 2, 0)
        repr(dp), list(dp), dp.state_dict(), dir(dp)
        print("tiny_plug_in" in sys.modules)
        print(ps.iter.IterableWrapper("ab").thrice().take_all())
        """,
    )
    assert shown.startswith("False\n")
    assert "\n['a', 'a', 'a', 'b', 'b', 'b']\n" in shown


@pytest.mark.parametrize(
    "need", ["list(operators)", "operators['thrice']", "operators.search('three')", "ps.iter.Tripler"]
)
def test_asking_for_the_operators_loads_the_plug_ins(installed: Path, need: str) -> None:
    shown = run(
        installed,
        f"""
        import sys
        import penstock as ps
        from penstock.registry import operators
        {need}
        print("loaded:", "tiny_plug_in" in sys.modules)
        print(operators["iter.thrice"].summary)
        """,
    )
    assert "loaded: True\nYield each item three times.\n" in shown


def test_a_broken_plug_in_is_reported_and_the_rest_goes_on(installed: Path) -> None:
    shown = run(
        installed,
        """
        import penstock as ps
        from penstock.registry import operators
        print(sorted(operators.broken_plug_ins), len(operators) > 10, sorted(operators.broken_plug_ins))
        print(ps.iter.IterableWrapper(range(3)).batch(2).thrice().count())
        for _ in range(2):
            try:
                ps.iter.IterableWrapper("ab").shrink()
            except AttributeError as error:
                print(error)
        """,
    )
    assert shown.startswith("[] True ['broken', 'clash']\n6\n")
    assert shown.count("'IterableWrapper' object has no attribute 'shrink'; the plug-in ") == 2
    assert shown.count("the plug-in 'broken', which may have it, could not be loaded: ModuleNotFoundError(") == 2
    assert shown.count("UserWarning: the plug-in 'broken' (tiny_broken) could not be loaded: ModuleNotFoundError(") == 1
    assert shown.count("UserWarning: the plug-in 'clash' (tiny_clash) could not be loaded: ValueError(") == 1
