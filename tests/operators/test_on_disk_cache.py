"""on_disk_cache and end_caching: every file is made once, is whole or not there, and comes out in its place."""

import hashlib
import io
import itertools
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
import torch

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService, Retry, check_operator
from resuming import assert_resumes_everywhere, passed_on

FileOpener, IterableWrapper = ps.iter.FileOpener, ps.iter.IterableWrapper

pytestmark = pytest.mark.timeout(40)


class Maker:
    """Makes contents, and knows of which items."""

    def __init__(self):
        self.made = []

    def __call__(self, item):
        self.made.append(item)
        return item, str(item).encode()


def cached(folder, items, steps=None, mode="wb", cache=(), **options):
    """A chain that makes a file in the folder for each item, by the steps between, and the path it makes of an item."""

    def path_of(item):
        return os.path.join(folder, f"{item}.txt")

    options = options or {"same_filepath_fn": True}
    source = items if isinstance(items, ps.IterDataPipe) else IterableWrapper(items)
    missing = source.on_disk_cache(path_of, **dict(cache))
    made = missing.map(Maker()) if steps is None else steps(missing, path_of)
    return made.end_caching(mode, **options)


def names(paths):
    return [os.path.basename(path) for path in paths]


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


# What comes out, and in which order


def test_files_are_made_once_and_come_out_in_order(tmp_path):
    (tmp_path / "2.txt").write_text("was there")
    maker = Maker()
    dp = cached(tmp_path, range(4), lambda missing, _: missing.map(maker))
    for _ in range(2):
        assert names(dp) == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert maker.made == [0, 1, 3]
    assert (tmp_path / "2.txt").read_text() == "was there"
    assert below(tmp_path) == ["0.txt", "1.txt", "2.txt", "3.txt"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (lambda d: d.filter(lambda item: item % 2 == 1).map(Maker()), ["1", "3"]),
        (lambda d: d.shuffle().map(Maker()).prefetch(10), ["0", "1", "2", "3"]),
        (lambda d: d.batch(3).map(lambda batch: Maker()(batch[0])), ["0", "1", "2", "3"]),
        (lambda d: d.flatmap(lambda item: [Maker()(item), Maker()(item)]), ["0", "1", "2", "3"]),
    ],
    ids=["filter", "shuffle", "batch", "twice"],
)
def test_whatever_the_steps_between_do_every_file_is_its_items(tmp_path, steps, expected):
    for _ in range(2):
        dp = cached(tmp_path, range(4), lambda missing, _: steps(missing))
        assert names(dp) == [f"{item}.txt" for item in expected]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {f"{item}.txt": item for item in expected}


def test_files_of_an_item_come_in_the_order_of_filepath_fn(tmp_path):
    def paths_of(item):
        yield tmp_path / f"{item}-a"
        yield tmp_path / f"{item}-b"

    maker = Maker()

    def both(item):
        maker(item)
        return [(tmp_path / f"{item}-{part}", [part.encode()]) for part in "ba"]

    dp = IterableWrapper(range(2)).on_disk_cache(paths_of).flatmap(both).end_caching()
    assert names(dp) == ["0-a", "0-b", "1-a", "1-b"]
    (tmp_path / "1-b").unlink()
    assert names(dp) == ["0-a", "0-b", "1-a", "1-b"]
    assert maker.made == [0, 1, 1]
    assert (tmp_path / "1-b").read_bytes() == b"b"


def test_an_item_keeps_files_that_were_not_made_again(tmp_path):
    (tmp_path / "a").write_text("was there")
    cache = IterableWrapper([0]).on_disk_cache(lambda item: [tmp_path / "a", tmp_path / "b"])
    dp = cache.map(lambda item: (tmp_path / "b", b"")).end_caching()
    assert names(dp) == names(dp) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "was there"


@pytest.mark.parametrize("inner", ["{}/1", "{}-1"], ids=["in a folder of that name", "beside it"])
def test_files_of_unexpected_paths_are_listed(tmp_path, inner):
    maker = Maker()

    def parts(item):
        path, content = maker(item)
        first = str(tmp_path / inner.format(path))
        return [(first, content), (first + "0", content)]

    def chain():
        return IterableWrapper("ab").on_disk_cache(lambda item: f"{tmp_path}/{item}/").flatmap(parts).end_caching()

    expected = [str(tmp_path / inner.format(item)) + more for item in "ab" for more in ("", "0")]
    assert list(chain()) == list(chain()) == expected
    assert maker.made == ["a", "b"]
    listed = (tmp_path / "a.torchdata_list").read_text()
    assert listed.splitlines() == expected[:2], "as torchdata wrote them"
    os.remove(expected[1])
    assert list(chain()) == expected
    assert maker.made == ["a", "b", "a"]


