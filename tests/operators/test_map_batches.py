"""map_batches, async_map_batches and vmap: functions of many items, and many awaited at once."""

import asyncio
import threading
import time

import pytest
import torch

import penstock as ps
from left_behind import collecting_garbage_is_quick, nothing_is_left_behind, our_threads  # noqa: F401  (fixtures)
from penstock.workers import event_loop

pytestmark = pytest.mark.timeout(30)

numbers = ps.iter.IterableWrapper


# map_batches


@pytest.mark.parametrize("given", [{"a": [1, 2]}, "ab", b"ab"])
def test_map_batches_refuses_what_has_other_parts_than_items(given):
    with pytest.raises(TypeError, match=r"must return a list of items.*returned .*with \.map\(fn\)") as caught:
        list(numbers(range(2)).map_batches(lambda batch: given, 2))
    assert any(note.startswith("penstock: raised in BatchMapper(") for note in caught.value.__notes__)
    with pytest.raises(TypeError, match=type(given).__name__):
        list(numbers([(1, 2)]).map_batches(lambda left, right: given, 2, input_col=[0, 1]))
    assert list(numbers(range(4)).map_batches(lambda batch: given, 2, on_error="skip")) == []


@pytest.mark.parametrize(
    ("items", "fn", "options", "expected"),
    [
        (range(5), lambda batch: [x * 10 for x in batch], {}, [0, 10, 20, 30, 40]),
        (range(5), lambda batch: [tuple(batch)], {}, [(0, 1), (2, 3), (4,)]),
        (range(4), lambda batch: (x for x in batch for _ in range(x)), {}, [1, 2, 2, 3, 3, 3]),
        ([(1, "a"), (2, "b"), (3, "c")], lambda values: [sum(values)], {"input_col": 0}, [3, 3]),
        ([(1, "a"), (2, "b")], lambda *columns: columns, {"input_col": [1, 0]}, [["a", "b"], [1, 2]]),
        ([{"a": 1, "b": 2}], lambda values: values, {"input_col": "b"}, [2]),
        ([], lambda batch: batch, {}, []),
    ],
)
def test_map_batches_yields_what_the_function_gives_for_each_batch(items, fn, options, expected):
    assert list(numbers(items).map_batches(fn, 2, **options)) == expected


def test_what_map_batches_cannot_iterate_is_an_error_with_its_batch():
    with pytest.raises(TypeError, match="not iterable") as caught:
        list(numbers(range(4)).map_batches(len, 2))
    assert caught.value.__notes__ == ["penstock: raised in BatchMapper(len, batch_size=2), on [0, 1]"]


