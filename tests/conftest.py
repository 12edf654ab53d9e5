"""Fixtures that several files of tests use."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import hypothesis
import pytest
import torch
from slow import FILE as SLOW

import videos
from fault_proxy import FaultProxy, passing_on
from http_server import serving_http
from penstock import IterDataPipe, MapDataPipe
from penstock.registry import operators
from s3 import S3Server, serving_s3
from terminal import Terminal

# A shell that runs the tests in the background lets them ignore Ctrl-C, and all that they start with them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Ray's workers give way to all other processes: beside other tests they would hardly run.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so)

# Other libraries import torchvision where it is installed, so that all processes must be able to.
IN_EACH_PROCESS = str(Path(__file__).with_name("in_each_process"))
sys.path.append(IN_EACH_PROCESS)
import_module("declare_torchvision")
os.environ["PYTHONPATH"] = os.pathsep.join([IN_EACH_PROCESS, *filter(None, [os.environ.get("PYTHONPATH")])])


_register_at_fork = os.register_at_fork


def _register_but_for_lance(**hooks: Any) -> None:
    """Leave out lance's warning at each fork of a process that has imported it: other tests fork."""
    if not any(getattr(hook, "__module__", None) == "lance" for hook in hooks.values()):
        _register_at_fork(**hooks)


os.register_at_fork = _register_but_for_lance

# How long an example takes depends on the machine; the timeout of a test bounds them all.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

MANY_PROCESSES = {"cluster", "test_trainers.py", "test_ranks_anywhere.py"}
"""Folders and files whose tests start several processes that import torch: two of them at a time starve each other."""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what tests with the decorator `writing_to_terminal` write their errors to; bars are updated often."""
    monkeypatch.setattr("penstock.pipes.bases.progress_bar._BETWEEN_LOOKS", 0.002)
    return Terminal()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        choices=["quick", "rest", "all"],
        help="quick: a sample; rest: what that leaves out; all: both, as where files or tests are selected",
    )
    parser.addoption("--share", default="0/1", metavar="K/N", help="of the rest, the tests of share K of N, from 0 on")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.part is None:  # in a worker of xdist it says what the main process has found
        selects = config.option.keyword or config.option.markexpr or getattr(config.option, "lf", False)
        all_files = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not selects
        config.option.part = "quick" if all_files else "all"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker of xdist run all tests of many processes, one after the other; it begins with them.

    Marks for `--dist=loadgroup` would do the same, and have no effect in pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = PurePath(nodeid.partition("::")[0])
            return nodeid if MANY_PROCESSES.isdisjoint((path.name, path.parent.name)) else "many processes"

    return Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other part, and skip those of videos where there is nothing to decode them."""
    for item in items if videos.LACKING else ():
        if re.search(r"read_videos|VideoReader|pipes\.sources\.files", item.nodeid):
            item.add_marker(pytest.mark.skip(reason=videos.LACKING))
    if config.option.part == "all":
        return
    quick = _quick(items)
    share, of = map(int, config.option.share.split("/"))

    def is_wanted(item: pytest.Item) -> bool:
        if config.option.part == "quick":
            return item.nodeid in quick
        return item.nodeid not in quick and zlib.crc32(item.nodeid.encode()) % of == share

    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = filter(is_wanted, items)


def pytest_collection_finish() -> None:
    """Let the collector pass over all modules and tests, which stay: many tests call it, and it took 0.4 s."""
    gc.collect()
    gc.freeze()


def _quick(items: list[pytest.Item]) -> set[str]:
    """Return the tests of the quick run: all but the slow ones, of which it takes some cases, always the same."""
    slow: dict[str, int] = json.loads(SLOW.read_text())
    cases: dict[str, list[str]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    quick = set[str]()
    for test, of_test in cases.items():
        quick.update(sorted(of_test, key=lambda case: zlib.crc32(case.encode()))[: slow.get(test, len(of_test))])
    return quick


@pytest.fixture(autouse=True)
def no_process_group_outlives_a_test() -> Iterator[None]:
    """A loader of torch's, say, asks a group that is there for a seed, whoever made it."""
    yield
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def _registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(operators, "_entries", {**operators})
    before = {base: set(vars(base)) for base in (IterDataPipe, MapDataPipe)}
    yield
    for base, names in before.items():
        for name in set(vars(base)) - names:
            delattr(base, name)


@pytest.fixture(scope="session")
def web_process() -> Iterator[str]:
    """The web server of this run of the tests; a test that is to reach it asks for `web`."""
    with serving_http() as url:
        yield url


@pytest.fixture
def web(web_process: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a web server, which is reached without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return web_process


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The S3 server of this run of the tests; a test that is to reach it asks for `s3_server`."""
    with serving_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_server(s3_process: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """An S3 server that the environment leads to: `AWS_ENDPOINT_URL` and credentials."""
    import s3fs

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_process.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_process.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_process.secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()  # it may hold one that was made with another environment
    yield s3_process
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def fault_process(s3_process: S3Server) -> Iterator[FaultProxy]:
    """The proxy before the S3 server of this run of the tests; a test that is to reach it asks for `fault_proxy`."""
    with passing_on(s3_process.endpoint) as proxy:
        yield proxy


@pytest.fixture
def fault_proxy(
    s3_server: S3Server, fault_process: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultProxy]:
    """A proxy before the S3 server, to which the environment leads; it plays no faults until it is told to."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", fault_process.endpoint)
    fault_process.play()
    yield fault_process
    fault_process.accept()


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """Ray on this machine, with four logical CPUs.

    A trainer of Ray Train leaves its own handler of Ctrl-C behind, which would call Ray in later tests.
    """
    on_control_c = signal.getsignal(signal.SIGINT)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    options: dict[str, Any] = {"include_dashboard": False, "logging_level": "ERROR"}
    ray.init("local", num_cpus=4, object_store_memory=256 * 2**20, **options)  # and not another test's
    yield
    ray.shutdown()
    signal.signal(signal.SIGINT, on_control_c)
