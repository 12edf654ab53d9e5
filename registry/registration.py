"""The registry of operators: `functional_datapipe` enters them, and pipes look up their methods."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from types import MethodType
from typing import Any, Literal, TypeVar

from ..errors.hints import did_you_mean
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe, registered_with_torch
from .synonyms import operators_for, operators_for_parts

__all__ = [
    "Operator",
    "Operators",
    "find_method",
    "functional_datapipe",
    "functions_of_all_pipes",
    "later",
    "operators",
]

C = TypeVar("C", bound=type)
Kind = Literal["iter", "map"]
PLUG_INS = "penstock.operators"

_KINDS: Mapping[Kind, str] = {"iter": "iterable pipe", "map": "map-style pipe"}

TERMINAL = ("count", "explain", "peek", "profile", "show", "stats", "take", "take_all", "visualize")
"""The methods that read or show a pipe immediately; torch's own pipes have them too."""

_NAMES_OF_OTHERS = {
    "add_column": "use .map(fn) for rows, .map_batches(fn) for batches of columns",
    "apply": ".map(fn) takes each item, .pipe(fn) the stream",
    "cache": "use .in_memory_cache()",
    "chain": "use .concat(other)",
    "column_names": "use .schema().names",
    "columns": "use .schema().names",
    "decode": "use .routed_decode()",
    "first": "use .take(1)",
    "interleave": "use .shuffled_flatmap(fn), or .mix(other) for two chains",
    "iter_rows": "use `for row in dp`, after .rows() where items are batches",
    "materialize": "use .in_memory_cache()",
    "merge": "use .join(table, on=…)",
    "num_blocks": "leave it out, or use .rebatch(n) for batches of n rows",
    "num_rows": "use .rows().count() after a reader of columns, else .count()",
    "reduce": "use functools.reduce(fn, dp)",
    "repartition": "leave it out, or use .rebatch(n) for batches of n rows",
    "save": "use .write_parquet(…) or .write_tar(…)",
    "select": "use .filter(fn)",
    "set_epoch": "leave it out: each pass is the next epoch",
    "set_seed": "call loader.seed(0), or without a loader set it on a step that draws, as in .shuffle().set_seed(0)",
    "shard": "use .sharding_filter()",
    "shape": "use .rows().count() after a reader of columns, and .schema().names",
    "skip": "use .pipe(itertools.islice, n, None)",
    "size_bytes": "use sum(batch.nbytes for batch in dp) where items are batches of columns",
    "sort": "use penstock.from_items(sorted(dp, key=…)), which holds all items in memory",
    "sort_values": "use penstock.from_items(sorted(dp, key=…)), which holds all items in memory",
    "split": "use .random_split(weights, seed)",
    "split_at_indices": "use .limit(n) for the first rows, and .pipe(itertools.islice, n, None) for the others",
    "split_proportionately": "use .random_split(weights, seed)",
    "streaming_split": "use .sharding_filter(), and DataLoader2 with a DistributedReadingService on each rank",
    "sum": "use sum(row['x'] for row in dp), after .rows() where items are batches",
    "take_batch": "use next(iter(dp.iter_batches(n)))",
    "to": "use .to_device(device)",
    "to_iterable_dataset": "use .to_iter_datapipe()",
    "to_list": "use .take_all()",
    "to_pandas": 'use .with_format("pandas") for a data frame of each batch, and pandas.concat of them for one of all',
    "to_torch": "use .iter_torch_batches(batch_size)",
    "union": "use .concat(other)",
    "unique": "use a set of the values, as in {row['label'] for row in dp}, after .rows() where items are batches",
    "with_column": "use .map(fn) for rows, .map_batches(fn) for batches of columns",
    "with_epoch": "use .cycle().header(n)",
}
"""Methods of other libraries' data sets that have other names here, and the mend for each."""

bases: dict[Kind, type] = {}
"""The base class of each kind; `base.py` fills this in."""


@dataclass(frozen=True)
class Operator:
    """One entry of the registry."""

    name: str
    """The name of the method, or of the class if it has no method."""
    on: Kind
    """The kind of pipe that has the method."""
    cls: type
    file: str
    line: int
    method: bool

    @property
    def kind(self) -> Kind:
        """The kind of pipe that the operator is."""
        return _kind_of(self.cls)

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return inspect.cleandoc(self.cls.__doc__ or "").partition("\n")[0]

    def is_of(self, package: str) -> bool:
        """Say whether the class is defined in a package."""
        return f"{self.cls.__module__}.".startswith(f"{package}.")

    @property
    def place(self) -> str:
        """Where the operator is defined."""
        return f"{self.cls.__module__}.{self.cls.__qualname__} ({self.file}:{self.line})"


