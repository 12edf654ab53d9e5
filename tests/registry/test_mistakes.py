"""Mistakes that people make, and the answers that they get."""

import enum
import gc
import re
import weakref

import pytest

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import operators


def numbers(n=10):
    return ps.iter.IterableWrapper(range(n))


def in_order():
    return ps.map.SequenceWrapper(range(10))


@pytest.mark.parametrize(
    ("mistake", "error", "said"),
    [
        (lambda: numbers().shuffle.batch(2), AttributeError, "shuffle is a method, and must be called: .shuffle(…)"),
        (lambda: numbers()[3], TypeError, "has no item 3: take(n) and peek(n) give the first n items"),
        (lambda: in_order().filter(bool), AttributeError, "iterable pipes have: convert it, as in .to_iter_datapipe()"),
        (lambda: DataLoader2(numbers()).seed("a"), TypeError, "seed must be a whole number, and is 'a'"),
        (lambda: DataLoader2(numbers()).seed(1.5), TypeError, "seed must be a whole number, and is 1.5"),
        (lambda: ps.iter.IterableWrapper(), TypeError, "IterableWrapper takes (iterable, deepcopy=True)"),
        (lambda: ps.IterableWrapper, AttributeError, "penstock has no 'IterableWrapper': it is penstock.iter.Iterable"),
        (lambda: ps.SequenceWrapper, AttributeError, "it is penstock.map.SequenceWrapper"),
        (lambda: ps.shuffle, AttributeError, "it is a method of pipes, as in dp.shuffle(…)"),
        (lambda: ps.DataLoader, AttributeError, "penstock has no 'DataLoader': did you mean 'DataLoader2'?"),
        (lambda: numbers().threadpool_map(str, workers=4), TypeError, "has no parameter 'workers': it takes fn, "),
        (lambda: numbers().threadpool_map(str, workers=4), TypeError, "initargs: did you mean 'max_workers'?"),
        (lambda: numbers().load_files_by_s3(num_workers=4), TypeError, "did you mean 'workers'?"),
        (lambda: numbers().list_files_by_s3(mask="*.tar"), TypeError, "did you mean 'masks'?"),
        (lambda: numbers().cache_files("folder", 10, on_eror="skip"), TypeError, "did you mean 'on_error'?"),
        (lambda: numbers().write_tar("{shard}", 3, rows_per_file=3), TypeError, "argument 'rows_per_file'"),
        (lambda: MultiProcessingReadingService(1.5), TypeError, "num_workers must be a whole number, and is 1.5"),
        (lambda: MultiProcessingReadingService("2"), TypeError, "num_workers must be a whole number, and is '2'"),
        (lambda: numbers().shuffle().set_seed("a"), TypeError, "seed must be a whole number, and is 'a'"),
        (lambda: numbers().shuffle(10), TypeError, "shuffle takes (*, buffer_size=10000, unbatch_level=0)"),
        (lambda: numbers().shuffle(seed=1), TypeError, "and its seed by .set_seed(1)"),
        (lambda: numbers().shuffle(bufer_size=1), TypeError, "did you mean 'buffer_size'"),
        (lambda: numbers().batch(), TypeError, "missing a required argument: 'batch_size': batch takes (batch_size,"),
        (lambda: in_order().batch(), TypeError, "missing a required argument: 'batch_size': batch takes (batch_size,"),
        (lambda: DataLoader2(numbers(), num_workers=3), TypeError, "MultiProcessingReadingService(num_workers=…)"),
        (lambda: DataLoader2(numbers(), batch_size=3), TypeError, "say .batch(…) in the chain"),
        (lambda: ps.iter.IterableWrapper(list), TypeError, "list is a class: call it"),
        (lambda: ps.iter.IterableWrapper(5), TypeError, "needs an iterable, and int is not one"),
        (lambda: len(numbers().filter(bool)), TypeError, "set_length(n) gives it, and count() reads them all"),
        (lambda: len(numbers().filter(bool).map(str).batch(2)), TypeError, "set_length(n) gives it"),
    ],
)
def test_a_mistake_gets_an_answer(mistake, error, said):
    with pytest.raises(error, match=re.escape(said)):
        mistake()


