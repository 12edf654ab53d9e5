"""Getting torchdata's old import paths: by a call or for a whole program, beside which torchdata."""

from __future__ import annotations

import pytest
from old_paths import run, run_code, script


def test_the_names_are_penstocks_and_what_torchdata_has_stays_as_it_is():
    out = run_code(
        """
        import torchdata
        version, nodes = torchdata.__version__, __import__("torchdata.nodes").nodes
        penstock.compat.install()
        penstock.compat.install()
        import random, sys, torchdata.datapipes as dp, torchdata.stateful_dataloader
        from torch import load
        from torchdata.dataloader2 import *
        from torchdata.datapipes.iter import *
        assert torchdata.__version__ == version and torchdata.nodes is nodes
        assert dp.iter.Batcher is Batcher is penstock.iter.Batcher
        assert dp.iter.IterDataPipe is penstock.IterDataPipe and dp.map.MapDataPipe is penstock.MapDataPipe
        assert torchdata.dataloader2.DataLoader2 is DataLoader2 is penstock.DataLoader2
        assert sum(type(finder).__module__ == "penstock.compat.finder" for finder in sys.meta_path) == 1
        print(random.__name__, type(load).__name__)  # a star brings no modules
        """
    )
    assert out == "random function"


def test_an_operator_registered_later_is_there_too():
    assert "Later" in run_code(
        """
        penstock.compat.install()
        from torchdata.datapipes import functional_datapipe
        from torchdata.datapipes.iter import IterDataPipe
        @functional_datapipe("later", enable_df_api_tracing=True)
        class Later(IterDataPipe):
            def __init__(self, datapipe): self.datapipe = datapipe
            def __iter__(self): yield from self.datapipe
        from torchdata.datapipes.iter import Later, IterableWrapper
        assert list(IterableWrapper("ab").later()) == ["a", "b"]
        print(Later.__name__)
        """
    )


@pytest.fixture
def old_torchdata(tmp_path):
    """A folder with a torchdata that has DataPipes, as 0.9 had."""
    for file, text in {
        "torchdata/__init__.py": "from . import datapipes",
        "torchdata/datapipes/__init__.py": "from . import iter",
        "torchdata/datapipes/iter/__init__.py": "whose = 'torchdata'",
        "torchdata-0.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torchdata\nVersion: 0.9.0\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return str(tmp_path)


def test_a_torchdata_with_datapipes_is_not_hidden(old_torchdata):
    result = run("-c", "import penstock.compat; penstock.compat.install()", PYTHONPATH=old_torchdata)
    assert result.returncode == 1
    assert "RuntimeError: the installed torchdata, 0.9.0, has its own DataPipes" in result.stderr
    assert "install torchdata 0.11 or later" in result.stderr


def test_a_script_runs_as_if_python_had_been_given_it(tmp_path):
    code = """
        import sys
        from pathlib import Path
        import helper
        from torchdata.datapipes.iter import IterableWrapper
        assert __name__ == "__main__" and Path(__file__).name == "program.py"
        assert sys.modules["__main__"].IterableWrapper is IterableWrapper
        print(sys.argv[1:], list(helper.twice(IterableWrapper([1, 2]))))
        sys.exit(3)
        """
    script(tmp_path, "def twice(dp): return dp.map(lambda x: 2 * x)", "helper.py")
    result = run("-m", "penstock.compat", script(tmp_path, code), "-m", "--flag")
    assert (result.returncode, result.stdout) == (3, "['-m', '--flag'] [2, 4]\n"), result.stderr


def test_a_module_runs_as_if_python_had_been_given_it(tmp_path):
    script(tmp_path, "import sys, torchdata.datapipes; print(__name__, sys.argv[1:])", "tool.py")
    result = run("-m", "penstock.compat", "-m", "tool", "a", "b", cwd=tmp_path)
    assert result.stdout == "__main__ ['a', 'b']\n", result.stderr


@pytest.mark.parametrize("arguments", [[], ["-m"], ["--help"], ["missing.py"]])
def test_a_command_line_without_a_program_is_told(arguments, tmp_path):
    result = run("-m", "penstock.compat", *arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert "usage: python -m penstock.compat SCRIPT ARGS…" in result.stderr or "can't open file" in result.stderr
    assert "Traceback" not in result.stderr
