"""No text that a person or a log may see has a secret in it, and none goes to another host."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import penstock as ps
from penstock.errors.secrets import Options, hide_secrets, stream_name, without_secrets
from penstock.pipes.iter import IterableWrapper
from penstock.registry import walk
from penstock.storage.addresses import address_of
from penstock.storage.objects import LARGE
from s3 import S3Server

SECRET = "ThisIsSecret"


class Handler(BaseHTTPRequestHandler):
    """Answers with the status that begins a path, redirects to `redirect_to`, and notes what it was sent."""

    asked: list[dict[str, str]]
    redirect_to = ""
    body = b"abc"

    def do_GET(self) -> None:
        type(self).asked.append({name.lower(): value for name, value in self.headers.items()})
        status = int(self.path.split("/")[1].partition("?")[0] or 200)
        self.send_response(status)
        if status == 307:
            self.send_header("Location", self.redirect_to)
        body = b"" if status == 307 else self.body
        self.send_header("Content-Length", str(len(body) + (5 if self.path.startswith("/200/cut") else 0)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        pass


def serving() -> Iterator[type[Handler]]:
    handler = type("Handler", (Handler,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        handler.host = f"127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield handler
        server.shutdown()


server = pytest.fixture(serving)
other = pytest.fixture(serving)

READERS: dict[str, Callable[[str, Path], Any]] = {
    "read_from_http": lambda url, folder: IterableWrapper([url]).read_from_http(on_error=ps.Retry(1, 0)),
    "open_files_by_fsspec": lambda url, folder: IterableWrapper([url]).open_files_by_fsspec(
        "rb", on_error=ps.Retry(1, 0)
    ),
    "list_files_by_fsspec": lambda url, folder: IterableWrapper([url]).list_files_by_fsspec(on_error=ps.Retry(1, 0)),
    "load_files_by_s3": lambda url, folder: IterableWrapper([url]).load_files_by_s3(on_error=ps.Retry(1, 0)),
    "decompress": lambda url, folder: IterableWrapper([url]).read_from_http(on_error=ps.Retry(1, 0)).decompress("gzip"),
    "cache_files": lambda url, folder: IterableWrapper([url]).cache_files(folder, 1, on_error=ps.Retry(1, 0)),
    "read_images": lambda url, folder: IterableWrapper([url]).read_images(on_error=ps.Retry(1, 0)),
    "read_parquet": lambda url, folder: IterableWrapper([url]).read_parquet(on_error=ps.Retry(1, 0)),
    "read_csv": lambda url, folder: IterableWrapper([url]).read_csv(on_error=ps.Retry(1, 0)),
    "ObjectReader": lambda url, folder: ps.map.ObjectReader([url], on_error=ps.Retry(1, 0)).to_iter_datapipe(),
}
PLACES = ["/404/a.txt", "/500/a.txt", "/200/cut/a.txt", "/200/whole.txt"]
ADDRESSES = {
    "signed": lambda host, path: f"http://{host}{path}?X-Amz-Signature={SECRET}&part=1",
    "token": lambda host, path: f"http://{host}{path}?{SECRET}",
    "password": lambda host, path: f"http://me:{SECRET}@{host}{path}",
    "parameter": lambda host, path: f"http://{host}{path};sig={SECRET}",
    "fragment": lambda host, path: f"http://{host}{path}#{SECRET}",
}


def seen_of(chain: Any, caplog: pytest.LogCaptureFixture) -> str:
    """All texts that a person may see when a chain is read."""
    texts = [repr(chain), str(chain.state_dict())]
    try:
        for item in chain:
            if isinstance(item, tuple):
                texts.append(repr(item[1]))
                item[1].read()
        raise ValueError("an error that follows")  # so that there is one in any case
    except Exception as error:
        texts += ["".join(traceback.format_exception(error)), repr(error)]
    texts += [repr(chain.stats()), caplog.text]
    return "\n".join(texts)


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
def test_no_text_has_what_an_address_keeps_secret(
    make: Callable[[str, Path], Any],
    path: str,
    address: Callable[[str, str], str],
    server: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    url = address(server.host, path)
    seen = seen_of(make(url, tmp_path), caplog)
    assert SECRET not in seen
    assert server.host + path in seen
    assert server.asked  # or nothing could have gone wrong


def test_an_object_that_is_read_by_ranges_shows_no_secret_of_its_address(s3_server: S3Server) -> None:
    (s3_server.empty_bucket("streams") / f"a?sig={SECRET}").write_bytes(bytes(LARGE + 1))
    [(_, stream)] = IterableWrapper([f"s3://streams/a?sig={SECRET}"]).load_files_by_s3()
    assert repr(stream) == "<_io.BufferedReader name='s3://streams/a?…'>"
    (s3_server.root / "streams" / f"b?sig={SECRET}").write_bytes(b"one")
    [(_, small)] = IterableWrapper([f"s3://streams/b?sig={SECRET}"]).load_files_by_s3()
    assert small.name == "s3://streams/b?…"  # type: ignore[attr-defined]


def test_a_file_of_this_machine_has_its_own_name(tmp_path: Path) -> None:
    place = tmp_path / "what?sig=one.txt"
    place.write_text("one")
    [(_, stream)] = IterableWrapper([str(place)]).open_files_by_fsspec("rb")
    assert Path(stream.name).read_text() == "one"


def test_a_skipped_item_is_logged_and_counted_without_secrets(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    urls = IterableWrapper([f"http://{server.host}/404/a?X-Amz-Signature={SECRET}"])
    chain = urls.open_files_by_fsspec(on_error="skip")
    assert list(chain) == []
    assert "/404/a?…" in repr(chain.stats())
    assert SECRET not in repr(chain.stats()) + caplog.text


@pytest.mark.parametrize("place", ["/404/a", "/307/a", ""])
def test_an_error_of_requests_takes_no_secret_along(place: str, server: Any) -> None:
    server.redirect_to = f"/307/a?sig={SECRET}"
    url = f"http://me:{SECRET}@{server.host if place else '127.0.0.1:1'}{place}?sig={SECRET}"
    with pytest.raises(OSError, match="404|redirects|refused") as caught:
        list(IterableWrapper([url]).read_from_http(headers={"X-Key": SECRET}, on_error=ps.Retry(1, 0)))
    packed = pickle.dumps(caught.value)
    assert SECRET.encode() not in packed
    answer = pickle.loads(packed).response
    assert answer is None if not place else place == f"/{answer.status_code}/a"


OF_STORES: dict[str, Callable[[str], Any]] = {
    "open_files_by_fsspec": lambda url: IterableWrapper([url]).open_files_by_fsspec("rb"),
    "list_files_by_s3": lambda url: IterableWrapper([url]).list_files_by_s3(on_error=ps.Retry(1, 0)),
    "load_files_by_s3": lambda url: IterableWrapper([url]).load_files_by_s3(on_error=ps.Retry(1, 0)),
    "read_parquet of a folder": lambda url: ps.read_parquet(url + "/"),
    "save_by_fsspec": lambda url: IterableWrapper([(url, "one")]).save_by_fsspec(),
    "write_csv": lambda url: IterableWrapper([{"a": 1}]).write_csv(url + "{shard}.csv", 1),
}


@pytest.mark.parametrize("make", OF_STORES.values(), ids=OF_STORES)
def test_keys_in_the_address_of_an_object_are_refused_and_not_shown(
    make: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    url = f"s3://AKIA:7/{SECRET}@bucket/a"
    assert SECRET not in seen_of(make(url), caplog)
    with pytest.raises(ValueError, match="://…@bucket/a.* contains keys.*give them as options") as caught:
        list(make(url))
    assert SECRET.encode() not in pickle.dumps(caught.value)


@pytest.mark.parametrize("of", ["save", "StorageReader"])
def test_a_checkpoint_refuses_keys_in_an_address_too(of: str) -> None:
    make = getattr(ps.checkpoint, of)
    with pytest.raises(ValueError, match="s3://…@bucket/a contains keys") as caught:
        make(f"s3://AKIA:{SECRET}@bucket/a", **({"a": 1} if of == "save" else {}))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url", ["s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/a@b", "s3://b/a:b@c", "abfs://box@account/a:b@c"]
)
def test_an_address_with_an_at_sign_of_its_own_is_none_with_keys(url: str) -> None:
    address_of(url, {})


@pytest.mark.parametrize("url", [f"s3a://me:{SECRET}@b/a", f"gs://me:{SECRET}@b/a", f"zip://a::abfs://me:{SECRET}@b/a"])
def test_keys_in_the_address_of_any_store_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="…@b/a contains keys"):
        address_of(url, {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host/a?b=c d", "https://…@host/a?… d"),
        ("zip://a.txt::https://me:pw@host/q?sig=1", "zip://a.txt::https://…@host/q?…"),
        ("url: /a?X-Amz-Signature=1 (Caused by)", "url: /a?… (Caused by)"),
        ("az://container/a?sig=1", "az://container/a?…"),
        ("s3://bucket/a?versionId=12", "s3://bucket/a?versionId=12"),
        ("https://host/uc?id=7&export=download&key=1", "https://host/uc?id=7&export=download&…"),
        ("why? since a=b, me@host", "why? since a=b, me@host"),
        ("https://me:p@ss/wo'rd@host/a", "https://…@host/a"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("HTTPS://host/a?token", "HTTPS://host/a?…"),
        ("https://host/a#access_token=1 b", "https://host/a#… b"),
        ("https://host/a?id=1;token=2", "https://host/a?id=1&…"),
        ("s3://bucket/a?versionId=1?token=2", "s3://bucket/a?versionId=1&…"),
        ("['https://host/a?b=c', 'd']", "['https://host/a?…', 'd']"),
        ("s3://id:1/sec@ret@b/a@b", "s3://…@b"),
        ("get https://host/a?v=1.2,3&sig=abc). Then go", "get https://host/a?…). Then go"),
        ("get https://host/a#token=abc, then go", "get https://host/a#…, then go"),
        ("get host%3Fsig%3Dabc.", "get host%3F…."),
        ("https%3A%2F%2Fhost%2Fa%3Fb%3Dc", "https%3A%2F%2Fhost%2Fa%3F…"),
        ("https%3A%2F%2Fhost%2Fa%3Bb%3Dc", "https%3A%2F%2Fhost%2Fa%3B…"),
        ("see http://host/a;sig=1; then http://host/b;2, or not", "see http://host/a;…; then http://host/b;…, or not"),
        ("[URL('http://host/a;b'), 'ftp://host/c#d']", "[URL('http://host/a;…'), 'ftp://host/c#…']"),
        ("exceeded with url: /a;sig=1 (Caused", "exceeded with url: /a;… (Caused"),
        ("https://host/uc?id=7#token=1", "https://host/uc?id=7&…"),
        ("https://host:80/p/https://me:pw@other/a;1", "https://host:80/p/https://…@other/a;…"),
        ("read https://host/a; or https://host/b? or #c", "read https://host/a; or https://host/b? or #c"),
        ("az://box/a?1", "az://box/a?…"),
        ("abfss://box@account/a;1", "abfss://…@account/a;…"),
        ("webdav://host/a#1", "webdav://host/a#…"),
        ("simplecache::hdfs://host/a?1", "simplecache::hdfs://host/a?…"),
        ("zip://a;b.txt::https://host/c;d", "zip://a;b.txt::https://host/c;…"),
        ("s3://bucket/a?b;c#d", "s3://bucket/a?b;c#d"),
        ("gs://bucket/a;b=c", "gs://bucket/a;b=c"),
        ("text/html;charset=utf-8", "text/html;charset=utf-8"),
    ],
)
def test_what_is_hidden_of_a_text(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://host/my file;sig=1 '2'", "http://host/my file;…"),
        ("http://host/a\n?sig=1\r\n", "http://host/a\n?…"),
        ("az://box/it's a?1 2", "az://box/it's a?…"),
        ("ftp://me:p w@host/a#b", "ftp://…@host/a#…"),
        ("zip://my b.txt::https://host/c d?e f", "zip://my b.txt::https://host/c d?…"),
        ("s3://bucket/my a?b", "s3://bucket/my a?b"),
        ("file:///a b;c#d", "file:///a b;c#d"),
        ("/folder/what;a=b?c=d#e", "/folder/what;a=b?c=d#e"),
    ],
)
def test_what_is_hidden_of_an_address_alone(address: str, shown: str) -> None:
    assert stream_name(address) == shown
    if "://" in address:
        assert repr(IterableWrapper([address])) == f"IterableWrapper([{shown!r}])"
        dp = IterableWrapper([(address, 1)]).map(lambda item: 1 // 0, on_error="skip")
        list(dp)
        assert dp.stats()["map"]["last_errors"][0].endswith(f"on ({shown!r}, 1)")
        error = OSError(5, "cut", address)
        hide_secrets(error)
        assert error.filename == shown


def test_hiding_takes_time_in_proportion_to_the_text() -> None:
    began = time.monotonic()
    for text in ("a.b-c:d+e;" * 50_000 + "://", "http://" * 50_000 + ";", "http://a" * 50_000 + ";;", "?a;#" * 50_000):
        without_secrets(text)
    assert time.monotonic() - began < 20


class Signed(NamedTuple):
    url: str


def test_a_stream_that_is_read_behind_the_chain_hides_them_too() -> None:
    packed = gzip.compress(bytes(300_000))[:-20]
    [(_, stream)] = IterableWrapper([(f"https://me:{SECRET}@host/a?sig={SECRET}", io.BytesIO(packed))]).decompress()
    with pytest.raises(OSError, match="host/a.*is cut or corrupt") as caught:
        stream.read()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_half_of_a_secret_is_shown_nowhere() -> None:
    url = f"https://host/{'a' * 40}?sig={'b' * 100}{SECRET}"
    dp = IterableWrapper([Signed(url)]).map(lambda item: 1 // 0)
    with pytest.raises(ZeroDivisionError) as caught:
        list(dp)
    assert "bbbb" not in "".join([*traceback.format_exception(caught.value), repr(dp)])


def test_an_error_and_what_led_to_it_hide_their_secrets() -> None:
    error = KeyError(f"https://me:{SECRET}@host", 7)
    error.__cause__ = OSError(5, "cut", f"https://host/a?sig={SECRET}")
    hide_secrets(error)
    assert error.args == ("https://…@host", 7)
    assert str(error.__cause__) == "[Errno 5] cut: 'https://host/a?…'"


# Options


def test_options_show_their_names_only_and_travel_whole() -> None:
    options = Options({"key": "an id", "secret": SECRET})
    assert repr(options) == str(options) == "Options(key, secret)"
    assert {**pickle.loads(pickle.dumps(options))} == {"key": "an id", "secret": SECRET}


@pytest.mark.parametrize(
    "make",
    [
        lambda options: ps.read_images("s3://b/a", storage_options=options),
        lambda options: IterableWrapper(["s3://b/a"]).load_files_by_s3(storage_options=options),
        lambda options: IterableWrapper(["s3://b/a"]).open_files_by_fsspec(**options),
        lambda options: IterableWrapper([{"a": 1}]).write_csv("s3://b/{shard}.csv", 1, storage_options=options),
    ],
)
def test_an_operator_shows_none_of_its_options_values(make: Callable[[dict[str, Any]], Any]) -> None:
    chain = make({"key": "an id", "secret": SECRET})
    assert SECRET not in repr(chain) + json.dumps(chain.state_dict()) + repr([vars(pipe) for pipe in walk(chain)])


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Authorization": f"Bearer {SECRET}\n"}},
        {"client_kwargs": {"headers": {"X-Token": f"{SECRET}\r\nX: y"}}},
        {"key": "id", "secret": f"{SECRET}\n"},
        {"auth": ("user", f"{SECRET}\n")},
    ],
    ids=lambda options: "-".join(options),
)
def test_an_option_with_the_line_break_of_its_file_is_refused_and_not_shown(options: dict[str, Any]) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: IterableWrapper(["http://127.0.0.1:1/a"]).open_files_by_fsspec("rb", **options),
        lambda: IterableWrapper(["s3://bucket/a"]).load_files_by_s3(storage_options=options),
        lambda: ps.checkpoint.load("http://127.0.0.1:1/a", storage_options=options),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="contains a line break") as caught:
            make()
        assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def test_a_key_of_the_environment_with_a_line_break_is_an_error_and_no_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": f"{SECRET}\n", "AWS_SECRET_ACCESS_KEY": SECRET}.items():
        monkeypatch.setenv(name, value)
    for options in ({}, {"endpoint_url": "http://127.0.0.1:1"}):
        with pytest.raises((PermissionError, ValueError), match="contains a line break") as caught:
            list(IterableWrapper(["s3://bucket/a"]).load_files_by_s3(storage_options=options))
        assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("as_text", [True, False])
def test_a_key_for_google_is_given_as_its_content_and_not_shown(as_text: bool) -> None:
    content = {"type": "service_account", "private_key": SECRET}
    dp = IterableWrapper(["gs://bucket/a"]).load_files_by_s3(
        storage_options={"token": json.dumps(content) if as_text else content}
    )
    with pytest.raises(OSError, match="missing field") as caught:
        list(dp)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def test_headers_for_the_web_reach_the_server_whoever_reads(server: Any, tmp_path: Path) -> None:
    url, headers = f"http://{server.host}/200/a.txt", {"X-Key": SECRET}
    uses: list[Callable[[], Any]] = [
        lambda: list(IterableWrapper([url]).load_files_by_s3(storage_options={"headers": headers})),
        lambda: list(IterableWrapper([url]).cache_files(tmp_path, 10**9, storage_options={"headers": headers})),
        lambda: list(IterableWrapper([url]).read_from_http(headers=headers)),
        lambda: ps.checkpoint.load(url, storage_options={"headers": headers}),
    ]
    for use in uses:
        server.asked.clear()
        with contextlib.suppress(ValueError):  # it is no checkpoint
            use()
        assert server.asked
        assert all(request["x-key"] == SECRET for request in server.asked)


# Redirects


@pytest.mark.parametrize(
    "make",
    [
        lambda url: IterableWrapper([url]).read_from_http(headers={"X-Key": SECRET}, cookies={"a": SECRET}),
        lambda url: IterableWrapper([url]).read_from_http(auth=("me", SECRET)),
        lambda url: IterableWrapper([url]).open_files_by_fsspec(client_kwargs={"headers": {"X-Key": SECRET}}),
        lambda url: IterableWrapper([url]).open_files_by_fsspec(client_kwargs={"cookies": {"a": SECRET}}),
        lambda url: IterableWrapper([url]).open_files_by_fsspec(client_kwargs={"auth": basic_auth()}),
    ],
)
@pytest.mark.parametrize("path", ["200/a.txt", "307/a.txt"])
@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")  # older programs have it
def test_a_redirect_takes_no_headers_to_another_host(
    make: Callable[[str], Any], path: str, server: Any, other: Any
) -> None:
    server.redirect_to = f"http://localhost:{other.host.partition(':')[2]}/{path}"
    other.redirect_to = "/200/a.txt"
    [(_, stream)] = make(f"http://{server.host}/307/a.txt")
    assert stream.read() in (b"abc", "abc")
    first = json.dumps(server.asked)
    assert SECRET in first or "Basic" in first  # or there would be nothing to take along
    assert other.asked
    assert not any(SECRET in text or "Basic" in text for each in other.asked for text in each.values())


def test_a_form_takes_no_keys_to_another_host(server: Any, other: Any) -> None:
    action = f"http://localhost:{other.host.partition(':')[2]}/200/a.txt"
    server.body = f'<form id="download-form" action="{action}"><input name="confirm" value="t"></form>'.encode()
    with pytest.raises(RuntimeError, match="answered with a page"):
        list(IterableWrapper([f"http://{server.host}/200/page"]).read_from_gdrive(headers={"X-Key": SECRET}))
    assert SECRET in json.dumps(server.asked)
    assert len(other.asked) == 1
    assert SECRET not in json.dumps(other.asked)


def basic_auth() -> Any:
    import aiohttp

    return aiohttp.BasicAuth("me", SECRET)


def test_a_redirect_on_one_host_keeps_the_headers(server: Any) -> None:
    server.redirect_to = f"http://{server.host}/200/a.txt"
    for chain in (
        IterableWrapper([f"http://{server.host}/307/a.txt"]).read_from_http(headers={"X-Key": SECRET}),
        IterableWrapper([f"http://{server.host}/307/a.txt"]).open_files_by_fsspec("rb", headers={"X-Key": SECRET}),
    ):
        server.asked.clear()
        [(_, stream)] = chain
        assert stream.read() == b"abc"
        assert all(request["x-key"] == SECRET for request in server.asked)


@pytest.mark.parametrize(
    "make",
    [
        lambda options: IterableWrapper(["s3://b/a"]).list_files_by_s3(storage_options=options),
        lambda options: IterableWrapper(["s3://b/a"]).open_files_by_fsspec("rb", **options),
        lambda options: IterableWrapper(["s3://b/a"]).read_parquet(storage_options=options),
    ],
)
def test_a_state_goes_on_with_other_credentials_and_knows_none(make: Callable[[Any], Any]) -> None:
    state = make({"key": "old", "secret": SECRET, "token": SECRET, "client_kwargs": {"a": SECRET}}).state_dict()
    make({"key": "new", "secret": "another", "token": "fresh"}).load_state_dict(state)
    assert state["arguments"] == make({}).state_dict()["arguments"]
