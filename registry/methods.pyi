# Generated from the operators by `penstock stubs penstock`. Changes here are lost.

import collections.abc
import penstock.pipes.columns
import penstock.pipes.iter.ahead
import penstock.pipes.iter.archive
import penstock.pipes.iter.combine
import penstock.pipes.iter.convert
import penstock.pipes.iter.decode
import penstock.pipes.iter.device
import penstock.pipes.iter.files
import penstock.pipes.iter.group
import penstock.pipes.iter.number
import penstock.pipes.iter.order
import penstock.pipes.iter.repeat
import penstock.pipes.iter.select
import penstock.pipes.iter.shard
import penstock.pipes.iter.storage
import penstock.pipes.iter.transform
import penstock.pipes.iter.webdataset
import penstock.pipes.map.combine
import penstock.pipes.map.convert
import penstock.pipes.map.group
import penstock.pipes.map.order
import penstock.pipes.map.transform
import penstock.registry
import penstock_plugins
import torch
import typing
from typing import Any, Generic, ParamSpec, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar('T')
R = TypeVar('R')
P = ParamSpec('P')

class IterMethods(penstock_plugins.IterMethods[T_co], Generic[T_co]):
    def __iter__(self) -> collections.abc.Iterator[T_co]: ...

    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: collections.abc.Callable[[list[T_co]], typing.Any] = ...,
    ) -> penstock.pipes.iter.group.Batcher[T_co]:
        """Yield lists of `batch_size` items; the last may be shorter, or is dropped with `drop_last`.

        `wrapper_class` makes the batch out of a list; a `DataChunk` is a list.

        >>> dp = IterableWrapper(range(5)).batch(2)
        >>> list(dp)
        [[0, 1], [2, 3], [4]]
        >>> list(IterableWrapper(range(5)).batch(2, drop_last=True, wrapper_class=tuple))
        [(0, 1), (2, 3)]
        """
        ...

    def collate(
        self,
        conversion: collections.abc.Callable[..., typing.Any] | collections.abc.Mapping[typing.Any, collections.abc.Callable[..., typing.Any]] = ...,
        collate_fn: collections.abc.Callable[..., typing.Any] | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Collator:
        """Yield each batch as tensors, by default with torch's `default_collate`.

        `conversion` (or `collate_fn`, its other name) is a function of a batch. It may also be a dict from columns to
        functions: then the batch is a list of dicts or tuples, each function gets the list of its column's values, columns
        that are not named go through `default_collate`, and a dict or tuple of the results is yielded. `on_error` is what
        becomes of a batch that fails.

        Raises what the function raises for a batch that cannot be collated: RuntimeError where shapes differ, TypeError
        where there is no tensor for a type.

        >>> dp = IterableWrapper([1.0, 2.0, 3.0]).batch(2).collate()
        >>> list(dp)
        [tensor([1., 2.], dtype=torch.float64), tensor([3.], dtype=torch.float64)]
        >>> rows = IterableWrapper([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
        >>> list(rows.batch(2).collate({"name": "".join}))
        [{'x': tensor([1, 2]), 'name': 'ab'}]
        """
        ...

    def concat(
        self,
        *sources: penstock.registry.IterDataPipe[T],
    ) -> penstock.pipes.iter.combine.Concater[T_co | T]:
        """Yield the items of the first source, then those of the second, and so on.

        The same pipe may stand several times: it is read anew each time.

        >>> dp = IterableWrapper("ab").concat(IterableWrapper("cd"))
        >>> list(dp)
        ['a', 'b', 'c', 'd']
        """
        ...

    def cycle(self, count: int | None = None) -> penstock.pipes.iter.repeat.Cycler[T_co]:
        """Yield all items of the source `count` times over; without a count, for ever.

        Each time is a pass of its own: a shuffled source comes in another order. The cycle ends at a pass that gives
        nothing, so that a cycle of an empty source is empty.

        >>> dp = IterableWrapper(range(3)).cycle(2)
        >>> list(dp)
        [0, 1, 2, 0, 1, 2]
        """
        ...

    def enumerate(self, starting_index: int = 0) -> penstock.pipes.iter.number.Enumerator[T_co]:
        """Yield pairs of a running number, from `starting_index` on, and the item.

        >>> dp = IterableWrapper("abc").enumerate(starting_index=1)
        >>> list(dp)
        [(1, 'a'), (2, 'b'), (3, 'c')]
        """
        ...

    def filter(
        self,
        filter_fn: collections.abc.Callable[..., typing.Any],
        input_col: penstock.pipes.columns.Columns | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.select.Filter[T_co]:
        """Yield the items for which `filter_fn(item)` is true.

        What counts is the truth of the result, as for the builtin `filter`, so NumPy's bools and tensors of one element
        serve as well. With `input_col`, an index or key or a list of them, `filter_fn` gets these columns of the item as
        its arguments; the item is yielded whole. `on_error` is what becomes of an item for which `filter_fn` raises.

        Raises TypeError for a `filter_fn` that cannot be called, and ValueError for one that cannot be called with so many
        columns.

        >>> dp = IterableWrapper(range(6)).filter(lambda x: x % 2 == 0)
        >>> list(dp)
        [0, 2, 4]
        >>> list(IterableWrapper([("a", 1), ("b", 5)]).filter(lambda x: x > 3, input_col=1))
        [('b', 5)]
        """
        ...

    @typing.overload
    def flatmap(
        self,
        fn: collections.abc.Callable[[T_co], collections.abc.Iterable[R]],
        input_col: None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.FlatMapper[R]:
        """Yield all that `fn(item)` gives, one after another, for each item; without `fn`, what each item itself gives.

        `fn` returns an iterable, such as a list, or is a generator function. With `input_col`, it gets these columns of the
        item as its arguments. `on_error` is what becomes of an item for which `fn` raises: where it is left out, what it
        had given before the error is not taken back.

        >>> dp = IterableWrapper([1, 2, 3]).flatmap(lambda n: ["item"] * n)
        >>> dp.count()
        6
        >>> list(IterableWrapper([[1, 2], [], [3]]).flatmap())
        [1, 2, 3]
        """
        ...

    @typing.overload
    def flatmap(
        self: collections.abc.Iterable[collections.abc.Iterable[R]],
        fn: None = None,
        input_col: None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.FlatMapper[R]:
        """Yield all that `fn(item)` gives, one after another, for each item; without `fn`, what each item itself gives.

        `fn` returns an iterable, such as a list, or is a generator function. With `input_col`, it gets these columns of the
        item as its arguments. `on_error` is what becomes of an item for which `fn` raises: where it is left out, what it
        had given before the error is not taken back.

        >>> dp = IterableWrapper([1, 2, 3]).flatmap(lambda n: ["item"] * n)
        >>> dp.count()
        6
        >>> list(IterableWrapper([[1, 2], [], [3]]).flatmap())
        [1, 2, 3]
        """
        ...

    @typing.overload
    def flatmap(
        self,
        fn: collections.abc.Callable[..., collections.abc.Iterable[typing.Any]] | None,
        input_col: penstock.pipes.columns.Columns,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.FlatMapper[typing.Any]:
        """Yield all that `fn(item)` gives, one after another, for each item; without `fn`, what each item itself gives.

        `fn` returns an iterable, such as a list, or is a generator function. With `input_col`, it gets these columns of the
        item as its arguments. `on_error` is what becomes of an item for which `fn` raises: where it is left out, what it
        had given before the error is not taken back.

        >>> dp = IterableWrapper([1, 2, 3]).flatmap(lambda n: ["item"] * n)
        >>> dp.count()
        6
        >>> list(IterableWrapper([[1, 2], [], [3]]).flatmap())
        [1, 2, 3]
        """
        ...

    def header(self, limit: int | None = 10) -> penstock.pipes.iter.select.Header[T_co]:
        """Yield the first `limit` items; all where it is None. No item after them is pulled.

        Its `len` is exact, so it raises TypeError where the source's length is not known.

        >>> dp = IterableWrapper(range(10)).header(3)
        >>> list(dp)
        [0, 1, 2]
        """
        ...

    def list_files(
        self,
        masks: str | collections.abc.Sequence[str] = '',
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> penstock.pipes.iter.files.FileLister:
        """Yield the path of each file in a folder, in sorted order: those of the folder, then those of its subfolders.

        `root` is a path, a list of paths or an iterable pipe of them; a root that is a file is yielded itself. `masks` are
        shell patterns, of which a file's name must match one; a mask with a slash in it is matched against the whole path.
        Subfolders are entered with `recursive`, those that are symbolic links are not. Paths begin with the root as it was
        given, or are absolute with `abspath`. With `non_deterministic` the order is the file system's. `length` is what
        `len` is to say; without it `len` raises TypeError.

        Raises FileNotFoundError for a root that there is not, and PermissionError for a folder that cannot be read.
        Resuming goes by position, and so needs the sorted order and the same files.

        >>> import json, os
        >>> folder = os.path.dirname(json.__file__)
        >>> [os.path.basename(path) for path in FileLister(folder, "*coder.py")]
        ['decoder.py', 'encoder.py']
        >>> dp = IterableWrapper([folder]).list_files("*coder.py")
        >>> [os.path.basename(path) for path in dp]
        ['decoder.py', 'encoder.py']
        """
        ...

    def list_files_by_fsspec(
        self,
        masks: str | collections.abc.Sequence[str] = '',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileLister:
        """Yield the URL of each file in a folder, in sorted order.

        `root` is a URL or path, a list of them or an iterable pipe of them; a root that is a file is yielded itself.
        Subfolders are not entered. `masks` are shell patterns, of which a file's name must match one; a mask with a slash
        in it is matched against the whole URL. URLs begin as the root does, chained ones (`simplecache::s3://…`,
        `zip://::data.zip`) included; a local path without `file://` gives absolute paths. Further arguments are options of
        the file system, such as `anon=True`; without them credentials and endpoints come from the environment.

        Raises FileNotFoundError for a root that there is not, and ImportError where the package for a protocol is missing.
        Resuming goes by position, and so needs the same files.

        >>> import fsspec
        >>> for name in ("b.txt", "a.txt", "c.bin"):
        ...     fsspec.filesystem("memory").pipe(f"/shelf/{name}", name.encode())
        >>> list(FSSpecFileLister("memory://shelf", "*.txt"))
        ['memory://shelf/a.txt', 'memory://shelf/b.txt']
        >>> dp = IterableWrapper(["memory://shelf"]).list_files_by_fsspec("*.txt")
        >>> list(dp)
        ['memory://shelf/a.txt', 'memory://shelf/b.txt']
        """
        ...

    def load_from_tar(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        mode: str = 'r:*',
        length: int = -1,
    ) -> penstock.pipes.iter.archive.TarArchiveLoader:
        """Yield the path and the stream of each file in tar archives.

        Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end. A file's path is
        that of the archive, a slash, and its name in it. `mode` is as for `tarfile.open`: `"r:*"` finds the compression by
        itself, and `"r|*"` never seeks; where a stream cannot seek, the latter is taken. Directories, symbolic links and
        devices hold no data and are left out; a hard link has the content of the file that it names. `length` is what
        `len` is to say; without it `len` raises TypeError.

        A file's stream can be read for as long as somebody holds it, whatever is read from the archive meanwhile. Files up
        to 16 MiB are in memory. Of an archive that cannot seek, a larger one must be read before the next file is asked
        for; later its stream raises tarfile.StreamError.

        Raises tarfile.ReadError for an archive that is corrupt or cut, as is one without an end mark, ValueError for a file
        whose name is absolute or leads out of the archive by `..`, and TypeError for a stream of text.

        >>> import io, tarfile
        >>> buffer = io.BytesIO()
        >>> with tarfile.open(fileobj=buffer, mode="w") as tar:
        ...     for name, content in [("a.txt", b"one"), ("b.txt", b"two")]:
        ...         header = tarfile.TarInfo(name)
        ...         header.size = len(content)
        ...         tar.addfile(header, io.BytesIO(content))
        >>> dp = IterableWrapper([("shard.tar", io.BytesIO(buffer.getvalue()))]).load_from_tar()
        >>> [(path, stream.read()) for path, stream in dp]
        [('shard.tar/a.txt', b'one'), ('shard.tar/b.txt', b'two')]
        """
        ...

    def load_from_zip(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        length: int = -1,
    ) -> penstock.pipes.iter.archive.ZipArchiveLoader:
        """Yield the path and the stream of each file in zip archives.

        Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end; one that cannot seek
        is copied first, to memory or, above 16 MiB, to a temporary file. A file's path is that of the archive, a slash, and
        its name in it. Directories and symbolic links are left out. `length` is what `len` is to say; without it `len`
        raises TypeError. A file's stream can be read for as long as somebody holds it; files up to 16 MiB are in memory.

        Raises zipfile.BadZipFile for an archive that is cut or corrupt, RuntimeError for a file that is encrypted,
        ValueError for one whose name is absolute or leads out of the archive by `..`, and TypeError for a stream of text.

        >>> import io, zipfile
        >>> buffer = io.BytesIO()
        >>> with zipfile.ZipFile(buffer, "w") as archive:
        ...     archive.writestr("a.txt", "one")
        ...     archive.writestr("b.txt", "two")
        >>> dp = IterableWrapper([("shard.zip", io.BytesIO(buffer.getvalue()))]).load_from_zip()
        >>> [(path, stream.read()) for path, stream in dp]
        [('shard.zip/a.txt', b'one'), ('shard.zip/b.txt', b'two')]
        """
        ...

    @typing.overload
    def map(
        self,
        fn: collections.abc.Callable[[T_co], R],
        input_col: None = None,
        output_col: None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Mapper[R]:
        """Yield `fn(item)` for each item.

        With `input_col`, an index or key or a list of them, `fn` gets these columns of the item as its arguments, and the
        item is yielded with the result put in: at `output_col`, where -1 appends to a tuple or list; without `output_col`
        in the place of the first input column, and the other input columns are left out. Named tuples stay named tuples
        where their fields stay. The source's items are never changed, but copied.

        `on_error` is what becomes of an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

        Raises TypeError for an `fn` that cannot be called, and ValueError for one that cannot be called with so many
        columns, or for an `output_col` without an `input_col`.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
        >>> list(dp)
        [1, 2, 3]
        >>> list(IterableWrapper([("a", 1, 2)]).map(lambda x, y: x + y, input_col=[1, 2]))
        [('a', 3)]
        >>> list(IterableWrapper([{"a": 1}]).map(str, input_col="a", output_col="b"))
        [{'a': 1, 'b': '1'}]
        """
        ...

    @typing.overload
    def map(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        input_col: penstock.pipes.columns.Columns,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Mapper[typing.Any]:
        """Yield `fn(item)` for each item.

        With `input_col`, an index or key or a list of them, `fn` gets these columns of the item as its arguments, and the
        item is yielded with the result put in: at `output_col`, where -1 appends to a tuple or list; without `output_col`
        in the place of the first input column, and the other input columns are left out. Named tuples stay named tuples
        where their fields stay. The source's items are never changed, but copied.

        `on_error` is what becomes of an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

        Raises TypeError for an `fn` that cannot be called, and ValueError for one that cannot be called with so many
        columns, or for an `output_col` without an `input_col`.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
        >>> list(dp)
        [1, 2, 3]
        >>> list(IterableWrapper([("a", 1, 2)]).map(lambda x, y: x + y, input_col=[1, 2]))
        [('a', 3)]
        >>> list(IterableWrapper([{"a": 1}]).map(str, input_col="a", output_col="b"))
        [{'a': 1, 'b': '1'}]
        """
        ...

    def open_files(
        self: collections.abc.Iterable[str],
        mode: str = 'r',
        encoding: str | None = None,
        length: int = -1,
    ) -> penstock.pipes.iter.files.FileOpener:
        """Yield the path and the stream of each file.

        `mode` is `"r"`, `"rt"` or `"t"` for text, in the given `encoding` or else the locale's, `"rb"` or `"b"` for bytes.
        A stream can be read for as long as somebody holds it, and is closed when it is dropped. `length` is what `len` is
        to say; without it that is the length of the source.

        Raises FileNotFoundError, PermissionError or IsADirectoryError for a file that cannot be opened.

        >>> import json, os
        >>> dp = FileLister(os.path.dirname(json.__file__), "*coder.py").open_files()
        >>> [stream.readline().strip('"\\n') for path, stream in dp]
        ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
        """
        ...

    def open_files_by_fsspec(
        self: collections.abc.Iterable[str],
        mode: str = 'r',
        *,
        kwargs_for_open: collections.abc.Mapping[str, typing.Any] | None = None,
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileOpener:
        """Yield the URL and the stream of each file.

        `mode` is `"r"`, `"rt"` or `"t"` for text, `"rb"` or `"b"` for bytes. `kwargs_for_open` are arguments for opening a
        file, such as `encoding` or `compression`. Further arguments are options of the file system, such as `anon=True`;
        without them credentials and endpoints come from the environment. A stream can be read for as long as somebody holds
        it, and is closed when it is dropped.

        Raises FileNotFoundError for a file that there is not, and ImportError where the package for a protocol is missing.

        >>> import fsspec
        >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        >>> dp = IterableWrapper(["memory://shelf/a.txt"]).open_files_by_fsspec()
        >>> [(url, stream.read()) for url, stream in dp]
        [('memory://shelf/a.txt', 'one')]
        """
        ...

    def pin_memory(
        self,
        device: str | torch.device | None = None,
        pin_memory_fn: collections.abc.Callable[[T_co, str | torch.device | None], T_co] = ...,
    ) -> penstock.pipes.iter.device.PinMemory[T_co]:
        """Yield the items with their tensors copied into pinned memory, from which copies to a device are faster.

        Tensors in dicts, lists, tuples and objects with a `pin_memory` method are found, by torch's own rules. Without an
        accelerator the items come as they are. `to_device` pins by itself; this is for those who copy by hand.

        >>> dp = IterableWrapper([torch.zeros(2)]).pin_memory()
        >>> list(dp)
        [tensor([0., 0.])]
        """
        ...

    def pipe(
        self,
        fn: collections.abc.Callable[typing.Concatenate[collections.abc.Iterator[T_co], P], collections.abc.Iterable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> penstock.pipes.iter.transform.StreamMapper[R]:
        """Yield what `fn(items, *args, **kwargs)` gives, where `items` is an iterator over the whole source.

        That is a step of its own without a class: `fn` is a generator function, or returns an iterable. It is called when a
        pass begins. What it remembers is not known, so resuming runs it again from its start and drops what had been handed
        out; where that is too slow, write an operator.

        >>> def changes(numbers, start=0):
        ...     for number in numbers:
        ...         yield number - start
        ...         start = number
        >>> dp = IterableWrapper([1, 4, 9]).pipe(changes)
        >>> list(dp)
        [1, 3, 5]
        """
        ...

    def prefetch(self, buffer_size: int = 10) -> penstock.pipes.iter.ahead.Prefetcher[T_co]:
        """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

        The thread starts with the first item asked for and ends with the pass: when it is exhausted, closed or replaced. An
        error of the source is raised in its turn, after the items before it.

        >>> dp = IterableWrapper(range(4)).prefetch(2)
        >>> list(dp)
        [0, 1, 2, 3]
        """
        ...

    def read_from_stream(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        chunk: int | None = None,
    ) -> penstock.pipes.iter.files.StreamReader:
        """Yield the path and the content of each stream: bytes, or the text of a stream opened as text.

        Takes pairs of a path and a stream. With `chunk`, yields the content in pieces of so many bytes (or characters),
        each with the path; an empty stream has none. A stream is closed when it was read.

        >>> import io
        >>> dp = IterableWrapper([("alphabet", io.StringIO("abcde"))]).read_from_stream(chunk=2)
        >>> list(dp)
        [('alphabet', 'ab'), ('alphabet', 'cd'), ('alphabet', 'e')]
        """
        ...

    def repeat(self, times: int) -> penstock.pipes.iter.repeat.Repeater[T_co]:
        """Yield each item `times` times before the next: the same object, not copies of it.

        >>> dp = IterableWrapper(range(3)).repeat(2)
        >>> list(dp)
        [0, 0, 1, 1, 2, 2]
        """
        ...

    def routed_decode(
        self,
        *handlers: penstock.pipes.iter.decode.Handler | str,
        key_fn: collections.abc.Callable[[str], str] = ...,
    ) -> penstock.pipes.iter.decode.RoutedDecoder:
        """Yield each file with what its bytes stand for, chosen by its extension.

        From pairs of a path and a stream (or bytes), pairs of the path and the value; from dicts as `webdataset` yields
        them, dicts with each value decoded. Streams are read and closed. Bytes for which there is no handler stay bytes,
        and what is neither a stream nor bytes stays as it is, as does what has a key that begins with `__`.

        Each handler is a function of an extension and bytes; the first one that returns something other than None wins.
        Without `handlers` those of `penstock.pipes.iter.decode` are used, for: images, as tensors of float32 in 0 … 1, of
        shape (3, height, width); text (`txt`); numbers (`cls`, `index`, `id`, …); `json`; `npy` and `npz`; `pt` and `pth`.
        A string among the handlers stands for all of these, with images as that spec of `ImageDecoder` says, such as
        `"torchrgb8"`. Pickles are not among them: reading one runs whatever code its author put in.

        `key_fn` makes of a path what the handlers get as the extension; for an entry of a dict, the path is the dict's
        `"__key__"` with the entry's key.

        Raises what the handler raises, such as OSError for an image that is cut or UnicodeDecodeError for text that is
        none, and ImportError for an image where Pillow is not installed.

        >>> dp = IterableWrapper([("a/1.txt", b"one"), ("a/1.json", b"[1, 2]"), ("a/1.raw", b"xyz")]).routed_decode()
        >>> list(dp)
        [('a/1.txt', 'one'), ('a/1.json', [1, 2]), ('a/1.raw', b'xyz')]
        >>> list(IterableWrapper([{"__key__": "a/1", ".txt": b"one", ".cls": b"1"}]).routed_decode())
        [{'__key__': 'a/1', '.txt': 'one', '.cls': 1}]
        """
        ...

    def set_length(self, length: int) -> penstock.pipes.iter.number.LengthSetter[T_co]:
        """Yield the items as they are, and say that there are `length` of them.

        For a stream whose length its user knows and the chain cannot, such as after `filter`. Nothing is cut or checked:
        `header` cuts.

        >>> dp = IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).set_length(5)
        >>> len(dp), list(dp)
        (5, [0, 2, 4, 6, 8])
        """
        ...

    def sharding_filter(
        self,
        sharding_group_filter: penstock.registry.SHARDING_PRIORITIES | None = None,
    ) -> penstock.pipes.iter.shard.ShardingFilter[T_co]:
        """Yield every n-th item, where n readers share the stream; all items where nobody shares it.

        The runner, or torch's DataLoader, tells each reader which part is its own. What stands before this point is run by
        every reader, so it belongs early in a chain: after listing, before opening and decoding.

        With `sharding_group_filter` only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

        >>> dp = IterableWrapper(range(7)).sharding_filter()
        >>> dp.apply_sharding(3, 1)
        >>> list(dp)
        [1, 4]
        """
        ...

    def shuffle(
        self,
        *,
        buffer_size: int = 10000,
        unbatch_level: int = 0,
    ) -> penstock.pipes.iter.order.Shuffler[T_co]:
        """Yield the items in a random order, drawn from a buffer of `buffer_size` items.

        The buffer is filled first; then each item handed out is drawn from it uniformly, and the next of the source takes
        its place. A buffer at least as large as the stream shuffles it fully; one of size 1 leaves it as it is. With
        `unbatch_level`, the source is unbatched by so many levels before.

        A state holds no items, only the numbers of those in the buffer: on resuming they are read again.

        >>> dp = IterableWrapper(range(6)).shuffle().set_seed(1)
        >>> sorted(dp)
        [0, 1, 2, 3, 4, 5]
        """
        ...

    def to_device(
        self,
        device: str | int | torch.device | None = None,
    ) -> penstock.pipes.iter.device.DeviceMover[T_co]:
        """Yield the items with their tensors on a device; on an accelerator, the next item is copied meanwhile.

        The copy of one item ahead goes from pinned memory on a stream of its own, so that it overlaps what is computed on
        the item before. Tensors are found in dicts, lists, tuples and objects with a `to` method; what else there is stays.
        On the CPU nothing is done. Under worker processes, this step and those after it run in the main process.

        `device` is anything that `torch.device` takes; None is the accelerator where there is one, else the CPU. Raises
        RuntimeError at the first item when the device is not there.

        >>> dp = IterableWrapper([{"x": torch.zeros(2), "name": "a"}]).to_device("cpu")
        >>> list(dp)
        [{'x': tensor([0., 0.]), 'name': 'a'}]
        """
        ...

    def to_map_datapipe(
        self,
        key_value_fn: collections.abc.Callable[[typing.Any], tuple[typing.Any, T]] | None = None,
    ) -> penstock.pipes.map.convert.IterToMapConverter[T]:
        """Give the values of a stream of (key, value) pairs by key; `key_value_fn` makes such pairs of other items.

        The stream is read whole, into memory, when the first item or the length is asked for. It is not part of a pickle or
        a copy, which read it again. Where a key comes more than once its last value stays, and a warning says so.

        Raises TypeError for an item that is no pair, and IndexError for a key that there is not.

        >>> dp = IterableWrapper("abc").enumerate().to_map_datapipe()
        >>> dp[1], len(dp)
        ('b', 3)
        >>> IterableWrapper(["a.txt", "b.png"]).to_map_datapipe(lambda name: (name[-3:], name))["png"]
        'b.png'
        """
        ...

    def unbatch(self, unbatch_level: int = 1) -> penstock.pipes.iter.group.UnBatcher:
        """Yield the items of each batch, which is a list; at `unbatch_level` 2 the items of the lists in it, and so on.

        At level -1 lists in lists are flattened however deep they are, and what is no list is yielded as it is. At level 0
        nothing is flattened. Tuples are items, not batches.

        Raises IndexError for a batch that is nested less deep than `unbatch_level`.

        >>> dp = IterableWrapper([[1, 2], [3]]).unbatch()
        >>> list(dp)
        [1, 2, 3]
        >>> list(IterableWrapper([[1, [2, [3, 4]]], 5]).unbatch(-1))
        [1, 2, 3, 4, 5]
        """
        ...

    def webdataset(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
    ) -> penstock.pipes.iter.webdataset.WebDataset:
        """Yield a dict for each sample: consecutive files whose paths are the same up to the first dot of the name.

        From pairs of a path and a stream (or bytes, or anything else), as `load_from_tar` yields them. In the dict,
        `"__key__"` is the path up to that dot, with forward slashes, and what follows, dot included, such as `".seg.png"`,
        is the key of the stream. Files whose name has no dot, or begins with one, are metadata by convention: they are
        closed and left out.

        Raises ValueError for a file that the sample has already.

        >>> dp = IterableWrapper([("t.tar/1.txt", b"one"), ("t.tar/1.cls", b"1"), ("t.tar/2.txt", b"two")]).webdataset()
        >>> list(dp)
        [{'__key__': 't.tar/1', '.txt': b'one', '.cls': b'1'}, {'__key__': 't.tar/2', '.txt': b'two'}]
        """
        ...

    def zip(self, *sources: penstock.registry.IterDataPipe[typing.Any]) -> penstock.pipes.iter.combine.Zipper:
        """Yield tuples of one item from each source, until the shortest is exhausted.

        As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
        itself, fork it or build it twice: a pipe has one live iterator.

        >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
        >>> list(dp)
        [('a', 0), ('b', 1), ('c', 2)]
        """
        ...

class MapMethods(penstock_plugins.MapMethods[T_co], Generic[T_co]):
    def __getitem__(self, index: Any, /) -> T_co: ...

    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: collections.abc.Callable[[list[T_co]], typing.Any] = ...,
    ) -> penstock.pipes.map.group.Batcher:
        """Give batches of `batch_size` items; the last one is shorter, or left out with `drop_last`, where they do not fit.

        The source is read by 0, 1, 2, …. Batches are numbered from 0, and negative numbers count from the end.
        `wrapper_class` makes a batch of a list; the default is a list that torch's `unbatch` knows.

        >>> dp = SequenceWrapper("abcde").batch(2)
        >>> dp[0], dp[-1], len(dp)
        (['a', 'b'], ['e'], 3)
        """
        ...

    def concat(self, *sources: penstock.registry.MapDataPipe[T]) -> penstock.pipes.map.combine.Concater[T_co | T]:
        """Give the items of the first source, then those of the second, and so on, under one running index.

        The sources are read by 0, 1, 2, …. Negative indices count from the end of the last.

        >>> dp = SequenceWrapper("ab").concat(SequenceWrapper("cd"))
        >>> dp[2], list(dp)
        ('c', ['a', 'b', 'c', 'd'])
        """
        ...

    def map(self, fn: collections.abc.Callable[[T_co], R]) -> penstock.pipes.map.transform.Mapper[R]:
        """Give fn(item) for each item, computed each time it is asked for.

        Indices and keys, negative ones included, go to the source as they are.

        >>> dp = SequenceWrapper(range(3)).map(lambda x: x * 10)
        >>> dp[2], list(dp)
        (20, [0, 10, 20])
        """
        ...

    def shuffle(
        self,
        *,
        indices: collections.abc.Iterable[typing.Any] | None = None,
    ) -> penstock.pipes.map.order.Shuffler[T_co]:
        """Yield the items of a map-style pipe in a random order, another one in each pass.

        The result is read item by item, since it has an order. `indices` are those to shuffle, by default 0, 1, 2, …; a
        pipe that is read by other keys needs them.

        >>> dp = SequenceWrapper(range(6)).shuffle().set_seed(1)
        >>> sorted(dp)
        [0, 1, 2, 3, 4, 5]
        """
        ...

    def to_iter_datapipe(
        self,
        indices: collections.abc.Iterable[typing.Any] | None = None,
    ) -> penstock.pipes.iter.convert.MapToIterConverter[T_co]:
        """Yield the items of a map-style pipe in the order of `indices`, by default 0, 1, 2, ….

        `indices` is any iterable that each pass can read anew, such as a list or a dict's keys; a pipe that is read by
        keys which are not 0, 1, 2, … needs it. To resume exactly, it must give the same order in each pass.

        >>> dp = SequenceWrapper("abc").to_iter_datapipe()
        >>> list(dp)
        ['a', 'b', 'c']
        >>> list(SequenceWrapper({"x": 1, "y": 2}).to_iter_datapipe(indices=["y", "x"]))
        [2, 1]
        """
        ...

    def zip(self, *sources: penstock.registry.MapDataPipe[typing.Any]) -> penstock.pipes.map.combine.Zipper:
        """Give tuples of the items that the sources have at one index or key; as many as the shortest has.

        Negative indices count from the end of the shortest.

        >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
        >>> dp[0], dp[-1], len(dp)
        (('a', 10), ('c', 12), 3)
        """
        ...
