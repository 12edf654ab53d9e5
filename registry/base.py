"""The common base of iterable and map-style pipes: what an operator declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

from ..errors.observer import Observer
from ..errors.policy import ErrorPolicy, OnError, Retry
from ..state.copying import SourcesFirst
from ..state.fields import StateField
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe
from .members import public_members
from .method_lookup import find_method
from .registration import operators
from .traits import Trait, product_of_buffers

T_co = TypeVar("T_co", covariant=True)

# For operators
P = ParamSpec("P")
"""The parameters of a function."""
R = TypeVar("R")
"""The type of what a step makes of items."""
T = TypeVar("T")
"""The type of items."""

_PIPES = (TorchIterDataPipe, TorchMapDataPipe)


class BasePipe(SourcesFirst, Generic[T_co]):
    """The common base of iterable and map-style pipes."""

    functional_name: ClassVar[str | None] = None
    """The name of the registered method; `functional_datapipe` sets it."""

    _state_fields: ClassVar[Mapping[str, StateField]] = {}

    payload: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that hold items. They are not searched for sources."""

    whole_sources: ClassVar[tuple[str, ...]] = ()
    """Names of attributes: each reader needs these sources whole, where others are divided among the readers."""

    transient: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that belong to a pass. Like cached properties, pickles and copies omit them."""

    broken_laws: ClassVar[Mapping[str, str]] = {}
    """The laws that the operator breaks, each with the reason."""

    empty_arguments: ClassVar[Mapping[str, Any]] = {}
    """Arguments of the constructor that go with an empty source, by name; a law makes the operator with them."""

    works_in: str | None = None
    """Where the operator works, if not in the reader's thread: "a thread", "threads", "processes" or "actors"."""

    shown_as: ClassVar[str | None] = None
    """The name of the step in messages, where users do not know its class."""

    traits: ClassVar[tuple[Trait, ...]] = ()
    """What the operator does, in the words that `registry.traits` explains. `explain` finds mistakes by them."""

    buffers: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that bound how much the operator holds: items, or bytes for `max_bytes`."""

    buffered: ClassVar[str] = "items"
    """What these parameters count: "items", "rows", "files", …"""

    tuner: Any = None
    """It finds arguments given as "auto" while the chain is read; None if there are none."""

    faster: str | None = None
    """A sentence with arguments that would make the operator faster, for profiles; None if nothing is known."""

    _observer: Observer | None = None
    """The listener to the step, in a profiled chain."""

    shows_progress: ClassVar[bool] = False
    """Whether the operator shows a progress bar of its own."""

    error_policy: ErrorPolicy = ErrorPolicy("raise")
    """It handles items that fail; an operator with `on_error` has its own, the others share this one."""

    on_error: OnError
    """The argument of that name, where `handle_errors` was called."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[T_co]: ...

        def __len__(self) -> int: ...

    @property
    def tuned(self) -> str | None:
        """What was found for arguments given as "auto", written as arguments; None if there are none."""
        return None if self.tuner is None else self.tuner.found

    def result(self) -> Any:
        """Return the result of calling the class: this pipe, or the pipes that read it."""
        return self

    def most_held(self) -> int | None:
        """Return how much the operator holds at most, counted in `buffered`; None if that is not bounded."""
        return product_of_buffers(self)  # type: ignore[arg-type]

    def handle_errors(
        self, on_error: OnError, can_skip: bool = True, can_retry: bool = True, applied: OnError | None = None
    ) -> None:
        """Keep `on_error`, and make the policy that applies it; called in the constructor of an operator.

        `applied` is what the policy applies in its place, such as a `Retry` that ends in it.

        Raises ValueError for a value that means nothing, or that the operator cannot follow.
        """
        self.on_error = on_error
        self.error_policy = ErrorPolicy(on_error if applied is None else applied, can_skip, can_retry)

    def _expect_no_skips(self) -> None:
        """Raise TypeError where items may be left out, so that the length is unknown."""
        if self.error_policy.skips:
            raise TypeError(f"{type(self).__name__} leaves out items that fail, so its length is unknown")

    @property
    def _retry(self) -> Retry | None:
        """The `Retry` given as `on_error`, which the clients of storages follow, too."""
        return self.on_error if isinstance(self.on_error, Retry) else None

    def interrupt(self) -> None:
        """Called by another thread when the pass is given up: a step that waits should end soon."""
        if "error_policy" in vars(self):
            self.error_policy.give_up()

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
