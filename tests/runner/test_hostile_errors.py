"""An error whose own methods raise comes out as itself, wherever it was raised."""

import pytest

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService, Skip
from penstock.registry import SHARDING_PRIORITIES

pytestmark = [pytest.mark.timeout(90), pytest.mark.usefixtures("nothing_is_left_behind")]


class Hostile(Exception):
    def __str__(self):
        raise ZeroDivisionError("the text cannot be made")

    __repr__ = __str__

    def add_note(self, note):
        raise ZeroDivisionError("the note cannot be added")


def fail(item):
    raise Hostile(item)


def numbers():
    return ps.iter.IterableWrapper(range(3)).sharding_filter()


def by_workers(dp, **options):
    return DataLoader2(dp, reading_service=MultiProcessingReadingService(1, **options))


WAYS = {
    "in a chain": lambda: numbers().map(fail),
    "in a loader": lambda: DataLoader2(numbers().map(fail)),
    "in a worker": lambda: by_workers(numbers().map(fail)),
    "in a worker, nothing read ahead": lambda: by_workers(numbers().map(fail), main_prefetch_cnt=0),
    "in worker_init_fn": lambda: by_workers(numbers(), worker_init_fn=lambda dp, info: fail(0)),
    "where a stream is dispatched": lambda: by_workers(
        ps.iter.IterableWrapper(range(3)).map(fail).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    ),
    "in a thread": lambda: numbers().threadpool_map(fail),
    "in a process": lambda: numbers().processpool_map(fail, workers=1),
    "after one that was skipped": lambda: by_workers(numbers().map(fail, on_error=Skip(1))),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_an_error_whose_methods_raise_keeps_its_type_and_is_told_where_it_was_raised(make):
    whole = make()
    with pytest.raises(Hostile) as raised:
        list(whole)
    assert any("raised in" in note for note in raised.value.__notes__)
    if hasattr(whole, "shutdown"):
        whole.shutdown()
