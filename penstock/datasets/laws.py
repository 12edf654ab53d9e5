"""The laws that every data set keeps, and `check_dataset`, which checks them.

A law is a function that takes a maker of fresh, equal chains of one split. It raises AssertionError where it is broken.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any
from unittest.mock import patch

import cloudpickle  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
from torch.utils.data import DataLoader

from ..errors.hints import did_you_mean
from ..errors.secrets import without_secrets
from ..pipes.iter import IterableWrapper
from ..registry import SHARDING_PRIORITIES, apply_sharding, close, sharding_points
from ..runner import DataLoader2, MultiProcessingReadingService
from ..state.foreign import declares
from ..state.graph import pipes_in, walk
from ..state.seeds import seed_graph
from ..storage.addresses import is_local_path
from ..testing.probes import agree, as_plain
from . import files
from .sample_pipes import IterDataset, MapDataset

Make = Callable[..., Any]

_TRANSFORMED = 4
"""How many samples the transforms are tried on."""


def check_dataset(make: Callable[..., IterDataset[Any] | MapDataset[Any]], laws: Iterable[str] | None = None) -> None:
    """Check that a data set keeps the laws; the first that it breaks raises AssertionError, which shows how.

    `make(**arguments)` returns a split and hands the arguments, such as `shuffle` and `map_style`, on to the data set:
    `lambda **arguments: SST2(root, "dev", **arguments)`. Most laws read all of it, some several times: use a
    small split, or small files of the same layout. `laws` are the names of those to check; without it, all of
    `DATA_SET_LAWS`. A UserWarning says where two ranks have unequal parts.

    >>> import penstock as ps
    >>> ps.datasets.check_dataset(lambda **arguments: ps.datasets.BreastCancer(**arguments), laws=["counts_hold"])
    """
    made = make()
    if not isinstance(made, IterDataset):
        raise TypeError(f"make must return a split of a data set, and returned a {type(made).__name__}")
    for name in DATA_SET_LAWS if laws is None else laws:
        if name not in DATA_SET_LAWS:
            raise ValueError(f"no law {name!r}{did_you_mean(name, [*DATA_SET_LAWS])}")
        try:
            DATA_SET_LAWS[name](make)
        except Exception as error:
            seen = error if isinstance(error, AssertionError) else f"it raised {error!r}"
            meaning = (DATA_SET_LAWS[name].__doc__ or "").partition("\n")[0]
            title = made.info.title
            raise AssertionError(f"{title} breaks the law {name!r}: {meaning}\n{made}\n{seen}") from error


def construction_reads_nothing(make: Make) -> None:
    """Making the data set neither downloads nor opens anything."""
    refused = AssertionError("a file was asked for while the data set was made: read it in a step of the chain")
    with patch.object(files, "fetch", side_effect=refused), patch.object(files, "unpacked", side_effect=refused):
        folder = make().info.folder
    opened = _open_below(folder)
    make()
    assert _open_below(folder) == opened, f"making it opened {_open_below(folder) - opened}"


def samples_are_alike(make: Make) -> None:
    """All samples have the types, the fields and the number of parts of the first."""
    first = None
    for number, sample in enumerate(make()):
        kind = _kind_of(sample)
        first = kind if first is None else first
        assert kind == first, f"sample {number} is {kind}, and sample 0 is {first}"


def counts_hold(make: Make) -> None:
    """`len`, where it is known, is the number of samples."""
    data = make()
    count = data.info.splits[data.info.split]
    found = data.count()
    assert found, f"the split {data.info.split!r} has no samples"
    if count is not None:
        assert len(make()) == found, f"len is {len(make())}, and there are {found} samples"
        assert count == found, f"its definition tells of {count} samples, and there are {found}"


def two_passes_agree(make: Make) -> None:
    """A second pass, and another data set of the same arguments, give the same samples in the same order."""
    data = make()
    first = _items_of(data)
    agree(_items_of(data), first, "the second pass")
    agree(_items_of(make()), first, "another data set of the same arguments")


def streams_are_closed(make: Make) -> None:
    """After a pass, and after one that is given up, no file of the root is open but archives that are read by path."""
    folder = make().info.folder
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        list(map(close, make()))
        kept = _open_below(folder)
        for sample in islice(make(), 1):
            close(sample)
        gc.collect()
    assert _open_below(folder) <= kept, f"a pass that was given up leaves {_open_below(folder) - kept} open"
    assert not _read_through(kept), f"a whole pass leaves {_read_through(kept)} open"


def pickles_and_copies_agree(make: Make) -> None:
    """A plain pickle of it, which torch's DataLoader needs, gives the same samples: made before a pass or within."""
    expected = _items_of(make())
    data = make()
    agree(_items_of(pickle.loads(_pickled(data))), expected, "a pickle")
    iterator = iter(data)
    next(iterator)
    agree(_items_of(pickle.loads(_pickled(data))), expected, "a pickle made within a pass")
    agree(as_plain(list(iterator)), expected[1:], "the pass that went on")


