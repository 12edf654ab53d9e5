"""Items from one process to another: small ones along the connection, all others through shared memory.

Pickle protocol 5 separates an item's arrays from the pickle. The sender copies all into a block of shared memory. The
receiver makes arrays and tensors from that memory, and gives the block back when the last of them is gone. A reused
block's pages exist in both processes, so an item costs only one copy.

A block is an anonymous file, mapped by both sides; its descriptor is passed along the socket. It has no name, so
nothing is left behind, whatever dies.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import resource
import socket
import tempfile
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

IN_PICKLE_BELOW = 2048
"""Buffers with fewer bytes are part of the pickle."""
BLOCK_FROM = 32 * 1024
"""Items with fewer bytes travel along the connection."""
_ALIGN = 64


class Parcel(NamedTuple):
    """An item in transit."""

    parts: list[bytes]
    """The buffers and, last, the pickle; empty if they are in a block."""
    sizes: list[int]
    """The size in bytes of each part in the block, one after another."""
    block: int | None = None
    new_block_bytes: int = 0
    """The size of a new block, whose descriptor follows on the connection; else 0."""
    dropped_blocks: tuple[int, ...] = ()


def pickled_apart(item: Any) -> list[memoryview]:
    """Return the buffers of an item's arrays and tensors, and last its pickle. Raises what pickle raises."""
    parts: list[memoryview] = []

    def in_pickle(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes >= IN_PICKLE_BELOW:
            parts.append(view)
        return view.nbytes < IN_PICKLE_BELOW

    target = io.BytesIO()
    _Pickler(target, protocol=5, buffer_callback=in_pickle).dump(item)
    parts.append(target.getbuffer())
    return parts


class Outbox:
    """The sender's side: packs items, and owns up to `max_blocks` blocks; more items go along the connection."""

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._blocks: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._made = 0

    def take_back(self, blocks: list[int]) -> None:
        """Record that the receiver no longer uses these blocks."""
        self._free += blocks

    def pack(self, item: Any) -> tuple[Parcel, int | None]:
        """Return an item as a parcel, and the descriptor of its block if that is new. Raises what pickle raises."""
        parts = pickled_apart(item)
        if len(parts) == 1 and parts[0].nbytes < BLOCK_FROM:
            return Parcel([bytes(parts[0])], []), None
        sizes = [part.nbytes for part in parts]
        needed = sum(map(_aligned, sizes))
        if needed < BLOCK_FROM or (not self._free and len(self._blocks) >= self._max_blocks):
            return Parcel([bytes(part) for part in parts], []), None
        try:
            block, descriptor, dropped = self._block_of(needed)
        except OSError as error:
            warnings.warn(f"without shared memory ({error}), large items travel slowly", RuntimeWarning, stacklevel=2)
            return Parcel([bytes(part) for part in parts], []), None
        memory = memoryview(self._blocks[block])
        offset = 0
        for part, size in zip(parts, sizes, strict=True):
            memory[offset : offset + size] = part
            offset += _aligned(size)
        new_bytes = 0 if descriptor is None else len(self._blocks[block])
        return Parcel([], sizes, block, new_bytes, dropped), descriptor

    def _block_of(self, needed: int) -> tuple[int, int | None, tuple[int, ...]]:
        """Return a free block of enough bytes, or a new one in place of a free one that is too small."""
        fitting = [block for block in self._free if len(self._blocks[block]) >= needed]
        if fitting:
            block = min(fitting, key=lambda b: len(self._blocks[b]))
            self._free.remove(block)
            return block, None, ()
        size = -(-needed * 9 // 8 // mmap.PAGESIZE) * mmap.PAGESIZE  # room for the next item to be a little larger
        descriptor = anonymous_file(size)
        try:
            memory = mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        dropped: tuple[int, ...] = ()
        if self._free:
            dropped = (self._free.pop(0),)
            del self._blocks[dropped[0]]
        block = self._made = self._made + 1
        self._blocks[block] = memory
        return block, descriptor, dropped


class Inbox:
    """The receiver's side: unpacks parcels, and knows which blocks are no longer used."""

    def __init__(self) -> None:
        self._blocks: dict[int, mmap.mmap] = {}
        self._unused: deque[int] = deque()

    def unpack(self, parcel: Parcel, descriptor: int | None) -> Any:
        """Return a parcel's item, with arrays and tensors in the block's memory; close the descriptor."""
        for block in parcel.dropped_blocks:
            del self._blocks[block]
        if parcel.block is None:
            *buffers, pickled = parcel.parts
            return pickle.loads(pickled, buffers=map(bytearray, buffers))  # writable, as the originals were
        if descriptor is not None:
            try:
                self._blocks[parcel.block] = mmap.mmap(descriptor, parcel.new_block_bytes)
            finally:
                os.close(descriptor)
        # All arrays of the item refer to this one, so it goes when the last of them is gone.
        whole = np.frombuffer(self._blocks[parcel.block], np.uint8)
        weakref.finalize(whole, self._unused.append, parcel.block).atexit = False
        memory = memoryview(whole)  # type: ignore[arg-type]
        parts, offset = [], 0
        for size in parcel.sizes:
            parts.append(memory[offset : offset + size])
            offset += _aligned(size)
        return pickle.loads(parts.pop(), buffers=parts)

    def unused_blocks(self) -> list[int]:
        """Return the blocks released since the last call."""
        return [self._unused.popleft() for _ in range(len(self._unused))] if self._unused else []


def blocks_for_each(senders: int) -> int:
    """Return how many blocks each sender may have: each has a descriptor, whose number is limited."""
    may_open, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(min(may_open // 8 // senders, 64), 1)


def send_parcel(connection: Connection, message: bytes, descriptor: int | None) -> None:
    """Send a message with a parcel, then the descriptor of its block, which is closed here."""
    try:
        connection.send_bytes(message)
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    if descriptor is not None:
        send_parcel_descriptor(connection, descriptor)


def send_parcel_descriptor(connection: Connection, descriptor: int) -> None:
    """Pass a descriptor along a connection, and close it here."""
    # On macOS, multiprocessing's send_handle waits for an answer on the connection; commands may come first.
    try:
        with _socket_of(connection) as line:
            socket.send_fds(line, [b"!"], [descriptor])
    finally:
        os.close(descriptor)


def receive_parcel_descriptor(connection: Connection) -> int:
    """Return the descriptor that the other side passed; EOFError if that side is gone."""
    with _socket_of(connection) as line:
        _, descriptors, flags, _ = socket.recv_fds(line, 1, 1)
    if not descriptors:
        if flags & socket.MSG_CTRUNC:
            raise OSError(
                errno.EMFILE,
                "no file descriptors are left, which items in shared memory need: keep fewer items, or "
                "raise `ulimit -n`",
            )
        raise EOFError
    return descriptors[0]


def passes_descriptors(connection: Connection) -> bool:
    """Say whether descriptors can be sent along a connection, since its other end is on this machine."""
    line = socket.socket(fileno=connection.fileno())  # which asks the system for the kind of socket
    try:
        return line.family == socket.AF_UNIX
    finally:
        line.detach()


@contextmanager
def _socket_of(connection: Connection) -> Iterator[socket.socket]:
    """Yield a connection's socket without a new descriptor: none may be left."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=connection.fileno())
    try:
        yield line
    finally:
        line.detach()


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def anonymous_file(size: int) -> int:
    """Return the descriptor of a new file without a name, in memory, or on disk if the platform has no memfd."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("penstock")
        reserve = os.ftruncate
    else:
        descriptor, path = tempfile.mkstemp(prefix="penstock")
        os.unlink(path)
        reserve = _reserve_on_disk
    try:
        reserve(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _reserve_on_disk(descriptor: int, size: int) -> None:
    """Raise OSError if the disk is full; a later write to a mapping of the file would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        for offset in range(0, size, 2**20):
            os.pwrite(descriptor, bytes(min(2**20, size - offset)), offset)


_reducers: dict[type, Callable[[Any], Any]] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
"""Reducers by type: those that programs register with `ForkingPickler.register`, and torch's and Python's own."""


def reducers_of_program() -> dict[type, Callable[[Any], Any]]:
    """Return the reducers that the program registered with `ForkingPickler.register`."""
    return {kind: reduce for kind, reduce in _reducers.items() if _is_of_program(reduce)}


def _is_of_program(reduce: Callable[[Any], Any]) -> bool:
    return not reduce.__module__.startswith(("torch.", "multiprocessing."))


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles tensors and arrays as buffers, slices alone, and notebook classes and functions by value."""

    def reducer_override(self, obj: Any) -> Any:
        reduce = _reducers.get(type(obj))
        if reduce is not None and _is_of_program(reduce):
            return reduce(obj)
        if type(obj) is torch.Tensor and _is_plain_tensor(obj):
            return _reduce_tensor(obj)
        if type(obj) is np.ndarray and not (obj.flags.forc or obj.dtype.hasobject):
            return np.ascontiguousarray(obj).__reduce_ex__(5)
        if type(obj).__module__ == "pyarrow.lib" and _is_arrow_slice(obj):
            return _without_the_rest(obj).__reduce_ex__(5)
        return super().reducer_override(obj)


def _is_arrow_slice(obj: Any) -> bool:
    """Say whether an object is an Arrow array that uses less than half of its buffers: pickle would send all."""
    import pyarrow as pa  # type: ignore[import-untyped]  # loaded already, by whatever made the object

    return isinstance(obj, pa.Array) and 2 * obj.nbytes < obj.get_total_buffer_size()


def _without_the_rest(array: Any) -> Any:
    import pyarrow as pa

    return pa.concat_arrays([array])  # copies only the values


def _is_plain_tensor(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_nested)
        and not vars(tensor)
    )


def _reduce_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    # The dimensions in memory order, so that channels_last stays channels_last.
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    laid_out = tensor.detach().permute(order).contiguous()
    raw = laid_out.reshape(-1).view(torch.uint8).numpy()
    buffer = pickle.PickleBuffer(raw)  # type: ignore[arg-type]
    arguments = (buffer, tensor.dtype, tuple(laid_out.shape), order, tensor.requires_grad)
    return _rebuild_tensor, arguments


def _rebuild_tensor(
    buffer: Any, dtype: torch.dtype, shape: tuple[int, ...], order: list[int], requires_grad: bool
) -> torch.Tensor:
    empty = 0 in shape
    laid_out = torch.empty(shape, dtype=dtype) if empty else torch.frombuffer(buffer, dtype=dtype).view(shape)
    back = [order.index(dimension) for dimension in range(len(order))]
    return laid_out.permute(back).requires_grad_(requires_grad)
