from __future__ import annotations

import gc
import io
import json
import multiprocessing
import os
import pickle
import re
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import s3fs

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.storage import clients, stores
from penstock.storage.addresses import Client, address_of
from penstock.storage.file_systems import locate
from penstock.storage.reading import read_whole
from penstock.storage.retrying import Transient
from penstock.storage.stores import store_of
from penstock.storage.streaming.streams import stream_over


def test_a_name_with_colons_is_of_a_file_and_of_no_chain(tmp_path: Path) -> None:
    for name in ("a", "a::b.txt"):
        (tmp_path / name).write_text(name)
    path = str(tmp_path / "a::b.txt")
    for chain in (IterableWrapper([path]).load_files_by_s3(), IterableWrapper([path]).open_files_by_fsspec("rb")):
        [(_, stream)] = chain
        assert stream.read() == b"a::b.txt"
    assert list(IterableWrapper([(path, b"new")]).save_by_fsspec("wb")) == [path]
    ps.checkpoint.save(f"{tmp_path}/a::b.pt", step=1)
    assert {each.name: each.read_bytes()[:3] for each in tmp_path.iterdir()} == {
        "a": b"a", "a::b.txt": b"new", "a::b.pt": b"PK\3"
    }  # fmt: skip
    assert address_of("s3://bucket/a::b.txt", {}).client is Client.OBSTORE
    assert (
        address_of("zip://a.txt::s3://bucket/b.zip", {}).client
        is address_of("simplecache::s3://b/a", {}).client
        is Client.FSSPEC
    )


def test_a_version_of_an_object_is_not_written() -> None:
    for write in (
        lambda url: list(IterableWrapper([(url, b"new")]).save_by_fsspec("wb")),
        lambda url: ps.checkpoint.save(url, step=1),
    ):
        with pytest.raises(ValueError, match="s3://bucket/a.*versionId=1 names a version of an object"):
            write("s3://bucket/a?versionId=1")


@pytest.mark.parametrize("at_once", [True, False])
def test_fewer_bytes_than_the_size_of_a_file_are_an_error(at_once: bool) -> None:
    class Short(io.BytesIO):
        size = 10

    stream = stream_over(Short(b"12345"), "s3://bucket/a", None, owner="a file system")
    with pytest.raises(ConnectionError, match="the answer was cut: 5 of 10 bytes came: 's3://bucket/a'"):
        stream.read() if at_once else list(iter(lambda: stream.read(3), b""))


TOKEN = "a-session-token"
SECRET = "a-secret-of-the-environment"


