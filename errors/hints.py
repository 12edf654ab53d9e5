"""Hints in error messages: the nearest known name, and the fix for names of other libraries."""

from __future__ import annotations

import difflib

_IN_PARALLEL = ".threadpool_map(fn, max_workers=…) and .processpool_map(fn, workers=…) call a function in parallel"
_ONE_NAME = "give on=…, and columns of other names a common one by .rename_columns({…})"
_TYPES = "give column_types={'name': type}, or unify=schema, with types of pyarrow"
_HEADER = "give column_names=[…] for a file without a header, or autogenerate_column_names=True"
_ARGUMENTS_OF_OTHERS = {
    "batched": ".map_batches(fn, batch_size) calls a function of batches",
    "columns": "put .select_columns([…]) before it",
    "dtype": _TYPES,
    "expr": "a reader takes it, as in penstock.read_parquet(path, filter=…)",
    **dict.fromkeys(
        ("fn_args", "fn_kwargs", "fn_constructor_args", "fn_constructor_kwargs"),
        "bind them to fn, as in functools.partial(fn, …)",
    ),
    "filesystem": "a URL names its file system, as in 's3://bucket/folder', and storage_options={…} has its options",
    "header": _HEADER,
    "left_on": _ONE_NAME,
    "concurrency": _IN_PARALLEL,
    "max_workers": _IN_PARALLEL,
    "names": _HEADER,
    "nrows": "put .limit(n) behind it",
    **dict.fromkeys(
        ("num_cpus", "num_gpus"), ".map_pool(model, engine='ray', resources_per_worker=…) asks Ray for them"
    ),
    "num_parallel_calls": _IN_PARALLEL,
    "overwrite": "mode='overwrite' of a writer replaces files",
    "num_proc": _IN_PARALLEL,
    "num_workers": _IN_PARALLEL,
    "progress": "set loader.progress = True, or put .progress() into the chain",
    "right_on": _ONE_NAME,
}
"""Arguments that other libraries' methods take, or that belong elsewhere, and the hint for each."""
_OUR_NAMES = {
    "concurrency": "workers",
    "max_workers": "workers",
    "read_ahead": "prefetch",
    "scheduled_tasks": "prefetch",
    "sep": "delimiter",
    "usecols": "columns",
}
_OF_STORES = {"anon", "endpoint_url", "profile", "region", "secret"}


def hint_on_argument(name: str, known: list[str]) -> str:
    """Return the end of an error message for an argument that is not among the known ones; empty if there is none.

    >>> hint_on_argument("shuffle", ["batch_size", "local_shuffle_buffer_size"])
    ": did you mean 'local_shuffle_buffer_size'?"
    """
    if (ours := _OUR_NAMES.get(name)) in known:
        return f": it is called {ours}"
    if name in _OF_STORES and "storage_options" in known:
        return ": give it in storage_options={…}"
    if name in _ARGUMENTS_OF_OTHERS:
        return f": {_ARGUMENTS_OF_OTHERS[name]}"
    if hint := did_you_mean(name, known):
        return hint
    longer = [each for each in known if f"_{name}_" in f"_{each}_"]
    return f": did you mean {' or '.join(map(repr, longer[:3]))}?" if longer else ""


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the end of an error message with the nearest known names; empty if none is near."""
    near = difflib.get_close_matches(name, sorted(set(known)), n=3)
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""
