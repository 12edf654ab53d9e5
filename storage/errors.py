"""Errors of obstore, s3fs and botocore, translated to OSError."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from ..errors.secrets import hide_secrets, stream_name, without_secrets

P = ParamSpec("P")
R = TypeVar("R")


class RefusedCredentials(PermissionError):
    """The server rejects the credentials as expired or unknown: the next request should load new ones."""


class UnknownStoreError(OSError):
    """The server does not report the size of an object; obstore refuses to read it."""


NO_CREDENTIALS = (
    "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or pass key= and "
    "secret=; for a public bucket, pass anon=True, or write s3://anonymous@bucket/…"
)
NO_PROXY = "http://127.0.0.1:2"
"""A proxy address where nothing listens."""
REDIRECTED = (
    "the server redirects to another host, which would get the keys; if the bucket is in another region, pass "
    "region, or set AWS_REGION"
)
PERHAPS_WRITTEN = "the server did not confirm the whole object, which may or may not be there"
_REDIRECTS = (301, 302, 303, 307, 308)
_TROUBLE = {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling", "ThrottlingException"}
PASSING = (408, 429, 500, 502, 503, 504)
"""The HTTP statuses after which another attempt may succeed."""
_KEYS_ARE_OLD = {"ExpiredToken", "InvalidAccessKeyId", "TokenRefreshRequired", "InvalidToken"}


def in_plain_words(url: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a call of an obstore or fsspec client returns.

    Raises FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another OSError in place of the client's
    errors: with the URL and a short message, without secrets.
    """
    try:
        return call(*args, **kwargs)
    except Exception as error:
        failure = plain_error(error, stream_name(url))
    raise failure  # outside the handler, to leave out the long original as context


def goes_elsewhere(status: int, headers: Mapping[str, str]) -> bool:
    """Say whether an S3 response redirects to another host; botocore handles those that only name the region."""
    return status in _REDIRECTS and "x-amz-bucket-region" not in headers


def plain_error(error: Exception, url: str) -> Exception:
    """Return the error to raise in place of a client's error."""
    from obstore.exceptions import BaseError

    error = _first_cause(error)
    module = type(error).__module__
    refusal = getattr(error, "response", getattr(error.__cause__, "response", None))  # of botocore
    if isinstance(refusal, dict):
        said = refusal.get("Error", {})
        number = refusal.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return _refusal(number, said.get("Code", ""), said.get("Message", ""), url)
    if refusal is not None and module == "huggingface_hub.errors":
        return _refusal(refusal.status_code, refusal.headers.get("X-Error-Code", ""), "", url)
    if module.startswith("httpx"):  # of the hub, too
        is_slow = "Timeout" in type(error).__name__
        return (
            _timeout(url) if is_slow else ConnectionError(errno.ECONNABORTED, "no connection, or one that was cut", url)
        )
    if module.startswith("botocore."):
        return _botocore_error(error, url)
    if isinstance(error, TimeoutError):
        return _timeout(url)
    if module.startswith("aiohttp.") or module in ("urllib.error", "http.client"):
        if status := getattr(error, "status", 0):
            return _refusal(status, "", getattr(error, "message", ""), url)
        if type(error).__name__ == "TooManyRedirects":
            return OSError(errno.ELOOP, "the server redirects without an end", url)
        return ConnectionError(errno.ECONNABORTED, "no connection, or an answer that was cut", url)
    if isinstance(error, KeyError) and error.args == ("ContentLength",):  # s3fs requires this header
        return _unknown_size(url)
    if isinstance(error, (BaseError, FileNotFoundError)) and not getattr(error, "errno", None):
        return _obstore_error(error, url)
    return _with_url(error, url)


def _first_cause(error: Exception) -> Exception:
    """Return the error that fsspec and s3fs have replaced by another, or else the error itself."""
    if isinstance(error, IndexError) and isinstance(error.__context__, OSError):
        error = error.__context__  # s3fs failed on an OSError that has no errno
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and not isinstance(cause, LookupError):
        return cause  # fsspec reports any failure as a missing file
    return error


def _with_url(error: Exception, url: str) -> Exception:
    """Return an error with the URL where it names no file, and without secrets."""
    if isinstance(error, OSError) and error.errno and error.filename is None:
        error.filename = url
    elif isinstance(error, io.UnsupportedOperation) and len(error.args) == 1:
        error.args = (f"{error.args[0]}: {url}",)
    hide_secrets(error)
    return error


