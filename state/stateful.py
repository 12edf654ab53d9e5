"""The part of an iterable pipe that runs its passes, and saves and resumes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from .error_context import add_error_context
from .fields import StateField, Tally
from .foreign import OurPipe
from .node import Node
from .passes import ENDED_BY_STOP_ITERATION, Pass
from .replay import Reading, SavedNodes, expect_no_fewer, expect_same_order
from .save import load_state, state_of
from .sources import SourceLink
from .step_text import step_text

T = TypeVar("T")
R = TypeVar("R")


class Stateful(OurPipe):
    """The state of an iterable pipe: its passes, and the node from which the next one begins."""

    _state_fields: ClassVar[Mapping[str, StateField]] = {}
    _no_sources: ClassVar[Collection[str]] = ()
    """The names of attributes that are not searched for sources."""
    _is_asked_after_its_end: ClassVar[bool] = False
    """Whether states still need source items after the pass over the operator has ended."""
    _pass: Pass | None = None
    _reader_link: SourceLink | None = None
    """The record of the pipe in the pass of what reads it; None at the end of a chain."""
    _resume_node: Node | None = None
    """The node from which the next pass resumes, at the end of a chain."""
    _epoch: int = 0
    """The number of the next pass, unless another pipe reads this one."""
    _counts_epochs: bool = False
    """Whether its passes are epochs of its own, also those that a step of another chain begins."""

    def read(self, source: Any, drop: Callable[[Any], object] | None = None) -> Reading[Any]:
        """Return the items of a source with their numbers; declare those still needed with `keep_from`.

        `drop` is called with each item skipped on resuming, for example to close it.
        """
        assert self._pass is not None, "a source is read in a pass, that is in __iter__"
        return self._pass.read(source, drop)

    def _expect_last(self, last: Iterable[Any]) -> None:
        """Raise RuntimeError if a pass that resumes after an item finds none there, or another one."""
        found = [*last]
        expect_no_fewer(1 - len(found))
        if self._pass is not None:
            expect_same_order(found[0], self._pass.expected_last)

    def _source_ended(self, source: Any) -> None:
        """Record that a source has ended: reading it again begins a new pass."""
        if self._pass is not None:
            self._pass.source_ended(source)

    def outputs_of_each(self: Any, function: Callable[[T], Iterable[R]], items: Iterable[T]) -> Iterator[R]:
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
        assert self._pass is not None
        try:
            for first in items:
                length = self._pass.items_to_checkpoint
                read, done = Tally(), Tally()
                yield done.follow(map(function, read.follow(chain((first,), islice(items, length - 1)))))
                if done.items < read.items:
                    raise RuntimeError(ENDED_BY_STOP_ITERATION)
                self._pass.checkpoint(self, length)
        finally:
            del items  # since Python 3.12, the frame of the failed source keeps this one

    def state_dict(self: Any) -> dict[str, Any]:
        """Return, as plain data, where the chain is: just after the last item emitted.

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

    def load_state_dict(self: Any, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Let the next pass resume from a state of an equal chain.

        Raises ValueError, with the difference, if the state has another chain, version or arguments. The next pass
        raises RuntimeError if a source gives its items in another order, where that can be noticed. `strict=False`
        accepts other arguments, such as another batch size, and other orders.
        """
        load_state(self, state_dict, strict)

    # The protocol of passes

    def _attach_reader(self, link: SourceLink, node: Node | None) -> None:
        """Record how a reader reads this pipe, and the node from which the next pass begins."""
        self._expect_no_state("what reads it begins afresh")
        if self._reader_link is not link:
            self._reader_link, link.outer = link, self._reader_link
        link.node = node

    def _detach_reader(self, link: SourceLink) -> None:
        """Release this pipe from a reader whose pass has ended, so that others can read it."""
        if self._pass is not None:
            self._pass.kept_last_item = None
        if self._reader_link is link:
            self._reader_link = link.outer
            return
        inner = self._reader_link
        while inner is not None and inner.outer is not link:
            inner = inner.outer
        if inner is not None:
            inner.outer = link.outer

    def _save_node(self, saved: SavedNodes) -> Node | None:
        """Return where the pipe is; `saved` has and gets the nodes of sources."""
        if self._pass is not None and self._pass.begun:
            return self._pass.save(self, saved)
        return self._resume_node

    def _number_of_inner_chain(self) -> int | None:
        """Return a number for a chain that the step begins to read by itself, the same when a resumed pass begins it.

        None if a resumed pass does not run again.
        """
        return None if self._pass is None else self._pass.count_inner_chain()

    def _take_node(self) -> Node:
        """Return the node from which a pass begins, which no later pass uses."""
        if (link := self._reader_link) is not None:
            node, link.node = link.node, None
        else:
            node, self._resume_node = self._resume_node, None
        return node or {}

    def _expect_no_state(self: Any, otherwise: str) -> None:
        """Raise RuntimeError if a loaded state would be lost."""
        if self._resume_node is not None:
            raise RuntimeError(
                f"a state was loaded into {step_text(self)}, from which nothing was read yet, and {otherwise}: load it "
                "into the whole chain, the loader or the copy that is read"
            )

    def _epoch_of_state(self) -> int:
        """Return the epoch of the pipe, as the end of a chain."""
        current = self._pass
        return current.path.epoch if current is not None and current.begun else self._epoch

    def _reset_passes(self) -> None:
        """Called before a state of the chain is loaded, to end all passes."""
        self._pass = self._reader_link = self._resume_node = None

    def _pass_opened(self) -> None:
        """Called when a new iterator is made; the pass begins with its first item."""

    def _pass_unread(self) -> None:
        """Called when an iterator was closed before its first item was requested."""
