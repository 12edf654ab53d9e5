"""An error that crosses a process arrives as it was raised: type, text, arguments, attributes and notes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest

import penstock as ps
from error_kinds import KINDS, raised_by, told
from penstock.errors.tracebacks import RemoteTraceback
from penstock.workers.processes import pickled_error

pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


class Failing:
    """A function that fails in the way whose number a file has."""

    def __init__(self, number: Path) -> None:
        self.number = number

    def __call__(self, item: int) -> int:
        if item == 3:
            [*KINDS.values()][int(self.number.read_text())]()
        return item


@contextmanager
def reader(way: str, fail: Failing) -> Iterator[Any]:
    dp = ps.iter.IterableWrapper(range(5)).sharding_filter()
    if way == "workers":
        service = ps.MultiProcessingReadingService(num_workers=1)
        with ps.DataLoader2(dp.map(fail), reading_service=service) as loader:
            yield loader
    elif way == "processpool_map":
        yield dp.processpool_map(fail, workers=1)
    else:
        yield dp.threadpool_map(fail, max_workers=1)


@pytest.mark.parametrize("way", ["workers", "processpool_map", "threadpool_map"])
def test_an_error_of_any_kind_arrives_as_it_was_raised_with_its_operator_and_item(way: str, tmp_path: Path) -> None:
    number = tmp_path / "number"
    with reader(way, Failing(number)) as whole:
        for place, kind in enumerate(KINDS):
            number.write_text(str(place))
            with pytest.raises(Exception) as caught:  # noqa: PT011
                list(whole)
            assert told(caught.value) == told(raised_by(kind)), kind
            assert any(f"on {3}" in note for note in caught.value.__notes__), kind


def test_what_cannot_travel_at_all_is_told_in_words() -> None:
    arrived, _ = cloudpickle.loads(pickled_error(ValueError(threading.Lock())))
    assert type(arrived) is RuntimeError
    assert "ValueError: <unlocked _thread.lock" in str(arrived)


class OwnGroup(ExceptionGroup):
    def __new__(cls, text: str, errors: list[Exception], code: int) -> OwnGroup:
        made = super().__new__(cls, text, errors)
        made.code = code  # type: ignore[attr-defined]
        return made


class Unknown(Exception):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("nothing is known")


class Base(BaseException):
    pass


def test_a_group_of_a_users_class_arrives_with_its_errors() -> None:
    arrived, _ = cloudpickle.loads(pickled_error(OwnGroup("text", [ValueError(1)], 9)))
    assert type(arrived) is OwnGroup
    assert (arrived.code, repr(arrived.exceptions)) == (9, "(ValueError(1),)")


@pytest.mark.parametrize("way", ["workers", "processpool_map"])
def test_an_error_that_ends_no_process_elsewhere_ends_none_there(way: str) -> None:
    def fail(error: BaseException) -> Callable[[int], int]:
        def failing(item: int) -> int:
            raise error

        return failing

    with reader(way, fail(Base("text"))) as whole, pytest.raises(Base, match="text"):  # type: ignore[arg-type]
        list(whole)

    def unknown(item: int) -> int:
        raise Unknown

    with reader(way, unknown) as whole, pytest.raises(RuntimeError) as caught:  # type: ignore[arg-type]
        list(whole)
    assert "Unknown: the error could not be pickled, nor described" in str(caught.value)


@pytest.mark.parametrize("way", ["workers", "processpool_map", "threadpool_map"])
def test_an_interrupt_that_a_function_raises_names_operator_and_item(way: str, tmp_path: Path) -> None:
    def interrupt(item: int) -> int:
        if item == 3:
            raise KeyboardInterrupt
        return item

    with reader(way, interrupt) as whole, pytest.raises(KeyboardInterrupt) as caught:  # type: ignore[arg-type]
        list(whole)
    assert "raised in" in caught.value.__notes__[0]
    assert "on 3" in caught.value.__notes__[0]


TRACEBACK_OF: dict[str, Callable[[Any], Any]] = {
    "here": ps.DataLoader2,
    "in a worker": lambda dp: ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=1)),
}


@pytest.mark.parametrize("where", TRACEBACK_OF)
def test_a_traceback_has_the_users_frames_and_one_of_ours_at_most_between(where: str) -> None:
    def of_a_user(item: int) -> int:
        return 1 // item

    dp = ps.iter.IterableWrapper([0]).sharding_filter().map(of_a_user).batch(2).map(len)
    with TRACEBACK_OF[where](dp) as loader, pytest.raises(ZeroDivisionError) as caught:
        list(loader)
    frames = [(entry.name, "penstock" in entry.frame.f_globals["__name__"]) for entry in caught.traceback]
    assert sum(is_ours for _, is_ours in frames) <= 2
    if where == "here":
        assert frames[-1] == ("of_a_user", False)
    else:
        text = str(caught.value.__cause__)
        assert "return 1 // item" in text
        assert text.count("File ") == 1


def test_the_source_of_a_notebooks_cell_is_shown_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linecache.getline", lambda file, line: f"line {line} of {file}\n")
    text = 'Traceback (most recent call last):\n  File "<cell>", line 3, in f\n  File "a.py", line 4, in g\n    known\n'
    assert str(RemoteTraceback(text)) == (
        '\n"""\nTraceback (most recent call last):\n  File "<cell>", line 3, in f\n    line 3 of <cell>\n'
        '  File "a.py", line 4, in g\n    known\n"""'
    )