class Operators(Mapping[str, Operator]):
    """All operators, read-only, by `"iter.batch"`, `"map.batch"`, …, or by the bare name if only one kind has it.

    >>> import penstock as ps
    >>> operators["iter.batch"].cls is ps.iter.Batcher
    True
    >>> operators["load_from_tar"].summary
    'Yield the path and the stream of each file in tar archives.'
    """

    def __init__(self) -> None:
        self._entries: dict[str, Operator] = {}
        self._announced: Mapping[str, str] = {}
        self._plug_ins_asked = False
        self.broken_plug_ins: dict[str, Exception] = {}

    def announce(self, classes: Mapping[str, str]) -> None:
        """Announce operators whose modules are imported on first use.

        An entry is like `{"iter.batch": "penstock.pipes.iter.group:Batcher"}`. An operator without a method has the
        name of its class.
        """
        self._announced = classes
        for key, address in classes.items():
            holder, name = key.split(".")
            if not address.endswith(f":{name}"):
                setattr(bases[holder], name, _method_of(key))  # type: ignore[index]

    def __getitem__(self, name: str) -> Operator:
        keys = (name, f"iter.{name}", f"map.{name}")
        if not any(key in self._announced for key in keys) and name not in self._entries:
            self._load_plug_ins()
        found = [entry for key in keys if (entry := self._entry(key))]
        if len(found) == 1:
            return found[0]
        if found:
            raise KeyError(f"{name!r} is on both kinds of pipe: ask for 'iter.{name}' or 'map.{name}'")
        raise KeyError(f"no operator {name!r}{did_you_mean(name, [key.partition('.')[2] for key in self._keys()])}")

    def __iter__(self) -> Iterator[str]:
        self._load_plug_ins()
        return iter(self._keys())

    def __len__(self) -> int:
        self._load_plug_ins()
        return len(self._keys())

    def __repr__(self) -> str:
        return "\n".join(f"{key}: {entry.summary}" for key, entry in self.items())

    def search(self, text: str) -> list[Operator]:
        """Return the operators whose name or docstring has, for every word of a text, a word that begins with it.

        Operators that match in their name or summary come first. Before them are those for a word or phrase of other
        libraries, and then docstrings are not searched; after them those for parts of such a phrase.

        >>> [found.name for found in operators.search("zip archives")]
        ['load_from_zip', 'load_from_rar']
        >>> [found.name for found in operators.search("tokenize")]
        ['map', 'map', 'map_batches', 'map_pool']
        >>> "routed_decode" in [found.name for found in operators.search("extension")]
        True
        """
        wanted = [rf"(?<![a-z]){re.escape(word)}" for word in text.lower().split()]

        def has_all(searched: str) -> bool:
            return all(re.search(word, searched.lower()) for word in wanted)

        def named(names: list[str]) -> list[Operator]:
            return [self[key] for name in names for key in (f"iter.{name}", f"map.{name}") if key in self]

        near = named(meant := operators_for(text))
        near += [e for e in self.values() if e not in near and has_all(f"{e.name} {e.cls.__name__} {e.summary}")]
        if meant:
            return near
        near += [e for e in named(operators_for_parts(text)) if e not in near]
        return near + [e for e in self.values() if e not in near and has_all(e.cls.__doc__ or "")]

    def has_method(self, kind: Kind, name: str) -> bool:
        """Say whether a kind of pipe has a method, without loading plug-ins."""
        key = f"{kind}.{name}"
        if key in self._entries:
            return self._entries[key].method
        return not self._announced.get(key, f":{name}").endswith(f":{name}")

    def of_package(self, package: str) -> list[Operator]:
        """Import a package, and return the operators that it registers.

        Raises ImportError if there is no such package, and ValueError if it registers none.
        """
        import_module(package)
        if found := [entry for entry in self.values() if entry.is_of(package)]:
            return found
        raise ValueError(f"{package!r} registers no operator on import: name the module that does")

    def of_others(self) -> list[Operator]:
        """Return the operators of plug-ins and of the program, without importing announced ones."""
        self._load_plug_ins()
        return [entry for key, entry in self._entries.items() if key not in self._announced]

    def _keys(self) -> list[str]:
        return [*dict.fromkeys([*self._announced, *self._entries])]

    def _entry(self, key: str) -> Operator | None:
        if key in self._announced:  # even if entered: another thread may still be importing its module
            import_module(self._announced[key].partition(":")[0])
        return self._entries.get(key)

    def _enter(self, operator: Operator) -> None:
        key = f"{operator.on}.{operator.name}"
        if self._announced.get(key) == f"{operator.cls.__module__}:{operator.cls.__qualname__}":
            earlier = None
        else:
            earlier = self._entry(key)
        if earlier is not None and not _same_definition(earlier.cls, operator.cls):
            raise ValueError(
                f"two operators claim the name {operator.name!r} on {operator.on} pipes: "
                f"{earlier.place} has it, and {operator.place} asks for it; give one of them another name"
            )
        self._entries[key] = operator

    def _load_plug_ins(self) -> None:
        if self._plug_ins_asked:
            return
        self._plug_ins_asked = True
        for plug_in in entry_points(group=PLUG_INS):
            try:
                plug_in.load()
            except Exception as error:  # a plug-in may raise anything; load the others
                self.broken_plug_ins[plug_in.name] = error
                warnings.warn(
                    f"the plug-in {plug_in.name!r} ({plug_in.value}) could not be loaded: {error!r}", stacklevel=2
                )


