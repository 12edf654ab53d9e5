from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import penstock as ps
from resuming import assert_resumes_everywhere, passed_on


def numbers(on_error: Any, items: Any = ("1", "x", "3", "y", "5")) -> Any:
    return ps.iter.IterableWrapper(items).map(int, on_error=on_error)


class Flaky:
    """Fail for each item as often as it says, and count the calls."""

    def __init__(self, failures: int, error: type[Exception] = OSError) -> None:
        self.failures = failures
        self.error = error
        self.calls: list[Any] = []

    def __call__(self, item: Any) -> Any:
        self.calls.append(item)
        if self.calls.count(item) <= self.failures:
            raise self.error(f"attempt {self.calls.count(item)}")
        return item


def test_an_error_is_raised_by_default_and_nothing_is_counted() -> None:
    dp = numbers("raise")
    with pytest.raises(ValueError, match="'x'"):
        list(dp)
    assert dp.stats() == {}


def test_skipped_items_are_left_out_counted_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    dp = numbers("skip")
    with caplog.at_level(logging.WARNING, logger="penstock"):
        assert list(dp) == [1, 3, 5]
    assert dp.stats()["map"]["skipped"] == 2
    assert dp.stats()["map"]["last_errors"][1].endswith("'y', on 'y'")
    assert [record.getMessage() for record in caplog.records] == [f"skipped: {dp.stats()['map']['last_errors'][0]}"]


def test_the_error_after_the_limit_is_raised_and_says_so() -> None:
    dp = numbers(ps.Skip(limit=1))
    with pytest.raises(ValueError, match="'y'") as caught:
        list(dp)
    assert "1 items of this pass were skipped before" in caught.value.__notes__[0]
    assert "penstock: raised in Mapper" in caught.value.__notes__[1]


def test_other_errors_than_the_given_ones_and_those_of_the_source_are_raised() -> None:
    for dp in (
        numbers(ps.Skip(errors=(OSError, KeyError))),
        numbers("raise").map(str, on_error="skip").filter(bool, on_error="skip"),
    ):
        with pytest.raises(ValueError, match="'x'"):
            list(dp)


def test_steps_of_one_name_are_numbered() -> None:
    dp = numbers("skip").map(str, on_error="skip")
    list(dp)
    assert {name: counts["skipped"] for name, counts in dp.stats().items()} == {"map 2": 0, "map 1": 2}


def test_a_handler_gets_the_error_and_the_item_and_may_raise() -> None:
    seen = []

    def handler(error: Exception, item: str) -> None:
        seen.append((type(error), item))
        if item == "y":
            raise RuntimeError("enough") from error

    dp = numbers(handler)
    with pytest.raises(RuntimeError, match="enough"):
        list(dp)
    assert seen == [(ValueError, "x"), (ValueError, "y")]


def test_what_fails_is_tried_again_and_counted() -> None:
    dp = ps.iter.IterableWrapper("ab").map(fn := Flaky(2), on_error=ps.Retry(2, backoff=0))
    assert list(dp) == ["a", "b"]
    assert fn.calls == ["a"] * 3 + ["b"] * 3
    assert dp.stats()["map"]["retried"] == 4


def test_what_fails_every_time_can_be_skipped() -> None:
    fn = Flaky(2, ValueError)
    dp = ps.iter.IterableWrapper("ab").map(fn, on_error=ps.Retry(1, backoff=0, then=ps.Skip(limit=5)))
    assert list(dp) == []
    assert dp.stats()["map"]["skipped"] == dp.stats()["map"]["retried"] == 2


def test_only_the_given_errors_are_tried_again() -> None:
    dp = ps.iter.IterableWrapper("a").map(fn := Flaky(1, KeyError), on_error=ps.Retry(3, backoff=0, errors=OSError))
    with pytest.raises(KeyError):
        list(dp)
    assert fn.calls == ["a"]


def test_a_wait_before_a_new_attempt_ends_when_the_pass_is_given_up() -> None:
    failed = threading.Event()

    def fail(_: Any) -> None:
        failed.set()
        raise OSError("not now")

    dp = ps.iter.IterableWrapper("a").map(fail, on_error=ps.Retry(1000, backoff=1000))
    ended = []

    def read() -> None:
        with pytest.raises(OSError, match="not now"):
            next(iter(dp))
        ended.append(True)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert failed.wait(10)
    dp.interrupt()
    reader.join(10)
    assert ended


def test_a_filter_skips_what_cannot_be_tested_or_has_no_truth() -> None:
    dp = ps.iter.IterableWrapper([[1], [0], [1, 0], "x"]).filter(lambda row: np.array(row, int), on_error="skip")
    assert list(dp) == [[1]]
    assert dp.stats()["filter"]["skipped"] == 2


def characters(text: str) -> Iterator[str]:
    for character in text:
        if character == "!":
            raise ValueError(text)
        yield character


def test_outputs_before_an_error_are_kept_and_those_after_it_left_out() -> None:
    dp = ps.iter.IterableWrapper(["ab", "c!d", "e"]).flatmap(characters, on_error="skip")
    assert list(dp) == ["a", "b", "c", "e"]
    assert dp.stats()["flatmap"]["skipped"] == 1


def test_outputs_given_before_an_error_are_not_given_again_by_a_new_attempt() -> None:
    fail = iter([False, True, False, False])

    def twice(item: str) -> Iterator[str]:
        for number in range(2):
            if next(fail):
                raise OSError
            yield f"{item}{number}"

    dp = ps.iter.IterableWrapper("a").flatmap(twice, on_error=ps.Retry(1, backoff=0))
    assert list(dp) == ["a0", "a1"]