def test_a_file_that_is_made_replaces_its_list(tmp_path):
    other = cached(tmp_path, ["a"], lambda missing, path_of: missing.map(lambda item: (path_of("b"), b"")), timeout=1)
    assert names(other) == ["b.txt"]
    (tmp_path / "b.txt").unlink()
    assert names(cached(tmp_path, ["a"])) == names(cached(tmp_path, ["a"])) == ["a.txt"]
    assert below(tmp_path) == ["a.txt"]


def test_an_endless_source_waits_for_no_missing_file(tmp_path):
    dp = cached(tmp_path, IterableWrapper(range(2)).cycle())
    assert names(islice(dp, 5)) == ["0.txt", "1.txt", "0.txt", "1.txt", "0.txt"]


@pytest.mark.parametrize(
    ("mode", "content_of"),
    [
        ("b", lambda: [b"o", b"ne"]),
        ("wb", lambda: io.BytesIO(b"one")),
        ("wb", lambda: memoryview(b"one")),
        ("wt", lambda: ["\u00f6", "ne"]),
        ("t", lambda: io.StringIO("\u00f6ne")),
    ],
)
@pytest.mark.parametrize("skip_read", [False, True])
def test_contents_are_streams_bytes_text_or_pieces(tmp_path, mode, content_of, skip_read):
    content = content_of()
    options = {"same_filepath_fn": True, "skip_read": skip_read}
    dp = cached(tmp_path, "a", lambda missing, _: missing.map(lambda item: (item, content)), mode, **options)
    assert [Path(path).read_text("utf-8") for path in dp] == ["one" if "b" in mode else "\u00f6ne"]
    assert getattr(content, "closed", True), "a stream is closed once it was read"


# Chains that data sets are made of


def test_blocks_one_inside_the_other_pair_like_brackets(tmp_path):
    maker = Maker()
    outer = IterableWrapper("ab").on_disk_cache(lambda item: tmp_path / f"outer-{item}")
    inner = outer.on_disk_cache(lambda item: tmp_path / f"inner-{item}").map(maker).end_caching(same_filepath_fn=True)
    dp = inner.map(lambda path: (path.replace("inner", "outer"), b"of " + Path(path).read_bytes())).end_caching()
    for _ in range(2):
        assert names(dp) == ["outer-a", "outer-b"]
    assert maker.made == ["a", "b"]
    assert (tmp_path / "outer-b").read_text() == "of b"


# Resuming


def always_missing(folder, items):
    return cached(folder, items, cache={"extra_check_fn": lambda path: False})


def test_resumes_among_the_files_of_one_item(tmp_path):
    def steps(missing, path_of):
        return missing.flatmap(lambda item: [(path_of(f"{item}-{part}"), b"") for part in range(item % 3)])

    folders = itertools.count()
    assert_resumes_everywhere(
        lambda: cached(tmp_path / str(next(folders)), range(4), steps, timeout=300).map(os.path.basename)
    )


@pytest.mark.parametrize("make", [cached, always_missing])
def test_the_laws_hold_where_files_are_missing_too(tmp_path, make):
    check_operator(lambda: make(tmp_path, range(3)))


def test_resumes_in_a_list_of_files_elsewhere(tmp_path):
    def chain(folder):
        def steps(missing, path_of):
            return missing.flatmap(lambda item: [(path_of(f"{item}{part}"), b"") for part in "xyz"])

        return cached(folder, "ab", steps, timeout=1)

    interrupted = chain(tmp_path / "here")
    assert names(islice(interrupted, 4)) == ["ax.txt", "ay.txt", "az.txt", "bx.txt"]
    resumed = chain(tmp_path / "there")
    resumed.load_state_dict(passed_on(interrupted))
    assert names(resumed) == ["by.txt", "bz.txt"]


# Wrong files, and failures


