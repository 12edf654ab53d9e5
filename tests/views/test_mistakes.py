"""Mistakes that people make, and the answers that they get."""

import gc
import inspect
import itertools
import re
import weakref

import pyarrow as pa
import pytest
import torch

import penstock as ps
from passing import Passing
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import operators
from penstock.registry.method_lookup import _NAMES_OF_OTHERS
from penstock.runner.loading.loader import _ARGUMENTS_OF_TORCH


def numbers(n=10):
    return ps.iter.IterableWrapper(range(n))


def names():
    return ps.iter.IterableWrapper(["a.tar"])


def in_order():
    return ps.map.SequenceWrapper(range(10))


@pytest.mark.parametrize(
    ("mistake", "error", "said"),
    [
        (lambda: numbers().shuffle.batch(2), AttributeError, "shuffle is a method, and must be called: .shuffle(…)"),
        (lambda: numbers()[3], TypeError, "has no item 3: take(n) and peek(n) give the first n items"),
        (
            lambda: in_order().flatmap(list),
            AttributeError,
            "iterable pipes have: convert it, as in .to_iter_datapipe()",
        ),
        (lambda: DataLoader2(numbers()).seed(1.5), TypeError, "seed must be a whole number, and is 1.5"),
        (lambda: ps.iter.IterableWrapper(), TypeError, "IterableWrapper takes (iterable, deepcopy=True)"),
        (lambda: ps.IterableWrapper, AttributeError, "penstock has no 'IterableWrapper': it is penstock.iter.Iterable"),
        (lambda: ps.shuffle, AttributeError, "it is a method of pipes, as in dp.shuffle(…)"),
        (lambda: ps.DataLoader, AttributeError, "penstock has no 'DataLoader': did you mean 'DataLoader2'?"),
        (lambda: numbers().threadpool_map(str, workers=4), TypeError, "initargs: did you mean 'max_workers'?"),
        (lambda: MultiProcessingReadingService(1.5), TypeError, "num_workers must be a whole number, and is 1.5"),
        (lambda: numbers().shuffle().set_seed("a"), TypeError, "seed must be a whole number, and is 'a'"),
        (lambda: numbers().shuffle(seed=1), TypeError, "and its seed by .set_seed(1)"),
        (lambda: numbers().shuffle(bufer_size=1), TypeError, "did you mean 'buffer_size'"),
        (lambda: numbers().batch(), TypeError, "missing a required argument: 'batch_size': batch takes (batch_size,"),
        (lambda: DataLoader2(numbers(), num_workers=3), TypeError, "MultiProcessingReadingService(num_workers=…)"),
        (lambda: DataLoader2(numbers(), batch_size=3), TypeError, "unlike torch's DataLoader, put .batch(…) into"),
        (lambda: DataLoader2(numbers(), sampler=[1]), TypeError, "begin the chain with penstock.iter.Sampler("),
        (lambda: DataLoader2(numbers(), reading_servce=None), TypeError, "did you mean 'reading_service'?"),
        (lambda: MultiProcessingReadingService(workers=2), TypeError, "takes no workers: give num_workers"),
        (lambda: MultiProcessingReadingService(2, prefetch_factor=2), TypeError, "give worker_prefetch_cnt"),
        (lambda: MultiProcessingReadingService(2, timeout="x"), TypeError, "timeout must be a number, and is 'x'"),
        (lambda: ps.InProcessReadingService(num_workers=2), TypeError, "use a MultiProcessingReadingService("),
        (lambda: ps.RayReadingService(workers=2), TypeError, "RayReadingService takes no workers: give num_workers"),
        (lambda: ps.DistributedReadingService(num_workers=2), TypeError, "follows in a SequentialReadingService"),
        (lambda: ps.read_parquet(".", batchsize=3), TypeError, "takes no batchsize: did you mean 'batch_size'?"),
        (lambda: ps.read_parquet(".", filesystem=None), TypeError, "takes no filesystem: a URL names its file system,"),
        (lambda: ps.read_csv(".", sep=";"), TypeError, "there is no option 'sep': it is called delimiter; the option"),
        (lambda: ps.read_csv(".", header=None), TypeError, "'header': give column_names=[…] for a file without a"),
        (lambda: ps.read_numpy(".", max_workers=2), TypeError, "takes no max_workers: it is called workers"),
        (lambda: ps.read_parquet(".", read_ahead=2), TypeError, "takes no read_ahead: it is called prefetch"),
        (
            lambda: numbers().map(str, max_workers=2),
            TypeError,
            ".threadpool_map(fn, max_workers=…) and .processpool_map(fn",
        ),
        (lambda: numbers().batch(2, anon=True), TypeError, "DataChunk'>)"),
        (lambda: ps.iter.S3FileLister([], anon=True), TypeError, "give it in storage_options={…}"),
        (lambda: ps.read_csv(".", delimeter=";"), TypeError, "'delimeter': did you mean 'delimiter'"),
        (lambda: DataLoader2([1]), TypeError, "wrap a list, as in penstock.iter.IterableWrapper(items), and a data"),
        (
            lambda: list(ps.from_arrow(pa.table({"x": [1]})).dataframe()),
            ValueError,
            "the items are batches of columns, not rows: put .rows() before it",
        ),
        (
            lambda: list(ps.iter.WebDataset(["s{000..003}.tar"])),
            TypeError,
            'as in .shard_expand().open_files_by_fsspec(mode="rb").load_from_tar()',
        ),
        (lambda: list(ps.iter.WebDataset("a.tar")), TypeError, "give a list, as in ['a.tar'], or the chain of steps"),
        (lambda: ps.iter_torch_batches(numbers(), shuffle=True), TypeError, "mean 'local_shuffle_buffer_size' or 'lo"),
        (lambda: ps.iter_torch_batches(numbers(), columns=["x"]), TypeError, "put .select_columns([…]) before it"),
        (lambda: ps.iter_torch_batches(numbers(), progress=True), TypeError, "set loader.progress = True, or put"),
        (lambda: ps.read_parquet(".").columns(), AttributeError, "no attribute 'columns': use .schema().names"),
        (lambda: numbers().dataframe(columns=["x"]).columns(), AttributeError, "'columns': use .schema().names"),
        (lambda: numbers().num_rows, AttributeError, "use .rows().count() after a reader of columns, else .count()"),
        (lambda: numbers().filter("x > 1"), TypeError, "a reader takes it, as in penstock.read_parquet(path, filter=…"),
        (lambda: numbers().groupby("x"), TypeError, "and is 'x': a group is a list of rows with the same key, as by"),
        (lambda: numbers().join([], left_on="x", right_on="y"), TypeError, "a common one by .rename_col"),
        (lambda: numbers().map(str, num_workers=3), TypeError, ".processpool_map(fn, workers=…) call a function in"),
        (lambda: numbers().write_parquet("folder", overwrite=True), TypeError, "mode='overwrite' of a writer replaces"),
        (lambda: numbers().filter(bool, num_parallel_calls=3), TypeError, ".threadpool_map(fn, max_workers=…)"),
        (lambda: numbers().map(str, batched=True), TypeError, ".map_batches(fn, batch_size) calls a function"),
        (lambda: numbers().processpool_map(str, 4), TypeError, "on_error='raise'): give workers=4"),
        (lambda: numbers().shuffle(10), TypeError, "unbatch_level=0): give buffer_size=10"),
        (lambda: numbers().to_iter_datapipe(), AttributeError, "'to_iter_datapipe': it is an iterable pipe already"),
        (lambda: in_order().to_map_datapipe(), AttributeError, "'to_map_datapipe': it is a map-style pipe already"),
        (lambda: numbers().load_files_by_s3(storage_options="x"), TypeError, "must be a dict, and is of type str"),
        (
            lambda: numbers().open_files_by_fsspec(key="a", storage_options={"key": "b"}),
            TypeError,
            "key is given twice: in storage_options, and by itself",
        ),
        (lambda: numbers() + in_order(), TypeError, "convert it, as in .to_iter_datapipe()"),
        (lambda: in_order().zip(numbers()), TypeError, "convert it, as in .enumerate().to_map_datapipe(), or"),
        (lambda: numbers().zip_with_map(numbers(), int), TypeError, "or .to_map_datapipe() for pairs of a key and"),
        (lambda: ps.map.SequenceWrapper(numbers()), TypeError, "is read in order: convert it, as in .enumerate()"),
        (lambda: ps.map.SequenceWrapper(list), TypeError, "needs a sequence, and list is a class: call it"),
        (lambda: ps.map.SequenceWrapper({1}), TypeError, "needs a sequence, and set has no __getitem__"),
        (lambda: numbers().in_memory_cache("a"), TypeError, "size must be a number, and is 'a'"),
        (lambda: numbers().bucket_by_length(3, [1, 2]), TypeError, "boundaries must be a list of numbers, and is 3"),
        (lambda: list(ps.from_items([{"x": 1}]).to_tensors()), TypeError, "as in .batch(n).collate()"),
        (lambda: ps.read_parquet(5), TypeError, "paths must be a path, a list of paths or"),
        (lambda: list(ps.read_parquet("missing/folder")), FileNotFoundError, "no such file or folder: 'missing/f"),
        (lambda: list(ps.read_parquet("memory://missing")), FileNotFoundError, "or the folder is empty: 'memory://mis"),
        (lambda: list(names().load_from_tar()), TypeError, "is of type str: open the files first, as in"),
        (lambda: list(names().readlines()), TypeError, 'open the files first, as in .open_files_by_fsspec(mode="rb")'),
        (lambda: ps.iter.IterableWrapper(list), TypeError, "list is a class: call it"),
        (lambda: ps.iter.IterableWrapper(5), TypeError, "needs an iterable, and int is not one"),
        (lambda: len(numbers().filter(bool)), TypeError, "set_length(n) gives it, and count() reads them all"),
    ],
)
def test_a_mistake_gets_an_answer(mistake, error, said):
    with pytest.raises(error, match=re.escape(said)):
        mistake()


