# Generated from the operators by `penstock stubs penstock`. Changes here are lost.

import collections.abc
import os
import penstock.pipes.bases.input_columns
import penstock.pipes.columns.tensors
import penstock.pipes.iter.ahead
import penstock.pipes.iter.ais
import penstock.pipes.iter.archive
import penstock.pipes.iter.batches
import penstock.pipes.iter.bucket
import penstock.pipes.iter.cache
import penstock.pipes.iter.combine
import penstock.pipes.iter.convert
import penstock.pipes.iter.decode
import penstock.pipes.iter.decompress
import penstock.pipes.iter.device
import penstock.pipes.iter.disk_cache
import penstock.pipes.iter.fields
import penstock.pipes.iter.file_cache
import penstock.pipes.iter.files
import penstock.pipes.iter.formats
import penstock.pipes.iter.group
import penstock.pipes.iter.hash
import penstock.pipes.iter.interleave
import penstock.pipes.iter.iopath
import penstock.pipes.iter.join
import penstock.pipes.iter.lines
import penstock.pipes.iter.list_tables
import penstock.pipes.iter.map_pool
import penstock.pipes.iter.mix
import penstock.pipes.iter.number
import penstock.pipes.iter.online
import penstock.pipes.iter.order
import penstock.pipes.iter.pack
import penstock.pipes.iter.parallel
import penstock.pipes.iter.parse
import penstock.pipes.iter.part
import penstock.pipes.iter.rar
import penstock.pipes.iter.read_columns
import penstock.pipes.iter.read_files
import penstock.pipes.iter.rebatch
import penstock.pipes.iter.repeat
import penstock.pipes.iter.row_groups
import penstock.pipes.iter.s3
import penstock.pipes.iter.save
import penstock.pipes.iter.select
import penstock.pipes.iter.shard
import penstock.pipes.iter.storage
import penstock.pipes.iter.sync
import penstock.pipes.iter.table
import penstock.pipes.iter.tfrecord
import penstock.pipes.iter.transform
import penstock.pipes.iter.webdataset
import penstock.pipes.iter.write_columns
import penstock.pipes.iter.write_lines
import penstock.pipes.iter.write_tar
import penstock.pipes.map.cache
import penstock.pipes.map.combine
import penstock.pipes.map.convert
import penstock.pipes.map.group
import penstock.pipes.map.order
import penstock.pipes.map.transform
import penstock.registry
import penstock_plugins
import pyarrow  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute  # type: ignore[import-untyped, unused-ignore]
import torch  # type: ignore[import-untyped, unused-ignore]
import typing
from typing import Any, Generic, ParamSpec, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar('T')
R = TypeVar('R')
P = ParamSpec('P')
T2 = TypeVar('T2')
T3 = TypeVar('T3')

