"""Break the source in twenty ways, and say which of them the quick run of the tests catches.

python tests/mutations.py

Each way is a change of one place in a copy of the package. Of the quick run, the files named with it are run: where one
of their tests fails, the quick run fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


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
        "merged((item, held.pop(key)[1]))",
        "merged((held.pop(key)[1], item))",
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
        "                if not self._room.acquire(blocking=False):",
        "                if False:",
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


def main() -> None:
    expect_places()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "source")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "build", "__pycache__", ".*_cache"))
        installed = Path(folder, "installed")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(installed), str(copy)],
            check=True,
        )
        caught = [is_caught(mutation, installed) for mutation in MUTATIONS]
    for mutation, is_found in zip(MUTATIONS, caught, strict=True):
        print(f"{'caught' if is_found else 'NOT CAUGHT':<10}  {mutation.what} ({mutation.file})")
    print(f"{sum(caught)} of {len(caught)} caught")


if __name__ == "__main__":
    main()
