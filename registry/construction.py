"""The making of a pipe: arguments are checked, and a list as the source of an operator is wrapped."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence, Set
from typing import Any, TypeVar

from ..errors.hints import hint_on_argument
from ..state.arguments import keep_arguments
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ..state.graph import sources_of
from .registration import operators

T = TypeVar("T")

_PIPES = (TorchIterDataPipe, TorchMapDataPipe)


class Construction(type):
    """Makes pipes: a list as the source of an operator is wrapped, and what is read only once is rejected."""

    def __call__(cls: type[T], /, *args: Any, **kwargs: Any) -> T:
        if cls.functional_name is not None:  # type: ignore[attr-defined]
            args, kwargs = with_pipes(cls, args, kwargs)
        try:
            made: Any = super().__call__(*args, **kwargs)  # type: ignore[misc]
        except TypeError as error:
            _expect_arguments(cls, args, kwargs)
            if mend := _mend_of_constructor(cls, error):
                raise TypeError(f"{error}: {mend}").with_traceback(error.__traceback__) from None
            raise
        if not issubclass(type(made), cls):
            return made  # type: ignore[no-any-return]  # a custom __new__ returned another object
        given = args[0] if args else kwargs.get("source")
        if made.functional_name is not None and vars(made).get("source", made) is given:
            _expect_pipe(cls, given)
        is_kept = any(value is given for value in vars(made).values()) or sources_of(made)
        if made.functional_name is not None and isinstance(given, _PIPES) and not is_kept:
            raise TypeError(f"{cls.__name__} keeps no source: write `self.source = source` in its __init__")
        keep_arguments(made, cls, args, kwargs)
        return type(made).result(made)  # type: ignore[no-any-return]

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of the constructor; help() and editors would otherwise show that of `__call__`."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=[*signature.parameters.values()][1:])


def _mend_of_constructor(cls: type, error: TypeError) -> str | None:
    """Return how to write a constructor that is missing, or that calls the one of the base class with arguments."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return f"{cls.__name__} needs `def __init__(self, source)`, with `self.source = source`"
    if str(error).startswith("object.__init__()"):
        return f"write `self.source = source` in the __init__ of {cls.__name__}, without super().__init__(source)"
    return None


def _expect_arguments(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError if a constructor does not accept the arguments, with its signature."""
    signature = inspect.signature(cls)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        taken = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
        shown = inspect.Signature(taken[bool(args) and isinstance(args[0], _PIPES) :])  # a method gives the source
        unknown = next((name for name in kwargs if name not in signature.parameters), None)
        what = f"got an unexpected keyword argument {unknown!r}" if unknown else str(error)
        message = f"{what}: {cls.functional_name or cls.__name__} takes {shown}"
        if not taken:
            message += f"; to read from a pipe, {cls.__name__} needs `def __init__(self, source)`"
        if unknown == "seed" and hasattr(cls, "set_seed"):
            message += f", and its seed by .set_seed({kwargs['seed']!r})"
        elif unknown:
            message += hint_on_argument(unknown, [*signature.parameters])
        elif keyword := _keyword_for_surplus(signature, args):
            message += f": give {keyword}"
        raise TypeError(message) from None


def _keyword_for_surplus(signature: inspect.Signature, args: tuple[Any, ...]) -> str | None:
    """Return the first argument too many by the first keyword that takes its type, as in "workers=4"."""
    kinds = [each.kind for each in signature.parameters.values()]
    surplus = args[sum(kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds) :]
    for each in signature.parameters.values() if surplus else ():
        takes = re.search(rf"\b{type(surplus[0]).__name__}\b", str(each.annotation))
        if each.kind is inspect.Parameter.KEYWORD_ONLY and takes:
            return f"{each.name}={surplus[0]!r:.100}"
    return None


def with_pipes(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an operator, with pipes in place of lists and other iterables as its sources.

    >>> import penstock as ps
    >>> ps.iter.Batcher([1, 2, 3], 2)
    IterableWrapper([1, 2, 3], deepcopy=False).batch(2)
    """
    wrappers = _wrappers(cls)
    if wrapper := wrappers.get("sources"):
        return (*(_piped(given, wrapper) for given in args),), kwargs
    for place, (name, wrapper) in enumerate(wrappers.items()):
        if not wrapper:
            continue
        if place < len(args):
            args = (*args[:place], _piped(args[place], wrapper), *args[place + 1 :])
        elif name in kwargs:
            kwargs = {**kwargs, name: _piped(kwargs[name], wrapper)}
    return args, kwargs


@functools.cache
def _wrappers(cls: type) -> dict[str, str]:
    """Return the class that wraps plain values for each parameter of a constructor, empty for one that is no pipe."""
    wrappers = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        annotation = str(parameter.annotation)  # a text already, by `from __future__ import annotations`
        is_pipe = name in ("source", "sources") or re.fullmatch(r"(Iter|Map)DataPipe(\[[^|]*\])?", annotation)
        by_index = "MapDataPipe" in annotation if "DataPipe" in annotation else TorchMapDataPipe in cls.__mro__
        wrappers[name] = ("SequenceWrapper" if by_index else "IterableWrapper") if is_pipe else ""
    return wrappers


def _piped(given: Any, wrapper: str) -> Any:
    if isinstance(given, _PIPES) or not _can_be_read_again(given, wrapper):
        return given
    return operators[wrapper].cls(given, deepcopy=False)


def _can_be_read_again(given: object, wrapper: str) -> bool:
    """Say whether each pass over plain values gives the same ones, and the ones that were meant."""
    if wrapper == "SequenceWrapper":
        return isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    if isinstance(given, (list, tuple)):
        return not any(isinstance(item, _PIPES) for item in given)
    is_text_or_unordered = isinstance(given, (str, bytes, Mapping, Set))
    return isinstance(given, Iterable) and not (isinstance(given, Iterator) or is_text_or_unordered or _is_table(given))


def _expect_pipe(cls: type, given: object) -> None:
    """Raise TypeError for a source that is no pipe, and say how to make one of it."""
    if isinstance(given, _PIPES):
        return
    raise TypeError(
        f"{cls.__name__} reads from a pipe, and its source is of type {type(given).__name__}: {_how_to_make(given)}"
    )


def _how_to_make(given: object) -> str:
    if isinstance(given, (str, bytes)):
        return f"give a list, as in [{given!r:.80}], or the chain of steps that read it"
    if isinstance(given, Mapping):
        return "give what is meant of it, as in [*mapping.items()]"
    if isinstance(given, MappingView):
        return "it changes with its dict: give list(items)"
    if isinstance(given, Set):
        return "its order is not fixed: give sorted(items)"
    if _is_table(given):
        return "read its rows, as in penstock.from_pandas(frame) or penstock.from_arrow(table)"
    if isinstance(given, Iterator):
        return "it can be read only once: give a list, or IterableWrapper(items) where a single pass is enough"
    if isinstance(given, (list, tuple)):
        return "it has pipes in it: concatenate them, as in first.concat(second)"
    return "wrap it, as in IterableWrapper(items)"


def _is_table(given: object) -> bool:
    return hasattr(given, "columns")  # of pandas, Arrow, Polars: they are iterated by column, if at all