class IterMethods(penstock_plugins.IterMethods[T_co], Generic[T_co]):
    def __iter__(self) -> collections.abc.Iterator[T_co]: ...

    def add_index(
        self: collections.abc.Iterable[collections.abc.Mapping[typing.Any, typing.Any]],
        index_name: collections.abc.Hashable = 'index',
    ) -> penstock.pipes.iter.number.IndexAdder:
        """Yield each dict with its running number, from 0 on, put in under the key `index_name`.

        Out come copies: the source's dicts are left as they are. A value that a dict has there already is replaced.

        Raises TypeError for an item that is not a dict.

        >>> dp = IterableWrapper([{"text": "one"}, {"text": "two"}]).add_index()
        >>> list(dp)
        [{'text': 'one', 'index': 0}, {'text': 'two', 'index': 1}]
        """
        ...

    def async_map_batches(
        self,
        async_fn: collections.abc.Callable[..., collections.abc.Awaitable[typing.Any]],
        batch_size: int,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        max_concurrency: int = 32,
        flatten: bool = True,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.batches.BatchAsyncMapper:
        """Yield what `await async_fn(item)` gives for each item, in order; many are awaited at once.

        Up to `batch_size` items are read ahead, of which `max_concurrency` are awaited at a time. They are awaited in one
        event loop for the pass, in a thread of its own, so that notebooks, which have a loop running, can use it. With
        `flatten=False`, lists of `batch_size` results are yielded; the last may be short.

        `input_col` and `output_col` are as for `map`. `on_error` handles an item for which `async_fn` raises.
        Closing cancels what is awaited; RuntimeError is raised where something goes on for half a minute all the same.

        >>> async def load(number):
        ...     await asyncio.sleep(0.01)
        ...     return number * 10
        >>> import asyncio
        >>> dp = IterableWrapper(range(5)).async_map_batches(load, batch_size=3)
        >>> list(dp)
        [0, 10, 20, 30, 40]
        """
        ...

    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: collections.abc.Callable[[list[T_co]], typing.Any] = ...,
    ) -> penstock.pipes.iter.group.Batcher[T_co]:
        """Yield lists of `batch_size` items; the last may be shorter, or is dropped with `drop_last`.

        `wrapper_class` makes the batch out of a list; a `DataChunk` is a list. Right after a map-style pipe's `shuffle` or
        `to_iter_datapipe`, or a `sharding_filter` after these, the items of a batch are read by one call of `__getitems__`
        where the map-style pipe has it.

        >>> dp = IterableWrapper(range(5)).batch(2)
        >>> list(dp)
        [[0, 1], [2, 3], [4]]
        >>> list(IterableWrapper(range(5)).batch(2, drop_last=True, wrapper_class=tuple))
        [(0, 1), (2, 3)]
        """
        ...

    def bucket_by_length(
        self,
        boundaries: collections.abc.Sequence[float],
        batch_size: int | collections.abc.Sequence[int],
        len_fn: collections.abc.Callable[[T_co], float] = ...,
        drop_last: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.bucket.LengthBucketer[T_co]:
        """Yield batches of items whose lengths lie between the same two of some boundaries.

        With boundaries `[10, 20]` there are three buckets: for lengths below 10, from 10 to below 20, and of 20 or more.
        `len_fn` says how long an item is. A batch comes out as soon as a bucket has `batch_size` items, where `batch_size`
        is one number or one for each bucket; the order is otherwise that of the source. At the end comes what the buckets
        still hold, the shorter items first, or it is dropped with `drop_last`. `on_error` handles an item for
        which `len_fn` raises.

        >>> dp = IterableWrapper(["a", "bbbb", "cc", "dddd", "eee"]).bucket_by_length([3], batch_size=[3, 2])
        >>> list(dp)
        [['bbbb', 'dddd'], ['a', 'cc'], ['eee']]
        """
        ...

    def bucketbatch(
        self,
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: collections.abc.Callable[[list[T_co]], collections.abc.Sequence[T_co]] | None = None,
        use_in_batch_shuffle: bool = True,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.bucket.BucketBatcher[T_co]:
        """Yield batches cut from buckets that were shuffled and then sorted, so that the items of a batch are alike.

        A bucket has the items of `batch_num` batches, and is sorted by `sort_key`, a function of a list that returns the
        sorted list. Before, the items are shuffled: in pools of `bucket_num` buckets, which are read one after another; or,
        without `use_in_batch_shuffle`, in a buffer of that size, as `shuffle` does it. The batches of a pool then come in
        random order where it has several buckets; of one bucket alone they come in its order, and without
        `use_in_batch_shuffle` in random order. Every item comes once: only the last items of the stream can make a batch
        shorter than `batch_size`, which comes in its turn or is dropped with `drop_last`.

        `on_error` handles a bucket for which `sort_key` raises. To batch by size without shuffling there are
        `bucket_by_length` and `max_token_bucketize`.

        Raises TypeError or ValueError where `sort_key` returns something else than as many items in a list.

        >>> dp = IterableWrapper(["aaaa", "b", "ccc", "dd"]).bucketbatch(2, sort_key=lambda bucket: sorted(bucket, key=len))
        >>> list(dp)
        [['b', 'dd'], ['ccc', 'aaaa']]
        """
        ...

    def cache_files(
        self: collections.abc.Iterable[str],
        directory: str | os.PathLike[str],
        max_bytes: int,
        open: collections.abc.Callable[[str], typing.IO[bytes]] | None = None,
        *,
        concurrency: int = 8,
        ordered: bool = True,
        timeout: float = 300,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.file_cache.FileCacher:
        """Yield the URL and a stream of the bytes of each file, given its URL: from a disk, once it was fetched.

        What is missing is opened and read whole by this operator, which so takes the place of one that opens: `urls
        .cache_files("/fast/cache", 2 * 10**12).load_from_tar()`; what is found is read without a word to the server.
        `directory` may be used by any number of programs, loaders and their workers at once: of those that want a file, one
        fetches it, and the others wait for that one, `timeout` seconds at most, after which they read without the cache.

        The files in `directory` never take more than `max_bytes`: those whose last use is longest ago are evicted. One that
        somebody still reads stays readable, and takes its room until it is closed. Where an epoch reads more than there is
        room for, shuffle the URLs: always in one order, each file would have gone just before its turn.

        A file has a checksum, which is looked at before it comes out: one that is damaged or cut is fetched anew. It
        appears when it is whole; what killed processes leave is removed when the next pass begins. Where the disk is full,
        or a file is larger than there is room for, it is read without the cache, and the first time in a pass is logged as
        a warning. `stats` has, besides what `on_error` counts, the `hits` and `misses`, which add up to the files, and how
        many were `corrupt` or `uncached`, both of them misses, and the `evictions`.

        A missing `directory` is made for this user alone. To share one within a group, make it with `chmod 2770`, and let
        all its users have a `umask` of 002: in a folder that its group may write to, and others may not, the files of all
        are trusted. Elsewhere a file that belongs neither to this user nor to root nor to the owner of its folder may have
        been planted, as may a symbolic link. It is not served: the file is read without the cache, and a warning names path
        and owner. The same holds for a `directory` of another user's where everybody may make one, as in `/tmp`.

        `open` is a function that returns the stream of a URL's bytes; if the stream knows its `size`, it must have that
        many. Without it, files are opened as by `load_files_by_s3`, by obstore or else by fsspec, for which further
        arguments are options, such as `anon=True`. Up to `concurrency` files are fetched, or looked at, at once, by
        threads. They come in the order of the URLs, or with `ordered=False` as they are ready. `on_error` handles
        a file that cannot be fetched; before it, where it is not a `Retry` itself, lost connections and silent servers
        are tried again up to 5 times.

        Files are known by their URLs alone: what changes at the server under a URL is not seen, and what has one URL at
        two servers needs two directories. `on_disk_cache` is for data sets that are downloaded once: it keeps all files,
        for good, under names of your choosing, checks them against digests that you know, and unpacks or converts them
        between. Prefer this operator for data of which a disk holds a part, or which are only on their way to training.

        Raises TypeError for an item that is no URL, and what opening and reading a file raises.

        >>> import fsspec, tempfile
        >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        >>> folder = tempfile.mkdtemp()
        >>> dp = IterableWrapper(["memory://shelf/a.txt"]).cache_files(folder, max_bytes=10**9)
        >>> [(url, stream.read()) for url, stream in dp]
        [('memory://shelf/a.txt', b'one')]
        >>> fsspec.filesystem("memory").rm("/shelf/a.txt")
        >>> [(url, stream.read()) for url, stream in dp], dp.stats()["cache_files"]["hits"]
        ([('memory://shelf/a.txt', b'one')], 1)
        """
        ...

    def check_hash(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
        hash_dict: collections.abc.Mapping[str, str],
        hash_type: str = 'sha256',
        rewind: bool = True,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.hash.HashChecker:
        """Yield the path and the content of each file whose content has the digest that is expected of it.

        Takes pairs of a path and a content: a stream of bytes, bytes, or text, which counts as UTF-8. `hash_dict` maps
        paths to digests in hexadecimal, and `hash_type` is the name of a hash of hashlib's, such as `"sha256"` or `"md5"`.
        A stream is read, and with `rewind` it comes out where it stood before: of one that cannot seek a copy comes out, in
        memory or, above 16 MiB, in a temporary file. Without `rewind` a stream comes out at its end. `on_error` handles
        a file that fails; it cannot be a `Retry`.

        Raises RuntimeError for a content with another digest, and for a path that `hash_dict` does not have, TypeError for
        a stream of text, and ValueError for a hash that there is not.

        >>> import hashlib
        >>> dp = IterableWrapper([("a.txt", b"one")]).check_hash({"a.txt": hashlib.sha256(b"one").hexdigest()})
        >>> list(dp)
        [('a.txt', b'one')]
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
        that are not named go through `default_collate`, and a dict or tuple of the results is yielded. `on_error` handles
        a batch that fails.

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

    def dataframe(
        self,
        dataframe_size: int = 1000,
        dtype: pyarrow.Schema | pyarrow.DataType | None = None,
        dtype_generator: collections.abc.Callable[[], pyarrow.Schema | pyarrow.DataType] | None = None,
        columns: collections.abc.Sequence[str] | None = None,
        device: str = '',
    ) -> penstock.pipes.iter.table.DataFrameMaker:
        """Yield a `pyarrow.Table` of each `dataframe_size` rows; the last may have fewer.

        A row is a dict, or a tuple or list with a value for each column; anything else is the value of a single column.
        `columns` names the columns. Without it they are those of `dtype`, or else the fields of named tuples, or all keys
        of a table's dicts. A dict has null for a column that it lacks, and may have keys that are no columns. Values are
        what `pyarrow.array` takes, dicts, lists and tuples of such included; tensors and arrays are numbers where they
        have no dimension, and else lists, as deep as they have dimensions, of their own dtype.

        `dtype` is a `pyarrow.Schema` or a struct type, or a type that all `columns` have; without it, each table has the
        types that its own values have. `dtype_generator` is a function that returns it, called when a pass begins.
        `device` has no meaning any more: tables are in main memory.

        Raises ValueError for a row that has another number of values than there are columns, or where these have no names,
        and what `pyarrow.array` raises for values that are not of a type, which is `pyarrow.ArrowInvalid`, a ValueError, or
        TypeError.

        >>> rows = [(0, "a"), (1, "b"), (2, "c")]
        >>> dp = IterableWrapper(rows).dataframe(dataframe_size=2, columns=["id", "text"])
        >>> [table.to_pydict() for table in dp]
        [{'id': [0, 1], 'text': ['a', 'b']}, {'id': [2], 'text': ['c']}]
        """
        ...

    def decompress(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        file_type: str | penstock.pipes.iter.decompress.CompressionType | None = None,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.decompress.Decompressor:
        """Yield the path and the decompressed stream of each compressed stream.

        Takes pairs of a path and a stream of bytes. `file_type` is `"gzip"`, `"bz2"`, `"lzma"` (which is xz as well),
        `"zstd"`, or a `CompressionType`. Without it, each file's first bytes tell, and where they do not, the ending of its
        name; a tar or zip that is not compressed comes out as it is. So `.decompress().load_from_tar()` reads tars whether
        and however they are compressed. Paths stay as they are. What was compressed in several parts, one after another, is
        read as one. With `"tar"` or `"zip"`, an open `tarfile.TarFile` or `zipfile.ZipFile` comes out in place of a stream;
        `load_from_tar` and `load_from_zip` give the files in them. A zip that cannot seek is copied first, to memory or,
        above 16 MiB, to a temporary file. A stream can seek where the compressed one can: back by
        decompressing again. It is closed when it is dropped, and the compressed one with it. What is read at once may grow
        to `max_bytes`, or to a hundred times what was compressed; beyond that reading it raises ValueError. So it is with
        a file of a zip that comes out open.

        `on_error` handles a file of which it cannot be told how it is compressed; it cannot be a `Retry`. Damage
        shows where the stream is read: OSError for a file that is cut or corrupt, and of a zip zipfile.BadZipFile, which
        name its path.

        Raises ValueError for a `file_type` that there is not, RuntimeError for a file of which it cannot be told how it is
        compressed, TypeError for a stream of text, and ImportError where zstd needs a package that is not installed.

        >>> import gzip, io
        >>> dp = IterableWrapper([("a.txt.gz", io.BytesIO(gzip.compress(b"one")))]).decompress()
        >>> [(path, stream.read()) for path, stream in dp]
        [('a.txt.gz', b'one')]
        """
        ...

    def demux(
        self,
        num_instances: int,
        classifier_fn: collections.abc.Callable[[T_co], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> list[penstock.registry.IterDataPipe[T_co]]:
        """Give a list of `num_instances` pipes, of which each item of the source is yielded by one.

        `classifier_fn(item)` is the number of that pipe. With `drop_none`, items for which it is None are left out.
        `on_error` handles an item for which it raises, or gives no such number: `"raise"`, `"skip"`, or a
        `Skip`, `Retry` or handler.

        What is pulled and belongs to another pipe than the one that is read waits for that, and no more than
        `buffer_size` items may wait; with -1 there is no limit. As to what else there is to know of reading several pipes,
        see `fork`.

        Raises ValueError for a number that is no pipe's, and BufferError where too many items wait.

        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> dp = even.zip_longest(odd)
        >>> list(dp)
        [(0, 1), (2, 3), (4, None)]
        """
        ...

    def drop(self, indices: penstock.pipes.bases.input_columns.Columns) -> penstock.pipes.iter.fields.Dropper:
        """Yield each item without some of its fields.

        `indices` is an index (negative ones count from the end) of a tuple or list, or a key of a dict, or a list of them.
        Tuples, lists and dicts come out, named tuples as plain ones. Fields that an item does not have are warned of.

        Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

        >>> dp = IterableWrapper([("a", 1, 2), ("b", 3, 4)]).drop(1)
        >>> list(dp)
        [('a', 2), ('b', 4)]
        >>> list(IterableWrapper([{"text": "one", "id": 1, "url": "…"}]).drop(["id", "url"]))
        [{'text': 'one'}]
        """
        ...

    def end_caching(
        self,
        mode: str = 'wb',
        filepath_fn: collections.abc.Callable[[typing.Any], str | os.PathLike[str]] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.disk_cache.EndOnDiskCacheHolder:
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
        ...

    def enumerate(self, starting_index: int = 0) -> penstock.pipes.iter.number.Enumerator[T_co]:
        """Yield pairs of a running number, from `starting_index` on, and the item.

        >>> dp = IterableWrapper("abc").enumerate(starting_index=1)
        >>> list(dp)
        [(1, 'a'), (2, 'b'), (3, 'c')]
        """
        ...

    def extract(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        file_type: str | penstock.pipes.iter.decompress.CompressionType | None = None,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.decompress.Extractor:
        """Yield the path and the decompressed stream of each compressed stream: another name of `decompress`; prefer that.

        >>> import bz2, io
        >>> dp = IterableWrapper([("a.txt.bz2", io.BytesIO(bz2.compress(b"one")))]).extract()
        >>> [(path, stream.read()) for path, stream in dp]
        [('a.txt.bz2', b'one')]
        """
        ...

    def filter(
        self,
        filter_fn: collections.abc.Callable[..., typing.Any],
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.select.Filter[T_co]:
        """Yield the items for which `filter_fn(item)` is true.

        What counts is the truth of the result, as for the builtin `filter`, so NumPy's bools and tensors of one element
        serve as well. With `input_col`, an index or key or a list of them, `filter_fn` gets these columns of the item as
        its arguments; the item is yielded whole. `on_error` handles an item for which `filter_fn` raises.

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
        item as its arguments. `on_error` handles an item for which `fn` raises: where it is left out, what it
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
        item as its arguments. `on_error` handles an item for which `fn` raises: where it is left out, what it
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
        input_col: penstock.pipes.bases.input_columns.Columns,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.FlatMapper[typing.Any]:
        """Yield all that `fn(item)` gives, one after another, for each item; without `fn`, what each item itself gives.

        `fn` returns an iterable, such as a list, or is a generator function. With `input_col`, it gets these columns of the
        item as its arguments. `on_error` handles an item for which `fn` raises: where it is left out, what it
        had given before the error is not taken back.

        >>> dp = IterableWrapper([1, 2, 3]).flatmap(lambda n: ["item"] * n)
        >>> dp.count()
        6
        >>> list(IterableWrapper([[1, 2], [], [3]]).flatmap())
        [1, 2, 3]
        """
        ...

    def flatten(
        self,
        indices: penstock.pipes.bases.input_columns.Columns | None = None,
    ) -> penstock.pipes.iter.fields.Flattener:
        """Yield each item with the fields of what is nested in it put in its place, one level deep.

        In a tuple or list, these are tuples and lists; in a dict, dicts. `indices` is an index (negative ones count from
        the end) or key, or a list of them, of those to be flattened; without it, all are. What is not nested stays as it
        is. Where a dict gets a key twice, the first value stays, and that is warned of, as are fields that an item does
        not have. Tuples, lists and dicts come out, named tuples as plain ones.

        Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

        >>> dp = IterableWrapper([(0, (1, 2), [3]), (4, (5, 6), [7])]).flatten()
        >>> list(dp)
        [(0, 1, 2, 3), (4, 5, 6, 7)]
        >>> list(IterableWrapper([{"id": 1, "image": {"width": 2, "height": 3}}]).flatten("image"))
        [{'id': 1, 'width': 2, 'height': 3}]
        """
        ...

    def fork(
        self,
        num_instances: int,
        buffer_size: int = 1000,
        copy: typing.Literal['shallow', 'deep'] | None = None,
    ) -> list[penstock.registry.IterDataPipe[T_co]]:
        """Give a list of `num_instances` pipes, each of which yields all items of the source, which is read once.

        The pipes are read in any order, together or one after the other. What one has read and another has not waits in a
        buffer; when `buffer_size` items wait for a pipe, another cannot read on. With -1 there is no limit, and memory may
        run out. Nothing waits for a pipe that was dropped, or whose iterator was closed before its end.

        Passes over the pipes belong together. A pipe that begins a pass joins the pass over the source that the
        others read; if it has read in that already, the source begins a new one, and whoever still reads the old
        one gets a RuntimeError at the next step. The source is closed once no pipe is left that may read on or join.

        The pipes may be read by different threads, as with `prefetch` on one of them. A pipe that is read ahead needs room
        in the buffer for what is read ahead.

        All pipes yield the same objects, unless `copy` is "shallow" or "deep": then each yields copies.

        Raises BufferError where a pipe is read too far ahead of another; it names the other.

        >>> first, second = IterableWrapper(range(3)).fork(2)
        >>> dp = first.zip(second.map(lambda x: x * 10))
        >>> list(dp)
        [(0, 0), (1, 10), (2, 20)]
        """
        ...

    def fullsync(self, timeout: float = 1800) -> penstock.pipes.iter.sync.FullSync[T_co]:
        """Yield the items as long as every rank has one, so that all ranks end together, with the shortest.

        The ranks are those of `torch.distributed`. Before each item they tell each other whether they have one, in a gloo
        group of their own. Where the source of one rank fails, the others raise RuntimeError at the same item. All ranks
        begin their passes together, and one that leaves a pass early leaves it at the same item as the others.

        `timeout` is how many seconds a rank waits for the others. Under worker processes, this step and those after it run
        in the main process.

        Raises RuntimeError where `torch.distributed` is not initialized, where the ranks are in different passes, and where
        another rank does not answer in time.

        >>> import torch.distributed as dist
        >>> if not dist.is_initialized():
        ...     dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dp = IterableWrapper(range(3)).fullsync()
        >>> list(dp)
        [0, 1, 2]
        """
        ...

    def groupby(
        self,
        group_key_fn: collections.abc.Callable[[T_co], collections.abc.Hashable],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.group.Grouper:
        """Yield lists of the items that have the same key, which `group_key_fn` makes of each.

        Items need not come in the order of their keys: they are held, and a group comes out

        - as soon as it has `group_size` items, where that is given;
        - when `buffer_size` items are held: then the largest group, the first of several, if it has at least
          `guaranteed_group_size` items, which is `group_size` where it is not given, and 1 where neither is. With
          `drop_remaining` one that has fewer is dropped;
        - at the end of the source, whatever its size.

        The groups of the end are in the order of their first items. With `keep_key` pairs of the key and the list are
        yielded. `on_error` handles an item for which `group_key_fn` raises.

        Raises RuntimeError where the largest group has fewer than `guaranteed_group_size` items when the buffer is full.

        >>> files = IterableWrapper(["a.png", "b.png", "a.json", "b.json", "c.png"])
        >>> dp = files.groupby(lambda path: path[0], buffer_size=4, group_size=2)
        >>> list(dp)
        [['a.png', 'a.json'], ['b.png', 'b.json'], ['c.png']]
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

    def in_batch_shuffle(self) -> penstock.pipes.iter.order.InBatchShuffler[T]:
        """Yield each batch with its items in a random order, as a new list.

        Raises TypeError for an item that is no batch: that has no length or no items by number.

        >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle().set_seed(1)
        >>> [sorted(batch) for batch in dp]
        [[0, 1, 2], [3, 4, 5]]
        """
        ...

    def in_memory_cache(self, size: float | None = None) -> penstock.pipes.iter.cache.InMemoryCacheHolder[T_co]:
        """Yield the items of the source, and keep them: every pass after a whole one gives the same again from memory.

        With a `size`, in megabytes (of 2**20 bytes), the items up to the first that would be too much are kept, and a
        warning says how many; the rest is read from the source in each pass. An item counts with all the memory that it
        holds: tensors, arrays, bytes, text, and what containers and objects have in them. What a pass that was given up
        had read is dropped, unless the limit was reached.

        The same objects are handed out in every pass, so what changes them in place changes them for ever, and streams are
        at their end: read these before. All passes have the order of the first: shuffle behind, not before. Where only one
        branch of a fork has a cache, the others find, from the second pass on, that it is not read in step with them: cache
        before the fork. The items belong to the process, which is to say to each worker: they do not travel with pickles,
        copies or states, and a resumed pass reads the source again from its start.

        >>> dp = IterableWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
        >>> list(dp), list(dp)
        reading 0
        reading 1
        reading 2
        ([0, 1, 2], [0, 1, 2])
        """
        ...

    def lines_to_paragraphs(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
        joiner: collections.abc.Callable[[list[typing.Any]], typing.Any] = ...,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.lines.ParagraphAggregator:
        """Yield the path and the text of each paragraph: consecutive lines of one path, up to an empty line.

        Takes pairs of a path and a line, as `readlines` yields them. `joiner` makes the text out of the list of lines; by
        default a line feed comes between them. `on_error` handles a paragraph for which `joiner` raises.

        >>> lines = [("a.txt", "one"), ("a.txt", "two"), ("a.txt", ""), ("a.txt", "three"), ("b.txt", "four")]
        >>> dp = IterableWrapper(lines).lines_to_paragraphs()
        >>> list(dp)
        [('a.txt', 'one\\ntwo'), ('a.txt', 'three'), ('b.txt', 'four')]
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
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.files.FileLister:
        """Yield the path of each file in a folder, in sorted order: those of the folder, then those of its subfolders.

        `root` is a path, a list of paths or an iterable pipe of them; a root that is a file is yielded itself. `masks` are
        shell patterns, of which a file's name must match one; a mask with a slash in it is matched against the whole path.
        Subfolders are entered with `recursive`, those that are symbolic links are not. A file that a step of this package
        has not finished is not listed, whatever the masks. Paths begin with the root as it was given, or are absolute with
        `abspath`. With `non_deterministic` the order is the file system's. `length` is what `len` is to say; without it
        `len` raises TypeError. `on_error` handles a root that cannot be listed: where it is left out, the files
        listed before the error are not taken back.

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

    def list_files_by_ais(
        self: collections.abc.Iterable[str],
        url: str,
        length: int = -1,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.ais.AISFileLister:
        """Yield the URL of each object whose URL begins with a prefix, for each prefix.

        A prefix is a bucket with the beginning of a name, such as `ais://bucket/train-`, or the bucket alone. Its provider
        may be `ais`, or a cloud behind the cluster: `s3` (or `aws`), `gs` (or `gcp`), `azure`, `oci`. `url` is the endpoint
        of the cluster; tokens and certificates are taken from the environment, as the `aistore` package does, which also
        tries again where the network fails. Objects come in the cluster's order, a page at a time. `length` is what `len`
        is to say; without it `len` raises TypeError. `on_error` handles a prefix that cannot be listed.

        Raises what `aistore` raises: `AISError` for a bucket that there is not, or `requests.ConnectionError`, which is an
        OSError, where there is no cluster. Raises ImportError where it is missing. Resuming goes by position within a
        prefix, and so needs the same objects.

        >>> prefixes = IterableWrapper(["ais://a-bucket/train-"])
        >>> shards = prefixes.list_files_by_ais("http://localhost:51080", length=8)
        >>> len(shards)
        8
        >>> dp = IterableWrapper([]).list_files_by_ais("http://localhost:51080")
        >>> list(dp)
        []
        """
        ...

    def list_files_by_fsspec(
        self,
        masks: str | collections.abc.Sequence[str] = '',
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileLister:
        """Yield the URL of each file in a folder, in sorted order.

        `root` is a URL or path, a list of them or an iterable pipe of them; a root that is a file is yielded itself.
        Subfolders are not entered. `masks` are shell patterns, of which a file's name must match one; a mask with a slash
        in it is matched against the whole URL. URLs begin as the root does, chained ones (`simplecache::s3://…`,
        `zip://::data.zip`) included; a local path without `file://` gives absolute paths. `on_error` handles a
        root that cannot be listed. Further arguments are options of the file system, such as `anon=True`; without them
        credentials and endpoints come from the environment.

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

    def list_files_by_iopath(
        self,
        masks: str | collections.abc.Sequence[str] = '',
        *,
        pathmgr: typing.Any = None,
        handler: typing.Any = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.iopath.IoPathFileLister:
        """Yield the path of each file in a folder, in sorted order.

        `root` is a path or URL, a list of them or an iterable pipe of them; a root that is a file is yielded itself.
        Subfolders are not entered. `masks` are shell patterns, of which a file's name must match one; a mask with a slash
        in it is matched against the whole path. Paths begin with the root as it was given.

        `pathmgr` is the `iopath` path manager to use; without it one for local paths, HTTP, OneDrive and, where boto3 is
        installed, S3. A `handler` is registered with it, in the place of those it has for the same prefixes. For new code
        there is `list_files_by_fsspec`: iopath sees little maintenance. `on_error` handles a root that cannot
        be listed.

        Raises FileNotFoundError for a local root that there is not, and ImportError where iopath is missing. Resuming goes
        by position, and so needs the same files.

        >>> import json, os
        >>> dp = IterableWrapper([os.path.dirname(json.__file__)]).list_files_by_iopath("*coder.py")
        >>> [os.path.basename(path) for path in dp]
        ['decoder.py', 'encoder.py']
        """
        ...

    def list_files_by_s3(
        self: collections.abc.Iterable[str],
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = '',
        masks: str | collections.abc.Sequence[str] = '',
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.s3.S3FileLister:
        """Yield the URL of each object whose URL begins with a prefix, for each prefix.

        A prefix is `s3://bucket/` with the beginning of a key, or the URL of an object; objects in its folders, at whatever
        depth, are included, those that stand for a folder (their keys end in a slash) are not. They come in the order of
        their keys, a page of the listing at a time. `masks` are shell patterns, of which an object's name must match one; a
        mask with a slash in it is matched against the whole URL. `length` is what `len` is to say; without it `len` raises
        TypeError. `request_timeout_ms` is how many milliseconds the server may be silent, and `region` is the bucket's.
        Further arguments are options of s3fs, such as `anon=True`, `endpoint_url` or `profile`; all these go before the
        environment, from which endpoint, region and credentials come. `on_error` handles a prefix that cannot be
        listed; a page is asked for up to five more times, unless a `Retry` says otherwise.

        `list_files_by_fsspec` lists one folder of S3, or of another store.

        Raises ValueError for a URL that is not of S3, FileNotFoundError for a bucket that there is not, and PermissionError
        for one that may not be read, or where there are no credentials. Resuming goes by the key of the last object handed
        out, and so needs the same objects after that.

        >>> shards = IterableWrapper(["s3://a-bucket/train/"]).list_files_by_s3(masks="*.tar", length=64)
        >>> len(shards)
        64
        >>> dp = IterableWrapper([]).list_files_by_s3()
        >>> list(dp)
        []
        """
        ...

    def list_row_groups(
        self,
        filter: str | pyarrow.compute.Expression | None = None,
        *,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.row_groups.RowGroupLister:
        """Yield a `RowGroup` for each row group of each Parquet file: the file's `url`, its `number`, how many `rows`.

        `read_parquet` takes them in place of paths, so that `.list_row_groups().shuffle().sharding_filter().read_parquet()`
        shuffles and shares out row groups in place of files. Only the footers of the files are read, of
        `read_ahead` files at once. Row groups of which the footer tells that no row matches the `filter` are left out.
        `storage_options` and `on_error` are as for `read_parquet`.

        Raises FileNotFoundError for a file that there is not, KeyError for a filter on a column that it does not have, and
        `pyarrow.ArrowInvalid`, a ValueError, for what is no Parquet file.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": range(5)}), path, row_group_size=3)
        >>> dp = IterableWrapper([path]).list_row_groups()
        >>> [(group.number, group.rows) for group in dp]
        [(0, 3), (1, 2)]
        """
        ...

    def list_table_files(
        self,
        kind: str,
        *,
        hive: bool = True,
        filter: str | pyarrow.compute.Expression | None = None,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.list_tables.TableFileLister:
        """Yield the path or URL of each file of a format, below folders, in sorted order.

        `root` is a path or URL of a file, of a folder or with a pattern (`*`, `?`, `[…]`, `**`), a list of them or an
        iterable pipe of them. `kind` is `"parquet"`, `"csv"`, `"json"`, `"ipc"`, `"orc"`, `"images"`, `"text"` or
        `"numpy"`: of a folder, those files come that are called so (`*.parquet`), of all its subfolders, but none of which
        a name, or that of a subfolder, begins with `_` or a dot.

        With `hive`, folders called `key=value`, above the root too, give their files a column: int64 where all values that
        there are of it are whole numbers, else string; a `__HIVE_DEFAULT_PARTITION__` is null. Of such files an `Origin`
        comes, which has the values beside the `url`, and which readers take in place of a path. Those of which the
        `filter`, a `pyarrow.compute.Expression` or text, can tell by these values that no row matches are left out.

        All files are listed before the first is handed out, and again on resuming, which needs the same files.
        `storage_options` are options of the file system. `on_error` handles a root that cannot be listed.

        Raises FileNotFoundError for a root that there is not, or that has no such file.

        >>> import fsspec
        >>> for year in (2023, 2024):
        ...     fsspec.filesystem("memory").pipe(f"/sales/year={year}/0.parquet", b"")
        >>> dp = IterableWrapper(["memory://sales"]).list_table_files("parquet", filter="year > 2023")
        >>> list(dp)
        [Origin(url='memory://sales/year=2024/0.parquet', partition=(('year', 2024),), types=('int64',))]
        """
        ...

    def load_files_by_ais(
        self: collections.abc.Iterable[str],
        url: str,
        length: int = -1,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.ais.AISFileLoader:
        """Yield the URL and a stream of the bytes of each object, given its URL.

        A URL is that of a bucket and a name, such as `ais://bucket/train-0.tar`, with the providers of
        `list_files_by_ais`. `url` is the endpoint of the cluster. A stream that breaks off is resumed by the `aistore`
        package, and closed when it is dropped. `length` is what `len` is to say; without it that is the length of the
        source. `on_error` handles an object that cannot be read from.

        Raises what `aistore` raises: `AISError` for an object that there is not, or `requests.ConnectionError`, which is an
        OSError, where there is no cluster. Raises ImportError where it is missing.

        >>> cluster = "http://localhost:51080"
        >>> shards = IterableWrapper(["ais://a-bucket/train-"]).list_files_by_ais(cluster, length=8)
        >>> len(shards.load_files_by_ais(cluster))
        8
        >>> dp = IterableWrapper([]).load_files_by_ais(cluster)
        >>> list(dp)
        []
        """
        ...

    def load_files_by_s3(
        self: collections.abc.Iterable[str],
        request_timeout_ms: int = -1,
        region: str = '',
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        concurrency: int = 32,
        max_bytes: int = ...,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.s3.S3FileLoader:
        """Yield the URL and a stream of the bytes of each object, given its URL: many are loaded at once.

        Objects of `s3://`, `gs://`, `az://`, `https://` and `file://` are read by obstore, all else by fsspec, as
        `open_files_by_fsspec` does. Those of up to 16 MB are in memory when their streams are handed out; larger ones are
        read by ranges while they are used. `concurrency` is how many objects may be loading at a time, and `max_bytes` how
        much memory those may take up that are loading or loaded and not handed out yet; only the oldest may take more. With
        `ordered=False` they come as they are ready; then a state holds which these were, and going on gives the others.

        `request_timeout_ms` is how many milliseconds the server may be silent, by default 20 seconds, and 5 until it is
        connected; `region` is the bucket's. Further arguments are options, named as s3fs names them, such as `anon=True`,
        `endpoint_url`, `key`, `secret` or `profile`. All these go before the environment, from which endpoint, region and
        credentials come, as for s3fs. `buffer_size` and `multi_part_download` told a client that there is no more how to
        download; they are accepted, and mean nothing. `on_error` handles an object that cannot be loaded; one
        is tried again up to five times after an error that may pass, unless a `Retry` says otherwise.

        Raises FileNotFoundError for an object that there is not, PermissionError for one that may not be read or where
        there are no credentials, ConnectionError or TimeoutError where the server could not be reached, and RuntimeError in
        a process that was forked from one that had loaded objects.

        >>> import fsspec
        >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        >>> dp = IterableWrapper(["memory://shelf/a.txt"]).load_files_by_s3()  # or s3://…
        >>> [(url, stream.read()) for url, stream in dp]
        [('memory://shelf/a.txt', b'one')]
        """
        ...

    def load_from_bz2(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        length: int = -1,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.decompress.Bz2FileLoader:
        """Yield the path without `.bz2` and the decompressed stream of each stream: `decompress("bz2")` with shorter paths.

        `decompress`, which all compressions share, is to be preferred where the paths do not matter. `length` is what `len`
        is to say; without it that is the length of the source. Raises what `decompress` raises, and so does its stream.

        >>> import bz2, io
        >>> dp = IterableWrapper([("a.txt.bz2", io.BytesIO(bz2.compress(b"one")))]).load_from_bz2()
        >>> [(path, stream.read()) for path, stream in dp]
        [('a.txt', b'one')]
        """
        ...

    def load_from_rar(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        *,
        length: int = -1,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.rar.RarArchiveLoader:
        """Yield the path and the stream of each file in RAR archives.

        Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end; one that cannot seek
        is copied first, to memory or, above 16 MiB, to a temporary file. A file's path is that of the archive, a slash, and
        its name in it. Directories and symbolic links are left out. `length` is what `len` is to say; without it `len`
        raises TypeError. A file's stream can be read for as long as somebody holds it; files up to 16 MiB are in memory.
        Larger ones that are read at once may grow to `max_bytes`, or to a hundred times what they have in the archive.
        Files that are only stored are read directly; those that are compressed are unpacked by a program: unrar, unar,
        7-Zip or bsdtar.

        `on_error` handles an archive that fails: where it is left out, the files that came out of it before the
        failure are not taken back. It cannot be a `Retry`.

        Raises rarfile.BadRarFile for an archive that is cut or corrupt, rarfile.RarCannotExec for a compressed file where
        there is no program to unpack it, RuntimeError for an archive that is encrypted or one volume of several,
        ValueError for a file whose name is absolute or leads out of the archive by `..`, TypeError for a stream of text,
        and ImportError without the extra `rar`.

        >>> import base64, io
        >>> packed = base64.b64decode(
        ...     "UmFyIRoHAM+QcwAADQAAAAAAAAAI93QAgCUAAwAAAAMAAAAD8YZsegAAIQAdMAUApIEAAGEudHh0b25lxD17AEAHAA=="
        ... )
        >>> dp = IterableWrapper([("pack.rar", io.BytesIO(packed))]).load_from_rar()
        >>> [(path, stream.read()) for path, stream in dp]
        [('pack.rar/a.txt', b'one')]
        """
        ...

    def load_from_tar(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        mode: str = 'r:*',
        length: int = -1,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
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

        The checksums of what is compressed are verified, that at its end when the last file was read. The header of a file
        may have `max_bytes`; in it are its name and what else is said of it. A large file of a compressed archive that is
        read at once may grow to 1 GiB, to `max_bytes`, or to a hundred times the compressed bytes.

        `on_error` handles an archive that fails: where it is left out, the files that came out of it before the
        failure are not taken back. It cannot be a `Retry`.

        Raises tarfile.ReadError for an archive that is corrupt or cut, as is one without an end mark, ValueError for a file
        whose name is absolute or leads out of the archive by `..`, or whose header has more than `max_bytes`, and TypeError
        for a stream of text.

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

    def load_from_tfrecord(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        spec: penstock.pipes.iter.tfrecord.Spec | None = None,
        length: int = -1,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.tfrecord.TFRecordLoader:
        """Yield a dict for each example in TFRecord files: by names, features as tensors or lists of bytes.

        Takes pairs of a path and a stream of bytes, which is closed at the file's end; a compressed file goes through
        `decompress` before. Records are `tf.train.Example` or `tf.train.SequenceExample` messages. A feature of numbers is
        a tensor of shape (values,), of float32 or int64, and one of bytes a list of bytes. A feature list, which has
        values for each step, is a list of these. Names come sorted. Checksums are verified.

        `spec` maps the names of the features that are to come out to a shape and a dtype, either of which may be None, or
        to None for a feature as it is. Tensors are given the shape, in which one dimension may be -1, and the dtype; with a
        shape, bytes come as lists nested to it, and with the shape `()` as themselves. A feature list with a shape or dtype
        becomes one tensor, or one nested list, of all its steps. Names come in the order of `spec`. `length` is what `len`
        is to say; without it `len` raises TypeError.

        `on_error` handles a record that fails, such as one without a feature of `spec`; where the length of a
        record is corrupt, the rest of the file goes with it. It cannot be a `Retry`.

        Raises RuntimeError for a file that is cut or corrupt, and for a record that lacks a feature of `spec`, has it in
        another shape, or, without `spec`, has one name in both its context and its feature lists; TypeError for a dtype for
        bytes, or a stream of text; and ImportError without the extra `tfrecord`.

        >>> import io
        >>> record = bytes.fromhex(
        ...     "0f000000000000006d532b090a0d0a0b0a016e12061a040a020307499e3a8f"  # an example with n = [3, 7]
        ... )
        >>> dp = IterableWrapper([("a.tfrecord", io.BytesIO(record))]).load_from_tfrecord()
        >>> list(dp)
        [{'n': tensor([3, 7])}]
        """
        ...

    def load_from_xz(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        length: int = -1,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.decompress.XzFileLoader:
        """Yield the path without `.xz` and the decompressed stream of each stream: `decompress("lzma")` with shorter paths.

        `decompress`, which all compressions share, is to be preferred where the paths do not matter. `length` is what `len`
        is to say; without it that is the length of the source. Raises what `decompress` raises, and so does its stream.

        >>> import io, lzma
        >>> dp = IterableWrapper([("fizz.xz", io.BytesIO(lzma.compress(b"one")))]).load_from_xz()
        >>> [(path, stream.read()) for path, stream in dp]
        [('fizz', b'one')]
        """
        ...

    def load_from_zip(
        self: collections.abc.Iterable[tuple[str, typing.IO[bytes]]],
        length: int = -1,
        *,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.archive.ZipArchiveLoader:
        """Yield the path and the stream of each file in zip archives.

        Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end; one that cannot seek
        is copied first, to memory or, above 16 MiB, to a temporary file. A file's path is that of the archive, a slash, and
        its name in it. Directories are left out; a symbolic link is a file that holds its target's name, as in
        torchdata: what makes it one has no checksum. `length` is what `len` is to say; without it `len` raises TypeError. A
        file's stream can be read for as long as somebody holds it; files up to 16 MiB are in memory.
        Larger ones that are read at once may grow to `max_bytes`, or to a hundred times what they have in the archive.

        `on_error` handles an archive that fails: where it is left out, the files that came out of it before the
        failure are not taken back. It cannot be a `Retry`.

        Raises zipfile.BadZipFile for an archive that is cut or corrupt, RuntimeError for a file that is encrypted,
        ValueError for one whose name is absolute or leads out of the archive by `..`, or that grows beyond `max_bytes`, and
        TypeError for a stream of text.

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

    def load_parquet_as_df(
        self: collections.abc.Iterable[str],
        dtype: pyarrow.Schema | pyarrow.DataType | None = None,
        columns: collections.abc.Sequence[str] | None = None,
        device: str = '',
        use_threads: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.table.ParquetDataFrameLoader:
        """Yield a `pyarrow.Table` for each row group of each Parquet file.

        Takes paths, or URLs of whatever fsspec speaks. `columns` names the columns to be read; without it they are those of
        `dtype`, or else all. `dtype` is a `pyarrow.Schema` or a struct type to which tables are converted, or a type for
        all `columns`. With `use_threads`, columns are decoded by several threads. `device` has no meaning any more: tables
        are in main memory. `on_error` handles a file that cannot be opened and of a row group that cannot be
        read.

        Raises FileNotFoundError for a file that there is not, KeyError for a column that a file does not have, and
        `pyarrow.ArrowInvalid`, a ValueError, for what is no Parquet file, or values that are not of a type.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": [0, 1, 2], "text": ["a", "b", "c"]}), path, row_group_size=2)
        >>> dp = IterableWrapper([path]).load_parquet_as_df(columns=["id"])
        >>> [table.to_pydict() for table in dp]
        [{'id': [0, 1]}, {'id': [2]}]
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

        `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

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
        input_col: penstock.pipes.bases.input_columns.Columns,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Mapper[typing.Any]:
        """Yield `fn(item)` for each item.

        With `input_col`, an index or key or a list of them, `fn` gets these columns of the item as its arguments, and the
        item is yielded with the result put in: at `output_col`, where -1 appends to a tuple or list; without `output_col`
        in the place of the first input column, and the other input columns are left out. Named tuples stay named tuples
        where their fields stay. The source's items are never changed, but copied.

        `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

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

    def map_batches(
        self,
        fn: collections.abc.Callable[..., collections.abc.Iterable[typing.Any]],
        batch_size: int,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.batches.BatchMapper:
        """Yield all that `fn(batch)` gives, one after another, for each batch of `batch_size` items; the last may be short.

        `fn` gets a list of items and returns an iterable, as long as it likes, or is a generator function. With
        `input_col`, it gets a list of the values of each of these columns, and what it returns takes the place of the
        items. `on_error` handles a batch for which `fn` raises: where it is left out, it counts as one.

        Raises TypeError where `fn` returns a dict, text or bytes: what is to make one batch of columns of another, as Ray
        Data's `map_batches` does, is `.map(fn)` on such batches.

        >>> dp = IterableWrapper(range(5)).map_batches(lambda batch: [sum(batch)], batch_size=2)
        >>> list(dp)
        [1, 5, 4]
        >>> list(IterableWrapper([("a", 1), ("b", 2)]).map_batches(lambda numbers: [max(numbers)], 2, input_col=1))
        [2]
        """
        ...

    def map_pool(
        self,
        model: collections.abc.Callable[..., collections.abc.Callable[[typing.Any], typing.Any]],
        workers: int = 2,
        batch_size: int | None = None,
        device: str | int | torch.device | None = None,
        max_in_flight: int | None = None,
        *,
        engine: typing.Literal['processes', 'threads', 'ray'] = 'processes',
        resources: collections.abc.Mapping[str, float] | None = None,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.map_pool.ModelPoolMapper:
        """Yield what a model makes of each item, with `workers` of them at work at once, in the order of the items.

        `model` is a class whose instances can be called, or a function that returns what can be called, such as
        `functools.partial(Predictor, "weights.pt")`. Each worker calls it once, and what it made for one item after
        another, from pass to pass. Workers are by `engine`

        - `"processes"` of this machine.
        - `"threads"` of this process: nothing is pickled or copied, which is quicker where what is computed takes less time
          than the items' way to another process, as small models do; torch's operations run in threads at once.
        - `"ray"`: actors of Ray, on any machine of a cluster. `resources` are what each needs, by default `{"CPU": 1}`:
          "CPU", "GPU", and what the cluster's nodes have by other names.

        With `batch_size`, the model is called with batches of so many rows, and what it makes of each is yielded: where the
        items are batches of columns, with such of that size, as `rebatch` makes them; where they are rows, with lists of
        them. Which of both they are, `batched` says, or else the chain, as for `write_parquet`. Without `batch_size`, the
        model is called with the items as they are.

        A `torch.nn.Module` is put in eval mode and called in `torch.inference_mode`, as is anything else that has an
        attribute `inference_mode = True`; what comes out of threads then takes no part in gradients. With `device`, the
        model is made with `device=` where it has such a parameter; a module that has none is moved there. Tensors in the
        items are moved to the device before each call, and those in the results back to the CPU.

        Up to `max_in_flight` items, by default two for each worker, are read ahead before the first result comes.
        `on_error` handles an item for which the model raises. As with `processpool_map`, processes have one
        thread of torch each, live as long as the pipe, and in the workers of a loader each shard has its own.

        Actors live as long as the pipe, too, and end with the program. They are those of the Ray that the program is
        connected to, or else gets by itself at first use. In the workers of a loader they are of the same, where the
        program is connected before the chain goes there, or of the one at `RAY_ADDRESS`. An actor has one item at a time;
        tensors and arrays are copied into Ray's memory and out of it, and can be written to. Torch has as many threads
        there as it has CPUs. A pass begins with the actors that are there. One that Ray has not started is
        waited for, with a RuntimeWarning after 10 seconds, and takes part when it comes.

        Raises TypeError where `model` cannot be called without arguments, makes what cannot be called, or has no use for a
        device, ValueError for a dict that may be batch or row and for resources that are not of Ray's actors, ImportError
        where Ray is asked for and missing, and RuntimeError, which says how and on which item, where a process ends or an
        actor dies; for `on_error`, that is an item's failure as any other, and the next item goes to a new one.

        >>> class Adder:
        ...     def __init__(self, number=10):
        ...         self.number = number
        ...     def __call__(self, item):
        ...         return item + self.number
        >>> dp = IterableWrapper(range(4)).map_pool(Adder, workers=1)
        >>> list(dp)
        [10, 11, 12, 13]
        >>> list(IterableWrapper(range(4)).map_pool(lambda: sum, workers=1, batch_size=3))
        [3, 3]
        """
        ...

    def max_token_bucketize(
        self,
        max_token_count: int,
        len_fn: collections.abc.Callable[[T_co], int] = ...,
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.bucket.MaxTokenBucketizer[T_co]:
        """Yield batches of as many items as have at most `max_token_count` tokens together, shorter items first.

        `len_fn` says how many tokens an item has. Up to `buffer_size` items are held; when there are so many, the shortest
        of them, the first of several, goes into the batch, and the batch comes out before one that does not fit any more.
        At the end all that are held come in the order of their lengths. With `include_padding`, what counts is the size of
        the batch padded to its longest item. Items shorter than `min_len` or longer than `max_len` are left out. Batches of
        much the same length follow each other: `shuffle` after it, and before it, mixes them.

        `on_error` handles an item for which `len_fn` raises, or which is too long.

        Raises ValueError for an item longer than `max_token_count`, where no `max_len` leaves it out.

        >>> dp = IterableWrapper(["ccc", "a", "dddd", "bb", "a"]).max_token_bucketize(5)
        >>> list(dp)
        [['a', 'a', 'bb'], ['ccc'], ['dddd']]
        >>> list(IterableWrapper(["ccc", "a", "dddd", "bb", "a"]).max_token_bucketize(5, include_padding=True, max_len=3))
        [['a', 'a'], ['bb'], ['ccc']]
        """
        ...

    def mix(
        self,
        *sources: penstock.registry.IterDataPipe[T],
        weights: collections.abc.Sequence[float] | None = None,
        until: typing.Literal['longest', 'shortest'] = 'longest',
    ) -> penstock.pipes.iter.mix.Mixer[T_co | T]:
        """Yield items of several sources, each time from one that is drawn by weight.

        `weights`, one for each source, the first included, need not add up to 1; without them the sources are equally
        likely. So each stretch of the stream has items of the sources in about these proportions. `until` says what becomes
        of the mix when a source is exhausted: by default, `"longest"`, the others go on in the proportions of their
        weights; `"shortest"` ends it there, which is when that source is drawn again. For proportions that hold for
        ever, make the sources endless: `a.cycle().mix(b.cycle(), weights=[3, 1])`.

        Raises TypeError for weights that are no list of numbers, and ValueError where there are not as many weights as
        sources, or a weight is not finite and greater than 0.

        >>> dp = IterableWrapper("aaa").mix(IterableWrapper("bbb"), weights=[2, 1]).set_seed(1)
        >>> sorted(dp)
        ['a', 'a', 'a', 'b', 'b', 'b']
        """
        ...

    def mux(
        self,
        *sources: penstock.registry.IterDataPipe[T],
    ) -> penstock.pipes.iter.combine.Multiplexer[T_co | T]:
        """Yield one item from each source in turn, until the shortest is exhausted.

        Only whole rounds are yielded: what the sources before the shortest gave in the last round is dropped.
        `mux_longest` goes on with the others; `mix` draws whose turn it is, by weights.

        >>> dp = IterableWrapper("abc").mux(IterableWrapper("xy"))
        >>> list(dp)
        ['a', 'x', 'b', 'y']
        """
        ...

    def mux_longest(
        self,
        *sources: penstock.registry.IterDataPipe[T],
    ) -> penstock.pipes.iter.combine.MultiplexerLongest[T_co | T]:
        """Yield one item from each source in turn, passing over those that are exhausted, until all are.

        >>> dp = IterableWrapper("abc").mux_longest(IterableWrapper("x"))
        >>> list(dp)
        ['a', 'x', 'b', 'c']
        """
        ...

    def on_disk_cache(
        self,
        filepath_fn: collections.abc.Callable[[typing.Any], penstock.pipes.iter.disk_cache.Paths] | None = None,
        hash_dict: collections.abc.Mapping[str, str] | None = None,
        hash_type: str = 'sha256',
        extra_check_fn: collections.abc.Callable[[str], bool] | None = None,
    ) -> penstock.pipes.iter.disk_cache.OnDiskCacheHolder[T_co]:
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
        ...

    def open_files(
        self: collections.abc.Iterable[str],
        mode: str = 'r',
        encoding: str | None = None,
        length: int = -1,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.files.FileOpener:
        """Yield the path and the stream of each file.

        `mode` is `"r"`, `"rt"` or `"t"` for text, in the given `encoding` or else the locale's, `"rb"` or `"b"` for bytes.
        A stream can be read for as long as somebody holds it, and is closed when it is dropped. `length` is what `len` is
        to say; without it that is the length of the source. `on_error` handles a file that cannot be opened.

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
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileOpener:
        """Yield the URL and the stream of each file.

        `mode` is `"r"`, `"rt"` or `"t"` for text, `"rb"` or `"b"` for bytes. `kwargs_for_open` are arguments for opening a
        file, such as `encoding` or `compression`. `on_error` handles a file that cannot be opened. Further
        arguments are options of the file system, such as `anon=True`; without them credentials and endpoints come from the
        environment. A stream can be read for as long as somebody holds it, and is closed when it is dropped.

        Raises FileNotFoundError for a file that there is not, and ImportError where the package for a protocol is missing.

        >>> import fsspec
        >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
        >>> dp = IterableWrapper(["memory://shelf/a.txt"]).open_files_by_fsspec()
        >>> [(url, stream.read()) for url, stream in dp]
        [('memory://shelf/a.txt', 'one')]
        """
        ...

    def open_files_by_iopath(
        self: collections.abc.Iterable[str],
        mode: str = 'r',
        pathmgr: typing.Any = None,
        handler: typing.Any = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.iopath.IoPathFileOpener:
        """Yield the path and the stream of each file.

        `mode` is `"r"`, `"rt"` or `"t"` for text, in the locale's encoding, `"rb"` or `"b"` for bytes. A stream can be read
        for as long as somebody holds it, and is closed when it is dropped. `pathmgr` and `handler` are as for
        `list_files_by_iopath`; a handler opens files for bytes. For new code there is `open_files_by_fsspec`.
        `on_error` handles a file that cannot be opened.

        Raises FileNotFoundError for a local file that there is not, and ImportError where iopath is missing.

        >>> import json, os
        >>> dp = FileLister(os.path.dirname(json.__file__), "*coder.py").open_files_by_iopath()
        >>> [stream.readline().strip('"\\n') for path, stream in dp]
        ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
        """
        ...

    def pack(
        self,
        length: int,
        method: typing.Literal['greedy', 'best_fit'] = 'greedy',
        *,
        pad_value: float | collections.abc.Mapping[str, float] = 0,
        overlong: typing.Literal['raise', 'split', 'truncate'] = 'raise',
        buffer_size: int = 100,
        cu_seqlens: bool = False,
    ) -> penstock.pipes.iter.pack.Packer:
        """Yield sequences of tokens packed to exactly `length` tokens, as a dict that keeps the boundaries.

        An item is a sequence of tokens: a list, or a NumPy array or tensor of one dimension. What comes out has

        - `tokens`: `length` tokens of several sequences, of the kind and dtype of theirs, and after them `pad_value`
        - `document_ids`: for each token the number of its sequence in the pack, from 1, and 0 where it is padding
        - `position_ids`: for each token its place in its sequence, from 0; padding counts as a sequence here
        - `cu_seqlens`, if asked for: where the sequences begin, padding included, and then `length`, as int32: the offsets
          that attention over sequences of various lengths takes. Packs have various numbers of them, so they do not stack.

        An item may also be a dict of such sequences of one length, as `{"input_ids": …, "labels": …}`. They are packed
        alike, and come out under their names; `pad_value` can then be a dict, with 0 for what it does not name.

        With `method="greedy"` sequences are put end to end and cut at every `length` tokens, so that only the last pack has
        padding, and a sequence may go on in the next pack, as one with a number and places of its own there. With
        `"best_fit"` none is cut: each goes into the open pack that it fills best; where it fits into none, another is
        opened, and if `buffer_size` are open, the oldest comes out before. A sequence longer than `length` is an error, or
        it is cut into several with `overlong="split"`, or cut off with `"truncate"`. Empty sequences leave no trace.

        Raises TypeError for items that are no such sequences, or of different kinds or dtypes in one pack; ValueError for a
        dict whose sequences differ in length, and for a sequence that is too long.

        >>> dp = IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4)
        >>> for pack in dp:
        ...     print(pack["tokens"], pack["document_ids"], pack["position_ids"])
        [1, 2, 3, 4] [1, 1, 1, 2] [0, 1, 2, 0]
        [5, 6, 0, 0] [1, 2, 0, 0] [0, 0, 0, 1]
        >>> [pack["tokens"] for pack in IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4, "best_fit")]
        [[1, 2, 3, 6], [4, 5, 0, 0]]
        """
        ...

    def parse_csv(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = 'utf-8',
        errors: str = 'ignore',
        return_path: bool = False,
        as_tuple: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **fmtparams: typing.Any,
    ) -> penstock.pipes.iter.parse.CSVParser:
        """Yield each row of each stream of CSV as a list of strings; with `as_tuple` as a tuple.

        Takes pairs of a path and a stream, which is closed when it was read. With `return_path`, pairs of the path and the
        row are yielded. The first `skip_lines` lines of each stream are left out. A stream of bytes is decoded from the
        given `encoding`, and `errors` says how to handle bytes that are none, as for `bytes.decode`: with the default,
        `"ignore"`, they are left out. With `decode=False` streams must be of text. `fmtparams` are arguments of
        `csv.reader`, such as `delimiter`. `on_error` handles a stream that cannot be read: where it is left out,
        the rows before the failure are not taken back. It cannot be a `Retry`.

        Raises TypeError for `fmtparams` that `csv.reader` does not know, LookupError for an encoding that there is not, and
        csv.Error, with the number of the line, for what is no CSV.

        >>> import io
        >>> dp = IterableWrapper([("a.csv", io.StringIO('id,text\\n1,"one, two"\\n'))]).parse_csv()
        >>> list(dp)
        [['id', 'text'], ['1', 'one, two']]
        """
        ...

    def parse_csv_as_dict(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = 'utf-8',
        errors: str = 'ignore',
        return_path: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **fmtparams: typing.Any,
    ) -> penstock.pipes.iter.parse.CSVDictParser:
        """Yield each row of each stream of CSV as a dict, whose keys are the first row of the stream.

        All is as for `parse_csv`, but that `fmtparams` are arguments of `csv.DictReader`: beside those of `csv.reader`,
        `fieldnames`, the keys where the first row is one like the others; `restkey`, the key under which a row has the
        values that it has too many, as a list; and `restval`, the value of those that it lacks. The latter two are None
        where not given. Empty rows are left out.

        >>> import io
        >>> dp = IterableWrapper([("a.csv", io.StringIO("id,text\\n1,one\\n2,two\\n"))]).parse_csv_as_dict()
        >>> list(dp)
        [{'id': '1', 'text': 'one'}, {'id': '2', 'text': 'two'}]
        """
        ...

    def parse_json_files(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.parse.JsonParser:
        """Yield the path of each stream and the value of the JSON document that it holds.

        Takes pairs of a path and a stream of text or bytes, which is closed when it was read. `kwargs` are arguments of
        `json.loads`, such as `parse_float`. A file with a document on each line (JSON lines) is no JSON document:
        `.readlines(return_path=False).map(json.loads)` reads it. `on_error` handles a stream that cannot be read
        or parsed; it cannot be a `Retry`.

        Raises json.JSONDecodeError for what is no JSON document, and TypeError for `kwargs` that `json.loads` does not
        know.

        >>> import io
        >>> files = [("a.json", io.StringIO('{"label": 3}')), ("b.json", io.BytesIO(b"[1, 2]"))]
        >>> dp = IterableWrapper(files).parse_json_files()
        >>> list(dp)
        [('a.json', {'label': 3}), ('b.json', [1, 2])]
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

    def processpool_map(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        max_workers: int | None = None,
        *,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        scheduled_tasks: int = 128,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.parallel.ProcessPoolMapper:
        """Yield `fn(item)` for each item, called in `max_workers` processes at once, in the order of the items.

        That is for functions that compute in Python. Items and results are pickled, which takes its time with many small
        objects; the memory of tensors and arrays is copied once on each way, to memory that both processes share. It is
        used again when nobody has those tensors any more, so results are the consumer's, to keep and to write to. Where
        `fn` is a class whose instances can be called, or a `functools.partial` of one, each process makes it once and calls
        its instance: so a model is loaded once for each process. `fn` travels by cloudpickle, so it may be a lambda or come
        from a notebook; scripts need no `if __name__ == "__main__"`.

        `max_workers` is by default the number of processors. `scheduled_tasks`, `ordered`, `input_col`, `output_col` and
        `on_error` are as for `threadpool_map`; attempts and skipped items are counted in this process.

        The processes start with the first item, and live until the pipe is collected or the program ends, so that the next
        pass finds them ready. One that is still at work 5 seconds after its pass was given up is killed. In each, torch has
        one thread, and random numbers begin anew. In the workers of a loader, each shard has processes of its own: divide
        `max_workers` by their number, or let the loader's workers do the work with `map`.

        Raises RuntimeError where a process ends while `fn` is in it, and says how and on which item; for `on_error`, that
        is an item's failure as any other, and the next item goes to a new process. Errors that cannot be pickled come as
        RuntimeError with their text. Raises what pickle raises where `fn` or an item cannot be pickled.

        >>> dp = IterableWrapper(range(4)).processpool_map(lambda x: x * 10, max_workers=1)
        >>> list(dp)
        [0, 10, 20, 30]
        """
        ...

    def random_split(
        self,
        weights: dict[typing.Any, float],
        seed: penstock.pipes.iter.part.Seed | None,
        total_length: int | None = None,
        target: collections.abc.Hashable | None = None,
    ) -> list[penstock.registry.IterDataPipe[T_co]] | penstock.pipes.iter.part.RandomSplitter[T_co]:
        """Give a list of pipes, one for each key in `weights`, that share out the items of the source at random.

        Every pass gives the same split, until `override_seed` gives another seed. Weights that, made to sum up
        to the length of the source, are whole numbers are how many items each group gets, exactly; others as near as chance
        has it. With `target`, a key, it is the pipe of that group alone; with the same seed it is the same.

        `total_length` is the number of the source's items, which is needed where `len` of it is not known. With
        `seed=None`, a seed is drawn from torch's generator, once; states contain it.

        Each pipe reads the whole source and leaves out what is not its own. So they are read one after the other, or
        from copies of the chain, as loaders make them; and the source must give one order: shuffle the groups instead.

        Raises ValueError where the source gives more than `total_length` items.

        >>> dp, valid = IterableWrapper(range(10)).random_split({"train": 0.5, "valid": 0.5}, seed=0)
        >>> list(dp)
        [2, 3, 5, 7, 8]
        >>> list(valid), len(valid)
        ([0, 1, 4, 6, 9], 5)
        """
        ...

    def read_csv(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **csv_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.CsvReader:
        """Yield the record batches of each CSV file, of at most `batch_size` rows.

        What all arguments mean, and what is raised, is as for `read_parquet`, with blocks of a file in place of its row
        groups: by default a block is a megabyte. Further arguments are options of `pyarrow.csv`, of its `ReadOptions`,
        `ParseOptions` and `ConvertOptions`, such as `delimiter=";"`, `column_names`, `column_types` or `block_size`.

        The types are those of the values in the first block, unless `column_types` says otherwise. A file is read from its
        start: on resuming, what comes before the place is read again, and what comes after a damaged row is left out. One
        that is not on disk is copied before, into memory or, from 32 MB on, into a temporary file.

        Raises `pyarrow.ArrowInvalid`, with the number of the row, for a row with more or fewer values than there are
        columns, or one that is not of the type.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.csv")
        >>> with open(path, "w") as file:
        ...     _ = file.write("id;text\\n0;a\\n1;b\\n")
        >>> dp = IterableWrapper([path]).read_csv(delimiter=";")
        >>> [batch.to_pydict() for batch in dp]
        [{'id': [0, 1], 'text': ['a', 'b']}]
        """
        ...

    def read_from_gdrive(
        self: collections.abc.Iterable[str],
        *,
        timeout: penstock.pipes.iter.online.Timeout = None,
        skip_on_error: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.online.GDriveReader:
        """Yield the name and a stream of the bytes of each file in Google Drive, given its URL.

        That is a URL for downloading (`https://drive.google.com/uc?export=download&id=…`) or for sharing
        (`https://drive.google.com/file/d/…/view`, `https://drive.google.com/open?id=…`). For a large file, which Google
        does not scan for viruses, the page that asks for a confirmation is answered. The name is the one that Google tells,
        without folders. The other parameters are those of `read_from_http`.

        Raises RuntimeError where Google answers with a page in place of a file: that the quota of downloads is exceeded, or
        that one must sign in. For the rest as `read_from_http`.

        >>> url = "https://drive.google.com/uc?export=download&id=SomeFile"
        >>> files = IterableWrapper([url]).read_from_gdrive(timeout=30, on_error="skip")
        >>> files
        IterableWrapper(['https://drive.google.com/uc?export=download&id=SomeFile'])
            .read_from_gdrive(timeout=30, on_error='skip')
        >>> dp = IterableWrapper([]).read_from_gdrive()
        >>> list(dp)
        []
        """
        ...

    def read_from_http(
        self: collections.abc.Iterable[str],
        timeout: penstock.pipes.iter.online.Timeout = None,
        skip_on_error: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.online.HttpReader:
        """Yield the URL and a stream of the bytes behind it, for each URL.

        Redirects are followed, and what the server packed for the way is unpacked. The connection is closed when the stream
        is dropped. `timeout` is how many seconds the server may be silent, or a pair of how many it
        may take to connect and to send something; without it that is 60, and with `(None, None)` there is no limit. Further
        arguments are those of `requests.get`: `headers`, `params`, `auth`, `proxies`, `allow_redirects`, `verify`, … .

        `on_error` handles a URL that fails; `skip_on_error=True` is the old spelling of `on_error="skip"`. They
        are about asking: what fails while a stream is read is raised by whoever reads it.

        Raises `requests.HTTPError` for a status such as 404 or 500, of whose answer it has the status alone, and another
        `requests.RequestException`, which is an OSError, where the server cannot be reached or does not answer. Reading a
        stream raises urllib3's errors: a `ProtocolError` where the content ends before its time. Raises ImportError where
        requests is missing.

        >>> import json, os, threading
        >>> from functools import partial
        >>> from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
        >>> files = partial(SimpleHTTPRequestHandler, directory=os.path.dirname(json.__file__))
        >>> server = ThreadingHTTPServer(("127.0.0.1", 0), files)
        >>> threading.Thread(target=server.serve_forever, daemon=True).start()
        >>> urls = [f"http://127.0.0.1:{server.server_port}/{name}coder.py" for name in ("de", "en")]
        >>> dp = IterableWrapper(urls).read_from_http()
        >>> [stream.readline().decode().strip('"\\n') for url, stream in dp]
        ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
        """
        ...

    def read_from_remote(
        self: collections.abc.Iterable[str],
        *,
        timeout: penstock.pipes.iter.online.Timeout = None,
        skip_on_error: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.online.OnlineReader:
        """Yield the URL, or for a file in Google Drive its name, and a stream of the bytes, for each URL.

        URLs of `drive.google.com` and `docs.google.com` are read as by `read_from_gdrive`, all others as by
        `read_from_http`, with the same parameters and errors.

        >>> import json, os, threading
        >>> from functools import partial
        >>> from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
        >>> files = partial(SimpleHTTPRequestHandler, directory=os.path.dirname(json.__file__))
        >>> server = ThreadingHTTPServer(("127.0.0.1", 0), files)
        >>> threading.Thread(target=server.serve_forever, daemon=True).start()
        >>> dp = IterableWrapper([f"http://127.0.0.1:{server.server_port}/decoder.py"]).read_from_remote()
        >>> [stream.readline().decode().strip('"\\n') for url, stream in dp]
        ['Implementation of JSONDecoder']
        """
        ...

    def read_from_stream(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        chunk: int | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.files.StreamReader:
        """Yield the path and the content of each stream: bytes, or the text of a stream opened as text.

        Takes pairs of a path and a stream. With `chunk`, yields the content in pieces of so many bytes (or characters),
        each with the path; an empty stream has none. A stream is closed when it was read. `on_error` handles a
        stream that fails: where it is left out, the pieces before the failure are not taken back. It cannot be a `Retry`.

        >>> import io
        >>> dp = IterableWrapper([("alphabet", io.StringIO("abcde"))]).read_from_stream(chunk=2)
        >>> list(dp)
        [('alphabet', 'ab'), ('alphabet', 'cd'), ('alphabet', 'e')]
        """
        ...

    def read_images(
        self: collections.abc.Iterable[str],
        include_paths: bool = False,
        *,
        mode: typing.Literal['L', 'RGB', 'RGBA'] = 'RGB',
        max_workers: int = 8,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.ImageReader:
        """Yield a dict with the `"image"` of each file; with `include_paths`, its `"path"` too.

        An image is a tensor of `torch.uint8` and shape (channels, height, width). `mode` says what the channels are: `"L"`
        for grey, `"RGB"` or `"RGBA"`. Takes paths, and URLs of whatever fsspec speaks, whatever their extensions are: what
        a file is, Pillow sees by its content.

        Up to `max_workers` threads read and decode; the order stays. `storage_options` are those of the file system, such
        as `{"anon": True}`. `on_error` handles a file that cannot be read or is no image.

        Raises FileNotFoundError for a file that there is not, OSError (or Pillow's subclass of it, UnidentifiedImageError)
        for an image that is cut or corrupt, ValueError for one with more than 8 bits for each channel, and ImportError
        where Pillow is not installed.

        >>> import os, tempfile
        >>> from PIL import Image
        >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
        >>> Image.new("RGB", (4, 2), "red").save(path)
        >>> dp = IterableWrapper([path]).read_images()
        >>> [row["image"].shape for row in dp]
        [torch.Size([3, 2, 4])]
        """
        ...

    def read_ipc(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_columns.IpcReader:
        """Yield the record batches of each file of Arrow's own, as Feather is, cut to at most `batch_size` rows.

        What all arguments mean, and what is raised, is as for `read_parquet`, with the record batches of a file in place of
        its row groups. Both kinds are read, files and streams. What is not compressed is not copied: a local file is mapped
        into memory, and must not be cut short while its batches are in use.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.feather
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.arrow")
        >>> pa.feather.write_feather(pa.table({"id": range(3)}), path)
        >>> dp = IterableWrapper([path]).read_ipc(batch_size=2)
        >>> [batch.to_pydict() for batch in dp]
        [{'id': [0, 1]}, {'id': [2]}]
        """
        ...

    def read_json(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **json_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.JsonReader:
        """Yield the record batches of each file with an object of JSON in each line, of at most `batch_size` rows.

        What all arguments mean, and what is raised, is as for `read_csv`. Further arguments are options of `pyarrow.json`,
        of its `ReadOptions` and `ParseOptions`: `explicit_schema`, `newlines_in_values`, `unexpected_field_behavior` and
        `block_size`.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.jsonl")
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"id": 0, "text": "a"}\\n{"id": 1}\\n')
        >>> dp = IterableWrapper([path]).read_json()
        >>> [batch.to_pydict() for batch in dp]
        [{'id': [0, 1], 'text': ['a', None]}]
        """
        ...

    def read_numpy(
        self: collections.abc.Iterable[str],
        include_paths: bool = False,
        *,
        max_workers: int = 8,
        max_bytes: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.NumpyReader:
        """Yield a `pyarrow.RecordBatch` of each file of NumPy's, whose rows are the first dimension of its arrays.

        A `.npy` file has the column `"data"`, a `.npz` file its arrays by their names, all with the same number of rows. A
        column of more than one dimension has Arrow's type of fixed-shape tensors, which `to_tensors` makes tensors without
        a copy. With `include_paths` there is a column `"path"` too. Takes paths, and URLs of whatever fsspec speaks. The
        arrays of a `.npz` file may have `max_bytes`, or a hundred times the bytes of the file where that is more.

        Up to `max_workers` threads read; the order stays. `storage_options` and `on_error` are as for `read_images`.

        Raises FileNotFoundError for a file that there is not, and ValueError for one that is not NumPy's, or is cut,
        corrupt or larger than `max_bytes`, for arrays of objects, which are pickles and could run any code, and for an
        array without a dimension; TypeError for arrays of complex numbers, which Arrow does not have.

        >>> import os, tempfile
        >>> import numpy as np
        >>> path = os.path.join(tempfile.mkdtemp(), "squares.npy")
        >>> np.save(path, np.arange(3) ** 2)
        >>> dp = IterableWrapper([path]).read_numpy()
        >>> [batch.to_pydict() for batch in dp]
        [{'data': [0, 1, 4]}]
        """
        ...

    def read_orc(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_columns.OrcReader:
        """Yield the record batches of each ORC file, of at most `batch_size` rows: none has rows of two stripes.

        What all arguments mean, and what is raised, is as for `read_parquet`, with stripes in place of row groups; of these
        all are read, whatever the filter.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.orc
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.orc")
        >>> pa.orc.write_table(pa.table({"id": range(3)}), path)
        >>> dp = IterableWrapper([path]).read_orc(batch_size=2)
        >>> [batch.to_pydict() for batch in dp]
        [{'id': [0, 1]}, {'id': [2]}]
        """
        ...

    def read_parquet(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_columns.ParquetReader:
        """Yield the record batches of each Parquet file, of at most `batch_size` rows: none has rows of two row groups.

        Takes paths and URLs of whatever fsspec speaks, or what `list_row_groups` gives; objects of S3 and other stores are
        read by ranges. `columns` names the columns that are read, by default all. `filter` says which rows come: a
        `pyarrow.compute.Expression`, or text such as `"price > 3 and kind == 'a'"`; row groups are not read where the
        statistics in a file's footer tell that none of their rows match. Up to `read_ahead` files, or row groups, are read
        at once, each by a thread: as many row groups, and one more, may be in memory.

        All files must have the same columns, of the same types. With `unify=True` columns that a file lacks are null in it,
        and numbers have the widest of their types: for that, the footers of all files are read when a pass begins, unless
        `unify` is the `pyarrow.Schema` that comes out. `schema()` tells it before.

        `storage_options` are those of the file system, such as `{"anon": True}`. `on_error` handles a file that
        cannot be opened, and of a row group that cannot be read. A state tells which row group is read, and how many
        batches of it went out; on resuming, those before it are not read.

        Raises FileNotFoundError for a file that there is not, KeyError for a column that a file does not have, ValueError
        for a file with other columns than those before, `pyarrow.ArrowInvalid`, a ValueError, for what is no Parquet file,
        or for values that do not fit a type, and OSError for a damaged one: where pages have checksums, they are verified.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": range(5), "text": [*"abcde"]}), path, row_group_size=3)
        >>> dp = IterableWrapper([path]).read_parquet(columns=["text"], filter="id > 0", batch_size=2)
        >>> [batch.to_pydict() for batch in dp]
        [{'text': ['b', 'c']}, {'text': ['d', 'e']}]
        """
        ...

    def read_text(
        self: collections.abc.Iterable[str],
        include_paths: bool = False,
        *,
        encoding: str = 'utf-8',
        drop_empty_lines: bool = True,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.TextReader:
        """Yield a dict with the `"text"` of each line of each file; with `include_paths`, the file's `"path"` too.

        Lines come without the characters that end them. Those that are empty, or have spaces only, are left out unless
        `drop_empty_lines` is False. Takes paths, and URLs of whatever fsspec speaks; `storage_options` are those of the
        file system. `on_error` handles a file that cannot be read: where it is left out, the lines before the
        failure are not taken back.

        Raises FileNotFoundError for a file that there is not, LookupError for an encoding that there is not, and
        UnicodeDecodeError for a file that is not in the encoding.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "poem.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("one\\n\\ntwo\\n")
        >>> dp = IterableWrapper([path]).read_text()
        >>> list(dp)
        [{'text': 'one'}, {'text': 'two'}]
        """
        ...

    def readlines(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = 'utf-8',
        errors: str = 'ignore',
        return_path: bool = True,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.lines.LineReader:
        """Yield the path and the line for each line of each stream; with `return_path=False` the line alone.

        Takes pairs of a path and a stream, which is closed when it was read. The first `skip_lines` of each stream are left
        out. Lines come without the characters that end them, unless `strip_newline` is False. Of a stream of bytes, lines
        are bytes; with `decode` they are text in the given `encoding`, and `errors` says how to handle bytes that are
        none, as for `bytes.decode`: with the default, `"ignore"`, they are left out. Bytes are split at `\\n`, text where
        the stream splits it. `on_error` handles a stream that cannot be read: where it is left out, the lines
        before the failure are not taken back. It cannot be a `Retry`.

        Raises LookupError for an encoding that there is not, and UnicodeDecodeError with `errors="strict"`.

        >>> import io
        >>> dp = IterableWrapper([("a.txt", io.StringIO("one\\ntwo")), ("b.txt", io.StringIO("three\\r\\n"))]).readlines()
        >>> list(dp)
        [('a.txt', 'one'), ('a.txt', 'two'), ('b.txt', 'three')]
        """
        ...

    def rebatch(self, n: int, drop_last: bool = False) -> penstock.pipes.iter.rebatch.Rebatcher:
        """Yield the rows of column batches in batches of `n` rows; the last may have fewer, or is dropped with `drop_last`.

        A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. What comes out is of
        the same kind; of tables and of data frames of pandas, RecordBatches. Rows that lie in one batch are not
        copied: what is handed out is a view, and keeps that batch. So it is cheap to read large batches, and to make small
        ones of them here, before or after `to_tensors`.

        Raises TypeError for what is no column batch, and ValueError where batches that are to be joined have not the same
        columns of the same types.

        >>> import torch
        >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4])}]
        >>> dp = IterableWrapper(batches).rebatch(2)
        >>> list(dp)
        [{'id': tensor([0, 1])}, {'id': tensor([2, 3])}, {'id': tensor([4])}]
        """
        ...

    def repeat(self, times: int) -> penstock.pipes.iter.repeat.Repeater[T_co]:
        """Yield each item `times` times before the next: the same object, not copies of it.

        >>> dp = IterableWrapper(range(3)).repeat(2)
        >>> list(dp)
        [0, 0, 1, 1, 2, 2]
        """
        ...

    def round_robin_demux(
        self,
        num_instances: int,
        buffer_size: int = 1000,
    ) -> list[penstock.registry.IterDataPipe[T_co]]:
        """Give a list of `num_instances` pipes that yield the items of the source in turn.

        As to the buffer and what else there is to know of reading several pipes, see `demux` and `fork`.

        >>> first, second = IterableWrapper(range(5)).round_robin_demux(2)
        >>> dp = first.zip_longest(second)
        >>> list(dp)
        [(0, 1), (2, 3), (4, None)]
        >>> len(first), len(second)
        (3, 2)
        """
        ...

    def routed_decode(
        self,
        *handlers: penstock.pipes.iter.decode.Handler | str,
        key_fn: collections.abc.Callable[[str], str] = ...,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
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

        The arrays of `npz` and `pt` files, which may be compressed, may have `max_bytes`, or a hundred times the bytes of
        the file where that is more.

        `key_fn` makes of a path what the handlers get as the extension; for an entry of a dict, the path is the dict's
        `"__key__"` with the entry's key. `on_error` handles a file or dict that cannot be read or decoded; it
        cannot be a `Retry`.

        Raises what the handler raises, such as OSError for an image that is cut, Pillow's DecompressionBombError for one of
        too many pixels, UnicodeDecodeError for text that is none, or ValueError for arrays and tensors that are cut,
        corrupt or larger than `max_bytes`, and ImportError for an image where Pillow is not installed.

        >>> dp = IterableWrapper([("a/1.txt", b"one"), ("a/1.json", b"[1, 2]"), ("a/1.raw", b"xyz")]).routed_decode()
        >>> list(dp)
        [('a/1.txt', 'one'), ('a/1.json', [1, 2]), ('a/1.raw', b'xyz')]
        >>> list(IterableWrapper([{"__key__": "a/1", ".txt": b"one", ".cls": b"1"}]).routed_decode())
        [{'__key__': 'a/1', '.txt': 'one', '.cls': 1}]
        """
        ...

    def rows(self) -> penstock.pipes.iter.rebatch.RowReader:
        """Yield each row of column batches as a dict of its values by the names of the columns.

        A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. Numbers, text, lists
        and structs become Python's, null None; of tensors and arrays with more than one dimension, and of Arrow's
        fixed-shape tensors, the row gets its part.

        Raises TypeError for what is no column batch.

        >>> import torch
        >>> dp = IterableWrapper([{"id": torch.tensor([0, 1]), "text": ["a", "b"]}]).rows()
        >>> list(dp)
        [{'id': 0, 'text': 'a'}, {'id': 1, 'text': 'b'}]
        """
        ...

    def rows2columnar(
        self,
        column_names: collections.abc.Sequence[collections.abc.Hashable] | None = None,
    ) -> penstock.pipes.iter.fields.Rows2Columnar:
        """Yield a dict of columns for each batch of rows: the list of the rows' values under each column's name.

        A row is a dict, or a tuple or list whose values are the columns that `column_names` names in their order. Of
        dicts, `column_names` are the keys that are taken; without it all are, and a column then has the values of those
        rows that have it, so that columns may differ in length.

        Raises KeyError for a dict that lacks one of `column_names`, ValueError for a tuple or list that has another number
        of values, or where it has no `column_names`.

        >>> dp = IterableWrapper([[{"a": 1, "b": 2}, {"a": 3, "b": 4}]]).rows2columnar()
        >>> list(dp)
        [{'a': [1, 3], 'b': [2, 4]}]
        >>> list(IterableWrapper([[(1, 2), (3, 4)]]).rows2columnar(["a", "b"]))
        [{'a': [1, 3], 'b': [2, 4]}]
        """
        ...

    def save_by_fsspec(
        self: collections.abc.Iterable[tuple[typing.Any, typing.Any]],
        mode: str = 'w',
        filepath_fn: collections.abc.Callable[[typing.Any], str | os.PathLike[str]] | None = None,
        *,
        kwargs_for_open: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.save.FSSpecSaver:
        """Write each item to the file at a URL, and yield the URL.

        An item is a pair of a URL and the data, or of whatever `filepath_fn` makes the URL of. `mode` is as for
        `save_to_disk`. `kwargs_for_open` are arguments for opening a file, such as `encoding` or `compression`. Further
        arguments are options of the file system, such as `anon=True`; without them credentials and endpoints come from the
        environment. Folders are made as needed, buckets are not. Local files are written as by `save_to_disk`; in object
        stores such as S3 an object appears, in the place of an earlier one, when it was sent whole, in parts of 16 MiB
        where it is larger: to S3 several at a time, each up to five more times after what may pass. An upload that fails is
        taken back.

        `on_error` handles an item that cannot be written, or for which `filepath_fn` raises.

        Raises TypeError for data that is text where bytes are to be written, or the other way round, OSError, or an error
        of the file system's client such as botocore's for a connection, where a file cannot be written, and ImportError
        where the package for a protocol is missing.

        >>> texts = IterableWrapper([("a.txt", b"one"), ("b.txt", b"two")])
        >>> dp = texts.save_by_fsspec("wb", filepath_fn=lambda name: f"memory://texts/{name}")
        >>> list(dp)
        ['memory://texts/a.txt', 'memory://texts/b.txt']
        """
        ...

    def save_by_iopath(
        self: collections.abc.Iterable[tuple[typing.Any, typing.Any]],
        mode: str = 'w',
        filepath_fn: collections.abc.Callable[[typing.Any], str | os.PathLike[str]] | None = None,
        *,
        pathmgr: typing.Any = None,
        handler: typing.Any = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.iopath.IoPathSaver:
        """Write each item to a file, and yield its path.

        An item is a pair of a path and the data, or of whatever `filepath_fn` makes the path of. `mode` is as for
        `save_to_disk`. Folders are made as needed. Local files are written as by `save_to_disk`; for others that is up to
        their handler. `pathmgr` and `handler` are as for `list_files_by_iopath`; a handler writes bytes. For new code there
        is `save_by_fsspec`. `on_error` handles an item that cannot be written, or for which `filepath_fn`
        raises.

        Raises TypeError for data that is text where bytes are to be written, or the other way round, OSError where a local
        file cannot be written, and ImportError where iopath is missing.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> texts = IterableWrapper([("a.txt", b"one"), ("b.txt", b"two")])
        >>> dp = texts.save_by_iopath("wb", filepath_fn=lambda name: os.path.join(folder, name))
        >>> [os.path.basename(path) for path in dp]
        ['a.txt', 'b.txt']
        """
        ...

    def save_to_disk(
        self: collections.abc.Iterable[tuple[typing.Any, typing.Any]],
        mode: str = 'w',
        filepath_fn: collections.abc.Callable[[typing.Any], str | os.PathLike[str]] | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.save.Saver:
        """Write each item to a file, and yield its path.

        An item is a pair of a path and the data, or of whatever `filepath_fn` makes the path of. `mode` is `"w"`, `"wt"` or
        `"t"` for text, in the locale's encoding, `"wb"` or `"b"` for bytes, `"a"`, `"at"` or `"ab"` to append. Folders are
        made as needed. A file is written beside its place and put there when it is whole, in the place of an earlier one:
        no interruption leaves half of it. What is appended goes straight to the file.

        `on_error` handles an item that cannot be written, or for which `filepath_fn` raises; an item that was
        appended in part is not taken back. `save_by_fsspec` writes to all that has a URL.

        Raises TypeError for data that is text where bytes are to be written, or the other way round, and OSError where a
        file cannot be written.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> texts = IterableWrapper([("a.txt", "one"), ("b.txt", "two")])
        >>> dp = texts.save_to_disk(filepath_fn=lambda name: os.path.join(folder, "texts", name))
        >>> [os.path.basename(path) for path in dp]
        ['a.txt', 'b.txt']
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

    def shard_expand(self: collections.abc.Iterable[str]) -> penstock.pipes.iter.shard.ShardExpander:
        """Yield the names that a name with ranges in braces stands for, one after another; other names as they are.

        The first number of a range says with how many digits at least all are written. Several ranges in a name give all
        combinations. Nothing is looked up: the names are those of the pattern, whether the files exist or not.

        Raises ValueError for a range that runs backwards.

        >>> dp = IterableWrapper(["images-{008..010}.tar", "labels.csv"]).shard_expand()
        >>> list(dp)
        ['images-008.tar', 'images-009.tar', 'images-010.tar', 'labels.csv']
        """
        ...

    def sharding_filter(
        self,
        sharding_group_filter: penstock.registry.SHARDING_PRIORITIES | None = None,
    ) -> penstock.pipes.iter.shard.ShardingFilter[T_co]:
        """Yield every n-th item, where n readers share the stream; all items where nobody shares it.

        The runner, or torch's DataLoader, tells each reader which part is its own. What stands before this point is run by
        every reader, so it belongs early in a chain: after listing, before opening and decoding. Right after a map-style
        pipe's `shuffle` or `to_iter_datapipe` it costs nothing: of these, each reader reads its own items only.

        With `sharding_group_filter` only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

        Batches made after it are made of each reader's own items, so that each reader may end with one that is not full:
        15 items, in 2 parts and batches of 5, are batches of 5, 3, 5 and 2. `.batch(5).sharding_filter()` shares out whole
        batches instead, 3 of 5, at the price that every reader reads all items.

        >>> dp = IterableWrapper(range(7)).sharding_filter()
        >>> dp.apply_sharding(3, 1)
        >>> list(dp)
        [1, 4]
        """
        ...

    def sharding_round_robin_dispatch(
        self,
        sharding_group_filter: penstock.registry.SHARDING_PRIORITIES | None = None,
    ) -> penstock.pipes.iter.shard.ShardingRoundRobinDispatcher[T_co]:
        """Yield every n-th item, where n worker processes share the stream of one process; all items where there are none.

        It is a `sharding_filter` at the level of workers: `sharding_group_filter` must be
        `SHARDING_PRIORITIES.MULTIPROCESSING`. A `sharding_filter` before it shares the stream among ranks only.

        Where `DataLoader2` reads with workers, what stands before it is read once in each epoch, by a process of its own,
        which sends each item to the worker whose shard it is for: for a source that cannot be read several times, or that
        costs more than sending its items. Any number of items may wait for a shard that is behind the others. Behind it, a
        `cycle` gives the same again in each round. A `DataLoader` of torch's runs what stands before it in every worker, as
        with `sharding_filter`.

        Raises NotImplementedError for another level.

        >>> from penstock.registry import SHARDING_PRIORITIES
        >>> dp = IterableWrapper(range(4)).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
        >>> list(dp)
        [0, 1, 2, 3]
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

    def shuffle_row_groups(
        self,
        filter: str | pyarrow.compute.Expression | None = None,
        *,
        read_ahead: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.row_groups.RowGroupShuffler:
        """Yield what `list_row_groups` does, of all files, in an order in which all orders are equally likely.

        All row groups are listed before the first one is handed out, and again on resuming. The arguments are those of
        `list_row_groups`. It belongs before a `sharding_filter`, so that all readers share one order.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": range(6)}), path, row_group_size=2)
        >>> dp = IterableWrapper([path]).shuffle_row_groups().set_seed(1)
        >>> sorted(group.number for group in dp)
        [0, 1, 2]
        """
        ...

    def shuffle_rows(self, buffer_rows: int) -> penstock.pipes.iter.rebatch.RowShuffler:
        """Yield the rows of column batches in a random order, in batches as large as those that come in.

        Batches are held until they have `buffer_rows` rows, or more where the last of them is large. Of these rows half
        are drawn and handed out; the others stay, and so many are read again. A row that stayed twice is among the next
        half, which is drawn uniformly otherwise. A buffer that holds the whole stream shuffles it fully. A column batch
        is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length; what comes out is of the same
        kind, and its size is that of the first batch read for it.

        A state holds no rows, only which ones are in the buffer: on resuming they are read again, with what came between,
        which is up to one and a half times `buffer_rows`.

        Raises TypeError for what is no column batch, and ValueError where the batches have not the same columns of the same
        types.

        >>> import torch
        >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4, 5])}]
        >>> dp = IterableWrapper(batches).shuffle_rows(6).set_seed(1)
        >>> [len(batch["id"]) for batch in dp], sorted(torch.cat([batch["id"] for batch in dp]).tolist())
        ([3, 3], [0, 1, 2, 3, 4, 5])
        """
        ...

    def shuffled_flatmap(
        self,
        fn: collections.abc.Callable[..., collections.abc.Iterable[typing.Any]] | None = None,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        buffer_size: int = 100,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.interleave.ShuffledFlatMapper:
        """Yield all that `fn(item)` gives for each item, each time from one of up to `buffer_size` items at random.

        The outputs of one item stay in their order; those of the items that are open at a time come mixed, each time from
        one drawn uniformly. An item that has given all makes room for the next. `fn` returns an iterable, such as a list,
        or is a generator function; without it, each item's own content is given. With `input_col`, `fn` gets these columns
        of the item as its arguments. `on_error` handles an item for which `fn` raises, as for `flatmap`.

        Raises TypeError for an `fn` that cannot be called, and ValueError for a `buffer_size` below 1.

        A state holds the numbers of the items that are open and how much they have given: on resuming, `fn` is called for
        these again, and what they had given is dropped.

        >>> dp = IterableWrapper([[1, 2, 3], [10, 20]]).shuffled_flatmap(buffer_size=2).set_seed(0)
        >>> sorted(dp)
        [1, 2, 3, 10, 20]
        """
        ...

    def slice(
        self,
        index: penstock.pipes.bases.input_columns.Columns | None,
        stop: int | None = None,
        step: int | None = None,
    ) -> penstock.pipes.iter.fields.Slicer:
        """Yield some of the fields of each item: from `index` up to `stop`, or those that a list names.

        With a number as `index`, a tuple or list is sliced as by `item[index:stop:step]`: without `stop`, to its end. Of
        a dict, `index` is the key of the one field that stays. With a list of indices (negative ones count from the end)
        or keys, those fields stay, in the order in which the item has them; `stop` and `step` have no meaning then. Tuples,
        lists and dicts come out, named tuples as plain ones. Fields that an item does not have are warned of.

        Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

        >>> dp = IterableWrapper([("a", 1, 2), ("b", 3, 4)]).slice(0, 2)
        >>> list(dp)
        [('a', 1), ('b', 3)]
        >>> list(IterableWrapper([{"text": "one", "id": 1, "url": "…"}]).slice(["text", "id"]))
        [{'text': 'one', 'id': 1}]
        """
        ...

    def threadpool_map(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        *,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
        **threadpool_kwargs: typing.Any,
    ) -> penstock.pipes.iter.parallel.ThreadPoolMapper:
        """Yield `fn(item)` for each item, called by `max_workers` threads at once, in the order of the items.

        Threads gain time where `fn` waits, as for a network, or computes outside of Python, as when it decodes an image;
        elsewhere use `processpool_map`. Up to `scheduled_tasks` items are read ahead before the first result comes. With
        `ordered=False`, results come as they are ready; then a state holds which these were, and going on gives the others.

        `input_col` and `output_col` are as for `map`. `max_workers` is by default the number of processors and four more,
        but no more than 32. What else ThreadPoolExecutor takes may be given by name: `thread_name_prefix`, `initializer`
        and `initargs`. `on_error` handles an item for which `fn` raises.

        The threads start with the first item and end with the pass. Closing drops what has not begun and waits for what
        has; RuntimeError is raised where that takes longer than half a minute.

        >>> dp = IterableWrapper(range(4)).threadpool_map(lambda x: x * 10, max_workers=2)
        >>> list(dp)
        [0, 10, 20, 30]
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
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.map.convert.IterToMapConverter[T]:
        """Give the values of a stream of (key, value) pairs by key; `key_value_fn` makes such pairs of other items.

        The stream is read whole, into memory, when the first item or the length is asked for, and once more where its
        random steps have other seeds when a pass begins. It is not part of a pickle or a copy, which read it again. Where a
        key comes more than once its last value stays, and a warning says so. `on_error` handles an item for
        which `key_value_fn` raises.

        Raises TypeError for an item that is no pair, and IndexError for a key that there is not.

        >>> dp = IterableWrapper("abc").enumerate().to_map_datapipe()
        >>> dp[1], len(dp)
        ('b', 3)
        >>> IterableWrapper(["a.txt", "b.png"]).to_map_datapipe(lambda name: (name[-3:], name))["png"]
        'b.png'
        """
        ...

    def to_tensors(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        dtypes: penstock.pipes.columns.tensors.Dtypes | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.formats.TensorMaker:
        """Yield each column batch as a dict of tensors by the names of its columns; text and bytes as lists.

        A column batch is a `pyarrow.RecordBatch` or `pyarrow.Table`, or a dict of tensors, arrays or lists of one length.
        `columns` names those that are wanted, in their order. `dtypes` is a dtype for all columns of numbers, or a dict of
        dtypes for some of the columns. The first dimension of each tensor are the rows. Arrow types map to:

        - integers and floats: a tensor of that dtype, in the same memory, which must not be written to
        - booleans: `torch.bool`
        - timestamps, dates, times of day, durations: `torch.int64`, counted in the unit of the type
        - decimals: what `dtypes` says, and without it an error
        - lists that all have one length, fixed-size lists, and fixed-shape tensors: tensors of that shape. Lists that are
          ragged are an error
        - dictionaries: the values that they stand for
        - text and bytes, and lists of these: lists of Python's, with None for null
        - images, as bytes, or as Hugging Face's structs of `bytes` and `path`: a list of bytes, not decoded
        - other structs, and maps: an error

        A null among numbers is an error, unless `dtypes` gives a float: then it is NaN. So is a value that the dtype in
        `dtypes` does not have: what is too large, and for integers fractions and NaN. Floats are rounded to shorter ones.

        `on_error` handles a batch that fails.

        Raises ValueError, which names the column and the row, for values of which no tensor is made, TypeError for types
        of which none is, and KeyError for a column that a batch does not have.

        >>> import pyarrow as pa, torch
        >>> batch = pa.record_batch({"id": [1, 2], "pair": [[1, 2], [3, 4]], "text": ["a", None]})
        >>> dp = IterableWrapper([batch]).to_tensors(dtypes={"pair": torch.int8})
        >>> list(dp)
        [{'id': tensor([1, 2]), 'pair': tensor([[1, 2],
                [3, 4]], dtype=torch.int8), 'text': ['a', None]}]
        """
        ...

    @typing.overload
    def unbatch(
        self: collections.abc.Iterable[list[T]],
        unbatch_level: typing.Literal[1] = 1,
    ) -> penstock.pipes.iter.group.UnBatcher[T]:
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

    @typing.overload
    def unbatch(self, unbatch_level: int) -> penstock.pipes.iter.group.UnBatcher[typing.Any]:
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

    def unzip(
        self: collections.abc.Iterable[collections.abc.Sequence[typing.Any]],
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: collections.abc.Sequence[int] | None = None,
    ) -> list[penstock.registry.IterDataPipe[typing.Any]]:
        """Give a list of pipes, one for each place in the items, which are sequences of `sequence_length`: its columns.

        The indices in `columns_to_skip` get no pipe. As to how far one pipe can be read ahead of another, and what belongs
        to one pass, see `fork`.

        Raises IndexError for an item that is too short.

        >>> letters, numbers = IterableWrapper([("a", 1), ("b", 2)]).unzip(2)
        >>> dp = numbers.zip(letters)
        >>> list(dp)
        [(1, 'a'), (2, 'b')]
        """
        ...

    def vmap(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        in_dims: typing.Any = 0,
        randomness: typing.Literal['error', 'different', 'same'] = 'error',
        *,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.batches.Vectorizer:
        """Yield what `fn` makes of each sample of a collated batch, computed for the whole batch at once.

        The batch is a tensor, or tuples, lists and dicts of tensors, as `collate` gives them, whose first dimension is the
        batch. `fn` is written for one sample, without that dimension, and `torch.func.vmap` runs it once for all of them;
        what it returns, tensors or tuples, lists and dicts of tensors, is yielded with the dimension put in front. With
        `input_col` and `output_col`, as for `map`, `fn` gets these columns of the batch, and the others may be anything.

        `in_dims` says which dimension of the tensors is the batch: for all, or laid out as `fn`'s argument is, or as a
        tuple with one for each column; None is for what is the same for all samples. `randomness` says what random
        operations in `fn` do: `"error"`, `"different"` numbers for each sample, or the `"same"`; they draw from torch's own
        generator. `on_error` handles a batch for which this fails.

        Raises what torch raises where `fn` cannot be vectorised, with advice.

        >>> dp = IterableWrapper([1.0, 2.0, 3.0]).batch(2).collate().vmap(lambda x: x * 2 if x.dim() == 0 else x)
        >>> list(dp)
        [tensor([2., 4.], dtype=torch.float64), tensor([6.], dtype=torch.float64)]
        """
        ...

    def webdataset(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.webdataset.WebDataset:
        """Yield a dict for each sample: consecutive files whose paths are the same up to the first dot of the name.

        From pairs of a path and a stream (or bytes, or anything else), as `load_from_tar` yields them. In the dict,
        `"__key__"` is the path up to that dot, with forward slashes, and what follows, dot included, such as `".seg.png"`,
        is the key of the stream. Files whose name has no dot, or begins with one, are metadata by convention: they are
        closed and left out. `on_error` handles a file that cannot be put in its sample: where the file is left
        out, the sample has its other ones. It cannot be a `Retry`.

        Raises ValueError for a file that the sample has already.

        >>> dp = IterableWrapper([("t.tar/1.txt", b"one"), ("t.tar/1.cls", b"1"), ("t.tar/2.txt", b"two")]).webdataset()
        >>> list(dp)
        [{'__key__': 't.tar/1', '.txt': b'one', '.cls': b'1'}, {'__key__': 't.tar/2', '.txt': b'two'}]
        """
        ...

    def with_format(
        self,
        format: typing.Literal['torch', 'numpy', 'pandas', 'arrow'],
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.formats.Formatter:
        """Yield each column batch in a format: `"torch"`, `"numpy"`, `"pandas"` or `"arrow"`.

        A column batch is a `pyarrow.RecordBatch` or `pyarrow.Table`, a data frame of pandas, or a dict of tensors, arrays
        or lists of one length. The column gets:

        - `"torch"`: a dict of tensors and lists, by the rules of `to_tensors`
        - `"numpy"`: a dict of arrays. Numbers, booleans, lists and tensors follow the rules of `to_tensors`. Timestamps,
          dates and durations are NumPy's own, with NaT for null; text, bytes and what has no dtype are arrays of objects
        - `"pandas"`: a `pandas.DataFrame`, as pyarrow makes it; a column of fixed-shape tensors is one of arrays
        - `"arrow"`: a `pyarrow.RecordBatch`. A tensor or array of more than one dimension has the type of fixed-shape
          tensors; a tensor that is on a device is copied to main memory

        `on_error` handles a batch that fails.

        Raises ValueError, which names the column and the row, for values that a format does not have, TypeError for types
        that it does not have.

        >>> import torch
        >>> dp = IterableWrapper([{"id": torch.tensor([1, 2]), "text": ["a", "b"]}]).with_format("numpy")
        >>> list(dp)
        [{'id': array([1, 2]), 'text': array(['a', 'b'], dtype=object)}]
        """
        ...

    def write_csv(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int,
        *,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_lines.CSVWriter:
        """Write CSV files of `rows_per_file` rows, each with a header, and yield the URL and the number of rows of each.

        It holds numbers, text and times, in UTF-8; text is quoted, null is an empty field. Items, `batched`, what
        `url_template` names, how files appear, the index, parts of a stream, resuming and `on_error` are as for
        `write_parquet`. Text with line breaks in it is read back with `newlines_in_values=True`.

        Raises TypeError, which names the column, for tensors with more dimensions than that of the rows, lists, bytes and
        what else has no place in a field, ValueError for null in a file of a single column, where its line would be empty,
        and what `write_parquet` raises.

        >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": "b"}])
        >>> dp = rows.write_csv("memory://columns/train-{shard:04d}.csv", rows_per_file=1000)
        >>> list(dp)
        [('memory://columns/train-0000.csv', 2)]
        >>> import fsspec
        >>> with fsspec.open("memory://columns/train-0000.csv", "rt") as file:
        ...     print(file.read().rstrip())
        "id","text"
        0,"a"
        1,"b"
        """
        ...

    def write_json(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int,
        *,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_lines.JSONWriter:
        """Write files of `rows_per_file` lines of JSON, an object for each row, and yield the URL and the rows of each.

        It holds numbers, text, booleans, lists and dicts of such, and null; tensors become lists, without their dtype.
        Items, `batched`, what `url_template` names, how files appear, the index, parts of a stream, resuming and `on_error`
        are as for `write_parquet`. Names end in `.json` or `.jsonl`.

        Raises TypeError, which names the column, for bytes, times and what else JSON does not have, ValueError for floats
        that are infinite or not a number, and what `write_parquet` raises.

        >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": None}])
        >>> dp = rows.write_json("memory://columns/train-{shard:04d}.jsonl", rows_per_file=1000)
        >>> list(dp)
        [('memory://columns/train-0000.jsonl', 2)]
        >>> import fsspec
        >>> with fsspec.open("memory://columns/train-0000.jsonl", "rt") as file:
        ...     print(file.read().rstrip())
        {"id":0,"text":"a"}
        {"id":1,"text":null}
        """
        ...

    def write_numpy(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int,
        *,
        column: str | None = None,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_columns.NumpyWriter:
        """Write files of NumPy of `rows_per_file` rows, and yield the URL and the number of rows of each.

        Where `url_template` ends in `.npz`, each file has all columns as arrays by their names; where it ends in `.npy`, it
        is the array of `column`. Arrays have the rows as their first dimension, and the dtype of the tensors and arrays;
        text is an array of `str`. They are written without pickle. What a file is to have is in memory until it is whole.

        Items, `batched`, the numbers of the files, how these appear, the index, parts of a stream, resuming and `on_error`
        are as for `write_parquet`.

        Raises KeyError for a `column` that there is not, TypeError, which names the column, for bytes, null and other
        values that NumPy could only pickle or would cut short, and ValueError for rows whose shapes differ, and for columns
        or dtypes that are not those before.

        >>> import torch
        >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
        >>> url = "memory://columns/train-{shard:04d}.npy"
        >>> dp = batches.write_numpy(url, rows_per_file=2, column="image", batched=True)
        >>> list(dp)
        [('memory://columns/train-0000.npy', 2), ('memory://columns/train-0001.npy', 1)]
        >>> import fsspec, numpy as np
        >>> with fsspec.open("memory://columns/train-0000.npy") as file:
        ...     np.load(file).shape
        (2, 2, 2)
        """
        ...

    def write_parquet(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int,
        *,
        rows_per_group: int | None = None,
        compression: str = 'snappy',
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_columns.ParquetWriter:
        """Write Parquet files of `rows_per_file` rows, and yield the URL and the number of rows of each.

        An item is a batch, which is a `pyarrow.RecordBatch`, a `pyarrow.Table` or a dict of tensors, arrays and lists with
        a value for each row, or a single row, which is a dict. Which of them dicts are, `batched` says, or else the chain:
        after `to_tensors` they are batches, after `rows` or `read_images` rows. Where its operators do not tell, as after
        `IterableWrapper` or `flatmap`, they are rows, and one with tensors and arrays, and perhaps lists, but nothing else
        is an error. Files have `rows_per_file` rows, the last what is left, however the batches are cut.

        Tensors and arrays with more dimensions than that of the rows are Arrow's fixed-shape tensors, and are read back in
        shape and dtype; those of rows as well, as lists where their shapes differ. Tensors on a device are copied to main
        memory. All batches must have the same columns and types. Of rows, those of the first 256 decide, and integers go
        among floats, and None anywhere.

        `url_template` names the files, locally or wherever fsspec leads: `{shard}`, or `{shard:06d}`, is the number of the
        file, from 0. On a local disk and in object stores a file appears, in the place of an earlier one, when it is
        whole. It is sent while it is written. `rows_per_group` is the number of rows of a row group, which is what is held
        in memory, and what `read_parquet` reads, shuffles and divides; without it, row groups have some 64 MiB in memory.
        `compression` is what `pyarrow.parquet.ParquetWriter` takes. Pages have checksums, which `read_parquet` verifies.

        A pass that ends has written an index, `_…index.json`, with the type of each of the `columns`, and for each file its
        `name`, `rows`, `bytes` and `sha256`. What reads folders as data sets, such as `read_parquet` and `pyarrow.dataset`,
        leaves it out, since it begins with `_`.

        Where several read parts of a stream, each writes files of its own: of n parts, the first has numbers 0, n, 2 n, …,
        its index is `_…index-0-of-n.json`. A `sharding_filter` belongs before this. Ranks that `DistributedReadingService`
        reads end with the shortest, and so would leave rows out: `apply_sharding(dp, ranks, rank)` instead. A chain that
        goes on from a state writes none again that it had handed out.

        `on_error` handles an item, a batch or a row, that cannot be written: one that is neither, or the columns
        or types of which are not those before it, or not of the format. Nothing of it is in a file. It cannot be a `Retry`.
        Where a file cannot be sent, that is an error. `storage_options` are options of the file system, such as
        `{"anon": True}`; without them credentials and endpoints come from the environment.

        Raises TypeError for an item that is neither batch nor row, and for values and types that Arrow or Parquet does not
        have, ValueError for a dict that may be both, and for columns or types that are not those before, all with the
        column and the number of the item; OSError, or an error of the file system's client, with the file's URL, where a
        file cannot be written; at construction ValueError, where the stream is divided otherwise than by `sharding_filter`.

        >>> import torch
        >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
        >>> dp = batches.write_parquet("memory://columns/train-{shard:04d}.parquet", rows_per_file=2, batched=True)
        >>> list(dp)
        [('memory://columns/train-0000.parquet', 2), ('memory://columns/train-0001.parquet', 1)]
        >>> import fsspec, pyarrow.parquet as pq
        >>> with fsspec.open("memory://columns/train-0001.parquet") as file:
        ...     pq.read_table(file).column("image").type.shape
        [2, 2]
        """
        ...

    def write_tar(
        self: collections.abc.Iterable[dict[str, typing.Any]],
        url_template: str | os.PathLike[str],
        samples_per_shard: int,
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.write_tar.TarWriter:
        """Write samples to tar archives of `samples_per_shard`, and yield the URL and the number of samples of each.

        A sample is a dict with its name in the archive at `"__key__"`, and the other keys are the extensions of its files,
        with a dot before or without, such as `"jpg"` or `".seg.png"`; those that begin with `__` are left out. Values are
        written so that `routed_decode` reads them again:

        - bytes and streams of bytes as they are; streams are closed;
        - str as UTF-8;
        - under `pt` and `pth`: tensors, and dicts and lists that hold some, by `torch.save`, on the CPU;
        - under `npy`: NumPy arrays;
        - int, float, bool, dict, list and NumPy's scalars: as JSON, which for an int is its digits.

        `url_template` names the shards, locally or wherever fsspec leads: `{shard}`, or `{shard:06d}`, is the number of the
        shard, from 0. A shard is sent while it is written, without a local file, in parts of 16 MiB of which a few are in
        memory; on a local disk and in object stores it appears, in the place of an earlier one, when it is whole. A pass
        that ends has written an index, with `index` for the number, and `.json`: for each shard its `name`, `samples`,
        `bytes` and `sha256`. Shards have the same bytes whenever they are written from the same samples.

        Where several read parts of a stream, each writes shards of its own: of n parts, the first has numbers 0, n, 2 n, …,
        its index is `…index-0-of-n.json`. A `sharding_filter` belongs before this. Ranks that `DistributedReadingService`
        reads end with the shortest, and so would leave shards out: `apply_sharding(dp, ranks, rank)` instead. A chain that
        goes on from a state writes none again that it had handed out.

        `on_error` handles a sample that cannot be written as said here; it cannot be a `Retry`. Where a shard
        cannot be sent, that is an error. Further arguments are options of the file system, such as `anon=True`; without
        them credentials and endpoints come from the environment.

        Raises TypeError for a value of another kind, and ValueError for a sample that would be read otherwise than it is:
        without files, with a key that has a dot in its last part or is absolute, or with the key of the one before it; at
        construction, where the stream is divided otherwise than by `sharding_filter`.

        >>> samples = IterableWrapper([{"__key__": f"{number:03d}", "cls": number, "txt": "…"} for number in range(5)])
        >>> dp = samples.write_tar("memory://shards/train-{shard:04d}.tar", samples_per_shard=2)
        >>> [(url.rpartition("/")[2], number) for url, number in dp]
        [('train-0000.tar', 2), ('train-0001.tar', 2), ('train-0002.tar', 1)]
        >>> tars = IterableWrapper(["memory://shards/train-0002.tar"]).open_files_by_fsspec("rb").load_from_tar()
        >>> list(tars.webdataset().routed_decode())
        [{'__key__': 'memory://shards/train-0002.tar/004', '.cls': 4, '.txt': '…'}]
        """
        ...

    @typing.overload
    def zip(
        self,
        second: penstock.registry.IterDataPipe[T2],
        /,
    ) -> penstock.pipes.iter.combine.Zipper[tuple[T_co, T2]]:
        """Yield tuples of one item from each source, until the shortest is exhausted.

        As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
        itself, fork it or build it twice: a pipe has one live iterator.

        >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
        >>> list(dp)
        [('a', 0), ('b', 1), ('c', 2)]
        """
        ...

    @typing.overload
    def zip(
        self,
        second: penstock.registry.IterDataPipe[T2],
        third: penstock.registry.IterDataPipe[T3],
        /,
    ) -> penstock.pipes.iter.combine.Zipper[tuple[T_co, T2, T3]]:
        """Yield tuples of one item from each source, until the shortest is exhausted.

        As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
        itself, fork it or build it twice: a pipe has one live iterator.

        >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
        >>> list(dp)
        [('a', 0), ('b', 1), ('c', 2)]
        """
        ...

    @typing.overload
    def zip(
        self,
        *sources: penstock.registry.IterDataPipe[typing.Any],
    ) -> penstock.pipes.iter.combine.Zipper[tuple[typing.Any, ...]]:
        """Yield tuples of one item from each source, until the shortest is exhausted.

        As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
        itself, fork it or build it twice: a pipe has one live iterator.

        >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
        >>> list(dp)
        [('a', 0), ('b', 1), ('c', 2)]
        """
        ...

    def zip_longest(
        self,
        *sources: penstock.registry.IterDataPipe[typing.Any],
        fill_value: typing.Any = None,
    ) -> penstock.pipes.iter.combine.ZipperLongest:
        """Yield tuples of one item from each source, until the longest is exhausted.

        In the places of the sources that are exhausted before stands `fill_value`.

        >>> dp = IterableWrapper("abc").zip_longest(IterableWrapper(range(2)), fill_value=-1)
        >>> list(dp)
        [('a', 0), ('b', 1), ('c', -1)]
        """
        ...

    def zip_with_iter(
        self,
        ref_datapipe: penstock.registry.IterDataPipe[typing.Any],
        key_fn: collections.abc.Callable[[typing.Any], collections.abc.Hashable],
        ref_key_fn: collections.abc.Callable[[typing.Any], collections.abc.Hashable] | None = None,
        keep_key: bool = False,
        buffer_size: int | None = 10000,
        merge_fn: collections.abc.Callable[[typing.Any, typing.Any], typing.Any] | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.join.IterKeyZipper:
        """Yield each item of the source together with the item of `ref_datapipe` that has the same key.

        The order is the source's. `ref_datapipe` is read as far as it takes to find the key, and what is passed over is
        held, up to `buffer_size` items (any number with None), until an item of the source asks for it. Each is used once;
        those that no item of the source asks for are left out. Keys are made by `key_fn`, and of the items of
        `ref_datapipe` by `ref_key_fn`, or also by `key_fn`. The two items come as a tuple, or as `merge_fn(item, ref_item)`
        makes them; with `keep_key` as a pair of the key and that.

        `on_error` handles an item for which a function raises, or which has no match.

        Raises KeyError for an item whose key `ref_datapipe` does not have; BufferError where it was not found and
        `buffer_size` items are held already; ValueError where a key comes again in `ref_datapipe` before it was used.

        >>> names = IterableWrapper([(2, "b"), (3, "c"), (1, "a")])
        >>> dp = IterableWrapper([1, 2]).zip_with_iter(names, key_fn=int, ref_key_fn=lambda pair: pair[0])
        >>> list(dp)
        [(1, (1, 'a')), (2, (2, 'b'))]
        """
        ...

    def zip_with_map(
        self,
        map_datapipe: penstock.registry.MapDataPipe[typing.Any],
        key_fn: collections.abc.Callable[[typing.Any], typing.Any],
        merge_fn: collections.abc.Callable[[typing.Any, typing.Any], typing.Any] | None = None,
        keep_key: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.join.MapKeyZipper:
        """Yield each item together with the item of a map-style pipe that its key finds there.

        `key_fn` makes the key, or the index. The two items come as a tuple, or as `merge_fn(item, found)` makes them; with
        `keep_key` as a pair of the key and that. `on_error` handles an item for which a function raises, or
        whose key is missing.

        Raises KeyError for an item whose key or index `map_datapipe` does not have.

        >>> names = ps.map.SequenceWrapper({1: "a", 2: "b"})
        >>> dp = IterableWrapper([2, 1]).zip_with_map(names, key_fn=int)
        >>> list(dp)
        [(2, 'b'), (1, 'a')]
        """
        ...

class MapMethods(penstock_plugins.MapMethods[T_co], Generic[T_co]):
    def __iter__(self) -> collections.abc.Iterator[T_co]: ...

    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: collections.abc.Callable[[list[T_co]], typing.Any] = ...,
    ) -> penstock.pipes.map.group.Batcher:
        """Give batches of `batch_size` items; the last one is shorter, or left out with `drop_last`, where they do not fit.

        The source is read by 0, 1, 2, …. Batches are numbered from 0, and negative numbers count from the end.
        `wrapper_class` makes a batch of a list; the default is a list that torch's `unbatch` knows. Where the source has
        `__getitems__`, the items of a batch are read by one call of it.

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

    def in_memory_cache(self) -> penstock.pipes.map.cache.InMemoryCacheHolder[T_co]:
        """Give each item of the source, which is asked for it once and not again.

        The same object is given each time, so what changes it in place changes it for ever. Indices that are equal have one
        item; that -1 and the last index do is not known. What cannot be a key of a dict, such as a slice, is not kept. The
        items belong to the process, which is to say to each worker: they do not travel with pickles or copies. Where random
        steps before it have other seeds when a pass begins, they are read anew.

        >>> dp = SequenceWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
        >>> dp[2], dp[2]
        reading 2
        (2, 2)
        """
        ...

    def map(
        self,
        fn: collections.abc.Callable[[T_co], R] = ...,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.map.transform.Mapper[R]:
        """Give fn(item) for each item, computed each time it is asked for.

        Indices and keys, negative ones included, go to the source as they are. `on_error` is `"raise"` or a `Retry`: what
        is read by index cannot be left out.

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

        The shuffle is global, over all items, and takes no memory: the order is computed piece by piece (see
        `penstock.pipes.bases.permutation`), and one of 10**9 begins, and resumes anywhere, at once. Up to 65,536 items
        all orders are equally likely. A `sharding_filter` right after it has only its own items read, and a `batch` right
        after either has those of each batch read by one call of `__getitems__`, where `source` has that.

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

        A `sharding_filter` right after it has only its own items read, and a `batch` right after either has those of each
        batch read by one call of `__getitems__`, where `source` has that, as data sets of Hugging Face and torch's do.

        >>> dp = SequenceWrapper("abc").to_iter_datapipe()
        >>> list(dp)
        ['a', 'b', 'c']
        >>> list(SequenceWrapper({"x": 1, "y": 2}).to_iter_datapipe(indices=["y", "x"]))
        [2, 1]
        """
        ...

    def unzip(
        self: collections.abc.Iterable[collections.abc.Sequence[typing.Any]],
        sequence_length: int,
        columns_to_skip: collections.abc.Sequence[int] | None = None,
    ) -> list[penstock.registry.MapDataPipe[typing.Any]]:
        """Give a list of pipes, one for each place in the items, which are sequences of `sequence_length`: its columns.

        The indices in `columns_to_skip` get no pipe. Each pipe reads the whole item when one of its own is asked for.

        Raises IndexError for an item that is too short.

        >>> letters, numbers = SequenceWrapper([("a", 1), ("b", 2)]).unzip(2)
        >>> dp = numbers.zip(letters)
        >>> list(dp)
        [(1, 'a'), (2, 'b')]
        """
        ...

    @typing.overload
    def zip(
        self,
        second: penstock.registry.MapDataPipe[T2],
        /,
    ) -> penstock.pipes.map.combine.Zipper[tuple[T_co, T2]]:
        """Give tuples of the items that the sources have at one index or key; as many as the shortest has.

        Negative indices count from the end of the shortest.

        >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
        >>> dp[0], dp[-1], len(dp)
        (('a', 10), ('c', 12), 3)
        """
        ...

    @typing.overload
    def zip(
        self,
        second: penstock.registry.MapDataPipe[T2],
        third: penstock.registry.MapDataPipe[T3],
        /,
    ) -> penstock.pipes.map.combine.Zipper[tuple[T_co, T2, T3]]:
        """Give tuples of the items that the sources have at one index or key; as many as the shortest has.

        Negative indices count from the end of the shortest.

        >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
        >>> dp[0], dp[-1], len(dp)
        (('a', 10), ('c', 12), 3)
        """
        ...

    @typing.overload
    def zip(
        self,
        *sources: penstock.registry.MapDataPipe[typing.Any],
    ) -> penstock.pipes.map.combine.Zipper[tuple[typing.Any, ...]]:
        """Give tuples of the items that the sources have at one index or key; as many as the shortest has.

        Negative indices count from the end of the shortest.

        >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
        >>> dp[0], dp[-1], len(dp)
        (('a', 10), ('c', 12), 3)
        """
        ...
