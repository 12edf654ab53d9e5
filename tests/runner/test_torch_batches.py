"""iter_torch_batches: columns and rows become batches of tensors, in a loader that shuffles, resumes, has workers."""

import json
import os
import threading
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.runner.loading.torch_batches import iter_torch_batches

pytestmark = pytest.mark.timeout(50)

wrapped = ps.iter.IterableWrapper


def arrow(sizes=(5, 1, 4)):
    first = 0
    for size in sizes:
        ids = range(first, first + size)
        yield pa.record_batch(
            {"id": [*ids], "x": np.arange(first, first + size, dtype=np.float32), "n": [*map(str, ids)]}
        )
        first += size


def dicts(sizes=(5, 1, 4)):
    for batch in arrow(sizes):
        yield {"id": batch["id"].to_numpy(), "x": torch.tensor(batch["x"].to_pylist()), "n": batch["n"].to_pylist()}


def declared(sizes=(5, 1, 4)):
    return arrow(sizes)


def rows(sizes=(5, 1, 4)):
    for batch in arrow(sizes):
        yield from batch.to_pylist()


KINDS = {
    "arrow": arrow,
    "tables": lambda: map(pa.Table.from_batches, ([each] for each in arrow())),
    "dicts": dicts,
    "declared": declared,
}
every_kind = pytest.mark.parametrize("make", [*KINDS.values(), rows], ids=[*KINDS, "rows"])


def loaded(make, *arguments, **options):
    batched = True if make in (dicts, declared) else None
    return iter_torch_batches(wrapped([*make()]), *arguments, batched=batched, **options)


def ids(loader):
    return [batch["id"].tolist() for batch in loader]


# what comes out


@every_kind
def test_columns_and_rows_become_batches_of_tensors(make):
    batches = list(loaded(make, 4))
    assert [batch["id"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(isinstance(batch[name], torch.Tensor) for batch in batches for name in ("id", "x"))
    assert [batch["n"] for batch in batches] == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]


@every_kind
def test_the_last_batch_is_dropped_where_it_is_short(make):
    assert ids(loaded(make, 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(ids(loaded(make, 5, drop_last=True))) == 2


@every_kind
@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (None, {"id": torch.int64}),
        (torch.float16, {"id": torch.float16, "x": torch.float16}),
        ({"id": torch.int8}, {"id": torch.int8}),
        ({"id": torch.float64, "x": torch.float64}, {"id": torch.float64, "x": torch.float64}),
    ],
)
def test_dtypes_for_all_columns_or_some(make, dtypes, expected):
    batch, *_ = loaded(make, 4, dtypes)
    assert {name: batch[name].dtype for name in expected} == expected
    assert isinstance(batch["n"], list)


def test_rows_of_other_kinds_are_stacked_as_collate_does():
    pairs = wrapped([(torch.full((2,), n), n) for n in range(3)])
    (features, labels), (last, _) = iter_torch_batches(pairs, 2)
    assert (features.tolist(), labels.tolist()) == ([[0, 0], [1, 1]], [0, 1])
    assert last.tolist() == [[2, 2]]
    assert [batch.tolist() for batch in iter_torch_batches(wrapped(range(3)), 2)] == [[0, 1], [2]]


def test_a_map_style_chain_is_read_by_its_indices():
    loader = iter_torch_batches(ps.map.SequenceWrapper([{"id": n} for n in range(5)]), 2)
    assert ids(loader) == [[0, 1], [2, 3], [4]]


@every_kind
def test_without_a_batch_size_the_items_are_the_batches(make):
    source = wrapped([*make()]).batch(2).collate() if make is rows else wrapped([*make()])
    loader = iter_torch_batches(source, None)
    expected = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]] if make is rows else [[0, 1, 2, 3, 4], [5], [6, 7, 8, 9]]
    assert ids(loader) == expected
    assert len(loader) == len(expected)


def test_the_number_of_batches_is_not_guessed():
    with pytest.raises(TypeError):
        len(iter_torch_batches(wrapped([*rows()]), 4))


def test_pairs_of_tensors_that_are_batches_are_left_alone_without_a_batch_size():
    pair = (torch.zeros(3, 2), torch.zeros(3))
    ((features, labels),) = iter_torch_batches(wrapped([pair]), None)
    assert (features.shape, labels.shape) == ((3, 2), (3,))