def test_len_is_not_known_where_items_may_be_left_out() -> None:
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(numbers("skip"))
    assert len(numbers(ps.Retry(1))) == 5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: numbers("ignore"), ValueError, "on_error must be 'raise', 'skip'"),
        (lambda: ps.Skip(limit=-1), ValueError, "limit must be at least 0"),
        (lambda: ps.Skip(1.5), TypeError, "limit must be a whole number, and is 1.5"),  # type: ignore[arg-type]
        (lambda: ps.Skip(errors=KeyboardInterrupt), TypeError, "errors must be an exception type"),  # type: ignore[arg-type]
        (lambda: ps.Skip(errors=()), TypeError, "errors must be an exception type"),
        (lambda: ps.Skip(handler=1), TypeError, "handler must be a function"),  # type: ignore[arg-type]
        (lambda: numbers(lambda error: None), TypeError, "a handler is called with an error and an item"),
        (lambda: ps.Retry(0), ValueError, "times must be at least 1"),
        (lambda: ps.Retry(1, backoff=float("nan")), ValueError, "backoff must be seconds"),
        (lambda: ps.Retry(1, then=ps.Retry(1)), ValueError, "then must be"),  # type: ignore[arg-type]
        (lambda: ps.Retry(1, errors="OSError"), TypeError, "errors must be"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_on_error_is_an_error(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("over", [list, lambda dp: [*dp.prefetch(2)]])
def test_what_is_read_by_index_is_tried_again_after_passes_that_were_given_up(over: Any) -> None:
    source = ps.map.SequenceWrapper(range(6)).map(fn := Flaky(1), on_error=ps.Retry(1, backoff=0))
    for _ in range(3):
        fn.calls.clear()
        assert over(source.to_iter_datapipe()) == [*range(6)]
        assert source.stats()["map"]["retried"] == 6  # of this pass alone


class Unspeakable:
    shape, dtype = None, "float32"

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class UnspeakableError(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


HOLDING_ITSELF: list[Any] = []
HOLDING_ITSELF += [HOLDING_ITSELF, HOLDING_ITSELF]


@pytest.mark.parametrize(
    ("item", "error", "text"),
    [
        (Unspeakable(), ValueError(), "ValueError: , on <Unspeakable>"),
        ({Unspeakable(): 1}, ValueError("bad"), "ValueError: bad, on <dict>"),
        (HOLDING_ITSELF, ValueError("bad"), "ValueError: bad, on <list>"),
        (1, UnspeakableError(), "UnspeakableError, on 1"),
    ],
)
def test_an_item_or_error_that_cannot_be_described_is_skipped_like_any_other(
    item: Any, error: Exception, text: str
) -> None:
    def fail(_: Any) -> None:
        raise error

    dp = ps.iter.IterableWrapper([item], deepcopy=False).map(fail, on_error="skip")
    assert list(dp) == []
    assert dp.stats()["map"]["last_errors"] == [text]


def failing(*items: Any) -> Any:
    return numbers("skip", [*items])


@pytest.mark.parametrize(
    "make",
    [
        lambda: failing("1", "x", "2").concat(failing("y", "3"), failing("4", "z")),
        lambda: failing("1", "x").mux_longest(failing("y", "2", "3", "4")),
        lambda: failing("1", "x").mix(failing("y", "2", "3"), weights=[5, 1]).set_seed(0),
        lambda: failing("1", "x", "2", "y", "3").header(2),
        lambda: failing("1", "x", "2").shuffle().set_seed(0).batch(2).map(len, on_error="skip"),
        lambda: (
            ps.iter.IterableWrapper("1x2")
            .enumerate()
            .to_map_datapipe(lambda pair: (pair[0] // 2, int(pair[1])), on_error="skip")
            .to_iter_datapipe()
            .concat(failing("1", "x", "2"))
        ),
    ],
)
def test_a_resumed_pass_counts_what_was_skipped_in_parts_that_it_does_not_read_again(make: Any) -> None:
    def skipped(dp: Any) -> dict[str, int]:
        return {name: counts["skipped"] for name, counts in dp.stats().items()}

    uninterrupted = make()
    length = len(list(uninterrupted))
    for handed_out in range(length + 1):
        interrupted = make()
        list(islice(iterator := iter(interrupted), handed_out))
        for _ in range(2):  # also from the state of one that has been resumed, and has not gone on
            resumed = make()
            resumed.load_state_dict(passed_on(interrupted))
            assert skipped(resumed) == skipped(interrupted)
            interrupted = resumed
        list(resumed)
        assert skipped(resumed) == skipped(uninterrupted), f"after {handed_out} items"
        assert len(list(resumed)) == length
        assert skipped(resumed) == skipped(uninterrupted), "in the next pass"
        del iterator


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(ps.Retry(1, backoff=0, then="skip")).batch(2),
        lambda: ps.iter.IterableWrapper(["ab", "c!d", "!", "e"]).flatmap(characters, on_error="skip"),
        lambda: ps.iter.IterableWrapper(["1", "x", "0", "3"]).filter(int, on_error="skip").prefetch(2),
    ],
)
def test_chains_that_skip_resume_everywhere(make: Any) -> None:
    assert_resumes_everywhere(make, passes=3)
