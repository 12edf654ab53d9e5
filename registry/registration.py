"""The registry of operators: `functional_datapipe` enters them, and makes their methods."""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeVar

from ..errors.hints import did_you_mean
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe
from .lazy_methods import LazyMethod, constructor_as_method, method_names
from .plug_ins import expect_no_folder_instead, load_plug_ins
from .synonyms import operators_for, operators_for_parts

C = TypeVar("C", bound=type)
Kind = Literal["iter", "map"]
PLUG_INS = "penstock.operators"

bases: dict[Kind, type] = {}
"""The base class of each kind; `pipe.py` and `map_pipe.py` fill this in."""


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
        return pipe_kind(self.cls)

    @property
    def key(self) -> str:
        """The key of the operator in the registry, such as `"iter.batch"`."""
        return f"{self.on}.{self.name}"

    @property
    def address(self) -> str:
        """The module and the name of the class."""
        return f"{self.cls.__module__}:{self.cls.__qualname__}"

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
            if not address.endswith(f":{key.partition('.')[2]}"):
                self._make_method(key)

    def __getitem__(self, name: str) -> Operator:
        keys = (name, f"iter.{name}", f"map.{name}")
        if not any(key in self._announced for key in keys) and name not in self._entries:
            self.load_plug_ins()
        found = [entry for key in keys if (entry := self._entry(key))]
        if len(found) == 1:
            return found[0]
        if found:
            raise KeyError(f"{name!r} is on both kinds of pipe: ask for 'iter.{name}' or 'map.{name}'")
        raise KeyError(f"no operator {name!r}{did_you_mean(name, [key.partition('.')[2] for key in self._keys()])}")

    def __iter__(self) -> Iterator[str]:
        self.load_plug_ins()
        return iter(self._keys())

    def __len__(self) -> int:
        self.load_plug_ins()
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
        expect_no_folder_instead(package)
        raise ValueError(f"{package!r} registers no operator on import: name the module that does")

    def of_others(self) -> list[Operator]:
        """Return the operators of plug-ins and of the program, without importing announced ones."""
        self.load_plug_ins()
        return [entry for key, entry in self._entries.items() if key not in self._announced]

    def enter(self, operator: Operator) -> None:
        """Enter an operator, and make its method; raise ValueError where another class has the name."""
        key = operator.key
        is_announced = self._announced.get(key) == operator.address
        earlier = None if is_announced else self._entry(key)
        if earlier is not None and earlier.address != operator.address:
            raise ValueError(
                f"two operators claim the name {operator.name!r} on {operator.on} pipes: "
                f"{earlier.place} has it, and {operator.place} asks for it; give one of them another name"
            )
        is_redefined = key in self._entries
        self._entries[key] = operator
        if operator.method and (is_redefined or not is_announced):  # else made, and the program may have replaced it
            self._make_method(key)

    def load_plug_ins(self) -> None:
        """Load the operators of installed packages, once."""
        if self._plug_ins_asked:
            return
        self._plug_ins_asked = True
        self.broken_plug_ins = load_plug_ins(PLUG_INS, stacklevel=2)

    def _keys(self) -> list[str]:
        return [*dict.fromkeys([*self._announced, *self._entries])]

    def _entry(self, key: str) -> Operator | None:
        if key in self._announced:  # even if entered: another thread may still be importing its module
            import_module(self._announced[key].partition(":")[0])
        return self._entries.get(key)

    def _make_method(self, key: str) -> None:
        kind, _, name = key.partition(".")
        method = LazyMethod(lambda: constructor_as_method(self[key].cls, name))
        setattr(bases[kind], name, method)  # type: ignore[index]


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
        kind = pipe_kind(cls)
        holder = kind if on is None else pipe_kind(on)
        if name is not None:
            _check_name(name, holder, cls)
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        operators.enter(Operator(name or cls.__name__, holder, cls, *place, method=name is not None))
        if name is not None:
            cls.functional_name = name  # type: ignore[attr-defined]
        return cls

    return register


def _check_name(name: str, holder: Kind, cls: type) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot be the name of a method: it is not an identifier")
    if not operators.has_method(holder, name) and inspect.getattr_static(bases[holder], name, None) is not None:
        raise ValueError(f"{name!r} is a method that every pipe has: give {cls.__qualname__} another name")


def functions_of_all_pipes() -> dict[str, Callable[..., Any]]:
    """Return the methods of all pipes that are functions and no operators, by name."""
    base = bases["iter"]
    return {name: getattr(base, name) for name in method_names(base) if not operators.has_method("iter", name)}


def pipe_kind(cls: type) -> Kind:
    """Return the kind of a pipe class; raise TypeError for anything else."""
    if not isinstance(cls, type):
        raise TypeError(f"a pipe class is needed, and this is {cls!r}; for a function use dp.pipe(fn)")
    if issubclass(cls, TorchIterDataPipe):
        return "iter"
    if issubclass(cls, TorchMapDataPipe):
        return "map"
    raise TypeError(f"{cls!r} is not a pipe: derive it from IterDataPipe or MapDataPipe")
