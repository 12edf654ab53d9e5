"""Methods of pipes that are made, or imported, on first access: a program uses few of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any


class LazyMethod:
    """A method that is made on first access."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = functools.cache(make)

    def __get__(self, pipe: Any, cls: type | None = None) -> Any:
        function = self._make()
        return function if pipe is None else MethodType(functools.update_wrapper(_Called(function), function), pipe)


class _Called(functools.partial[Any]):
    """The function of a method. Its error explains a chain that omits the call, as in `.batch.map`."""

    def __getattr__(self, name: str) -> Any:
        own = self.func.__name__
        raise AttributeError(f"{own} is a method, and must be called: .{own}(…).{name}", name=name, obj=self)


def later(module: str, name: str) -> Any:
    """Return a function of a module as a method; the module is imported on first access."""
    return LazyMethod(lambda: getattr(import_module(module), name))


def method_names(base: type) -> list[str]:
    """Return the names of the methods of a base class that are operators, or that `later` made."""
    return [name for name, value in vars(base).items() if isinstance(value, LazyMethod) and name[0] != "_"]


def constructor_as_method(cls: type, name: str) -> Callable[..., Any]:
    """Return the constructor of a class as a method of its first argument, a pipe."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return cls(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__doc__ = cls.__doc__
    method.__module__ = cls.__module__
    # help() and editors show the signature of the constructor, with `self` in place of the source.
    parameters = list(inspect.signature(cls).parameters.values())
    if parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    outcome = vars(cls).get("result")  # defined by operators that return several pipes
    gives = cls if outcome is None else inspect.signature(outcome).return_annotation
    method.__signature__ = inspect.Signature([itself, *parameters], return_annotation=gives)  # type: ignore[attr-defined]
    return method
