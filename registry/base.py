"""The base classes of all pipes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from .arguments import expect_whole
from .construction import Construction
from .copying import SourcesFirst, copy_to_look_at
from .display import show_chain, show_tree
from .display import step as show_step
from .errors import Guard
from .functional import bases, find_method, operators
from .graph import sources_of, walk
from .iteration import ENDED_BY_STOP_ITERATION, Link, Pass, begin_pass
from .lengths import iterative_len
from .notes import add_error_context
from .observer import Observer
from .own import Own, Tally, owned_by
from .provenance import Provenance
from .reading import Node, Reading, Waiting
from .same_order import expect_same_order
from .seeds import generators_kept
from .state import load_state, state_of
from .torch_pipes import (
    TorchIterDataPipe,
    TorchIterMeta,
    TorchMapDataPipe,
    TorchMapMeta,
    torch_is_pickling,
    torch_is_traversing,
    torch_loads_as_they_are,
    torch_looks_up,
)
from .traits import Trait, product_of_buffers

__all__ = ["IterDataPipe", "MapDataPipe"]

T = TypeVar("T")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

if TYPE_CHECKING:
    from .methods import IterMethods, MapMethods

    # Methods import these where they need them: few programs do, and all import this module.
else:

    class IterMethods(Generic[T_co]):
        """The methods of operators, for type checkers."""

    class MapMethods(Generic[T_co]):
        """The methods of operators, for type checkers."""


_PIPES = (TorchIterDataPipe, TorchMapDataPipe)
_OF_THE_BASE = ("_pass", "_handed_down", "_link")
"""Attributes of the base that belong to a pass."""


_OF_AUTHORS = {
    *(name for base in (TorchIterDataPipe, TorchMapDataPipe) for name in vars(base)),
    *(
        "at_end",
        "broken_laws",
        "buffered",
        "buffers",
        "does",
        "functional_name",
        "gives",
        "guard",
        "holds_items",
        "in_main_process",
        "interrupt",
    ),
    *(
        "faster",
        "made_of",
        "most_held",
        "observer",
        "outcome",
        "outputs_of_each",
        "payload",
        "provenance",
        "read",
        "reset",
        "transient",
    ),
    *("begin_random_pass", "is_one_of_several", "is_sharding_filter", "keeps_rows", "keeps_schema"),
    *(
        "random_state",
        "schema_after",
        "set_random_state",
        "settle",
        "shows_progress",
        "trace_as_dataframe",
        "tuned",
    ),
    "works_in",
}
"""Names that `dir` of a pipe omits: those for authors of operators, and those of torch's base."""


class _IterPipeMeta(Construction, TorchIterMeta):
    """Wraps the `__iter__` of a class, and hides it from torch's metaclass, which would add a hook per item."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        hidden = {method: namespace.pop(method) for method in ("__iter__", "__next__", "reset") if method in namespace}
        if "__iter__" in hidden:
            # The base class's `holds_items` may be wrong for the subclass's `__iter__`.
            namespace.setdefault("holds_items", True)
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)  # type: ignore[no-untyped-call]
        for method, function in hidden.items():
            setattr(cls, method, _passes_of(function) if method == "__iter__" else function)
        if isinstance(length := vars(cls).get("__len__"), FunctionType):
            cls.__len__ = iterative_len(length)
        cls._own = owned_by(cls)
        cls._no_sources = {*cls._own, *cls.payload, *cls.transient, *_OF_THE_BASE}
        return cls


class _MapPipeMeta(Construction, TorchMapMeta):
    """Wraps the `__getitem__` of a class to add notes to errors, unless it does so itself: saves a call per item."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        getitem = namespace.get("__getitem__")
        if isinstance(getitem, FunctionType) and add_error_context.__name__ not in getitem.__code__.co_names:
            namespace["__getitem__"] = _noting(getitem)
        return super().__new__(mcs, name, bases, namespace, **kwargs)  # type: ignore[no-untyped-call]


