"""obstore clients, configured as s3fs would be."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors.secrets import Options
from .addresses import AMAZON, GOOGLE, LOCAL, WEB
from .errors import NO_CREDENTIALS, NO_PROXY, REDIRECTED, goes_elsewhere

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

CONNECT_TIMEOUT = 5.0
"""Default timeout for a connection, in seconds."""

READ_TIMEOUT = 20.0
"""Default for how long a server may be silent, in seconds."""

_ANY_TIME = timedelta(days=365)
"""Timeout for a complete response; effectively none, since large objects take long and `READ_TIMEOUT` applies."""

_GOOD_FOR = timedelta(minutes=6)
"""Lifetime reported for renewable credentials; obstore subtracts five minutes before it requests new ones."""


_COMMON_OPTIONS = ("client_kwargs", "config_kwargs")

_OF_CONFIG = {"connect_timeout", "read_timeout", "proxies"}
"""What stores other than S3 take of `config_kwargs`."""

OPTIONS_OF_AMAZON = (
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
"""Supported options: names in s3fs, gcsfs and adlfs → names in obstore."""

_ONE_ATTEMPT: RetryConfig = {"max_retries": 0}
_NO_OTHER_ATTEMPT = {"mode": "standard", "total_max_attempts": 1}
"""Retries are off in obstore and botocore: callers retry, and count the retries."""

_FIVE_OTHERS = {"mode": "standard", "total_max_attempts": 6}
"""Retries by botocore where no caller counts them."""

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
"""botocore's names for keys."""

_ALL_THAT_IS_NEEDED = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ALL_THAT_IS_KNOWN = ("AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_CA_BUNDLE")
_FILES_OF_BOTOCORE = ("~/.aws/config", "~/.aws/credentials", "~/.boto", "/etc/boto.cfg")
"""Sources of botocore's configuration. The first variables suffice, the next may be set too; no file may exist."""

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
"""Environment variables that a client depends on: a change makes cached clients invalid."""


def environment() -> tuple[str | None, ...]:
    """Return the values of the environment variables that a client depends on."""
    return tuple(map(os.environ.get, _ENVIRONMENT))


def timeouts(options: Mapping[str, Any]) -> tuple[float, float]:
    """Return the timeouts in options: to connect, and between reads, in seconds."""
    config = options.get("config_kwargs") or {}
    return config.get("connect_timeout", CONNECT_TIMEOUT), config.get("read_timeout", READ_TIMEOUT)


def for_one_attempt(options: Mapping[str, Any], retries: Mapping[str, Any] = _NO_OTHER_ATTEMPT) -> dict[str, Any]:
    """Return options with our timeouts and without retries in botocore: callers retry, and count the retries."""
    connect, read = timeouts(options)
    config = {"retries": retries, **(options.get("config_kwargs") or {})}
    return {**options, "config_kwargs": {**config, "connect_timeout": connect, "read_timeout": read}}


def for_s3fs(options: Mapping[str, Any], one_attempt: bool) -> dict[str, Any]:
    """Return options by which s3fs uses the same region as other clients, and sends keys to no other host.

    s3fs retries on top of botocore; `locate` turns that off.
    """
    from .amazon import Session  # slow to import

    options = for_one_attempt(with_region(options), _NO_OTHER_ATTEMPT if one_attempt else _FIVE_OTHERS)
    options["config_kwargs"].setdefault("http_session_cls", Session)
    return options


