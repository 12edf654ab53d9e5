"""The names that torchdata's operators had for their source, as keywords: all are `source` here."""

from __future__ import annotations

import inspect
from typing import Any

from ..registry.base import _Construction
from ..registry.torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["accept_any_name_of_the_source"]


def accept_any_name_of_the_source() -> None:
    """Let `Batcher(datapipe=dp, batch_size=2)` be `Batcher(source=dp, batch_size=2)`, for all operators of Penstock."""
    make: Any = _Construction.__call__

    def __call__(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if kwargs and not args and cls.__module__.startswith("penstock."):
            kwargs = _with_source(inspect.signature(cls), kwargs)
        return make(cls, *args, **kwargs)

    _Construction.__call__ = __call__  # type: ignore[method-assign]


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
