"""The iterable operators, one file for one family."""

from typing import Any

from ..collect import import_families, operator_class

_classes = import_families(__name__, __path__)
globals().update(_classes)
__all__ = sorted(_classes)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return operator_class(__name__, name)
