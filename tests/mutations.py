"""Break the source, and say which of the ways the quick run of the tests catches: the scale of the tests.

python tests/mutations.py                                   twenty ways, each with the files of tests that should fail
python tests/mutations.py --generated 300 --results FILE    a sample of mutants, each with tests that run its lines

Each way is a change of one place in a copy of the package. The results of generated mutants are added to FILE, line by
line; the same command goes on where it was stopped. The first one measures which tests run which lines, and keeps that
beside FILE. `--results FILE --before OTHER` sums up, and lists what OTHER's tests killed and FILE's do not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mutants import ROOMS, Coverage, Mutant, put_in_place, sample

ROOT = Path(__file__).parent.parent

AT_ONCE = 2
"""So many mutants are tried at a time, each in a copy of the package."""

A_TEST, ALL_TESTS = 30, 600
"""Seconds after which a test fails, and after which the tests of a mutant count as failed."""


class Mutation(NamedTuple):
    what: str
    file: str
    before: str
    after: str
    tests: str


MUTATIONS = [
    Mutation(
        "a short batch is not dropped",
        "pipes/iter/group.py",
        "if len(batch) == self.batch_size or not self.drop_last:",
        "if True:",
        "operators/test_batch_and_groupby.py",
    ),
    Mutation(
        "a shuffle takes the first of its buffer",
        "pipes/iter/shuffle.py",
        "slot = int(next(draws) * len(buffer))",
        "slot = 0",
        "operators/test_shuffle.py",
    ),
    Mutation(
        "every epoch has one order",
        "state/seeds.py",
        "path.epoch - self._first_epoch",
        "0 * path.epoch",
        "operators/test_shuffle.py state/test_seeds.py",
    ),
    Mutation(
        "concat reads a source that comes twice as one pass",
        "pipes/iter/combine.py",
        "            self._source_ended(source)\n            self.number += 1",
        "            self.number += 1",
        "operators/test_concat_and_zip.py",
    ),
    Mutation(
        "of a demux, the fullest branch counts, not all",
        "pipes/bases/splitting/splitter.py",
        "return sum(numbers)",
        "return max(numbers, default=0)",
        "operators/test_fork_and_demux.py",
    ),
    Mutation(
        "a branch that goes back misses an item",
        "pipes/bases/splitting/generation.py",
        "queue.miss_from(self.dealt)",
        "queue.miss_from(self.dealt + 1)",
        "state/test_resume_branches.py",
    ),
    Mutation(
        "a part of a stream begins one item late",
        "pipes/iter/shard.py",
        "next_one = parts - 1 if self.given.items else part",
        "next_one = parts if self.given.items else part",
        "operators/test_sharding_filter.py",
    ),
    Mutation(
        "the items of a join are swapped",
        "pipes/iter/join.py",
        "merged((item, buffer.pop(key)[1]))",
        "merged((buffer.pop(key)[1], item))",
        "operators/test_zip_with_iter_and_map.py",
    ),
    Mutation(
        "offsets of packed sequences have no 0",
        "pipes/iter/pack.py",
        "np.cumsum([0, *runs], dtype=np.int32)",
        "np.cumsum([*runs], dtype=np.int32)",
        "operators/test_pack.py",
    ),
    Mutation(
        "one more item is skipped than the limit",
        "errors/policy.py",
        "self.skipped >= skip.limit",
        "self.skipped > skip.limit",
        "errors/test_on_error.py",
    ),
    Mutation(
        "states of older versions are read",
        "state/header.py",
        'state.get("version", VERSION) != VERSION',
        'state.get("version", VERSION) > VERSION',
        "state/test_save_and_load.py",
    ),
    Mutation(
        "a thread reads ahead without a bound",
        "workers/reading.py",
        "        if not self._free.acquire(blocking=False):",
        "        if False:",
        "operators/test_prefetch.py",
    ),
    Mutation(
        "a block of shared memory is used again too soon",
        "workers/transport.py",
        "weakref.finalize(whole, self._unused.append, parcel.block).atexit = False",
        "self._unused.append(parcel.block)",
        "runner/test_transport.py",
    ),
    Mutation(
        "workers hear too late that they may read on",
        "runner/workers/protocol.py",
        "if self._taken >= (self._capacity + 1) // 2:",
        "if self._taken > self._capacity:",
        "runner/test_line.py runner/test_loader.py",
    ),
    Mutation(
        "shards that are ahead take their turn",
        "runner/positions.py",
        "if position.items == fewest]",
        "if position.items >= fewest]",
        "runner/test_loader.py runner/test_resume_anywhere.py",
    ),
    Mutation(
        "ranks end with the shortest, whatever is said",
        "runner/rank_sync.py",
        '(greatest if self._ends == "pad" else least) == _READY',
        "least == _READY",
        "runner/test_ranks.py runner/test_services.py",
    ),
    Mutation(
        "an upload that failed is not taken back",
        "storage/writing.py",
        "        _take_back(file, error)\n        raise\n",
        "        raise\n",
        "storage/test_uploads.py operators/test_write_tar.py operators/test_save_to_disk.py",
    ),
    Mutation(
        "a cache of files grows to twice its bound",
        "storage/local/disk_cache.py",
        "if there <= self._max_bytes and number >= least:",
        "if there <= 2 * self._max_bytes and number >= least:",
        "storage/test_file_cache.py",
    ),
    Mutation(
        "the checksums of Parquet pages are not verified",
        "pipes/columns/formats.py",
        "page_checksum_verification=True",
        "page_checksum_verification=False",
        "operators/test_read_columns.py storage/test_flipped_bits.py",
    ),
    Mutation(
        "nothing is tried again",
        "storage/retrying.py",
        "return Retry(_ATTEMPTS, errors=Transient, then=on_error)",
        "return Retry(1, errors=(), then=on_error)",
        "storage/test_storage_faults.py storage/test_objects.py",
    ),
]


def is_caught(mutation: Mutation, installed: Path) -> bool:
    """Say whether a test of the quick run fails with a mutation of the installed package."""
    file = installed / "penstock" / mutation.file
    whole = file.read_text()
    file.write_text(whole.replace(mutation.before, mutation.after))
    tests = [f"tests/{each}" for each in mutation.tests.split()]
    pytest = Path(sys.executable).with_name("pytest")  # `python -m pytest` would test the tree
    command = [str(pytest), "-q", "-x", "-n", "2", "--part", "quick", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, timeout=600
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(whole)
    assert done.returncode in (0, 1, 2), done.stdout.decode()  # 2: xdist gives up at the first failure
    return done.returncode != 0


def expect_places() -> None:
    """Raise AssertionError for a change whose place is not in the source exactly once."""
    for mutation in MUTATIONS:
        found = (ROOT / mutation.file).read_text().count(mutation.before)
        assert found == 1, f"{mutation.file} has {mutation.before!r} {found} times"


@contextlib.contextmanager
def installed_package() -> Iterator[Path]:
    """Install the package, for the length of the block, into a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, installed = Path(folder, "source"), Path(folder, "installed")
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", "build", "__pycache__", ".*_cache"))
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(installed), str(source)]
        subprocess.run(command, check=True)
        yield installed


