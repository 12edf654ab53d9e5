"""on_disk_cache and end_caching: every file is made once, is whole or not there, and comes out in its place."""

import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

import penstock as ps
from archives import tar_of
from penstock import DataLoader2, MultiProcessingReadingService, Retry, check_operator
from penstock.storage import writing
from penstock.storage.local.locks import FileLock
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


def test_files_are_made_once_and_come_out_in_the_order_of_the_items_whatever_was_there(tmp_path):
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
        (lambda d: d.shuffle().map(Maker()).shuffle(), ["0", "1", "2", "3"]),
        (lambda d: d.prefetch(10).map(Maker()).prefetch(10), ["0", "1", "2", "3"]),
        (lambda d: d.batch(3).map(lambda batch: Maker()(batch[0])), ["0", "1", "2", "3"]),
        (lambda d: d.cycle(2).map(Maker()), ["0", "1", "2", "3"]),
        (lambda d: d.flatmap(lambda item: [Maker()(item), Maker()(item)]), ["0", "1", "2", "3"]),
    ],
    ids=["filter", "shuffle", "prefetch", "batch", "cycle", "twice"],
)
def test_whatever_the_steps_between_do_every_file_is_its_items(tmp_path, steps, expected):
    for _ in range(2):
        dp = cached(tmp_path, range(4), lambda missing, _: steps(missing))
        assert names(dp) == [f"{item}.txt" for item in expected]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {f"{item}.txt": item for item in expected}


def test_an_item_may_have_several_files_which_come_in_the_order_of_filepath_fn(tmp_path):
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


def test_steps_that_make_only_what_is_missing_of_an_item_lose_none_of_its_files(tmp_path):
    (tmp_path / "a").write_text("was there")
    cache = IterableWrapper([0]).on_disk_cache(lambda item: [tmp_path / "a", tmp_path / "b"])
    dp = cache.map(lambda item: (tmp_path / "b", b"")).end_caching()
    assert names(dp) == names(dp) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "was there"


@pytest.mark.parametrize("inner", ["{}/1", "{}-1"], ids=["in a folder of that name", "beside it"])
def test_files_of_other_paths_than_expected_are_listed_and_come_out_from_then_on(tmp_path, inner):
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


def test_what_was_made_in_place_of_a_file_is_forgotten_when_the_file_itself_is_made(tmp_path):
    other = cached(tmp_path, ["a"], lambda missing, path_of: missing.map(lambda item: (path_of("b"), b"")), timeout=1)
    assert names(other) == ["b.txt"]
    (tmp_path / "b.txt").unlink()
    assert names(cached(tmp_path, ["a"])) == names(cached(tmp_path, ["a"])) == ["a.txt"]
    assert below(tmp_path) == ["a.txt"]


def test_items_are_paths_themselves_without_a_filepath_fn(tmp_path):
    dp = IterableWrapper([tmp_path / "deep" / "a"]).on_disk_cache().map(lambda path: (path, b"")).end_caching()
    assert list(dp) == [str(tmp_path / "deep" / "a")]
    assert below(tmp_path) == ["deep/a"]


def test_end_caching_can_have_a_filepath_fn_of_its_own(tmp_path):
    dp = cached(tmp_path, "ab", filepath_fn=lambda item: tmp_path / f"{item}.txt")
    assert names(dp) == ["a.txt", "b.txt"]


def test_five_thousand_items_in_one_pass(tmp_path):
    dp = cached(tmp_path, range(5000), lambda missing, _: missing.shuffle().map(Maker()))
    for _ in range(2):
        assert names(dp) == [f"{item}.txt" for item in range(5000)]


def test_an_endless_source_whose_files_are_all_there_does_not_wait_for_one_that_is_missing(tmp_path):
    dp = cached(tmp_path, IterableWrapper(range(2)).cycle())
    assert names(islice(dp, 5)) == ["0.txt", "1.txt", "0.txt", "1.txt", "0.txt"]


@pytest.mark.parametrize(
    ("mode", "content_of"),
    [
        ("wb", lambda: b"one"),
        ("b", lambda: [b"o", b"ne"]),
        ("wb", lambda: io.BytesIO(b"one")),
        ("wb", lambda: memoryview(b"one")),
        ("w", lambda: "\u00f6ne"),
        ("wt", lambda: ["\u00f6", "ne"]),
        ("t", lambda: io.StringIO("\u00f6ne")),
    ],
)
@pytest.mark.parametrize("skip_read", [False, True])
def test_contents_are_streams_bytes_text_or_pieces_of_these(tmp_path, mode, content_of, skip_read):
    content = content_of()
    options = {"same_filepath_fn": True, "skip_read": skip_read}
    dp = cached(tmp_path, "a", lambda missing, _: missing.map(lambda item: (item, content)), mode, **options)
    assert [Path(path).read_text("utf-8") for path in dp] == ["one" if "b" in mode else "\u00f6ne"]
    assert getattr(content, "closed", True), "a stream is closed once it was read"


