"""Objects behind URLs, read by obstore: its clients, configured as s3fs would be, and its errors in plain words."""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from ..registry import Guard, OnError, Retry

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "Transient",
    "Untold",
    "asked",
    "check_process",
    "environment",
    "for_one_attempt",
    "in_plain_words",
    "read_whole",
    "speaks",
    "store_of",
    "timeouts",
    "trying_again",
    "with_region",
]

Transient = (ConnectionError, TimeoutError)
"""The errors after which another attempt may go well: no connection, a cut answer, silence, a server in trouble."""


class Untold(OSError):
    """A server does not tell how large an object is, and then obstore does not read it."""


_ATTEMPTS = 5
"""How often what failed is tried again, where nothing else is said."""

CONNECT_TIMEOUT = 5.0
"""Seconds that a connection may take to be made, where nothing else is said."""

READ_TIMEOUT = 20.0
"""Seconds that a server may be silent, where nothing else is said."""

_ANY_TIME = timedelta(days=365)
"""For how long a body may be read, as long as the server is not silent: large objects take their time."""

_GOOD_FOR = timedelta(minutes=6)
"""How long credentials that are renewed are kept before they are asked for again; obstore subtracts five minutes."""

_AMAZON, _GOOGLE, _AZURE, _WEB = ("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss"), ("http", "https")

_COMMON_OPTIONS = ("client_kwargs", "config_kwargs")

_OPTIONS_OF_AMAZON = (
    *("anon", "endpoint_url", "key", "secret", "token", "username", "password", "profile", "use_ssl"),
    *("requester_pays", *_COMMON_OPTIONS),
)
_OPTIONS_OF_GOOGLE = {"anon": "skip_signature", "token": "service_account", "endpoint_url": "base_url"}
_OPTIONS_OF_AZURE = {
    **{name: name for name in ("account_name", "account_key", "client_id", "client_secret", "tenant_id")},
    "anon": "skip_signature",
    "sas_token": "sas_key",
    "endpoint_url": "endpoint",
}
"""The options that are understood, as s3fs, gcsfs and adlfs name them, and what obstore calls them."""

_ONE_ATTEMPT: RetryConfig = {"max_retries": 0}
"""Others are made where they are counted."""

_ENVIRONMENT = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    *(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "STORAGE_EMULATOR_HOST",
        "HOME",
    ),
)
"""What a client depends on, so that one is not used any more when that has changed."""

_MOST = 256
"""How many clients are kept."""

_stores: dict[tuple[Any, ...], ObjectStore] = {}
_making = threading.Lock()
_used = _forked = False


def trying_again(on_error: OnError) -> Retry:
    """Return an `on_error` by which what may pass is tried again; one that is a `Retry` says itself what that is."""
    if isinstance(on_error, Retry):
        return on_error
    Guard(on_error)  # says what is wrong with it under the name that the user knows
    return Retry(_ATTEMPTS, errors=Transient, then=on_error)


def speaks(url: str) -> bool:
    """Say whether obstore can read the very object of a URL; the others are for fsspec.

    obstore drops or refuses empty parts of a key, `.` and `..`; S3 has objects with such keys.
    """
    scheme, separator, place = url.partition("://")
    if not separator or "::" in url:
        return False
    if scheme in _WEB:
        # What else there may be in such a URL, obstore would escape, or escape otherwise.
        return re.fullmatch(r"[\w.:\[\]-]+(/([\w~.-]|%20)+)+", place, re.ASCII) is not None and _is_plain(place)
    if scheme == "file":
        return place.startswith("/") and _is_plain(place[1:]) and not re.search(r"[%?#*\\]|[^ -~]", place)
    if scheme not in (*_AMAZON, *_GOOGLE, *_AZURE):
        return False
    bucket, _, key = place.partition("/")
    # Access points and directory buckets have hosts, and signatures, of their own; s3fs takes a URL for a version.
    if not re.fullmatch(r"[\w.-]+", bucket, re.ASCII) or bucket.endswith("--x-s3") or "?versionId=" in key:
        return False
    return _is_plain(key)


def _is_plain(key: str) -> bool:
    return all(part not in ("", ".", "..") for part in key.split("/")) and key.isprintable()


def environment() -> tuple[str | None, ...]:
    """Return what of the environment a client depends on."""
    return tuple(map(os.environ.get, _ENVIRONMENT))