def try_named() -> None:
    expect_places()
    with installed_package() as installed:
        caught = [is_caught(mutation, installed) for mutation in MUTATIONS]
    for mutation, is_found in zip(MUTATIONS, caught, strict=True):
        print(f"{'caught' if is_found else 'NOT CAUGHT':<10}  {mutation.what} ({mutation.file})")
    print(f"{sum(caught)} of {len(caught)} caught")


def try_generated(number: int, results: Path) -> None:
    """Try a sample of mutants, a share of them in each of several processes."""
    with installed_package() as installed:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # a mutant's file may be as old as the source
        if not results.with_suffix(".xml").exists():
            measure(installed, results)
        processes = list[subprocess.Popen[bytes]]()
        for share in range(AT_ONCE):
            package = shutil.copytree(installed, installed.with_name(f"copy-{share}"))
            command = [sys.executable, __file__, f"--generated={number}", f"--results={results}", f"--share={share}"]
            processes.append(subprocess.Popen(command, env={**environment, "PYTHONPATH": str(package)}))
        for process in processes:
            process.wait()


def measure(installed: Path, results: Path) -> None:
    """Write beside the results which tests of a quick run run which lines, and how long they take."""
    command = [str(Path(sys.executable).with_name("pytest")), "-q", "-n", "2", "--part", "quick", "--timeout=180"]
    command += [f"--cov={installed / 'penstock'}", "--cov-context=test", "--cov-report="]
    files = {"PYTHONPATH": str(installed), "COVERAGE_FILE": str(results.with_suffix(".coverage"))}
    unfinished = results.with_suffix(".unfinished")
    subprocess.run([*command, f"--junitxml={unfinished}"], cwd=ROOT, env={**os.environ, **files})
    unfinished.replace(results.with_suffix(".xml"))


