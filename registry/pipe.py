"""The base class of iterable pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from ..errors.provenance import Provenance
from ..state.foreign import TorchIterDataPipe, torch_loads_as_they_are, torch_looks_up
from ..state.stateful import Stateful
from ..state.step_text import step_text
from .base import BasePipe
from .metaclasses import IterPipeMeta
from .method_lookup import find_method
from .registration import bases

T_co = TypeVar("T_co", covariant=True)

if TYPE_CHECKING:
    from .methods import IterMethods
else:

    class IterMethods(Generic[T_co]):
        """The methods of operators, for type checkers."""


class IterDataPipe(
    Stateful, BasePipe[T_co], IterMethods[T_co], TorchIterDataPipe[T_co], Generic[T_co], metaclass=IterPipeMeta
):
    """A pipe that is read item by item; every iterable operator is a subclass.

    A subclass takes its source as an argument, keeps it as an attribute, and yields items from `__iter__`, which may
    return any iterator. One iterator of a pipe is live at a time: a newer one closes the older, whose next step raises
    RuntimeError.

    Resuming works without extra code: the pass runs again from its start and discards the items already emitted. An
    operator resumes faster in one of these ways:

    - It sets `resumes_from_start = False` if it keeps no source items between two of its own. It then goes on from
      where the source is. It declares other attributes of a pass, such as a count, with `own`.
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

    resumes_from_start: bool = True
    """Whether a resumed pass runs again from its start.

    False for an operator that goes on from where its source is, and from what it declares by `own` and `keep_from`.
    """

    in_main_process: ClassVar[bool] = False
    """Whether the operator, and all after it, runs in the process that uses the items, even if workers read."""

    gives: ClassVar[Literal["rows", "batches", "same"] | None] = None
    """What each item is: a row, a batch of columns, or the same as in its sources; None if unknown."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    if not TYPE_CHECKING:

        def __getitem__(self, index):
            raise TypeError(
                f"{step_text(self)} is read in order, and has no item {index!r:.50}: take(n) and peek(n) give the "
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


bases["iter"] = IterDataPipe
torch_looks_up(IterDataPipe, find_method)
torch_loads_as_they_are(IterDataPipe)