def with_region(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return s3fs options with the region from AWS_REGION if they have none: botocore ignores that variable."""
    region = os.environ.get("AWS_REGION")
    given = options.get("client_kwargs") or {}
    if not region or given.get("region_name") or (options.get("config_kwargs") or {}).get("region_name"):
        return {**options}
    return {**options, "client_kwargs": {**given, "region_name": region}}


def new_store(scheme: str, bucket: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return a client for a bucket; options are named as in s3fs, gcsfs and adlfs."""
    from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore

    if scheme in LOCAL:
        _check_names(options, _COMMON_OPTIONS)
        _check_common(options)
        return LocalStore("/")
    if scheme in AMAZON:
        return _amazon_store(bucket, with_region(options))
    if scheme in WEB:
        endpoint = f"{scheme}://{bucket}"
        return HTTPStore(endpoint, client_options=_client_config(endpoint, options), retry_config=_ONE_ATTEMPT)
    config: Any
    _check_common(options)
    if scheme in GOOGLE:
        config = _renamed(options, _OPTIONS_OF_GOOGLE)
        token = config.get("service_account")
        if token == "anon":  # as in gcsfs
            config |= {"service_account": None, "skip_signature": True}
        elif isinstance(token, Mapping) or str(token).lstrip().startswith("{"):
            content = token if isinstance(token, str) else json.dumps(dict(token))
            config |= {"service_account": None, "service_account_key": content}
        endpoint = config.setdefault("base_url", os.environ.get("STORAGE_EMULATOR_HOST"))
        config = {name: value for name, value in config.items() if value is not None}
        client = _client_config(endpoint or "", options)
        return GCSStore(bucket, config=config, client_options=client, retry_config=_ONE_ATTEMPT)
    config = _renamed(options, _OPTIONS_OF_AZURE)
    client = _client_config(config.get("endpoint", ""), options)
    return AzureStore(bucket, config=config, client_options=client, retry_config=_ONE_ATTEMPT)


def _client_config(endpoint: str, options: Mapping[str, Any]) -> ClientConfig:
    """Return the client configuration for an endpoint."""
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


def _going_nowhere_else(endpoint: str) -> ClientConfig:
    """Return a configuration in which redirects to another host fail, since they would carry the session token.

    obstore always follows redirects. S3 never redirects requests addressed as by botocore. If the environment sets a
    proxy, all requests use that instead.
    """
    scheme, host = urlsplit(endpoint).scheme, urlsplit(endpoint).hostname or ""
    if getproxies().get(scheme) and not proxy_bypass(host):
        return {}
    return {"proxy_url": NO_PROXY, "proxy_excludes": host}


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


def _check_common(options: Mapping[str, Any]) -> None:
    """Raise TypeError for options of botocore's that only S3 takes."""
    for name, known in (("client_kwargs", set[str]()), ("config_kwargs", _OF_CONFIG)):
        if unknown := {*(options.get(name) or {})} - known - {"retries"}:  # we set `retries` ourselves
            raise TypeError(
                f"only S3 takes the option {', '.join(map(repr, sorted(unknown)))} in {name}; other stores take "
                f"{', '.join(sorted(_OF_CONFIG))} in config_kwargs"
            )


def amazon_client(options: Mapping[str, Any], connections: int) -> Any:
    """Return a botocore client for S3 without retries, for several threads at once."""
    import botocore  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    session, keys, settings, config, anonymous = _botocore_options(with_region(options))
    given = dict(zip(_KEYS, keys, strict=True))
    config = {"max_pool_connections": connections, "retries": _NO_OTHER_ATTEMPT, **config}
    if anonymous:
        config["signature_version"] = botocore.UNSIGNED
    client = session.create_client("s3", config=Config(**config), **given, **settings)
    if not anonymous and client.meta.endpoint_url.startswith("http://"):
        # Without TLS, the signature already hashes the body. A second checksum would take time, and a server such as
        # rclone's sends that of the object with each range of it, which botocore rejects.
        config = {"request_checksum_calculation": "when_required", **config}
        client = session.create_client("s3", config=Config(**config), **given, **settings)
    client.meta.events.register("before-parse.s3", _expect_no_redirect)
    return client


def _expect_no_redirect(response_dict: Mapping[str, Any], **_: Any) -> None:
    """Raise OSError for a redirect: botocore would request the bucket's region again and again, forever."""
    if goes_elsewhere(response_dict["status_code"], response_dict["headers"]):
        raise OSError(errno.EREMOTE, REDIRECTED)


def _botocore_options(options: Mapping[str, Any]) -> tuple[Any, list[str | None], dict[str, Any], dict[str, Any], bool]:
    """Return s3fs options as botocore needs them: session, keys, client arguments, Config arguments, anonymous."""
    import botocore
    from botocore.session import Session  # type: ignore[import-untyped]

    _check_names(options, OPTIONS_OF_AMAZON)
    settings, config = dict(options.get("client_kwargs") or {}), dict(options.get("config_kwargs") or {})
    anonymous = options.get("anon", False) or config.get("signature_version") is botocore.UNSIGNED
    given = [options.get("key") or options.get("username"), options.get("secret") or options.get("password")]
    in_settings = [settings.pop(name, None) for name in _KEYS]
    keys = [one or other for one, other in zip([*given, options.get("token")], in_settings, strict=True)]
    settings.setdefault("use_ssl", options.get("use_ssl", True))
    if options.get("endpoint_url"):
        settings["endpoint_url"] = options["endpoint_url"]
    return Session(profile=options.get("profile")), keys, settings, config, anonymous


def _amazon_store(bucket: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return a client that sends the requests of botocore and s3fs: same endpoint, keys and addressing style."""
    from obstore.store import S3Store

    if found := _from_environment(bucket, options):
        endpoint, region, credentials = found
        return S3Store(
            bucket,
            config=_config_of_amazon(endpoint, region),
            client_options=_client_of_amazon(endpoint, options, os.environ.get("AWS_CA_BUNDLE")),
            retry_config=_ONE_ATTEMPT,
            credential_provider=lambda: credentials,
        )
    import botocore
    from botocore.config import Config

    session, keys, settings, config, anonymous = _botocore_options(options)
    # Used only for the URL of an object, which needs no keys.
    placing = session.create_client(
        "s3", config=Config(**{**config, "signature_version": botocore.UNSIGNED}), **settings
    )
    place = _place(placing, bucket, "key").removesuffix("/key")
    by_path = place.endswith(f"/{bucket}")
    endpoint = place.removesuffix(f"/{bucket}") if by_path else place
    trusted = settings.get("verify", session.get_config_variable("ca_bundle"))
    return S3Store(
        bucket,
        config={
            **_config_of_amazon(endpoint, placing.meta.region_name),
            "virtual_hosted_style_request": not by_path,
            "skip_signature": anonymous,
            "request_payer": bool(options.get("requester_pays")),
        },
        client_options=_client_of_amazon(endpoint, options, trusted),
        retry_config=_ONE_ATTEMPT,
        # Keys in the configuration would show in the store's repr.
        credential_provider=None if anonymous else _provider(session, *keys),
    )


def _client_of_amazon(endpoint: str, options: Mapping[str, Any], trusted: Any) -> ClientConfig:
    """Return the client configuration for S3. `trusted` is a certificate file, False for any, or else the default."""
    client = _client_config(endpoint, options)
    if "proxy_url" not in client:
        client.update(_going_nowhere_else(endpoint))
    if trusted is False:
        client["allow_invalid_certificates"] = True
    elif isinstance(trusted, (str, os.PathLike)):
        client["root_certificate"] = Path(trusted).read_bytes()
    return client


def _config_of_amazon(endpoint: str, region: str) -> S3Config:
    """Return every setting that obstore would otherwise read from the environment, unlike botocore."""
    return {
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "region": region,
        "virtual_hosted_style_request": False,
        "skip_signature": False,
        "request_payer": False,
        "s3_express": False,
    }


def _from_environment(bucket: str, options: Mapping[str, Any]) -> tuple[str, str, Any] | None:
    """Return endpoint, region and credentials from the environment, or None if other sources, such as files, count.

    This avoids botocore, which takes a quarter of a second to start.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "BOTO"))}
    settings, config = options.get("client_kwargs") or {}, options.get("config_kwargs") or {}
    region = settings.get("region_name") or variables.get("AWS_DEFAULT_REGION")
    endpoint = variables.get("AWS_ENDPOINT_URL", "").rstrip("/")
    if (
        not all(variables.get(name) for name in _ALL_THAT_IS_NEEDED)
        or not region
        or variables.keys() - {*_ALL_THAT_IS_NEEDED, *_ALL_THAT_IS_KNOWN}
        or options.keys() - {*_COMMON_OPTIONS}
        or settings.keys() - {"region_name"}
        or config.keys() - {"connect_timeout", "read_timeout", "retries"}
        or not re.fullmatch(r"[a-z0-9][a-z0-9-]+[a-z0-9]", bucket)
        or not re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]+)?", endpoint)
        or "amazon" in endpoint
        or any(Path(path).expanduser().exists() for path in _FILES_OF_BOTOCORE)
    ):
        return None
    keys = (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"], variables.get("AWS_SESSION_TOKEN"))
    return endpoint, region, _credentials(*keys, None)


def _credentials(key: str, secret: str, token: str | None, until: datetime | None) -> dict[str, Any]:
    """Return credentials in obstore's form. Raises ValueError for characters on which obstore would panic."""
    Options({"key": key, "secret": secret, "token": token})
    return {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": until}


def _place(client: Any, bucket: str, key: str) -> str:
    """Return the URL at which a botocore client would read an object; a presigned URL may name another host."""
    import urllib3
    from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]

    places: list[str] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        places.append(request.url)
        return AWSResponse(request.url, 200, {}, urllib3.HTTPResponse(io.BytesIO()))  # nothing is sent

    client.meta.events.register("before-send.s3.HeadObject", answer)
    client.head_object(Bucket=bucket, Key=key)
    return places[0]


def _provider(session: Any, key: str | None, secret: str | None, token: str | None) -> Callable[[], Any]:
    """Return a credential provider for obstore; raise PermissionError if there are no credentials."""
    if (key is None) != (secret is None):
        raise ValueError("key and secret are given together, or neither")
    if key is not None:
        session.set_credentials(key, secret, token)
    credentials = session.get_credentials()
    if credentials is None:
        raise PermissionError(errno.EACCES, NO_CREDENTIALS)
    renewed = hasattr(credentials, "refresh_needed")

    def provide() -> Any:
        current = credentials.get_frozen_credentials()  # botocore renews them in time
        until = datetime.now(UTC) + _GOOD_FOR if renewed else None
        return _credentials(current.access_key, current.secret_key, current.token, until)

    return provide
