"""Registering an operator, and finding it: as a method, and in the mapping of operators."""

from __future__ import annotations

import inspect
import linecache
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.registry import operators


class Passing(ps.IterDataPipe):
    def __init__(self, source: Any, *args: Any, **kwargs: Any) -> None:
        self.source, self.args, self.kwargs = source, args, kwargs

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(5))


def test_a_registered_class_is_a_method_of_all_pipes_of_its_kind() -> None:
    @ps.functional_datapipe("passed_on")
    class Passer(Passing):
        pass

    dp = numbers().map(str).passed_on(1, key="value")
    assert type(dp) is Passer
    assert (dp.args, dp.kwargs) == ((1,), {"key": "value"})
    assert list(dp) == ["0", "1", "2", "3", "4"]
    assert not hasattr(ps.map.SequenceWrapper("ab"), "passed_on")


def test_the_method_has_the_docstring_and_the_parameters_of_the_class_but_the_source() -> None:
    @ps.functional_datapipe("scaled")
    class Scaler(ps.IterDataPipe):
        """Yield each item times a factor."""

        def __init__(self, source: Any, factor: int = 2, *, offset: int = 0) -> None:
            self.source = source

    method = numbers().scaled
    assert list(inspect.signature(method).parameters) == ["factor", "offset"]
    assert inspect.getdoc(method) == "Yield each item times a factor."


def test_a_converter_is_a_method_of_the_other_kind() -> None:
    @ps.functional_datapipe("listed", on=ps.MapDataPipe)
    class Lister(Passing):
        pass

    assert list(ps.map.SequenceWrapper("ab").listed()) == ["a", "b"]
    assert not hasattr(numbers(), "listed")
    assert (operators["map.listed"].on, operators["map.listed"].kind) == ("map", "iter")


def test_the_two_kinds_have_names_of_their_own() -> None:
    ps.functional_datapipe("passed_on")(Passing)

    @ps.functional_datapipe("passed_on")
    class ByIndex(ps.map.Mapper[Any]):
        pass

    assert type(numbers().passed_on()) is Passing
    assert type(ps.map.SequenceWrapper("ab").passed_on(str)) is ByIndex


def test_without_a_name_a_class_is_entered_and_no_method_made() -> None:
    @ps.functional_datapipe(None)
    class Origin(ps.IterDataPipe):
        """Yield nothing."""

    assert operators["iter.Origin"].cls is Origin
    assert Origin.functional_name is None
    assert not hasattr(numbers(), "Origin")
    assert ps.iter.Origin is Origin


def test_two_classes_with_one_name_are_an_error_that_names_both_places() -> None:
    @ps.functional_datapipe("taken")
    class First(Passing):
        pass

    with pytest.raises(ValueError, match="two operators claim the name 'taken' on iter pipes") as caught:

        @ps.functional_datapipe("taken")
        class Second(Passing):
            pass

    line = operators["iter.taken"].line
    assert f"First ({__file__}:{line}) has it" in str(caught.value)
    assert f"Second ({__file__}:" in str(caught.value)
    assert type(numbers().taken()) is First


def test_a_cell_that_is_run_again_replaces_the_class_quietly() -> None:
    cell = """
import penstock as ps
@ps.functional_datapipe("from_a_cell")
class FromACell(ps.IterDataPipe):
    def __init__(self, source):
        self.source = source
    def __iter__(self):
        yield {value}
"""
    for value in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(cell.format(value=value), {"__name__": "__main__"})
        assert list(numbers().from_a_cell()) == [value]


