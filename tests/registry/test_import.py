"""What importing Penstock brings along, and what it does without."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

import penstock as ps
from fresh import outputs_of


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return outputs_of(
        "import sys; before = {*sys.modules}; import penstock; print(*({*sys.modules} - before))",
        "import gc, penstock_server; print(gc.isenabled(), gc.get_freeze_count() > 0)",
        WITHOUT_DATAPIPES,
    )


def test_importing_penstock_does_not_import_what_few_need(printed: list[str]) -> None:
    imported = {*printed[0].split()}
    assert "penstock.pipes.iter" in imported
    assert not imported & {"fsspec", "s3fs", "obstore", "pyarrow", "PIL", "doctest", "torchdata", "statistics"}


def test_the_version_is_that_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", ps.__version__)
    assert "__version__" in dir(ps)
    (tmp_path / "registry").mkdir()  # as in an install
    assert ps._version(tmp_path) == metadata.version("penstock")  # type: ignore[attr-defined]
    monkeypatch.setattr(metadata, "version", missing)
    assert ps._version(tmp_path) == "0+unknown"  # type: ignore[attr-defined]


def test_a_tree_that_is_not_installed_has_the_version_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "penstock"\nversion = "7.8.9"\n')
    monkeypatch.setattr(metadata, "version", missing)
    assert ps._version(tmp_path / "penstock") == "7.8.9"  # type: ignore[attr-defined]


def missing(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


def test_what_a_fork_server_imports_first_leaves_garbage_to_be_collected(printed: list[str]) -> None:
    assert printed[1].split() == ["True"] * 2


WITHOUT_DATAPIPES = """
    import sys
    import torch.utils.data

    for name in [name for name in sys.modules if name.startswith("torch.utils.data.datapipes")]:
        sys.modules[name] = None
    sys.modules["torch.utils.data.datapipes"] = None
    for name in ("IterDataPipe", "MapDataPipe", "DFIterDataPipe", "DataChunk", "functional_datapipe"):
        vars(torch.utils.data).pop(name, None)

    import json
    import pickle
    import penstock as ps
    from penstock.registry import apply_sharding, seed_graph
    from penstock.state import foreign as torch_pipes

    assert torch_pipes.TorchIterDataPipe.__module__ == "penstock.state.foreign"

    def chain():
        return ps.iter.IterableWrapper(range(12)).shuffle(buffer_size=4).sharding_filter().map(str).batch(2)

    dp = chain()
    seed_graph(dp, 0)
    apply_sharding(dp, 2, 0)
    print(dp)
    iterator = iter(dp)
    first = next(iterator)
    resumed = pickle.loads(pickle.dumps(chain()))
    apply_sharding(resumed, 2, 0)
    resumed.load_state_dict(json.loads(json.dumps(dp.state_dict())))
    assert list(resumed) == list(iterator)
    print(ps.map.SequenceWrapper("abc").map(str.upper).batch(2).to_iter_datapipe().take_all())
    assert isinstance(dp, torch.utils.data.IterableDataset)
    print(len(list(torch.utils.data.DataLoader(chain(), batch_size=None))))
    try:
        dp.shufle
    except AttributeError as error:
        print(error)
    ps.check_operator(chain)
"""


def test_without_the_datapipes_of_torch_chains_work_all_the_same(printed: list[str]) -> None:
    assert printed[2].splitlines() == [
        "IterableWrapper(range(0, 12)).shuffle(buffer_size=4).sharding_filter().map(str).batch(2)",
        "[['A', 'B'], ['C']]",
        "6",
        "'Batcher' object has no attribute 'shufle': did you mean 'shuffle' or 'shuffle_rows' or 'random_shuffle'?",
    ]
