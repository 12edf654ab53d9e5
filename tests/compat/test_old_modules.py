"""torchdata's public modules: what can be imported from each, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from old_paths import run_code

import penstock.compat

LIST = Path(penstock.compat.__file__).with_name("names_0_9.json")
NAMES_0_9: dict[str, list[str]] = json.loads(LIST.read_text())


@pytest.fixture(scope="module")
def there() -> dict[str, dict[str, list[str]]]:
    """For each module of 0.9 and each of its names that can be imported, the module and name of what comes."""
    return json.loads(
        run_code(
            f"""
            penstock.compat.install()
            import importlib, json
            there = {{}}
            for module, names in json.loads({json.dumps(NAMES_0_9)!r}).items():
                found = importlib.import_module(module)
                things = {{name: getattr(found, name) for name in names if hasattr(found, name)}}
                there[module] = {{
                    name: [getattr(thing, "__module__", ""), getattr(thing, "__name__", "")]
                    for name, thing in things.items()
                }}
            print(json.dumps(there))
            """
        )
    )


@pytest.mark.parametrize("module", NAMES_0_9)
def test_every_public_name_of_0_9_is_there(module, there):
    assert [*there[module]] == NAMES_0_9[module]


def test_what_a_module_of_0_9_imported_is_there_too():
    """`nox -s torchdata_names` compares the list with an installed torchdata 0.9.0."""
    missing = run_code(
        f"""
        penstock.compat.install()
        import importlib, json
        imports = json.loads(open({str(LIST.with_name("imports_0_9.json"))!r}).read())
        for module, names in imports.items():
            for name in names:
                if not hasattr(importlib.import_module(module), name):
                    print(module, name)
        """
    )
    assert missing == ""


def test_imported_names_stand_for_the_same_things():
    run_code(
        """
        penstock.compat.install()
        import typing
        import torch
        import penstock as ps
        from torchdata.dataloader2 import communication
        from torchdata.dataloader2.reading_service import communication as imported, dist
        from torchdata.dataloader2.reading_service import Optional, process_init_fn
        from torchdata.datapipes.iter.util.randomsplitter import T, IterDataPipe
        from torchdata.datapipes.iter.util.sharding import SHARDING_PRIORITIES
        assert imported is communication and dist is torch.distributed
        assert IterDataPipe is ps.IterDataPipe
        assert Optional is typing.Optional and isinstance(T, typing.TypeVar)
        assert SHARDING_PRIORITIES.DISTRIBUTED
        assert process_init_fn.__name__ == "process_init_fn"
        """
    )


def test_operators_are_there_under_their_long_names(there):
    seen = set()
    for module, names in there.items():
        for name, (home, short) in names.items():
            if module.count(".") > 2 and name.endswith("DataPipe") and module.startswith("torchdata.datapipes"):
                assert home.startswith(f"penstock.pipes.{'map' if name.endswith('MapDataPipe') else 'iter'}."), name
                seen.add((name, short))
    assert len(seen) == 70
    plain = {(name, name.removesuffix("DataPipe").removesuffix("Iter").removesuffix("Map")) for name, _ in seen}
    assert seen - plain == {
        ("FlattenIterDataPipe", "Flattener"),
        ("HTTPReaderIterDataPipe", "HttpReader"),
        ("ParquetDFLoaderIterDataPipe", "ParquetDataFrameLoader"),
        ("SliceIterDataPipe", "Slicer"),
    }


def test_a_class_is_the_same_by_each_of_its_paths():
    out = run_code(
        """
        penstock.compat.install()
        import torchdata.datapipes as dp
        from torchdata.dataloader2.graph import traverse_dps
        from torchdata.dataloader2.graph.settings import set_graph_random_seed
        from torchdata.dataloader2.graph.utils import traverse_dps as the_same
        from torchdata.datapipes.iter import InMemoryCacheHolder
        from torchdata.datapipes.iter.util.cacheholder import InMemoryCacheHolderIterDataPipe as long
        from torchdata.datapipes.utils.janitor import janitor
        assert InMemoryCacheHolder is long is dp.iter.util.cacheholder.InMemoryCacheHolderIterDataPipe
        assert traverse_dps is the_same is penstock.runner.graph.traverse_dps
        assert janitor is dp.utils.janitor and callable(janitor)
        print(set_graph_random_seed.__module__)
        """
    )
    assert out == "penstock.runner.seeds"


def test_what_penstock_does_without_can_be_imported_and_says_so_when_it_is_called():
    out = run_code(
        """
        penstock.compat.install()
        from torchdata.dataloader2.communication.iter import QueueWrapper, TerminateRequired
        from torchdata.dataloader2.communication import iter, protocol
        from torchdata.datapipes.iter.util.distributed import PrefetchTimeoutError
        from torchdata.datapipes.utils.common import validate_pathname_binary_tuple
        assert QueueWrapper is iter.QueueWrapper and not isinstance(protocol, QueueWrapper)
        try:
            raise RuntimeError("no item came")
        except TerminateRequired:
            print("not this one")
        except PrefetchTimeoutError as error:
            print(error)
        for call in (QueueWrapper, validate_pathname_binary_tuple):
            try:
                call(("a", 3))
            except Exception as error:
                print(type(error).__name__, error)
        """
    )
    assert out.splitlines() == [
        "no item came",
        "NotImplementedError QueueWrapper is a part of how torchdata worked, and Penstock works without it",
        "TypeError pairs of a path and a stream are needed, and with the path comes a int",
    ]


def test_a_private_path_or_unknown_name_is_refused():
    refused = {
        "import torchdata.dataloader2.random._philox": "is no public module of torchdata 0.9",
        "import torchdata.datapipes.iter.util.cacheholdr": "did you mean 'torchdata.datapipes.iter.util.cacheholder'",
        "from torchdata.datapipes.iter.util.cycler import Batcher": "cannot import name 'Batcher'",
        "import torchdata.dataloader2.linter as l; l._check": "no '_check' in torchdata.dataloader2.linter",
        "from torchdata.datapipes.iter import Bacher": "cannot import name 'Bacher' from 'torchdata.datapipes.iter'",
        "import torchdata.datapipes.iter as i; i.Bacher": "did you mean 'Batcher'",
    }
    out = run_code(
        f"""
        penstock.compat.install()
        for statement in {[*refused]}:
            try:
                exec(statement)
            except (ImportError, AttributeError) as error:
                print(error)
        """
    )
    for said, expected in zip(out.splitlines(), refused.values(), strict=True):
        assert expected in said