def test_map_batches_leaves_out_a_batch_that_fails():
    dp = numbers(range(6)).map_batches(lambda batch: [1 // (x - 2) for x in batch], 2, on_error="skip")
    assert list(dp) == [-1, -1, 0, 0]
    assert dp.stats()["map_batches"]["skipped"] == 1
    assert dp.stats()["map_batches"]["last_errors"][0].endswith("on [2, 3]")


# async_map_batches


async def times_ten(x):
    await asyncio.sleep(0.01 if x % 3 == 0 else 0)
    return x * 10


async def fails_at_odd(x):
    if x % 2:
        raise ValueError(f"odd: {x}")
    return x


def test_async_results_come_in_the_order_of_the_items_one_by_one_or_in_batches():
    for batch_size in (1, 3, 100):
        dp = numbers(range(10)).async_map_batches(times_ten, batch_size)
        assert list(dp) == list(dp) == [x * 10 for x in range(10)]
        assert len(dp) == 10
    dp = numbers(range(5)).async_map_batches(times_ten, 2, flatten=False)
    assert list(dp) == [[0, 10], [20, 30], [40]]
    assert len(dp) == 3
    assert len(numbers(range(4)).async_map_batches(times_ten, 2, flatten=False)) == 2


def test_async_columns_as_for_map():
    async def add(x, y):
        return x + y

    rows = [(1, 2, "a"), (3, 4, "b")]
    assert list(numbers(rows).async_map_batches(add, 2, input_col=[0, 1])) == [(3, "a"), (7, "b")]
    assert list(numbers(rows).async_map_batches(add, 2, [0, 1], -1)) == [(1, 2, "a", 3), (3, 4, "b", 7)]


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_are_awaited_at_once_than_allowed(most):
    awaited, peaks = [], []

    async def fn(x):
        awaited.append(x)
        peaks.append(len(awaited))
        await asyncio.sleep(0.001)
        awaited.remove(x)
        return x

    assert list(numbers(range(20)).async_map_batches(fn, 10, max_concurrency=most)) == list(range(20))
    assert max(peaks) == most


def test_no_more_items_are_pulled_than_the_batch_size():
    pulled = []
    running = iter(numbers(range(100)).map(lambda x: pulled.append(x) or x).async_map_batches(times_ten, 4))
    assert pulled == []
    assert our_threads() == []
    next(running)
    assert len(pulled) == 4


def test_all_of_a_pass_is_awaited_in_one_loop():
    loops = set()

    async def fn(x):
        loops.add(asyncio.get_running_loop())

    list(numbers(range(9)).async_map_batches(fn, 2))
    assert len(loops) == 1


def test_async_inside_a_running_loop():
    async def notebook():
        return list(numbers(range(3)).async_map_batches(times_ten, 2))

    assert asyncio.run(notebook()) == [0, 10, 20]


def test_an_async_error_comes_in_its_turn_and_names_its_item():
    running = iter(numbers([0, 2, 3, 4]).async_map_batches(fails_at_odd, 4))
    assert [next(running), next(running)] == [0, 2]
    with pytest.raises(ValueError, match="odd: 3") as caught:
        next(running)
    assert caught.value.__notes__ == ["penstock: raised in BatchAsyncMapper(fails_at_odd, batch_size=4), on 3"]


@pytest.mark.parametrize(
    ("raised", "seen", "message"),
    [
        (asyncio.CancelledError, RuntimeError, "async_fn was cancelled"),
        (StopAsyncIteration("x"), StopAsyncIteration, "x"),
        (SystemExit(3), SystemExit, "3"),
    ],
)
def test_unusual_errors_out_of_a_coroutine_do_not_hang(raised, seen, message):
    async def fn(x):
        raise raised

    with pytest.raises(seen, match=message):
        list(numbers([1]).async_map_batches(fn, 1))


def test_async_items_that_fail_are_skipped():
    dp = numbers(range(6)).async_map_batches(fails_at_odd, 3, on_error="skip")
    assert list(dp) == [0, 2, 4]
    assert dp.stats()["async_map_batches"]["skipped"] == 3
    in_batches = numbers(range(6)).async_map_batches(fails_at_odd, 3, flatten=False, on_error="skip")
    assert list(in_batches) == [[0, 2, 4]]
    with pytest.raises(TypeError, match="length is unknown"):
        len(in_batches)


def test_async_attempts_are_made_again():
    attempts = []

    async def fn(x):
        attempts.append(x)
        if attempts.count(x) < 3:
            raise OSError("not yet")
        return x

    dp = numbers(range(3)).async_map_batches(fn, 2, on_error=ps.Retry(3, backoff=0))
    assert list(dp) == [0, 1, 2]
    assert dp.stats()["async_map_batches"]["retried"] == 6
    assert sorted(attempts) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    with pytest.raises(OSError, match="not yet"):
        list(numbers(range(3, 6)).async_map_batches(fn, 2, on_error=ps.Retry(1, backoff=0)))


@pytest.mark.parametrize("end", ["close", "drop", "prefetch"])
def test_giving_up_cancels_what_is_awaited(end):
    begun, cancelled = [], []

    async def fn(x):
        begun.append(x)
        try:
            await asyncio.sleep(0 if x == 0 else 100)
        except asyncio.CancelledError:
            cancelled.append(x)
            raise

    dp = numbers(range(100)).async_map_batches(fn, 5)
    running = iter(dp.prefetch(2) if end == "prefetch" else dp)
    next(running)
    deadline = time.monotonic() + 10
    while not {1, 2, 3, 4} <= {*begun}:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    if end != "drop":
        running.close()
    del running
    assert our_threads() == []
    assert sorted(cancelled) == sorted(begun)[1:]


def test_what_cannot_be_cancelled_is_an_error_at_close(monkeypatch):
    monkeypatch.setattr(event_loop, "PATIENCE", 0.2)
    release = threading.Event()

    async def fn(x):
        if x == "b":
            release.wait(20)  # the loop itself stands still

    running = iter(numbers(["a", "b"]).async_map_batches(fn, 2, max_concurrency=1))
    next(running)
    with pytest.raises(RuntimeError, match=r"not done 0.2 s after it was cancelled: 'b'"):
        running.close()
    release.set()
    [thread.join(10) for thread in threading.enumerate() if thread.name == "penstock-async"]


# vmap


def samples():
    return numbers([{"x": torch.arange(3.0) + n, "label": n, "name": str(n)} for n in range(5)])


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, torch.Tensor) else value


t = torch.tensor


@pytest.mark.parametrize(
    ("batch", "fn", "options", "expected"),
    [
        ({"a": t([[1, 2], [3, 4]]), "b": t([5, 6])}, lambda s: {"c": s["a"].sum() + s["b"]}, {}, {"c": [8, 13]}),
        ((t([1, 2]), t([3, 4])), lambda s: s[0] * s[1], {}, [3, 8]),
        ([t([1, 2]), t([3, 4])], lambda s: (s[0], s[1] + 1), {}, ([1, 2], [4, 5])),
        ([t([1, 2]), t([3, 4])], lambda s: s[0] * s[1], {"in_dims": [0, None]}, [[3, 4], [6, 8]]),
        ({"a": t([[1, 2, 3], [4, 5, 6]])}, lambda s: s["a"].sum(), {"in_dims": 1}, [5, 7, 9]),
        ({"a": t([1, 2]), "n": "x"}, lambda x: x + 1, {"input_col": "a"}, {"a": [2, 3], "n": "x"}),
        (
            {"a": t([1, 2]), "b": t([3, 4])},
            lambda a, b: a * b,
            {"input_col": ["a", "b"], "in_dims": (0, None), "output_col": "c"},
            {"a": [1, 2], "b": [3, 4], "c": [[3, 4], [6, 8]]},
        ),
    ],
)
def test_vmap_over_tensors_in_containers(batch, fn, options, expected):
    (seen,) = numbers([batch], deepcopy=False).vmap(fn, **options)
    assert plain(seen) == expected


@pytest.mark.parametrize(
    ("fn", "options", "reason"),
    [
        (lambda x: x if x.sum() > 0 else -x, {"input_col": "x"}, "data-dependent control flow"),
        (lambda x: x.sum().item(), {"input_col": "x"}, "calling .item()"),
        (lambda x: x + torch.rand(3), {"input_col": "x"}, "random operation"),
        (lambda x: "text", {"input_col": "x"}, "must only return Tensors"),
        (lambda sample: sample["x"], {}, "Got in_dim=0 for an input but the input is of type"),
    ],
    ids=["branches", "item", "random", "returns text", "over text"],
)
def test_what_vmap_cannot_do_says_why_and_what_to_do(fn, options, reason):
    with pytest.raises((RuntimeError, ValueError), match=None) as caught:
        list(samples().batch(2).collate().vmap(fn, **options))
    assert reason in str(caught.value)
    advice, where = caught.value.__notes__
    assert ".map_batches" in advice
    assert where.startswith("penstock: raised in Vectorizer(")


def test_vmap_draws_random_numbers_where_it_is_told_to():
    dp = samples().batch(5).collate().vmap(lambda x: torch.rand(()) + 0 * x[0], randomness="different", input_col="x")
    (batch,) = dp
    assert len(set(batch["x"].tolist())) == 5


def test_vmap_leaves_out_batches_that_fail():
    tensors = numbers([torch.ones(2), torch.ones(2), "text", torch.ones(3)], deepcopy=False)
    doubled = tensors.vmap(lambda x: x * 2, on_error="skip").map(torch.Tensor.tolist)
    assert list(doubled) == [[2, 2], [2, 2], [2, 2, 2]]