operators = Operators()


def functional_datapipe(name: str | None, on: type | None = None) -> Callable[[C], C]:
    """Register a pipe class as a method of all pipes of its kind.

    `on` is for converters: the base class (`IterDataPipe` or `MapDataPipe`) whose pipes get the method, if not the
    kind of the class itself. With `None` as its name the class is entered without a method, like sources.

    Raises ValueError, with both places, if another class has the name. Defining the same class again, as by running a
    notebook cell twice, replaces it.

    >>> import penstock as ps
    >>> @ps.functional_datapipe("twice")
    ... class Doubler(ps.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for item in self.source:
    ...             yield item
    ...             yield item
    >>> list(ps.iter.IterableWrapper("ab").twice())
    ['a', 'a', 'b', 'b']
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f'give the name of the method, as in @functional_datapipe("batch"), not {name!r}')

    def register(cls: C) -> C:
        kind = _kind_of(cls)
        holder: Kind = kind if on is None else _kind_of(on)
        base = bases[holder]
        if name is not None:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{name!r} cannot be the name of a method: it is not an identifier")
            if not operators.has_method(holder, name) and inspect.getattr_static(base, name, None) is not None:
                raise ValueError(f"{name!r} is a method that every pipe has: give {cls.__qualname__} another name")
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        is_redefined = f"{holder}.{name}" in operators._entries
        operators._enter(Operator(name or cls.__name__, holder, cls, *place, method=name is not None))
        if name is not None:
            if is_redefined or name not in vars(base):  # else announced, and the program may have replaced it
                setattr(base, name, _method_of(f"{holder}.{name}"))
            cls.functional_name = name  # type: ignore[attr-defined]
        return cls

    return register


def find_method(pipe: Any, name: str) -> Any:
    """Return the method `name` of a pipe that has no such attribute.

    The method is ours for torch's pipes, registered with torch for our pipes, or from a plug-in. Raises AttributeError
    with the nearest names.
    """
    if name.startswith("_"):  # protocols look these up on every object; ours are public
        raise AttributeError(f"{type(pipe).__name__!r} object has no attribute {name!r}", name=name, obj=pipe)
    kind = _kind_of(type(pipe))
    base = bases[kind]
    theirs = registered_with_torch(base)
    for _ in range(2):
        if operators.has_method(kind, name) or name in TERMINAL:
            if not isinstance(pipe, base):
                return functools.partial(getattr(base, name), pipe)
            if inspect.getattr_static(type(pipe), name, None) is not vars(base).get(name):
                raise AttributeError(
                    f"the {name} of {type(pipe).__name__} raised an AttributeError itself", name=name, obj=pipe
                )
            return getattr(base, name).__get__(pipe)
        if name in theirs:
            return functools.partial(theirs[name], pipe)
        operators._load_plug_ins()
    raise AttributeError(_no_such_method(pipe, base, name), name=name, obj=pipe)


@functools.lru_cache(maxsize=256)
def _suggestions(base: type, name: str, number_of_operators: int) -> str:  # the count is a cache key
    kind = _kind_of(base)
    there = [key.split(".") for key in operators]
    ours = [each for holder, each in there if holder == kind and operators.has_method(kind, each)]
    theirs = [each for each in registered_with_torch(base) if each[0] != "_"]
    return did_you_mean(name, [*ours, *TERMINAL, *theirs])


def _no_such_method(pipe: Any, base: type, name: str) -> str:
    message = f"{type(pipe).__name__!r} object has no attribute {name!r}"
    if name in ("datapipe", "datapipes", "source_datapipe", "source_dp"):
        return f"{message}: what a pipe reads from is its `source`, or its `sources`"
    if name == "source":
        return f"{message}: keep it in the __init__ of {type(pipe).__name__}, as in `self.source = source`"
    kind = _kind_of(base)
    other: Kind = "map" if kind == "iter" else "iter"
    mend = _NAMES_OF_OTHERS.get(name, "")
    if name == f"to_{kind}_datapipe" or f".to_{kind}_datapipe()" in mend:
        return f"{message}: it is {'an' if kind == 'iter' else 'a'} {_KINDS[kind]} already"
    if operators.has_method(other, name):
        return f"{message}, which {_KINDS[other]}s have: convert it, as in .to_{other}_datapipe().{name}(…)"

    def converted(call: re.Match[str]) -> str:
        has_it = operators.has_method(kind, call[1]) or not operators.has_method(other, call[1])
        return call[0] if has_it else f".to_{other}_datapipe(){call[0]}"

    mend = re.sub(r"(?<![\w)])\.(\w+)\(", converted, mend)
    message += f": {mend}" if mend else _suggestions(base, name, len(operators))
    for plug_in, error in operators.broken_plug_ins.items():
        message += f"; the plug-in {plug_in!r}, which may have it, could not be loaded: {error!r}"
    return message


class _Method(functools.partial[Any]):
    """The function of a method. Its error explains a chain that omits the call, as in `.batch.map`."""

    def __getattr__(self, name: str) -> Any:
        own = self.func.__name__
        raise AttributeError(f"{own} is a method, and must be called: .{own}(…).{name}", name=name, obj=self)


def _with_answer(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.update_wrapper(_Method(function), function)


class _Later:
    """A method that is made, or imported, on first access: a program uses few of them."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = functools.cache(make)

    def __get__(self, pipe: Any, cls: type | None = None) -> Any:
        return self._make() if pipe is None else MethodType(_with_answer(self._make()), pipe)


