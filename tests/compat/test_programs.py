"""Programs written for torchdata, as its users wrote them, run unchanged by `python -m penstock.compat`."""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def run(name: str, *arguments: object) -> list[str]:
    """What a program printed; it is shown how it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.compat", str(PROGRAMS / f"{name}.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "NO_PROXY": "*"},
    )
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" not in done.stderr
    return done.stdout.splitlines()


class Quiet(SimpleHTTPRequestHandler):
    asked_for: list[str] = []

    def do_GET(self) -> None:
        self.asked_for.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the URL at which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    Quiet.asked_for.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pack(path: Path, members: dict[str, bytes], mode: str) -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_a_text_data_set_of_two_nested_disk_caches(served, tmp_path):
    folder, url = served
    archive = folder / "reviews_csv.tar.gz"
    train = "".join(f'{n % 2 + 1},"title {n}","said ""so"", {n}"\n' for n in range(30))
    pack(archive, {"reviews_csv/train.csv": train.encode(), "reviews_csv/test.csv": b"1,a,b\n2,c,\xc3\xa4\n"}, "w:gz")
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    root = tmp_path / "root"
    out = run("text_dataset", f"{url}/{archive.name}", md5, root)
    assert out == [
        """30 (1, 'title 0 said "so", 0') (2, 'title 29 said "so", 29')""",
        "[(1, 'a b'), (2, 'c ä')]",
        "loaded 30",
    ]
    assert Quiet.asked_for == [f"/{archive.name}"]  # once, over all passes and workers
    assert (root / "reviews_csv" / "train.csv").read_text() == train
    assert sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()) == [
        "reviews_csv.tar.gz",
        "reviews_csv/test.csv",
        "reviews_csv/train.csv",
    ]


def test_click_logs_through_pipes_of_ones_own_and_workers(tmp_path):
    for number in range(4):
        rows = [f"{row % 2}\t{row}.5\t\t{row:x}\tff\t" for row in range(10)]
        (tmp_path / f"day_{number}.tsv").write_text("\n".join(rows) + "\n")
    shape, found, *rows = run("recommender", tmp_path)
    assert ast.literal_eval(shape) == [
        *["Mapper", "Batcher", "Mapper", "Limiter", "ByTorchsBase", "TSVReader"],
        *["ShardingFilter", "Shuffler", "FileLister"],
    ]
    assert found == "2 1"
    assert rows == ["rows 14", "rows 14"]


def test_images_demultiplexed_zipped_by_key_and_decompressed(tmp_path):
    names = [f"{number}.png" for number in range(6)]
    labels = {name: str(number % 3) for number, name in enumerate(names)} | {"5.png": "unknown"}
    members = {f"images/{name}": name.encode() for name in names}
    members["annotations.csv"] = "\n".join(
        ["file,label", *(f"{name},{label}" for name, label in reversed(labels.items()))]
    ).encode()
    members["listing.txt.gz"] = gzip.compress("\n".join(reversed(names[:5])).encode())
    pack(tmp_path / "images.tar", members, "w")
    samples, by_workers, stream = run("vision", tmp_path, *names[:5])
    assert ast.literal_eval(samples) == [(name, name, number % 3) for number, name in enumerate(names[:5])]
    assert ast.literal_eval(by_workers) == names[:5]
    assert stream == "StreamWrapper<three letters> b'abc'"
