"""A pass over a pipe: its beginning, its end, errors in it, and being replaced by a newer one."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

import penstock as ps


class Pipe(ps.IterDataPipe):
    """A pipe whose `__iter__` is the function that it is given."""

    def __init__(self, source: Any, iterate: Callable[[Any], Any]) -> None:
        self.source = source
        self.iterate = iterate

    def __iter__(self) -> Iterator[Any]:
        return self.iterate(self.source)  # type: ignore[no-any-return]


def numbers(n: int = 5) -> Any:
    return ps.iter.IterableWrapper(range(n))


def generator(source: Any) -> Iterator[Any]:
    for item in source:  # noqa: UP028
        yield item


@pytest.mark.parametrize(
    "iterate",
    [
        generator,
        iter,
        lambda source: map(int, source),
        lambda source: itertools.islice(source, None),
        lambda source: itertools.chain.from_iterable([item] for item in source),
    ],
)
def test_iter_may_return_any_iterator(iterate: Any) -> None:
    assert list(Pipe(numbers(), iterate)) == [0, 1, 2, 3, 4]


def test_a_pipe_may_be_its_own_iterator() -> None:
    class Counter(ps.IterDataPipe):
        def reset(self) -> None:
            self.n = 0

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            if self.n == 3:
                raise StopIteration
            self.n += 1
            return self.n

    dp = Counter()
    assert list(dp) == list(dp) == [1, 2, 3]
    older = iter(dp)
    next(older)
    newer = iter(dp)
    with pytest.raises(RuntimeError, match="replaced"):
        next(older)
    assert list(newer) == [1, 2, 3]


def test_a_subclass_may_inherit_iter_or_call_it_and_must_have_one() -> None:
    class Inheriting(Pipe):
        pass

    class Calling(Pipe):
        def __iter__(self) -> Iterator[Any]:
            for item in super().__iter__():
                yield -item

    class Nothing(ps.IterDataPipe):
        pass

    assert list(Inheriting(numbers(), iter)) == [0, 1, 2, 3, 4]
    assert list(Calling(numbers(), iter)) == [0, -1, -2, -3, -4]
    with pytest.raises(NotImplementedError, match="Nothing must define __iter__"):
        list(Nothing())


def test_reset_is_called_when_a_pass_begins() -> None:
    class Resetting(Pipe):
        resets = 0

        def reset(self) -> None:
            self.resets += 1

    dp = Resetting(numbers(), iter)
    iterator = iter(dp)
    assert dp.resets == 0
    list(iterator)
    list(dp)
    assert dp.resets == 2


def test_one_frame_of_ours_runs_for_an_item_and_stage_and_no_hook() -> None:
    iterator = iter(numbers().map(str).filter(len))
    next(iterator)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)
    next(iterator)
    sys.setprofile(None)
    assert calls == ["_deliver"] * 3


# One live iterator


def test_a_newer_iterator_replaces_the_older_whose_next_step_says_so() -> None:
    dp = numbers().map(str)
    older, newer = iter(dp), iter(dp)
    with pytest.raises(RuntimeError, match=r"this iterator of Mapper\(str\) was replaced by a newer one, by .*fork it"):
        next(older)
    assert list(older) == []
    assert list(newer) == list(dp) == ["0", "1", "2", "3", "4"]
    assert list(newer) == []  # it was used up, and not replaced


def test_an_operator_that_catches_errors_does_not_catch_being_replaced() -> None:
    def forgiving(source: Any) -> Iterator[Any]:
        for item in source:
            try:
                yield item
            except Exception:
                yield "caught"

    dp = Pipe(numbers(), forgiving)
    older = iter(dp)
    next(older)
    assert list(dp) == [0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="replaced"):
        next(older)


def test_a_pipe_that_reads_itself_is_a_clear_error() -> None:
    dp = numbers().map(lambda x: list(dp))
    with pytest.raises(RuntimeError, match=r"Mapper\(<lambda>\) is already being read, .* by itself"):
        list(dp)


def test_a_pipe_that_another_thread_is_reading_is_a_clear_error() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(x: int) -> int:
        inside.set()
        assert go_on.wait(30)
        return x

    dp = numbers().map(wait)
    items: list[int] = []
    thread = threading.Thread(target=lambda: items.extend(dp))
    thread.start()
    try:
        assert inside.wait(30)
        with pytest.raises(RuntimeError, match=r"Mapper\(.*wait\) is already being read, by another thread"):
            iter(dp)
    finally:
        go_on.set()
        thread.join(30)
    assert items == [0, 1, 2, 3, 4]


# The end


def test_at_end_is_called_after_the_last_item_and_only_then() -> None:
    class Strict(Pipe):
        def at_end(self) -> None:
            raise ValueError("too short")

    dp = Strict(numbers(), iter)
    assert dp.take(4) == [0, 1, 2, 3]
    iterator = iter(dp)
    assert list(itertools.islice(iterator, 5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="too short"):
        next(iterator)


def test_after_an_error_the_iterator_is_over_and_the_next_pass_begins_anew() -> None:
    failing = True

    def fail_once(x: int) -> int:
        if failing and x == 2:
            raise ValueError(x)
        return x

    dp = numbers().map(fail_once).map(str)
    iterator = iter(dp)
    assert [next(iterator), next(iterator)] == ["0", "1"]
    with pytest.raises(ValueError, match="2"):
        next(iterator)
    assert list(iterator) == []
    failing = False
    assert list(dp) == ["0", "1", "2", "3", "4"]


def test_an_interrupt_names_operator_and_item_and_its_pass_has_no_state() -> None:
    def interrupt(x: int) -> NoReturn:
        raise KeyboardInterrupt

    dp = numbers().map(interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        list(dp)
    assert caught.value.__notes__ == ["penstock: raised in Mapper(interrupt), on 0"]
    with pytest.raises(RuntimeError, match=r"ended in KeyboardInterrupt\(\)"):
        dp.state_dict()


# What every pipe can do


def test_pipes_are_taken_from_counted_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for dp in (ps.iter.IterableWrapper("abc"), ps.map.SequenceWrapper("abc")):
        assert (dp.take(2), dp.take(9), dp.take_all(), dp.count()) == (["a", "b"], [*"abc"], [*"abc"], 3)
    ps.iter.IterableWrapper([b"x" * 1000, "b", "c"]).show(2)
    assert capsys.readouterr().out.splitlines()[1:] == ["0: bytes of length 1000", "1: 'b'"]


class Item:
    """An item to which weak references are possible."""


@pytest.mark.parametrize("end", ["close", "throw", "del", "shutdown"])
@pytest.mark.parametrize(
    "iterate", [generator, iter, lambda source: map(id, source), lambda source: zip(source, itertools.count())]
)
def test_a_pass_that_ends_early_keeps_no_item(iterate: Callable[[Any], Any], end: str) -> None:
    items: list[weakref.ref[Item]] = []

    def made(_: int) -> Item:
        item = Item()
        items.append(weakref.ref(item))
        return item

    dp: Any = Pipe(numbers().map(made), iterate)
    if end == "shutdown":
        dp = ps.DataLoader2(dp)
    iterator = iter(dp)
    next(iterator)
    if end == "close":
        iterator.close()  # type: ignore[attr-defined]
    elif end == "throw":
        with pytest.raises(LookupError):
            iterator.throw(LookupError())  # type: ignore[attr-defined]
    elif end == "del":
        del iterator
    else:
        dp.shutdown()
    assert items
    assert not any(item() for item in items)


def test_an_operator_may_have_attributes_of_any_public_name() -> None:
    names = ("observer", "meter", "capacity", "iterator", "upstream", "begun", "policy", "result")

    class Named(Pipe):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            vars(self).update(dict.fromkeys(names, 7))

    dp: Any = Named(numbers(), generator)
    assert list(itertools.islice(dp, 2)) == [0, 1]
    dp.load_state_dict(dp.state_dict())
    assert list(dp) == [2, 3, 4]
    assert "5" in str(dp.profile())


@pytest.mark.parametrize("make", [lambda: (n for n in range(3)), lambda: filter(None, (n for n in range(1, 4)))])
def test_a_pass_over_an_iterator_that_was_read_to_its_end_warns(make: Callable[[], Iterator[int]]) -> None:
    dp = ps.iter.IterableWrapper(make())
    assert len(list(dp)) == 3
    with pytest.warns(UserWarning, match="which an earlier pass has read to its end"):
        assert list(dp) == []
    half = ps.iter.IterableWrapper(make())
    assert len([*itertools.islice(half, 1)]) == 1
    assert len(list(half)) == 2  # no warning: it has items
