# Generated from the operators by `penstock stubs penstock`. Changes here are lost.

import collections.abc
import os
import typing
import penstock.pipes.bases.input_columns
import penstock.pipes.bases.writing.write_shards
import penstock.pipes.columns.schema
import penstock.pipes.columns.tensors
import penstock.pipes.files.images
import penstock.pipes.iter.ais
import penstock.pipes.iter.archive
import penstock.pipes.iter.batches
import penstock.pipes.iter.bucket
import penstock.pipes.iter.cache
import penstock.pipes.iter.combine
import penstock.pipes.iter.convert
import penstock.pipes.iter.dataframe
import penstock.pipes.iter.decode
import penstock.pipes.iter.decompress
import penstock.pipes.iter.device
import penstock.pipes.iter.disk_cache
import penstock.pipes.iter.enumerate
import penstock.pipes.iter.fields
import penstock.pipes.iter.file_cache
import penstock.pipes.iter.files
import penstock.pipes.iter.filter
import penstock.pipes.iter.formats
import penstock.pipes.iter.fullsync
import penstock.pipes.iter.group
import penstock.pipes.iter.hash
import penstock.pipes.iter.http
import penstock.pipes.iter.image_folder
import penstock.pipes.iter.interleave
import penstock.pipes.iter.iopath
import penstock.pipes.iter.join
import penstock.pipes.iter.lines
import penstock.pipes.iter.list_tables
import penstock.pipes.iter.map_pool
import penstock.pipes.iter.mix
import penstock.pipes.iter.pack
import penstock.pipes.iter.parallel
import penstock.pipes.iter.parse
import penstock.pipes.iter.prefetch
import penstock.pipes.iter.progress
import penstock.pipes.iter.random_split
import penstock.pipes.iter.rar
import penstock.pipes.iter.read_columns
import penstock.pipes.iter.read_files
import penstock.pipes.iter.read_videos
import penstock.pipes.iter.rebatch
import penstock.pipes.iter.repeat
import penstock.pipes.iter.row_groups
import penstock.pipes.iter.s3
import penstock.pipes.iter.sample
import penstock.pipes.iter.save
import penstock.pipes.iter.select_columns
import penstock.pipes.iter.shard
import penstock.pipes.iter.shard_files
import penstock.pipes.iter.shuffle
import penstock.pipes.iter.storage
import penstock.pipes.iter.tfrecord
import penstock.pipes.iter.transform
import penstock.pipes.iter.webdataset
import penstock.pipes.iter.write_columns
import penstock.pipes.iter.write_lines
import penstock.pipes.iter.write_tar
import penstock.pipes.map.cache
import penstock.pipes.map.combine
import penstock.pipes.map.convert
import penstock.pipes.map.filter
import penstock.pipes.map.group
import penstock.pipes.map.mix
import penstock.pipes.map.repeat
import penstock.pipes.map.shuffle
import penstock.pipes.map.subset
import penstock.pipes.map.transform
import penstock.pipes.vocabulary
import penstock.registry
import penstock.runner.loading.loader
import penstock.runner.services
import penstock.views.explanation
import penstock.views.pictures.picture
import penstock.views.profiles.profile
import penstock_plugins
import pyarrow  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute  # type: ignore[import-untyped, unused-ignore]
import ray.data  # type: ignore[import-untyped, unused-ignore]
import torch  # type: ignore[import-untyped, unused-ignore]
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
    ) -> penstock.pipes.iter.enumerate.IndexAdder:
        """Yield each dict with its running number, from 0 on, added under the key `index_name`.

        The outputs are copies: dicts of the source stay unchanged. An existing value under that key is replaced.

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
    ) -> penstock.pipes.iter.parallel.BatchAsyncMapper:
        """Yield what `await async_fn(item)` gives for each item, in order; many are awaited at once.

        Take it for coroutines, such as requests to a server. Up to `batch_size` items are read ahead, and `max_concurrency`
        of them are awaited at a time. Each pass has an event loop in its own thread, so this works in notebooks, where a
        loop already runs. With `flatten=False`, lists of `batch_size` results are yielded; the last may be short.

        `input_col` and `output_col` are as for `map`. `on_error` handles an item for which `async_fn` raises. Closing
        cancels the calls in progress. It raises RuntimeError for a call that has not ended half a minute later.

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

        Take it for items, `rebatch` for column batches, and `bucket_by_length` for items of like length. `wrapper_class`
        makes the batch from a list; a `DataChunk` is a list. Right after `shuffle` or `to_iter_datapipe` of a map-style
        pipe, or a `sharding_filter` after these, each batch is read by one call of `__getitems__` where the map-style pipe
        has it.

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
        """Yield batches of items whose lengths lie between the same two boundaries.

        Take it for batches with little padding; `bucketbatch` sorts pools of items instead, and `pack` needs no padding.
        With boundaries `[10, 20]` there are three buckets: for lengths below 10, from 10 to below 20, and of 20 or more.
        `len_fn` returns the length of an item. A batch is yielded as soon as its bucket has `batch_size` items;
        `batch_size` is one number, or one for each bucket. Items of a batch keep the order of the source. At the end,
        incomplete batches are yielded, shorter items first, or dropped with `drop_last`. `on_error` handles an item for
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
        """Yield batches of similar items, cut from buckets that are shuffled and then sorted.

        Take `bucket_by_length` where lengths have natural boundaries; this sorts pools of items. A bucket has the items of
        `batch_num` batches. `sort_key` takes the list of a bucket and returns it sorted. Items are shuffled before: in
        consecutive pools of `bucket_num` buckets, or, without `use_in_batch_shuffle`, in a buffer of that size, as
        `shuffle` does. The batches of a pool come in random order where it has several buckets; those of a single bucket
        keep its order. Without `use_in_batch_shuffle` they come in random order. Every item comes once. Only the last batch
        of the stream can be shorter than `batch_size`; it is yielded in its place, or dropped with `drop_last`.

        `on_error` handles a bucket for which `sort_key` raises. To batch by size without shuffling, use `bucket_by_length`
        or `max_token_bucketize`.

        Raises TypeError where `sort_key` does not return a list, and ValueError where the number of items differs.

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
        workers: int | typing.Literal['auto'] = 8,
        ordered: bool = True,
        timeout: float = 300,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.file_cache.FileCacher:
        """Yield the URL and a stream of the bytes of each file, given its URL: from a local disk after the first fetch.

        Take it where remote files are read more than once, and may be more than the disk has room for. This operator opens
        and fetches missing files itself, so it replaces the operator that opens:
        `urls.cache_files("/fast/cache", 2 * 10**12).load_from_tar()`. Cached files need no request to the server. Any
        number of programs, loaders and workers may share `directory`. One of them fetches a file; the others wait for up to
        `timeout` seconds, then read without the cache.

        The files in `directory` never exceed `max_bytes`: the least recently used are evicted. A file in use stays
        readable, and uses its space until it is closed. Where an epoch exceeds `max_bytes`, shuffle the URLs: in a fixed
        order, each file would be evicted just before its next use.

        The checksum of a file is verified before the file is yielded; a damaged or truncated file is fetched again. A file
        appears once it is complete. Leftovers of killed processes are removed when the next pass begins. Where the disk is
        full, or a file is too large, it is read without the cache; the first such file in a pass is logged as a warning.
        `stats` has the counts of `on_error`, `hits` and `misses`, which add up to the files, `corrupt` and `uncached`,
        which count as misses too, and `evictions`.

        A missing `directory` is made private to this user. To share one in a group, make it with `chmod 2770` and a `umask`
        of 002 for all users. Where everybody may write, as in `/tmp`, a file, link or folder of another user may have been
        planted. It is not used, unless the user is root or the owner of its folder, or the group shares it: the file is
        read without the cache, and a warning gives path and owner.

        `open(url)` returns a stream of bytes; if the stream has a `size`, it must have that many bytes. Without `open`,
        files are opened as by `load_files_by_s3`, with obstore or fsspec and their `storage_options`, such as
        `{"anon": True}`. Up to `workers` threads fetch or verify files; "auto" finds how many, up to 32. Files come in the
        order of the URLs, or, with `ordered=False`, as they are ready. `on_error` handles a file that cannot be fetched.
        Unless it is a `Retry`, lost connections and timeouts are retried up to 5 times first.

        The URL is the only key: changes on the server are not noticed, and two servers with the same URLs need two
        directories. Take `on_disk_cache` for data sets downloaded once: it keeps all files under names you choose, checks
        them against known digests, and can unpack or convert them.

        Raises TypeError for an item that is not a URL, and the errors of opening and reading a file.

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
        """Yield the path and the content of each file whose content has the expected digest.

        Takes pairs of a path and a content: a stream of bytes, bytes, or text, which counts as UTF-8. `hash_dict` maps
        paths to hexadecimal digests, and `hash_type` is the name of a hash in hashlib, such as `"sha256"` or `"md5"`. A
        stream is read and, with `rewind`, set back to its position; a stream that cannot seek is replaced by a copy, in
        memory or, above 16 MiB, in a temporary file. Without `rewind`, a stream is left at its end. `on_error` handles a
        file that fails; it cannot be a `Retry`.

        Raises RuntimeError for a content with another digest, and for a path missing in `hash_dict`, TypeError for a stream
        of text, and ValueError for an unknown hash.

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

        `conversion` (or its alias `collate_fn`) is a function of a batch. It may also be a dict from columns to functions,
        for batches that are lists of dicts or tuples: each function takes the list of values of its column, other columns
        go through `default_collate`, and a dict or tuple of the results is yielded. `on_error` handles a batch that fails.

        Raises the errors of the function: `default_collate` raises RuntimeError where shapes differ, and TypeError for
        types that it cannot collate.

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

        Take it for one source after another; `mux` takes turns, and `mix` draws. A pipe may be given several times: each
        time it is read again. `dp + other` is short for `dp.concat(other)`.

        >>> dp = IterableWrapper("ab").concat(IterableWrapper("cd"))
        >>> list(dp)
        ['a', 'b', 'c', 'd']
        """
        ...

    def cycle(self, count: int | None = None) -> penstock.pipes.iter.repeat.Cycler[T_co]:
        """Yield all items of the source `count` times over; without a count, for ever.

        Each time is a new pass: a shuffled source gives another order. The cycle ends at an empty pass, so a cycle of an
        empty source is empty.

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
    ) -> penstock.pipes.iter.dataframe.DataFrameMaker:
        """Yield a `pyarrow.Table` of each `dataframe_size` rows; the last may have fewer.

        A row is a dict, or a tuple or list with a value for each column; anything else is the value of a single column.
        `columns` names the columns; the default is those of `dtype`, or else the fields of named tuples or all keys of the
        dicts. A key that a dict lacks is null; other keys are ignored. Values are those of `pyarrow.array`, nested in
        dicts, lists and tuples too. Tensors and arrays become numbers, or nested lists of their dtype, one level per
        dimension.

        `dtype` is a `pyarrow.Schema`, a struct type, or one type for all `columns`; without it, types are inferred for each
        table. `dtype_generator` is a function that returns it, called when a pass begins. `device` is ignored: tables are
        in main memory.

        Raises ValueError for a row with another number of values than columns, or for columns without names, and the errors
        of `pyarrow.array` for values of another type: `pyarrow.ArrowInvalid`, a ValueError, or TypeError.

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

        Takes pairs of a path and a stream of bytes. `file_type` is `"gzip"`, `"bz2"`, `"lzma"` (xz too), `"zstd"`, `"tar"`,
        `"zip"`, or a `CompressionType`. Without it, the first bytes of each file decide, or else the ending of its name. An
        uncompressed tar or zip passes through, so `.decompress().load_from_tar()` reads tars with any compression or none.
        Paths stay as they are. Concatenated compressed parts are read as one stream. With `"tar"` or `"zip"`, an open
        `tarfile.TarFile` or `zipfile.ZipFile` replaces the stream; `load_from_tar` and `load_from_zip` yield the files in
        them. A zip that cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. A stream can seek
        where the compressed one can; seeking back decompresses again. A dropped stream is closed, and the compressed one
        with it. One call, such as `read` or `readline`, may return `max_bytes`, or a hundred times the compressed bytes;
        beyond that it raises ValueError. The same bound holds for a file of an open zip.

        `on_error` handles a file of unknown compression; it cannot be a `Retry`. Damage shows when the stream is read:
        OSError, or zipfile.BadZipFile for a zip, with the path of the file.

        Raises ValueError for an unknown `file_type`, RuntimeError for a file of unknown compression, TypeError for a stream
        of text, and ImportError where zstd needs a package that is not installed.

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
        """Give a list of `num_instances` pipes; one of them yields each item of the source.

        `classifier_fn(item)` returns the number of that pipe. With `drop_none`, items with None are left out. `on_error`
        handles an item for which it raises, or returns an invalid number: `"raise"`, `"skip"`, or a `Skip`, `Retry` or
        handler.

        Items pulled for another pipe wait in a buffer, at most `buffer_size` in all; -1 is no limit. For passes and
        threads, see `fork`.

        Raises ValueError for an invalid number, and BufferError where too many items wait.

        >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
        >>> dp = even.zip_longest(odd)
        >>> list(dp)
        [(0, 1), (2, 3), (4, None)]
        """
        ...

    def drop(self, indices: penstock.pipes.bases.input_columns.Columns) -> penstock.pipes.iter.fields.Dropper:
        """Yield each item without some of its fields.

        `indices` is an index of a tuple or list (negative from the end), a key of a dict, or a list of these. The outputs
        are tuples, lists and dicts; named tuples become plain ones. A field that an item lacks gives a warning.

        Raises TypeError for an item that is no tuple, list or dict, and for a key where items are tuples or lists.

        >>> dp = IterableWrapper([("a", 1, 2), ("b", 3, 4)]).drop(1)
        >>> list(dp)
        [('a', 2), ('b', 4)]
        >>> list(IterableWrapper([{"text": "one", "id": 1, "url": "…"}]).drop(["id", "url"]))
        [{'text': 'one'}]
        """
        ...

    def drop_columns(
        self,
        columns: str | collections.abc.Sequence[str],
    ) -> penstock.pipes.iter.select_columns.ColumnDropper:
        """Yield each row or column batch without some columns; `columns` is a name or a list of names.

        An item is a dict, a `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. `drop` does the
        same for tuples and lists.

        Raises KeyError for a column that an item lacks, and TypeError for an item without columns.

        >>> dp = IterableWrapper([{"id": 1, "text": "one", "url": "…"}]).drop_columns("url")
        >>> list(dp)
        [{'id': 1, 'text': 'one'}]
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
        ...

    def enumerate(self, starting_index: int = 0) -> penstock.pipes.iter.enumerate.Enumerator[T_co]:
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
    ) -> penstock.pipes.iter.filter.Filter[T_co]:
        """Yield the items for which `filter_fn(item)` is true.

        The truth of the result counts, as for the builtin `filter`: NumPy bools and tensors of one element work too. With
        `input_col`, an index or key or a list of them, `filter_fn` takes these columns as arguments; the complete item is
        yielded. `on_error` handles an item for which `filter_fn` raises.

        Raises TypeError for a `filter_fn` that is not callable, and ValueError for one that does not take that many
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
        """Yield all outputs of `fn(item)` for each item; without `fn`, the elements of each item.

        Take it where an item becomes several or none; `shuffled_flatmap` mixes the outputs of several items. `fn` returns
        an iterable, such as a list, or is a generator function. With `input_col`, it takes these columns of the item as
        arguments. `on_error` handles an item for which `fn` raises; outputs already yielded stay.

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
        """Yield all outputs of `fn(item)` for each item; without `fn`, the elements of each item.

        Take it where an item becomes several or none; `shuffled_flatmap` mixes the outputs of several items. `fn` returns
        an iterable, such as a list, or is a generator function. With `input_col`, it takes these columns of the item as
        arguments. `on_error` handles an item for which `fn` raises; outputs already yielded stay.

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
        """Yield all outputs of `fn(item)` for each item; without `fn`, the elements of each item.

        Take it where an item becomes several or none; `shuffled_flatmap` mixes the outputs of several items. `fn` returns
        an iterable, such as a list, or is a generator function. With `input_col`, it takes these columns of the item as
        arguments. `on_error` handles an item for which `fn` raises; outputs already yielded stay.

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
        """Yield each item with nested tuples, lists and dicts replaced by their fields, one level deep.

        Tuples and lists are flattened into a tuple or list, and dicts into a dict. `indices` is an index (negative from the
        end), a key, or a list of these; without it, all nested fields are flattened. Other fields stay as they are. Where a
        dict gets a key twice, the first value stays. That gives a warning, as does a field that an item lacks. The outputs
        are tuples, lists and dicts; named tuples become plain ones.

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
        """Give a list of `num_instances` pipes that each yield all items of the source, which is read once.

        Read the pipes in any order, together or one after the other. Items that one has read and another has not wait in a
        buffer. When `buffer_size` items wait for a pipe, no other can read on. With -1 there is no limit, and memory may
        run out. Nothing waits for a pipe that was dropped, or whose iterator was closed early.

        The pipes share passes over the source. A pipe that begins a pass joins the current pass of the others. If it has
        already read in that pass, the source begins a new one, and readers of the old one get a RuntimeError at the next
        step. The source is closed once no pipe can continue or join.

        Different threads may read the pipes, as with `prefetch` on one of them. The buffer must have room for the items
        read ahead.

        All pipes yield the same objects, unless `copy` is "shallow" or "deep": then each yields copies.

        Raises BufferError where a pipe is read too far ahead of another; it names the other.

        >>> first, second = IterableWrapper(range(3)).fork(2)
        >>> dp = first.zip(second.map(lambda x: x * 10))
        >>> list(dp)
        [(0, 0), (1, 10), (2, 20)]
        """
        ...

    def fullsync(self, timeout: float = 1800) -> penstock.pipes.iter.fullsync.FullSync[T_co]:
        """Yield the items as long as every rank has one, so that all ranks end together, with the shortest.

        The ranks are those of `torch.distributed`. Before each item they exchange whether they have one, in a separate gloo
        group. Where the source of one rank fails, the others raise RuntimeError at the same item. All ranks must begin
        their passes together, and must leave a pass early at the same item.

        `timeout` is how many seconds a rank waits for the others. With worker processes, this step and those after it run
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
        """Yield lists of items with the same key; `group_key_fn` returns an item's key.

        Items may come in any order: they are kept in a buffer. A group is yielded

        - as soon as it has `group_size` items, where that is given;
        - when `buffer_size` items are buffered: the largest group, the first of several, if it has at least
          `guaranteed_group_size` items (by default `group_size`, else 1). With `drop_remaining` a smaller one is dropped;
        - at the end of the source, whatever its size.

        The last groups come in the order of their first items. With `keep_key`, pairs of the key and the list are yielded.
        `on_error` handles an item for which `group_key_fn` raises.

        Raises RuntimeError where the largest group has fewer than `guaranteed_group_size` items when the buffer is full.

        >>> files = IterableWrapper(["a.png", "b.png", "a.json", "b.json", "c.png"])
        >>> dp = files.groupby(lambda path: path[0], buffer_size=4, group_size=2)
        >>> list(dp)
        [['a.png', 'a.json'], ['b.png', 'b.json'], ['c.png']]
        """
        ...

    def header(self, limit: int | None = 10) -> penstock.pipes.iter.filter.Header[T_co]:
        """Yield the first `limit` items, or all if it is None. No item after them is pulled.

        `len` is exact, so it raises TypeError where the length of the source is unknown.

        >>> dp = IterableWrapper(range(10)).header(3)
        >>> list(dp)
        [0, 1, 2]
        """
        ...

    def in_batch_shuffle(self) -> penstock.pipes.iter.shuffle.InBatchShuffler[T]:
        """Yield each batch with its items in a random order, as a new list.

        Raises TypeError for an item without a length or without an index.

        >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle().set_seed(1)
        >>> [sorted(batch) for batch in dp]
        [[0, 1, 2], [3, 4, 5]]
        """
        ...

    def in_memory_cache(self, size: float | None = None) -> penstock.pipes.iter.cache.InMemoryCacheHolder[T_co]:
        """Yield the items of the source, and keep them: after a complete pass, later ones read from memory.

        With a `size`, in megabytes (of 2**20 bytes), items are kept up to the first one over the limit, and a warning gives
        their number. Each pass reads the rest from the source. The size of an item includes the tensors, arrays, bytes and
        text in its containers and objects. If a pass is abandoned before the limit is reached, its items are dropped.

        Every pass yields the same objects. Changes in place are permanent, and a stream is at its end after the first pass:
        read streams before the cache. All passes have the order of the first: shuffle after the cache, not before. Cache
        before a fork: with a cache in one branch only, the branches are not read in step from the second pass on. Items are
        kept per process, so per worker. Pickles, copies and states do not contain them, and a resumed pass reads the source
        again from its start.

        >>> dp = IterableWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
        >>> list(dp), list(dp)
        reading 0
        reading 1
        reading 2
        ([0, 1, 2], [0, 1, 2])
        """
        ...

    def join(
        self,
        table: typing.Any,
        on: str | collections.abc.Sequence[str],
        *,
        how: typing.Literal['inner', 'left'] | None = None,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.join.Joiner:
        """Yield each column batch, or each row, with the columns of a table at its key.

        Take it for a table that fits in memory, such as labels by name; `zip_with_iter` joins two streams. An item is a
        batch, as `read_parquet` yields, or a row that is a dict. `batched` says which of the two a dict is, as for
        `write_parquet`; without it the chain decides. `table` is a `pyarrow.Table`, a data frame of pandas, a dict of
        columns or a list of rows that are dicts. `on` is the column that both have, or a list of several. The order of the
        rows stays.

        Each row needs its row in the table; without one it is an error. With `how="inner"` such rows are left out, and with
        `how="left"` they have null in the columns of the table. A null is no key, and neither is NaN. Numbers of different
        types compare by value, times with a zone by their instant. A batch gets columns of its own kind: Arrow's, tensors
        or arrays, with text as lists.

        `on_error` handles an item that fails. It cannot be a `Retry`.

        Raises KeyError for a key that the table lacks, and for an item without the column `on`. Raises ValueError where
        item and table have a column of the same name besides, and TypeError for keys of types that do not compare. At
        construction, raises ValueError for a key that the table has twice, KeyError where it lacks the column `on`, and
        TypeError for what is no table.

        >>> labels = {"name": ["a.png", "b.png"], "label": [1, 0]}
        >>> dp = IterableWrapper([{"name": "b.png"}, {"name": "a.png"}]).join(labels, on="name")
        >>> list(dp)
        [{'name': 'b.png', 'label': 0}, {'name': 'a.png', 'label': 1}]
        """
        ...

    def limit(self, limit: int) -> penstock.pipes.iter.sample.RowLimiter[T_co]:
        """Yield the first `limit` rows: of column batches, the last one is cut; of other items, each is a row.

        Batches are recognized by the operators before, as after `ps.read_parquet`, or as Arrow tables; `header` counts
        items of any kind. After a `sharding_filter`, the rows of all shards are counted together: in a `DataLoader2`, this
        step and all after it run in the loader's process.

        `len` is exact, so it raises TypeError where the length of the source is unknown, and for batches.

        >>> import pyarrow as pa
        >>> dp = IterableWrapper([pa.record_batch({"id": [0, 1]}), pa.record_batch({"id": [2, 3]})]).limit(3)
        >>> [batch.to_pydict() for batch in dp]
        [{'id': [0, 1]}, {'id': [2]}]
        >>> list(IterableWrapper("abc").limit(2))
        ['a', 'b']
        """
        ...

    def lines_to_paragraphs(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
        joiner: collections.abc.Callable[[list[typing.Any]], typing.Any] = ...,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.lines.ParagraphAggregator:
        """Yield the path and the text of each paragraph: consecutive lines of one path, up to an empty line.

        Takes pairs of a path and a line, as `readlines` yields them. `joiner` makes the text from the list of lines; the
        default joins them by line feeds. `on_error` handles a paragraph for which `joiner` raises.

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

        Take it for local folders, and `list_files_by_fsspec` for URLs. `root` is a path, a list of paths or an iterable
        pipe of them; a root that is a file is yielded itself. `masks` are shell patterns. The name of a file must match one
        of them; a mask with a slash is matched against the complete path. With `recursive`, subfolders are entered, except
        symbolic links. Unfinished files of this package are never listed. Paths begin with the root as given, or are
        absolute with `abspath`. With `non_deterministic`, the order is that of the file system. `len` returns `length`;
        without `length` it raises TypeError. `on_error` handles a root that cannot be listed; files already yielded stay.

        Raises FileNotFoundError for a missing root, and PermissionError for a folder that cannot be read. Resuming counts
        files, so it needs the sorted order and the same files.

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

        Take it for a cluster of AIStore. A prefix is a bucket and the start of a name, such as `ais://bucket/train-`, or
        the bucket alone. Its provider is `ais` or a cloud behind the cluster: `s3` (or `aws`), `gs` (or `gcp`), `azure`,
        `oci`. `url` is the endpoint of the cluster. The `aistore` package takes tokens and certificates from the
        environment and retries network failures. Objects come in the cluster's order, a page at a time. `len` returns
        `length`; without `length` it raises TypeError. `on_error` handles a prefix that cannot be listed.

        Raises the errors of `aistore`: `AISError` for a missing bucket, `requests.ConnectionError` (an OSError) for an
        unreachable cluster. Raises ImportError where `aistore` is not installed. Resuming counts objects within a prefix,
        so the objects must be the same.

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
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileLister:
        """Yield the URL of each file in a folder, in sorted order.

        Take it for one folder, on a disk or in any store; `list_files_by_s3` lists all that is below a prefix in S3. `root`
        is a URL or path, a list of them or an iterable pipe of them; a root that is a file is yielded itself. Subfolders
        are not entered. `masks` are shell patterns. The name of a file must match one of them; a mask with a slash is
        matched against the complete URL. URLs begin as the root does, chained ones (`simplecache::s3://…`,
        `zip://::data.zip`) included; a local path without `file://` gives absolute paths. `on_error` handles a root that
        cannot be listed; transient errors are retried up to five times, unless a `Retry` says otherwise. Options of the
        file system, such as `anon=True`, are given as `storage_options` or, as in torchdata, as further arguments; without
        them credentials and endpoints come from the environment.

        Raises FileNotFoundError for a missing root, and ImportError where the package for a protocol is missing. Resuming
        counts files, so the files must be the same.

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

        Take it only for paths that need handlers of iopath, and `list_files_by_fsspec` for all others. `root` is a path or
        URL, a list of them or an iterable pipe of them; a root that is a file is yielded itself. Subfolders are not
        entered. `masks` are shell patterns. The name of a file must match one of them; a mask with a slash is matched
        against the complete path. Paths begin with the root as given.

        `pathmgr` is the path manager of `iopath`; the default has handlers for local paths, HTTP, OneDrive and, where boto3
        is installed, S3. A `handler` is registered with it and replaces those for the same prefixes. For new code take
        `list_files_by_fsspec`: iopath sees little maintenance. `on_error` handles a root that cannot be listed.

        Raises FileNotFoundError for a missing local root, and ImportError where iopath is not installed. Resuming counts
        files, so the files must be the same.

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
        allow_empty: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.s3.S3FileLister:
        """Yield the URL of each object whose URL begins with a prefix, for each prefix.

        Take it for all objects below a prefix in S3, and `list_files_by_fsspec` for one folder or another store. A prefix
        is `s3://bucket/` with the start of a key, or the URL of an object. Objects in folders at any depth are included;
        those that represent a folder (their keys end in a slash) are not. Objects come in the order of their keys, a page
        of the listing at a time. `masks` are shell patterns. The name of an object must match one of them; a mask with a
        slash is matched against the complete URL. `len` returns `length`; without `length` it raises TypeError.
        `request_timeout_ms` is the timeout in milliseconds, and `region` that of the bucket. `storage_options` are those of
        s3fs, such as `anon`, `endpoint_url` or `profile`. All these take precedence over the environment, which otherwise
        gives endpoint, region and credentials. `on_error` handles a prefix that cannot be listed; each page is retried up
        to five times, unless a `Retry` says otherwise.

        Raises ValueError for a URL that is not of S3, FileNotFoundError for a missing bucket and, unless `allow_empty`, for
        a prefix without objects, and PermissionError for a bucket that may not be read, or without credentials. Resuming
        continues after the key of the last object, and needs the same objects after that.

        >>> shards = IterableWrapper(["s3://a-bucket/train/"]).list_files_by_s3(masks="*.tar", length=64)
        >>> len(shards)
        64
        >>> dp = IterableWrapper([]).list_files_by_s3()
        >>> list(dp)
        []
        """
        ...

    def list_image_folder(
        self,
        classes: collections.abc.Sequence[str] | None = None,
        *,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.image_folder.ImageFolderLister:
        """Yield each image below a folder with the number of its class, which is the sub-folder of the root that it is in.

        Take it to shuffle or shard the files yourself; `ps.read_image_folder(url)` begins with it. `read_images` takes the
        items, each a `LabelledFile` of `url` and `label`, and puts the label beside the image. `root` is the path or URL of
        a folder, a list of them or an iterable pipe of them. Images are listed as by `list_table_files`, in sorted order:
        also those in folders below that of their class.

        `class_to_idx` has the number of each class. Classes are numbered in sorted order, from 0, which is the same in each
        process that lists the same files. `classes` gives them, in another order, or where a root lacks some.

        All files are listed before the first is yielded, and again on resuming, which needs the same files.
        `storage_options` are options of the file system. `on_error` handles a root that cannot be listed.

        Raises FileNotFoundError for a root that is missing or has no image, and for a local class without one. Raises
        ValueError for an image that is in no sub-folder, and for a sub-folder that `classes` lacks.

        >>> import fsspec
        >>> fsspec.filesystem("memory").pipe({"/pets/cat/1.png": b"", "/pets/dog/2.png": b""})
        >>> dp = IterableWrapper(["memory://pets"]).list_image_folder()
        >>> list(dp)
        [LabelledFile(url='memory://pets/cat/1.png', label=0), LabelledFile(url='memory://pets/dog/2.png', label=1)]
        >>> dp.class_to_idx
        {'cat': 0, 'dog': 1}
        """
        ...

    def list_row_groups(
        self,
        filter: str | pyarrow.compute.Expression | None = None,
        *,
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.row_groups.RowGroupLister:
        """Yield a `RowGroup` for each row group of each Parquet file: the file's `url`, its `number`, how many `rows`.

        Take it where files are few and large, to shuffle and shard row groups in place of files. `read_parquet` takes them
        in place of paths, as in `.list_row_groups().shuffle().sharding_filter().read_parquet()`. Only the footers are read,
        of `prefetch` files at once. A row group is left out where the footer excludes a match of the `filter`.
        `storage_options` and `on_error` are as for `read_parquet`.

        Raises FileNotFoundError for a missing file, KeyError for a filter on a column that a file lacks, and
        `pyarrow.ArrowInvalid`, a ValueError, for a file that is not Parquet.

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

        Take it to shuffle or shard the files yourself; `ps.read_parquet(url)` and its like begin with it. `root` is a path
        or URL of a file, a folder or a pattern (`*`, `?`, `[…]`, `**`), a list of them or an iterable pipe of them. A file
        or folder of the very name comes before a pattern; a key of S3 that begins with a slash is no pattern. `kind` is
        `"parquet"`, `"csv"`, `"json"`, `"ipc"`, `"orc"`, `"images"`, `"videos"`, `"text"` or `"numpy"`. In a folder and its
        subfolders, files with the endings of the kind are listed, in upper or lower case:

        - `"parquet"`: parquet, parq, pq
        - `"csv"`: csv, tsv; `"json"`: json, jsonl, ndjson; each also with gz, bz2, zst or lz4 after it
        - `"ipc"`: arrow, arrows, feather, ipc; `"orc"`: orc
        - `"images"`: png, jpg, jpeg, jpe, jfif, bmp, gif, tif, tiff, webp, pbm, pgm, pnm, ppm
        - `"videos"`: mp4, m4v, mov, mkv, webm, avi, mpg, mpeg, ogv, wmv
        - `"text"`: txt, also with gz, bz2, zst or xz after it; `"numpy"`: npy, npz

        Other files are left out. `stats()` counts them as skipped, and names the last ones: a pattern lists them. Files and
        subfolders whose names begin with `_` or a dot are hidden: these are left out, and not counted. As in a shell, a
        pattern finds a name that begins with a dot by that dot alone.

        With `hive`, folders named `key=value`, above the root too, give their files a column: int64 where all its values
        are whole numbers, else string. `__HIVE_DEFAULT_PARTITION__` is null. For such files an `Origin` is yielded, with
        the `url` and the values; readers take it in place of a path. A file is left out where these values show that none
        of its rows match the `filter`, a `pyarrow.compute.Expression` or text.

        All files are listed before the first is yielded, and again on resuming, which needs the same files.
        `storage_options` are options of the file system. `on_error` handles a root that cannot be listed.

        Raises FileNotFoundError for a root that is missing or has no such file.

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

        Take it for a cluster of AIStore. A URL is a bucket and a name, such as `ais://bucket/train-0.tar`, with the
        providers of `list_files_by_ais`. `url` is the endpoint of the cluster. The `aistore` package resumes a stream that
        breaks off. A dropped stream is closed. `len` returns `length`, or else the length of the source. `on_error` handles
        an object that cannot be read.

        Raises the errors of `aistore`: `AISError` for a missing object, `requests.ConnectionError` (an OSError) for an
        unreachable cluster. Raises ImportError where `aistore` is not installed.

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
        workers: int | typing.Literal['auto'] = 32,
        max_bytes: int = ...,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.s3.S3FileLoader:
        """Yield the URL and a stream of the bytes of each object, given its URL; load many at once.

        Take it for many objects or files of the web; `open_files_by_fsspec` opens one at a time, and `cache_files` keeps
        them on a disk. Objects of `s3://`, `gs://`, `az://`, `https://` and `file://` are read by obstore, others by
        fsspec, as with `open_files_by_fsspec`. Objects up to 16 MB are loaded into memory; larger ones are read by ranges
        during use. `workers` limits the objects loading at a time; "auto" finds how many, up to 64. `max_bytes` limits the
        memory of objects loading, or loaded and not yet yielded; only the oldest may exceed it. With `ordered=False`,
        objects come as they are ready; a state then lists the finished ones, and resuming gives the others.

        `request_timeout_ms` is the timeout in milliseconds, by default 20 seconds, and 5 for connecting; `region` is that
        of the bucket. `storage_options` have the names of s3fs, such as `anon`, `endpoint_url`, `key`,
        `secret` or `profile`. All these take precedence over the environment, which otherwise gives endpoint, region and
        credentials, as for s3fs. `buffer_size` and `multi_part_download` are accepted for compatibility and ignored.
        `on_error` handles an object that cannot be loaded; transient errors are retried up to five times, unless a `Retry`
        says otherwise.

        Raises FileNotFoundError for a missing object, PermissionError for one that may not be read or without credentials,
        ConnectionError or TimeoutError for an unreachable server, and RuntimeError in a process forked from one that had
        loaded objects.

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

        Prefer `decompress`, for all compressions, where the paths do not matter. `len` returns `length`, or else the length
        of the source. Raises the errors of `decompress`, as do its streams.

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

        Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. A stream that
        cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. The path of a file is `archive
        path/name in the archive`. Directories and symbolic links are left out. `len` returns `length`; without `length` it
        raises TypeError. A stream stays readable until it is dropped. Files up to 16 MiB are in memory. A larger
        file, read at once, may have `max_bytes`, or a hundred times its compressed size where that is more. Stored files
        are read directly; a program unpacks compressed ones: unrar, unar, 7-Zip or bsdtar.

        `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

        Raises rarfile.BadRarFile for an archive that is truncated or corrupt, rarfile.RarCannotExec for a compressed file
        without a program to unpack it, RuntimeError for an archive that is encrypted or one volume of several, ValueError
        for a name that is absolute or leaves the archive by `..`, TypeError for a stream of text, and ImportError without
        the extra `rar`.

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

        Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. The path of a
        file is `archive path/name in the archive`. `mode` is as for `tarfile.open`: `"r:*"` detects the compression, and
        `"r|*"` never seeks. A stream that cannot seek is always read with `|`. Directories, symbolic links and devices hold
        no data and are left out; a warning at the end of the archive counts the links and devices. A hard link has the
        content of the file it names. `len` returns `length`; without `length` it raises TypeError.

        The stream of a file stays readable until it is dropped, whatever is read from the archive meanwhile. Files up to 16
        MiB are in memory. In an archive that cannot seek, read a larger file before requesting the next one; later its
        stream raises tarfile.StreamError.

        Checksums of compressed data are verified, the final one after the last file. The header of a file, with its name
        and metadata, may have `max_bytes` bytes. A large file of a compressed archive, read at once, may have the largest
        of 1 GiB, `max_bytes` and a hundred times the compressed bytes.

        `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

        Raises tarfile.ReadError for an archive that is corrupt, truncated or without an end mark. Raises ValueError for a
        name that is absolute or leaves the archive by `..`, and for a header of more than `max_bytes`. Raises TypeError for
        a stream of text.

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

        Take it for data that you have as TFRecord files; TensorFlow is not needed. Takes pairs of a path and a stream of
        bytes, which is closed at the end of the file. For compressed files, put `decompress` before. Records are
        `tf.train.Example` or `tf.train.SequenceExample` messages. A feature of numbers becomes a tensor of shape (values,),
        of float32 or int64; a feature of bytes, a list. A feature list, with values for each step, becomes a list of these.
        Names are sorted. Checksums are verified.

        `spec` selects features: it maps their names to (shape, dtype), either of which may be None, or to None. Tensors get
        the shape, in which one dimension may be -1, and the dtype. Bytes with a shape become nested lists, and with the
        shape `()` plain bytes. A feature list with a shape or dtype becomes one tensor, or one nested list, of all steps.
        Names come in the order of `spec`. `len` returns `length`; without `length` it raises TypeError.

        `on_error` handles a record that fails, such as one without a feature of `spec`; a corrupt record length fails the
        rest of the file. It cannot be a `Retry`.

        Raises RuntimeError for a truncated or corrupt file, and for a record that lacks a feature of `spec`, has it in
        another shape, or, without `spec`, has a name both in its context and in its feature lists. Raises TypeError for a
        dtype for bytes or a stream of text, and ImportError without the extra `tfrecord`.

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

        Prefer `decompress`, for all compressions, where the paths do not matter. `len` returns `length`, or else the length
        of the source. Raises the errors of `decompress`, as do its streams.

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

        Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. A stream that
        cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. The path of a file is `archive
        path/name in the archive`. Of several files of one name, the last is yielded, as `unzip` writes it. Directories are
        left out. A symbolic link is yielded as a file that holds the name of its target, as in torchdata, since the link
        flag has no checksum. `len` returns `length`; without `length` it raises TypeError. A file's stream stays
        readable until dropped. Files up to 16 MiB are in memory. A larger file, read at once, may have `max_bytes`, or a
        hundred times its compressed size where that is more.

        `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

        Raises zipfile.BadZipFile for an archive that is truncated or corrupt, and RuntimeError for an encrypted file.
        Raises ValueError for a name that is absolute or leaves the archive by `..`, and for a file beyond `max_bytes`.
        Raises TypeError for a stream of text.

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
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.dataframe.ParquetDataFrameLoader:
        """Yield a `pyarrow.Table` for each row group of each Parquet file.

        Prefer `read_parquet`, which reads ahead. Takes paths or URLs of fsspec. `columns` names the columns to read, by
        default those of `dtype`, or else all. Tables are converted to `dtype`: a `pyarrow.Schema`, a struct type, or one
        type for all `columns`. With `use_threads`, several threads decode columns. `device` is ignored: tables are in main
        memory. `storage_options` are for the file system. `on_error` handles a file that cannot be opened, or a row group
        that cannot be read.

        Raises FileNotFoundError for a missing file, KeyError for a column that a file lacks, and `pyarrow.ArrowInvalid`, a
        ValueError, for a file that is not Parquet, or values of another type.

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

        Start with this. Take `threadpool_map` where `fn` waits, `processpool_map` where it computes in Python, and
        `map_pool` for a model. With `input_col`, an index or key or a list of them, `fn` takes these columns of the item as
        arguments, and the item is yielded with the result at `output_col`; -1 appends to a tuple or list. Without
        `output_col`, the result replaces the first input column, and the other input columns are removed. Named tuples stay
        named tuples if their fields stay. Items of the source are copied, never changed.

        With `rng=True`, `fn` takes a further argument, the last: a `torch.Generator` on the CPU, and with `rng="numpy"` a
        `numpy.random.Generator`. Each item has its own, seeded by the seed of the epoch and its number in its shard: what
        `fn` draws is the same on any number of workers, after resuming, and when it is tried again.

        `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

        Raises TypeError for an `fn` that is not callable, and ValueError for one that does not take that many columns, or
        for an `output_col` without an `input_col`.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
        >>> list(dp)
        [1, 2, 3]
        >>> noisy = IterableWrapper([1.0, 1.0]).map(lambda x, rng: x + rng.random(), rng="numpy").set_seed(1)
        >>> [round(number, 2) for number in noisy]
        [1.77, 1.11]
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
        rng: bool | typing.Literal['numpy'] = False,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Mapper[typing.Any]:
        """Yield `fn(item)` for each item.

        Start with this. Take `threadpool_map` where `fn` waits, `processpool_map` where it computes in Python, and
        `map_pool` for a model. With `input_col`, an index or key or a list of them, `fn` takes these columns of the item as
        arguments, and the item is yielded with the result at `output_col`; -1 appends to a tuple or list. Without
        `output_col`, the result replaces the first input column, and the other input columns are removed. Named tuples stay
        named tuples if their fields stay. Items of the source are copied, never changed.

        With `rng=True`, `fn` takes a further argument, the last: a `torch.Generator` on the CPU, and with `rng="numpy"` a
        `numpy.random.Generator`. Each item has its own, seeded by the seed of the epoch and its number in its shard: what
        `fn` draws is the same on any number of workers, after resuming, and when it is tried again.

        `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

        Raises TypeError for an `fn` that is not callable, and ValueError for one that does not take that many columns, or
        for an `output_col` without an `input_col`.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
        >>> list(dp)
        [1, 2, 3]
        >>> noisy = IterableWrapper([1.0, 1.0]).map(lambda x, rng: x + rng.random(), rng="numpy").set_seed(1)
        >>> [round(number, 2) for number in noisy]
        [1.77, 1.11]
        >>> list(IterableWrapper([("a", 1, 2)]).map(lambda x, y: x + y, input_col=[1, 2]))
        [('a', 3)]
        >>> list(IterableWrapper([{"a": 1}]).map(str, input_col="a", output_col="b"))
        [{'a': 1, 'b': '1'}]
        """
        ...

    @typing.overload
    def map(
        self,
        fn: collections.abc.Callable[[T_co, typing.Any], R],
        input_col: None = None,
        output_col: None = None,
        *,
        rng: typing.Literal[True, 'numpy'],
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.transform.Mapper[R]:
        """Yield `fn(item)` for each item.

        Start with this. Take `threadpool_map` where `fn` waits, `processpool_map` where it computes in Python, and
        `map_pool` for a model. With `input_col`, an index or key or a list of them, `fn` takes these columns of the item as
        arguments, and the item is yielded with the result at `output_col`; -1 appends to a tuple or list. Without
        `output_col`, the result replaces the first input column, and the other input columns are removed. Named tuples stay
        named tuples if their fields stay. Items of the source are copied, never changed.

        With `rng=True`, `fn` takes a further argument, the last: a `torch.Generator` on the CPU, and with `rng="numpy"` a
        `numpy.random.Generator`. Each item has its own, seeded by the seed of the epoch and its number in its shard: what
        `fn` draws is the same on any number of workers, after resuming, and when it is tried again.

        `on_error` handles an item for which `fn` raises: `"raise"`, `"skip"`, or a `Skip`, `Retry` or handler.

        Raises TypeError for an `fn` that is not callable, and ValueError for one that does not take that many columns, or
        for an `output_col` without an `input_col`.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
        >>> list(dp)
        [1, 2, 3]
        >>> noisy = IterableWrapper([1.0, 1.0]).map(lambda x, rng: x + rng.random(), rng="numpy").set_seed(1)
        >>> [round(number, 2) for number in noisy]
        [1.77, 1.11]
        >>> list(IterableWrapper([("a", 1, 2)]).map(lambda x, y: x + y, input_col=[1, 2]))
        [('a', 3)]
        >>> list(IterableWrapper([{"a": 1}]).map(str, input_col="a", output_col="b"))
        [{'a': 1, 'b': '1'}]
        """
        ...

    def map_batches(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        batch_size: int | None = None,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        *,
        batch_format: typing.Literal['numpy', 'torch', 'pandas', 'arrow'] = 'numpy',
        concurrency: int | None = None,
        compute: typing.Any = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.batches.BatchMapper:
        """Yield all that `fn(batch)` gives, one after another, for each batch of `batch_size` items; the last may be short.

        Take it where `fn` is faster on many items at once. What a batch is follows from the operators before:

        - A list of items, and `fn` returns an iterable of items, of any length, or is a generator function. With
          `input_col`, `fn` takes one list of values for each of these columns; its outputs replace the items.
        - Columns, where the items are column batches, as after `ps.read_parquet` and `ps.from_numpy`, or rows that are
          dicts, as after `ps.read_images` and `ps.from_items`. `fn` gets the columns in a `batch_format`, and may change
          them: `"numpy"`, a dict of arrays, `"torch"`, `"pandas"` or `"arrow"`, as for `with_format`. It returns a dict of
          arrays, tensors and lists, a table or a data frame, or is a generator function of such. Batches in give batches
          out, and rows give rows. Without a `batch_size`, `fn` gets each column batch as it comes, and 1,024 rows.
          In a data frame, null among numbers is NaN. In a data frame that `fn` returns, NaN is null again in columns of
          those names, and numbers that were integers are again, where all of them fit; in other columns NaN stays NaN.

        `concurrency` is the number of processes that call `fn`, in the order of the stream. If `fn` is a class whose
        instances can be called, or a `functools.partial` of one, each process makes one, as for `map_pool`, which does the
        work; without a `concurrency` there is one process. Ray's
        `compute=ActorPoolStrategy(size=2)` means two actors of Ray. `on_error` handles a batch for which `fn` raises.
        A skipped batch counts as one failure.

        Raises TypeError where `fn` returns something else: a dict, text or bytes in place of items, or a list in place of
        columns.

        >>> dp = IterableWrapper(range(5)).map_batches(lambda batch: [sum(batch)], batch_size=2)
        >>> list(dp)
        [1, 5, 4]
        >>> list(IterableWrapper([("a", 1), ("b", 2)]).map_batches(lambda numbers: [max(numbers)], 2, input_col=1))
        [2]
        >>> import penstock as ps
        >>> list(ps.from_items([{"x": 1}, {"x": 2}]).map_batches(lambda batch: {"y": batch["x"] * 10}, batch_size=2))
        [{'y': np.int64(10)}, {'y': np.int64(20)}]
        """
        ...

    def map_pool(
        self,
        model: collections.abc.Callable[..., collections.abc.Callable[[typing.Any], typing.Any]],
        *,
        workers: int | typing.Literal['auto'] = 2,
        batch_size: int | None = None,
        device: str | int | torch.device | None = None,
        prefetch: int | typing.Literal['auto'] | None = None,
        engine: typing.Literal['processes', 'threads', 'ray'] = 'processes',
        resources_per_worker: collections.abc.Mapping[str, float] | None = None,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.map_pool.ModelPoolMapper:
        """Yield a model's result for each item, in order; `workers` models work at once.

        Take it for a model that is slow to make: each worker makes it once. `model` is a class with callable instances, or
        a function that returns a callable, such as `functools.partial(Predictor, "weights.pt")`. Each worker makes its
        model once and calls it on one item after another, in all passes. `engine` decides what the workers are:

        - `"processes"` of this machine.
        - `"threads"` of this process: nothing is pickled or copied. This is faster for small models, whose computation
          takes less time than sending an item to another process. torch's operations run in parallel in threads.
        - `"ray"`: Ray actors, on any machine of a cluster. `resources_per_worker` are those of each actor, by default
          `{"CPU": 1}`: "CPU", "GPU", and custom resources of the cluster's nodes.

        With `batch_size`, the model is called with batches of that many rows, and its results are yielded. Batches of
        columns are cut to that size, as by `rebatch`; rows are put into lists. `batched` says which of the two they are;
        without it, the chain decides, as for `write_parquet`. Without `batch_size`, the model is called with the items as
        they are.

        A `torch.nn.Module` is put in eval mode and called in `torch.inference_mode`; so is called any object with an
        attribute `inference_mode = True`. Outputs of threads are then inference tensors, without gradients. With `device`,
        the model is made with `device=` where it has such a parameter; otherwise a module is moved there. Tensors in the
        items are moved to the device before each call, and those in the results back to the CPU.

        Up to `prefetch` items, by default two per worker, are read ahead. With "auto", `workers` and `prefetch` are found
        by measuring, up to the number of processors or 32 threads, and within a tenth of the free memory. `on_error`
        handles an item for which the model raises. As with `processpool_map`, each process has one torch thread and lives
        as long as the pipe; in the workers of a loader, each shard has its own processes.

        Actors live as long as the pipe, too, and end with the program. They run on the Ray cluster that the program is
        connected to, or connects to at first use. Workers of a loader use the same cluster, if the program connects before
        the chain is sent to them, or the one at `RAY_ADDRESS`. An actor has one item at a time. Tensors and arrays are
        copied into and out of Ray's memory, so they are writable. Torch has as many threads in an actor as the actor has
        CPUs. A pass begins with the actors that have started. Others join when they start; a RuntimeWarning comes after 30
        seconds.

        Raises TypeError where `model` needs arguments, returns something not callable, or cannot take a device, ValueError
        for a dict that may be batch or row and for resources that Ray actors do not have, ImportError where Ray is not
        installed. Raises RuntimeError, with the cause and the item, where a process or actor dies; `on_error` handles this
        as any failure of an item, and a new worker takes the next item.

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
        """Yield batches with at most `max_token_count` tokens in all, shorter items first.

        Take it where memory bounds the tokens of a batch. `len_fn` returns the number of tokens of an item. Up to
        `buffer_size` items are kept. When the buffer is full, the shortest item, the first of several, goes into the batch;
        a batch is yielded when the next item no longer fits. At the end, the kept items follow in order of length. With
        `include_padding`, the size of the batch padded to its longest item counts. Items shorter than `min_len` or longer
        than `max_len` are left out. Batches of similar length follow each other: put `shuffle` before this and after it to
        mix them.

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
        """Yield items of several sources; a random draw by weight chooses the source of each item.

        Take it to train on several corpora; `mux` takes turns in place of drawing. `weights` has one number for each
        source, the first included. They need not add up to 1; without them all sources are equally likely. With
        `until="longest"`, the default, the other sources continue, by their weights, when one is exhausted. With
        `"shortest"`, the mix ends when an exhausted source is drawn. For constant proportions, make the sources endless:
        `a.cycle().mix(b.cycle(), weights=[3, 1])`.

        Raises TypeError for weights that are not a list of numbers, and ValueError where their number differs from that of
        the sources, or a weight is not finite and positive.

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

        Take it for strict turns. Only complete rounds are yielded: items of an incomplete last round are dropped.
        `mux_longest` continues with the other sources. `mix` draws the next source by weight.

        >>> dp = IterableWrapper("abc").mux(IterableWrapper("xy"))
        >>> list(dp)
        ['a', 'x', 'b', 'y']
        """
        ...

    def mux_longest(
        self,
        *sources: penstock.registry.IterDataPipe[T],
    ) -> penstock.pipes.iter.combine.MultiplexerLongest[T_co | T]:
        """Yield one item from each source in turn, skipping exhausted ones, until all are exhausted.

        Take it for turns in which no item is dropped; `mux` ends with the shortest source.

        >>> dp = IterableWrapper("abc").mux_longest(IterableWrapper("x"))
        >>> list(dp)
        ['a', 'x', 'b', 'c']
        """
        ...

    def on_disk_cache(
        self,
        filepath_fn: collections.abc.Callable[[typing.Any], penstock.pipes.iter.disk_cache.OnePathOrMore] | None = None,
        hash_dict: collections.abc.Mapping[str, str] | None = None,
        hash_type: str = 'sha256',
        extra_check_fn: collections.abc.Callable[[str], bool] | None = None,
    ) -> penstock.pipes.iter.disk_cache.OnDiskCacheHolder[T_co]:
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

        Take it for local files, and `open_files_by_fsspec` for URLs. `mode` is `"r"`, `"rt"` or `"t"` for text, in the
        given `encoding` or else the locale's, without the byte order mark of UTF-8, `"rb"` or `"b"` for bytes. A stream
        stays readable until it is dropped, which closes it. `len` returns `length`, or else the length of the source.
        `on_error` handles a file that cannot be opened.

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
        allow_commands: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.storage.FSSpecFileOpener:
        """Yield the URL and the stream of each file.

        Take it for URLs where one stream at a time is enough, or for text; `load_files_by_s3` loads many at once. `mode` is
        `"r"`, `"rt"` or `"t"` for text, without the byte order mark of UTF-8, `"rb"` or `"b"` for bytes. `kwargs_for_open`
        are arguments for opening a file, such as `encoding` or `compression`. `on_error` handles a file that cannot be
        opened. Transient errors, of opening and of reading, are retried up to five times, unless a `Retry` says otherwise:
        a stream goes on where it broke. Options of the file system, such as `anon=True`, are given as `storage_options` or,
        as in torchdata, as further arguments; without them credentials and endpoints come from the environment. A stream
        stays readable until it is dropped, which closes it.

        With `allow_commands`, `pipe:` and a command, such as `pipe:curl -s https://host/a.tar`, is an address of what the
        command writes. The shell runs it, with all that this process may do: allow it only for addresses that you trust.
        Errors show the command: let the shell take secrets from the environment, as `$TOKEN`. Dropping the stream ends the
        command; reading raises OSError where it fails.

        Raises ValueError for a command that is not allowed, FileNotFoundError for a missing file, and ImportError where the
        package for a protocol is missing. Reading raises OSError for a file that was replaced since it was opened.

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

        Take it only for paths that need handlers of iopath, and `open_files_by_fsspec` for all others. `mode` is `"r"`,
        `"rt"` or `"t"` for text, in the locale's encoding, `"rb"` or `"b"` for bytes. A stream stays readable until it is
        dropped, which closes it. `pathmgr` and `handler` are as for `list_files_by_iopath`; a handler opens
        files as bytes. `on_error` handles a file that cannot be opened; transient errors are retried up to five times,
        unless a `Retry` says otherwise. iopath downloads a file of the web when it is opened.

        Raises FileNotFoundError for a missing file, ConnectionError or TimeoutError for an unreachable server, and
        ImportError where iopath is not installed.

        >>> import json, os
        >>> dp = FileLister(os.path.dirname(json.__file__), "*coder.py").open_files_by_iopath()
        >>> [stream.readline().strip('"\\n') for path, stream in dp]
        ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
        """
        ...

    def pack(
        self,
        length: int | collections.abc.Mapping[str, int],
        method: typing.Literal['greedy', 'first_fit', 'best_fit'] = 'greedy',
        *,
        bos: int | collections.abc.Mapping[str, int] | None = None,
        eos: int | collections.abc.Mapping[str, int] | None = None,
        repeat_bos: bool = False,
        pad_value: float | collections.abc.Mapping[str, float] = 0,
        overlong: typing.Literal['raise', 'split', 'truncate'] = 'raise',
        buffer_size: int = 100,
        cu_seqlens: bool = False,
        drop_last: bool = False,
    ) -> penstock.pipes.iter.pack.Packer:
        """Yield sequences of tokens packed to exactly `length` tokens, as a dict that keeps the boundaries.

        An item is a sequence of tokens: a list, or a NumPy array or tensor of one dimension. A pack has

        - `tokens`: `length` tokens of several sequences, of the kind and dtype of theirs, and after them `pad_value`
        - `document_ids`: for each token the number of its sequence in the pack, from 1, and 0 where it is padding
        - `position_ids`: for each token its place in its sequence, from 0; padding counts as a sequence here
        - `cu_seqlens`, if asked for: where the sequences begin, padding included, and then `length`, as int32: the offsets
          that variable-length attention expects. Packs have various numbers of them, so they do not stack.

        An item may also be a dict of sequences of equal length, such as `{"input_ids": …, "labels": …}`. They are packed
        alike, under their names; `pad_value` can then be a dict, with 0 for missing names. Batches of columns need `rows`
        before, as after `read_json` or `map_batches`.

        With `method="greedy"`, sequences are concatenated and cut at every `length` tokens. Only the last pack has padding,
        and `drop_last=True` drops it.
        A sequence may continue in the next pack, as a new sequence with its own ids there. With `"first_fit"`, none is cut:
        each goes into the oldest open pack that has room, and with `"best_fit"` into the one that it fills best; otherwise
        into a new one. If `buffer_size` packs are open by then, the oldest is yielded first. A sequence longer than
        `length` is an error; `overlong="split"` cuts it into several, `"truncate"` keeps its beginning. Empty sequences are
        dropped.

        For a dict of sequences that differ in length, `length` is a dict too: `{"inputs": 8, "targets": 4}`, with the names
        that the items have. An item goes into a pack where all its sequences fit, and a pack is full once one of its
        sequences is. Each name has ids of its own, such as `inputs_document_ids` and `inputs_position_ids`; an item has the
        same number in all. Only `"first_fit"` and `"best_fit"` take such lengths, and the latter compares the sum of the
        room. They cut no sequence: `overlong="split"` is an error.

        `bos` and `eos` are tokens to put before and after each sequence, first of all: they count for all lengths and ids,
        and `"truncate"` cuts off `eos`. For dicts they are one token for all sequences, or a dict of one for each; of those
        that share a length, all get one, such as `bos={"input_ids": 1, "labels": -100}`. With `repeat_bos`, the rest of a
        sequence that was cut begins with `bos` again, so that every pack does.

        Raises TypeError for items that are not such sequences, are batches of them, or differ in kind or dtype in one pack,
        and ValueError for a dict whose sequences differ in length without a length for each, or has other names than
        `length`, and for a sequence that is too long.

        >>> dp = IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4)
        >>> for pack in dp:
        ...     print(pack["tokens"], pack["document_ids"], pack["position_ids"])
        [1, 2, 3, 4] [1, 1, 1, 2] [0, 1, 2, 0]
        [5, 6, 0, 0] [1, 2, 0, 0] [0, 0, 0, 1]
        >>> [pack["tokens"] for pack in IterableWrapper([[1, 2, 3], [4, 5], [6]]).pack(4, "best_fit")]
        [[1, 2, 3, 6], [4, 5, 0, 0]]
        >>> [pack["tokens"] for pack in IterableWrapper([[11, 12, 13], [14]]).pack(4, bos=1, eos=2, repeat_bos=True)]
        [[1, 11, 12, 13], [1, 2, 1, 14], [1, 2, 0, 0]]
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
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
        **fmtparams: typing.Any,
    ) -> penstock.pipes.iter.parse.CSVParser:
        """Yield each row of each stream of CSV as a list of strings; with `as_tuple` as a tuple.

        Take it for rows as lists, `parse_csv_as_dict` for names, and `read_csv` for columns, which Arrow parses. Takes
        pairs of a path and a stream, which is closed at its end. With `return_path`, pairs of the path and the row are
        yielded. The first `skip_lines` lines of each stream are left out. A stream of bytes is decoded from `encoding`,
        without the byte order mark with which UTF-8 may begin, as from a spreadsheet. `errors` handles invalid bytes, as
        for `bytes.decode`: the default, `"ignore"`, drops them. With `decode=False`, streams must be of text. A line may
        have `max_bytes` characters; beyond that it raises ValueError. `fmtparams` are arguments of `csv.reader`, such as
        `delimiter`. `on_error` handles a stream that cannot be read; rows already yielded stay. It cannot be a `Retry`.

        Raises TypeError for `fmtparams` that `csv.reader` does not know, LookupError for an unknown encoding, and
        csv.Error, with the number of the line, for invalid CSV.

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
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
        **fmtparams: typing.Any,
    ) -> penstock.pipes.iter.parse.CSVDictParser:
        """Yield each row of each stream of CSV as a dict, whose keys are the first row of the stream.

        Take it for rows with names, and `read_csv` for columns, which Arrow parses. The arguments are as for `parse_csv`,
        except that `fmtparams` are those of `csv.DictReader`. In addition to those of `csv.reader` these are `fieldnames`,
        the keys where the first row is data, `restkey`, the key for the list of surplus values of a row, and `restval`, the
        value for missing ones. The last two are None by default. Empty rows are left out.

        >>> import io
        >>> dp = IterableWrapper([("a.csv", io.StringIO("id,text\\n1,one\\n2,two\\n"))]).parse_csv_as_dict()
        >>> list(dp)
        [{'id': '1', 'text': 'one'}, {'id': '2', 'text': 'two'}]
        """
        ...

    def parse_json(
        self,
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.parse.JsonLineParser:
        """Yield the value of each line of JSON: of text or bytes, of a pair of path and line, of a row of `read_text`.

        Take it for JSON lines whose fields differ from line to line, or that fit no column; `read_json` is faster for
        columns. Lines come from `ps.read_text(paths)`, whose rows have the `"text"`, or from `readlines`. Of a pair, the
        path stays: a pair of the path and the value is yielded. `kwargs` are arguments of `json.loads`, such as
        `parse_float`. Blank lines are an error; `read_text` leaves them out. The byte order mark at the start of a
        file is left out. `on_error` handles a line that cannot be parsed. It cannot be a `Retry`.

        Raises json.JSONDecodeError for invalid JSON, whose note names file and line, TypeError for an item that is no line,
        and for `kwargs` that `json.loads` does not know.

        >>> import os, tempfile
        >>> import penstock as ps
        >>> path = os.path.join(tempfile.mkdtemp(), "texts.jsonl")
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"text": "one"}\\n{"text": "two", "tags": [1, "b"]}\\n')
        >>> dp = ps.read_text(path).parse_json()
        >>> list(dp)
        [{'text': 'one'}, {'text': 'two', 'tags': [1, 'b']}]
        """
        ...

    def parse_json_files(
        self: collections.abc.Iterable[tuple[str, typing.IO[typing.Any]]],
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.parse.JsonParser:
        """Yield the path of each stream and the value of the JSON document in it.

        Take it for files that are one document each; `parse_json` parses files with a document on each line (JSON lines),
        and `read_json` reads those as columns. Takes pairs of a path and a stream of text or bytes, which is read and
        closed. `kwargs` are arguments of `json.loads`, such as `parse_float`. `on_error` handles a stream that cannot be
        read or parsed; it cannot be a `Retry`.

        Raises json.JSONDecodeError for invalid JSON, and TypeError for `kwargs` that `json.loads` does not know.

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

        The rules are those of torch: tensors in dicts, lists and tuples, and objects with a `pin_memory` method. Without an
        accelerator, items stay as they are. `to_device` pins by itself; use this only if you copy by hand.

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
        """Yield the outputs of `fn(items, *args, **kwargs)`; `items` is an iterator over the whole source.

        Use it for a step with state, without writing a class: `fn` is a generator function, or returns an iterable. It is
        called when a pass begins. Its state cannot be saved, so resuming runs it again from the start and drops the outputs
        already yielded. Where that is too slow, write an operator.

        >>> def changes(numbers, start=0):
        ...     for number in numbers:
        ...         yield number - start
        ...         start = number
        >>> dp = IterableWrapper([1, 4, 9]).pipe(changes)
        >>> list(dp)
        [1, 3, 5]
        """
        ...

    def prefetch(
        self,
        buffer_size: int | typing.Literal['auto'] = 10,
    ) -> penstock.pipes.iter.prefetch.Prefetcher[T_co]:
        """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

        The thread starts at the first item requested. It ends with the pass: when that is exhausted, closed or replaced. An
        error from the source is raised in order, after the items before it.

        `buffer_size="auto"` finds how many: more while the reader and the thread wait for each other in turn, as for items
        that come or go in bursts. They may take a tenth of the free memory. `stats()` has what was found.

        >>> dp = IterableWrapper(range(4)).prefetch(2)
        >>> list(dp)
        [0, 1, 2, 3]
        """
        ...

    def processpool_map(
        self,
        fn: collections.abc.Callable[..., typing.Any],
        *,
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        output_col: collections.abc.Hashable | list[collections.abc.Hashable] | None = None,
        workers: int | typing.Literal['auto'] | None = None,
        prefetch: int | typing.Literal['auto'] = 128,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.parallel.ProcessPoolMapper:
        """Yield `fn(item)` for each item, called in `workers` processes at once, in the order of the items.

        Take it for functions that compute in Python. Items and results are pickled, which is slow for many small objects.
        Tensors and arrays are copied once in each direction, into shared memory. That memory is reused only after the
        tensors are dropped, so results may be kept and written to. Where `fn` is a class with callable instances, or a
        `functools.partial` of one, each process makes one instance and calls it: a model is loaded once per process. `fn`
        is pickled by cloudpickle, so it may be a lambda or come from a notebook. Scripts need no `if __name__ ==
        "__main__"`.

        `workers` is by default the number of processors. Up to `prefetch` items are read ahead. With "auto", both are found
        by measuring, up to the number of processors and within a tenth of the free memory. `ordered`, `input_col`,
        `output_col` and `on_error` are as for `threadpool_map`; attempts and skipped items are counted in this process.

        The processes start at the first item and live until the pipe is collected or the program ends, so the next pass can
        use them. A process that is busy 5 seconds after its pass was given up is killed. In each process, torch has one
        thread, and random generators are reseeded. In the workers of a loader, each shard has its own processes: divide
        `workers` by the number of workers, or use `map` in them.

        Raises RuntimeError, with the cause and the item, where a process dies during a call. `on_error` handles this as any
        failure of an item, and a new process takes the next item. Errors that cannot be pickled become a RuntimeError with
        their text. Raises the errors of pickle where `fn` or an item cannot be pickled.

        >>> dp = IterableWrapper(range(4)).processpool_map(lambda x: x * 10, workers=1)
        >>> list(dp)
        [0, 10, 20, 30]
        """
        ...

    def progress(
        self,
        description: str = '',
        *,
        unit: str = 'items',
    ) -> penstock.pipes.iter.progress.ProgressReporter[T_co]:
        """Yield the items as they are, and show a progress bar on a terminal or in a notebook.

        The bar has the number of items, their rate, the time left where the length is known, how many items the steps
        before it have skipped and tried again, and the share of time spent waiting for input, that is, making items. A
        resumed pass goes on counting.

        The bar is written to stderr. There is none where stderr is no terminal, such as a log. In the workers of a loader
        there is none either: give the loader `progress=True`. Of several ranks, the first has one.

        >>> dp = IterableWrapper(range(3)).map(lambda x: x * x).progress("squares")
        >>> list(dp)
        [0, 1, 4]
        """
        ...

    def random_sample(
        self,
        fraction: float,
        seed: int = 0,
        *,
        complement: bool = False,
    ) -> penstock.pipes.iter.sample.RowSampler[T_co]:
        """Yield a random share of the rows, `fraction`, in their order: each row is drawn by itself.

        The items are column batches, as after `ps.read_parquet`, or rows. The same seed draws the same rows: in each pass,
        for any number of workers, whatever the order of the files. A row of a file is drawn by the file's absolute address
        and its number there, any other row by its place in the stream. Rows of CSV and JSON are numbered by block, so that
        they are the same for the same `block_size`. `complement=True` gives exactly the rows that are not drawn. Batches
        without a row are left out.

        Raises TypeError or ValueError for a `fraction` outside of 0 to 1. While it is read, raises ValueError where the
        place of a row is unknown: after a shuffle, a cycle or a `sharding_filter` of items that are no rows of files, and
        over an iterator or a set.

        >>> dp = IterableWrapper(range(10)).random_sample(0.3, seed=5)
        >>> list(dp)
        [2, 4, 9]
        >>> list(IterableWrapper(range(10)).random_sample(0.3, seed=5, complement=True))
        [0, 1, 3, 5, 6, 7, 8]
        """
        ...

    def random_split(
        self,
        weights: dict[typing.Any, float],
        seed: penstock.pipes.iter.random_split.Seed,
        total_length: int | None = None,
        target: collections.abc.Hashable | None = None,
    ) -> list[penstock.registry.IterDataPipe[T_co]] | penstock.pipes.iter.random_split.RandomSplitter[T_co]:
        """Give a list of pipes, one for each key in `weights`, that share out the items of the source at random.

        Every pass gives the same split, until `override_seed` sets another seed. Weights are scaled to add up to the length
        of the source. Where they are whole numbers then, these are the exact sizes of the groups; otherwise sizes are
        approximate. With a key as `target`, the result is the pipe of that group alone, the same for the same seed.

        `total_length` is the number of items in the source, needed where its `len` is unknown.

        Each pipe reads the complete source and keeps its own items. Read the pipes one after the other, or from copies of
        the chain, as loaders make them. The source must have a fixed order: shuffle the groups instead.

        Raises ValueError for `seed=None`, and where the source gives more than `total_length` items.

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
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **format_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.CsvReader:
        """Yield the record batches of each CSV file, of at most `batch_size` rows.

        Arguments and errors are as for `read_parquet`, with blocks of a file, by default a megabyte, in place of row
        groups. Further arguments are options of `pyarrow.csv`: `ReadOptions`, `ParseOptions` and `ConvertOptions`, such as
        `delimiter=";"`, `column_names`, `column_types` or `block_size`. Without a `delimiter`, it is the tab in files
        named `.tsv`, and else the comma.

        Types are inferred from the first block, unless `column_types` gives them. A file that is empty, or blank, has no
        rows, whatever the columns of the others. A file is read from its start: resuming reads it again up to the place,
        and skipping a damaged row leaves out the rest. A file that is not on disk is copied first, to memory or, from 32 MB
        on, to a temporary file.

        Raises `pyarrow.ArrowInvalid`, with the number of the row, for a row with too many or too few values, or a value of
        another type.

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
        timeout: penstock.pipes.iter.http.Timeout = None,
        skip_on_error: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.http.GDriveReader:
        """Yield the name and a stream of the bytes of each file in Google Drive, given its URL.

        Take it for Google Drive, whose large files need a confirmation. The URL is one for downloading
        (`https://drive.google.com/uc?export=download&id=…`) or for sharing (`https://drive.google.com/file/d/…/view`,
        `https://drive.google.com/open?id=…`). For a large file, which Google does not scan for viruses, the confirmation
        page is answered. The name is from the response of Google, without folders. The other parameters are those of
        `read_from_http`.

        Raises RuntimeError where Google returns a page in place of a file, because the download quota is exceeded or a
        sign-in is needed, and the errors of `read_from_http`.

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
        timeout: penstock.pipes.iter.http.Timeout = None,
        skip_on_error: bool = False,
        *,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.http.HttpReader:
        """Yield the URL and a stream of the bytes behind it, for each URL.

        Take it for options of requests, such as `params` or `auth`; `load_files_by_s3` reads `https://` too, many files at
        once. Redirects are followed, and a Content-Encoding is decoded. Dropping the stream closes the connection.
        `timeout` is in seconds: the longest silence of the server, or a pair for connecting and for reading. The default is
        60, and `(None, None)` is no limit. Further arguments are those of `requests.get`: `headers`, `params`, `auth`,
        `proxies`, `allow_redirects`, `verify`, … .

        `on_error` handles a URL that fails; `skip_on_error=True` is the old spelling of `on_error="skip"`. They handle the
        request: an error while a stream is read is raised there. Transient errors, of requesting and of reading, are
        retried up to five times, unless a `Retry` says otherwise: a stream goes on where it broke, or, of a server without
        ranges, begins again and skips what was read.

        Raises `requests.HTTPError` for a status such as 404 or 500, with the status but without the rest of the response,
        and another `requests.RequestException`, an OSError, where the server does not respond. Reading a stream raises
        errors of urllib3: a `ProtocolError` for truncated content. Those that were retried are a ConnectionError or a
        TimeoutError, too. Reading raises OSError for a file that was replaced since it was requested. Raises ImportError
        where requests is not installed.

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
        timeout: penstock.pipes.iter.http.Timeout = None,
        skip_on_error: bool = False,
        on_error: penstock.registry.OnError = 'raise',
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.http.OnlineReader:
        """Yield the URL, or for a file in Google Drive its name, and a stream of the bytes, for each URL.

        Take it for URLs of the web and of Google Drive in one stream. URLs of `drive.google.com` and `docs.google.com` are
        read as by `read_from_gdrive`, all others as by `read_from_http`, with the same parameters and errors.

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

        Take it for what no parser here reads: it gives the content as it is. Takes pairs of a path and a stream. With
        `chunk`, yields the content in pieces of that many bytes (or characters), each with the path; an empty stream has no
        pieces. Each stream is read and closed. `on_error` handles a stream that fails; pieces already yielded stay. It
        cannot be a `Retry`.

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
        decoder: str = 'auto',
        size: penstock.pipes.files.images.Size | None = None,
        workers: int | typing.Literal['auto'] = 8,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.ImageReader:
        """Yield a dict with the `"image"` of each file; with `include_paths`, its `"path"` too.

        Files of `list_image_folder` give their `"label"` too, the number of the class; `class_to_idx` has the numbers.

        An image is a tensor of `torch.uint8` and shape (channels, height, width). `mode` sets the channels: `"L"` for grey,
        `"RGB"` or `"RGBA"`. Takes paths and URLs of fsspec, with any extension: the format is detected from the content.

        `size` is a pair of height and width, or the shorter side. `decoder` is `"auto"`, which takes simplejpeg,
        torchvision or torchcodec for JPEGs, the first that works here, and Pillow for all else; or one of these by name, or
        `"pil"`. `ImageDecoder` documents how images are made smaller, and how near the pixels are to Pillow's: 1 of 255 at
        most. No EXIF rotation is applied.

        Up to `workers` threads read and decode; the order stays. With 0, the thread that asks for an image does, which is
        best for local files in the workers of a loader. With "auto", their number is found by measuring, up to 32 and
        within a tenth of the free memory. `storage_options` are options of the file system, such as `{"anon": True}`.
        `on_error` handles a file that cannot be read or is no image.

        Raises FileNotFoundError for a missing file, OSError (or Pillow's subclass of it, UnidentifiedImageError) for a
        truncated or corrupt image, or one that the named decoder cannot decode, ValueError for one with more than 8 bits
        per channel, and ImportError where Pillow is not installed. At construction, raises ValueError for an unknown
        decoder, and ImportError for one that does not work here.

        >>> import os, tempfile
        >>> from PIL import Image
        >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
        >>> Image.new("RGB", (4, 2), "red").save(path)
        >>> dp = IterableWrapper([path]).read_images()
        >>> [row["image"].shape for row in dp]
        [torch.Size([3, 2, 4])]
        >>> [row["image"].shape for row in IterableWrapper([path]).read_images(size=(8, 8))]
        [torch.Size([3, 8, 8])]
        """
        ...

    def read_ipc(
        self,
        columns: collections.abc.Sequence[str] | None = None,
        filter: str | pyarrow.compute.Expression | None = None,
        batch_size: int = ...,
        *,
        unify: bool | pyarrow.Schema = False,
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **format_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.IpcReader:
        """Yield the record batches of each Arrow IPC file, such as Feather, cut to at most `batch_size` rows.

        Arguments and errors are as for `read_parquet`, with the record batches of a file in place of row groups. Both IPC
        formats are read, file and stream. Uncompressed data are not copied: a local file is memory-mapped, and must not be
        truncated while its batches are in use.

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
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **format_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.JsonReader:
        """Yield the record batches of each JSON Lines file, of at most `batch_size` rows.

        Arguments and errors are as for `read_csv`. Further arguments are options of `pyarrow.json`: `explicit_schema`,
        `newlines_in_values`, `unexpected_field_behavior` and `block_size`.

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
        workers: int | typing.Literal['auto'] = 8,
        max_bytes: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.NumpyReader:
        """Yield a `pyarrow.RecordBatch` for each NumPy file; the rows are the first dimension of its arrays.

        A `.npy` file has the column `"data"`, or a structured one its fields, a `.npz` file its arrays by their names, all
        with the same number of rows. A column of more than one dimension has Arrow's fixed-shape tensor type, which
        `to_tensors` converts without a copy. With `include_paths` there is a column `"path"` too. Takes paths and URLs of
        fsspec. The arrays of a `.npz` file may have `max_bytes`, or a hundred times the bytes of the file if that is more.

        Up to `workers` threads read; the order stays. `workers="auto"`, `storage_options` and `on_error` are as for
        `read_images`.

        Raises FileNotFoundError for a missing file. Raises ValueError for a file that is not NumPy's, or is truncated,
        corrupt or larger than `max_bytes`, for arrays of objects, which are pickles and could run any code, and for an
        array without a dimension. Raises ValueError for a file whose columns have other names or types than those of the
        first file; shapes may differ. Raises TypeError for complex numbers, which Arrow lacks.

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
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **format_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.OrcReader:
        """Yield the record batches of each ORC file, of at most `batch_size` rows from one stripe.

        Arguments and errors are as for `read_parquet`, with stripes in place of row groups. All stripes are read, whatever
        the filter.

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
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
        **format_options: typing.Any,
    ) -> penstock.pipes.iter.read_columns.ParquetReader:
        """Yield the record batches of each Parquet file, of at most `batch_size` rows from one row group.

        Takes paths, URLs of fsspec, or the items of `list_row_groups`; objects in S3 and other stores are read by ranges.
        `columns` selects columns, by default all. `filter` selects rows: a `pyarrow.compute.Expression`, or text such as
        `"price > 3 and kind == 'a'"`. Beside a column of dates or times, text is one of its type: `"time < '2024-09-01'"`,
        in the zone of the column unless it ends with another one. A row group is skipped where the statistics in the footer
        exclude a match. Up to `prefetch` files or row groups are read at once, one per thread; one more row group may be in
        memory.

        All files must have the columns and types of the first file, whichever reader has it. With `unify=True`, columns
        that a file lacks are null, and numbers get the widest of their types. For that, the footers of all files are read
        when a pass begins, unless `unify` is the resulting `pyarrow.Schema`. `schema()` returns it in advance.

        `storage_options` are options of the file system, such as `{"anon": True}`. `on_error` handles a file that cannot be
        opened, or a row group that cannot be read. A state has the current row group and the number of its batches yielded;
        resuming does not read earlier row groups.

        Raises FileNotFoundError for a missing file, KeyError for a column that a file lacks, ValueError for a file with
        other columns than those before, `pyarrow.ArrowInvalid`, a ValueError, for a file that is not Parquet, or values
        that do not fit a type, and OSError for a damaged file: checksums of pages are verified where present.

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
        max_bytes: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_files.TextReader:
        """Yield a dict with the `"text"` of each line of each file; with `include_paths`, the file's `"path"` too.

        Take it for files by path or URL; `readlines` reads lines of streams, such as members of archives. Line ends are
        removed, and so is the byte order mark with which UTF-8 may begin. Empty lines, and lines of spaces, are left out
        unless `drop_empty_lines` is False. A file whose name ends in gz, bz2, zst or xz is decompressed. A line may have
        `max_bytes` characters; beyond that it raises ValueError. Takes paths and URLs of fsspec; `storage_options` are
        options of the file system. `on_error` handles a file that cannot be read; lines already yielded stay.

        Raises FileNotFoundError for a missing file, LookupError for an unknown encoding, and UnicodeDecodeError for a file
        in another encoding.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "poem.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("one\\n\\ntwo\\n")
        >>> dp = IterableWrapper([path]).read_text()
        >>> list(dp)
        [{'text': 'one'}, {'text': 'two'}]
        """
        ...

    def read_videos(
        self: collections.abc.Iterable[str],
        include_paths: bool = False,
        *,
        frames: int | None = None,
        seconds: float | None = None,
        stride: int = 1,
        drop_last: bool = False,
        audio: bool = False,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.read_videos.VideoReader:
        """Yield a dict for each clip of each video: its frames as `"video"`, and their times as `"pts"`.

        `"video"` is a tensor of `torch.uint8` and shape (frames, 3, height, width), `"pts"` one of float64 with the seconds
        at which each frame begins. With `audio`, a dict has the sound of the clip, too: `"audio"`, a tensor of float32 and
        shape (channels, samples), and its `"sample_rate"`. With `include_paths` it has the `"path"`.

        A clip has `frames` frames, of which each is the `stride`-th after the one before. With `seconds` in place of
        `frames`, a clip has the frames that begin within so many seconds; of these, each `stride`-th. Clips follow each
        other without overlap. The last one is shorter where the video ends; `drop_last` leaves it out.

        torchcodec decodes, with ffmpeg: the frames are exactly those of ffmpeg. It finds all frames when a video is opened,
        for which it reads the file once: put `cache_files` before it for long files in an object store. A resumed pass goes
        on at the exact clip, by seeking. Two minutes of sound are in memory. Takes paths and URLs of fsspec;
        `storage_options` are options of the file system. `on_error` handles a video that cannot be read or decoded; clips
        already yielded stay.

        Raises FileNotFoundError for a missing file, and OSError for one that is no video, is corrupt, or has no sound where
        `audio` is asked for. A Matroska file that was cut ends with its last whole frame. At construction, raises
        ImportError where torchcodec or ffmpeg is missing.

        >>> import os, tempfile
        >>> import torch
        >>> from torchcodec.encoders import VideoEncoder
        >>> path = os.path.join(tempfile.mkdtemp(), "dark.mp4")
        >>> VideoEncoder(torch.zeros(6, 3, 16, 16, dtype=torch.uint8), frame_rate=4).to_file(path)
        >>> dp = IterableWrapper([path]).read_videos(frames=4)
        >>> [(clip["video"].shape, clip["pts"].tolist()) for clip in dp]
        [(torch.Size([4, 3, 16, 16]), [0.0, 0.25, 0.5, 0.75]), (torch.Size([2, 3, 16, 16]), [1.0, 1.25])]
        >>> [len(clip["pts"]) for clip in IterableWrapper([path]).read_videos(seconds=0.5)]
        [2, 2, 2]
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
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.lines.LineReader:
        """Yield the path and the line for each line of each stream; with `return_path=False` the line alone.

        Take it for lines of streams; `ps.read_text(paths)` lists, opens and reads files by one call. Takes pairs of a path
        and a stream, which is closed at its end. The first `skip_lines` of each stream are left out. Line ends are removed,
        unless `strip_newline` is False. A stream of bytes gives lines of bytes; with `decode`, text in `encoding`, without
        the byte order mark with which UTF-8 may begin. `errors` handles invalid bytes, as for `bytes.decode`: the default,
        `"ignore"`, drops them. Bytes are split at `\\n`, text as the stream splits it. A line may have `max_bytes` bytes, or
        as many characters of text; beyond that it raises ValueError. `on_error` handles a stream that cannot be read; lines
        already yielded stay. It cannot be a `Retry`.

        Raises LookupError for an unknown encoding, and UnicodeDecodeError with `errors="strict"`.

        >>> import io
        >>> dp = IterableWrapper([("a.txt", io.StringIO("one\\ntwo")), ("b.txt", io.StringIO("three\\r\\n"))]).readlines()
        >>> list(dp)
        [('a.txt', 'one'), ('a.txt', 'two'), ('b.txt', 'three')]
        """
        ...

    def rebatch(self, n: int, drop_last: bool = False) -> penstock.pipes.iter.rebatch.Rebatcher:
        """Yield the rows of column batches in batches of `n` rows; the last may have fewer, or is dropped with `drop_last`.

        A column batch is a `pyarrow.RecordBatch`, or a dict of tensors, arrays or lists of one length. The outputs are of
        the same kind; tables and data frames of pandas become RecordBatches. Rows from one batch are not copied: the output
        is a view that keeps that batch in memory. So it is cheap to read large batches and cut them here, before or after
        `to_tensors`.

        Raises TypeError for anything but a column batch, and ValueError where batches to join differ in columns or types.

        >>> import torch
        >>> batches = [{"id": torch.tensor([0, 1, 2])}, {"id": torch.tensor([3, 4])}]
        >>> dp = IterableWrapper(batches).rebatch(2)
        >>> list(dp)
        [{'id': tensor([0, 1])}, {'id': tensor([2, 3])}, {'id': tensor([4])}]
        """
        ...

    def rename_columns(
        self,
        names: collections.abc.Mapping[str, str] | collections.abc.Sequence[str],
    ) -> penstock.pipes.iter.select_columns.ColumnRenamer:
        """Yield each row or column batch with other names of columns.

        `names` is a dict from old to new names, or a list with a new name for each column. An item is a dict, a
        `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. Columns keep their places.

        Raises KeyError for a column that an item lacks, ValueError for a list of another length and where two columns would
        have one name, and TypeError for an item without columns.

        >>> dp = IterableWrapper([{"id": 1, "text": "one"}]).rename_columns({"text": "words"})
        >>> list(dp)
        [{'id': 1, 'words': 'one'}]
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

        For the buffer, passes and threads, see `demux` and `fork`.

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
        decoder: str = 'auto',
        size: penstock.pipes.files.images.Size | None = None,
        only: collections.abc.Collection[str] | None = None,
        max_bytes: int = ...,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.decode.RoutedDecoder:
        """Yield each file with its decoded content; its extension chooses the decoder.

        Take it for images, text, JSON, arrays and tensors in one stream. A pair of a path and a stream (or bytes) becomes a
        pair of the path and the value. In a dict, as from `webdataset`, each value is decoded. Streams are read and closed.
        Bytes without a handler stay bytes. Other values, and values whose key begins with `__`, stay as they are. With
        `only`, such as `["txt", "seg.png"]`, all but these extensions stay bytes: what a file's name has after its first
        dot, or the key of an entry.

        Each handler is a function of an extension and bytes; the first result other than None is taken. The default
        handlers, in `penstock.pipes.iter.decode`, are for: images, as tensors of float32 in 0 … 1, of shape (3, height,
        width); text (`txt`); numbers (`cls`, `index`, `id`, …); `json`; `npy` and `npz`; `ten`, WebDataset's lists of
        arrays; `pt` and `pth`. A string among the handlers means all of these, with that spec of `ImageDecoder` for images,
        such as `"torchrgb8"`. Pickles have no handler: reading one runs the code in it. `decoder` and `size` are those of
        `ImageDecoder`: what decodes images, and the height and width, or the shorter side, that they get.

        A file whose name ends as `.json.gz` does is decompressed, and decoded by the extension before `.gz`. It stays
        compressed where no handler takes that.

        What is decompressed, and arrays of `npz` and `pt` files, may have `max_bytes`, or a hundred times the bytes of the
        file if that is more.

        `decode_video` and `decode_audio`, in the same module, are handlers to add: `routed_decode("torch", decode_video)`.

        `key_fn` returns the extension of a path. For an entry of a dict, the path is `"__key__"` of the dict, a dot and the
        key of the entry. `on_error` handles a file or dict that cannot be read or decoded; it cannot be a `Retry`.

        Raises the errors of the handlers: OSError for a truncated image, DecompressionBombError of Pillow for too many
        pixels, UnicodeDecodeError for text that is not UTF-8, ValueError for arrays and tensors that are truncated, corrupt
        or larger than `max_bytes`. Raises ImportError for an image where Pillow is not installed, and at construction for a
        decoder that does not work here.

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
        and structs become Python objects, null None. Tensors and arrays with more than one dimension, and Arrow's
        fixed-shape tensors, are indexed by row.

        Raises TypeError for what is no column batch.

        >>> import torch
        >>> dp = IterableWrapper([{"id": torch.tensor([0, 1]), "text": ["a", "b"]}]).rows()
        >>> list(dp)
        [{'id': 0, 'text': 'a'}, {'id': 1, 'text': 'b'}]
        """
        ...

    def rows2columnar(
        self,
        column_names: collections.abc.Sequence[collections.abc.Hashable] | collections.abc.Set[collections.abc.Hashable] | None = None,
    ) -> penstock.pipes.iter.fields.Rows2Columnar:
        """Yield a dict of columns for each batch of rows: the list of the rows' values under each column's name.

        A row is a dict, or a tuple or list with its values in the order of `column_names`. For dicts, `column_names`
        selects keys, and may be a set; without it all keys are taken, and rows that lack a key are skipped in that column,
        so columns may differ in length.

        Raises KeyError for a dict that lacks one of `column_names`, and ValueError for a tuple or list without
        `column_names`, with a set of them, or with another number of values.

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
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        **kwargs: typing.Any,
    ) -> penstock.pipes.iter.save.FSSpecSaver:
        """Write each item to the file at a URL, and yield the URL.

        Take it for a file per item at URLs, and `write_tar` or `write_parquet` for many items per file. An item is a pair
        of a URL, or an argument of `filepath_fn`, and the data. `mode` is as for `save_to_disk`. `kwargs_for_open` are
        arguments for opening a file, such as `encoding` or `compression`. Options of the file system, such as `anon=True`,
        are given as `storage_options` or, as in torchdata, as further arguments; without them credentials and endpoints
        come from the environment. Folders are made as needed, buckets are not. Local files are written as by
        `save_to_disk`. In object stores such as S3, an object appears when its upload is complete, and replaces an earlier
        one. Larger objects are sent in parts of 16 MiB, to S3 several at a time, each retried up to five times after
        transient errors. A failed upload is aborted.

        `on_error` handles an item that cannot be written, or for which `filepath_fn` raises.

        Raises TypeError for text with a mode of bytes, or the other way round, OSError, or an error of the file system's
        client such as botocore, where a file cannot be written, and ImportError where the package for a protocol is
        missing.

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

        Take it only for paths that need handlers of iopath, and `save_by_fsspec` for all others. An item is a pair of a
        path, or an argument of `filepath_fn`, and the data. `mode` is as for `save_to_disk`. Folders are made as needed.
        Local files are written as by `save_to_disk`, others as their handler does. `pathmgr` and `handler` are as for
        `list_files_by_iopath`; a handler writes bytes. `on_error` handles an item that
        cannot be written, or for which `filepath_fn` raises.

        Raises TypeError for text with a mode of bytes, or the other way round, OSError where a local file cannot be
        written, and ImportError where iopath is not installed.

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

        Take it for a local file per item, `save_by_fsspec` for URLs, and `write_tar` or `write_parquet` for many items per
        file. An item is a pair of a path, or an argument of `filepath_fn`, and the data. `mode` is `"w"`, `"wt"` or `"t"`
        for text, in the locale's encoding, `"wb"` or `"b"` for bytes, `"a"`, `"at"` or `"ab"` to append. Folders are made
        as needed. A file is written under a temporary name and moved into place when complete; it replaces an earlier one,
        and an interruption leaves no partial file. Appending writes directly to the file.

        `on_error` handles an item that cannot be written, or for which `filepath_fn` raises; what was appended stays. To
        write to URLs, use `save_by_fsspec`.

        Raises TypeError for text with a mode of bytes, or the other way round, and OSError where a file cannot be written.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> texts = IterableWrapper([("a.txt", "one"), ("b.txt", "two")])
        >>> dp = texts.save_to_disk(filepath_fn=lambda name: os.path.join(folder, "texts", name))
        >>> [os.path.basename(path) for path in dp]
        ['a.txt', 'b.txt']
        """
        ...

    def select_columns(
        self,
        columns: str | collections.abc.Sequence[str],
    ) -> penstock.pipes.iter.select_columns.ColumnSelector:
        """Yield each row or column batch with some columns only, in the order of `columns`, a name or a list of names.

        An item is a dict, a `pyarrow.RecordBatch`, or a table or data frame, which becomes a RecordBatch. Readers take
        `columns` themselves, and then read only these. `slice` does the same for tuples and lists.

        Raises KeyError for a column that an item lacks, and TypeError for an item without columns.

        >>> dp = IterableWrapper([{"id": 1, "text": "one", "url": "…"}]).select_columns(["text", "id"])
        >>> list(dp)
        [{'text': 'one', 'id': 1}]
        """
        ...

    def set_length(self, length: int) -> penstock.pipes.iter.enumerate.LengthSetter[T_co]:
        """Yield the items as they are, and set `len` to `length`.

        Use it where you know the length and the chain cannot, such as after `filter`. Nothing is cut or checked; `header`
        cuts. Behind a `sharding_filter`, it is the length of the whole stream, and that of each part is unknown: a loader
        that reads all parts has it if only steps that map items one to one follow.

        >>> dp = IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).set_length(5)
        >>> len(dp), list(dp)
        (5, [0, 2, 4, 6, 8])
        """
        ...

    def shard_expand(self: collections.abc.Iterable[str]) -> penstock.pipes.iter.shard.ShardExpander:
        """Yield all names for each name with ranges in braces; other names as they are.

        All numbers have at least as many digits as the first of the range. Several ranges in a name give all combinations.
        Files need not exist: nothing is looked up.

        Raises ValueError for a range that runs backwards.

        >>> dp = IterableWrapper(["images-{008..010}.tar", "labels.csv"]).shard_expand()
        >>> list(dp)
        ['images-008.tar', 'images-009.tar', 'images-010.tar', 'labels.csv']
        """
        ...

    def shard_files(
        self,
        kind: str,
        sharding_group_filter: penstock.registry.SHARDING_PRIORITIES | None = None,
        *,
        min_bytes: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.shard_files.FileSharder:
        """Yield every n-th file if n readers share the files; where there are few files, every n-th part of a file.

        Takes paths, URLs, or the items of `list_table_files`, in place of a `sharding_filter` before `read_parquet`,
        `read_csv`, `read_json`, `read_ipc`, `read_orc` or `read_text`. `kind` is `"parquet"`, `"csv"`, `"json"`, `"ipc"`,
        `"orc"` or `"text"`.

        With fewer than 4 files for each reader, a file is divided: at row groups, stripes or record batches, or at the line
        ends of a text file with at least twice `min_bytes`. Such a part is a `FilePart`, with the file's `url`. A single
        reader gets the files as they are. Compressed text, and files on servers that do not serve ranges, stay whole; so
        do the files of two sources that one step reads, such as `zip`.

        A loader looks at the files once for all readers, when an epoch begins, and its state has what it found. A file that
        is missing or no file of this kind stays whole, and its reader raises the error. `storage_options` are options of
        the file system.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from penstock.registry import apply_sharding
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": range(8)}), path, row_group_size=1)
        >>> dp = IterableWrapper([path]).shard_files("parquet")
        >>> apply_sharding(dp, 2, 0)
        >>> [part.start for part in dp]
        [0, 2, 4, 6]
        """
        ...

    def sharding_filter(
        self,
        sharding_group_filter: penstock.registry.SHARDING_PRIORITIES | None = None,
    ) -> penstock.pipes.iter.shard.ShardingFilter[T_co]:
        """Yield every n-th item if n readers share the stream; all items for a single reader.

        The runner, or torch's DataLoader, assigns each reader its part. Every reader runs the steps before this one, so put
        it early in a chain: after listing and shuffling files, before opening and decoding. Right after `shuffle` or
        `to_iter_datapipe` of a map-style pipe, each reader reads only its own items.

        With `sharding_group_filter`, only the sharding at that level (of `SHARDING_PRIORITIES`) counts.

        Batches made after it contain the items of one reader, so each reader may end with a partial batch: 15 items, in 2
        parts and batches of 5, give batches of 5, 3, 5 and 2. `.batch(5).sharding_filter()` divides full batches, 3 of 5,
        but every reader then reads all items.

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
        """Yield every n-th item if n workers share the stream, which one process reads; all items without workers.

        This is a `sharding_filter` at the level of workers: `sharding_group_filter` must be
        `SHARDING_PRIORITIES.MULTIPROCESSING`. A `sharding_filter` before it shares the stream among ranks only.

        With workers of `DataLoader2`, a separate process runs the steps before this one, once per epoch, and sends each
        item to the worker of its shard. Take it for a source that cannot be read several times, or that costs more than
        sending its items. Any number of items may wait for a slow shard. After it, a `cycle` repeats the same items in each
        round. A torch `DataLoader` runs the steps before it in every worker, as with `sharding_filter`.

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
    ) -> penstock.pipes.iter.shuffle.Shuffler[T_co]:
        """Yield the items in a random order, drawn from a buffer of `buffer_size` items.

        The buffer is filled first. Then each item is drawn from it uniformly, and the next item of the source takes its
        place. A buffer at least as large as the stream shuffles it fully; size 1 keeps the order. With `unbatch_level`, the
        source is first unbatched by that many levels.

        A state has the numbers of the items in the buffer, not the items; resuming reads them again.

        >>> dp = IterableWrapper(range(6)).shuffle().set_seed(1)
        >>> sorted(dp)
        [0, 1, 2, 3, 4, 5]
        """
        ...

    def shuffle_image_folder(
        self,
        classes: collections.abc.Sequence[str] | None = None,
        *,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.image_folder.ImageFolderShuffler:
        """Yield the images below a folder with the number of their class, in a random order; all orders are equally likely.

        Take it to train: `list_image_folder` gives one class after the other. The arguments, and `class_to_idx`, are as
        there. Put it before a `sharding_filter`, so all readers share one order.

        >>> import fsspec
        >>> fsspec.filesystem("memory").pipe({"/pets/cat/1.png": b"", "/pets/dog/2.png": b""})
        >>> dp = IterableWrapper(["memory://pets"]).shuffle_image_folder().set_seed(1)
        >>> sorted(file.label for file in dp)
        [0, 1]
        """
        ...

    def shuffle_row_groups(
        self,
        filter: str | pyarrow.compute.Expression | None = None,
        *,
        prefetch: int = ...,
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.row_groups.RowGroupShuffler:
        """Yield the row groups of all files in a random order; all orders are equally likely.

        All row groups are listed before the first is yielded, and again on resuming. The arguments are those of
        `list_row_groups`. Put it before a `sharding_filter`, so all readers share one order.

        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> pq.write_table(pa.table({"id": range(6)}), path, row_group_size=2)
        >>> dp = IterableWrapper([path]).shuffle_row_groups().set_seed(1)
        >>> sorted(group.number for group in dp)
        [0, 1, 2]
        """
        ...

    def shuffle_rows(self, buffer_size: int) -> penstock.pipes.iter.rebatch.RowShuffler:
        """Yield the rows of column batches in a random order, in batches as large as those that come in.

        Batches are buffered up to `buffer_size` rows, or more where the last batch is large. Half of the rows are drawn and
        yielded, and the buffer is refilled. Each half is drawn uniformly, except that it includes every row that stayed
        twice. A buffer as large as the stream shuffles it fully. A column batch is a `pyarrow.RecordBatch`, or a
        dict of tensors, arrays or lists of one length. The outputs are of the same kind; their size is that of the first
        batch read in a round.

        A state has the numbers of the rows in the buffer, not the rows. Resuming reads them again, and the rows between:
        up to one and a half times `buffer_size`.

        Raises TypeError for anything but a column batch, and ValueError where batches differ in columns or types.

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
        """Yield all outputs of `fn(item)` for each item; each comes from a random one of `buffer_size` open items.

        Take it to mix the content of several files; `flatmap` reads one after another. The outputs of one item keep their
        order. Each output comes from an open item, drawn uniformly; an exhausted item makes room for the next. `fn` returns
        an iterable, such as a list, or is a generator function; without it, the content of each item is yielded. With
        `input_col`, `fn` takes these columns of the item as arguments. `on_error` handles an item for which `fn` raises, as
        for `flatmap`.

        Raises TypeError for an `fn` that is not callable, and ValueError for a `buffer_size` below 1.

        A state has the numbers of the open items and of their outputs so far: resuming calls `fn` for these items again
        and drops those outputs.

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
        """Yield some of the fields of each item: those from `index` up to `stop`, or those in a list.

        With a number as `index`, a tuple or list becomes `item[index:stop:step]`; without `stop`, up to its end. For a
        dict, `index` is the key of the one field that stays. With a list of indices (negative from the end) or keys, those
        fields stay, in the order of the item, and `stop` and `step` have no effect. The outputs are tuples, lists and
        dicts; named tuples become plain ones. A field that an item lacks gives a warning.

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
        scheduled_tasks: int | typing.Literal['auto'] = 128,
        max_workers: int | typing.Literal['auto'] | None = None,
        *,
        ordered: bool = True,
        on_error: penstock.registry.OnError = 'raise',
        **threadpool_kwargs: typing.Any,
    ) -> penstock.pipes.iter.parallel.ThreadPoolMapper:
        """Yield `fn(item)` for each item, called by `max_workers` threads at once, in the order of the items.

        Threads help where `fn` waits, as for a network, or releases the GIL, as in decoding an image; otherwise use
        `processpool_map`. Up to `scheduled_tasks` items are read ahead. With `ordered=False`, results come as they are
        ready; a state then lists the finished ones, and resuming gives the others.

        `input_col` and `output_col` are as for `map`. `max_workers` is by default the number of processors plus 4, at most
        32. With "auto", `max_workers` and `scheduled_tasks` are found by measuring, up to 32 threads and within a tenth of
        the free memory; `stats()` has what was found. Other arguments of ThreadPoolExecutor may be given by name:
        `thread_name_prefix`, `initializer` and `initargs`. `on_error` handles an item for which `fn` raises.

        The threads start at the first item and end with the pass. Closing drops calls that have not begun and waits for the
        others. It raises RuntimeError where that takes longer than half a minute.

        >>> dp = IterableWrapper(range(4)).threadpool_map(lambda x: x * 10, max_workers=2)
        >>> list(dp)
        [0, 10, 20, 30]
        """
        ...

    def to_device(
        self,
        device: str | int | torch.device | None = None,
    ) -> penstock.pipes.iter.device.DeviceMover[T_co]:
        """Yield the items with their tensors on a device; on an accelerator, copy one item ahead.

        The next item is copied from pinned memory on a separate stream, so the copy overlaps computation on the current
        item. Tensors in dicts, lists and tuples are moved, and objects with a `to` method; other values stay. On the CPU
        nothing is copied. With worker processes, this step and those after it run in the main process.

        `device` is anything that `torch.device` takes; None is the accelerator where there is one, else the CPU. Raises
        RuntimeError at the first item when the device is missing.

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

        The first access to an item or the length reads the complete stream into memory. It is read again where its random
        steps have other seeds when a pass begins. Pickles and copies do not include it, and read it again. A repeated key
        keeps its last value, with a warning. `on_error` handles an item for which `key_value_fn` raises.

        Raises TypeError for an item that is no pair, and IndexError for an unknown key.

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
        `columns` selects columns, in that order. `dtypes` is a dtype for all numeric columns, or a dict of dtypes for some
        columns. The first dimension of each tensor is the row. Arrow types map to:

        - integers and floats: a tensor of that dtype, in the same memory, which must not be written to
        - booleans: `torch.bool`
        - timestamps, dates, times of day, durations: `torch.int64`, counted in the unit of the type. `schema` still has the
          type, and writers of files and `with_format("arrow")` give it back, as long as no step between makes other
          batches
        - decimals: what `dtypes` says, and without it an error
        - lists that all have one length, fixed-size lists, and fixed-shape tensors: tensors of that shape. Lists that are
          ragged are an error
        - dictionaries: the values that they encode
        - text and bytes, and lists of these: lists of Python's, with None for null
        - images, as bytes, or as Hugging Face's structs of `bytes` and `path`: a list of bytes, not decoded
        - other structs, and maps: an error

        A null among numbers is an error, or NaN where `dtypes` gives a float. A value that the dtype in `dtypes` cannot
        hold is an error: one that is too large, and, for integers, fractions and NaN. Floats are rounded to shorter floats.

        `on_error` handles a batch that fails.

        Raises ValueError, with the column and the row, for values that do not convert, TypeError for types that do not, and
        KeyError for a column that a batch lacks.

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
        """Yield the items of each batch, a list; with `unbatch_level` 2 those of the lists in it, and so on.

        Level -1 flattens lists at any depth and yields other items as they are. Level 0 flattens nothing. Tuples are items,
        not batches.

        Raises IndexError for a batch with fewer levels than `unbatch_level`.

        >>> dp = IterableWrapper([[1, 2], [3]]).unbatch()
        >>> list(dp)
        [1, 2, 3]
        >>> list(IterableWrapper([[1, [2, [3, 4]]], 5]).unbatch(-1))
        [1, 2, 3, 4, 5]
        """
        ...

    @typing.overload
    def unbatch(self, unbatch_level: int) -> penstock.pipes.iter.group.UnBatcher[typing.Any]:
        """Yield the items of each batch, a list; with `unbatch_level` 2 those of the lists in it, and so on.

        Level -1 flattens lists at any depth and yields other items as they are. Level 0 flattens nothing. Tuples are items,
        not batches.

        Raises IndexError for a batch with fewer levels than `unbatch_level`.

        >>> dp = IterableWrapper([[1, 2], [3]]).unbatch()
        >>> list(dp)
        [1, 2, 3]
        >>> list(IterableWrapper([[1, [2, [3, 4]]], 5]).unbatch(-1))
        [1, 2, 3, 4, 5]
        """
        ...

    def until_error(
        self,
        errors: type[Exception] | tuple[type[Exception], ...] = ...,
    ) -> penstock.pipes.iter.filter.ErrorStopper[T_co]:
        """Yield items until a step before fails, and end there, with a warning in the log of `penstock`.

        Take it where the rest of a stream is worth nothing once something has failed; `on_error="skip"` of a step leaves
        out the items that fail, and goes on. `errors` are the types of error that end the stream: an exception type, or a
        tuple of them. All others are raised. In a `DataLoader2`, each shard ends by itself.

        Raises TypeError for `errors` that are no exception types.

        >>> dp = IterableWrapper(["1", "2", "x", "4"]).map(int).until_error(ValueError)
        >>> list(dp)
        [1, 2]
        """
        ...

    def unzip(
        self: collections.abc.Iterable[collections.abc.Sequence[typing.Any]],
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: collections.abc.Sequence[int] | None = None,
    ) -> list[penstock.registry.IterDataPipe[typing.Any]]:
        """Give a list of pipes, one per column of the items, which are sequences of `sequence_length`.

        The indices in `columns_to_skip` get no pipe. For the buffer and for passes, see `fork`.

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
        """Yield the results of `fn` for the samples of each collated batch, computed for the whole batch at once.

        Take it for a function of tensors that is written for one sample. The batch is a tensor, or tuples, lists and dicts
        of tensors, as `collate` makes them. The first dimension of each tensor is the batch. `fn` takes a sample, without
        that dimension, and `torch.func.vmap` runs it once for all samples. It returns tensors, or tuples, lists and dicts
        of them; they are yielded with the batch dimension in front. With `input_col` and `output_col`, as for `map`, `fn`
        takes these columns of the batch, and the other columns may be anything.

        `in_dims` gives the batch dimension of the tensors: one for all, a structure like the argument of `fn`, or a tuple
        with one for each column. None marks what is the same for all samples. `randomness` is the behaviour of random
        operations in `fn`: `"error"`, `"different"` numbers for each sample, or the `"same"`. They draw from torch's global
        generator. `on_error` handles a batch that fails.

        Raises the error of torch, with advice, where `fn` cannot be vectorised.

        >>> dp = IterableWrapper([1.0, 2.0, 3.0]).batch(2).collate().vmap(lambda x: x * 2 if x.dim() == 0 else x)
        >>> list(dp)
        [tensor([2., 4.], dtype=torch.float64), tensor([6.], dtype=torch.float64)]
        """
        ...

    def webdataset(
        self: collections.abc.Iterable[tuple[str, typing.Any]],
        *,
        with_url: bool = False,
        lower_case: bool = True,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.iter.webdataset.WebDataset:
        """Yield a dict for each sample: consecutive files whose paths are the same up to the first dot of the name.

        Take it after `load_from_tar`, for tars in which the files of a sample follow each other. Takes pairs of a path and
        a stream (or bytes, or anything else), as from `load_from_tar`. In the dict, `"__key__"` is the path up to that dot,
        with forward slashes. The rest, dot included, such as `".seg.png"`, is the key of the stream, in lower case unless
        `lower_case=False`. Files whose name has no dot, or begins with one, are metadata by convention: they are closed and
        left out.

        The path begins with that of the archive, as in torchdata, so keys of several archives differ. With `with_url`, as
        in WebDataset, `"__key__"` is the path in the archive alone, and `"__url__"` the address of the archive. `write_tar`
        takes such samples as they are.

        `on_error` handles a file that cannot be added to its sample; a skipped file is missing in it. It cannot be a
        `Retry`.

        Raises ValueError for a second file with the same key in a sample. With `with_url`, raises TypeError for a path that
        is not as an archive's loader gave it.

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
        or lists of one length. Each batch becomes:

        - `"torch"`: a dict of tensors and lists, by the rules of `to_tensors`
        - `"numpy"`: a dict of arrays. Numbers, booleans, lists and tensors follow the rules of `to_tensors`. Timestamps,
          dates and durations are NumPy's own, with NaT for null; text, bytes and what has no dtype are arrays of objects
        - `"pandas"`: a `pandas.DataFrame`, as pyarrow makes it; a column of fixed-shape tensors is one of arrays
        - `"arrow"`: a `pyarrow.RecordBatch`. A tensor or array of more than one dimension has the type of fixed-shape
          tensors; a tensor that is on a device is copied to main memory

        `on_error` handles a batch that fails.

        Raises ValueError, with the column and the row, for values that the format cannot hold, and TypeError for such
        types.

        >>> import torch
        >>> dp = IterableWrapper([{"id": torch.tensor([1, 2]), "text": ["a", "b"]}]).with_format("numpy")
        >>> list(dp)
        [{'id': array([1, 2]), 'text': array(['a', 'b'], dtype=object)}]
        """
        ...

    def write_csv(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: penstock.pipes.bases.writing.write_shards.Mode = 'error',
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_lines.CSVWriter:
        """Write CSV files, each with a header, to a folder, and yield the URL and the number of rows of each.

        Take it where another program needs CSV; `write_parquet` keeps types. Files hold numbers, text and times, in UTF-8;
        text is quoted, null is an empty field: `read_csv` with `strings_can_be_null=True` and
        `quoted_strings_can_be_null=False` tells it from empty text. Items, `batched`, the folder, the names and sizes of
        files, `mode`, the index, writing in parallel, resuming and `on_error` are as for `write_parquet`. Text with line
        breaks is read back with `newlines_in_values=True`.

        Raises TypeError, which names the column, for tensors with more dimensions than the rows, lists, bytes and all else
        that no field can hold. Raises ValueError for null in a file of a single column, where its line would be empty.
        Raises what `write_parquet` raises.

        >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": "b"}])
        >>> dp = rows.write_csv("memory://csv/", mode="overwrite")
        >>> list(dp)
        [('memory://csv/part-00000.csv', 2)]
        >>> import fsspec
        >>> with fsspec.open("memory://csv/part-00000.csv", "rt") as file:
        ...     print(file.read().rstrip())
        "id","text"
        0,"a"
        1,"b"
        """
        ...

    def write_json(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: penstock.pipes.bases.writing.write_shards.Mode = 'error',
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_lines.JSONWriter:
        """Write JSON Lines files to a folder, and yield the URL and the number of rows of each.

        Take it where another program needs JSON lines; `write_parquet` keeps types. Files hold numbers, text, booleans,
        null, and lists and dicts of these; tensors become lists, without their dtype; timestamps, dates and times of day
        become text of ISO 8601. Items, `batched`, the folder, the
        names and sizes of files, `mode`, the index, writing in parallel, resuming and `on_error` are as for
        `write_parquet`. Names end in `.json` or `.jsonl`.

        Raises TypeError, which names the column, for bytes, durations and all else that JSON does not have. Raises
        ValueError for floats that are infinite or not a number. Raises what `write_parquet` raises.

        >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": None}])
        >>> dp = rows.write_json("memory://json/", mode="overwrite")
        >>> list(dp)
        [('memory://json/part-00000.json', 2)]
        >>> import fsspec
        >>> with fsspec.open("memory://json/part-00000.json", "rt") as file:
        ...     print(file.read().rstrip())
        {"id":0,"text":"a"}
        {"id":1,"text":null}
        """
        ...

    def write_numpy(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: penstock.pipes.bases.writing.write_shards.Mode = 'error',
        column: str | None = None,
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_columns.NumpyWriter:
        """Write NumPy files to a folder, and yield the URL and the number of rows of each.

        Take it for arrays that NumPy loads or maps, and `write_parquet` for mixed columns. With a `column`, each file is
        the array of that column, and its name ends in `.npy`; else it has all columns as arrays by their names, and ends in
        `.npz`.
        Arrays have the rows as their first dimension, and the dtype of the tensors and arrays; text is an array of `str`.
        They are written without pickle. A file's content is in memory until it is complete.

        Items, `batched`, the folder, the names and sizes of files, `mode`, the index, writing in parallel, resuming and
        `on_error` are as for `write_parquet`.

        Raises KeyError for a missing `column`. Raises TypeError, which names the column, for bytes, null and other values
        that NumPy could only pickle or would cut short. Raises ValueError for rows whose shapes differ, and for columns or
        dtypes that differ from those before.

        >>> import torch
        >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
        >>> dp = batches.write_numpy("memory://numpy/", rows_per_file=2, column="image", batched=True, mode="overwrite")
        >>> list(dp)
        [('memory://numpy/part-00000.npy', 2), ('memory://numpy/part-00001.npy', 1)]
        >>> import fsspec, numpy as np
        >>> with fsspec.open("memory://numpy/part-00000.npy") as file:
        ...     np.load(file).shape
        (2, 2, 2)
        """
        ...

    def write_parquet(
        self,
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: penstock.pipes.bases.writing.write_shards.Mode = 'error',
        rows_per_group: int | None = None,
        compression: str = 'snappy',
        batched: bool | None = None,
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_columns.ParquetWriter:
        """Write Parquet files to a folder, and yield the URL and the number of rows of each.

        Take it for columns and rows: it keeps types, and `read_parquet` reads it in parts. `write_csv` and `write_json` are
        for other programs.

        An item is a batch or a row. A batch is a `pyarrow.RecordBatch`, a `pyarrow.Table`, or a dict of tensors, arrays and
        lists with a value for each row. A row is a dict. A structured array of NumPy is a batch, and a record of one a row:
        their fields are the columns. `batched` says which of the two a dict is. Without it, the chain decides: after
        `to_tensors` dicts are batches, after `rows` or `read_images` rows. Where the chain does not tell, as after
        `IterableWrapper` or `flatmap`, dicts are rows; a dict of tensors and arrays, perhaps with lists, and nothing else
        is then an error.

        Tensors and arrays with dimensions besides the rows become Arrow's fixed-shape tensors, which keep shape and dtype.
        So do those of single rows; if their shapes differ, they become lists. Times that `to_tensors` made int64 become
        Arrow's times again. Tensors on a device are copied to main memory. All batches must have the same columns and
        types. For rows, the first 256 decide: integers fit among floats, and None anywhere.

        `url_template` is a folder, locally or at any URL of fsspec, whose files are `part-00000.parquet` and so on; or it
        names the files: `{shard}`, or `{shard:06d}`, is the number of the file, from 0. Each file has `rows_per_file` rows,
        the last one the rest, whatever the sizes of the batches; without `rows_per_file`, about 128 MiB of data in memory.
        A file is sent while it is written. On a local disk and in object stores it appears when it is complete.

        `mode` says what happens to files of an earlier run, which have such names:

        - `"error"` raises FileExistsError before the first item.
        - `"overwrite"` replaces them all: each new file the one of its name, when it is complete; the others are removed at
          the end of the pass. A pass that fails thus leaves new files and earlier ones.
        - `"append"` numbers the new files from above theirs. The first number is part of the name of the index.

        The first two also raise for files of a run in another format and, in a plain folder, for files of the format that
        have other names, as readers of the folder would take them too. Where the chain itself reads such files in, above or
        below the folder, all modes raise ValueError before the first item. Each pass is a run: a second one over the same
        writer is an error without a `mode`. A resumed pass goes on in every mode.

        `rows_per_group` is the number of rows of a row group: what is kept in
        memory, and what `read_parquet` reads, shuffles and divides. Without it, row groups have about 64 MiB in memory.
        `compression` is that of `pyarrow.parquet.ParquetWriter`. Pages have checksums, which `read_parquet` verifies.

        At its end, a pass writes an index, `.…index.json`. It has the type of each of the `columns`, and for each file its
        `name`, `rows`, `bytes` and `sha256`. Readers of folders and patterns, such as `read_parquet` and `pyarrow.dataset`,
        ignore it, since its name begins with a dot.

        Put a `sharding_filter` before this to write in parallel. Each of n parts writes its own files: the first has the
        numbers 0, n, 2 n, …, and its index is `.…index-0-of-n.json`. On several ranks use `apply_sharding(dp, ranks,
        rank)`: `DistributedReadingService` makes ranks end together, which would repeat files or leave some out. A resumed
        chain does not write files again that it had yielded.

        `on_error` handles an item that cannot be written: one that is no batch or row, or whose columns or types differ
        from those before or do not exist in the format. Nothing of it is in a file. It cannot be a `Retry`. A failed upload
        always raises. `storage_options` are options of the file system, such as `{"anon": True}`; without them, credentials
        and endpoints come from the environment.

        Raises TypeError for an item that is neither batch nor row, and for values and types that Arrow or Parquet does not
        have. Raises ValueError for a dict that may be both, and for columns or types that differ from those before. These
        errors name the column and the number of the item. Raises OSError, or an error of the file system's client, with the
        file's URL, where a file cannot be written. At construction, raises ValueError where the stream is divided by
        anything but `sharding_filter`.

        >>> import torch
        >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
        >>> dp = batches.write_parquet("memory://parquet/", rows_per_file=2, batched=True, mode="overwrite")
        >>> list(dp)
        [('memory://parquet/part-00000.parquet', 2), ('memory://parquet/part-00001.parquet', 1)]
        >>> [batch.column("image").type.shape for batch in ps.read_parquet("memory://parquet/")]
        [[2, 2], [2, 2]]
        """
        ...

    def write_tar(
        self: collections.abc.Iterable[dict[str, typing.Any]],
        url_template: str | os.PathLike[str],
        samples_per_shard: int | None = None,
        *,
        max_bytes: int | None = None,
        mode: penstock.pipes.bases.writing.write_shards.Mode = 'error',
        on_error: penstock.registry.OnError = 'raise',
        storage_options: collections.abc.Mapping[str, typing.Any] | None = None,
    ) -> penstock.pipes.iter.write_tar.TarWriter:
        """Write samples to tar archives in a folder, and yield the URL and the number of samples of each.

        Take it for samples of several files, such as an image and its label, and `write_parquet` for columns.

        A sample is a dict. `"__key__"` is its name in the archive. The other keys are the extensions of its files, with or
        without a dot, such as `"jpg"` or `".seg.png"`; those that begin with `__` are left out. Values are written so that
        `routed_decode` reads them again:

        - bytes and streams of bytes as they are; streams are closed;
        - str as UTF-8;
        - under `pt` and `pth`: tensors, and dicts and lists that hold some, by `torch.save`, on the CPU;
        - under `npy`: NumPy arrays; under `ten`: lists of them;
        - under `png`: uint8, or floats in 0 … 1, as arrays of shape (height, width) or (height, width, channels) or tensors
          of (channels, height, width), and images of Pillow;
        - int, float, bool, dict, list and NumPy's scalars: as JSON, which for an int is its digits;
        - under `json.gz`, `txt.gz` and so on: all but bytes and streams as without `gz`, and compressed.

        `url_template` is a folder, locally or at any URL of fsspec, whose shards are `part-00000.tar` and so on; or it
        names the shards: `{shard}`, or `{shard:06d}`, is the number of the shard, from 0. A shard ends with the sample at
        which it has `samples_per_shard`, or at which its files have `max_bytes`; without both, these are 128 MiB. It is
        sent while it is written, without a
        local file, in parts of 16 MiB; a few are in memory. On a local disk and in object stores it appears when it is
        complete. At its end, a pass writes an index, named with `index` for the number, and `.json`: for each shard its
        `name`, `samples`, `bytes` and `sha256`. Equal samples give equal bytes. `mode` says what happens to shards of an
        earlier run, as for `write_parquet`; by default they are an error.

        Put a `sharding_filter` before this to write in parallel. Each of n parts writes its own shards: the first has the
        numbers 0, n, 2 n, …, and its index is `…index-0-of-n.json`. On several ranks use `apply_sharding(dp, ranks, rank)`:
        `DistributedReadingService` makes ranks end together, which would repeat shards or leave some out. A resumed chain
        does not write shards again that it had yielded.

        `on_error` handles a sample that cannot be written; it cannot be a `Retry`. A failed upload always raises.
        `storage_options` are those of the file system, such as `{"anon": True}`; without them, credentials and endpoints
        come from the environment.

        Raises TypeError for a value of another kind. Raises ValueError for a sample that would be read differently: without
        files, with a key that is absolute or has a dot in its last part, or with the key of the one before it. At
        construction, raises ValueError where the stream is divided by anything but `sharding_filter`.

        >>> samples = IterableWrapper([{"__key__": f"{number:03d}", "cls": number, "txt": "…"} for number in range(5)])
        >>> dp = samples.write_tar("memory://shards/", samples_per_shard=2, mode="overwrite")
        >>> [(url.rpartition("/")[2], number) for url, number in dp]
        [('part-00000.tar', 2), ('part-00001.tar', 2), ('part-00002.tar', 1)]
        >>> tars = IterableWrapper(["memory://shards/part-00002.tar"]).open_files_by_fsspec("rb").load_from_tar()
        >>> list(tars.webdataset().routed_decode())
        [{'__key__': 'memory://shards/part-00002.tar/004', '.cls': 4, '.txt': '…'}]
        """
        ...

    @typing.overload
    def zip(
        self,
        second: penstock.registry.IterDataPipe[T2],
        /,
    ) -> penstock.pipes.iter.combine.Zipper[tuple[T_co, T2]]:
        """Yield tuples of one item from each source, until the shortest is exhausted.

        Take it for sources in step; `zip_with_iter` and `zip_with_map` join by key. As with Python's `zip`, sources before
        the shortest have by then yielded one more item, which is dropped. To zip a pipe with itself, fork it or build it
        twice: a pipe has one live iterator.

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

        Take it for sources in step; `zip_with_iter` and `zip_with_map` join by key. As with Python's `zip`, sources before
        the shortest have by then yielded one more item, which is dropped. To zip a pipe with itself, fork it or build it
        twice: a pipe has one live iterator.

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

        Take it for sources in step; `zip_with_iter` and `zip_with_map` join by key. As with Python's `zip`, sources before
        the shortest have by then yielded one more item, which is dropped. To zip a pipe with itself, fork it or build it
        twice: a pipe has one live iterator.

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

        Take it where shorter sources are filled up; `zip` ends with them. `fill_value` replaces the items of exhausted
        sources.

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

        Take it to join two streams of about the same order, and `zip_with_map` where one of them has an index or fits in
        memory. The order is that of the source. `ref_datapipe` is read until the key is found. Items passed over are kept,
        up to `buffer_size` items (None: no limit), until an item of the source needs them. Each is used once; unused ones
        are left out. `key_fn` makes the keys; `ref_key_fn`, by default `key_fn`, those of `ref_datapipe`. The two items
        come as a tuple, or as the result of `merge_fn(item, ref_item)`; with `keep_key`, in a pair after the key.

        `on_error` handles an item for which a function raises, or which has no match.

        Raises KeyError for an item whose key `ref_datapipe` lacks, BufferError where the buffer is full before the key is
        found, and ValueError where a key comes again in `ref_datapipe` before it was used.

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
        """Yield each item together with the item of a map-style pipe at its key.

        Take it to join with what has an index or fits in memory, and `zip_with_iter` for two streams. `key_fn` makes the
        key or index. The two items come as a tuple, or as the result of `merge_fn(item, found)`; with `keep_key`, in a pair
        after the key. `on_error` handles an item for which a function raises, or whose key is missing.

        Raises KeyError for an item whose key or index `map_datapipe` lacks.

        >>> names = ps.map.SequenceWrapper({1: "a", 2: "b"})
        >>> dp = IterableWrapper([2, 1]).zip_with_map(names, key_fn=int)
        >>> list(dp)
        [(2, 'b'), (1, 'a')]
        """
        ...

    def build_vocab(
        self: collections.abc.Iterable[collections.abc.Iterable[str]],
        *,
        min_freq: int = 1,
        specials: collections.abc.Sequence[str] = ...,
        special_first: bool = True,
        max_tokens: int | None = None,
        default: str | None = None,
    ) -> penstock.pipes.vocabulary.Vocab:
        """Return the vocabulary of a chain of lists of tokens, by reading it: `dp.build_vocab()`, or of any iterable.

        It has the tokens that come at least `min_freq` times: the most frequent first, and equally frequent ones sorted, so
        the order of the chain does not matter. `specials` come before them, or after them with `special_first=False`.
        `max_tokens` bounds the number of all, and drops the rarest. `default` is the special token that replaces unknown
        ones.

        Raises TypeError for items that are not lists of strings, and ValueError for specials that repeat, or that leave no
        room for other tokens.

        >>> import penstock as ps
        >>> reviews = ps.iter.IterableWrapper(["a good film", "a bad film", "a film"]).map(str.split)
        >>> vocab = reviews.build_vocab(min_freq=2, specials=("<pad>", "<unk>"), default="<unk>")
        >>> vocab.get_itos()
        ['<pad>', '<unk>', 'a', 'film']
        >>> list(reviews.map(vocab))
        [[2, 1, 3], [2, 1, 3], [2, 3]]
        """
        ...

    def count(self) -> int:
        """Return the number of items, by reading them all, with a progress bar as `take_all` has.

        After `ps.read_parquet` and its like the items are batches: `dp.rows().count()` counts the rows.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).filter(lambda x: x > 6).count()
        3
        """
        ...

    def explain(self) -> penstock.views.explanation.Explanation:
        """Return, in words, what the chain will do: order, shards, memory, resuming, where it runs, and mistakes.

        Nothing is read and nothing starts. `warnings` of the result are the mistakes, each with its fix as `mend`.

        >>> import penstock as ps
        >>> print(ps.iter.IterableWrapper(range(10)).batch(2).shuffle().explain().warnings[0].mend)
        .shuffle().batch(…), with the shuffle first
        """
        ...

    def iter_batches(
        self,
        batch_size: int | None = ...,
        batch_format: str = 'numpy',
        local_shuffle_buffer_size: int | None = None,
        drop_last: bool = False,
        prefetch_batches: int = 2,
        *,
        local_shuffle_seed: int | None = None,
        num_workers: int = 0,
        batched: bool | None = None,
        reading_service: penstock.runner.services.ReadingServiceInterface | None = None,
    ) -> penstock.runner.loading.loader.DataLoader2[typing.Any]:
        """Return a `DataLoader2` that yields batches of `batch_size` rows in a format, epoch after epoch.

        `batch_format` is `"numpy"`, `"torch"`, `"pandas"` or `"arrow"`, as for `with_format`; `"pyarrow"` is the same as
        `"arrow"`. Rows must be dicts. The other arguments are those of `iter_torch_batches`.

        Raises ValueError for an unknown format, TypeError for rows that are no dicts, and what `iter_torch_batches` raises.

        >>> import penstock as ps
        >>> rows = ps.from_items([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
        >>> list(rows.iter_batches(batch_size=2))
        [{'x': array([1., 2.]), 'name': array(['a', 'b'], dtype=object)}]
        """
        ...

    def iter_torch_batches(
        self,
        batch_size: int | None = ...,
        dtypes: penstock.pipes.columns.tensors.Dtypes | None = None,
        device: str | int | torch.device | None = None,
        collate_fn: collections.abc.Callable[[typing.Any], typing.Any] | None = None,
        local_shuffle_buffer_size: int | None = None,
        drop_last: bool = False,
        prefetch_batches: int = 2,
        *,
        local_shuffle_seed: int | None = None,
        num_workers: int = 0,
        batched: bool | None = None,
        reading_service: penstock.runner.services.ReadingServiceInterface | None = None,
    ) -> penstock.runner.loading.loader.DataLoader2[typing.Any]:
        """Return a `DataLoader2` that yields batches of `batch_size` rows as dicts of tensors, epoch after epoch.

        Items are batches of columns, of any number of rows: Arrow's, or dicts of tensors, arrays and lists. `to_tensors`
        converts their columns, with `dtypes`. Or they are rows, such as dicts and tuples, and `collate` stacks them.
        `batched` tells the kind, or else the chain does, as after `ps.read_parquet` or `rows`. Where it does not, Arrow
        batches are batches, and other items are rows; a dict of only tensors and arrays, and perhaps lists, is then an
        error. With `batch_size=None`, each item is a batch, and only converted to tensors. The loader then has the chain's
        length, which is otherwise unknown in advance.

        `local_shuffle_buffer_size` is the number of rows in a shuffle buffer; the loader's seed, `local_shuffle_seed` or
        else a random one, gives each epoch another order. `collate_fn` replaces all conversions. Where the kind of items
        is known, it is called with a dict of arrays for each batch, as the function of `map_batches` is; elsewhere
        with a RecordBatch, a dict, or a list of rows. If `device` is given, tensors are copied there from pinned memory
        while the batch before is used. `drop_last` drops a short last batch.

        A thread, or each of `num_workers` processes, reads `prefetch_batches` ahead; processes divide the stream at the
        chain's sharding points. A `reading_service` replaces these two arguments.

        Raises TypeError or ValueError for wrong arguments; reading raises what `to_tensors`, `rebatch`, `collate` raise.

        >>> import penstock as ps
        >>> rows = ps.iter.IterableWrapper([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}, {"x": 3.0, "name": "c"}])
        >>> list(iter_torch_batches(rows, batch_size=2, dtypes={"x": torch.float32}))
        [{'x': tensor([1., 2.]), 'name': ['a', 'b']}, {'x': tensor([3.]), 'name': ['c']}]
        """
        ...

    def peek(self, n: int = 1) -> list[T_co]:
        """Return the first `n` items, read from a copy, so a current pass over the pipe goes on.

        The copy shares what is no part of the chain's graph, such as another chain in a closure.
        Raises TypeError if the chain reads an iterator, such as a generator, which can be read only once.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(10))
        >>> iterator = iter(dp)
        >>> next(iterator), dp.peek(2), next(iterator)
        (0, [0, 1], 1)
        """
        ...

    def profile(self, n: int | None = None, *, passes: int = 1) -> penstock.views.profiles.profile.Profile:
        """Return where the time goes: what each step takes for the first `n` items, or for all.

        A copy of the chain is read, as by `peek`, so a current pass goes on. With several `passes`, the last is measured:
        `passes=2` finds caches filled. Printing the profile shows a table, and a sentence that names the bottleneck. A
        loader has its own `profile()`, with its workers. Without `n`, it raises ValueError for a chain that never ends.

        >>> import time
        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(50)).map(lambda x: time.sleep(0.001)).batch(5)
        >>> "of the time is in `map(<lambda>)`" in dp.profile().verdict
        True
        """
        ...

    def random_shuffle(self, seed: int | None = None, *, buffer_size: int = 10000) -> typing.Any:
        """Return the chain with its rows in a random order: `shuffle_rows` for column batches, else `shuffle`.

        `buffer_size` is the number of rows in the buffer that is drawn from; one as large as the data gives each order with
        the same probability. `seed` is that of `set_seed`: loaders set their own. A map-style chain is shuffled whole.

        >>> import penstock as ps
        >>> sorted(ps.from_items(range(5)).random_shuffle(seed=1))
        [0, 1, 2, 3, 4]
        """
        ...

    def run(self) -> dict[str, int]:
        """Read a chain to its end, and return the number of its `items`, and of those `skipped` and attempts `retried`.

        For a chain that ends in a writer, `files` are counted in place of items, and their `rows` or `samples`. A resumed
        chain counts what it still reads. A long pass shows a progress bar, as `count` does. A loader has its own `run()`.

        Raises ValueError for a chain that never ends.

        >>> import penstock as ps
        >>> rows = ps.from_items([{"id": number} for number in range(5)])
        >>> rows.write_json("memory://run/", rows_per_file=2).run()
        {'files': 3, 'rows': 5, 'skipped': 0, 'retried': 0}
        >>> rows.batch(2).run()
        {'items': 3, 'skipped': 0, 'retried': 0}
        """
        ...

    def schema(self) -> penstock.pipes.columns.schema.Schema:
        """Return the names, dtypes and shapes of the fields of a chain's items. The chain does not change.

        A reader that knows its schema, such as `read_parquet`, reports it. Else the first item of a copy of the chain is
        inspected, and the copy is closed: this runs the steps for one item, with side effects such as writing. The shapes
        of a batch are those of the first one.

        Arrow columns have Arrow types. So have times that `to_tensors` made int64, since the type says their unit and zone.
        An item that is neither a batch, a dict nor a tuple is one field, `"item"`.

        Raises TypeError for a chain over an iterator, since inspecting an item would consume it, and ValueError for a chain
        without items.

        >>> import penstock as ps, torch
        >>> dp = ps.iter.IterableWrapper([{"image": torch.zeros(3, 8, 8), "label": 1}]).repeat(1000)
        >>> ps.schema(dp)
        name   dtype    shape
        image  float32  (3, 8, 8)
        label  int
        """
        ...

    def show(self, n: int = 5, *, limit: int | None = None) -> None:
        """Show the chain and its first `n` items: in a notebook with images, sound and tables, else as text.

        `limit` is Ray Data's name for `n`. Large items are abbreviated. The items are those that `peek` returns; if it
        cannot copy the chain, a new pass begins.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).batch(4).show(2)
        IterableWrapper(range(0, 10)).batch(4)
        0: [0, 1, 2, 3]
        1: [4, 5, 6, 7]
        """
        ...

    def stats(self) -> dict[str, dict[str, typing.Any]]:
        """Return, by their names, the counts of the steps that skip or retry, for the last pass.

        Each step has the number of items `skipped`, the number of attempts `retried`, and the `last_errors`. A step
        with an argument "auto" has `tuned`, what was found for it: a list with a text for each chain that was read.
        Steps of the same name are numbered from the source on, as in `"map 1"`.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
        >>> list(dp)
        [1, 3]
        >>> dp.stats()["map"]["skipped"], dp.stats()["map"]["last_errors"]
        (1, ["ValueError: invalid literal for int() with base 10: 'x', on 'x'"])
        """
        ...

    def take(self, n: int) -> list[T_co]:
        """Return the first `n` items.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).take(3)
        [0, 1, 2]
        """
        ...

    def take_all(self) -> list[T_co]:
        """Return all items as a list. On a terminal or in a notebook, a progress bar appears after some seconds.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper("abc").take_all()
        ['a', 'b', 'c']
        """
        ...

    def to_ray_dataset(
        self,
        num_shards: int | None = None,
        *,
        seed: int | None = None,
        epoch: int | None = None,
        batched: bool | None = None,
        require_sharding: bool = True,
        **read_options: typing.Any,
    ) -> ray.data.Dataset:
        """Return a dataset of Ray Data with the rows of the chain; one Ray task reads each shard.

        Each of the `num_shards` shards has the same items in the same order as in a `DataLoader2` with that many shards.
        The default is one shard per CPU of the cluster, or a single one for a chain without a sharding point. Ray gives
        blocks in the order of arrival. With `execution_options.preserve_order` of its `DataContext`, it gives one shard
        after the other. Rows are read when Ray executes the dataset. What all shards must agree on, such as the newest
        version of a table, is looked up here, and again for each execution. For the schema, Ray reads the first block.

        A dict or named tuple is a row, with a column for each key or field. A batch (Arrow, pandas, or a dict of tensors,
        arrays and lists) becomes as many rows as it has. Any other item becomes the column `"item"`. `batched`, or else the
        chain, tells whether a dict is a row or a batch, as for `iter_torch_batches`. Tensors and arrays become Ray's tensor
        columns, even if their shapes differ; every row must then have a tensor. In other columns, missing values are null,
        and Ray pickles values without an Arrow type. A task collects up to 256 rows, about 8 MiB, or one batch of the
        chain, before Ray adds them to a block of `target_max_block_size`.

        `seed` is a loader's seed; without one, torch's generator draws it. Each execution by Ray is a new epoch, with its
        own order and random numbers, even if Ray only counts rows or looks for the schema. With `epoch`, each execution is
        that epoch, counted from 0, as a loader with this seed reads it. As in a loader's workers, the global generators of
        torch, NumPy and random are seeded before each item.

        cloudpickle sends the chain to the tasks once; the modules of its functions must be installed there. `read_options`
        are those of `ray.data.read_datasource`, such as `num_cpus`, `num_gpus`, `memory` and `concurrency`.

        Raises RuntimeError for several shards without a sharding point, unless `require_sharding=False` lets each shard
        read the whole chain; RuntimeError for steps that belong in the main process; ImportError if Ray is missing. While
        the dataset is read, Ray raises the chain's errors, with their notes, as errors that are also a `RayTaskError`:
        ValueError for a dict that may be a batch or a row; TypeError for a tuple or list with tensors, which have no names,
        for a row without columns, for a column with tensors in some rows only, and for tensors of dtypes that NumPy lacks.
        """
        ...

    def train_test_split(
        self,
        test_size: float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
    ) -> tuple[typing.Any, typing.Any]:
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
        ...

    def visualize(self, path: str | os.PathLike[str] | None = None) -> penstock.views.pictures.picture.Picture:
        """Return the picture of the chain, which a notebook draws; with a `path`, write it to a file too.

        The name of the file ends in .svg, .png or .mmd, which is Mermaid; ValueError for another ending. A PNG needs
        resvg-py: ImportError says how to install it. Nothing is read.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).batch(4).visualize()
        IterableWrapper(range(0, 10)).batch(4)
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
        """Give batches of `batch_size` items; the last may be shorter, or is left out with `drop_last`.

        The source is read by 0, 1, 2, …. Batches are numbered from 0, and negative numbers count from the end.
        `wrapper_class` makes a batch of a list; torch's `unbatch` knows the default. Where the source has `__getitems__`,
        one call of it reads a batch.

        >>> dp = SequenceWrapper("abcde").batch(2)
        >>> dp[0], dp[-1], len(dp)
        (['a', 'b'], ['e'], 3)
        """
        ...

    def concat(self, *sources: penstock.registry.MapDataPipe[T]) -> penstock.pipes.map.combine.Concater[T_co | T]:
        """Give the items of the first source, then those of the second, and so on, under one running index.

        The sources are read by 0, 1, 2, …. Negative indices count from the end of the last. `dp + other` is
        short for `dp.concat(other)`.

        >>> dp = SequenceWrapper("ab").concat(SequenceWrapper("cd"))
        >>> dp[2], list(dp)
        ('c', ['a', 'b', 'c', 'd'])
        """
        ...

    def filter(
        self,
        filter_fn: collections.abc.Callable[..., typing.Any],
        input_col: penstock.pipes.bases.input_columns.Columns | None = None,
        *,
        on_error: penstock.registry.OnError = 'raise',
    ) -> penstock.pipes.map.filter.Filter[T_co]:
        """Give the items of the source for which `filter_fn(item)` is true, numbered from 0.

        The first access to an item or the length reads the complete source, by 0, 1, 2, …, and keeps the indices of what
        passes: 8 bytes each. Copies and pickles have these, if they are known by then: call `len(dp)` before workers start,
        or each of them reads the source. It is read again where its random steps have other seeds when a pass begins. With
        `input_col`, `filter_fn` takes these columns of an item. `on_error` handles an item for which `filter_fn` raises.

        Raises IndexError for an index out of range.

        >>> dp = SequenceWrapper(range(10)).filter(lambda x: x % 3 == 0)
        >>> list(dp), len(dp), dp[-1]
        ([0, 3, 6, 9], 4, 9)
        """
        ...

    def in_memory_cache(self) -> penstock.pipes.map.cache.InMemoryCacheHolder[T_co]:
        """Give each item of the source, read only once.

        Each access gives the same object, so in-place changes persist. Equal indices share an item; -1 and the last index
        do not. Each process, so each worker, has its own cache, which pickles and copies do not include. Where earlier
        random steps have other seeds when a pass begins, items are read again.

        Raises TypeError for an index that is not hashable, such as a list.

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
        """Give fn(item) for each item, computed on each access.

        Indices and keys, negative ones included, go to the source as they are. `on_error` is `"raise"` or a `Retry`: items
        read by index cannot be left out.

        >>> dp = SequenceWrapper(range(3)).map(lambda x: x * 10)
        >>> dp[2], list(dp)
        (20, [0, 10, 20])
        """
        ...

    def mix(
        self,
        *sources: penstock.registry.MapDataPipe[T],
        weights: collections.abc.Sequence[float] | None = None,
    ) -> penstock.pipes.map.mix.Mixer[T_co | T]:
        """Give the items of several sources, in order, in the proportions of `weights`: nothing is drawn.

        `weights` has one number for each source, the first included; without them all are equal. Among the first n items, a
        source has its share of n, but for less than one item for each source. The mix ends before a source would have to
        give more items than it has: repeat the short ones, as by `a.repeat(3).mix(b, weights=[1, 2])`. The sources are read
        by 0, 1, 2, …: shuffle the mix, or what is in the sources.

        Raises TypeError for weights that are not a list of numbers, and ValueError where their number differs from that of
        the sources, or a weight is not finite and positive.

        >>> dp = SequenceWrapper("aaaa").mix(SequenceWrapper("bb"), weights=[2, 1])
        >>> list(dp), dp[-1]
        (['a', 'a', 'b', 'a', 'a', 'b'], 'b')
        """
        ...

    def repeat(self, times: int) -> penstock.pipes.map.repeat.Repeater[T_co]:
        """Give the items of the source `times` times over, under one running index: all of them, and all of them again.

        The `repeat` of a stream gives each item several times before the next, and its `cycle` is like this.

        >>> dp = SequenceWrapper("abc").repeat(2)
        >>> list(dp), dp[-1]
        (['a', 'b', 'c', 'a', 'b', 'c'], 'c')
        """
        ...

    def shuffle(
        self,
        *,
        indices: collections.abc.Iterable[typing.Any] | None = None,
    ) -> penstock.pipes.map.shuffle.Shuffler[T_co]:
        """Yield the items of a map-style pipe in a random order, a new one in each pass.

        The result is read item by item, since it has an order. `indices` are those to shuffle, by default 0, 1, 2, …; a
        pipe with other keys needs them.

        The shuffle is global, over all items, and takes no memory: the order is computed in pieces (see
        `penstock.pipes.bases.permutation`), so a shuffle of 10**9 items begins, and resumes anywhere, at once. Up to 65,536
        items all orders are equally likely. A `sharding_filter` right after it reads only its own items. A `batch` right
        after either reads each batch by one `__getitems__` call, where `source` has that.

        >>> dp = SequenceWrapper(range(6)).shuffle().set_seed(1)
        >>> sorted(dp)
        [0, 1, 2, 3, 4, 5]
        """
        ...

    def subset(self, indices: collections.abc.Sequence[int]) -> penstock.pipes.map.subset.Subset[T_co]:
        """Give the items of the source at `indices`, a sequence of integers such as a list, an array or a range.

        `dp[10:20]` and `dp[::2]` are short for it. Negative indices of the result count from its end.

        Indices are not divided among readers: put `sharding_filter` behind it. Behind a source that is divided, a reader
        may lack the keys.

        Raises TypeError for indices that are no sequence, or a mask of booleans.

        >>> dp = SequenceWrapper("abcdef").subset([4, 0])
        >>> list(dp), list(SequenceWrapper("abcdef")[1:5][::2])
        (['e', 'a'], ['b', 'd'])
        """
        ...

    def to_iter_datapipe(
        self,
        indices: collections.abc.Iterable[typing.Any] | None = None,
    ) -> penstock.pipes.iter.convert.MapToIterConverter[T_co]:
        """Yield the items of a map-style pipe in the order of `indices`, by default 0, 1, 2, ….

        `indices` is any iterable that each pass can read again, such as a list or the keys of a dict. A pipe whose keys are
        not 0, 1, 2, … needs it. To resume exactly, it must give the same order in each pass.

        A `sharding_filter` right after this reads only its own items. A `batch` right after either reads each batch by one
        call of `__getitems__` where `source` has that method, as data sets of Hugging Face and torch do.

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
        """Give a list of pipes, one per column of the items, which are sequences of `sequence_length`.

        Columns in `columns_to_skip` get no pipe. Each pipe reads the complete item to give its column.

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
        """Give tuples of the sources' items at one index or key, as many as the shortest source has.

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
        """Give tuples of the sources' items at one index or key, as many as the shortest source has.

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
        """Give tuples of the sources' items at one index or key, as many as the shortest source has.

        Negative indices count from the end of the shortest.

        >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
        >>> dp[0], dp[-1], len(dp)
        (('a', 10), ('c', 12), 3)
        """
        ...

    def build_vocab(
        self: collections.abc.Iterable[collections.abc.Iterable[str]],
        *,
        min_freq: int = 1,
        specials: collections.abc.Sequence[str] = ...,
        special_first: bool = True,
        max_tokens: int | None = None,
        default: str | None = None,
    ) -> penstock.pipes.vocabulary.Vocab:
        """Return the vocabulary of a chain of lists of tokens, by reading it: `dp.build_vocab()`, or of any iterable.

        It has the tokens that come at least `min_freq` times: the most frequent first, and equally frequent ones sorted, so
        the order of the chain does not matter. `specials` come before them, or after them with `special_first=False`.
        `max_tokens` bounds the number of all, and drops the rarest. `default` is the special token that replaces unknown
        ones.

        Raises TypeError for items that are not lists of strings, and ValueError for specials that repeat, or that leave no
        room for other tokens.

        >>> import penstock as ps
        >>> reviews = ps.iter.IterableWrapper(["a good film", "a bad film", "a film"]).map(str.split)
        >>> vocab = reviews.build_vocab(min_freq=2, specials=("<pad>", "<unk>"), default="<unk>")
        >>> vocab.get_itos()
        ['<pad>', '<unk>', 'a', 'film']
        >>> list(reviews.map(vocab))
        [[2, 1, 3], [2, 1, 3], [2, 3]]
        """
        ...

    def count(self) -> int:
        """Return the number of items, by reading them all, with a progress bar as `take_all` has.

        After `ps.read_parquet` and its like the items are batches: `dp.rows().count()` counts the rows.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).filter(lambda x: x > 6).count()
        3
        """
        ...

    def explain(self) -> penstock.views.explanation.Explanation:
        """Return, in words, what the chain will do: order, shards, memory, resuming, where it runs, and mistakes.

        Nothing is read and nothing starts. `warnings` of the result are the mistakes, each with its fix as `mend`.

        >>> import penstock as ps
        >>> print(ps.iter.IterableWrapper(range(10)).batch(2).shuffle().explain().warnings[0].mend)
        .shuffle().batch(…), with the shuffle first
        """
        ...

    def iter_batches(
        self,
        batch_size: int | None = ...,
        batch_format: str = 'numpy',
        local_shuffle_buffer_size: int | None = None,
        drop_last: bool = False,
        prefetch_batches: int = 2,
        *,
        local_shuffle_seed: int | None = None,
        num_workers: int = 0,
        batched: bool | None = None,
        reading_service: penstock.runner.services.ReadingServiceInterface | None = None,
    ) -> penstock.runner.loading.loader.DataLoader2[typing.Any]:
        """Return a `DataLoader2` that yields batches of `batch_size` rows in a format, epoch after epoch.

        `batch_format` is `"numpy"`, `"torch"`, `"pandas"` or `"arrow"`, as for `with_format`; `"pyarrow"` is the same as
        `"arrow"`. Rows must be dicts. The other arguments are those of `iter_torch_batches`.

        Raises ValueError for an unknown format, TypeError for rows that are no dicts, and what `iter_torch_batches` raises.

        >>> import penstock as ps
        >>> rows = ps.from_items([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
        >>> list(rows.iter_batches(batch_size=2))
        [{'x': array([1., 2.]), 'name': array(['a', 'b'], dtype=object)}]
        """
        ...

    def iter_torch_batches(
        self,
        batch_size: int | None = ...,
        dtypes: penstock.pipes.columns.tensors.Dtypes | None = None,
        device: str | int | torch.device | None = None,
        collate_fn: collections.abc.Callable[[typing.Any], typing.Any] | None = None,
        local_shuffle_buffer_size: int | None = None,
        drop_last: bool = False,
        prefetch_batches: int = 2,
        *,
        local_shuffle_seed: int | None = None,
        num_workers: int = 0,
        batched: bool | None = None,
        reading_service: penstock.runner.services.ReadingServiceInterface | None = None,
    ) -> penstock.runner.loading.loader.DataLoader2[typing.Any]:
        """Return a `DataLoader2` that yields batches of `batch_size` rows as dicts of tensors, epoch after epoch.

        Items are batches of columns, of any number of rows: Arrow's, or dicts of tensors, arrays and lists. `to_tensors`
        converts their columns, with `dtypes`. Or they are rows, such as dicts and tuples, and `collate` stacks them.
        `batched` tells the kind, or else the chain does, as after `ps.read_parquet` or `rows`. Where it does not, Arrow
        batches are batches, and other items are rows; a dict of only tensors and arrays, and perhaps lists, is then an
        error. With `batch_size=None`, each item is a batch, and only converted to tensors. The loader then has the chain's
        length, which is otherwise unknown in advance.

        `local_shuffle_buffer_size` is the number of rows in a shuffle buffer; the loader's seed, `local_shuffle_seed` or
        else a random one, gives each epoch another order. `collate_fn` replaces all conversions. Where the kind of items
        is known, it is called with a dict of arrays for each batch, as the function of `map_batches` is; elsewhere
        with a RecordBatch, a dict, or a list of rows. If `device` is given, tensors are copied there from pinned memory
        while the batch before is used. `drop_last` drops a short last batch.

        A thread, or each of `num_workers` processes, reads `prefetch_batches` ahead; processes divide the stream at the
        chain's sharding points. A `reading_service` replaces these two arguments.

        Raises TypeError or ValueError for wrong arguments; reading raises what `to_tensors`, `rebatch`, `collate` raise.

        >>> import penstock as ps
        >>> rows = ps.iter.IterableWrapper([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}, {"x": 3.0, "name": "c"}])
        >>> list(iter_torch_batches(rows, batch_size=2, dtypes={"x": torch.float32}))
        [{'x': tensor([1., 2.]), 'name': ['a', 'b']}, {'x': tensor([3.]), 'name': ['c']}]
        """
        ...

    def peek(self, n: int = 1) -> list[T_co]:
        """Return the first `n` items, read from a copy, so a current pass over the pipe goes on.

        The copy shares what is no part of the chain's graph, such as another chain in a closure.
        Raises TypeError if the chain reads an iterator, such as a generator, which can be read only once.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(10))
        >>> iterator = iter(dp)
        >>> next(iterator), dp.peek(2), next(iterator)
        (0, [0, 1], 1)
        """
        ...

    def profile(self, n: int | None = None, *, passes: int = 1) -> penstock.views.profiles.profile.Profile:
        """Return where the time goes: what each step takes for the first `n` items, or for all.

        A copy of the chain is read, as by `peek`, so a current pass goes on. With several `passes`, the last is measured:
        `passes=2` finds caches filled. Printing the profile shows a table, and a sentence that names the bottleneck. A
        loader has its own `profile()`, with its workers. Without `n`, it raises ValueError for a chain that never ends.

        >>> import time
        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(50)).map(lambda x: time.sleep(0.001)).batch(5)
        >>> "of the time is in `map(<lambda>)`" in dp.profile().verdict
        True
        """
        ...

    def random_shuffle(self, seed: int | None = None, *, buffer_size: int = 10000) -> typing.Any:
        """Return the chain with its rows in a random order: `shuffle_rows` for column batches, else `shuffle`.

        `buffer_size` is the number of rows in the buffer that is drawn from; one as large as the data gives each order with
        the same probability. `seed` is that of `set_seed`: loaders set their own. A map-style chain is shuffled whole.

        >>> import penstock as ps
        >>> sorted(ps.from_items(range(5)).random_shuffle(seed=1))
        [0, 1, 2, 3, 4]
        """
        ...

    def run(self) -> dict[str, int]:
        """Read a chain to its end, and return the number of its `items`, and of those `skipped` and attempts `retried`.

        For a chain that ends in a writer, `files` are counted in place of items, and their `rows` or `samples`. A resumed
        chain counts what it still reads. A long pass shows a progress bar, as `count` does. A loader has its own `run()`.

        Raises ValueError for a chain that never ends.

        >>> import penstock as ps
        >>> rows = ps.from_items([{"id": number} for number in range(5)])
        >>> rows.write_json("memory://run/", rows_per_file=2).run()
        {'files': 3, 'rows': 5, 'skipped': 0, 'retried': 0}
        >>> rows.batch(2).run()
        {'items': 3, 'skipped': 0, 'retried': 0}
        """
        ...

    def schema(self) -> penstock.pipes.columns.schema.Schema:
        """Return the names, dtypes and shapes of the fields of a chain's items. The chain does not change.

        A reader that knows its schema, such as `read_parquet`, reports it. Else the first item of a copy of the chain is
        inspected, and the copy is closed: this runs the steps for one item, with side effects such as writing. The shapes
        of a batch are those of the first one.

        Arrow columns have Arrow types. So have times that `to_tensors` made int64, since the type says their unit and zone.
        An item that is neither a batch, a dict nor a tuple is one field, `"item"`.

        Raises TypeError for a chain over an iterator, since inspecting an item would consume it, and ValueError for a chain
        without items.

        >>> import penstock as ps, torch
        >>> dp = ps.iter.IterableWrapper([{"image": torch.zeros(3, 8, 8), "label": 1}]).repeat(1000)
        >>> ps.schema(dp)
        name   dtype    shape
        image  float32  (3, 8, 8)
        label  int
        """
        ...

    def show(self, n: int = 5, *, limit: int | None = None) -> None:
        """Show the chain and its first `n` items: in a notebook with images, sound and tables, else as text.

        `limit` is Ray Data's name for `n`. Large items are abbreviated. The items are those that `peek` returns; if it
        cannot copy the chain, a new pass begins.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).batch(4).show(2)
        IterableWrapper(range(0, 10)).batch(4)
        0: [0, 1, 2, 3]
        1: [4, 5, 6, 7]
        """
        ...

    def stats(self) -> dict[str, dict[str, typing.Any]]:
        """Return, by their names, the counts of the steps that skip or retry, for the last pass.

        Each step has the number of items `skipped`, the number of attempts `retried`, and the `last_errors`. A step
        with an argument "auto" has `tuned`, what was found for it: a list with a text for each chain that was read.
        Steps of the same name are numbered from the source on, as in `"map 1"`.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
        >>> list(dp)
        [1, 3]
        >>> dp.stats()["map"]["skipped"], dp.stats()["map"]["last_errors"]
        (1, ["ValueError: invalid literal for int() with base 10: 'x', on 'x'"])
        """
        ...

    def take(self, n: int) -> list[T_co]:
        """Return the first `n` items.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).take(3)
        [0, 1, 2]
        """
        ...

    def take_all(self) -> list[T_co]:
        """Return all items as a list. On a terminal or in a notebook, a progress bar appears after some seconds.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper("abc").take_all()
        ['a', 'b', 'c']
        """
        ...

    def to_ray_dataset(
        self,
        num_shards: int | None = None,
        *,
        seed: int | None = None,
        epoch: int | None = None,
        batched: bool | None = None,
        require_sharding: bool = True,
        **read_options: typing.Any,
    ) -> ray.data.Dataset:
        """Return a dataset of Ray Data with the rows of the chain; one Ray task reads each shard.

        Each of the `num_shards` shards has the same items in the same order as in a `DataLoader2` with that many shards.
        The default is one shard per CPU of the cluster, or a single one for a chain without a sharding point. Ray gives
        blocks in the order of arrival. With `execution_options.preserve_order` of its `DataContext`, it gives one shard
        after the other. Rows are read when Ray executes the dataset. What all shards must agree on, such as the newest
        version of a table, is looked up here, and again for each execution. For the schema, Ray reads the first block.

        A dict or named tuple is a row, with a column for each key or field. A batch (Arrow, pandas, or a dict of tensors,
        arrays and lists) becomes as many rows as it has. Any other item becomes the column `"item"`. `batched`, or else the
        chain, tells whether a dict is a row or a batch, as for `iter_torch_batches`. Tensors and arrays become Ray's tensor
        columns, even if their shapes differ; every row must then have a tensor. In other columns, missing values are null,
        and Ray pickles values without an Arrow type. A task collects up to 256 rows, about 8 MiB, or one batch of the
        chain, before Ray adds them to a block of `target_max_block_size`.

        `seed` is a loader's seed; without one, torch's generator draws it. Each execution by Ray is a new epoch, with its
        own order and random numbers, even if Ray only counts rows or looks for the schema. With `epoch`, each execution is
        that epoch, counted from 0, as a loader with this seed reads it. As in a loader's workers, the global generators of
        torch, NumPy and random are seeded before each item.

        cloudpickle sends the chain to the tasks once; the modules of its functions must be installed there. `read_options`
        are those of `ray.data.read_datasource`, such as `num_cpus`, `num_gpus`, `memory` and `concurrency`.

        Raises RuntimeError for several shards without a sharding point, unless `require_sharding=False` lets each shard
        read the whole chain; RuntimeError for steps that belong in the main process; ImportError if Ray is missing. While
        the dataset is read, Ray raises the chain's errors, with their notes, as errors that are also a `RayTaskError`:
        ValueError for a dict that may be a batch or a row; TypeError for a tuple or list with tensors, which have no names,
        for a row without columns, for a column with tensors in some rows only, and for tensors of dtypes that NumPy lacks.
        """
        ...

    def train_test_split(
        self,
        test_size: float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
    ) -> tuple[typing.Any, typing.Any]:
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
        ...

    def visualize(self, path: str | os.PathLike[str] | None = None) -> penstock.views.pictures.picture.Picture:
        """Return the picture of the chain, which a notebook draws; with a `path`, write it to a file too.

        The name of the file ends in .svg, .png or .mmd, which is Mermaid; ValueError for another ending. A PNG needs
        resvg-py: ImportError says how to install it. Nothing is read.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).batch(4).visualize()
        IterableWrapper(range(0, 10)).batch(4)
        """
        ...
