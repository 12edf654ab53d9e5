"""Bad arguments of loaders, reading services and checkpoints: an error at once, which names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import penstock as ps
from penstock import DataLoader2, DistributedReadingService, InProcessReadingService, MultiProcessingReadingService
from penstock.checkpoint import BinaryPrefixes, HexPrefixes, RoundRobinPrefixes, StorageWriter

CHAIN = ps.iter.IterableWrapper(range(4))


def batches(batch_size: Any = 4, **arguments: Any) -> Any:
    return ps.iter_torch_batches(CHAIN, batch_size, **arguments)


CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: DataLoader2([1, 2]), TypeError, "reads a chain of pipes, and this is of type list"),  # type: ignore[arg-type]
    (lambda: DataLoader2(CHAIN, MultiProcessingReadingService(2)), TypeError, "give the service as reading_service=…"),
    (lambda: DataLoader2(CHAIN, 2), TypeError, "datapipe_adapter_fn must be a function"),  # type: ignore[arg-type]
    (lambda: DataLoader2(CHAIN, None, 2), TypeError, "reading_service must be a reading service, and is 2"),  # type: ignore[arg-type]
    (
        lambda: DataLoader2(CHAIN, None, MultiProcessingReadingService),  # type: ignore[arg-type]
        TypeError,
        "reading_service must be a reading service",
    ),
    (lambda: DataLoader2(CHAIN).dataset, AttributeError, "no 'dataset': loader.datapipe is the chain"),
    (lambda: DataLoader2(CHAIN).set_epoch(1), AttributeError, "no 'set_epoch': leave it out"),
    (lambda: DataLoader2(CHAIN).batch_size, AttributeError, r"no 'batch_size': put \.batch\(…\) into the chain"),
    (lambda: DataLoader2(CHAIN).epochs, AttributeError, "DataLoader2 has no 'epochs'$"),
    (lambda: DataLoader2(CHAIN).seed(-1), ValueError, "seed must be at least 0, and is -1"),
    (lambda: DataLoader2(CHAIN, metrics="a.jsonl"), TypeError, "metrics must be True, False or a function"),  # type: ignore[arg-type]
    (lambda: DataLoader2(CHAIN, metrics=True, metrics_interval=0), ValueError, "metrics_interval must be seconds"),
    (
        lambda: MultiProcessingReadingService(2, multiprocessing_context="thread"),
        ValueError,
        "multiprocessing_context 'thread' is not available on",
    ),
    (lambda: MultiProcessingReadingService(-1), ValueError, "num_workers must be at least 0"),
    (lambda: MultiProcessingReadingService(2, num_shards=0), ValueError, "num_shards must be at least 1, and is 0"),
    (
        lambda: MultiProcessingReadingService(2, timeout=0),
        ValueError,
        "timeout must be seconds, more than 0, and is 0",
    ),
    (
        lambda: MultiProcessingReadingService(1, worker_init_fn=lambda worker_id: None),  # type: ignore[arg-type, misc]
        TypeError,
        r"worker_init_fn is called as fn\(chain, worker_info\) and returns the chain to read, and .* cannot be",
    ),
    (
        lambda: MultiProcessingReadingService(1, worker_reset_fn=lambda chain, worker_info: chain),  # type: ignore[arg-type, misc]
        TypeError,
        r"worker_reset_fn is called as fn\(chain, worker_info, seed_generator\)",
    ),
    (lambda: InProcessReadingService(prefetch_cnt=-1), ValueError, "prefetch_cnt must be at least 0"),
    (
        lambda: ps.SequentialReadingService(MultiProcessingReadingService(), DistributedReadingService()),
        ValueError,
        "DistributedReadingService must come first",
    ),
    (lambda: ps.SequentialReadingService(3), TypeError, "takes reading services, and this is 3"),  # type: ignore[arg-type]
    (lambda: DistributedReadingService(timeout=0), ValueError, "timeout must be seconds"),
    *[
        (lambda given=given: DistributedReadingService(**given), ValueError, words)  # type: ignore[misc]
        for given, words in [
            ({"ends": "later"}, "ends must be one of stop, pad, drop, and is 'later'"),
            ({"num_shards": 0}, "num_shards must be at least 1, and is 0"),
            ({"steps_per_epoch": 0}, "steps_per_epoch must be at least 1, and is 0"),
            ({"data_rank": 2, "data_ranks": 2}, "data_rank must be in 0 … 1, or None, and is 2"),
            ({"mesh": object(), "data_ranks": 2}, "give a mesh with data_dims, or data_rank and data_ranks"),
            ({"data_rank": 1}, "give a mesh with data_dims, or data_rank and data_ranks"),
            ({"data_dims": "dp"}, "data_dims are dimensions of a mesh, and none is given beside 'dp'"),
            ({"others": "none", "data_ranks": 2}, "others='none' is for a mesh"),
            ({"others": {"tp": "same"}}, "others={'tp': 'same'} is for a mesh"),
            ({"others": "some"}, "others must be one of same, broadcast, none, and is 'some'"),
        ]
    ],
    (lambda: ps.iter_torch_batches([1, 2], 2), TypeError, "reads a chain of pipes, and this is of type list"),  # type: ignore[arg-type]
    (lambda: batches(0), ValueError, "batch_size must be at least 1"),
    (lambda: batches("4"), TypeError, "batch_size must be a whole number"),
    (lambda: batches(local_shuffle_buffer_size=0), ValueError, "local_shuffle_buffer_size must be at least 1"),
    (lambda: batches(prefetch_batches=-1), ValueError, "prefetch_batches must be at least 0"),
    (lambda: batches(num_workers=-1), ValueError, "num_workers must be at least 0"),
    (lambda: batches(dtypes="float32"), TypeError, "dtypes must be a torch.dtype"),
    (lambda: batches(dtypes=torch.float32, collate_fn=list), ValueError, "not both"),
    (lambda: batches(collate_fn=3), TypeError, "collate_fn must be a function"),
    (lambda: batches(None, drop_last=True), ValueError, "drop_last needs a batch_size"),
    (lambda: batches(None, batched=True), ValueError, "batched needs a batch_size"),
    (lambda: batches(device="nonsense"), RuntimeError, "nonsense"),
    (
        lambda: batches(num_workers=2, reading_service=InProcessReadingService()),
        ValueError,
        "give num_workers or reading_service, not both",
    ),
    (lambda: StorageWriter("memory://run", thread_count=0), ValueError, "thread_count must be at least 1"),
    (
        lambda: StorageWriter("memory://run", prefix_strategy="shard"),  # type: ignore[arg-type]
        TypeError,
        "prefix_strategy must be a function of the rank, and is 'shard'",
    ),
    (lambda: RoundRobinPrefixes([]), ValueError, "prefixes must be a list of at least one"),
    (lambda: RoundRobinPrefixes("shard"), ValueError, "prefixes must be a list of at least one"),  # type: ignore[arg-type]
    (lambda: HexPrefixes(count=0), ValueError, "count must be at least 1"),
    (lambda: BinaryPrefixes(epoch="5"), TypeError, "epoch must be a whole number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "error", "words"), CASES, ids=[words for *_, words in CASES])
def test_a_bad_argument_is_an_error_at_once(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
