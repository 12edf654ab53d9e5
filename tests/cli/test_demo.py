"""The demo: it learns, from wherever the shards lie."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import torch

from penstock import cli
from penstock.cli import demo

pytestmark = pytest.mark.timeout(180)


def run_demo(*arguments, cwd):
    """Run it in any folder, with the same penstock as the tests."""
    root = Path(cli.__file__).parents[1]
    tree = root if root.name != "penstock" else root.parent
    return subprocess.run(
        [sys.executable, "-m", "penstock", "demo", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_built_in_shards_are_learnt_from_any_directory(tmp_path):
    done = run_demo(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ".load_from_tar()\n    .webdataset()\n    .routed_decode('torchl')" in done.stdout
    assert "13500 images in" in done.stdout
    assert "of digits-003.tar.gz, which was held out, are right" in done.stdout
    assert done.stderr == ""  # no bar, since nobody watches


def test_the_same_chain_reads_s3_with_the_environments_credentials(s3_server, monkeypatch, capsys):
    shutil.copytree(demo.BUILT_IN, s3_server.root / "digits")
    monkeypatch.setattr(demo, "GOAL", 0.0)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)  # that of the tests stays
    assert cli.main(["demo", "--data", "s3://digits", "--epochs", "1", "--workers", "1"]) == 0
    told = capsys.readouterr().out
    assert "1350 images in" in told
    assert "of digits-003.tar.gz" in told


def test_a_folder_without_shards_is_an_error_that_hides_what_its_url_keeps_secret():
    fsspec.filesystem("memory").pipe("/shards?sig=SECRET/readme.txt", b"none yet")
    with pytest.raises(ValueError, match="must have two shards at least, and has none: memory://shards") as caught:
        demo.run_demo("memory://shards?sig=SECRET", workers=0, epochs=1, device_name="cpu")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(("available", "device"), [(True, "cuda"), (False, "cpu")])
def test_an_accelerator_that_the_machine_does_not_have_is_not_taken(monkeypatch, available, device):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: available)
    assert demo.default_device() == torch.device(device)


def test_a_wrong_argument_of_the_demo_is_told_in_a_line(capsys):
    for given, said in ("--device", "abacus"), ("--workers", "-1"), ("--data", "/nowhere/at/all"):
        assert cli.main(["demo", given, said]) == 2
        told = capsys.readouterr().err
        assert told.startswith("penstock demo: ")
        assert said in told
        assert "Traceback" not in told