def store_of(
    url: str, options: Mapping[str, Any], surroundings: tuple[str | None, ...] | None = None
) -> tuple[ObjectStore, str]:
    """Return the client for a URL, one for each bucket, and the key of the object.

    `options` are named as s3fs names them. Who reads many objects asks for the `environment()` once: it takes a while.

    Raises ValueError for a URL that obstore does not speak, PermissionError where no credentials for S3 are to be
    found, RuntimeError in a process that was forked from one that used a client.
    """
    global _used
    if not speaks(url):
        raise ValueError(f"obstore cannot read {_shown(url)!r}: fsspec is for such a URL")
    check_process()
    scheme, _, place = url.partition("://")
    if scheme == "file":
        bucket, key = "", place[1:]
    else:
        bucket, _, key = place.partition("/")
    if scheme in _WEB:
        key = unquote(key)
    known_as = scheme, bucket, repr(sorted(options.items())) if options else "", surroundings or environment()
    store = _stores.get(known_as)
    if store is None:
        if not _used:
            _used = True
            os.register_at_fork(after_in_child=_note_fork)
        with _making:  # making one takes a while, and many threads may ask for it at once
            store = _stores.get(known_as) or _new_store(scheme, bucket, options)
            while len(_stores) >= _MOST:  # the objects of a list from the web have many hosts
                _stores.pop(next(iter(_stores)))
            _stores[known_as] = store
    return store, key


def check_process() -> None:
    """Raise RuntimeError in a process that was forked from one that used a client: what that does there never ends."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that had read from object storage, and its client does not survive that: "
            'start workers with "forkserver" or "spawn" (DataLoader(…, multiprocessing_context="forkserver")), '
            "or read with penstock.DataLoader2, which does"
        )


def _note_fork() -> None:
    global _forked
    _forked = True


def asked(url: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a call of obstore's returns; raises what `in_plain_words` raises, and `check_process`."""
    check_process()
    return in_plain_words(url, call, *args, **kwargs)


