"""What a program imports that imports penstock."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import penstock as ps
from fresh import outputs_of
from penstock.pipes.index import OPERATORS
from penstock.registry import operators


def test_a_program_imports_the_operators_that_it_uses() -> None:
    shown = "\nimport sys\nprint(*(name for name in sys.modules if name.startswith('penstock')))"
    bare, used, asked, _ = outputs_of(
        "import penstock as ps; dir(ps), ps.iter.__all__, dir(ps.IterDataPipe)" + shown,
        "import penstock as ps; list(ps.iter.IterableWrapper('ab').batch(2)), ps.IterDataPipe.batch" + shown,
        "from penstock.registry import operators; import penstock; operators['iter.batch'].cls" + shown,
        """
        import penstock as ps
        class Batcher(ps.IterDataPipe):
            def __init__(self, source): ...
        try:
            ps.functional_datapipe("batch")(Batcher)  # which is not imported yet
        except ValueError as error:
            assert "two operators claim the name 'batch'" in str(error) and "group.py" in str(error), error
        else:
            raise AssertionError
        @ps.functional_datapipe("batches_of_mine")
        class Other(ps.IterDataPipe): ...
        """,
    )
    assert not {name for name in bare.split() if name.startswith(("penstock.runner", "penstock.storage"))}
    assert not families(bare)
    assert {"create", "group"} <= families(used) <= {"create", "group", "ahead", "transform", "convert", "shard"}
    assert "group" in families(asked)


def families(modules: str) -> set[str]:
    return {name.rpartition(".")[2] for name in modules.split() if name.startswith("penstock.pipes.iter.")}


def test_the_index_has_each_operator_of_ours() -> None:
    ours = {key: entry for key, entry in operators.items() if entry.cls.__module__.startswith("penstock.")}
    assert {key: f"{entry.cls.__module__}:{entry.cls.__qualname__}" for key, entry in ours.items()} == OPERATORS


def test_all_that_is_listed_is_there() -> None:
    for module in (ps, ps.iter, ps.map):
        assert {*module.__all__} <= {*dir(module)}
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert ps.IterDataPipe.to_ray_dataset is ps.to_ray_dataset
    assert ps.IterDataPipe.build_vocab is ps.MapDataPipe.build_vocab is ps.build_vocab


def test_arrow_is_imported_when_columns_are_made() -> None:
    shown = "\nimport sys\nprint('pyarrow' in sys.modules)"
    before, after, in_a_thread = outputs_of(
        "import penstock as ps; ps.iter.ParquetReader" + shown,
        "import penstock as ps; list(ps.iter.IterableWrapper([{'x': [1]}]).with_format('arrow'))" + shown,
        "import penstock as ps; list(ps.iter.IterableWrapper([{'x': [1]}]).with_format('arrow').prefetch())" + shown,
    )
    assert [before.strip(), after.strip(), in_a_thread.strip()] == ["False", "True", "True"]


def test_a_program_that_ends_in_the_middle_of_passes_of_all_operators_ends_quietly() -> None:
    code = """
    import warnings
    import penstock as ps
    from penstock.registry import operators
    from penstock.testing.examples import maker_of_example

    warnings.simplefilter("ignore")
    live = []
    for operator in operators.values():
        if operator.kind == "iter":
            live.append(iter(maker_of_example(operator.cls)()))
            next(live[-1], None)
    loader = ps.DataLoader2(ps.iter.IterableWrapper(range(100)).prefetch(3))
    live.append(iter(loader))
    next(live[-1])
    print("end", len(live) > 100)
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=50)
    assert done.stdout.endswith("end True\n")
    assert "Exception" not in done.stderr  # what examples print may be in it
    assert done.returncode == 0