# Chains that data sets are made of


class TwoBlocks:
    """A data set that is downloaded, checked, and then unpacked: two blocks, one behind the other."""

    def __init__(self, root, archive):
        self.root, self.archive = root, archive
        self.downloads, self.unpacked = [], []

    def download(self, url):
        self.downloads.append(url)
        return url, io.BytesIO(self.archive)

    def see(self, member):
        self.unpacked.append(member[0])
        return member

    def rows(self, split):
        archive_path, file_path = str(self.root / "data.tgz"), str(self.root / "data" / f"{split}.csv")
        url_dp = IterableWrapper(["https://example.org/data.tgz"])
        cache_dp = url_dp.on_disk_cache(
            filepath_fn=lambda _: archive_path,
            hash_dict={archive_path: hashlib.md5(self.archive).hexdigest()},
            hash_type="md5",
        )
        cache_dp = cache_dp.map(self.download).end_caching(mode="wb", same_filepath_fn=True)
        unpacked_dp = cache_dp.on_disk_cache(filepath_fn=lambda _: file_path)
        unpacked_dp = FileOpener(unpacked_dp, mode="b").load_from_tar().map(self.see)
        unpacked_dp = unpacked_dp.filter(lambda member: member[0].endswith(f"{split}.csv"))
        unpacked_dp = unpacked_dp.end_caching(mode="wb", same_filepath_fn=True)
        return FileOpener(unpacked_dp, encoding="utf-8").map(lambda file: file[1].read())


def test_a_data_set_of_two_blocks_downloads_and_unpacks_each_file_once(tmp_path):
    data = TwoBlocks(tmp_path, tar_of({"x/train.csv": b"1,a\n", "x/test.csv": b"2,b\n"}))
    assert list(data.rows("train")) == ["1,a\n"]
    assert list(data.rows("test")) == ["2,b\n"]
    assert list(data.rows("train")) == ["1,a\n"]
    assert len(data.downloads) == 1
    assert len(data.unpacked) == 4
    assert below(tmp_path) == ["data.tgz", "data/test.csv", "data/train.csv"]


def test_many_files_of_an_archive_become_one(tmp_path):
    archive = tmp_path / "reviews.tar"
    archive.write_bytes(
        tar_of({f"{label}/{n}.txt": f"{label}{n}".encode() for label in ("neg", "pos") for n in range(3)})
    )

    def label_of(member):
        return member[0].split("/")[-2]

    def joined(group):
        return str(tmp_path / label_of(group[0])), b"\n".join(stream.read() for _, stream in group)

    def chain():
        cache = IterableWrapper([str(archive)]).on_disk_cache(lambda _: [tmp_path / "neg", tmp_path / "pos"])
        members = FileOpener(cache, mode="b").load_from_tar()
        return members.batch(3).map(joined).end_caching(mode="wb", skip_read=True)

    assert names(chain()) == names(chain()) == ["neg", "pos"]
    assert (tmp_path / "pos").read_text().split() == ["pos0", "pos1", "pos2"]


def test_blocks_one_inside_the_other_pair_like_brackets(tmp_path):
    maker = Maker()
    outer = IterableWrapper("ab").on_disk_cache(lambda item: tmp_path / f"outer-{item}")
    inner = outer.on_disk_cache(lambda item: tmp_path / f"inner-{item}").map(maker).end_caching(same_filepath_fn=True)
    dp = inner.map(lambda path: (path.replace("inner", "outer"), b"of " + Path(path).read_bytes())).end_caching()
    for _ in range(2):
        assert names(dp) == ["outer-a", "outer-b"]
    assert maker.made == ["a", "b"]
    assert (tmp_path / "outer-b").read_text() == "of b"


def test_a_branch_of_a_fork_can_be_cached_while_the_other_is_read(tmp_path):
    cached_branch, other = IterableWrapper(range(4)).fork(2)
    dp = cached(tmp_path, cached_branch).map(os.path.basename).zip(other)
    for _ in range(2):
        assert list(dp) == [(f"{item}.txt", item) for item in range(4)]


