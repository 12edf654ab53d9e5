"""Sources as torchdata took them: under any parameter name."""

from __future__ import annotations

import inspect
from typing import Any

from ..registry import IterDataPipe, MapDataPipe
from ..registry.construction import Construction
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe

_ATTRIBUTES = {"datapipe": "source", "source_datapipe": "source", "source_dp": "source", "datapipes": "sources"}
"""torchdata's attribute names for an operator's source → the names here."""

_BARE = (list, tuple)


class _OldName:
    """An attribute under its old name, unless the pipe has its own of that name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, pipe: Any, owner: type) -> Any:
        if pipe is None or self._name not in vars(pipe):
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}, the new name of this")
        return vars(pipe)[self._name]


def accept_what_torchdata_did() -> None:
    """Make `Batcher(datapipe=dp, batch_size=2)` mean `Batcher(dp, batch_size=2)`.

    `dp.datapipe`, which subclasses of operators read, becomes `dp.source`.
    """
    make: Any = Construction.__call__

    def __call__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if kwargs and not args and cls.__module__.startswith("penstock."):
            kwargs = _with_source(inspect.signature(cls), kwargs)
        return make(cls, *args, **kwargs)

    Construction.__call__ = __call__  # type: ignore[method-assign]
    for kind in (IterDataPipe, MapDataPipe):
        for old, name in _ATTRIBUTES.items():
            setattr(kind, old, _OldName(name))


def _with_source(signature: inspect.Signature, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with `source` as the name of the one pipe or list under an unknown name."""
    unknown = [
        name
        for name, value in kwargs.items()
        if name not in signature.parameters and isinstance(value, (TorchIterDataPipe, TorchMapDataPipe, *_BARE))
    ]
    if "source" not in signature.parameters or "source" in kwargs or len(unknown) != 1:
        return kwargs
    return {"source" if name == unknown[0] else name: value for name, value in kwargs.items()}
