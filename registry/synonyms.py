"""Words of other libraries, and the operators that people who type them look for."""

from __future__ import annotations

_JOIN = "join zip_with_map zip_with_iter"
_SPLIT = "train_test_split random_split random_sample demux"
_PARALLEL = "processpool_map threadpool_map map_pool async_map_batches prefetch"
_SHARE = "sharding_filter sharding_round_robin_dispatch fullsync"
_DEVICE = "to_device pin_memory map_pool"
_TEXT = "map map_batches map_pool build_vocab"
_IMAGE = "map read_images routed_decode vmap"

SYNONYMS = {
    "add column": "map map_batches join",
    "append": "concat mix",
    "apply": "map map_batches pipe",
    "async": "async_map_batches threadpool_map prefetch",
    "audio": "read_videos routed_decode",
    "augment": "map vmap map_batches processpool_map",
    "balance": "mix demux Sampler",
    "cache": "in_memory_cache cache_files on_disk_cache end_caching",
    "checksum": "check_hash cache_files",
    "columns": "read_parquet select_columns drop_columns rename_columns rows2columnar rows to_tensors",
    "concatenate": "concat mix",
    "crop": _IMAGE,
    "csv": "read_csv parse_csv_as_dict parse_csv write_csv",
    "csv label": "join read_csv zip_with_map list_image_folder",
    "cuda": _DEVICE,
    "date": "read_parquet read_csv filter map",
    "decode": "routed_decode read_images map",
    "dedup": "filter groupby",
    "deduplicate": "filter groupby",
    "device": _DEVICE,
    "distributed": _SHARE,
    "download": "load_files_by_s3 cache_files open_files_by_fsspec read_from_http",
    "drop duplicates": "filter groupby",
    "drop null": "filter read_parquet",
    "embed": "map_pool map_batches to_device",
    "epoch": "cycle shuffle set_length",
    "explode": "flatmap unbatch",
    "filename": "list_files_by_fsspec list_files_by_s3 list_files shard_expand",
    "gpu": _DEVICE,
    "gz": "decompress load_from_tar",
    "gzip": "decompress load_from_tar",
    "head": "header limit",
    "hub": "HuggingFaceHubReader",
    "inference": "map_batches map_pool to_device",
    "interleave": "shuffled_flatmap mix mux",
    "join": _JOIN,
    "json": "read_json parse_json_files write_json routed_decode",
    "jsonl": "read_json write_json readlines",
    "label": "join list_image_folder zip_with_map",
    "limit": "limit header",
    "lookup": _JOIN,
    "materialize": "in_memory_cache on_disk_cache cache_files write_parquet",
    "md5": "check_hash",
    "merge": f"{_JOIN} concat",
    "multiprocessing": "processpool_map map_pool sharding_filter",
    "normalize": "map vmap map_batches",
    "null": "filter read_parquet",
    "num workers": f"sharding_filter {_PARALLEL}",
    "oversample": "mix repeat Sampler",
    "pad": "collate bucket_by_length max_token_bucketize pack",
    "parallel": _PARALLEL,
    "partition": f"{_SPLIT} sharding_filter",
    "predict": "map_batches map_pool to_device",
    "random": "shuffle random_sample random_split mix",
    "random crop": _IMAGE,
    "rename": "rename_columns map",
    "repartition": "rebatch sharding_filter shuffle_rows",
    "repeat": "cycle repeat",
    "resample": "Sampler cycle random_sample",
    "resize": _IMAGE,
    "retry": "load_files_by_s3 map open_files_by_fsspec",
    "s3": "list_files_by_s3 load_files_by_s3 open_files_by_fsspec read_parquet save_by_fsspec",
    "sampler": "Sampler mix random_sample",
    "sample": "random_sample random_split limit filter mix Sampler",
    "save": "write_parquet write_tar write_json save_by_fsspec",
    "select": "select_columns filter slice limit read_parquet",
    "shard": f"{_SHARE} shard_expand write_tar",
    "sort": "bucketbatch bucket_by_length max_token_bucketize",
    "speed up": _PARALLEL,
    "split": "random_split demux fork",
    "take": "header limit",
    "thread": "threadpool_map prefetch",
    "timestamp": "read_parquet read_csv filter map",
    "tokenise": _TEXT,
    "tokenize": _TEXT,
    "tokenizer": _TEXT,
    "train test": _SPLIT,
    "train test split": _SPLIT,
    "train val": _SPLIT,
    "train val split": _SPLIT,
    "transform": "map map_batches processpool_map vmap",
    "union": "concat mix",
    "unzip": "load_from_zip unzip",
    "upload": "save_by_fsspec write_parquet write_tar write_json",
    "validation": _SPLIT,
    "video": "read_videos routed_decode",
    "vocabulary": "build_vocab",
    "weight": "mix random_split SampleMultiplexer Sampler",
    "weighted sampler": "Sampler mix SampleMultiplexer",
    "where": "filter read_parquet",
    "write s3": "write_parquet write_tar write_json write_csv save_by_fsspec",
}
"""For each word or phrase, operators and functions of pipes: the most useful first.

Plurals are found, too, and the words of a phrase in any order.
"""

_RESUME = "Each chain resumes: loader.state_dict() and loader.load_state_dict(state), or the same of a chain"
_WORKERS = (
    "A loader reads a chain in workers: DataLoader2(dp, reading_service=MultiProcessingReadingService(num_workers=4))"
)
_ADVICE = {
    "checkpoint": _RESUME,
    "count": "dp.count() reads a chain and counts its items, and len(dp) tells without reading where it can",
    "distributed": "A loader divides a chain among ranks: DataLoader2(dp, reading_service=DistributedReadingService())",
    "multiprocessing": _WORKERS,
    "num workers": _WORKERS,
    "profile": "dp.profile() says where the time goes",
    "resume": _RESUME,
    "seed": "loader.seed(0) seeds all steps, and .set_seed(0) the step before it",
    "sort": "A stream cannot be sorted: ps.from_items(sorted(dp, key=…)) holds all items in memory",
    "speed up": "dp.profile() says where the time goes",
    "state": _RESUME,
}


def operators_for(words: str) -> list[str]:
    """Return the names for a word or phrase of other libraries; empty if it is not known.

    >>> operators_for("dates")
    ['read_parquet', 'read_csv', 'filter', 'map']
    """
    return _entry(SYNONYMS, words).split()


def operators_for_parts(words: str) -> list[str]:
    """Return the names for all known words and phrases in a text: those of phrases first, then in its order.

    >>> operators_for_parts("drop the null labels")
    ['filter', 'read_parquet', 'join', 'list_image_folder', 'zip_with_map']
    """
    there = _singular(words)
    known = sorted(
        (phrase for phrase in SYNONYMS if _singular(phrase) <= there),
        key=lambda phrase: (-phrase.count(" "), words.lower().find(phrase.partition(" ")[0].removesuffix("s"))),
    )
    return [*dict.fromkeys(name for phrase in known for name in SYNONYMS[phrase].split())]


def other_advice(words: str) -> str:
    """Return a sentence on a word that no operator is for; empty if there is none.

    >>> other_advice("profile")
    'dp.profile() says where the time goes'
    """
    return _entry(_ADVICE, words)


def _entry(table: dict[str, str], words: str) -> str:
    wanted = _singular(words)
    return next((entry for phrase, entry in table.items() if _singular(phrase) == wanted), "")


def _singular(words: str) -> set[str]:
    return {word.removesuffix("s") for word in words.lower().replace("_", " ").replace("-", " ").split()}
