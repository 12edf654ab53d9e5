"""The Python that starts programs of tests does what `python` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from programs import kill, process_id, python

SAYS = "import sys; print(__name__, sys.argv[1:], sys.path[0], 'file' * ('__file__' in globals()))"
WITH_WORKERS = """
import penstock as ps
dp = ps.iter.IterableWrapper(range(4)).sharding_filter()
with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
    print(list(loader))
"""


def last_line(text: str) -> str:
    return (text.splitlines() or [""])[-1]


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["-c", SAYS, "a", "b"], ""),
        (["said.py", "a"], ""),
        (["-u", "said.py"], ""),
        (["-m", "said", "a"], ""),
        ([], SAYS),
        (["-"], SAYS),
        (["-c", "import sys; sys.exit(3)"], ""),
        (["-c", "raise ValueError('wrong')"], ""),
        (["-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"], ""),
        (["-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"], ""),
        (["-c", "import atexit; atexit.register(print, 'end')"], ""),
        (["-c", WITH_WORKERS], ""),
    ],
    ids=[
        "code",
        "file",
        "unbuffered",
        "module",
        "standard input",
        "a dash",
        "exit",
        "error",
        "SIGTERM",
        "SIGINT",
        "atexit",
        "workers",
    ],
)
def test_a_program_prints_and_ends_as_with_python(tmp_path: Path, arguments: list[str], stdin: str) -> None:
    (tmp_path / "said.py").write_text(SAYS)
    one, other = (
        subprocess.run(
            [executable, *arguments], input=stdin, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
        )
        for executable in (sys.executable, python())
    )
    assert (other.stdout, last_line(other.stderr)) == (one.stdout, last_line(one.stderr))
    assert other.returncode == one.returncode


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, "stopped"), (signal.SIGTERM, -signal.SIGTERM)])
def test_signals_reach_it(number: int, status: object) -> None:
    code = """
import time
try:
    print("begun", flush=True)
    time.sleep(50)
except KeyboardInterrupt:
    print("stopped")
"""
    with subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(number)
        said, _ = program.communicate(timeout=20)
    assert status == (said.strip() or program.returncode)


@pytest.mark.parametrize("way", ["kill", "kill what was started"])
def test_it_is_killed(way: str) -> None:
    code = "import time; print('begun', flush=True); time.sleep(50)"
    with subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        process = psutil.Process(process_id(program))
        if way == "kill":
            kill(program)
            assert not process.is_running()
        else:
            program.kill()
            process.wait(20)
    assert program.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is sys.executable")
@pytest.mark.parametrize(("options", "environment"), [(["-W", "error"], {}), ([], {"PYTHONHASHSEED": "3"})])
def test_what_python_reads_when_it_starts_is_refused(options: list[str], environment: dict[str, str]) -> None:
    command = [python(), *options, "-c", ""]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert "when it starts: use sys.executable" in done.stderr