def later(module: str, name: str) -> Any:
    """Return a function of a module as a method; the module is imported on first access."""
    return _Later(lambda: getattr(import_module(module), name))


def functions_of_all_pipes() -> dict[str, Callable[..., Any]]:
    """Return the methods of all pipes that `later` made, by name: functions that give no pipe."""
    base = bases["iter"]
    held = [name for name, value in vars(base).items() if isinstance(value, _Later)]
    return {name: getattr(base, name) for name in held if name[0] != "_" and not operators.has_method("iter", name)}


def _method_of(key: str) -> _Later:
    return _Later(lambda: _method_for(operators[key].cls, operators[key].name))


def _method_for(cls: type, name: str) -> Callable[..., Any]:
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
    outcome = vars(cls).get("outcome")  # defined by operators that return several pipes
    gives = cls if outcome is None else inspect.signature(outcome).return_annotation
    method.__signature__ = inspect.Signature([itself, *parameters], return_annotation=gives)  # type: ignore[attr-defined]
    return method


def _kind_of(cls: type) -> Kind:
    if not isinstance(cls, type):
        raise TypeError(f"a pipe class is needed, and this is {cls!r}; for a function use dp.pipe(fn)")
    if issubclass(cls, TorchIterDataPipe):
        return "iter"
    if issubclass(cls, TorchMapDataPipe):
        return "map"
    raise TypeError(f"{cls!r} is not a pipe: derive it from IterDataPipe or MapDataPipe")


def _same_definition(earlier: type, later: type) -> bool:
    return (earlier.__module__, earlier.__qualname__) == (later.__module__, later.__qualname__)