def digests(folder, **contents):
    return {str(folder / f"{name}.txt"): hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def test_files_that_fail_a_check_are_made_anew(tmp_path):
    for cache in (
        {"hash_dict": digests(tmp_path, a=b"a", b=b"b")},
        {"extra_check_fn": lambda path: Path(path).read_text() != "damaged"},
    ):
        (tmp_path / "a.txt").write_text("damaged")
        assert [Path(path).read_text() for path in cached(tmp_path, "ab", cache=cache)] == ["a", "b"]
        (tmp_path / "b.txt").unlink()


def test_wrong_digests_and_items_are_errors(tmp_path):
    dp = cached(tmp_path, "ab", cache={"hash_dict": (expected := digests(tmp_path, a=b"a", b=b"other"))})
    iterator = iter(dp)
    next(iterator)
    with pytest.raises(RuntimeError) as caught:
        next(iterator)
    for part in ("b.txt", hashlib.sha256(b"b").hexdigest(), expected[str(tmp_path / "b.txt")]):
        assert part in str(caught.value)
    with pytest.raises(RuntimeError, match="hash_dict has no digest for '.*b.txt'"):
        list(cached(tmp_path, "ab", cache={"hash_dict": digests(tmp_path, a=b"a")}))
    with pytest.raises(TypeError, match="pairs of a path and a content, and got 'b'"):
        list(cached(tmp_path, "ab", lambda missing, _: missing))
    assert below(tmp_path) == ["a.txt"]


def test_a_stream_that_breaks_leaves_no_half_file(tmp_path):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise ConnectionResetError("the other side is gone")
            return super().read(2)

    stream = Broken(b"content")
    with pytest.raises(ConnectionResetError) as caught:
        list(cached(tmp_path, "a", lambda missing, _: missing.map(lambda item: (item, stream))))
    assert "raised in EndOnDiskCacheHolder" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].endswith("on 'a'")
    assert stream.closed
    assert below(tmp_path) == []


@pytest.mark.parametrize("content", ["text", io.StringIO("text")])
def test_text_in_a_file_for_bytes_says_so(tmp_path, content):
    with pytest.raises(TypeError) as caught:
        list(cached(tmp_path, "a", lambda missing, _: missing.map(lambda item: (item, content))))
    assert "the file is open for bytes" in "".join(caught.value.__notes__)
    assert below(tmp_path) == []


def failing(attempts, times):
    def fail(item):
        attempts.append(item)
        if item == 1 and attempts.count(1) <= times:
            raise ConnectionError("try again")
        return item

    return fail


@pytest.mark.parametrize("where", ["filepath_fn", "extra_check_fn", "between", "end"])
def test_on_error_is_for_all_that_makes_an_items_files(tmp_path, where):
    fail = failing([], 100)

    def step(name):
        return (lambda item: fail(int(Path(str(item)).stem)) is not None) if name == where else (lambda item: True)

    def chain(on_error):
        def path_of(item):
            assert step("filepath_fn")(item)
            return tmp_path / f"{item}.txt"

        def end_path(item):
            assert step("end")(item)
            return tmp_path / f"{item}.txt"

        cache = IterableWrapper(range(3)).on_disk_cache(path_of, extra_check_fn=step("extra_check_fn"))
        made = cache.filter(step("between")).map(lambda item: (item, b""))
        return made.end_caching(filepath_fn=end_path, on_error=on_error)

    if where == "extra_check_fn":
        (tmp_path / "1.txt").write_text("")
    with pytest.raises(ConnectionError):
        list(chain("raise"))
    dp = chain("skip")
    assert names(dp) == ["0.txt", "2.txt"]
    assert dp.stats()["end_caching"]["skipped"] == 1


def test_retry_runs_the_steps_between_again(tmp_path):
    attempts = []
    steps = lambda missing, _: missing.map(failing(attempts, 2)).map(Maker())  # noqa: E731
    dp = cached(tmp_path, range(3), steps, same_filepath_fn=True, on_error=Retry(3, backoff=0))
    assert names(dp) == ["0.txt", "1.txt", "2.txt"]
    assert attempts == [0, 1, 1, 1, 2]
    assert dp.stats()["end_caching"]["retried"] == 2


# Several processes

PROGRAM = """
import os, sys, time
import penstock as ps

folder, count, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def make(item):
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(f"{item}\\n")
    if what == "hang":
        return item, hanging()
    return item, str(item).encode() * 1000

def hanging():
    yield b"half a file" * 100000
    print("writing", flush=True)
    time.sleep(60)

dp = ps.iter.IterableWrapper(range(count)).on_disk_cache(lambda item: os.path.join(folder, "made", f"{item}"))
if what == "folder":
    def parts(item):
        path = os.path.join(folder, "made", f"{item}")
        yield os.path.join(path, "first"), b"whole"
        yield os.path.join(path, "second"), hanging()
    dp = dp.flatmap(parts).end_caching()
else:
    dp = dp.map(make).end_caching(same_filepath_fn=True)
if what == "wait":
    input()
print(*(os.path.basename(path) for path in dp))
"""


