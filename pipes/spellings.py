"""Methods by the names that Ray Data gives them: each calls other operators."""

from __future__ import annotations

from typing import Any

from ..registry import IterDataPipe, MapDataPipe, expect_whole
from .columns.rows_or_batches import gives_batches


def random_shuffle(
    dp: IterDataPipe[Any] | MapDataPipe[Any], seed: int | None = None, *, buffer_size: int = 10_000
) -> Any:
    """Return the chain with its rows in a random order: `shuffle_rows` for column batches, else `shuffle`.

    `buffer_size` is the number of rows in the buffer that is drawn from; one as large as the data gives each order with
    the same probability. `seed` is that of `set_seed`: loaders set their own. A map-style chain is shuffled whole.

    >>> import penstock as ps
    >>> sorted(ps.from_items(range(5)).random_shuffle(seed=1))
    [0, 1, 2, 3, 4]
    """
    expect_whole("seed", seed, least=0, optional=True)
    shuffled: Any
    if isinstance(dp, MapDataPipe):
        shuffled = dp.shuffle()
    elif gives_batches(dp):
        shuffled = dp.shuffle_rows(buffer_size)
    else:
        shuffled = dp.shuffle(buffer_size=buffer_size)
    return shuffled if seed is None else shuffled.set_seed(seed)


def train_test_split(
    dp: IterDataPipe[Any] | MapDataPipe[Any], test_size: float, *, shuffle: bool = False, seed: int | None = None
) -> tuple[Any, Any]:
    """Return two chains, for training and for tests: `random_sample` puts the share `test_size` into the second.

    Which rows these are depends on the seed only, by default 0: each pass, each run and any number of workers has the
    same ones. They are drawn one by one, so that `test_size` is met on average. `shuffle=True` puts `random_shuffle`
    after each. Each chain reads the complete source.

    Raises ValueError for a `test_size` outside of 0 to 1, and while it is read what `random_sample` raises.

    >>> import penstock as ps
    >>> train, test = ps.from_items(range(10)).train_test_split(0.3, seed=5)
    >>> list(train), list(test)
    ([0, 1, 3, 5, 6, 7, 8], [2, 4, 9])
    """
    if not isinstance(test_size, (int, float)) or isinstance(test_size, bool) or not 0 <= test_size <= 1:
        raise ValueError(
            f"test_size must be the share of the rows for tests, a number from 0 to 1, and is {test_size!r:.100}"
        )
    source = dp.to_iter_datapipe() if isinstance(dp, MapDataPipe) else dp
    groups = [source.random_sample(test_size, seed or 0, complement=complement) for complement in (True, False)]
    train, test = (random_shuffle(group, seed) if shuffle else group for group in groups)
    return train, test
