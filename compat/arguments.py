"""Sources as torchdata took them: under any parameter name, and as a bare list."""

from __future__ import annotations

import inspect
from typing import Any

from ..pipes.iter.create import IterableWrapper
from ..pipes.map.create import SequenceWrapper
from ..registry import IterDataPipe, MapDataPipe
from ..registry.base import Construction
from ..registry.torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["accept_what_torchdata_did"]

_ATTRIBUTES = {"datapipe": "source", "source_datapipe": "source", "source_dp": "source", "datapipes": "sources"}
"""torchdata's attribute names for an operator's source → the names here."""

_BARE = (list, tuple)


class _OldName:
    """An attribute under its old name, unless the pipe has its own of that name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, pipe: Any, owner: type) -> Any:
        if pipe is None or self._name not in vars(pipe):
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}, which this stands for")
        return vars(pipe)[self._name]


def accept_what_torchdata_did() -> None:
    """Make `Batcher(datapipe=[1, 2, 3], batch_size=2)` mean `Batcher(IterableWrapper([1, 2, 3]), batch_size=2)`.

    `dp.datapipe`, which subclasses of operators read, becomes `dp.source`.
    """
    make: Any = Construction.__call__

    def __call__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if kwargs and not args and cls.__module__.startswith("penstock."):
            kwargs = _with_source(inspect.signature(cls), kwargs)
        if cls.functional_name is not None and any(isinstance(given, _BARE) for given in (*args, *kwargs.values())):
            args, kwargs = _with_pipes(cls, args, kwargs)
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


def _with_pipes(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with pipes in place of lists and tuples as sources."""
    first = next(iter(inspect.signature(cls).parameters.values()), None)
    wrap: Any = SequenceWrapper if first and "MapDataPipe" in str(first.annotation) else IterableWrapper

    def piped(given: Any) -> Any:
        return wrap(given, deepcopy=False) if isinstance(given, _BARE) else given

    match first and first.name:
        case "source":
            args = (*map(piped, args[:1]), *args[1:])
            kwargs = {name: piped(value) if name == "source" else value for name, value in kwargs.items()}
        case "sources":
            args = (*map(piped, args),)
    return args, kwargs