def test_workers_of_a_loader_share_one_folder(tmp_path):
    dp = cached(tmp_path, IterableWrapper(range(20)).sharding_filter())
    with DataLoader2(dp, reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
        for _ in range(2):
            assert names(loader) == [f"{item}.txt" for item in range(20)]
    assert below(tmp_path) == sorted(f"{item}.txt" for item in range(20))


# Resuming


def always_missing(folder, items):
    return cached(folder, items, cache={"extra_check_fn": lambda path: False})


@pytest.mark.parametrize("make", [cached, always_missing])
@pytest.mark.parametrize("fresh", [False, True], ids=["one folder", "a folder for each chain"])
def test_resumes_with_the_same_paths_in_the_same_order_whatever_was_made_meanwhile(tmp_path, make, fresh):
    def chain():
        folder = tmp_path / str(len([*tmp_path.iterdir()]) if fresh else 0)
        folder.mkdir(exist_ok=True)
        return make(folder, IterableWrapper(range(4)).shuffle().set_seed(1)).map(os.path.basename)

    assert_resumes_everywhere(chain)


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


def test_a_state_taken_while_files_come_out_of_a_list_goes_on_where_they_are_not_there_yet(tmp_path):
    def chain(folder):
        def steps(missing, path_of):
            return missing.flatmap(lambda item: [(path_of(f"{item}{part}"), b"") for part in "xyz"])

        return cached(folder, "ab", steps, timeout=1)

    interrupted = chain(tmp_path / "here")
    assert names(islice(interrupted, 4)) == ["ax.txt", "ay.txt", "az.txt", "bx.txt"]
    resumed = chain(tmp_path / "there")
    resumed.load_state_dict(passed_on(interrupted))
    assert names(resumed) == ["by.txt", "bz.txt"]


def test_an_abandoned_pass_closes_the_source(tmp_path):
    closed = []

    def source():
        try:
            yield from range(4)
        finally:
            closed.append(True)

    iterator = iter(cached(tmp_path, IterableWrapper([0]).flatmap(lambda _: source())))
    next(iterator)
    assert closed == []
    iterator.close()
    assert closed == [True]


# Wrong files, and failures


def digests(folder, **contents):
    return {str(folder / f"{name}.txt"): hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def test_a_file_with_the_wrong_digest_is_made_anew(tmp_path):
    (tmp_path / "a.txt").write_text("damaged")
    dp = cached(tmp_path, "ab", cache={"hash_dict": digests(tmp_path, a=b"a", b=b"b")})
    assert [Path(path).read_text() for path in dp] == ["a", "b"]


def test_a_content_with_the_wrong_digest_is_an_error_that_names_both_and_leaves_no_file(tmp_path):
    dp = cached(tmp_path, "ab", cache={"hash_dict": (expected := digests(tmp_path, a=b"a", b=b"other"))})
    iterator = iter(dp)
    next(iterator)
    with pytest.raises(RuntimeError) as caught:
        next(iterator)
    for part in ("b.txt", hashlib.sha256(b"b").hexdigest(), expected[str(tmp_path / "b.txt")]):
        assert part in str(caught.value)
    assert below(tmp_path) == ["a.txt"]


def test_a_content_without_a_digest_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="hash_dict has no digest for '.*b.txt'"):
        list(cached(tmp_path, "ab", cache={"hash_dict": digests(tmp_path, a=b"a")}))
    assert below(tmp_path) == ["a.txt"]


def test_a_file_that_fails_the_extra_check_is_made_anew(tmp_path):
    (tmp_path / "a.txt").write_text("empty")
    dp = cached(tmp_path, "ab", cache={"extra_check_fn": lambda path: Path(path).read_text() != "empty"})
    assert [Path(path).read_text() for path in dp] == ["a", "b"]


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def fill(content, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "_write", fill)
    dp = cached(tmp_path, "ab")
    with pytest.raises(OSError, match="No space left"):
        list(dp)
    assert below(tmp_path) == []
    monkeypatch.undo()
    assert names(dp) == ["a.txt", "b.txt"]


def test_a_stream_that_breaks_leaves_no_half_file_and_is_closed(tmp_path):
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


@pytest.mark.parametrize("content", ["text", [1], io.StringIO("text")])
def test_text_in_a_file_for_bytes_says_so(tmp_path, content):
    with pytest.raises(TypeError) as caught:
        list(cached(tmp_path, "a", lambda missing, _: missing.map(lambda item: (item, content))))
    assert "the file is open for bytes" in "".join(caught.value.__notes__)
    assert below(tmp_path) == []


def test_a_function_that_raises_stop_iteration_between_is_an_error_and_loses_no_item(tmp_path):
    def stop(item):
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(cached(tmp_path, "ab", lambda missing, _: missing.map(stop)))


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


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda d: d.end_caching(), ValueError, "needs one on_disk_cache before it, and there are 0"),
        (lambda d: d.on_disk_cache(str).sharding_filter().end_caching(), ValueError, "do it before on_disk_cache"),
        (
            lambda d: d.on_disk_cache(str).zip(IterableWrapper("a").on_disk_cache()).end_caching(),
            ValueError,
            "there are 2",
        ),
        (lambda d: d.on_disk_cache(5), TypeError, "filepath_fn must be a function"),
        (lambda d: d.on_disk_cache(str, extra_check_fn=5), TypeError, "extra_check_fn must be a function"),
        (lambda d: d.on_disk_cache(str, ["hash"]), TypeError, "hash_dict must map"),
        (lambda d: d.on_disk_cache(str, {}, "md6"), ValueError, "hash_type"),
        (lambda d: d.on_disk_cache(str).end_caching("ab"), ValueError, "mode must be"),
        (lambda d: d.on_disk_cache(str).end_caching(filepath_fn=5), TypeError, "filepath_fn must be a function"),
        (lambda d: d.on_disk_cache(str).end_caching(filepath_fn=str, same_filepath_fn=True), ValueError, "not both"),
        (lambda d: d.on_disk_cache(str).end_caching(timeout=0), ValueError, "timeout must be seconds"),
        (lambda d: list(d.on_disk_cache(str)), RuntimeError, "needs an end_caching()"),
        (lambda d: list(d.on_disk_cache(lambda _: []).end_caching()), ValueError, "returned no path"),
        (lambda d: list(d.on_disk_cache(lambda _: [5]).end_caching()), TypeError, "a path must be"),
        (lambda d: len(d.on_disk_cache(str).end_caching()), TypeError, "len"),
    ],
)
def test_what_cannot_be_cached_is_an_error_that_says_why(build, error, said):
    with pytest.raises(error, match=said):
        build(IterableWrapper(["x/y"]))


