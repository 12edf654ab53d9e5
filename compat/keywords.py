"""The names that torchdata's operators had for their source, as keywords: all are `source` here."""

from __future__ import annotations

import inspect
from typing import Any

from ..registry import IterDataPipe, MapDataPipe
from ..registry.base import _Construction
from ..registry.torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["accept_any_name_of_the_source"]

_ATTRIBUTES = {"datapipe": "source", "source_datapipe": "source", "source_dp": "source", "datapipes": "sources"}
"""What torchdata's operators called the attribute for their source, and what it is called here."""


class _OldName:
    """An attribute under its old name, unless the pipe has one of that name itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, pipe: Any, owner: type) -> Any:
        if pipe is None or self._name not in vars(pipe):
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}, which this stands for")
        return vars(pipe)[self._name]


def accept_any_name_of_the_source() -> None:
    """Let `Batcher(datapipe=dp, batch_size=2)` be `Batcher(source=dp, batch_size=2)`, for all operators of Penstock.

    And `dp.datapipe`, as subclasses of operators read it, `dp.source`.
    """
    make: Any = _Construction.__call__

    def __call__(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if kwargs and not args and cls.__module__.startswith("penstock."):
            kwargs = _with_source(inspect.signature(cls), kwargs)
        return make(cls, *args, **kwargs)

    _Construction.__call__ = __call__  # type: ignore[method-assign]
    for kind in (IterDataPipe, MapDataPipe):
        for old, name in _ATTRIBUTES.items():
            setattr(kind, old, _OldName(name))


def _with_source(signature: inspect.Signature, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments, in which the one pipe that has no parameter is the source."""
    unknown = [
        name
        for name, value in kwargs.items()
        if name not in signature.parameters and isinstance(value, (TorchIterDataPipe, TorchMapDataPipe))
    ]
    if "source" not in signature.parameters or "source" in kwargs or len(unknown) != 1:
        return kwargs
    return {"source" if name == unknown[0] else name: value for name, value in kwargs.items()}