class Recorder(ThreadingHTTPServer):
    """A server that answers with what it was asked for, plays S3's refusals, and gives credentials to roles."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[dict[str, str]] = []
        self.renewals = 0


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def log_message(self, *_: Any) -> None:
        pass

    def do_PUT(self) -> None:
        self._answer(200, b"a-token-for-metadata", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})

    def do_HEAD(self) -> None:
        self._answer(200, b"", length=len(unquote(urlsplit(self.path).path)))  # as s3fs asks before it reads

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/latest/meta-data/iam/security-credentials/":
            self._answer(200, b"a-role")
        elif path.endswith(("/security-credentials/a-role", "/container")):
            self._answer(200, json.dumps(self._credentials()).encode())
        else:
            self._answer_object(unquote(path))

    def _credentials(self) -> dict[str, str]:
        self.server.renewals += 1
        expires = datetime.now(UTC) + timedelta(minutes=5)  # so soon that they are renewed whenever they are asked for
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": "2020-01-01T00:00:00Z",
            "AccessKeyId": f"ROLE{self.server.renewals}",
            "SecretAccessKey": SECRET,
            "Token": TOKEN,
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _answer_object(self, path: str) -> None:
        place = urlsplit(self.path)
        signed = re.match(r"AWS4-HMAC-SHA256 Credential=(\w+)/\d+/([\w-]+)/s3", self.headers.get("Authorization", ""))
        self.server.asked.append(
            {
                "url": f"{place.scheme or 'http'}://{self.headers['Host']}{place.path}",
                "key": signed[1] if signed else "",
                "region": signed[2] if signed else "",
                "token": self.headers.get("x-amz-security-token", ""),
                "payer": self.headers.get("x-amz-request-payer", ""),
            }
        )
        name = parse_qs(place.query).get("prefix", [path.rpartition("/")[2]])[0]
        refusal = re.fullmatch(r"refuse-(\d+)-(\w*)/?", name)
        if refusal:
            told = f"<Token-0>{TOKEN}</Token-0><Message>No &amp; no.</Message>"
            self._answer(int(refusal[1]), f"<Error><Code>{refusal[2]}</Code>{told}</Error>".encode())
        elif name == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif name == "untold":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\none\r\n0\r\n\r\n")
        elif name == "moved":
            self._answer(302, b"", {"Location": f"{self.server.url}/new/place"})
        elif name == "silent":
            time.sleep(2)
            self.close_connection = True
        elif "Range" in self.headers:
            size = len(path.encode())
            self._answer(206, path.encode(), {"Content-Range": f"bytes 0-{size - 1}/{size}"})
        else:
            self._answer(200, path.encode())

    def _answer(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("ETag", '"1"')
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        if length is not None and self.command == "GET":
            self.close_connection = True


@pytest.fixture
def server() -> Iterator[Recorder]:
    with Recorder() as recorder:
        thread = threading.Thread(target=recorder.serve_forever, args=(0.05,))
        thread.start()
        yield recorder
        recorder.shutdown()
        thread.join(10)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An environment that tells nothing of object storage, and a home without settings."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "STORAGE_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, server: Recorder) -> None:
    """An environment with a server and credentials."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def seen_by_both(server: Recorder, options: dict[str, Any], key: str = "a/b c") -> dict[str, str]:
    """What obstore asks the server, for an object, after seeing that s3fs asks the same."""
    server.asked.clear()
    content = read_whole(f"s3://bucket/{key}", options)
    file_system, path = locate(address_of(f"s3://bucket/{key}", options))
    assert file_system.cat_file(path) == content
    of_obstore, of_s3fs = server.asked
    assert {**of_s3fs, "url": unquote(of_s3fs["url"])} == {**of_obstore, "url": unquote(of_obstore["url"])}
    return of_obstore


# One resolution of configuration