@pytest.mark.parametrize("name", _NAMES_OF_OTHERS)
@pytest.mark.parametrize("make", [numbers, in_order])
def test_the_methods_that_a_mend_names_are_there(name, make):
    with pytest.raises(AttributeError) as caught:
        getattr(make(), name)
    mend = str(caught.value).partition(": ")[2]
    assert mend
    for calls in re.findall(r"(?<![\w)])(?:\.\w+\([^)]*\))+", mend):
        first, *rest = re.findall(r"\.(\w+)\(", calls)
        has = getattr(make(), first)
        if rest:
            assert hasattr(has(), rest[0])


@pytest.mark.parametrize(
    ("mended", "items"),
    [
        (lambda: numbers(4).pipe(itertools.islice, 2, None), [2, 3]),
        (lambda: numbers(2).cycle().header(3), [0, 1, 0]),
        (lambda: [sum(dp.count() for dp in numbers(20).random_split({"a": 0.5, "b": 0.5}, 0))], [20]),
        (lambda: numbers(2).enumerate().to_map_datapipe().zip(in_order()), [(0, 0), (1, 1)]),
        (lambda: [next(iter(ps.from_items([{"x": 1}, {"x": 2}]).iter_batches(2)))["x"].sum()], [3]),
        (lambda: numbers(2).zip_with_iter(key_fn=int, ref_datapipe=[1, 0]), [(0, 0), (1, 1)]),
        (lambda: numbers(2).zip_with_map(["a", "b"], int), [(0, "a"), (1, "b")]),
        (lambda: [sum(row["x"] for row in ps.from_numpy({"x": torch.arange(3)}).rows())], [3]),
    ],
)
def test_a_mend_does_what_the_mistake_meant(mended, items):
    assert [*mended()] == items


