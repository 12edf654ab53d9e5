from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import certifi
import pytest

from penstock.storage.clients import for_one_attempt, new_store

CERTIFICATES = certifi.where()
ENDPOINTS = ["http://127.0.0.1:9000", "https://store.example.com", "http://store:80/"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that tells all that a client needs."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "BOTO"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return monkeypatch


def told_by(store: Any) -> Any:
    return store.config, store.client_options, store.credential_provider()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("options", [{}, for_one_attempt({}), {"client_kwargs": {"region_name": "us-east-2"}}])
@pytest.mark.parametrize(
    "more", [{}, {"AWS_SESSION_TOKEN": "token"}, {"AWS_REGION": "us-west-1"}, {"AWS_CA_BUNDLE": CERTIFICATES}]
)
def test_without_botocore_a_client_is_the_same(
    told: pytest.MonkeyPatch, tmp_path: Path, endpoint: str, options: Any, more: dict[str, str]
) -> None:
    told.setenv("AWS_ENDPOINT_URL", endpoint)
    for name, value in more.items():
        told.setenv(name, value)
    with told.context() as without:
        without.setattr("penstock.storage.clients._botocore_options", None)
        fast = told_by(new_store("s3", "a-bucket-1", options))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("")
    assert fast == told_by(new_store("s3", "a-bucket-1", options))


@pytest.mark.parametrize(
    ("more", "options", "config"),
    [
        ({"AWS_ENDPOINT_URL_S3": "http://b:1"}, {}, ""),
        ({"AWS_PROFILE": "other"}, {}, "[profile other]\nregion = us-west-2"),
        ({}, {}, "[default]\ns3 =\n  addressing_style = virtual"),
        ({}, {"anon": True}, ""),
        ({}, {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}, ""),
        ({}, {"client_kwargs": {"endpoint_url": "http://c:1"}}, ""),
        ({"AWS_SECRET_ACCESS_KEY": ""}, {"key": "k", "secret": "s"}, ""),
    ],
)
def test_where_anything_else_counts_botocore_is_asked(
    told: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, str], options: Any, config: str
) -> None:
    told.setenv("AWS_ENDPOINT_URL", "http://a:1")
    for name, value in more.items():
        told.setenv(name, value)
    if config:
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "config").write_text(config)
    told.setattr("penstock.storage.clients._botocore_options", None)
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        new_store("s3", "bucket", options)


def test_a_fresh_process_lists_and_loads_without_what_is_slow_to_import(s3_server: Any, tmp_path: Path) -> None:
    (s3_server.root / "fresh" / "folder").mkdir(parents=True)
    (s3_server.root / "fresh" / "folder" / "a").write_bytes(b"one")
    program = """
        import sys, penstock as ps
        dp = ps.iter.IterableWrapper(["s3://fresh/folder/"]).list_files_by_s3().load_files_by_s3().read_from_stream()
        print(list(dp), [name for name in ("botocore", "s3fs", "aiohttp", "fsspec") if name in sys.modules])
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[('s3://fresh/folder/a', b'one')] []\n", done.stderr