def _timeout(url: str) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "the server did not answer in time", url)


def _unknown_size(url: str) -> UnknownStoreError:
    return UnknownStoreError(errno.ENOTSUP, "the server does not tell how large the object is", url)


def _obstore_error(error: Exception, url: str) -> OSError:
    """Return the error for an obstore error, whose text tells what happened."""
    text, _, details = str(error).partition("\n\nDebug source:")
    if status := re.search(r"status code: (\d{3})", text):
        code, message = (re.search(rf"<{tag}>([^<]*)</{tag}>", text) for tag in ("Code", "Message"))
        return _refusal(int(status[1]), code[1] if code else "", message[1] if message else "", url)
    if isinstance(error, FileNotFoundError):
        return _refusal(404, "", "", url)
    _, of_credentials, why = text.partition("External AWS credential provider: ")
    if of_credentials:
        return PermissionError(errno.EACCES, f"no credentials: {why}", url)
    if "MissingContentLength" in details:
        return _unknown_size(url)
    if "without LOCATION" in text or urlsplit(NO_PROXY).netloc in details:
        return OSError(errno.EREMOTE, REDIRECTED, url)
    if "TimedOut" in details or "timed out" in details:
        return _timeout(url)
    if "HttpError" in details or "reqwest::Error" in details:
        what = _no_connection(details, url) if "kind: Connect" in details else "the answer was cut"
        system = re.search(r'message: "([^"]*)"', details)
        return ConnectionError(errno.ECONNABORTED, what + (f" ({system[1]})" if system else ""), url)
    return OSError(errno.EIO, without_secrets(text), url)


def _no_connection(text: str, url: str) -> str:
    """Return what to say, with the server that a client names and the URL does not, such as an endpoint of S3."""
    server = re.search(r"https?://[^/\s\"'?@]+", text)
    return "no connection" if server is None or server[0] in url else f"no connection to {server[0]}"


_MISSING = {"NoSuchBucket": "bucket", "RepoNotFound": "data set", "RevisionNotFound": "revision of the data set"}
"""What is not there, by the code of S3 or of the Hugging Face hub."""


def _refusal(number: int, code: str, message: str, url: str) -> OSError:
    """Return the error for a server's response: HTTP status, error code and message."""
    known = {str(number or ""): None, code: None}  # some servers give the status as the code
    said = " ".join(filter(None, [*known, f"({message})" if message else ""]))
    if code == "NoSuchBucket" or number == 404:
        return FileNotFoundError(errno.ENOENT, f"there is no such {_MISSING.get(code, 'object')}", url)
    if code in _KEYS_ARE_OLD or number in (401, 403):
        refused = RefusedCredentials if code in _KEYS_ARE_OLD else PermissionError
        return refused(errno.EACCES, f"the server refused: {said}", url)
    if code in _TROUBLE or number in PASSING:
        return ConnectionError(errno.EIO, f"the server is in trouble: {said}", url)
    if number in (412, 416):  # a range of it was asked for, which it had
        return OSError(errno.ESTALE, "the object was replaced while it was read", url)
    if number in _REDIRECTS:
        return OSError(errno.EREMOTE, REDIRECTED, url)
    return OSError(errno.EIO, f"the server refused: {said}", url)


def _botocore_error(error: Exception, url: str) -> Exception:
    """Return the error for a botocore error that carries no server response."""
    from botocore import exceptions  # type: ignore[import-untyped]

    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return PermissionError(errno.EACCES, NO_CREDENTIALS, url)
    if isinstance(error, (exceptions.ReadTimeoutError, exceptions.ConnectTimeoutError)):
        return _timeout(url)
    if isinstance(error, exceptions.FlexibleChecksumError):
        return OSError(errno.EIO, "the bytes that came do not match the checksum that the server gave", url)
    if isinstance(error, exceptions.EndpointConnectionError):
        return ConnectionError(errno.ECONNABORTED, _no_connection(str(error), url), url)
    if isinstance(error, (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError)):
        return ConnectionError(errno.ECONNABORTED, "no connection, or one that was cut", url)
    hide_secrets(error)
    return error
