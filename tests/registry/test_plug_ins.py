"""Operators of other distributions, found by the entry points of the group `penstock.operators`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh import outputs_of

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


def test_plug_ins_are_loaded_when_they_are_needed_and_not_before(installed: Path) -> None:
    used, *asked = outputs_of(
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
        *[
            f"""
            import sys
            import penstock as ps
            from penstock.registry import operators
            {need}
            print("tiny_plug_in" in sys.modules)
            print(operators["iter.thrice"].summary)
            """
            for need in ("list(operators)", "operators['thrice']", "operators.search('three')", "ps.iter.Tripler")
        ],
        path=installed,
    )
    assert used == "False\n['a', 'a', 'a', 'b', 'b', 'b']\n"
    assert asked == ["True\nYield each item three times.\n"] * 4


def test_a_broken_plug_in_is_reported_and_the_rest_goes_on(installed: Path) -> None:
    (shown,) = outputs_of(
        """
        import sys
        import warnings
        import penstock as ps
        from penstock.registry import operators
        warnings.simplefilter("always")
        sys.stderr = sys.stdout
        print(sorted(operators.broken_plug_ins), len(operators) > 10, sorted(operators.broken_plug_ins))
        print(ps.iter.IterableWrapper(range(3)).batch(2).thrice().count())
        for _ in range(2):
            try:
                ps.iter.IterableWrapper("ab").shrink()
            except AttributeError as error:
                print(error)
        """,
        path=installed,
    )
    assert "[] True ['broken', 'clash']\n6\n" in shown
    assert shown.count("'IterableWrapper' object has no attribute 'shrink'; the plug-in ") == 2
    assert shown.count("the plug-in 'broken', which may have it, could not be loaded: ModuleNotFoundError(") == 2
    assert shown.count("UserWarning: the plug-in 'broken' (tiny_broken) could not be loaded: ModuleNotFoundError(") == 1
    assert shown.count("UserWarning: the plug-in 'clash' (tiny_clash) could not be loaded: ValueError(") == 1


@pytest.mark.parametrize("value", ["tiny_hidden", "tiny_hidden.operators", "tiny_hidden:Tripler"])
def test_a_folder_in_place_of_a_plug_in_is_said(installed: Path, value: str) -> None:
    """An editable package is found after the folders beside the program, also after those that are no packages."""
    (installed / "tiny-1.0.dist-info" / "entry_points.txt").write_text(f"[penstock.operators]\nhidden = {value}\n")
    (installed / "tiny_hidden").mkdir()
    (shown,) = outputs_of(
        """
        import warnings
        import penstock as ps
        warnings.simplefilter("ignore")
        try:
            ps.iter.IterableWrapper("ab").thrice()
        except AttributeError as error:
            print(error)
        """,
        path=installed,
    )
    assert "the plug-in 'hidden', which may have it, could not be loaded: ImportError(" in shown
    assert f"Python takes the folder '{installed / 'tiny_hidden'}', which has no __init__.py, for the package" in shown
    assert "'tiny_hidden': rename it, move the program away from it, or keep the package in a folder src" in shown


def test_a_plug_in_may_lie_in_a_namespace(installed: Path) -> None:
    (installed / "tiny-1.0.dist-info" / "entry_points.txt").write_text("[penstock.operators]\ngood = tiny_space.good\n")
    (installed / "tiny_space").mkdir()
    module = installed / "tiny_space" / "good.py"
    module.write_text(PLUG_IN.format(name="thrice", cls="Tripler"))
    program = """
        import warnings
        import penstock as ps
        from penstock.registry import operators
        warnings.simplefilter("ignore")
        operators.load_plug_ins()
        print(operators.broken_plug_ins, [found.name for found in operators.of_package("tiny_space")])
        """
    assert outputs_of(program, path=installed) == ["{} ['thrice']\n"]
    module.write_text("import a_module_that_is_not_there\n")
    (shown,) = outputs_of(program.partition("print")[0] + "print(operators.broken_plug_ins)\n", path=installed)
    assert "No module named 'a_module_that_is_not_there'" in shown
    assert "tiny_space" not in shown
