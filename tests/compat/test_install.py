"""torchdata's old import paths: what can be imported, beside which torchdata, and what is said of the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES_0_9 = json.loads((HERE / "names_0_9.json").read_text())


def run(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def run_code(code: str, **environment: str) -> str:
    """The output of a program that begins with `install()`."""
    result = run("-c", "import penstock.compat\n" + textwrap.dedent(code), **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def script(folder: Path, code: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


@pytest.fixture(scope="module")
def what_there_is() -> dict[str, list[str]]:
    """For each module of 0.9, which of its names can be imported, by a program that has installed the paths."""
    return json.loads(
        run_code(
            f"""
            penstock.compat.install()
            import importlib, json
            there = {{}}
            for module, names in json.loads({json.dumps(NAMES_0_9)!r}).items():
                there[module] = [name for name in names if hasattr(importlib.import_module(module), name)]
            print(json.dumps(there))
            """
        )
    )


@pytest.mark.parametrize("module", NAMES_0_9)
def test_every_public_name_of_0_9_is_there(module, what_there_is):
    assert what_there_is[module] == NAMES_0_9[module]


def test_the_names_are_penstocks_and_what_torchdata_has_stays_as_it_is():
    out = run_code(
        """
        import torchdata
        version, nodes = torchdata.__version__, __import__("torchdata.nodes").nodes
        penstock.compat.install()
        penstock.compat.install()
        import sys, torchdata.datapipes as dp, torchdata.stateful_dataloader
        from torchdata.dataloader2 import DataLoader2
        from torchdata.datapipes.iter import *
        assert torchdata.__version__ == version and torchdata.nodes is nodes
        assert dp.iter.Batcher is Batcher is penstock.iter.Batcher
        assert dp.iter.IterDataPipe is penstock.IterDataPipe and dp.map.MapDataPipe is penstock.MapDataPipe
        assert torchdata.dataloader2.DataLoader2 is DataLoader2 is penstock.DataLoader2
        assert sum(type(finder).__module__ == "penstock.compat.finder" for finder in sys.meta_path) == 1
        print("fine")
        """
    )
    assert out == "fine"


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


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "import torchdata.datapipes.iter.util.tararchiveloader",
            "torchdata.datapipes.iter.util.tararchiveloader was a private module of torchdata, and penstock.compat has "
            "the public names only: from torchdata.datapipes.iter import TarArchiveLoader",
        ),
        ("from torchdata.datapipes.map.util.converter import X", "from torchdata.datapipes.map import IterToMapConv"),
        ("from torchdata.datapipes.utils.common import X", "from torchdata.datapipes.utils import …"),
        ("from torchdata.dataloader2.graph.settings import X", "from torchdata.dataloader2.graph import …"),
        ("import torchdata.dataloader2.communication.iter", "torchdata.dataloader2.communication was a private module"),
        (
            "from torchdata.datapipes.iter import _S",
            "cannot import name '_S' from 'torchdata.datapipes.iter'",
        ),
        ("from torchdata.datapipes.iter import Bacher", "cannot import name 'Bacher' from 'torchdata.datapipes.iter'"),
        ("import torchdata.datapipes.iter as i; i.Bacher", "did you mean 'Batcher'"),
    ],
)
def test_a_private_path_or_unknown_name_is_refused_with_the_public_one(statement, said):
    result = run("-c", f"import penstock.compat; penstock.compat.install(); {statement}")
    assert result.returncode == 1
    assert said in result.stderr


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


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_import_the_users_modules_that_need_the_old_paths(tmp_path, method):
    script(
        tmp_path,
        """
        from torchdata.datapipes.iter import IterDataPipe
        class Doubled(IterDataPipe):
            def __init__(self, datapipe): self.datapipe = datapipe
            def __iter__(self):
                for x in self.datapipe: yield 2 * x
        """,
        "theirs.py",
    )
    code = f"""
        from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
        from torchdata.datapipes.iter import IterableWrapper
        from theirs import Doubled
        if __name__ == "__main__":
            dp = Doubled(IterableWrapper(range(4)).sharding_filter())
            service = MultiProcessingReadingService(num_workers=2, multiprocessing_context={method!r})
            loader = DataLoader2(dp, reading_service=service)
            print(list(loader))
            loader.shutdown()
        """
    result = run("-m", "penstock.compat", script(tmp_path, code))
    assert result.stdout == "[0, 2, 4, 6]\n", result.stderr


@pytest.mark.parametrize("program", [["program.py"], ["-m", "program"]], ids=["script", "module"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_torchs_workers_too(tmp_path, method, program):
    code = f"""
        from torch.utils.data import DataLoader
        from torchdata.datapipes.iter import IterableWrapper
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            dp = IterableWrapper(range(4)).sharding_filter().map(double)
            loader = DataLoader(dp, num_workers=2, batch_size=None, multiprocessing_context={method!r})
            print(sorted(loader))
        """
    script(tmp_path, code)
    result = run("-m", "penstock.compat", *program, cwd=tmp_path)
    assert result.stdout == "[0, 2, 4, 6]\n", result.stderr


def test_the_source_may_be_named_as_it_was():
    out = run_code(
        """
        penstock.compat.install()
        from torchdata.datapipes.iter import Batcher, IterableWrapper, Mapper
        dp = Mapper(source_datapipe=Batcher(batch_size=2, datapipe=IterableWrapper(range(4))), fn=sum)
        print(list(dp))
        try:
            Batcher(batch_size=2, of=3)
        except TypeError as error:
            print(error)
        """
    )
    assert out.startswith("[1, 5]\n")
    assert "unexpected keyword argument 'of'" in out


def test_every_module_that_has_a_face_was_in_0_9():
    faces = import_module("penstock.compat.faces").FACES
    empty = {name for name, face in faces.items() if not [*face.names()]}
    assert faces.keys() - empty == NAMES_0_9.keys()


def test_a_star_brings_the_public_names_and_no_modules() -> None:
    assert (
        run_code(
            """
            penstock.compat.install()
            import random
            from torch import load
            from torchdata.dataloader2 import *
            from torchdata.datapipes.iter import *
            print(random.__name__, type(load).__name__, DataLoader2.__name__, Mapper.__name__)
            """
        )
        == "random function DataLoader2 Mapper"
    )


def test_subclasses_of_operators_read_their_source_under_its_old_name() -> None:
    assert (
        run_code(
            """
            penstock.compat.install()
            from torchdata.datapipes.iter import IterableWrapper, IterDataPipe, Mapper, Zipper

            class Tokenizer(Mapper):
                def __init__(self, dp):
                    super().__init__(dp, str.split)
                def __iter__(self):
                    for item in self.datapipe:
                        yield self.fn(item)

            class Own(IterDataPipe):
                def __init__(self, dp):
                    self.source_datapipe = dp
                def __iter__(self):
                    yield from self.source_datapipe

            letters = IterableWrapper("ab")
            print(list(Own(Tokenizer(IterableWrapper(["a b"])))), len(Zipper(letters, letters).datapipes))
            print(hasattr(letters, "datapipe"))
            """
        )
        == "[['a', 'b']] 2\nFalse"
    )
