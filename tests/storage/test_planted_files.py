"""In a folder where everybody may write, nothing is read or written that somebody else may have planted."""

from __future__ import annotations

import io
import logging
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.pipes.iter import IterableWrapper

pytestmark = pytest.mark.timeout(60)

ANOTHER = 12345
A_GROUP = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


class Server:
    """What opens URLs, and how often it did."""

    def __init__(self) -> None:
        self.opened = 0

    def __call__(self, url: str) -> Any:
        self.opened += 1
        return io.BytesIO(url.encode())


def cached(folder: Path, server: Server) -> Any:
    return IterableWrapper(["a"]).cache_files(folder, 10**6, server, workers=1)


def read(dp: Any) -> list[bytes]:
    return [stream.read() for _, stream in dp]


def counts(dp: Any) -> dict[str, int]:
    counted = dp.stats()["cache_files"]
    return {name: counted[name] for name in ("hits", "misses", "uncached")}


def kept(folder: Path) -> Path:
    [path] = (path for path in folder.glob("???/*"))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with one file, and its folders."""
    folder = tmp_path / "cache"
    assert read(cached(folder, Server())) == [b"a"]
    return folder


@pytest.fixture
def everybodys(folder: Path) -> Path:
    """A cache with one file, in which everybody may make files and folders."""
    for place in (folder, folder / "fetching", kept(folder).parent):
        place.chmod(0o1777)
    return folder


def link(place: Path, target: Path) -> None:
    """Make a symbolic link as another user."""
    place.symlink_to(target)
    os.chown(place, ANOTHER, ANOTHER, follow_symlinks=False)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file to which somebody would like to have something done."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    return mine


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that a group shares; those above pytest's own are for nobody else."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 0, A_GROUP)
        os.chmod(folder, 0o2770)
        yield Path(folder)


def in_the_way(folder: Path) -> dict[str, Path]:
    """Where something is written: the lock and the part of a file, the number of bytes, and its lock."""
    path = kept(folder)
    part = folder / "fetching" / (path.parent.name + path.name.partition("-")[0])
    return {
        "lock": part.with_name(part.name + ".lock"),
        "part": part,
        "total": folder / "total",
        "total's lock": folder / "total.lock",
    }


@as_root
@pytest.mark.parametrize("what", ["lock", "part", "total", "total's lock"])
def test_a_planted_link_is_not_written_through(
    everybodys: Path, mine: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = in_the_way(everybodys)[what]
    kept(everybodys).unlink()
    place.unlink(missing_ok=True)
    link(place, mine)
    dp = cached(everybodys, Server())
    with caplog.at_level(logging.WARNING, "penstock"):
        assert read(dp) == [b"a"]
    assert mine.read_text() == "mine"
    if what == "part":  # which is made anew
        assert counts(dp) == {"hits": 0, "misses": 1, "uncached": 0}
    else:
        assert counts(dp) == {"hits": 0, "misses": 1, "uncached": 1}
        [record] = caplog.records
        assert str(place) in record.getMessage()


@as_root
def test_a_planted_link_is_not_served(everybodys: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = kept(everybodys)
    os.replace(path, tmp_path / "elsewhere")
    link(path, tmp_path / "elsewhere")
    dp = cached(everybodys, Server())
    assert read(dp) == [b"a"]
    assert counts(dp) == {"hits": 0, "misses": 1, "uncached": 1}
    assert f"{path} belongs to user {ANOTHER}" in caplog.text


@as_root
def test_a_file_of_another_user_is_not_served_and_the_warning_names_both(
    everybodys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.chown(kept(everybodys), ANOTHER, ANOTHER)
    server = Server()
    dp = cached(everybodys, server)
    assert read(dp) == [b"a"]
    assert counts(dp) == {"hits": 0, "misses": 1, "uncached": 1}
    assert server.opened == 1
    [record] = caplog.records
    assert f"user {ANOTHER}" in record.getMessage()
    assert str(kept(everybodys)) in record.getMessage()


@as_root
@pytest.mark.parametrize("how", ["a folder", "a link"])
@pytest.mark.parametrize("what", ["fetching", "of files"])
def test_a_folder_that_another_user_planted_is_not_used(everybodys: Path, tmp_path: Path, what: str, how: str) -> None:
    place = everybodys / "fetching" if what == "fetching" else kept(everybodys).parent
    kept(everybodys).unlink()
    if how == "a folder":
        os.chown(place, ANOTHER, ANOTHER)
    else:
        place.rmdir()
        (tmp_path / "elsewhere").mkdir()
        link(place, tmp_path / "elsewhere")
    dp = cached(everybodys, Server())
    assert read(dp) == [b"a"]
    assert counts(dp)["uncached"] == 1
    assert os.listdir(place) == []


@as_root
@pytest.mark.parametrize("how", ["itself", "two levels up", "a link two levels up", "group"])
def test_a_folder_in_another_users_where_everybody_can_make_one_is_not_used(tmp_path: Path, how: str) -> None:
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    theirs = everybodys / "theirs"
    (theirs / "a" / "b").mkdir(parents=True)
    os.chown(theirs, ANOTHER, A_GROUP)
    link(everybodys / "link", theirs)
    if how == "group":
        theirs.chmod(0o775)
    folder = {"itself": theirs, "a link two levels up": everybodys / "link" / "a" / "b"}.get(how, theirs / "a" / "b")
    before = os.listdir(folder)
    dp = cached(folder, Server())
    assert read(dp) == [b"a"]
    assert counts(dp)["uncached"] == 1
    assert os.listdir(folder) == before
    (folder / "file").write_text("planted")
    with pytest.raises(PermissionError, match=f"user {ANOTHER}.*everybody may"):
        made(folder / "file")


@as_root
def test_a_folder_of_another_users_elsewhere_is_used(folder: Path) -> None:
    """As in a container, whose root is given the cache of the user who started it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ANOTHER, ANOTHER)
    dp = cached(folder, Server())
    assert read(dp) == [b"a"]
    # What is below the folder of files is that of its owner, and so on up to the directory.
    assert counts(dp) == {"hits": 1, "misses": 0, "uncached": 0}