class Trials:
    """A plug-in of pytest that, in place of the tests, tries mutants, each in a process forked off."""

    def __init__(self, mutants: list[Mutant], coverage: Coverage, package: Path, results: Path) -> None:
        self._mutants, self._coverage, self._package, self._results = mutants, coverage, package, results
        self._failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for mutant in self._mutants:
            by, names = self._coverage.tests(mutant)
            tests = [item for item in session.items if item.nodeid in names]
            caught_by = self.killer(mutant, tests)
            how = "killed" if caught_by else "survived" if tests else "uncovered"
            result = {"key": mutant.key, "how": how, "change": mutant.change, "by": by, "tests": len(tests)}
            with self._results.open("a") as file:
                file.write(json.dumps(result | {"caught_by": caught_by}, ensure_ascii=False) + "\n")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def killer(self, mutant: Mutant, tests: list[pytest.Item]) -> str:
        """Return a test that fails with a mutant, and again, and that passes without it, or nothing."""
        source = self._package / mutant.file
        whole = source.read_text()
        while tests:
            source.write_text(mutant.applied(whole))
            try:
                failed = self.failing(tests, mutant, whole)
                suspects = [test for test in tests if test.nodeid == failed] or tests
                fails_again = failed and self.failing(suspects, mutant, whole)
            finally:
                source.write_text(whole)
            if not failed or (fails_again and not self.failing(suspects)):
                return failed
            tests = [test for test in tests if test not in suspects]  # it fails by chance, or always
        return ""

    def failing(self, tests: list[pytest.Item], mutant: Mutant | None = None, whole: str = "") -> str:
        """Return the first test that fails in a process of its own, or how the process ended, or nothing."""
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder, "said")
            process = os.fork()
            if process == 0:
                os.setsid()
                os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.tempdir = folder
                try:
                    if mutant:
                        put_in_place(mutant, whole, self._package)
                    said.write_text(self._first_failing(tests))
                finally:
                    os._exit(0)
            has_ended = _has_ended(process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)  # and the servers and workers that it leaves behind
            if not has_ended:
                os.waitpid(process, 0)
                return "takes too long"
            return said.read_text() if said.exists() else "ends the process"

    def _first_failing(self, tests: list[pytest.Item]) -> str:
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if self._failed:
                return self._failed[0]
        return ""


def _has_ended(process: int) -> bool:
    """Wait until a process ends, or has had its time; say whether it has ended."""
    end = time.monotonic() + ALL_TESTS
    while time.monotonic() < end:
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


def try_share(number: int, results: Path, share: int) -> None:
    package = Path(os.environ["PYTHONPATH"], "penstock")
    coverage = Coverage(results.with_suffix(".coverage"), results.with_suffix(".xml"))
    known = read(results)
    mutants = [mutant for mutant in sample(package, number)[share::AT_ONCE] if mutant.key not in known]
    options = ["-q", "--part", "quick", f"--timeout={A_TEST}", "--hypothesis-seed=0", "-p", "no:cacheprovider"]
    os.chdir(ROOT)
    pytest.main([*options, "tests"], plugins=[Trials(mutants, coverage, package, results)])


def read(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {result["key"]: result for result in map(json.loads, lines)}


def summarize(results: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Print how many mutants of each room are killed, which are not, and of those which were killed before."""
    for result in sorted(results.values(), key=lambda result: result["how"]):
        if result["how"] != "killed":
            was = before.get(result["key"], result)
            print(result["how"], result["change"], f"(was killed by {was['caught_by']})" if was["caught_by"] else "")
    for room in (*ROOMS, ""):
        hows = Counter(result["how"] for result in results.values() if result["change"].startswith(room))
        counts = "".join(f"{hows[how]:>5} {how}" for how in ("killed", "survived", "uncovered"))
        print(f"{room or 'in all':<10}{counts}{hows['killed'] / max(hows.total(), 1):>8.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generated", type=int, default=0, metavar="N", help="try so many generated mutants")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where the results of these are, as lines of JSON")
    parser.add_argument("--before", type=Path, metavar="OTHER", help="results with other tests, to compare with")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.results:
        try_named()
    elif options.share is not None:
        try_share(options.generated, options.results, options.share)
    else:
        if options.generated:
            try_generated(options.generated, options.results.resolve())
        summarize(read(options.results), read(options.before) if options.before else {})


if __name__ == "__main__":
    main()
