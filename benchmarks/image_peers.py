"""The contestants of `benchmarks.images`: how each library reads the same images on two processes.

Each runs in its own process, so imports are inside the functions. The settings gave the best second epochs of those
tried: reading 2 to 8 batches ahead, batching before or after the workers, 0 to 2 threads per worker, 2 to 6 of SPDL's.
SPDL's own decoder needs the libraries of FFmpeg on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .harness import CACHE, cpu_seconds, python_of_lance, python_of_litdata, python_of_torchdata_09, version_of

if TYPE_CHECKING:
    import numpy as np
    import torch

BATCH, WORKERS, SIDE = 32, 2, 224
SPDL_THREADS = 3

Epoch = Callable[[], Iterable[Any]]
"""Reads all images once, and yields them in batches."""


def read(path: str) -> np.ndarray[Any, Any]:
    """Read, decode, and resize an image to 224 × 224 × 3 bytes."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


Load = Callable[[str], "torch.Tensor"]
"""Reads an image, decodes it and resizes it."""


def load(path: str) -> torch.Tensor:
    import torch

    return torch.from_numpy(read(path))


def load_fast(path: str) -> torch.Tensor:
    return decode_fast(Path(path).read_bytes())


def decode_fast(data: bytes) -> torch.Tensor:
    """The same work by the fastest libraries: the pixels are those of Pillow, or 1 away."""
    import simplejpeg
    import torch

    planes = torch.from_numpy(simplejpeg.decode_jpeg(data)).permute(2, 0, 1)[None]
    return torch.nn.functional.interpolate(planes, (SIDE, SIDE), mode="bilinear", antialias=True)[0]


def load_batch(paths: Sequence[str], load: Load = load) -> torch.Tensor:
    import torch

    return torch.stack([load(path) for path in paths])


def batches_of(paths: Sequence[str]) -> list[Sequence[str]]:
    return [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]


@contextmanager
def hand_loop(paths: Sequence[str], load: Load = load) -> Iterator[Epoch]:
    yield lambda: map(partial(load_batch, load=load), batches_of(paths))


@contextmanager
def two_hand_loops(paths: Sequence[str], load: Load = load) -> Iterator[Epoch]:
    """Two processes with half of the images each, which hand nothing over: the upper limit for two processes."""
    context = get_context("spawn")
    starts, done = [context.SimpleQueue() for _ in range(WORKERS)], context.SimpleQueue()
    loops = [
        context.Process(target=loop_on_demand, args=(paths[number::WORKERS], load, start, done))
        for number, start in enumerate(starts)
    ]
    for loop in loops:
        loop.start()
    for _ in loops:
        done.get()

    def epoch() -> Iterator[Any]:
        for start in starts:
            start.put(True)
        for _ in range(sum(len(batches_of(paths[number::WORKERS])) for number in range(WORKERS))):
            yield range(done.get())

    yield epoch
    for start, loop in zip(starts, loops, strict=True):
        start.put(False)
        loop.join()


def loop_on_demand(paths: Sequence[str], load: Load, start: Any, done: Any) -> None:
    load_batch(paths[:BATCH], load)  # for the imports
    done.put(None)
    while start.get():
        for batch in batches_of(paths):
            done.put(len(load_batch(batch, load)))


@contextmanager
def penstock(paths: Sequence[str], load: Load = load) -> Iterator[Epoch]:
    import penstock as ps

    dp = ps.iter.IterableWrapper(paths).sharding_filter().map(load).batch(BATCH).collate()
    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=WORKERS))
    yield lambda: loader
    loader.shutdown()


@contextmanager
def penstock_read_images(paths: Sequence[str], workers: int = 0) -> Iterator[Epoch]:
    import penstock as ps

    dp = ps.read_images(paths, size=(SIDE, SIDE), workers=workers).map(itemgetter("image")).batch(BATCH).collate()
    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=WORKERS))
    yield lambda: loader
    loader.shutdown()


@contextmanager
def dataloader2(paths: Sequence[str]) -> Iterator[Epoch]:
    from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
    from torchdata.datapipes.iter import IterableWrapper

    dp = IterableWrapper(paths).sharding_filter().map(load).batch(BATCH).collate()
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(num_workers=WORKERS))
    yield lambda: loader
    loader.shutdown()


class Images:
    """A map-style data set for torch's DataLoader."""

    def __init__(self, paths: Sequence[str], load: Load) -> None:
        self.paths = paths
        self.load = load

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.load(self.paths[index])


@contextmanager
def dataloader(paths: Sequence[str], load: Load = load) -> Iterator[Epoch]:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        Images(paths, load), batch_size=BATCH, num_workers=WORKERS, prefetch_factor=4, persistent_workers=True
    )
    yield lambda: loader