def test_the_steps_between_read_alone_say_what_is_missing_after_a_pass_too(tmp_path):
    dp = cached(tmp_path, "a")
    list(dp)
    with pytest.raises(RuntimeError, match=r"needs an end_caching\(\)"):
        list(dp.source)


def test_an_item_between_that_is_no_pair_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="pairs of a path and a content, and got 'a'"):
        list(cached(tmp_path, "a", lambda missing, _: missing))


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
    processes = [start(200, "wait") for _ in range(4)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    expected = [f"{item}" for item in range(200)]
    assert [process.communicate(timeout=30)[0].split() for process in processes] == [expected] * 4
    assert sorted((tmp_path / "log").read_text().split(), key=int) == expected
    assert below(tmp_path / "made") == sorted(expected)
    assert all((tmp_path / "made" / item).read_text() == item * 1000 for item in expected)


def test_after_kill_9_in_the_middle_of_a_write_the_next_goes_on_at_once_and_serves_no_half_file(tmp_path, start):
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


def test_who_waits_when_the_owner_is_killed_goes_on(tmp_path, start):
    killed = start(1, "hang")
    assert killed.stdout.readline() == "writing\n"

    class Waiting(threading.Event):
        def wait(self, timeout=None):
            killed.kill()
            killed.wait(20)
            return False

    with FileLock(str(tmp_path / "made" / ".penstock-0.lock"), 20, Waiting()) as lock:
        assert lock.left_behind


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


def test_a_long_name_has_a_shorter_lock(tmp_path):
    name = "n" * 240
    path = str(tmp_path / name)
    dp = IterableWrapper([name]).on_disk_cache(lambda item: path).map(lambda item: (path, b"one")).end_caching("wb")
    assert names(dp) == [name]
    assert below(tmp_path) == [name]


def test_a_folder_that_somebody_made_is_served(tmp_path):
    (tmp_path / "a.txt").mkdir()
    assert names(cached(tmp_path, ["a"])) == ["a.txt"]


def test_an_owner_that_lives_is_waited_for_no_longer_than_the_timeout_and_named(tmp_path, start):
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


def test_states_hold_no_contents_and_are_plain(tmp_path):
    dp = cached(tmp_path, range(4))
    iterator = iter(dp)
    next(iterator)
    state = json.dumps(dp.state_dict())
    assert str(tmp_path) not in state


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