READ = """
    import io, os, sys, tempfile
    import penstock as ps

    def read(folder, urls):
        dp = ps.iter.IterableWrapper(urls).cache_files(folder, 10**6, lambda url: io.BytesIO(url.encode()))
        assert [stream.read().decode() for _, stream in dp] == urls
        return {name: count for name, count in dp.stats()["cache_files"].items() if count}

    with tempfile.TemporaryDirectory() as elsewhere:
        read(elsewhere, ["a"])  # so that all is imported: another user may not be able to read it
    os.setgroups([int(sys.argv[2])])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    os.umask(0o002)
    print(read(sys.argv[3], sys.argv[4:]))
"""


def read_as(user: int, folder: Path, *urls: str) -> tuple[str, str]:
    """Read files through a cache as another user, and return what was counted, and the warnings."""
    program = [sys.executable, "-c", textwrap.dedent(READ), str(user), str(A_GROUP), str(folder), *urls]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip(), done.stderr


@as_root
def test_a_folder_that_a_group_shares_serves_the_files_of_all_of_it(shared: Path) -> None:
    assert read_as(1001, shared, "a", "b")[0] == "{'misses': 2}"
    assert read_as(1002, shared, "a", "b", "c")[0] == "{'hits': 2, 'misses': 1}"
    assert read_as(1001, shared, "a", "b", "c")[0] == "{'hits': 3}"
    assert {path.stat().st_uid for path in shared.glob("???/*")} == {1001, 1002}


def test_what_is_not_of_a_cache_is_left_alone_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "fetching").mkdir()
    (tmp_path / "fetching" / "thesis.txt").write_text("mine")
    assert read(cached(tmp_path, Server())) == [b"a"]
    assert (tmp_path / "fetching" / "thesis.txt").read_text() == "mine"
    (tmp_path / "total").write_text("the total of all my expenses")
    dp = cached(tmp_path, Server())
    assert read(dp) == [b"a"]
    assert (tmp_path / "total").read_text() == "the total of all my expenses"


@as_root
def test_a_cache_that_may_only_be_read_is_read() -> None:
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        theirs = Path(above) / "cache"
        assert read(cached(theirs, Server())) == [b"a"]
        for path in (theirs, *theirs.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        counted, warnings = read_as(1001, theirs, "a", "b")
    assert counted == "{'hits': 1, 'misses': 1, 'uncached': 1}"
    assert "Permission denied" in warnings


def test_a_directory_that_there_was_not_is_made_for_this_user_alone(folder: Path) -> None:
    for path in (folder, folder / "fetching", kept(folder).parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def made(path: Path) -> list[str]:
    missing = IterableWrapper([str(path)]).on_disk_cache()
    return [*missing.map(lambda name: (name, b"new")).end_caching()]


def test_the_lock_of_a_disk_cache_follows_no_link(tmp_path: Path, mine: Path) -> None:
    (tmp_path / ".penstock-a.lock").symlink_to(mine)
    with pytest.raises(OSError, match=r"symbolic links: '.*/\.penstock-a\.lock'"):
        made(tmp_path / "a")
    assert mine.read_text() == "mine"


@as_root
@pytest.mark.parametrize("what", ["a", "a.torchdata_list"])
def test_a_disk_cache_serves_no_file_of_another_user(tmp_path: Path, what: str) -> None:
    (tmp_path / what).write_text("planted\n")
    os.chown(tmp_path / what, ANOTHER, ANOTHER)
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match=rf"user {ANOTHER}.*/{what}'"):
        made(tmp_path / "a")
    assert (tmp_path / what).read_text() == "planted\n"


@as_root
def test_a_disk_cache_serves_what_the_owner_of_the_folder_prepared(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("prepared")
    for path in (tmp_path / "data", tmp_path / "data" / "a"):
        os.chown(path, ANOTHER, ANOTHER)
    assert made(tmp_path / "data" / "a") == [str(tmp_path / "data" / "a")]
    assert (tmp_path / "data" / "a").read_text() == "prepared"


def test_a_disk_cache_serves_what_ones_own_links_lead_to(tmp_path: Path, mine: Path) -> None:
    (tmp_path / "a").symlink_to(mine)
    assert made(tmp_path / "a") == [str(tmp_path / "a")]
    assert mine.read_text() == "mine"