@pytest.mark.parametrize(
    ("register", "error", "message"),
    [
        (lambda: ps.functional_datapipe("take")(Passing), ValueError, "'take' is a method that every pipe has"),
        (lambda: ps.functional_datapipe("__iter__")(Passing), ValueError, "'__iter__' is a method that every pipe has"),
        (lambda: ps.functional_datapipe("two words")(Passing), ValueError, "is not an identifier"),
        (lambda: ps.functional_datapipe("import")(Passing), ValueError, "is not an identifier"),
        (lambda: ps.functional_datapipe(Passing), TypeError, "give the name of the method, as in"),  # type: ignore[arg-type]
        (lambda: ps.functional_datapipe("passed_on")(int), TypeError, "<class 'int'> is not a pipe"),
        (lambda: ps.functional_datapipe("passed_on", on=int)(Passing), TypeError, "<class 'int'> is not a pipe"),
    ],
)
def test_what_cannot_be_registered_is_an_error(register: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        register()


# Methods that there are not


def test_an_unknown_method_is_an_error_with_the_nearest_names() -> None:
    ps.functional_datapipe("passed_on")(Passing)  # of today, too
    for dp, name, words in [
        (numbers(), "shufle", ": did you mean .*'shuffle'"),
        (ps.map.SequenceWrapper("ab"), "to_iter", ": did you mean .*'to_iter_datapipe'"),
        (numbers(), "passed_onn", ": did you mean 'passed_on'"),
        (numbers(), "xyzzy_quux", "$"),
    ]:
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'{words}") as caught:
            getattr(dp, name)
        assert caught.value.name == name


# The mapping of operators


def test_the_mapping_is_read_only() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        operators["iter.mine"] = operators["iter.map"]  # type: ignore[index]


def test_an_entry_says_what_an_operator_is_and_where() -> None:
    entry = operators["iter.flatmap"]
    assert (entry.name, entry.cls, entry.on, entry.kind, entry.method) == (
        "flatmap",
        ps.iter.FlatMapper,
        "iter",
        "iter",
        True,
    )
    assert entry.summary == inspect.getdoc(ps.iter.FlatMapper).partition("\n")[0]  # type: ignore[union-attr]
    assert "flatmap" in linecache.getline(entry.file, entry.line) + linecache.getline(entry.file, entry.line + 1)


def test_operators_are_found_by_their_names() -> None:
    assert operators["flatmap"] is operators["iter.flatmap"]
    assert operators["IterableWrapper"].cls is ps.iter.IterableWrapper
    with pytest.raises(KeyError, match="'map' is on both kinds of pipe: ask for 'iter.map' or 'map.map'"):
        operators["map"]
    with pytest.raises(KeyError, match="no operator 'flatmapp': did you mean 'flatmap'"):
        operators["flatmapp"]
    assert "flatmapp" not in operators
    for text in ("SHUFF", "Shuffler"):
        assert {entry.cls for entry in operators.search(text)} >= {ps.iter.Shuffler, ps.map.Shuffler}


def test_the_mapping_holds_every_operator_class() -> None:
    classes = {getattr(kind, name) for kind in (ps.iter, ps.map) for name in kind.__all__}
    assert {entry.cls for entry in operators.values()} >= classes
    assert len(operators) == len(list(operators))


def test_a_class_may_give_something_else_by_its_new() -> None:
    class Halves(ps.IterDataPipe[Any]):
        def __new__(cls, source: Any) -> Any:
            return source.fork(2)

    first, second = Halves(ps.iter.IterableWrapper(range(2)))
    assert list(first.zip(second)) == [(0, 0), (1, 1)]


def test_only_a_source_that_was_given_must_be_a_pipe() -> None:
    class Reader(ps.IterDataPipe[Any]):
        functional_name = "reader"

        def __init__(self, paths: Any, source: str) -> None:
            self.paths = paths
            self.source = source

        def __iter__(self) -> Any:
            return iter(self.paths)

    assert list(Reader(ps.iter.IterableWrapper("ab"), "disk")) == ["a", "b"]


def test_the_old_names_of_the_source_are_answered_with_the_new() -> None:
    for name in ("datapipe", "datapipes"):
        with pytest.raises(AttributeError, match="what a pipe reads from is its `source`"):
            getattr(numbers().map(str), name)


def test_a_property_of_an_operators_name_that_fails_says_so():
    class Pipe(ps.iter.IterableWrapper):
        @property
        def batch(self):
            return self.a_typo

    pipe = Pipe([1])
    assert not hasattr(pipe, "batch")
    with pytest.raises(AttributeError, match="the batch of Pipe raised an AttributeError itself"):
        _ = pipe.batch


def test_a_method_that_was_taken_away_is_not_there(monkeypatch):
    monkeypatch.delattr(ps.IterDataPipe, "batch")
    assert not hasattr(ps.iter.IterableWrapper([1]), "batch")