def shuffles_then_divides(make: Make) -> None:
    """The chain has a shuffle, which is off unless asked for, and behind it a sharding point."""
    points = sharding_points(make())
    assert len(points) == 1, f"there are {len(points)} sharding points, and one is needed"
    shuffles = [step for step in walk(points[0]) if declares(step, "set_shuffle")]
    assert shuffles, "no shuffle is in front of the sharding point"


def shuffling_keeps_the_samples(make: Make) -> None:
    """With `shuffle`, the same samples come in another order: the same one for the same seed."""
    expected = _items_of(make())
    first = _items_of(_seeded(make(shuffle=True)))
    agree(_items_of(_seeded(make(shuffle=True))), first, "the same seed")
    assert _sorted(first) == _sorted(expected), "shuffling lost or doubled samples"
    if len(expected) > 7:  # which may be those of two or three files: one order is soon met by chance
        others = (_items_of(_seeded(make(shuffle=True), seed)) for seed in range(10))
        assert any(other != expected for other in others), "shuffling left the order as it was, with ten seeds"


def resumes(make: Make) -> None:
    """A state taken after any sample goes on with the rest."""
    expected = _items_of(_seeded(make(shuffle=True)))
    for number in {0, 1, len(expected) // 2, len(expected)}:
        data = _seeded(make(shuffle=True))
        iterator = iter(data)
        for sample in islice(iterator, number):
            close(sample)
        resumed = make(shuffle=True)
        resumed.load_state_dict(data.state_dict())
        agree(_items_of(resumed), expected[number:], f"resumed after {number} samples")


def two_workers_read_it(make: Make) -> None:
    """Two workers, of `DataLoader2` and of torch's `DataLoader`, give all samples once; `len` is theirs together."""
    expected = _sorted(_items_of(make()))
    with DataLoader2(make(), reading_service=MultiProcessingReadingService(2)) as loader:
        assert _sorted(_items_of(loader)) == expected, "two workers of DataLoader2 give other samples"
        if make().info.splits[make().info.split] is not None:
            assert len(loader) == len(expected), f"len of the loader is {len(loader)}, and it gives {len(expected)}"
    (loaded,) = IterableWrapper([cloudpickle.dumps(make())]).processpool_map(_read_by_torch, workers=1)
    assert loaded == _sorted(map(_untyped, make())), "torch's DataLoader differs"


def _read_by_torch(pickled: bytes) -> list[str]:
    """Return the samples that two workers of torch's `DataLoader` give.

    They are forked, as by default on Linux, from a process that has read nothing: clients of stores outlive no fork.
    """
    multiprocessing.current_process().daemon = False  # which may have no children
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch compares its own count of batches, and workers with processors
        loaded = DataLoader(cloudpickle.loads(pickled), batch_size=None, num_workers=2, multiprocessing_context="fork")
        return _sorted(map(_untyped, loaded))


def two_ranks_read_it(make: Make) -> None:
    """Two ranks give all samples once; a warning says where one has more than the other."""
    parts = []
    for rank in range(2):
        data = make()
        apply_sharding(data, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
        parts.append(_items_of(data))
    assert _sorted([*parts[0], *parts[1]]) == _sorted(_items_of(make())), "two ranks give other samples"
    first, second = map(len, parts)
    if abs(first - second) > 1:
        warnings.warn(
            f"of {make().info.title}, two ranks have {first} and {second} samples. torch's DataLoader gives each rank "
            "what it has, and in DDP one waits for the other for ever: read by DataLoader2 with a "
            "DistributedReadingService, whose ranks end together",
            stacklevel=3,
        )


def transforms_apply(make: Make) -> None:
    """Transforms of `torchvision.transforms.v2`, where it is installed, take its samples."""
    try:
        from torchvision.transforms import v2  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except Exception:  # it may be built for another torch, and fail in many ways
        return
    transform = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Identity()])
    for sample in islice(make(), _TRANSFORMED):
        assert _kind_of(transform(sample)) == _kind_of(sample), "a transform changed the types of the sample"