def test_an_error_of_a_constructor_is_its_own():
    class Picky(ps.IterDataPipe):
        def __init__(self, source):
            raise TypeError("of its own")

    with pytest.raises(TypeError, match="^of its own$"):
        Picky(numbers())


def test_a_class_that_can_be_iterated_over_is_an_iterable():
    class Colour(enum.Enum):
        RED = 1

    assert list(ps.iter.IterableWrapper(Colour)) == [Colour.RED]


def test_a_pipe_of_unknown_length_or_without_items_is_true():
    assert numbers().filter(bool)
    assert numbers(0)
    assert numbers(0).batch(2)


def test_who_replaced_an_iterator_is_said():
    dp = numbers()
    iterator = iter(dp)
    assert next(iterator) == 0
    dp.take(1)
    with pytest.raises(RuntimeError, match=r"newer one, by take\(\) in .*test_mistakes\.py, line \d+: .*peek\(n\)"):
        next(iterator)
    iterator = iter(dp)
    iter(dp)
    with pytest.raises(RuntimeError, match=r"by a newer one, by .*test_mistakes\.py, line \d+"):
        next(iterator)


@pytest.mark.parametrize(
    "chain",
    [
        lambda: numbers().map(str),
        lambda: numbers().shuffle().set_seed(3).batch(2).in_memory_cache(),
        lambda: ps.iter.Zipper(*numbers().fork(2)),
        lambda: numbers().prefetch(3),
        lambda: in_order().to_iter_datapipe(),
        lambda: in_order().shuffle().set_seed(3),
    ],
)
def test_peeking_leaves_a_pass_alone(chain):
    whole, dp = list(chain()), chain()
    assert dp.peek(4) == whole[:4]
    iterator = iter(dp)
    seen = [next(iterator)]
    assert len(dp.peek(3)) == 3
    assert [*seen, *iterator] == whole


def test_what_can_be_read_once_only_cannot_be_peeked_at():
    dp = ps.iter.IterableWrapper(x for x in range(3)).map(str)
    with pytest.raises(TypeError, match="can be read once only"):
        dp.peek()
    assert list(dp) == ["0", "1", "2"]


def test_dir_shows_operators_and_helpers():
    names = {name for name in dir(numbers().map(str)) if name[:2] != "__"}
    assert names >= {"batch", "map", "shuffle", "take", "peek", "show", "count", "state_dict", "load_state_dict", "fn"}
    assert not any(name.startswith("_") for name in names)
    assert names.isdisjoint({"set_getstate_hook", "register_function", "functions", "holds_items", "payload", "reset"})
    methods = {entry.name for entry in operators.values() if entry.on == "iter" and entry.method}
    assert methods <= names
    helpers = {"count", "explain", "peek", "show", "stats", "take", "take_all", "state_dict", "load_state_dict"}
    helpers |= {"build_vocab", "profile", "visualize", "to_map_datapipe", "to_node", "to_ray_dataset"}
    of_users = {name for name in dir(numbers().shuffle()) if name[:2] != "__"}
    assert of_users <= {*methods, *helpers, "set_seed", "set_shuffle", "buffer_size", "source"}


@pytest.mark.parametrize("chain", [lambda: numbers().filter(bool), lambda: numbers().filter(bool).map(str).batch(2)])
def test_a_chain_of_unknown_length_is_freed_with_its_last_reference(chain):
    dp = chain()
    list(dp)
    with pytest.raises(TypeError):
        len(dp)
    reference = weakref.ref(dp)
    gc.disable()
    try:
        del dp
        assert reference() is None
    finally:
        gc.enable()
