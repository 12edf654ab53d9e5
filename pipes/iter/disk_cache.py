"""Items whose files are made once and then found on disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ...registry import Guard, IterDataPipe, OnError, close, functional_datapipe, own, sources_of
from ...registry.iteration import Pass
from ...storage.digest import check_hash_type, digest_of
from ...storage.locks import FileLock
from ...storage.owners import expect_trusted, expect_trusted_folder
from ...storage.parts import lock_beside
from ...storage.streams import checked_path
from ...storage.writing import save

T_co = TypeVar("T_co", covariant=True)
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_LIST = ".torchdata_list"
"""What torchdata appends to a path for the list of files that were made in its place: its caches go on being served."""


class _Fed:
    """What is read from a pipe that is given its items, one by one, by the operator that ends the chain behind it."""

    _fed: tuple[Any, ...] | None = own(None, saved=False)
    _pass: Pass | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._fed is None:
            raise RuntimeError("on_disk_cache needs an end_caching() behind the steps that make what is missing")
        # Not a pass of the base's, which would begin one over the source; the step behind asks only whether it ended.
        current = self._pass = Pass()
        yield from self._fed
        current.ended = True


@functional_datapipe("on_disk_cache")
class OnDiskCacheHolder(_Fed, IterDataPipe[T_co]):
    """Yield the items whose files are missing, to the steps between this and `end_caching`, which make the files.

    `filepath_fn` makes the path of an item's file, or a list or generator of the paths of several; without it items
    are paths themselves. A file is missing if it does not exist, if `hash_dict`, from paths to hexadecimal digests,
    has not the digest that it has, or if `extra_check_fn` of its path is false. `hash_type` is the name of a hash of
    hashlib's. `on_error` of `end_caching` handles an item for which one of the functions raises.

    In place of a path, the steps between may make one or more files of other paths, such as those in a folder of that
    name; then a file beside it, whose name ends in `.torchdata_list`, lists them, and they come out from then on.

    Raises RuntimeError when it is read without an `end_caching`.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> names = IterableWrapper(["a", "b"])
    >>> missing = names.on_disk_cache(lambda name: os.path.join(folder, name))
    >>> dp = missing.map(lambda name: (name, name.encode())).end_caching(same_filepath_fn=True)
    >>> [os.path.basename(path) for path in dp]
    ['a', 'b']
    """

    # The source is read by the operator that ends the chain, and counts as a source of that one: see there.
    payload = ("source",)

    def __init__(
        self,
        source: IterDataPipe[T_co],
        filepath_fn: Callable[[Any], Paths] | None = None,
        hash_dict: Mapping[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
    ) -> None:
        for name, function in [("filepath_fn", filepath_fn), ("extra_check_fn", extra_check_fn)]:
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be callable, and is {function!r:.100}")
        if hash_dict is not None and not isinstance(hash_dict, Mapping):
            raise TypeError(f"hash_dict must map paths to their digests, and is {hash_dict!r:.100}")
        self.source = source
        self.filepath_fn = filepath_fn
        self.hash_dict = hash_dict
        self.hash_type = check_hash_type(hash_type)
        self.extra_check_fn = extra_check_fn

    def _paths_of(self, item: Any) -> list[str]:
        """Return the paths of an item's files."""
        made: Any = item if self.filepath_fn is None else self.filepath_fn(item)
        each = [made] if isinstance(made, (str, os.PathLike)) else made
        paths = [checked_path(path).rstrip(os.sep) for path in each]
        if not paths:
            raise ValueError("filepath_fn returned no path")
        return paths

    def _look_up(self, paths: list[str], left_behind: bool) -> tuple[list[str], bool]:
        """Return those of an item's files that are there, and whether that is all of them.

        A folder that is `left_behind` by an owner that ended before it was finished is not there.
        """
        expected = _listed(paths[0]) or paths
        there = [path for path in expected if self._is_there(path) and not (left_behind and os.path.isdir(path))]
        return there, len(there) == len(expected)

    def _is_there(self, path: str) -> bool:
        if not os.path.exists(path):
            return False
        _expect_trusted(path)
        if self.hash_dict is not None:
            if path not in self.hash_dict:
                return False
            with open(path, "rb") as file:
                if digest_of(file, self.hash_type) != self.hash_dict[path].lower():
                    return False
        return self.extra_check_fn is None or self.extra_check_fn(path)