def test_a_pipe_of_unknown_length_or_without_items_is_true():
    assert all([numbers().filter(bool), numbers(0), numbers(0).batch(2)])


def test_plus_concatenates_as_for_data_sets_of_torch():
    assert isinstance(numbers() + numbers(), ps.iter.Concater)
    assert isinstance(in_order() + in_order(), ps.map.Concater)
    assert (in_order() + in_order())[10] == 0
    others = [5]
    assert [*(numbers(2) + others)] == [0, 1, 5]
    assert [*(in_order() + others)][-2:] == [9, 5]
    assert (in_order() + torch.utils.data.TensorDataset(torch.arange(2)))[11] == (torch.tensor(1),)


def test_every_argument_of_torchs_loader_has_a_mend():
    assert {*inspect.signature(torch.utils.data.DataLoader).parameters} - {"dataset"} == {*_ARGUMENTS_OF_TORCH}


FUNCTIONS = [name for name in dir(ps) if name.startswith("read_") and f"iter.{name}" in operators]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_parameters_of_its_operator(name):
    function, method = inspect.signature(getattr(ps, name)), inspect.signature(operators[f"iter.{name}"].cls)
    theirs = [each for each in [*method.parameters.values()][1:] if each.kind is not each.VAR_KEYWORD]
    assert [function.parameters.get(each.name) for each in theirs] == theirs


