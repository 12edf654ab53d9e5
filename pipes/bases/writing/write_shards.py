"""Base of shard writers: each reader writes its own shards and an index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, closing, contextmanager
from typing import IO, Any, ClassVar, Literal, Self, get_args

from ....errors.notes import add_note
from ....errors.secrets import Options, without_secrets
from ....registry import IterDataPipe, OnError, own
from ....registry.sharding import part_read, sharding_points
from ....state.foreign import declared
from ....storage.addresses import address_of
from ....storage.streaming.streams import checked_path
from ....storage.writing import expect_writable, remove_file, whole_file, write_in_parts
from ..progress_bar import BAR_AFTER, losses_and_waits, progress_bar
from .numbered_files import NumberedFiles
from .own_files import step_that_reads
from .unread import Unread

BYTES_PER_FILE = 2**27
"""The size of a file's data in memory, where no number of rows or samples is given."""

Mode = Literal["error", "overwrite", "append"]
"""What a writer does where files of an earlier run are: raise, replace them all, or write beside them."""


class ShardWriter(IterDataPipe[tuple[str, int]]):
    """Write shards, and yield the URL and count of each: a base class. A long pass shows a progress bar.

    `counted` names what is counted in a shard; the name of the index begins with `index_prefix`. A file ends in one of
    `_suffixes`, in a plain folder in the first.
    """

    resumes_from_start = False
    shows_progress = True
    counted: ClassVar[str]
    index_prefix: ClassVar[str] = ""
    _suffixes: tuple[str, ...]
    transient = ("settled",)
    url_template: Any
    mode: Mode
    storage_options: Options
    source: IterDataPipe[Any]
    settled: int | None = None
    """What `settle` returned before the stream was divided, for the next pass; None where it was not called."""
    _unread: Unread | None = None

    first: int | None = own(None)
    """The number from which the files of this run count, once it is known."""
    written: list[dict[str, Any]] = own(list)
    """The index entries of the shards."""
    _bytes: int = own(0, saved=False)
    """How much is written."""

    def _take(
        self,
        source: IterDataPipe[Any],
        url_template: Any,
        mode: Mode,
        on_error: OnError,
        storage_options: Mapping[str, Any] | None,
    ) -> None:
        """Keep the arguments that all writers have; raise ValueError or TypeError for wrong ones."""
        self._files = NumberedFiles(checked_path(url_template), self._suffixes, self.index_prefix)
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be 'error', 'overwrite' or 'append', and is {mode!r:.100}")
        check_division(source)
        self.source = source
        self.url_template = url_template
        self.mode = mode
        self.handle_errors(on_error, can_retry=False)
        self.storage_options = Options(storage_options)

    def result(self) -> Self:
        # Here, since a constructor that raises leaves nothing to be read.
        name = self.functional_name or type(self).__name__
        self._unread = Unread(f"{name}({without_secrets(checked_path(self.url_template))!r})")
        return self

    def settle(self, shards: Collection[tuple[int, int]] = ((1, 0),), again: bool = False) -> int:
        """Compare with what earlier runs have left, and return the number from which this run's files count.

        `shards` are those of the stream that will be written from here, each as number of shards and shard. Only the
        files that these can write are looked at: those of other readers may be of the same run. `again` says that a
        pass is run again from its start, so files that no index lists are its own.

        Raises FileExistsError where the mode does not allow them, and ValueError where the chain reads files there.
        """
        if self._unread is not None:
            self._unread.read()
        self._expect_another_folder()
        expect_writable(address_of(self._files.url(0), self.storage_options))
        if again and self.mode != "append":
            return 0
        parts, part = part_read(self.source)
        mine = {number + part * shards for shards, number in shards}
        parts *= next(iter(shards))[0]
        if self.mode == "append":
            return self._first_free(parts, mine, again)
        names = self._files.names(self.storage_options, self.error_policy)
        indexes = self._files.indexes(self.storage_options, self.error_policy)
        self._expect_no_others(names, indexes)
        if self.mode == "error":
            self._expect_no_earlier(names, indexes, parts, mine)
        return 0

    def _first_free(self, parts: int, mine: set[int], again: bool) -> int:
        """Return the number after the files of earlier runs that these parts of the stream could have written."""
        files, options = self._files, self.storage_options
        indexes = files.indexes(options, self.error_policy)
        names = files.listed(indexes, options) if again else files.names(options, self.error_policy)
        rounds = [number // parts for number in files.numbers(names) if number % parts in mine]
        first = parts * (1 + max(rounds, default=-1))
        while any(files.index_url(parts, each, first) in indexes for each in mine):  # of another format
            first += parts
        return first

    def _expect_no_others(self, names: list[str], indexes: list[str]) -> None:
        """Raise FileExistsError for files of a run in another format, and for others that readers would take too."""
        files = self._files
        there = {*files.of_another_format(names), *files.listed(indexes, self.storage_options)}.intersection(names)
        of_another_format = sorted(name for name in there if not files.numbers([name]))
        if others := of_another_format or files.others(names):
            which = "of an earlier run in another format" if of_another_format else "that this step did not name"
            raise FileExistsError(
                f"{without_secrets(files.folder)} has {_files(others)} {which}, such as {others[0]!r}, and this run "
                "would not replace them: remove them, write to another folder, or with mode='append' beside them"
            )

    def _expect_no_earlier(self, names: list[str], indexes: list[str], parts: int, mine: set[int]) -> None:
        """Raise FileExistsError for files of an earlier run that these parts of the stream would replace."""
        files = self._files
        folder = without_secrets(files.folder)
        if there := [number for number in files.numbers(names) if number % parts in mine]:
            raise FileExistsError(
                f"{folder} has {_files(there)} of an earlier run, such as "
                f"{files.url(min(there)).rpartition('/')[2]!r}: mode='overwrite' replaces all of an earlier run, "
                "and mode='append' writes beside them"
            )
        # Other readers may have ended, and have written theirs.
        of_this_run = {files.index_url(parts, each, 0) for each in range(parts) if each not in mine}
        if earlier := sorted({*indexes} - of_this_run):
            raise FileExistsError(
                f"{folder} has an index of an earlier run, {earlier[0].rpartition('/')[2]!r}: mode='overwrite' "
                "replaces it, and mode='append' writes beside it"
            )

    def _expect_another_folder(self) -> None:
        """Raise where a step reads what this one writes: files would be replaced unread, or be read again."""
        if found := step_that_reads(self._files, self.source, self.storage_options):
            step, place = found
            reader: Any = type(step)
            raise ValueError(
                f"{self.functional_name or type(self).__name__} writes to the folder that "
                f"{reader.functional_name or reader.__name__} reads, {without_secrets(place)!r}: "
                "write to another folder"
            )

    def _pass_opened(self) -> None:
        if self._unread is not None:  # a pass that resumes at its end does not call `__iter__`
            self._unread.read()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        parts, part = part_read(self.source)
        settled, self.settled = self.settled, None  # of this pass alone
        if self.first is None:
            assert self._pass is not None
            self.first = self.settle(again=self._pass.resumed) if settled is None else settled
        with closing(self._shards()) as shards, self._bar():
            for content in shards:
                url = self._files.url(self.first + part + parts * len(self.written))
                entry = self._write(url, content)
                self.written.append(entry)
                yield url, entry[self.counted]
        if self.mode == "overwrite":
            self._remove_earlier(parts, part)
        index = self._files.index_url(parts, part, self.first)
        with _naming_shard(index), whole_file(index, "wb", self.storage_options, counted_by=self.error_policy) as file:
            file.write(json.dumps(self._index(), indent=1).encode())

    def _remove_earlier(self, parts: int, part: int) -> None:
        """Remove what this part of the stream has not replaced, now that the new files are whole."""
        options = self.storage_options
        end = part + parts * len(self.written)
        numbers = self._files.numbers(self._files.names(options, self.error_policy))
        earlier = [self._files.url(number) for number in numbers if number % parts == part and number >= end]
        replaced = [self._files.index_url(parts, each, 0) for each in range(parts)]
        indexes = self._files.indexes(options, self.error_policy)
        stale = [url for url in indexes if url not in replaced] if part == 0 else []
        for url in [*earlier, *stale]:
            remove_file(url, options)

    def _bar(self) -> AbstractContextManager[None]:
        assert self._pass is not None

        def notes(waiting: float | None) -> list[str]:
            return [f"{len(self.written)} files", *losses_and_waits(self.stats(), None)]

        name = self.functional_name or type(self).__name__
        is_running = self._pass.is_running
        return progress_bar(name, lambda: self._bytes, unit="B", notes=notes, is_running=is_running, after=BAR_AFTER)

    def _count(self, size: int) -> None:
        self._bytes += size

    def _shards(self) -> Generator[Iterator[Any], None, None]:
        """Yield the content of each shard, which is consumed before the next is requested."""
        raise NotImplementedError(f"{type(self).__name__} must define _shards")

    def _fill(self, file: CountedFile, content: Iterator[Any]) -> int:
        """Write a shard, and return its count."""
        raise NotImplementedError(f"{type(self).__name__} must define _fill")

    def _index(self) -> dict[str, Any]:
        return {"shards": self.written}

    def _write(self, url: str, content: Iterator[Any]) -> dict[str, Any]:
        """Write a shard, and return its index entry."""
        with _naming_shard(url), whole_file(url, "wb", self.storage_options, counted_by=self.error_policy) as file:
            counted = CountedFile(file, self._count)
            number = self._fill(counted, content)
        name = url.rpartition("/")[2]
        return {"name": name, self.counted: number, "bytes": counted.size, "sha256": counted.sha256}


@contextmanager
def _naming_shard(url: str) -> Iterator[None]:
    """Name the URL in errors while it is written."""
    try:
        yield
    except Exception as error:
        add_note(error, f"while writing {without_secrets(url)}")
        raise


class CountedFile:
    """A file written sequentially, with its size and digest. `count` is called with the size of each write.

    After a failed write it ignores further ones: libraries write the end of a file while they clean up.
    """

    closed = False

    def __init__(self, file: IO[bytes], count: Callable[[int], object]) -> None:
        self._file = file
        self._count = count
        self._failed = False
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        if not self._failed:
            self._failed = True
            write_in_parts(self._file, content)
            self._failed = False
            self._digest.update(content)
            self.size += size
            self._count(size)
        return size

    def flush(self) -> None:
        """Do nothing: data is sent once there is enough."""


def _files(there: Sized) -> str:
    return f"{len(there)} file{'s' * (len(there) != 1)}"


def check_division(source: Any) -> None:
    """Raise ValueError where the division of a stream does not reveal which part is read."""
    for point in sharding_points(source):
        if not declared(point, "is_sharding_filter", False) or declared(point, "dispatches", False):
            raise ValueError(
                f"behind {type(point).__name__}, it is not known which part of a stream is read, and the parts would "
                "overwrite each other's shards: divide the stream by sharding_filter"
            )