@contextmanager
def nodes(paths: Sequence[str]) -> Iterator[Epoch]:
    from torchdata import nodes

    # The workers get whole batches of paths: sending images one by one costs more than twice as much.
    source = nodes.IterableWrapper(batches_of(paths))
    loader = nodes.Loader(nodes.ParallelMapper(source, load_batch, num_workers=WORKERS, method="process"))
    yield lambda: loader


@contextmanager
def grain(paths: Sequence[str]) -> Iterator[Epoch]:
    import torch
    from absl import flags
    from grain import MapDataset, MultiprocessingOptions, ReadOptions

    flags.FLAGS(["benchmarks.images"])  # its workers want absl's flags to be parsed
    dataset = (
        MapDataset.source(paths)
        .map(read)
        .batch(BATCH)
        .to_iter_dataset(ReadOptions(num_threads=0, prefetch_buffer_size=0))
        .mp_prefetch(MultiprocessingOptions(num_workers=WORKERS, per_worker_buffer_size=8))
    )
    yield lambda: map(torch.from_numpy, dataset)


@contextmanager
def spdl(paths: Sequence[str], load: Callable[[Sequence[str]], Any] = load_batch) -> Iterator[Epoch]:
    """Threads of one process, as SPDL intends; decoders release the GIL for most of their work."""
    from spdl.pipeline import PipelineBuilder

    def epoch() -> Iterator[Any]:
        builder = PipelineBuilder().add_source(batches_of(paths))
        builder.pipe(load, concurrency=WORKERS, output_order="input").add_sink(4)
        with (pipeline := builder.build(num_threads=2 * WORKERS)).auto_stop():
            yield from pipeline

    yield epoch


@contextmanager
def spdl_processes(paths: Sequence[str]) -> Iterator[Epoch]:
    from concurrent.futures import ProcessPoolExecutor

    from spdl.pipeline import PipelineBuilder

    with ProcessPoolExecutor(WORKERS, mp_context=get_context("forkserver")) as pool:

        def epoch() -> Iterator[Any]:
            builder = PipelineBuilder().add_source(batches_of(paths))
            builder.pipe(load_batch, executor=pool, concurrency=2 * WORKERS, output_order="input").add_sink(4)
            with (pipeline := builder.build(num_threads=2 * WORKERS)).auto_stop():
                yield from pipeline

        yield epoch


@contextmanager
def spdl_io(paths: Sequence[str]) -> Iterator[Epoch]:
    """SPDL's own decoder, image by image: to load a batch in one call was slower."""
    from spdl import io
    from spdl.pipeline import PipelineBuilder

    def epoch() -> Iterator[Any]:
        builder = PipelineBuilder().add_source(paths)
        builder.pipe(frames_by_spdl, concurrency=SPDL_THREADS, output_order="input").aggregate(BATCH)
        builder.pipe(lambda frames: io.to_torch(io.convert_frames(frames))).add_sink(4)
        with (pipeline := builder.build(num_threads=SPDL_THREADS)).auto_stop():
            yield from pipeline

    yield epoch


def frames_by_spdl(path: str, side: int | None = SIDE) -> Any:
    """FFmpeg's bilinear filter grows with what it makes smaller, as antialias does."""
    from spdl import io

    how = io.get_video_filter_desc(scale_width=side, scale_height=side, scale_algo="bilinear", scale_mode=None)
    return io.decode_packets(io.demux_image(path), filter_desc=how)


@contextmanager
def litdata(paths: Sequence[str]) -> Iterator[Epoch]:
    """LitData's own format, on the disk, with the images' bytes in it."""
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    folder = CACHE / f"images-{len(paths)}.litdata"
    if not folder.exists():
        optimize(read_bytes, paths, str(folder), chunk_bytes="16MB", num_workers=1, verbose=False)
    dataset = StreamingDataset(str(folder), transform=decode_fast)
    loader = StreamingDataLoader(
        dataset, batch_size=BATCH, num_workers=WORKERS, prefetch_factor=4, persistent_workers=True
    )
    yield lambda: loader


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


@contextmanager
def lance(paths: Sequence[str]) -> Iterator[Epoch]:
    """The table of LanceDB, on the disk, with the images' bytes in it."""
    import lance as table
    import pyarrow as pa
    from lance.torch.data import LanceDataset
    from torch.utils.data import DataLoader

    folder = CACHE / f"images-{len(paths)}.lance"
    if not folder.exists():
        images = pa.table({"image": pa.array([read_bytes(path) for path in paths], pa.large_binary())})
        table.write_dataset(images, folder, max_rows_per_file=len(paths) // (4 * WORKERS) + 1)
    dataset = LanceDataset(str(folder), BATCH, to_tensor_fn=decode_column, shard_granularity="batch")
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=WORKERS,
        prefetch_factor=4,
        persistent_workers=True,
        multiprocessing_context="forkserver",
    )
    yield lambda: loader


def decode_column(batch: Any, **_: Any) -> torch.Tensor:
    import torch

    return torch.stack([decode_fast(image.as_py()) for image in batch["image"]])