def test_an_error_of_a_constructor_is_its_own():
    class Picky(ps.IterDataPipe):
        def __init__(self, source):
            raise TypeError("of its own")

    with pytest.raises(TypeError, match="^of its own$"):
        Picky(numbers())


def test_who_replaced_an_iterator_is_said():
    dp = numbers()
    iterator = iter(dp)
    assert next(iterator) == 0
    dp.take(1)
    with pytest.raises(RuntimeError, match=r"newer one, by take\(\) in .*test_mistakes\.py, line \d+: .*peek\(n\)"):
        next(iterator)


class Shuffles(Passing):
    """Builds a chain while it is read."""

    def __iter__(self):
        yield from self.source.shuffle(buffer_size=4).batch(2).unbatch()


def one_branch_after_another():
    even, odd = numbers().demux(2, lambda x: x % 2)
    return even.concat(odd.shuffle())


@pytest.mark.parametrize(
    "chain",
    [
        lambda: numbers().map(str),
        lambda: numbers().shuffle().set_seed(3).batch(2).in_memory_cache(),
        lambda: ps.iter.Zipper(*numbers().fork(2)),
        one_branch_after_another,
        lambda: Shuffles(numbers()),
        lambda: numbers().map(lambda x: x + float(torch.rand(1))),
        lambda: in_order().shuffle().set_seed(3),
    ],
)
def test_peeking_leaves_a_pass_alone(chain):
    torch.manual_seed(3)
    whole = list(chain())
    torch.manual_seed(3)
    dp, seen = chain(), []
    assert dp.peek(4) == whole[:4]
    for item in dp:
        seen.append(item)
        assert len(dp.peek(3)) == 3
    assert seen == whole


def test_what_can_be_read_once_only_cannot_be_peeked_at():
    dp = ps.iter.IterableWrapper(x for x in range(3)).map(str)
    with pytest.raises(TypeError, match="can be read once only"):
        dp.peek()
    assert list(dp) == ["0", "1", "2"]


def test_dir_shows_operators_and_helpers():
    names = {name for name in dir(numbers().map(str)) if name[:2] != "__"}
    assert names >= {"batch", "map", "shuffle", "take", "peek", "show", "count", "state_dict", "load_state_dict", "fn"}
    assert not any(name.startswith("_") for name in names)
    assert names.isdisjoint(
        {"set_getstate_hook", "register_function", "functions", "resumes_from_start", "payload", "reset"}
    )
    methods = {entry.name for entry in operators.values() if entry.on == "iter" and entry.method}
    assert methods <= names
    helpers = {"count", "explain", "peek", "show", "stats", "take", "take_all", "state_dict", "load_state_dict"}
    helpers |= {"build_vocab", "profile", "visualize", "to_map_datapipe", "to_node", "to_ray_dataset"}
    helpers |= {"iter_batches", "iter_torch_batches", "random_shuffle", "run", "schema", "train_test_split"}
    of_users = {name for name in dir(numbers().shuffle()) if name[:2] != "__"}
    assert of_users <= {*methods, *helpers, "set_seed", "set_shuffle", "buffer_size", "source"}


def test_a_chain_of_unknown_length_is_freed_with_its_last_reference():
    dp = numbers().filter(bool).map(str).batch(2)
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
