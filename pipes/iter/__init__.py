"""The iterable operators, one file per family."""

from typing import Any

from ..collect import class_names, operator_class

__all__ = class_names(__name__)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return operator_class(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