def load_by(path: str, decoder: str, side: int | None) -> torch.Tensor:
    from penstock.pipes.iter.decode import ImageDecoder

    decode = ImageDecoder("torchrgb8", decoder, None if side is None else (side, side))
    image: torch.Tensor = decode("jpg", read_bytes(path))
    return image


def load_by_pillow(path: str, side: int | None) -> torch.Tensor:
    import numpy as np
    import torch
    from PIL import Image

    return load(path) if side else torch.from_numpy(np.array(Image.open(path).convert("RGB")))


def load_by_spdl(path: str, side: int | None) -> torch.Tensor:
    from spdl import io

    return io.to_torch(io.convert_frames(frames_by_spdl(path, side)))


@dataclass(frozen=True)
class Peer:
    """One contestant: its function, module and package, and the Python that has them."""

    open: Callable[[Sequence[str]], AbstractContextManager[Epoch]]
    module: str
    package: str
    python: Callable[[], str] = lambda: sys.executable


PEERS = {
    "hand loop, one process": Peer(hand_loop, "PIL.Image", "Pillow"),
    "hand loops, two processes at once": Peer(two_hand_loops, "PIL.Image", "Pillow"),
    "penstock DataLoader2": Peer(penstock, "penstock", "penstock"),
    "torch DataLoader": Peer(dataloader, "torch.utils.data", "torch"),
    "torchdata.nodes": Peer(nodes, "torchdata.nodes", "torchdata"),
    "Grain": Peer(grain, "grain", "grain"),
    "SPDL, two threads": Peer(spdl, "spdl.pipeline", "spdl"),
    "SPDL, two processes": Peer(spdl_processes, "spdl.pipeline", "spdl"),
    "torchdata 0.9 DataLoader2": Peer(dataloader2, "torchdata.dataloader2", "torchdata", python_of_torchdata_09),
}
"""Those that decode by Pillow."""

FAST_PEERS = {
    "fast hand loop, one process": Peer(partial(hand_loop, load=load_fast), "simplejpeg", "simplejpeg"),
    "fast hand loops, two at once": Peer(partial(two_hand_loops, load=load_fast), "simplejpeg", "simplejpeg"),
    "penstock read_images": Peer(penstock_read_images, "penstock", "penstock"),
    "penstock read_images, 8 threads": Peer(partial(penstock_read_images, workers=8), "penstock", "penstock"),
    "torch DataLoader, simplejpeg": Peer(partial(dataloader, load=load_fast), "torch.utils.data", "torch"),
    "SPDL, threads, spdl.io": Peer(spdl_io, "spdl.io", "spdl"),
    "SPDL, threads, simplejpeg": Peer(partial(spdl, load=partial(load_batch, load=load_fast)), "spdl.pipeline", "spdl"),
    "LitData, simplejpeg": Peer(litdata, "litdata", "litdata", python_of_litdata),
    "Lance, simplejpeg": Peer(lance, "lance", "pylance", python_of_lance),
}
"""Those that decode by the fastest decoder, or by their own."""


_LOADS: dict[str, tuple[Callable[..., Any], str]] = {
    "Pillow by hand": (load_by_pillow, "Pillow"),
    "penstock, pil": (partial(load_by, decoder="pil"), "Pillow"),
    **{
        f"penstock, {name}": (partial(load_by, decoder=name), name)
        for name in ("simplejpeg", "torchvision", "torchcodec")
    },
    "spdl.io": (load_by_spdl, "spdl"),
}
DECODERS = {
    f"{name}, {to}": Peer(partial(hand_loop, load=partial(load, side=side)), "torch", package)
    for to, side in (("whole", None), (f"to {SIDE} × {SIDE}", SIDE))
    for name, (load, package) in _LOADS.items()
}
"""Decoders, alone in one process."""


ALL = {**PEERS, **FAST_PEERS, **DECODERS}


def measure(name: str, paths: Sequence[str]) -> dict[str, Any]:
    """Read the images twice with one contestant, and return the figures."""
    peer = ALL[name]
    for module in ("torch", "PIL.Image", peer.module):
        import_module(module)
    cpu_before, began = cpu_seconds(), time.perf_counter()
    with peer.open(paths) as epoch:
        batches = iter(epoch())
        first = len(next(batches))
        first_came = time.perf_counter()
        others = sum(map(len, batches))
        cpu_between, ended = cpu_seconds(), time.perf_counter()
        again = sum(map(len, epoch()))
        ended_again, cpu_after = time.perf_counter(), cpu_seconds()
    if not first + others == again == len(paths):
        raise AssertionError(f"{name} gave {first + others} and {again} images of {len(paths)}")
    return {
        "version": version_of(peer.package),
        "first": first_came - began,
        "rate": others / (ended - first_came),
        "rate_again": again / (ended_again - ended),
        "cpu": cpu_after - cpu_before,
        "cpu_again": 1e3 * (cpu_after - cpu_between) / again,
    }
