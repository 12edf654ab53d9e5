"""The base classes of all pipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from ..errors.observer import Observer
from ..errors.policy import Guard
from ..errors.provenance import Provenance
from ..state.copying import SourcesFirst
from ..state.fields import StateField, Tally
from ..state.foreign import (
    TorchIterDataPipe,
    TorchMapDataPipe,
    torch_is_pickling,
    torch_is_traversing,
    torch_loads_as_they_are,
    torch_looks_up,
)
from ..state.graph import sources_of
from ..state.run import ENDED_BY_STOP_ITERATION
from ..state.stateful import PASS_ATTRIBUTES, Stateful
from ..state.step_text import step as show_step
from .members import public_members
from .metaclasses import IterPipeMeta, MapPipeMeta, cached_properties
from .registration import bases, find_method, operators
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


class BasePipe(SourcesFirst, Generic[T_co]):
    """The common base of iterable and map-style pipes."""

    functional_name: ClassVar[str | None] = None
    """The name of the registered method; `functional_datapipe` sets it."""

    _state_fields: ClassVar[Mapping[str, StateField]] = {}

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
    """The listener to the step, in a profiled chain."""

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
        return public_members(self, super().__dir__())

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of the pipe, without those of a pass, which `state_dict` returns."""
        if torch_is_traversing():
            return {"sources": sources_of(self)}  # type: ignore[arg-type]
        if not torch_is_pickling() and isinstance(self, Stateful):
            self._expect_no_state("a pickle or copy of it begins afresh")
        cls: Any = type(self)
        left_behind = {*PASS_ATTRIBUTES, *cls.transient, *cls._state_fields, *cached_properties(cls)}
        return {name: value for name, value in vars(self).items() if name not in left_behind}


class IterDataPipe(
    Stateful, BasePipe[T_co], IterMethods[T_co], TorchIterDataPipe[T_co], Generic[T_co], metaclass=IterPipeMeta
):
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


class MapDataPipe(BasePipe[T_co], MapMethods[T_co], TorchMapDataPipe[T_co], Generic[T_co], metaclass=MapPipeMeta):
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
