"""The operators, grouped by what people want to do."""

from __future__ import annotations

from ..registry import Operator, operators

GROUPS: dict[str, tuple[str, str]] = {
    "Begin a chain": (
        "`IterableWrapper` wraps what can be iterated over, `SequenceWrapper` what has an index.",
        "IterableWrapper SequenceWrapper Sampler NodeReader HuggingFaceHubReader ObjectReader TarReader",
    ),
    "List files": (
        "Take `list_files_by_s3` for all that is below a prefix in S3, and `list_files_by_fsspec` for a "
        "folder, without its sub-folders, or any other URL. `list_table_files` lists files of one format, "
        "`list_row_groups` the row groups of Parquet files, `list_image_folder` images with the number of their class. "
        "`shard_expand` makes names without "
        "listing. The others are for local folders, iopath and AIStore.",
        "list_files_by_s3 list_files_by_fsspec list_table_files list_row_groups list_image_folder shard_expand "
        "list_files list_files_by_iopath list_files_by_ais",
    ),
    "Open files, and load objects": (
        "Take `load_files_by_s3` for many objects: it loads several at once. Take `open_files_by_fsspec` where a step "
        "needs one stream at a time. `cache_files` keeps the files on a local disk.",
        "load_files_by_s3 open_files_by_fsspec cache_files open_files read_from_remote read_from_http read_from_gdrive "
        "open_files_by_iopath load_files_by_ais",
    ),
    "Unpack archives, and decompress": (
        "`decompress` finds out how a stream is compressed. The loaders of one format have torchdata's names.",
        "load_from_tar load_from_zip load_from_rar decompress extract load_from_bz2 load_from_xz",
    ),
    "Read the content of streams": (
        "`webdataset` groups the members of tars into samples, and `routed_decode` decodes each by its extension. "
        "`read_from_stream` gives the content as it is, where no parser fits.",
        "webdataset routed_decode readlines lines_to_paragraphs parse_csv_as_dict parse_csv parse_json "
        "parse_json_files load_from_tfrecord read_from_stream",
    ),
    "Read tables, images, videos, text and arrays": (
        "`ps.read_parquet(url)` and its like list the files, too. `ps.read_delta`, `read_iceberg` and `read_lance` "
        "read tables with versions, `ps.read_sql` queries of databases. `ps.read_image_folder(url)` labels images by "
        "their folders. `read_images`, `read_videos` and `read_text` yield a dict for each image, clip or line. The "
        "others yield columns, batch by batch.",
        "read_parquet read_csv read_json read_ipc read_orc read_numpy read_images read_videos read_text "
        "load_parquet_as_df",
    ),
    "Turn columns into tensors, and back": (
        "`to_tensors` makes dicts of tensors. `rebatch` sets how many rows are in each, before or after.",
        "to_tensors rebatch with_format rows dataframe rows2columnar",
    ),
    "Call a function": (
        "`map` calls it in this process. Take `processpool_map` for Python code that computes, `threadpool_map` for "
        "what waits or releases the GIL, `async_map_batches` for coroutines, and `map_pool` for a model made once.",
        "map processpool_map threadpool_map async_map_batches map_pool map_batches flatmap filter pipe vmap",
    ),
    "Change the fields of an item": (
        "For items that are tuples, lists or dicts.",
        "slice drop flatten add_index enumerate repeat",
    ),
    "Choose columns": (
        "For column batches, and for rows that are dicts. Readers take `columns` themselves, and then read only these.",
        "select_columns drop_columns rename_columns",
    ),
    "Shuffle": (
        "`shuffle` draws from a buffer. Shuffle files or row groups first: then a small item buffer is enough.",
        "shuffle shuffle_rows shuffle_row_groups shuffle_image_folder shuffled_flatmap in_batch_shuffle",
    ),
    "Batch": (
        "`batch` counts items. `bucket_by_length`, `bucketbatch`, `max_token_bucketize` and `pack` look at how long "
        "they are.",
        "batch unbatch collate bucket_by_length bucketbatch max_token_bucketize pack groupby",
    ),
    "Join streams": (
        "`mix` draws by weight: take it to train on several corpora. `mux` takes turns, and `zip` makes tuples. `join` "
        "adds the columns of a table.",
        "mix mux mux_longest concat zip zip_longest join zip_with_iter zip_with_map SampleMultiplexer",
    ),
    "Split a stream": (
        "`fork` gives every branch all items, `demux` each item to one.",
        "fork demux random_split unzip round_robin_demux",
    ),
    "Choose what is read, and say how long it is": (
        "`header` ends after a number of items, `limit` after a number of rows, `until_error` at the first error. "
        "`cycle` goes on for ever. `random_sample` draws rows: the same ones for any number of workers. `subset`, or "
        "`dp[10:20]`, takes items of a map-style pipe.",
        "header limit until_error random_sample cycle set_length subset",
    ),
    "Keep what was made": (
        "`in_memory_cache` keeps items in this process. `on_disk_cache` and `end_caching` keep the files that the "
        "steps between them make.",
        "in_memory_cache on_disk_cache end_caching",
    ),
    "Share the work, and read ahead": (
        "Put `sharding_filter` after the shuffle of the files. `shard_files` in its place divides few large files, "
        "too. `prefetch` lets a thread read ahead.",
        "sharding_filter shard_files sharding_round_robin_dispatch prefetch fullsync",
    ),
    "Move to a device": (
        "`to_device` copies the next batch while this one is used.",
        "to_device pin_memory",
    ),
    "Write": (
        "The writers of shards name their files. The savers take the name with each item.",
        "write_parquet write_tar write_numpy write_csv write_json save_by_fsspec save_to_disk save_by_iopath",
    ),
    "Check": ("A wrong digest is an error.", "check_hash"),
    "See how far it is": (
        "`DataLoader2(…, progress=True)` shows a bar for each epoch, from outside of the workers.",
        "progress",
    ),
    "Go between the two kinds of pipe": (
        "An iterable pipe is read in order, a map-style one by index or key.",
        "to_map_datapipe to_iter_datapipe",
    ),
}
"""For each group, advice on choosing, and its operators: the preferred one first."""


def entries_of(name: str) -> list[Operator]:
    """Return the operators of a name, of either kind of pipe.

    >>> [entry.cls.__name__ for entry in entries_of("load_from_tar")]
    ['TarArchiveLoader']
    """
    return [operators[key] for key in (f"iter.{name}", f"map.{name}") if key in operators]