@every_kind
def test_collate_fn_gets_each_batch_before_any_conversion(make):
    kinds = {rows: list, dicts: dict, declared: dict}
    seen = list(loaded(make, 4, collate_fn=lambda batch: batch))
    assert {type(batch) for batch in seen} == {kinds.get(make, pa.RecordBatch)}
    assert [len(batch if make is rows else batch["id"]) for batch in seen] == [4, 4, 2]


@pytest.mark.parametrize("make", [lambda: in_batches(), lambda: in_batches().rows()], ids=["batches", "rows"])
def test_collate_fn_gets_arrays_where_the_chain_tells_the_kind(make):
    seen = list(iter_torch_batches(make(), 30, collate_fn=lambda batch: batch))
    assert [type(batch) for batch in seen] == [dict, dict]
    assert [batch["id"].tolist() for batch in seen] == [[*range(30)], [*range(30, 34)]]
    assert {type(batch["id"]) for batch in seen} == {np.ndarray}


def test_dtypes_of_items_that_are_no_batches_are_an_error():
    with pytest.raises(TypeError, match="dtypes are those of columns, and this item is no batch: give a batch_size"):
        list(iter_torch_batches(wrapped([*rows()]), None, torch.float16))


def test_rows_without_a_batch_size_are_an_error():
    for read in (iter_torch_batches, ps.IterDataPipe.iter_batches):
        with pytest.raises(ValueError, match="the chain's items are rows: give a batch_size"):
            read(ps.from_items([{"id": 1}]), batch_size=None)


def test_rows_of_different_shapes_are_padded_by_collate_fn():
    def padded(batch):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row["ids"]) for row in batch], batch_first=True)

    loader = iter_torch_batches(wrapped([{"ids": [1] * n} for n in range(1, 4)]), 2, collate_fn=padded)
    assert [batch.tolist() for batch in loader] == [[[1, 0], [1, 1]], [[1, 1, 1]]]


@every_kind
def test_tensors_are_moved_to_the_device(make):
    batch, *_ = loaded(make, 4, device="meta")
    assert batch["id"].device.type == batch["x"].device.type == "meta"
    assert batch["n"] == ["0", "1", "2", "3"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="copies from pinned memory need CUDA")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_arrive_on_the_accelerator_whole(num_workers):
    source = wrapped([*arrow([1000] * 8)]).sharding_filter()
    with iter_torch_batches(source, 256, device="cuda", num_workers=num_workers) as loader:
        seen = torch.cat([batch["id"] for batch in loader])
    assert seen.device.type == "cuda"
    assert sorted(seen.tolist()) == [*range(8000)]


# shuffling, resuming, workers


@every_kind
def test_rows_are_shuffled_anew_in_each_epoch_by_the_seed_of_the_loader(make):
    def epochs(seed):
        loader = loaded(make, 4, local_shuffle_buffer_size=10)
        loader.seed(seed)
        return [ids(loader) for _ in range(3)]

    first, second, third = epochs(1)
    assert [*map(len, first)] == [4, 4, 2]
    assert sorted(chain.from_iterable(first)) == sorted(chain.from_iterable(third)) == [*range(10)]
    assert first != second
    assert [first, second, third] == epochs(1)
    assert [first, second, third] != epochs(2)


@pytest.mark.parametrize("batched", [None, True], ids=["cut by workers", "cut here"])
def test_workers_share_the_rows_and_a_state_goes_on_without_them(batched):
    def loader(num_workers):
        source = wrapped([*arrow([4] * 8)]).sharding_filter()
        made = iter_torch_batches(source, 3, local_shuffle_buffer_size=8, num_workers=num_workers, batched=batched)
        made.seed(2)
        return made

    with loader(2) as whole:
        expected = ids(whole)
        again = ids(whole)
    assert sorted(chain.from_iterable(expected)) == sorted(chain.from_iterable(again)) == [*range(32)]
    assert expected != again
    with loader(2) as stopped, loader(0) as resumed:
        running = iter(stopped)
        begun = ids(islice(running, 4))
        resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
        assert begun + ids(resumed) == expected


def in_batches():
    return ps.from_arrow([*arrow([7] * 4 + [6])], 7).sharding_filter()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_all_workers_are_cut_together_so_that_only_the_last_is_short(num_workers):
    for drop_last in (False, True):
        with iter_torch_batches(in_batches(), 4, drop_last=drop_last, num_workers=num_workers) as loader:
            seen = ids(loader)
        assert [*map(len, seen)] == [4] * 8 + [2] * (not drop_last)
        assert len({*chain.from_iterable(seen)}) == sum(map(len, seen))


