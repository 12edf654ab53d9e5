"""Read files over HTTP and from Google Drive."""

from __future__ import annotations

import html.parser
import re
from collections.abc import Callable, Mapping
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import IO, Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from ...errors.optional import require
from ...errors.secrets import Options, without_secrets
from ...registry import ErrorPolicy, IterDataPipe, OnError, functional_datapipe
from ...storage.retrying import attempts_of, trying_again
from ...storage.streaming.resumable import HttpResponse, ResumableBody
from ...storage.streaming.streams import checked_path, stream_over
from ...storage.web import DRIVE_HOSTS, new_session
from ..bases.listers_and_openers import Opener

Timeout = float | tuple[float | None, float | None] | None

_NO_SUCH_RANGE = 416
_TIMEOUT = 60.0
"""The default timeout, in seconds."""

_PACKED_THEMSELVES = ("application/gzip", "application/x-gzip")
_FOR_ANY_HOST = {"proxies", "verify", "allow_redirects", "timeout"}
"""The options without credentials."""
_LONGEST_PAGE = 1 << 20
"""The most bytes read of an HTML page that Google Drive returns in place of a file."""


class _Downloader(Opener):
    """Request each URL, and yield a stream of the response: the base of the web readers."""

    traits = ("opens", "expensive")

    def __init__(
        self,
        source: IterDataPipe[str],
        *,
        timeout: Timeout = None,
        skip_on_error: bool = False,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        if skip_on_error and on_error != "raise":
            raise ValueError("skip_on_error=True is the old form of on_error='skip': give only one")
        require("requests", "http")
        super().__init__(source, "skip" if skip_on_error else on_error)
        self.error_policy = ErrorPolicy(trying_again("skip" if skip_on_error else on_error))
        self.timeout = timeout
        self.skip_on_error = skip_on_error
        self.on_error = on_error
        self.options = Options(kwargs)

    def _download(self, ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
        raise NotImplementedError(f"{type(self).__name__} must define _download")

    def _function(self) -> Callable[[Any], tuple[str, IO[bytes]]]:
        timeout = _TIMEOUT if self.timeout is None else self.timeout

        def download(item: Any) -> tuple[str, IO[bytes]]:
            attempts = attempts_of(self._retry, self.error_policy)
            return self._download(_Requests({**self.options, "timeout": timeout}, attempts), checked_path(item))

        return download


@functional_datapipe("read_from_http")
class HttpReader(_Downloader):
    r"""Yield the URL and a stream of the bytes behind it, for each URL.

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
    >>> [stream.readline().decode().strip('"\n') for url, stream in dp]
    ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        timeout: Timeout = None,
        skip_on_error: bool = False,
        *,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        super().__init__(source, timeout=timeout, skip_on_error=skip_on_error, on_error=on_error, **kwargs)

    def _download(self, ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
        return _from_the_web(ask, url)


@functional_datapipe("read_from_gdrive")
class GDriveReader(_Downloader):
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

    def _download(self, ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
        return _from_drive(ask, url)


@functional_datapipe("read_from_remote")
class OnlineReader(_Downloader):
    r"""Yield the URL, or for a file in Google Drive its name, and a stream of the bytes, for each URL.

    Take it for URLs of the web and of Google Drive in one stream. URLs of `drive.google.com` and `docs.google.com` are
    read as by `read_from_gdrive`, all others as by `read_from_http`, with the same parameters and errors.

    >>> import json, os, threading
    >>> from functools import partial
    >>> from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
    >>> files = partial(SimpleHTTPRequestHandler, directory=os.path.dirname(json.__file__))
    >>> server = ThreadingHTTPServer(("127.0.0.1", 0), files)
    >>> threading.Thread(target=server.serve_forever, daemon=True).start()
    >>> dp = IterableWrapper([f"http://127.0.0.1:{server.server_port}/decoder.py"]).read_from_remote()
    >>> [stream.readline().decode().strip('"\n') for url, stream in dp]
    ['Implementation of JSONDecoder']
    """

    def _download(self, ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
        return _from_drive(ask, url) if urlsplit(url).hostname in DRIVE_HOSTS else _from_the_web(ask, url)


class _Requests:
    """Requests for one file, by a session of its own: no cookies reach other files."""

    def __init__(self, options: Mapping[str, Any], attempts: ErrorPolicy) -> None:
        require("requests", "http")
        self._session = new_session()
        self._options = options
        self._attempts = attempts

    def __call__(self, url: str, sent_by: str | None = None, asked: str = "") -> Any:
        """Return the response for a URL, which came from the page `sent_by`; `asked` is the `Range` header."""
        from requests import RequestException

        from ...storage.streaming.web_errors import as_transient

        options = {**self._options}
        if sent_by is not None and self._session.should_strip_auth(sent_by, url):
            options = {name: options[name] for name in _FOR_ANY_HOST & options.keys()}
        if asked:
            own = {"Range": asked, "Accept-Encoding": "identity"}
            options["headers"] = {**(options.get("headers") or {}), **own}
        try:
            with self._session as session:  # a response outlives it
                answer = session.get(url, stream=True, **options)
            if not answer.ok and not (asked and answer.status_code == _NO_SUCH_RANGE):
                answer.close()
                answer.raise_for_status()
        except RequestException as error:
            _release(error)
            raise as_transient(error) from None
        return answer

    def stream(self, answer: Any, name: str, url: str, sent_by: str | None = None) -> IO[bytes]:
        """Return a stream of a response; where it breaks, the rest is requested as the response was."""
        file: Any = _raw(answer)
        if answer.status_code == 200:  # else a range that the user asked for
            file = ResumableBody(_response_of(answer), lambda asked: _response_of(self(url, sent_by, asked)), name)
        return stream_over(file, name, None, attempts=self._attempts)


def _raw(answer: Any) -> Any:
    content_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    # Some servers wrongly declare a .gz file as content encoded for transfer.
    answer.raw.decode_content = content_type not in _PACKED_THEMSELVES
    return answer.raw


def _response_of(answer: Any) -> HttpResponse:
    from ...storage.streaming.web_errors import as_transient

    raw = _raw(answer)

    def read(size: int) -> bytes:
        try:
            content: bytes = raw.read(size)
            return content
        except Exception as error:
            raise as_transient(error) from error

    return HttpResponse(answer.status_code, answer.headers, read, raw.close)


def _release(error: Any) -> None:
    """Remove the request, and all of the response but its status, from an error: a pickle would contain them."""
    error.request, answer = None, error.response
    if answer is not None:
        error.response = type(answer)()
        error.response.status_code, error.response.reason = answer.status_code, answer.reason
        error.response.url = without_secrets(answer.url)


def _from_the_web(ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
    return url, ask.stream(ask(url), url, url)


def _from_drive(ask: _Requests, url: str) -> tuple[str, IO[bytes]]:
    url, page = _for_download(url), None
    answer = ask(url)
    if not _is_file(answer):
        page = answer.url
        url = _Page(answer).confirmation()
        answer = ask(url, page)
    if not _is_file(answer):
        raise _Page(answer).refusal()
    name = _name_of_file(answer.headers["Content-Disposition"])
    if not name.strip("."):
        answer.close()
        raise RuntimeError("Google Drive gave no name for the file")
    return name, ask.stream(answer, name, url, page)


def _for_download(url: str) -> str:
    """Return the download URL of a file in Google Drive, given that URL or one for sharing."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if shared := re.match(r"/file/(?:u/\d+/)?d/([^/]+)", parts.path):
        query["id"] = [shared[1]]
    elif parts.path not in ("/open", "/uc") or "id" not in query:
        return url
    kept = [(name, value) for name in ("id", "resourcekey", "confirm") for value in query.get(name, ())]
    return parts._replace(path="/uc", query=urlencode([("export", "download"), *kept])).geturl()


def _is_file(answer: Any) -> bool:
    return "Content-Disposition" in answer.headers


def _name_of_file(disposition: str) -> str:
    """Return the file name in the header, without folders; prefer the Unicode form."""
    header = Message()
    header["Content-Disposition"] = disposition
    names = [value for key, value in header.get_params([], "Content-Disposition") if key.lower() == "filename"]
    name = collapse_rfc2231_value(names[-1]) if names else ""
    return re.split(r"[/\\]", name)[-1]  # a path could make a saver write anywhere


class _Page(html.parser.HTMLParser):
    """The title and the confirmation form of a page from Google Drive."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._url: str = answer.url
        self._title = ""
        self._in_title = False
        self._action: str | None = None
        self._fields: dict[str, str] = {}
        with answer:
            self.feed(answer.raw.read(_LONGEST_PAGE, decode_content=True).decode("utf-8", "replace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_title = tag == "title"
        if tag == "form" and attributes.get("id") in ("download-form", "downloadForm"):
            self._action = urljoin(self._url, attributes.get("action"))
        elif tag == "input" and self._action is not None and (name := attributes.get("name")):
            self._fields[name] = attributes.get("value") or ""

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title += data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def confirmation(self) -> str:
        """Return the URL that the form requests; raise RuntimeError where the page has no form."""
        if self._action is None:
            raise self.refusal()
        return self._action + ("&" if urlsplit(self._action).query else "?") + urlencode(self._fields)

    def refusal(self) -> RuntimeError:
        title = self._title.strip()
        if "quota" in title.lower():
            return RuntimeError(
                "Google Drive's download quota for this file is used up: try again in a day, or copy the "
                "file to a Drive of your own"
            )
        return RuntimeError(
            f"Google Drive answered with a page, {title!r:.100}, and not with a file: check that everybody with the "
            "link may read it, and that it is not a folder"
        )
