"""The obstore clients for URLs, one per bucket."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import unquote

from .addresses import AMAZON, Address
from .clients import environment, new_store
from .errors import RefusedCredentials, in_plain_words

if TYPE_CHECKING:
    from obstore.store import ObjectStore

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 256
"""How many clients are cached."""

_stores: dict[tuple[Any, ...], ObjectStore] = {}
_making = threading.Lock()
_used = _forked = False


def store_of(address: Address, surroundings: tuple[str | None, ...] | None = None) -> tuple[ObjectStore, str]:
    """Return the client for an address that obstore reads, one per bucket, and the key of the object.

    Options are named as in s3fs. To read many objects, pass `environment()` as `surroundings`: it is slow.

    Raises PermissionError if no credentials for S3 are found, and RuntimeError in a process forked from one that used a
    client.
    """
    global _used
    check_process()
    scheme, bucket, options = address.scheme, address.bucket, address.options
    key = unquote(address.key) if address.of_web else address.key
    known_as = scheme, bucket, repr(sorted(options.items())) if options else "", surroundings or environment()
    store = _stores.get(known_as)
    if store is None:
        if not _used:
            _used = True
            os.register_at_fork(after_in_child=_mark_forked)
        with _making:  # slow, and many threads may need the same one
            store = _stores.get(known_as) or in_plain_words(address.url, new_store, scheme, bucket, options)
            while len(_stores) >= _MOST:  # a list of web URLs may have many hosts
                _stores.pop(next(iter(_stores)))
            _stores[known_as] = store
    return store, key


def is_lost() -> bool:
    """Say whether this process was forked from one that used a client: its calls would hang here."""
    return _forked


def check_process() -> None:
    """Raise RuntimeError if this process was forked from one that used a client."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that had read from object storage, and its client does not survive that: "
            'start workers with "forkserver" or "spawn" (DataLoader(…, multiprocessing_context="forkserver")), '
            "or read with penstock.DataLoader2, which does"
        )


def _mark_forked() -> None:
    global _forked
    _forked = True


def asked(url: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what an obstore call returns; raises what `in_plain_words` and `check_process` raise."""
    check_process()
    try:
        return in_plain_words(url, call, *args, **kwargs)
    except RefusedCredentials:
        _stores.clear()
        raise


_OF_LIBRARIES = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "aws_endpoint_url",
    "anon": "aws_skip_signature",
}
"""Options of s3fs → those of libraries that read objects as obstore does, such as deltalake and lance."""


def options_of_library(url: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of an address as a library in Rust takes them: those of S3 renamed, others as they are.

    Raises TypeError for an option of S3 that such libraries lack.
    """
    if not url.startswith(tuple(f"{scheme}://" for scheme in AMAZON)):
        return {name: str(value) for name, value in options.items()}
    settings = {**options}
    region = settings.pop("client_kwargs", {}).get("region_name")
    if unknown := settings.keys() - _OF_LIBRARIES.keys():
        known = ", ".join([*_OF_LIBRARIES, "client_kwargs"])
        raise TypeError(f"tables are not read with the option {', '.join(sorted(unknown))}, only with {known}")
    found = {_OF_LIBRARIES[name]: str(value).lower() if name == "anon" else value for name, value in settings.items()}
    if region:
        found["aws_region"] = region
    endpoint = options.get("endpoint_url") or os.environ.get("AWS_ENDPOINT_URL", "")
    return {**found, "aws_allow_http": "true"} if endpoint.startswith("http://") else found