def in_plain_words(url: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a call of obstore's or s3fs's returns.

    Raises, in place of their errors, FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another
    OSError: with the URL, in few words, and without what might be a secret.
    """
    try:
        return call(*args, **kwargs)
    except Exception as error:
        failure = _worded(error, _shown(url))
    raise failure  # outside of the handler, so that it does not bring the long one along


def read_whole(url: str, options: Mapping[str, Any]) -> bytes:
    """Return all bytes of an object; raises what `asked` and `store_of` raise."""
    import obstore

    store, key = store_of(url, options)
    result: GetResult = asked(url, obstore.get, store, key)
    return bytes(asked(url, result.bytes))


def timeouts(options: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many seconds options give to connect, and to be silent."""
    config = options.get("config_kwargs") or {}
    return config.get("connect_timeout", CONNECT_TIMEOUT), config.get("read_timeout", READ_TIMEOUT)


def for_one_attempt(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by which botocore makes one attempt, within our timeouts: others are made where they count."""
    connect, read = timeouts(options)
    config = {"retries": {"mode": "standard", "total_max_attempts": 1}, **(options.get("config_kwargs") or {})}
    return {**options, "config_kwargs": {**config, "connect_timeout": connect, "read_timeout": read}}


def with_region(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs with the region in AWS_REGION, which botocore does not know of, where they have none."""
    region = os.environ.get("AWS_REGION")
    given = options.get("client_kwargs") or {}
    if not region or given.get("region_name") or (options.get("config_kwargs") or {}).get("region_name"):
        return {**options}
    return {**options, "client_kwargs": {**given, "region_name": region}}


def _new_store(scheme: str, bucket: str, options: Mapping[str, Any]) -> ObjectStore:
    from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore

    if scheme == "file":
        return LocalStore("/")
    if scheme in _AMAZON:
        return _amazon_store(bucket, with_region(options))
    if scheme in _WEB:
        endpoint = f"{scheme}://{bucket}"
        return HTTPStore(endpoint, client_options=_client(endpoint, options), retry_config=_ONE_ATTEMPT)
    config: Any
    if scheme in _GOOGLE:
        config = _renamed(options, _OPTIONS_OF_GOOGLE)
        if config.get("service_account") == "anon":  # as gcsfs has it
            config = {**config, "service_account": None, "skip_signature": True}
        endpoint = config.setdefault("base_url", os.environ.get("STORAGE_EMULATOR_HOST"))
        config = {name: value for name, value in config.items() if value is not None}
        client = _client(endpoint or "", options)
        return GCSStore(bucket, config=config, client_options=client, retry_config=_ONE_ATTEMPT)
    config = _renamed(options, _OPTIONS_OF_AZURE)
    client = _client(config.get("endpoint", ""), options)
    return AzureStore(bucket, config=config, client_options=client, retry_config=_ONE_ATTEMPT)


def _client(endpoint: str, options: Mapping[str, Any]) -> ClientConfig:
    """Return how a server is to be talked to."""
    connect, read = timeouts(options)
    client: ClientConfig = {
        "allow_http": endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=connect),
        "read_timeout": timedelta(seconds=read),
        "timeout": _ANY_TIME,
    }
    if proxy := (options.get("config_kwargs") or {}).get("proxies", {}).get(urlsplit(endpoint).scheme):
        client["proxy_url"] = proxy
    return client


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return options under obstore's names."""
    _check_names(options, (*names, *_COMMON_OPTIONS))
    return {names[name]: value for name, value in options.items() if name in names}


def _check_names(options: Mapping[str, Any], known: Iterable[str]) -> None:
    if unknown := options.keys() - {*known}:
        raise TypeError(
            f"objects are not read with the option {', '.join(map(repr, sorted(unknown)))}, only with "
            f"{', '.join(sorted(known))}; open_files_by_fsspec takes all that fsspec knows"
        )


def _amazon_store(bucket: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return a client that asks what botocore, and with it s3fs, would ask: where, with which keys, in which way."""
    import botocore  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.session import Session  # type: ignore[import-untyped]
    from obstore.store import S3Store

    _check_names(options, _OPTIONS_OF_AMAZON)
    settings, config = dict(options.get("client_kwargs") or {}), dict(options.get("config_kwargs") or {})
    anonymous = options.get("anon", False) or config.get("signature_version") is botocore.UNSIGNED
    session = Session(profile=options.get("profile"))
    given = {
        "aws_access_key_id": options.get("key") or options.get("username"),
        "aws_secret_access_key": options.get("secret") or options.get("password"),
        "aws_session_token": options.get("token"),
    }
    in_settings = {name: settings.pop(name, None) for name in given}
    keys = [given[name] or in_settings[name] for name in given]
    settings.setdefault("use_ssl", options.get("use_ssl", True))
    if options.get("endpoint_url"):
        settings["endpoint_url"] = options["endpoint_url"]
    # It is asked for the place of an object only, for which it needs no keys.
    placing = session.create_client(
        "s3", config=Config(**{**config, "signature_version": botocore.UNSIGNED}), **settings
    )
    place = _place(placing, bucket, "key").removesuffix("/key")
    by_path = place.endswith(f"/{bucket}")
    endpoint = place.removesuffix(f"/{bucket}") if by_path else place
    client = _client(endpoint, options)
    trusted = settings.get("verify", session.get_config_variable("ca_bundle"))
    if trusted is False:
        client["allow_invalid_certificates"] = True
    elif isinstance(trusted, (str, os.PathLike)):
        client["root_certificate"] = Path(trusted).read_bytes()
    return S3Store(
        bucket,
        # All that obstore would look up in the environment by itself, and otherwise than botocore.
        config={
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "region": placing.meta.region_name,
            "virtual_hosted_style_request": not by_path,
            "skip_signature": anonymous,
            "request_payer": bool(options.get("requester_pays")),
            "s3_express": False,
        },
        client_options=client,
        retry_config=_ONE_ATTEMPT,
        # Keys in the configuration would be shown to whoever looks at the store.
        credential_provider=None if anonymous else _provider(session, *keys),
    )


def _place(client: Any, bucket: str, key: str) -> str:
    """Return the URL at which a client of botocore's would read an object; presigned ones may have another host."""
    import urllib3
    from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]

    places: list[str] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        places.append(request.url)
        return AWSResponse(request.url, 200, {}, urllib3.HTTPResponse(io.BytesIO()))  # in place of sending the request

    client.meta.events.register("before-send.s3.HeadObject", answer)
    client.head_object(Bucket=bucket, Key=key)
    return places[0]


def _provider(session: Any, key: str | None, secret: str | None, token: str | None) -> Callable[[], Any]:
    """Return a function that gives credentials, for obstore; PermissionError where there are none."""
    if (key is None) != (secret is None):
        raise ValueError("key and secret are given together, or neither")
    if key is not None:
        session.set_credentials(key, secret, token)
    credentials = session.get_credentials()
    if credentials is None:
        raise PermissionError(errno.EACCES, _NO_CREDENTIALS)
    renewed = hasattr(credentials, "refresh_needed")

    def provide() -> Any:
        current = credentials.get_frozen_credentials()  # botocore renews them in time
        return {
            "access_key_id": current.access_key,
            "secret_access_key": current.secret_key,
            "token": current.token,
            "expires_at": datetime.now(UTC) + _GOOD_FOR if renewed else None,
        }

    return provide


_NO_CREDENTIALS = (
    "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or pass key= and "
    "secret=; for a bucket that anybody may read, pass anon=True"
)
_TROUBLE = {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling", "ThrottlingException"}
_PASSING = (408, 429, 500, 502, 503, 504)
_KEYS_ARE_OLD = {"ExpiredToken", "InvalidAccessKeyId", "TokenRefreshRequired", "InvalidToken"}


def _worded(error: Exception, url: str) -> Exception:
    """Return the error to raise for one of obstore's or s3fs's."""
    from obstore.exceptions import BaseError

    refusal = getattr(error, "response", getattr(error.__cause__, "response", None))  # of botocore
    if isinstance(refusal, dict):
        said = refusal.get("Error", {})
        number = refusal.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return _refusal(number, said.get("Code", ""), said.get("Message", ""), url)
    if type(error).__module__.startswith("botocore."):
        return _of_botocore(error, url)
    if isinstance(error, TimeoutError):
        return TimeoutError(errno.ETIMEDOUT, "the server was silent for too long", url)
    if type(error).__module__.startswith("aiohttp."):
        return ConnectionError(errno.ECONNABORTED, "no connection, or an answer that was cut", url)
    if not isinstance(error, (BaseError, FileNotFoundError)):
        return error
    text, _, details = str(error).partition("\n\nDebug source:")
    if status := re.search(r"status code: (\d{3})", text):
        code, message = (re.search(rf"<{tag}>([^<]*)</{tag}>", text) for tag in ("Code", "Message"))
        return _refusal(int(status[1]), code[1] if code else "", message[1] if message else "", url)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    _, of_credentials, why = text.partition("External AWS credential provider: ")
    if of_credentials:
        return PermissionError(errno.EACCES, f"no credentials: {why}", url)
    if "MissingContentLength" in details:
        return Untold(errno.ENOTSUP, "the server does not tell how large the object is", url)
    if "without LOCATION" in text:
        return _refusal(301, "", "", url)
    if "TimedOut" in details or "timed out" in details:
        return TimeoutError(errno.ETIMEDOUT, "the server was silent for too long", url)
    if "HttpError" in details or "reqwest::Error" in details:
        what = "no connection" if "kind: Connect" in details else "the answer was cut"
        system = re.search(r'message: "([^"]*)"', details)
        return ConnectionError(errno.ECONNABORTED, what + (f" ({system[1]})" if system else ""), url)
    return OSError(errno.EIO, _without_queries(text), url)


def _refusal(number: int, code: str, message: str, url: str) -> OSError:
    """Return the error for an answer of a server with a status, and what else it said."""
    said = " ".join(filter(None, [str(number or ""), code, f"({message})" if message else ""]))
    if code == "NoSuchBucket" or number == 404:
        what = "bucket" if code == "NoSuchBucket" else "object"
        return FileNotFoundError(errno.ENOENT, f"there is no such {what}", url)
    if code in _KEYS_ARE_OLD:
        _stores.clear()  # so that whoever asks next looks for newer ones
    if code in _KEYS_ARE_OLD or number in (401, 403):
        return PermissionError(errno.EACCES, f"the server refused: {said}", url)
    if code in _TROUBLE or number in _PASSING:
        return ConnectionError(errno.EIO, f"the server is in trouble: {said}", url)
    if number in (301, 307, 308):
        return OSError(errno.EREMOTE, "the bucket is in another region: pass region, or set AWS_REGION", url)
    return OSError(errno.EIO, f"the server refused: {said}", url)


def _of_botocore(error: Exception, url: str) -> Exception:
    """Return the error for one of botocore's that is not a server's answer."""
    from botocore import exceptions

    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return PermissionError(errno.EACCES, _NO_CREDENTIALS, url)
    if isinstance(error, (exceptions.ReadTimeoutError, exceptions.ConnectTimeoutError)):
        return TimeoutError(errno.ETIMEDOUT, "the server was silent for too long", url)
    if isinstance(error, (exceptions.HTTPClientError, exceptions.ConnectionError)):
        return ConnectionError(errno.ECONNABORTED, "no connection, or one that was cut", url)
    return error


def _without_queries(text: str) -> str:
    return re.sub(r"\?\S*", "?…", text)


def _shown(url: str) -> str:
    """Return a URL without what may be a secret in it: a user's name, and a query, which may be a signature."""
    return _without_queries(re.sub(r"://[^/@]*@", "://…@", url)) if url.startswith(("http:", "https:")) else url