def test_both_clients_take_server_keys_and_region_from_the_environment(
    server: Recorder, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {"key": "FROMENV", "region": "us-east-1", "token": "", "payer": ""}
    assert seen_by_both(server, {}) == {**seen, "url": f"{server.url}/bucket/a/b%20c"}
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    s3fs.S3FileSystem.clear_instance_cache()
    found = seen_by_both(server, {})
    assert (found["token"], found["region"]) == (TOKEN, "eu-west-3")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # which botocore does not know of
    assert seen_by_both(server, {})["region"] == "eu-west-1"


@pytest.mark.parametrize(("chosen", "style"), [("environment", "endpoint_url"), ("option", "services")])
def test_both_clients_take_all_from_a_profile(
    server: Recorder, chosen: str, style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_profile = {"endpoint_url": f"endpoint_url = {server.url}", "services": "services = mine"}[style]
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text(
        f"[profile work]\nregion = eu-west-2\n{of_profile}\n\n[services mine]\ns3 =\n  endpoint_url = {server.url}\n"
    )
    (folder / "credentials").write_text(
        f"[work]\naws_access_key_id = FROMFILE\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n"
    )
    if chosen == "environment":
        monkeypatch.setenv("AWS_PROFILE", "work")
    found = seen_by_both(server, {} if chosen == "environment" else {"profile": "work"})
    assert (found["key"], found["region"], found["token"]) == ("FROMFILE", "eu-west-2", TOKEN)


@pytest.mark.parametrize("where", ["instance", "container"])
def test_both_clients_take_the_keys_of_a_role_and_renew_them(
    server: Recorder, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    if where == "instance":
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{server.url}/")
    else:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/container")
    monkeypatch.setattr(clients, "_GOOD_FOR", timedelta(0))
    for _ in range(2):
        assert read_whole("s3://bucket/a", {}) == b"/bucket/a"
    file_system, path = locate(address_of("s3://bucket/a", {}))
    assert file_system.cat_file(path) == b"/bucket/a"
    used = [asked["key"] for asked in server.asked]
    assert all(re.fullmatch(r"ROLE\d+", key) for key in used)
    assert where == "instance" or used[0] != used[1]  # an instance's keys are good for longer than it says
    assert {asked["token"] for asked in server.asked} == {TOKEN}


def test_options_go_before_the_environment(server: Recorder, keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    options = {"endpoint_url": server.url, "key": "MINE", "secret": "s", "token": "t", "requester_pays": True}
    found = seen_by_both(server, {**options, "client_kwargs": {"region_name": "ap-south-1"}})
    assert found.pop("url").startswith(server.url)
    assert found == {"key": "MINE", "region": "ap-south-1", "token": "t", "payer": "requester"}
    assert seen_by_both(server, {"endpoint_url": server.url, "anon": True})["key"] == ""


@pytest.mark.parametrize(
    ("bucket", "more", "url"),
    [
        ("bucket", {}, "http://bucket.s3.eu-west-1.amazonaws.com/a"),
        ("with.dots", {}, "http://s3.eu-west-1.amazonaws.com/with.dots/a"),
        ("bucket", {"s3": {"addressing_style": "path"}}, "http://s3.eu-west-1.amazonaws.com/bucket/a"),
        ("bucket", {"s3": {"use_accelerate_endpoint": True}}, "http://bucket.s3-accelerate.amazonaws.com/a"),
    ],
)
@pytest.mark.usefixtures("keys")
def test_amazons_own_hosts_are_asked_in_the_way_of_botocore(
    server: Recorder, bucket: str, more: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = {
        "use_ssl": False,
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"proxies": {"http": server.url}, **more},
    }
    read_whole(f"s3://{bucket}/a", options)
    file_system, path = locate(address_of(f"s3://{bucket}/a", options))
    file_system.cat_file(path)
    assert [asked["url"] for asked in server.asked] == [url, url]


def test_what_botocore_does_not_know_of_changes_nothing(
    server: Recorder, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REQUEST_PAYER", "true")
    monkeypatch.setenv("AWS_S3_EXPRESS", "true")
    assert seen_by_both(server, {})["key"] == "FROMENV"


def test_a_client_is_kept_until_the_environment_says_otherwise(
    server: Recorder, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, key = store_of(address_of("s3://bucket/a/b", {}))
    assert key == "a/b"
    assert store_of(address_of("s3://bucket/c", {}))[0] is first
    assert store_of(address_of("s3://bucket/c", {"requester_pays": True}))[0] is not first
    assert store_of(address_of("s3://other/c", {}))[0] is not first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    read_whole("s3://bucket/a", {})
    assert server.asked[-1]["key"] == "ANOTHER"


def test_a_forked_process_does_not_close_the_connections_of_its_parent(server: Recorder, keys: None) -> None:
    file_system, path = locate(address_of("s3://bucket/a", {"requester_pays": True}))
    file_system.cat_file(path)
    inherited = weakref.ref(file_system)
    del file_system

    def read_in_child() -> None:
        its_own, path = locate(address_of("s3://bucket/a", {"requester_pays": True}))
        its_own.cat_file(path)
        gc.collect()
        os._exit(its_own is inherited() or inherited() is None)

    child = multiprocessing.get_context("fork").Process(target=read_in_child)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    s3fs.S3FileSystem.clear_instance_cache()
    gc.collect()
    assert inherited() is None  # this process keeps nothing


# What cannot be


def test_without_credentials_an_error_says_what_to_set() -> None:
    with pytest.raises(PermissionError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.*anon="):
        list(IterableWrapper(["s3://bucket/a"]).load_files_by_s3())


@pytest.mark.parametrize(
    ("url", "options", "error", "text"),
    [
        ("s3://bucket/a", {"key": "k"}, ValueError, "key and secret are given together"),
        ("s3://bucket/a", {"sesion": 1}, TypeError, r"not read with the option 'sesion', only with anon"),
        ("gs://bucket/a", {"project": "p"}, TypeError, "not read with the option 'project'"),
        ("gs://bucket/a", {"client_kwargs": {"b": 1}}, TypeError, "only S3 takes the option 'b' in client_kwargs"),
        ("az://box/a", {"config_kwargs": {"b": 1}}, TypeError, "only S3 takes the option 'b' in config_kwargs"),
        ("file:///a", {"client_kwargs": {"b": 1}}, TypeError, "only S3 takes the option 'b'"),
    ],
)
def test_options_that_are_wrong_are_errors(
    url: str, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        store_of(address_of(url, options))


@pytest.mark.parametrize(
    ("url", "does"),
    [
        ("s3://b/a", True),
        ("gs://b/a", True),
        ("abfs://b/a", True),
        ("file:///tmp/a b", True),
        ("http://host:80/a/b.tar", True),
        ("https://host/a%20b", True),
        ("s3://b/ä é%20?#", True),
        ("s3://b/", False),
        ("s3://b/a//c", False),
        ("s3://b/a/../c", False),
        ("s3://b/a\nb", False),
        ("s3://b/a?versionId=1", False),
        ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/a", False),
        ("s3://b--use1-az4--x-s3/a", False),
        ("https://host/a?b=c", False),
        ("https://host/a%2Fb", False),
        ("https://user:secret@host/a", False),
        ("file:///tmp/50%", False),
        ("file://relative", False),
        ("simplecache::s3://b/a", False),
        ("memory://a/b", False),
        ("/tmp/a", False),
    ],
)
def test_obstore_is_for_urls_whose_very_object_it_reads(url: str, does: bool) -> None:
    assert (address_of(url, {}).client is Client.OBSTORE) is does


# Other stores


def test_files_and_the_web_are_read_too(server: Recorder, tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"one")
    assert read_whole(f"file://{tmp_path}/a b", {}) == b"one"
    assert read_whole(f"local://{tmp_path}/a b", {}) == b"one"
    assert read_whole(f"{server.url}/x/a%20b", {}) == b"/x/a b"
    with pytest.raises(FileNotFoundError):
        read_whole(f"file://{tmp_path}/none", {})


def test_on_the_web_objects_move_and_have_sizes_that_are_not_told(server: Recorder) -> None:
    assert read_whole(f"{server.url}/moved", {}) == b"/new/place"
    [(_, stream)] = IterableWrapper([f"{server.url}/untold"]).load_files_by_s3()
    assert stream.read() == b"one"


def test_not_all_clients_are_kept(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST", 3)
    for name in ("a", "b", "c", "d", "e"):
        store_of(address_of(f"http://{name}/x", {}))
    assert [known_as[1] for known_as in stores._stores] == ["c", "d", "e"]


def test_google_and_azure_are_asked_where_their_options_say(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_whole("gs://bucket/a b", {"token": "anon", "endpoint_url": server.url}) == b"/bucket/a b"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    assert read_whole("gs://bucket/a", {"anon": True}) == b"/bucket/a"
    options = {"account_name": "me", "anon": True, "endpoint_url": server.url}
    assert read_whole("az://box/a b", options).endswith(b"/box/a b")


# Errors


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("refuse-404-NoSuchKey", FileNotFoundError, "there is no such object"),
        ("refuse-404-NoSuchBucket", FileNotFoundError, "there is no such bucket"),
        ("refuse-403-AccessDenied", PermissionError, "the server refused: 403 AccessDenied"),
        ("refuse-400-ExpiredToken", PermissionError, "the server refused: 400 ExpiredToken"),
        ("refuse-301-PermanentRedirect", OSError, "in another region, pass region, or set AWS_REGION"),
        ("refuse-503-SlowDown", ConnectionError, "the server is in trouble: 503 SlowDown"),
        ("refuse-429-", ConnectionError, "the server is in trouble: 429"),
        ("refuse-400-RequestTimeout", ConnectionError, "the server is in trouble: 400 RequestTimeout"),
        ("reset", ConnectionError, "the answer was cut|reset by peer"),
        ("silent", TimeoutError, "the server did not answer in time"),
    ],
)
@pytest.mark.usefixtures("keys")
def test_errors_name_the_object_and_say_whether_to_retry(
    server: Recorder, name: str, error: type[Exception], text: str
) -> None:
    options = {"config_kwargs": {"read_timeout": 0.5}}
    with pytest.raises(error, match=text) as caught:
        read_whole(f"s3://bucket/{name}", options)
    assert isinstance(caught.value, Transient) is (error in (ConnectionError, TimeoutError))
    assert str(caught.value).endswith(f": 's3://bucket/{name}'")
    assert len(str(caught.value)) < 200
    assert caught.value.__context__ is None
    assert TOKEN not in repr(caught.value)
    assert len(server.asked) == 1, "attempts are made where they are counted"


def test_a_server_that_is_not_there_is_a_connection_error(keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(
        ConnectionError, match="no connection to http://127.0.0.1:1 .Connection refused.: 's3://bucket/a"
    ):
        read_whole("s3://bucket/a", {})
    with pytest.raises(ConnectionError, match="no connection to http://127.0.0.1:1: 's3://bucket/a"):
        list(ps.read_parquet("s3://bucket/a"))


def test_keys_that_were_replaced_in_the_files_are_found(
    server: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    file = tmp_path / ".aws" / "credentials"
    file.parent.mkdir()
    for number in (1, 2):
        file.write_text(f"[default]\naws_access_key_id = KEY{number}\naws_secret_access_key = {SECRET}\n")
        with pytest.raises(PermissionError):
            read_whole("s3://bucket/refuse-400-ExpiredToken", {})
    assert [asked["key"] for asked in server.asked] == ["KEY1", "KEY2"]


# Secrets


@pytest.mark.parametrize(("method", "end"), [("list_files_by_s3", "/"), ("load_files_by_s3", "")])
@pytest.mark.usefixtures("keys")
def test_secrets_are_shown_nowhere_and_only_given_ones_pickled(
    method: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    given = {"key": "MYKEY", "secret": "my-own-secret", "token": "my-own-token"}
    read = getattr(IterableWrapper([f"s3://bucket/refuse-400-ExpiredToken{end}"]), method)
    for options in ({}, given):
        dp = read(storage_options=options)
        skipping = read(on_error="skip", storage_options=options)
        assert list(skipping) == []
        with pytest.raises(OSError, match="the server refused: 400 ExpiredToken") as caught:
            list(dp)
        shown = [repr(dp), str(dp), str(caught.value), *caught.value.__notes__, str(skipping.stats())]
        shown.append(json.dumps(skipping.state_dict()))
        travels = pickle.dumps(dp)
        for secret in (SECRET, TOKEN, *given.values()):
            assert not any(secret in text for text in shown)
            assert (secret.encode() in travels) is (secret in options.values())


@pytest.mark.usefixtures("keys")
def test_a_client_does_not_show_its_keys() -> None:
    store, _ = store_of(address_of("s3://bucket/a", {"key": "MYKEY", "secret": "my-own-secret"}))
    assert "my-own-secret" not in repr(store) + str(store.config)  # type: ignore[union-attr]


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("key", ["/a", "a//b", "./a", "a\nb", "a?b=c#d", "a b%20+é"])
def test_any_key_is_asked_for_as_it_is(key: str) -> None:
    [(url, stream)] = IterableWrapper([f"s3://bucket/{key}"]).load_files_by_s3()
    assert url == f"s3://bucket/{key}"
    assert stream.read().decode() == f"/bucket/{key}"