@functools.cache
def _computed_by(cls: type) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    return frozenset(
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, functools.cached_property)
    )


def _passes_of(iterate: Callable[[Any], Iterable[T]]) -> Callable[[Any], Iterable[T]]:
    @functools.wraps(iterate)
    def __iter__(self: Any) -> Iterable[T]:  # noqa: N807
        # A call by super().__iter__() is part of a pass that has begun.
        return begin_pass(self, iterate) if type(self).__iter__ is __iter__ else iterate(self)

    return __iter__


def _noting(getitem: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
    @functools.wraps(getitem)
    def __getitem__(self: Any, index: Any) -> T:  # noqa: N807
        try:
            return getitem(self, index)
        except Exception as error:
            add_error_context(error, self, index)
            raise

    return __getitem__


class BasePipe(SourcesFirst, Generic[T_co]):
    """The common base of iterable and map-style pipes."""

    functional_name: ClassVar[str | None] = None
    """The name of the registered method; `functional_datapipe` sets it."""

    payload: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that hold items. They are not searched for sources."""

    transient: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that belong to a pass. Like cached properties, pickles and copies omit them."""

    broken_laws: ClassVar[Mapping[str, str]] = {}
    """The laws that the operator breaks, each with the reason."""

    works_in: str | None = None
    """Where the operator works, if not in the reader's thread: "a thread", "threads", "processes" or "actors"."""

    does: ClassVar[tuple[Trait, ...]] = ()
    """What the operator does, in the words that `registry.traits` explains. `explain` finds mistakes by them."""

    buffers: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that bound how much the operator holds: items, or bytes for `max_bytes`."""

    buffered: ClassVar[str] = "items"
    """What these parameters count: "items", "rows", "files", …"""

    faster: str | None = None
    """A sentence with arguments that would make the operator faster, for profiles; None if nothing is known."""

    observer: Observer | None = None
    """What listens to the step, in a profiled chain."""

    shows_progress: ClassVar[bool] = False
    """Whether the operator shows a progress bar of its own."""

    guard: Guard = Guard("raise")
    """It handles items that fail; an operator with `on_error` has its own."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[T_co]: ...

        def __len__(self) -> int: ...

    @property
    def tuned(self) -> str | None:
        """What was found for arguments given as "auto", written as arguments; None if there are none."""
        return None

    def outcome(self) -> Any:
        """Return the result of calling the class: this pipe, or the pipes that read it."""
        return self

    def most_held(self) -> int | None:
        """Return how much the operator holds at most, counted in `buffered`; None if that is not bounded."""
        return product_of_buffers(self)  # type: ignore[arg-type]

    def interrupt(self) -> None:
        """Called by another thread when the pass is given up: a step that waits should end soon."""
        self.guard.give_up()

    if not TYPE_CHECKING:  # type checkers would take any name: they know the methods from the stubs

        def __getattr__(self, name):
            return find_method(self, name)

    def __add__(self, other: Any) -> Any:
        """Return a pipe of the items of both, as `concat` does. A data set or a list is wrapped, as torch does."""
        if not isinstance(other, _PIPES):
            wrapper = "SequenceWrapper" if isinstance(self, TorchMapDataPipe) else "IterableWrapper"
            other = operators[wrapper].cls(other, deepcopy=False)
        return self.concat(other)  # type: ignore[attr-defined]

    def __dir__(self) -> list[str]:
        """Return the names for users of the pipe, without private names and those for authors of operators."""
        hidden = {*_OF_AUTHORS, *type(self).transient, *getattr(type(self), "_own", ())}
        return sorted(name for name in {*super().__dir__()} - hidden if name[:1] != "_" or name[:2] == "__")

    def __repr__(self) -> str:
        return show_chain(self)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return show_tree(self)  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of the pipe, without those of a pass, which `state_dict` returns."""
        if torch_is_traversing():
            return {"sources": sources_of(self)}  # type: ignore[arg-type]
        if not torch_is_pickling():
            self._expect_no_state("a pickle or copy of it begins afresh")
        cls: Any = type(self)
        left_behind = {*_OF_THE_BASE, *cls.transient, *getattr(cls, "_own", ()), *_computed_by(cls)}
        return {name: value for name, value in vars(self).items() if name not in left_behind}

    def _expect_no_state(self: Any, otherwise: str) -> None:
        """Raise RuntimeError if a loaded state would be lost."""
        if vars(self).get("_handed_down") is not None:
            raise RuntimeError(
                f"a state was loaded into {show_step(self)}, from which nothing was read yet, and {otherwise}: load it "
                "into the whole chain, the loader or the copy that is read"
            )

    def take(self, n: int) -> list[T_co]:
        """Return the first `n` items.

        >>> import penstock as ps
        >>> ps.iter.IterableWrapper(range(10)).take(3)
        [0, 1, 2]
        """
        expect_whole("n", n, least=0)
        return list(islice(self, n))

    def peek(self, n: int = 1) -> list[T_co]:
        """Return the first `n` items, read from a copy, so a current pass over the pipe goes on.

        The copy shares what is no part of the chain's graph, such as another chain in a closure.
        Raises TypeError if the chain reads an iterator, such as a generator, which can be read only once.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(range(10))
        >>> iterator = iter(dp)
        >>> next(iterator), dp.peek(2), next(iterator)
        (0, [0, 1], 1)
        """
        with generators_kept():
            return copy_to_look_at(self).take(n)  # type: ignore[no-any-return]

    def stats(self) -> dict[str, dict[str, Any]]:
        """Return, by their names, the counts of the steps that skip or retry, for the last pass.

        Each step has the number of items `skipped`, the number of attempts `retried`, and the `last_errors`. A step
        with an argument "auto" has `tuned`, what was found for it: a list with a text for each chain that was read.
        Steps of the same name are numbered from the source on, as in `"map 1"`.

        >>> import penstock as ps
        >>> dp = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
        >>> list(dp)
        [1, 3]
        >>> dp.stats()["map"]["skipped"], dp.stats()["map"]["last_errors"]
        (1, ["ValueError: invalid literal for int() with base 10: 'x', on 'x'"])
        """
        steps: Any = walk(self)  # type: ignore[arg-type]
        guarded = [pipe for pipe in steps if isinstance(pipe, BasePipe) and (pipe.guard.counts or pipe.tuned)]
        names = [pipe.functional_name or type(pipe).__name__ for pipe in guarded]
        counts = {}
        for place, (name, pipe) in enumerate(zip(names, guarded, strict=True)):
            number = f" {names[place:].count(name)}" if names.count(name) > 1 else ""
            tuned = {} if pipe.tuned is None else {"tuned": [pipe.tuned]}
            counts[name + number] = {**pipe.guard.stats, **tuned}
        return counts


class IterDataPipe(BasePipe[T_co], IterMethods[T_co], TorchIterDataPipe[T_co], Generic[T_co], metaclass=_IterPipeMeta):
    """A pipe that is read item by item; every iterable operator is a subclass.

    A subclass takes its source as an argument, keeps it as an attribute, and yields items from `__iter__`, which may
    return any iterator. One iterator of a pipe is live at a time: a newer one closes the older, whose next step raises
    RuntimeError.

    Resuming works without extra code: the pass runs again from its start and discards the items already emitted. An
    operator resumes faster in one of these ways:

    - It sets `holds_items = False` if it keeps no source items between two of its own. It then goes on from where the
      source stands. It declares other attributes of a pass, such as a count, with `own`.
    - It reads its source with numbers, `items = self.read(self.source)`, and declares the oldest item that it needs,
      `items.keep_from(number)`.
    - It makes many items of each source item with `self.outputs_of_each(function, self.source)`.

    Arguments are kept as attributes of their names, for `repr` and error notes. An operator that draws random numbers
    also derives from `Seeded`, and seeds its generator in `__iter__` with `self.pass_seed`. Each pass has its own seed,
    which `set_seed` and loaders govern and states contain.

    >>> import itertools
    >>> import penstock as ps
    >>> class Pairer(ps.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         yield from itertools.pairwise(self.source)
    >>> list(Pairer(ps.iter.IterableWrapper("abc")))
    [('a', 'b'), ('b', 'c')]
    """

    holds_items: bool = True
    """Whether the operator may keep source items between two of its own items."""

    in_main_process: ClassVar[bool] = False
    """Whether the operator, and all after it, runs in the process that uses the items, even if workers read."""

    gives: ClassVar[Literal["rows", "batches", "same"] | None] = None
    """What each item is: a row, a batch of columns, or the same as in its sources; None if unknown."""

    _is_asked_after_its_end: ClassVar[bool] = False
    """Whether states still need source items after the pass over the operator has ended."""
    _own: ClassVar[Mapping[str, Own]] = {}
    _no_sources: ClassVar[Collection[str]] = ()
    """The names of attributes that are not searched for sources."""
    _pass: Pass | None = None
    _handed_down: Node | None = None
    """The node from which the next pass resumes."""
    _epoch: int = 0
    """The number of the next pass, unless another pipe reads this one."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    if not TYPE_CHECKING:

        def __getitem__(self, index):
            raise TypeError(
                f"{show_step(self)} is read in order, and has no item {index!r:.50}: take(n) and peek(n) give the "
                "first n items, to_map_datapipe() a pipe that is read by key"
            )

        def __len__(self):
            raise TypeError(
                f"object of type {type(self).__name__!r} has no len(): the number of items is unknown before they are "
                "read; set_length(n) gives it, and count() reads them all"
            )

    def __bool__(self) -> bool:
        return True  # without calling `__len__`, which may raise

    # What a subclass may define

    def reset(self) -> None:
        """Called when a pass begins, before anything is pulled, as in torch's pipes."""

    def at_end(self) -> None:
        """Called when all items were emitted; may raise if the end came too early."""

    def provenance(self) -> Provenance | None:
        """Return the files and rows of the last item, or None if unknown.

        Called for error notes. It must be right: an operator that makes each item from the last source item can return
        its source's provenance.
        """
        return None

    # What a subclass may call

    def read(self, source: Any, drop: Callable[[Any], object] | None = None) -> Reading[Any]:
        """Return the items of a source with their numbers; declare those still needed with `keep_from`.

        `drop` is called with each item skipped on resuming, for example to close it.
        """
        assert self._pass is not None, "a source is read in a pass, that is in __iter__"
        return self._pass.read(source, drop)

    def _expect_last(self, item: Any) -> None:
        """Raise RuntimeError if a resumed pass begins after another item: the source has another order now."""
        if self._pass is not None:
            expect_same_order(item, self._pass.last_before)

    def _is_done_with(self, source: Any) -> None:
        """Record that a source has ended: reading it again begins a new pass."""
        if self._pass is not None:
            self._pass.is_done_with(source)

    def outputs_of_each(self, function: Callable[[T], Iterable[R]], items: Iterable[T]) -> Iterator[R]:
        """Return all outputs of a function of each item, chained in C.

        Between items, the places of the sources are recorded when cheap; a resumed pass goes on from there.
        """
        items = iter(items)
        try:
            yield from chain.from_iterable(chain.from_iterable(self._outputs_in_runs(function, items)))
        except Exception as error:
            add_error_context(error, self)  # while the source is open and its last item known
            raise
        finally:
            del items  # a traceback may keep this frame, which must not keep the source open

    def _outputs_in_runs(
        self, function: Callable[[T], Iterable[R]], items: Iterator[T]
    ) -> Iterator[Iterator[Iterable[R]]]:
        try:
            for first in items:
                length = self._pass.items_to_mark if self._pass is not None else 1
                read, done = Tally(), Tally()
                yield done.follow(map(function, read.follow(chain((first,), islice(items, length - 1)))))
                if done.items < read.items:
                    raise RuntimeError(ENDED_BY_STOP_ITERATION)
                if self._pass is not None:
                    self._pass.mark(self, length)
        finally:
            del items  # since Python 3.12, the frame of the failed source keeps this one

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return, as plain data, where the chain stands: just after the last item emitted.

        Raises RuntimeError if the pass ended in an error, or while an item is being made.

        >>> import penstock as ps
        >>> def chain():
        ...     return ps.iter.IterableWrapper(range(6)).map(str)
        >>> dp = chain()
        >>> iterator = iter(dp)
        >>> next(iterator), next(iterator)
        ('0', '1')
        >>> resumed = chain()
        >>> resumed.load_state_dict(dp.state_dict())
        >>> list(resumed)
        ['2', '3', '4', '5']
        """
        return state_of(self)

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Let the next pass resume from a state of an equal chain.

        Raises ValueError, with the difference, if the state has another chain, version or arguments. The next pass
        raises RuntimeError if a source gives its items in another order, where that can be noticed. `strict=False`
        accepts other arguments, such as another batch size, and other orders.
        """
        load_state(self, state_dict, strict)

    def _stands(self, waiting: Waiting) -> Node | None:
        """Return where the pipe stands; add the sources whose nodes are still missing to `waiting`."""
        if self._pass is not None and self._pass.begun:
            return self._pass.node(self, waiting)
        return self._handed_down

    def _epoch_of_state(self) -> int:
        """Return the epoch of the pipe, as the end of a chain."""
        current = self._pass
        return current.path.epoch if current is not None and current.begun else self._epoch

    def _take_node(self, node: Node | None) -> None:
        """Let the next pass begin from a node, or afresh."""
        self._handed_down = node

    def _begin_part(self, link: Link, node: Node | None) -> None:
        """Record the link of the reader, and the node from which the next pass begins."""
        self._expect_no_state("what reads it begins afresh")
        outer: Link | None = self.__dict__.get("_link")
        if outer is not link:
            self.__dict__["_link"], link.outer = link, outer
        link.node = node

    def _forget_passes(self) -> None:
        """Called before a state of the chain is loaded, to end all passes."""
        self._pass = self._handed_down = None
        self.__dict__.pop("_link", None)

    def _is_to_go_on_from(self, node: Node) -> None:
        """Called when a loaded state has a node of this pipe, which may or may not be used."""

    def _iterator_made(self) -> None:
        """Called when a new iterator is made; the pass begins with its first item."""

    def _iterator_closed_unread(self) -> None:
        """Called when an iterator was closed before its first item was requested."""

    def _number_of_unseen(self) -> int | None:
        """Return a number for a chain outside the graph that is begun now: the same one when a resumed pass begins it.

        None if a resumed pass does not run again.
        """
        return None if self._pass is None else self._pass.count_unseen()

    def _pop_node(self) -> Node:
        link: Link | None = self.__dict__.get("_link")
        if link is not None:
            node, link.node = link.node, None
        else:
            node, self._handed_down = self._handed_down, None
        return node or {}


class MapDataPipe(BasePipe[T_co], MapMethods[T_co], TorchMapDataPipe[T_co], Generic[T_co], metaclass=_MapPipeMeta):
    """A pipe that is read by index or key; every map-style operator is a subclass.

    >>> import penstock as ps
    >>> dp = ps.map.SequenceWrapper("abc").map(str.upper)
    >>> dp[1], len(dp)
    ('B', 3)
    """

    def _pass_begins(self) -> None:
        """Called when a pass begins over a pipe that reads this one."""
        if "guard" in vars(self):
            self.guard.take_up()

    def __iter__(self) -> Iterator[T_co]:
        length, tally = len(self), Tally()
        yield from tally.follow(map(self.__getitem__, range(length)))
        if tally.items < length:
            raise RuntimeError(ENDED_BY_STOP_ITERATION)


bases.update({"iter": IterDataPipe, "map": MapDataPipe})
for _kind in (IterDataPipe, MapDataPipe):
    torch_looks_up(_kind, find_method)
torch_loads_as_they_are(IterDataPipe)