@pytest.fixture
def start(tmp_path):
    """Start a process that makes so many files in the folder."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    with ExitStack() as running:

        def begin(count, what="make"):
            process = subprocess.Popen(
                [sys.executable, str(program), str(tmp_path), str(count), what],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.callback(process.communicate)
            running.callback(process.kill)
            return process

        yield begin


def test_four_processes_on_one_folder_make_each_file_once(tmp_path, start):
    processes = [start(60, "wait") for _ in range(4)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    expected = [f"{item}" for item in range(60)]
    assert [process.communicate(timeout=30)[0].split() for process in processes] == [expected] * 4
    assert sorted((tmp_path / "log").read_text().split(), key=int) == expected
    assert below(tmp_path / "made") == sorted(expected)
    assert all((tmp_path / "made" / item).read_text() == item * 1000 for item in expected)


def test_after_kill_9_in_a_write_the_next_goes_on(tmp_path, start):
    killed = start(3, "hang")
    assert killed.stdout.readline() == "writing\n"
    waiting = start(3)
    half = below(tmp_path / "made")
    assert half[0] == ".penstock-0.lock"
    assert [name.rpartition(".")[2] for name in half] == ["lock", "partial"]
    assert list(ps.iter.FileLister(str(tmp_path / "made"), masks=["*", "*.lock"])) == []
    killed.kill()
    killed.wait(20)
    assert waiting.communicate(timeout=20)[0].split() == ["0", "1", "2"]
    assert below(tmp_path / "made") == ["0", "1", "2"]
    assert (tmp_path / "made" / "0").read_text() == "0" * 1000


def test_a_folder_that_a_killed_process_had_half_made_is_not_served(tmp_path, start):
    killed = start(1, "folder")
    assert killed.stdout.readline() == "writing\n"
    killed.kill()
    killed.wait(20)
    made = tmp_path / "made"
    assert (made / "0" / "first").exists()

    def parts(item):
        return [(made / "0" / name, b"whole") for name in ("first", "second")]

    dp = IterableWrapper(["0"]).on_disk_cache(lambda item: made / item).flatmap(parts).end_caching()
    assert names(dp) == ["first", "second"]
    assert below(made) == ["0.torchdata_list", "0/first", "0/second"]


def test_a_folder_that_somebody_made_is_served(tmp_path):
    (tmp_path / "a.txt").mkdir()
    assert names(cached(tmp_path, ["a"])) == ["a.txt"]


def test_an_owner_that_lives_is_waited_for_until_the_timeout(tmp_path, start):
    owner = start(1, "hang")
    assert owner.stdout.readline() == "writing\n"
    dp = IterableWrapper(["0"]).on_disk_cache(lambda item: tmp_path / "made" / item)
    with pytest.raises(
        TimeoutError,
        match=rf"made/.penstock-0.lock' is held by process {owner.pid} on \S+, which has not .* 0.2 s",
    ):
        list(dp.map(Maker()).end_caching(same_filepath_fn=True, timeout=0.2))


def test_waiting_for_an_owner_ends_when_the_pass_is_given_up(tmp_path, start):
    owner = start(1, "hang")
    assert owner.stdout.readline() == "writing\n"
    dp = IterableWrapper(["there", "0"]).on_disk_cache(lambda item: tmp_path / "made" / item)
    (tmp_path / "made" / "there").write_text("")
    iterator = iter(dp.map(Maker()).end_caching(same_filepath_fn=True).prefetch())
    assert os.path.basename(next(iterator)) == "there"
    iterator.close()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("penstock")] == []


@pytest.mark.parametrize("length", [239, 245, 255])
def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("a" * length)
    for _ in range(2):
        dp = IterableWrapper([str(path)]).on_disk_cache()
        assert list(dp.map(lambda name: (name, b"new")).end_caching()) == [str(path)]
    assert path.read_bytes() == b"new"


def test_shards_in_one_process_read_caches_of_their_own(tmp_path: Path) -> None:
    missing = IterableWrapper("abcde").on_disk_cache(lambda name: str(tmp_path / name))
    dp = missing.map(lambda name: (name, b"")).end_caching(same_filepath_fn=True).sharding_filter()
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(0, num_shards=3)) as loader:
        assert [os.path.basename(path) for path in loader] == [*"abcde"]


def _divided_at(place, folder):
    items = IterableWrapper(range(12))
    once = cached(f"{folder}/once", items.sharding_filter() if place == "before" else items)
    numbers = once.map(os.path.basename).map(lambda name: int(name.removesuffix(".txt")))
    twice = cached(f"{folder}/twice", numbers.sharding_filter() if place == "between" else numbers)
    return twice.sharding_filter() if place == "after" else twice


@pytest.mark.parametrize("read", [ps.DataLoader2, torch.utils.data.DataLoader])
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_readers_share_the_items_of_caches(place, read, tmp_path):
    dp = _divided_at(place, tmp_path)
    options = {"batch_size": None, "num_workers": 2}
    if read is DataLoader2:
        options = {"reading_service": MultiProcessingReadingService(2)}
    found = [*read(dp, **options)]
    assert sorted(names(found)) == sorted(f"{number}.txt" for number in range(12))
    assert len(below(tmp_path)) == 24