def root_is_clean(make: Make) -> None:
    """Nothing is in the folder of the data set but its files, what was unpacked, and the notes that they are whole."""
    info = make().info
    list(map(close, make()))
    names = {each.name for each in info.resources.values()}
    known = names | {f".{name}.verified" for name in names} | {f".{name}.unpacked" for name in names}
    archives = [each.name for each in info.resources.values() if each.unpack]
    found = {os.path.relpath(path, info.folder).partition(os.sep)[0] for path in _files_below(info.folder)}
    more = [name for name in sorted(found - known) if not any(each.startswith(f"{name}.") for each in archives)]
    assert not more, f"{info.folder} has {more}, too"


def by_index_it_is_the_same(make: Make) -> None:
    """With `map_style`, where the chain allows it, the same samples come by index, from both ends."""
    try:
        by_index = make(map_style=True)
    except TypeError:
        return
    expected = _items_of(make())
    assert len(by_index) == len(expected), f"len by index is {len(by_index)}, and there are {len(expected)} samples"
    agree([as_plain(by_index[number]) for number in range(len(expected))], expected, "by index")
    agree([as_plain(by_index[-1])], expected[-1:], "by index from the end")
    try:
        by_index[len(expected)]
    except IndexError:
        return
    raise AssertionError(f"an index of {len(expected)} raised no IndexError")


DATA_SET_LAWS: dict[str, Callable[[Make], None]] = {
    law.__name__: law
    for law in (
        construction_reads_nothing,
        samples_are_alike,
        counts_hold,
        two_passes_agree,
        streams_are_closed,
        pickles_and_copies_agree,
        shuffles_then_divides,
        shuffling_keeps_the_samples,
        resumes,
        two_workers_read_it,
        two_ranks_read_it,
        transforms_apply,
        root_is_clean,
        by_index_it_is_the_same,
    )
}


def _kind_of(sample: Any) -> Any:
    """Return the types in a sample: those of its parts and fields."""
    if isinstance(sample, tuple):
        return (type(sample).__name__, *map(_kind_of, sample))
    if isinstance(sample, dict):
        return {key: _kind_of(value) for key, value in sample.items()}
    return type(sample).__name__


def _untyped(sample: Any) -> Any:
    """Return a sample as plain data; torch's DataLoader makes lists of tuples and arrays of numbers."""
    if isinstance(sample, (tuple, list)):
        return [*map(_untyped, sample)]
    if isinstance(sample, dict):
        return {key: _untyped(value) for key, value in sample.items()}
    return sample.tolist() if hasattr(sample, "tolist") else sample


def _items_of(data: Iterable[Any]) -> list[Any]:
    return [as_plain(sample) for sample in data]


def _sorted(items: Iterable[Any]) -> list[str]:
    return sorted(map(repr, items))


def _seeded(data: Any, seed: int = 1) -> Any:
    seed_graph(data, seed)
    return data


def _pickled(data: Any) -> bytes:
    """Return a plain pickle, as torch's DataLoader sends to a spawned worker; cloudpickle would take lambdas, too."""
    try:
        return pickle.dumps(data)
    except Exception as error:
        raise AssertionError(
            f"workers of torch's DataLoader need a plain pickle, and {_unpicklable_in(data)} has none: give it a "
            "function of a module, or a functools.partial of one"
        ) from error


def _unpicklable_in(data: Any) -> str:
    for pipe in walk(data):
        for name, value in vars(pipe).items():
            if next(pipes_in(value), None) is None and not _pickles(value):
                return f"{type(pipe).__name__}.{name}, which is {without_secrets(repr(value)):.200},"
    return "the chain"


def _pickles(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # what cannot be pickled raises many errors
        return False
    return True


def _files_below(folder: str) -> set[str]:
    if not is_local_path(folder):
        return set()
    return {os.path.join(where, name) for where, _, names in os.walk(folder) for name in names}


def _open_below(folder: str) -> set[str]:
    if not is_local_path(folder):
        return set()
    inside = os.path.realpath(folder) + os.sep
    return {each.path for each in psutil.Process().open_files() if each.path.startswith(inside)}


def _read_through(paths: set[str]) -> set[str]:
    return {path for path in paths if not path.endswith((".zip", ".tar"))}
