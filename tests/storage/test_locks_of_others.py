"""A lock that a killed process of another user left in a shared folder: taken over, waited for, or told."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

A_GROUP, ANOTHER, AN_OWNER = 54321, 12345, 12346

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user"),
]

TAKE = """
    import os, sys, threading
    from penstock.storage.local.locks import FileLock

    group, user, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.setgroups([group])
    os.setgid(user)
    os.setuid(user)
    os.umask(0o002)
    try:
        with FileLock(path, 0.2, threading.Event()) as lock:
            print("taken", lock.left_behind)
    except OSError as error:
        print(type(error).__name__, error)
"""


@pytest.fixture
def lock() -> Iterator[Path]:
    """A lock of another user in a folder that a group shares; those above pytest's own are for nobody else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ".penstock-a.lock")
        path.write_text("process 7 on a-host")
        path.chmod(0o664)
        os.chown(path, AN_OWNER, A_GROUP)
        os.chown(folder, 0, A_GROUP)
        os.chmod(folder, 0o2770)
        yield path


def take(lock: Path) -> str:
    """Take a lock as another user of the group, and return what came of it."""
    program = [sys.executable, "-c", textwrap.dedent(TAKE), str(A_GROUP), str(ANOTHER), str(lock)]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=50).stdout


def test_it_is_taken_over(lock: Path) -> None:
    assert take(lock) == "taken True\n"
    assert not lock.exists()


def test_it_is_waited_for_while_its_owner_lives(lock: Path) -> None:
    with open(lock) as owned:
        fcntl.flock(owned, fcntl.LOCK_EX)
        assert f"TimeoutError '{lock}' is held by process 7 on a-host" in take(lock)
    assert lock.exists()