def test_rows_and_what_a_collate_fn_makes_are_put_together_by_the_workers():
    with iter_torch_batches(in_batches().rows(), 4, num_workers=2) as loader:
        assert [*map(len, ids(loader))] == [4] * 7 + [2, 4]
    with iter_torch_batches(in_batches(), 4, collate_fn=lambda batch: os.getpid(), num_workers=2) as loader:
        assert len({*loader} - {os.getpid()}) == 2


@pytest.mark.parametrize("options", [{}, {"local_shuffle_buffer_size": 8}])
def test_a_state_in_the_middle_of_a_batch_that_is_cut_goes_on_with_workers_and_without(options):
    def loader(num_workers):
        made = iter_torch_batches(in_batches(), 3, num_workers=num_workers, **options)
        made.seed(4)
        return made

    def noted(batches, made):
        return [(batch["id"].tolist(), json.dumps(made.state_dict())) for batch in batches]

    with loader(2) as with_workers, loader(0) as without:
        states = noted(with_workers, with_workers)
        expected, after = [batch for batch, _ in states], ids(with_workers)
        assert sorted(chain.from_iterable(expected)) == [*range(34)]
        for number, (_, state) in enumerate(states[:-1], start=1):
            without.load_state_dict(json.loads(state))
            rest = noted(without, without)
            assert [batch for batch, _ in rest] == expected[number:]
            assert ids(without) == after
        without.load_state_dict(json.loads(states[0][1]))
        for number, (_, state) in enumerate(noted(without, without)[:-1], start=2):
            with_workers.load_state_dict(json.loads(state))
            assert ids(with_workers) == expected[number:]


@pytest.mark.parametrize("prefetch_batches", [0, 2])
def test_so_many_batches_are_read_ahead_by_a_thread(prefetch_batches):
    pulled, readers = [], set()

    def note(item):
        pulled.append(item)
        readers.add(threading.current_thread())
        return item

    with iter_torch_batches(wrapped(range(40)).map(note), 4, prefetch_batches=prefetch_batches) as loader:
        assert len(list(islice(loader, 3))) == 3
    assert (threading.current_thread() in readers) == (prefetch_batches == 0)
    assert len(pulled) >= 12
    assert len(pulled) <= 4 * (3 + prefetch_batches + (prefetch_batches > 0))  # one is made, and waits for room


def test_each_worker_reads_so_many_batches_ahead():
    service = iter_torch_batches(wrapped(range(40)), 4, prefetch_batches=3, num_workers=2).reading_service
    assert (service.num_workers, service.worker_prefetch_cnt, service.main_prefetch_cnt) == (2, 3, 3)


# bad input


@pytest.mark.parametrize(
    ("items", "options", "error", "message"),
    [
        ([pa.record_batch({"x": [1, None]})], {}, ValueError, "'x', row 1"),
        ([pa.record_batch({"x": [[1], [1, 2]]})], {}, ValueError, "'x', row 1"),
        ([pa.record_batch({"x": [300]})], {"dtypes": torch.int8}, ValueError, "'x', row 0"),
        ([pa.record_batch({"x": [1]})], {"dtypes": {"y": torch.int8}}, KeyError, "dtypes has 'y'"),
        ([{"x": torch.ones(3)}], {}, ValueError, "may be a batch.*or a row.*give batched=True, or batched=False"),
        ([{"x": np.ones(3), "y": ["a"]}], {}, ValueError, "may be a batch"),
        ([{"x": torch.ones(3), "y": torch.ones(2)}], {"batched": True}, ValueError, "'x' has 3, 'y' has 2"),
        ([{"x": torch.ones(2)}, {"y": torch.ones(3)}], {"batched": True}, ValueError, "different columns"),
        ([{"x": 1.0}], {"batched": True}, TypeError, "must be tensors, arrays or lists of its rows"),
        ([(torch.ones(2), torch.ones(2))], {"batched": True}, TypeError, "column batches are needed, .*of type tuple"),
        ([pa.record_batch({"x": [1]}), 5], {}, ValueError, "different columns.*rows that came one by one"),
        ([{"x": [1]}, {"x": [1, 2]}], {}, RuntimeError, "equal size"),
        ([(1, 2.0)], {"dtypes": torch.int8}, TypeError, "the rows have none: they are of type tuple"),
    ],
)
def test_bad_items_are_named(items, options, error, message):
    with pytest.raises(error, match=message) as caught:
        list(iter_torch_batches(wrapped(items), 4, **options))
    assert any(note.startswith("penstock: raised in") for note in caught.value.__notes__)
