"""The metaclasses of pipes: they wrap `__iter__` by passes, and `__getitem__` by error notes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from ..state.copying import PASS_ATTRIBUTES
from ..state.error_context import add_error_context
from ..state.fields import fields_of
from ..state.foreign import TorchIterMeta, TorchMapMeta
from ..state.graph import memoized_len
from ..state.run import passes_of
from .construction import Construction

T = TypeVar("T")


class IterPipeMeta(Construction, TorchIterMeta):
    """Wraps the `__iter__` of a class, and hides it from torch's metaclass, which would add a hook per item."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        hidden = {method: namespace.pop(method) for method in ("__iter__", "__next__", "reset") if method in namespace}
        if "__iter__" in hidden:
            # The base class's `resumes_from_start` may be wrong for the subclass's `__iter__`.
            namespace.setdefault("resumes_from_start", True)
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)  # type: ignore[no-untyped-call]
        for method, function in hidden.items():
            setattr(cls, method, passes_of(function) if method == "__iter__" else function)
        if isinstance(length := vars(cls).get("__len__"), FunctionType):
            cls.__len__ = memoized_len(length)
        cls._state_fields = fields_of(cls)
        cls._no_sources = {*cls._state_fields, *cls.payload, *cls.transient, *PASS_ATTRIBUTES}
        return cls


class MapPipeMeta(Construction, TorchMapMeta):
    """Wraps the `__getitem__` of a class to give slices as pipes, and add notes to errors, unless it does so itself."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        getitem = namespace.get("__getitem__")
        if isinstance(getitem, FunctionType) and add_error_context.__name__ not in getitem.__code__.co_names:
            namespace["__getitem__"] = _noting(getitem)
        return super().__new__(mcs, name, bases, namespace, **kwargs)  # type: ignore[no-untyped-call]


def _noting(getitem: Callable[[Any, Any], T]) -> Callable[[Any, Any], Any]:
    @functools.wraps(getitem)
    def __getitem__(self: Any, index: Any) -> Any:  # noqa: N807
        try:
            return self._sliced(index) if type(index) is slice else getitem(self, index)
        except Exception as error:
            add_error_context(error, self, index)
            raise

    return __getitem__