@functional_datapipe("end_caching")
class EndOnDiskCacheHolder(IterDataPipe[str]):
    """Yield the paths of each item's files, which were there, or are made now by the steps since `on_disk_cache`.

    Paths come in the order of the items and, for one item, in that of `filepath_fn`, whatever had been there before. An
    item without files at the end, since a step between left it out, gives nothing and is tried again in the next pass.

    The steps between yield pairs of a path and its content: a stream, which is read and closed, bytes, text, or an
    iterable of pieces. The path of the file is `filepath_fn` of that path, or with `same_filepath_fn` the path that
    `on_disk_cache` makes of it, or else the path itself. `mode` is `"wb"` or `"b"` for bytes, `"w"`, `"wt"` or `"t"`
    for text, which is written as UTF-8. `skip_read` says that contents are no streams, which is seen without it. The
    steps between are run for one item at a time: what they shuffle, batch or read ahead are the parts of that item.

    A file appears at once, whole and with the digest that `hash_dict` of `on_disk_cache` has for it, or not at all. Of
    several processes one makes it, and the others wait for that one, `timeout` seconds at most; for one that has ended,
    they do not. Beside a file that is being made are `.penstock-….lock` and `.penstock-….partial`, which no step lists.
    A killed process leaves them behind: the next that makes the file removes the first, and the next that makes one in
    the folder the other.

    Files of others are served where their owner is root or the owner of the folder they lie in, or where the folder is
    one that its group may write to, and others may not, as after `chmod 2770`. Anything else may have been planted, as
    in `/tmp`. Locks and unfinished files are written by no symbolic link.

    `on_error` handles an item whose files cannot be made, by a function of `on_disk_cache`, by the steps
    between or here. A `Retry` runs the steps between again.

    Raises ValueError where no `on_disk_cache` comes before, TimeoutError where another process takes too long,
    PermissionError, with path and owner, for a file that may have been planted, and RuntimeError for a content with
    another digest than expected, or that has none in `hash_dict`.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> names = IterableWrapper(["a", "b"])
    >>> missing = names.on_disk_cache(lambda name: os.path.join(folder, name))
    >>> dp = missing.map(lambda name: (name, name.encode())).end_caching(same_filepath_fn=True)
    >>> [os.path.basename(path) for path in dp]
    ['a', 'b']
    """

    holds_items = False
    payload = ("_cache",)
    given: int = own(0)
    """How many paths of the item were handed out."""
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
        if filepath_fn is not None and not callable(filepath_fn):
            raise TypeError(f"filepath_fn must be callable, and is {filepath_fn!r:.100}")
        if filepath_fn is not None and same_filepath_fn:
            raise ValueError("give filepath_fn or same_filepath_fn, not both")
        if not timeout > 0:
            raise ValueError(f"timeout must be seconds, more than 0, and is {timeout}")
        self._cache = _beginning(source)
        self.items = self._cache.source
        self.source = source
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.same_filepath_fn = same_filepath_fn
        self.skip_read = skip_read
        self.timeout = timeout
        self.on_error = on_error
        self.guard = Guard(on_error)

    # The items are read here, and the steps between are run anew for each that is missing. So what on_disk_cache reads
    # from is a source of this operator, and the steps between are another, which begins and ends within one item.

    def interrupt(self) -> None:
        super().interrupt()
        self.given_up.set()

    def __iter__(self) -> Iterator[str]:
        files_of = self.guard.wrap(self._files_of)
        items = self.read(self.items)
        for number, item in items:
            items.keep_from(number)
            files: Any = files_of(item)
            if self.guard.keep(files):
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
            files, complete = self._cache._look_up(paths, lock.left_behind)  # what another process made meanwhile
            return files if complete else self._make(item, paths, {*files})

    def _make(self, item: Any, paths: list[str], there: set[str]) -> list[str]:
        """Run the steps between for an item, whose files have these paths, and return the paths of its files."""
        made: dict[str, None] = {}
        cache = self._cache
        cache._fed = (item,)
        results = iter(self.source)
        try:
            for result in results:
                if not isinstance(result, (tuple, list)) or len(result) != 2:
                    raise TypeError(f"end_caching needs pairs of a path and a content, and got {result!r:.100}")
                path = self._path_of(result[0])
                save(result[1], path, "b" not in self.mode, cache.hash_dict, cache.hash_type)
                made[path] = None
        finally:
            close(results)
            self._is_done_with(self.source)
            cache._fed = None
        expected = {*paths}
        others = [path for path in made if path not in expected]
        files = [path for path in paths if path in made or path in there] + others
        if others:
            save("".join(f"{path}\n" for path in files), paths[0] + _LIST, text=True)
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


def _expect_trusted(path: str) -> None:
    expect_trusted_folder(os.path.dirname(path))
    expect_trusted(path, os.lstat(path))


def _listed(path: str) -> list[str] | None:
    """The files that were made in the place of a path, if others were."""
    try:
        with open(path + _LIST, encoding="utf-8") as file:
            _expect_trusted(file.name)
            return [path for path in file.read().split("\n") if path]
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def _beginning(source: IterDataPipe[Any]) -> OnDiskCacheHolder[Any]:
    """The `on_disk_cache` that an `end_caching` behind a pipe belongs to: they pair like brackets."""
    found: dict[int, OnDiskCacheHolder[Any]] = {}
    waiting: list[Any] = [source]
    while waiting:
        pipe = waiting.pop()
        if hasattr(type(pipe), "apply_sharding"):
            raise ValueError(
                "items cannot be sharded between on_disk_cache and end_caching: do it before on_disk_cache"
            )
        if isinstance(pipe, OnDiskCacheHolder):
            found[id(pipe)] = pipe
        else:
            waiting += [pipe.items] if isinstance(pipe, EndOnDiskCacheHolder) else sources_of(pipe)
    if len(found) != 1:
        raise ValueError(f"end_caching needs one on_disk_cache before it, and finds {len(found)}")
    return next(iter(found.values()))
