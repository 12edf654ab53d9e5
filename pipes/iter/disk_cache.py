"""Make files once, then read them from disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ...errors.checks import expect_seconds
from ...registry import IterDataPipe, OnError, close, functional_datapipe, own, sources_of
from ...state.foreign import declares
from ...state.passes import Pass
from ...storage.local.atomic import lock_beside
from ...storage.local.locks import FileLock
from ...storage.local.trust import expect_trusted
from ...storage.streaming.digest import check_hash_type, digest_of
from ...storage.streaming.streams import checked_path
from ...storage.writing import save_whole
from ..bases.input_columns import check_function

T_co = TypeVar("T_co", covariant=True)
OnePathOrMore = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_LIST = ".torchdata_list"
"""The suffix for the list of files made in place of a path. It is the one of torchdata, whose caches stay usable."""


class _Fed:
    """The items that the operator at the end of the chain feeds in, one by one."""

    _fed: tuple[Any, ...] | None = own(None, saved=False)
    _pass: Pass | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._fed is None:
            raise RuntimeError("on_disk_cache needs an end_caching() behind the steps that make what is missing")
        # Not a pass of the base class, which would start a pass over the source. The next step only checks `ended`.
        current = self._pass = Pass(self)
        yield from self._fed
        current.ended = True


@functional_datapipe("on_disk_cache")
class OnDiskCacheHolder(_Fed, IterDataPipe[T_co]):
    """Yield the items whose files are missing to the steps up to `end_caching`, which make the files.

    Take it to download or convert a data set once, under names of your own; `cache_files` keeps what fits a bound.
    `filepath_fn` returns the path of an item's file, or a list or generator of several paths; without it, items are
    paths. A file is missing if it does not exist, if its digest differs from that in `hash_dict` (paths to hexadecimal
    digests), or if `extra_check_fn(path)` is false. `hash_type` is the name of a hash in hashlib. `on_error` of
    `end_caching` handles an item for which one of the functions raises.

    In place of a path, the steps between may make files at other paths, such as in a folder of that name. A file with
    the suffix `.torchdata_list` then lists them, and later passes yield them.

    Raises RuntimeError when read without an `end_caching`.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> names = IterableWrapper(["a", "b"])
    >>> missing = names.on_disk_cache(lambda name: os.path.join(folder, name))
    >>> dp = missing.map(lambda name: (name, name.encode())).end_caching(same_filepath_fn=True)
    >>> [os.path.basename(path) for path in dp]
    ['a', 'b']
    """

    # `end_caching` reads the source, which counts as its source: see there.
    payload = ("source",)

    def __init__(
        self,
        source: IterDataPipe[T_co],
        filepath_fn: Callable[[Any], OnePathOrMore] | None = None,
        hash_dict: Mapping[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
    ) -> None:
        check_function("filepath_fn", filepath_fn, optional=True)
        check_function("extra_check_fn", extra_check_fn, optional=True)
        if hash_dict is not None and not isinstance(hash_dict, Mapping):
            raise TypeError(f"hash_dict must map paths to their digests, and is {hash_dict!r:.100}")
        self.source = source
        self.filepath_fn = filepath_fn
        self.hash_dict = hash_dict
        self.hash_type = check_hash_type(hash_type)
        self.extra_check_fn = extra_check_fn

    def _paths_of(self, item: Any) -> list[str]:
        """Return the paths of the files of an item."""
        made: Any = item if self.filepath_fn is None else self.filepath_fn(item)
        each = [made] if isinstance(made, (str, os.PathLike)) else made
        paths = [checked_path(path).rstrip(os.sep) for path in each]
        if not paths:
            raise ValueError("filepath_fn returned no path")
        return paths

    def _look_up(self, paths: list[str], left_behind: bool) -> tuple[list[str], bool]:
        """Return the existing files of an item, and whether these are all its files.

        A folder that a dead process left unfinished (`left_behind`) does not count.
        """
        expected = _read_list(paths[0]) or paths
        there = [path for path in expected if self._is_there(path) and not (left_behind and os.path.isdir(path))]
        return there, len(there) == len(expected)

    def _is_there(self, path: str) -> bool:
        if not os.path.exists(path):
            return False
        expect_trusted(path)
        if self.hash_dict is not None:
            if path not in self.hash_dict:
                return False
            with open(path, "rb") as file:
                if digest_of(file, self.hash_type) != self.hash_dict[path].lower():
                    return False
        return self.extra_check_fn is None or self.extra_check_fn(path)


@functional_datapipe("end_caching")
class EndOnDiskCacheHolder(IterDataPipe[str]):
    """Yield the paths of each item's files; the steps since `on_disk_cache` make missing ones.

    Paths come in the order of the items and, for one item, in the order of `filepath_fn`, whichever files existed
    before. An item that a step between leaves out gives nothing and is tried again in the next pass.

    The steps between yield pairs of a path and its content: a stream, which is read and closed, bytes, text, or an
    iterable of pieces. The file is written to `filepath_fn(path)`, or, with `same_filepath_fn`, to the result of the
    `filepath_fn` of `on_disk_cache`, or else to the path itself. `mode` is `"wb"` or `"b"` for bytes, `"w"`, `"wt"` or
    `"t"` for text, written as UTF-8. `skip_read` has no effect: streams are recognised without it. The steps between
    run for one item at a time: they shuffle, batch and read ahead within one item.

    A file appears complete, with the digest in `hash_dict` of `on_disk_cache`, or not at all. One process makes it, and
    the others wait for up to `timeout` seconds; they do not wait for a dead process. Next to an unfinished file are
    `.penstock-….lock` and `.penstock-….partial`, which no step lists. A killed process leaves both behind. The lock is
    removed when the file is made again, the partial file when another process makes a file in the folder.

    Where everybody may write, as in `/tmp`, a file of another user may have been planted, and is an error, unless the
    user is root or the owner of the folder. So is a file in a folder that another user made there, unless it is shared
    with a group of this user, as after `chmod 2770`.

    `on_error` handles an item whose files cannot be made: an error of a function of `on_disk_cache`, of a step between,
    or of this one. A `Retry` runs the steps between again.

    Raises ValueError without an `on_disk_cache` before, TimeoutError where another process takes too long,
    PermissionError, with path and owner, for a file that may have been planted, and RuntimeError for a content whose
    digest differs from `hash_dict` or is missing in it.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> names = IterableWrapper(["a", "b"])
    >>> missing = names.on_disk_cache(lambda name: os.path.join(folder, name))
    >>> dp = missing.map(lambda name: (name, name.encode())).end_caching(same_filepath_fn=True)
    >>> [os.path.basename(path) for path in dp]
    ['a', 'b']
    """

    resumes_from_start = False
    payload = ("_cache",)
    whole_sources = ("source",)  # the steps between, which the items pass through one by one
    given: int = own(0)
    """How many paths of the current item were yielded."""
    given_up: threading.Event = own(threading.Event, saved=False)

    def __init__(
        self,
        source: IterDataPipe[Any],
        mode: str = "wb",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
        on_error: OnError = "raise",
    ) -> None:
        if mode not in ("w", "wt", "t", "wb", "b"):
            raise ValueError(f"mode must be 'wb' or 'b' for bytes, 'w', 'wt' or 't' for text, and is {mode!r}")
        check_function("filepath_fn", filepath_fn, optional=True)
        if filepath_fn is not None and same_filepath_fn:
            raise ValueError("give filepath_fn or same_filepath_fn, not both")
        expect_seconds("timeout", timeout)
        self._cache = _beginning(source)
        self.items = self._cache.source
        self.source = source
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.same_filepath_fn = same_filepath_fn
        self.skip_read = skip_read
        self.timeout = timeout
        self.handle_errors(on_error)

    # This operator reads the items, and runs the steps between again for each missing one. So it has two sources: that
    # of on_disk_cache, and the steps between, whose pass begins and ends within one item.

    def interrupt(self) -> None:
        super().interrupt()
        self.given_up.set()

    def __iter__(self) -> Iterator[str]:
        files_of = self.error_policy.wrap(self._files_of)
        items = self.read(self.items)
        for number, item in items:
            items.keep_from(number)
            files: Any = files_of(item)
            if self.error_policy.keep(files):
                for path in files[self.given :]:
                    self.given += 1
                    yield path
            self.given = 0

    def _files_of(self, item: Any) -> list[str]:
        paths = self._cache._paths_of(item)
        lock_path = lock_beside(paths[0])
        files, complete = self._cache._look_up(paths, left_behind=os.path.exists(lock_path))
        if complete:
            return files
        os.makedirs(os.path.dirname(lock_path) or ".", exist_ok=True)
        with FileLock(lock_path, self.timeout, self.given_up) as lock:
            files, complete = self._cache._look_up(paths, lock.left_behind)  # another process may have made them
            return files if complete else self._make(item, paths, {*files})

    def _make(self, item: Any, paths: list[str], there: set[str]) -> list[str]:
        """Run the steps between for an item with these paths; return the paths of its files."""
        made: dict[str, None] = {}
        cache = self._cache
        cache._fed = (item,)
        results = iter(self.source)
        try:
            for result in results:
                if not isinstance(result, (tuple, list)) or len(result) != 2:
                    raise TypeError(f"end_caching needs pairs of a path and a content, and got {result!r:.100}")
                path = self._path_of(result[0])
                save_whole(result[1], path, "b" not in self.mode, cache.hash_dict, cache.hash_type)
                made[path] = None
        finally:
            close(results)
            self._source_ended(self.source)
            cache._fed = None
        expected = {*paths}
        others = [path for path in made if path not in expected]
        files = [path for path in paths if path in made or path in there] + others
        if others:
            save_whole("".join(f"{path}\n" for path in files), paths[0] + _LIST, text=True)
        elif os.path.exists(paths[0] + _LIST):
            os.unlink(paths[0] + _LIST)
        return files

    def _path_of(self, name: Any) -> str:
        if self.same_filepath_fn:
            paths = self._cache._paths_of(name)
            if len(paths) > 1:
                raise ValueError(f"same_filepath_fn needs one path, and there are {len(paths)}: give a filepath_fn")
            return paths[0]
        return checked_path(name if self.filepath_fn is None else self.filepath_fn(name))


def _read_list(path: str) -> list[str] | None:
    """Return the files made in place of a path; None where there is no list of them."""
    try:
        with open(path + _LIST, encoding="utf-8") as file:
            expect_trusted(file.name)
            return [path for path in file.read().split("\n") if path]
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def _beginning(source: IterDataPipe[Any]) -> OnDiskCacheHolder[Any]:
    """Return the `on_disk_cache` for an `end_caching` after a pipe: they pair like brackets."""
    found: dict[int, OnDiskCacheHolder[Any]] = {}
    waiting: list[Any] = [source]
    while waiting:
        pipe = waiting.pop()
        if declares(pipe, "apply_sharding"):
            raise ValueError(
                "items cannot be sharded between on_disk_cache and end_caching: do it before on_disk_cache"
            )
        if isinstance(pipe, OnDiskCacheHolder):
            found[id(pipe)] = pipe
        else:
            waiting += [pipe.items] if isinstance(pipe, EndOnDiskCacheHolder) else sources_of(pipe)
    if len(found) != 1:
        raise ValueError(f"end_caching needs one on_disk_cache before it, and there are {len(found)}")
    return next(iter(found.values()))
