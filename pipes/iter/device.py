"""Move batches to a device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory as _untyped_pin

from ...registry import IterDataPipe, T, functional_datapipe, own
from ..bases.one_to_one import SameItems

_pin: Callable[[Any, Any], Any] = _untyped_pin


def pin_memory_fn(data: T, device: str | torch.device | None = None) -> T:
    """Return data with its tensors in pinned memory; without an accelerator, return it unchanged."""
    return _pin(data, device) if torch.accelerator.is_available() else data


_WITH_STREAMS = ("cuda", "xpu")
"""The accelerators with streams that `Tensor.record_stream` can record."""


@functional_datapipe("pin_memory")
class PinMemory(SameItems[T]):
    """Yield the items with their tensors copied into pinned memory, from which copies to a device are faster.

    The rules are those of torch: tensors in dicts, lists and tuples, and objects with a `pin_memory` method. Without an
    accelerator, items stay as they are. `to_device` pins by itself; use this only if you copy by hand.

    >>> dp = IterableWrapper([torch.zeros(2)]).pin_memory()
    >>> list(dp)
    [tensor([0., 0.])]
    """

    resumes_from_start = False
    in_main_process = True  # pinned memory cannot be shared between processes

    def __init__(
        self,
        source: IterDataPipe[T],
        device: str | torch.device | None = None,
        pin_memory_fn: Callable[[T, str | torch.device | None], T] = pin_memory_fn,
    ) -> None:
        self.source = source
        self.device = device
        self.pin_memory_fn = pin_memory_fn

    def __iter__(self) -> Iterator[T]:
        for item in self.source:
            yield self.pin_memory_fn(item, self.device)

    def __len__(self) -> int:
        return len(self.source)


@functional_datapipe("to_device")
class DeviceMover(IterDataPipe[T]):
    """Yield the items with their tensors on a device; on an accelerator, copy one item ahead.

    The next item is copied from pinned memory on a separate stream, so the copy overlaps computation on the current
    item. Tensors in dicts, lists and tuples are moved, and objects with a `to` method; other values stay. On the CPU
    nothing is copied. With worker processes, this step and those after it run in the main process.

    `device` is anything that `torch.device` takes; None is the accelerator where there is one, else the CPU. Raises
    RuntimeError at the first item when the device is missing.

    >>> dp = IterableWrapper([{"x": torch.zeros(2), "name": "a"}]).to_device("cpu")
    >>> list(dp)
    [{'x': tensor([0., 0.]), 'name': 'a'}]
    """

    gives = "same"
    keeps_schema = True
    resumes_from_start = False
    in_main_process = True  # workers must not use the device

    reads_ahead: bool = own(False)
    """Whether the pass copies one item ahead, or did before it was resumed."""

    def __init__(self, source: IterDataPipe[T], device: str | int | torch.device | None = None) -> None:
        self.source = source
        self.device = None if device is None else torch.device(device)

    def __iter__(self) -> Iterator[T]:
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        device = self.device or accelerator or torch.device("cpu")
        if accelerator is not None and device.type == accelerator.type and device.type in _WITH_STREAMS:
            return self._one_ahead(device)
        items = self._handed_out_at_once() if self.reads_ahead else self.source
        return iter(items) if device.type == "cpu" else (move(item, device) for item in items)

    def __len__(self) -> int:
        return len(self.source)

    def _handed_out_at_once(self) -> Iterator[T]:
        """Yield the items of the source, for a pass resumed without copying ahead from one that copied ahead."""
        items = self.read(self.source)
        for number, item in items:
            items.keep_from(number + 1)
            yield item

    def _one_ahead(self, device: torch.device) -> Iterator[T]:
        self.reads_ahead = True
        items = self.read(self.source)
        side = torch.Stream(device=device)
        on_the_way: list[tuple[T, torch.Event]] = []
        for number, item in items:
            on_the_way.append(_start_copy(item, device, side))
            if len(on_the_way) == 2:
                items.keep_from(number)
                yield _arrived(*on_the_way.pop(0), device)
        items.keep_from(items.pulled)
        for moved, copied in on_the_way:
            yield _arrived(moved, copied, device)


def _start_copy(item: T, device: torch.device, side: torch.Stream) -> tuple[T, torch.Event]:
    """Start copying an item on a side stream; return it with the event that ends the copy."""
    current, of_device = torch.accelerator.current_stream(), torch.accelerator.current_stream(device)
    torch.accelerator.set_stream(side)
    try:
        moved = move(pin_memory_fn(item), device, non_blocking=True)
        return moved, side.record_event()
    finally:
        torch.accelerator.set_stream(of_device)
        torch.accelerator.set_stream(current)  # may belong to another device, which this makes current again


def _arrived(moved: T, copied: torch.Event, device: torch.device) -> T:
    """Make the current stream wait for a copy, and record that it uses the memory."""
    current = torch.accelerator.current_stream(device)
    current.wait_event(copied)
    for tensor in tensors_in(moved):
        if tensor.device.type == device.type:
            tensor.record_stream(current)
    return moved


def move(item: Any, device: torch.device, non_blocking: bool = False) -> Any:
    """Return an item with its tensors on a device, in new containers of the same types."""
    if isinstance(item, torch.Tensor):
        return item.to(device, non_blocking=non_blocking)
    if hasattr(item, "to"):
        return item.to(device)
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(move(part, device, non_blocking) for part in item))
    if isinstance(item, MutableMapping):
        moved = copy.copy(item)  # keeps the factory of a defaultdict
        moved.update({key: move(part, device, non_blocking) for key, part in item.items()})
        return moved
    if isinstance(item, Mapping):
        return type(item)({key: move(part, device, non_blocking) for key, part in item.items()})  # type: ignore[call-arg]
    if isinstance(item, (list, tuple)):
        return type(item)(move(part, device, non_blocking) for part in item)
    return item


def tensors_in(item: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an item, nested ones too."""
    if isinstance(item, torch.Tensor):
        yield item
    elif isinstance(item, Mapping):
        for part in item.values():
            yield from tensors_in(part)
    elif isinstance(item, (list, tuple)):
        for part in item:
            yield from tensors_in(part)
