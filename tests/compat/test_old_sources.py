"""What torchdata took for a source and gave for it, under `install()`."""

from __future__ import annotations

import pytest
from old_paths import run_code


def test_the_source_may_be_named_as_it_was_and_column_names_be_a_set():
    out = run_code(
        """
        penstock.compat.install()
        from torchdata.datapipes.iter import Batcher, IterableWrapper, Mapper, Rows2Columnar
        dp = Mapper(source_datapipe=Batcher(batch_size=2, datapipe=IterableWrapper(range(4))), fn=sum)
        print(list(dp))
        print(*Rows2Columnar([[{"b": 1, "a": 2, "c": 3}]], column_names={"a", "b"}))
        try:
            Batcher(batch_size=2, of=3)
        except TypeError as error:
            print(error)
        """
    )
    assert out.startswith("[1, 5]\n{'a': [2], 'b': [1]}\n")
    assert "unexpected keyword argument 'of'" in out


def test_a_list_or_a_tuple_is_a_source() -> None:
    assert run_code(
        """
        penstock.compat.install()
        import fsspec
        from torchdata.datapipes.iter import Batcher, FSSpecFileOpener, MapToIterConverter, Multiplexer, Sampler
        from torchdata.datapipes.map import Mapper, Zipper
        fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        print([stream.read() for _, stream in FSSpecFileOpener(["memory:///shelf/a.txt"])])
        dp = Batcher(datapipe=(1, 2, 3), batch_size=2)
        print([*dp], dp)
        resumed = Batcher([1, 2, 3], 2)
        iterator = iter(dp)
        next(iterator)
        resumed.load_state_dict(dp.state_dict())
        print([*resumed])
        print([*Multiplexer([1, 2], (3, 4))], [*Mapper([1, 2], str)], [*Zipper([1], [2])])
        print([*MapToIterConverter([7, 8])], [*Sampler([7, 8, 9])])
        try:
            Batcher({1, 2}, 2)
        except TypeError as error:
            print(error)
        """
    ).splitlines() == [
        "['one']",
        "[[1, 2], [3]] IterableWrapper((1, 2, 3), deepcopy=False).batch(2)",
        "[[3]]",
        "[1, 3, 2, 4] ['1', '2'] [(1, 2)]",
        "[7, 8] [0, 1, 2]",
        "Batcher reads from a pipe, and its source is of type set: its order is not fixed: give sorted(items)",
    ]


@pytest.mark.parametrize(
    ("first", "in_folder"),
    [("penstock.compat.install()", "memory:///shelf/a.txt"), ("pass", "memory://shelf/a.txt")],
)
def test_files_in_memory_are_listed_as_torchdata_spelt_them(first, in_folder) -> None:
    listed = run_code(
        f"""
        {first}
        import fsspec
        fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        for root in ("memory://shelf", "memory:///shelf/", "memory://shelf/a.txt"):
            print(*penstock.iter.FSSpecFileLister(root))
        """
    )
    assert listed.splitlines() == [in_folder, "memory:///shelf/a.txt", "memory://shelf/a.txt"]


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
