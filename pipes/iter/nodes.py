"""Convert nodes of `torchdata.nodes` to chains, and back."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Self

import torch
from torchdata.nodes import BaseNode, Loader  # type: ignore[import-untyped, unused-ignore]

from ...errors.notes import add_note
from ...registry import IterDataPipe, Seeded, T, derive_seed, functional_datapipe, load_place, own, place_of, seed_graph
from ...state.seeds import PassPath
from ...state.step_text import step_text
from ..bases.chain_node import ChainNode

_MOST_EPOCHS = 10_000
"""The highest epoch of a node: it counts up to it, reset by reset."""


@functional_datapipe(None)
class NodeReader(Seeded, IterDataPipe[T]):
    """Yield the items of a node of `torchdata.nodes`, or of the root of a `torchdata.nodes.Loader`.

    Each pass resets the node, and nothing else may read it. The epoch of the node is that of the pass, plus the number
    of times that the pass has read the node before, as behind `cycle`. A state contains the state of the node, and is
    as exact as that. Its tensors and other values that are not plain data are stored by `torch.save` and read with
    `weights_only=True`.

    `set_seed` and the seeds of loaders also reach chains in the node, made by `to_node`. To share the items among
    workers, put a `sharding_filter` after this: one inside the node is not found. Pickles and copies, which loaders
    send to workers, have the node as before a pass; its content must be picklable. When a pass is given up, the threads
    and processes of the node end.

    Raises TypeError for anything but a node or a `Loader`.

    >>> from torchdata.nodes import Prefetcher
    >>> node = Prefetcher(IterableWrapper(range(6)).shuffle().to_node(), prefetch_factor=2)
    >>> dp = NodeReader(node).batch(3)
    >>> sorted(dp.unbatch())
    [0, 1, 2, 3, 4, 5]
    """

    resumes_from_start = False
    transient = ("_unused",)

    standing: Any = own(None, save=lambda node: node if node is None or isinstance(node, dict) else _state_of(node))
    """The node, during a pass; its state, before a resumed pass and after a pass that was given up."""
    epoch: int = own(0)
    """The epoch of the node in this pass."""
    _last: tuple[int, dict[str, Any]] | None = None
    """The epoch of the node in the last pass, and its state after it."""
    _path = PassPath(0)
    _unused: Any = None
    """A copy of the node from before its first pass: a reset does not go back to an earlier epoch."""
    _first_places: list[dict[str, Any]] | None = None
    """The places of the chains in the node before its first pass."""

    def __init__(self, node: BaseNode[T] | Loader[T]) -> None:
        root = node.root if isinstance(node, Loader) else node
        if not isinstance(root, BaseNode):
            raise TypeError(
                f"NodeReader reads a node of torchdata.nodes, and this is of type {type(node).__name__}; "
                "other iterables go into an IterableWrapper"
            )
        self.node = root

    def __iter__(self) -> Iterator[T]:
        self._begin()
        node = self.standing = self.node
        try:
            yield from node
        finally:
            with suppress(Exception):  # a failed node may have no state
                self.standing = _state_of(node)
                self._last = self.epoch, self.standing
            for part in _nodes_in(node):
                _end_threads(part)

    def _begin(self) -> None:
        if self._unused is None:
            self._unused = _before_a_pass(self.node)
            self._first_places = self._places_before()
        if self.standing is not None:
            self.node.reset(_as_it_was(self.standing))
            return
        self.epoch = self._path.epoch + self._path.before
        if self._last is not None and self._last[0] == self.epoch - 1:
            self.node.reset(_as_it_was(self._last[1]))
            next(self.node, None)  # nodes count an epoch only once it was read from
        else:
            self._begin_anew()
        if self._seed is not None:
            for number, chain in enumerate(self._chains()):
                seed_graph(chain, derive_seed(self.pass_seed, number))
        self.node.reset()

    def _begin_anew(self) -> None:
        """Bring an unused copy of the node to the epoch: others were read elsewhere, or it is read again."""
        if self.epoch > _MOST_EPOCHS:
            raise ValueError(f"a node has {_MOST_EPOCHS} epochs at most, and cannot begin epoch {self.epoch}")
        self.node = _before_a_pass(self._unused)
        for chain, place in zip(self._chains(), self._first_places or (), strict=False):
            load_place(chain, place)
        for _ in range(self.epoch):
            self.node.reset()
            next(self.node, None)

    def _chains(self) -> list[IterDataPipe[Any]]:
        return [part.chain for part in _nodes_in(self.node) if isinstance(part, ChainNode)]

    def begin_random_pass(self, path: PassPath) -> None:
        self._path = path
        if self._seed is not None:  # else the chains in the node have their own seeds
            super().begin_random_pass(path)

    def random_state(self) -> dict[str, Any]:
        seeds: dict[str, Any] = {} if self._seed is None else super().random_state()
        return {**seeds, "last": self._last and [*self._last], "chains": self._places_before()}

    def _places_before(self) -> list[dict[str, Any]]:
        """Return the places of the chains before the first pass; an empty list where each pass seeds them."""
        if self._first_places is not None:
            return self._first_places
        return [*map(place_of, self._chains())] if self._seed is None else []

    def set_random_state(self, state: dict[str, Any]) -> None:
        self._seed, self._first_epoch = state.get("seed"), state.get("first_epoch")
        last = state["last"]
        if last is not None and not (type(last) in (list, tuple) and len(last) == 2 and type(last[0]) is int):
            raise TypeError(f"this is no epoch of a node with its state: {last!r:.100}")
        self._last, self._first_places = last and (last[0], last[1]), [*state["chains"]]
        for chain, before in zip(self._chains(), self._first_places, strict=False):
            load_place(chain, before)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        unused = self.node if self._unused is None else self._unused
        return {**state, "node": _before_a_pass(unused, to_send=True)} if "node" in state else state

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = memo[id(self)] = type(self).__new__(type(self))
        try:
            copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        except Exception as error:
            add_note(
                error,
                f"penstock: the node of {step_text(self)} cannot be copied, as loaders and workers need it; a "
                "generator, an open file or the like in it must be made by what a reset begins",
            )
            raise
        return copied


def to_node(self: IterDataPipe[T]) -> BaseNode[T]:
    """Return the chain as a node of `torchdata.nodes`, for a Prefetcher, a Loader, ….

    Each reset without a state begins a new pass over the chain, in the order of that pass. The state of the node is
    that of the chain, so a Loader resumes exactly. While the node is in use, nothing else may read the chain.

    >>> from torchdata.nodes import Batcher, Loader
    >>> node = IterableWrapper(range(5)).map(lambda x: x * 10).to_node()
    >>> list(Loader(Batcher(node, batch_size=2, drop_last=False)))
    [[0, 10], [20, 30], [40]]
    """
    return ChainNode(self)


IterDataPipe.to_node = to_node  # type: ignore[attr-defined]  # not an operator: it does not return a pipe


def _nodes_in(value: Any) -> Iterator[Any]:
    """Yield a node and all that it reads from, or the nodes in a container."""
    if _is_node(value):
        yield value
        for part in vars(value).values():
            yield from _nodes_in(part)
    elif _contains_nodes(value):
        for part in _elements(value):
            yield from _nodes_in(part)


def _before_a_pass(value: Any, to_send: bool = False) -> Any:
    """Return a copy of a node, and of those it reads from, without the threads and iterators of the last reset.

    Only nodes are copied. With `to_send`, modules are replaced by picklable references.
    """
    if _is_node(value):
        node = copy.copy(value)
        for name, part in vars(node).items():
            begun = name == "_it" and not _is_node(part)  # torchdata's nodes keep the iterator of a reset here
            vars(node)[name] = None if begun else _before_a_pass(part, to_send)
        return node
    if _contains_nodes(value):
        if isinstance(value, dict):
            return {name: _before_a_pass(part, to_send) for name, part in value.items()}
        return type(value)(_before_a_pass(part, to_send) for part in value)
    return _ByName(value) if to_send and isinstance(value, ModuleType) else value


class _ByName:
    """Replaces a module in a pickle or a copy; torchdata 0.11 keeps one in its mappers."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self._module.__name__,)


def _end_threads(node: Any) -> None:
    # Nodes have a shutdown after torchdata 0.11. In 0.11, `_shutdown` ends the threads on collection.
    end: Callable[[], None] | None = getattr(node, "shutdown", None) or getattr(
        vars(node).get("_it"), "_shutdown", None
    )
    if end is not None:
        end()


def _is_node(value: Any) -> bool:
    return isinstance(value, BaseNode)


def _contains_nodes(value: Any) -> bool:
    """Say whether a value is a container of nodes. Only its first part is checked: it may be a large data set."""
    return type(value) in (dict, list, tuple) and _is_node(next(iter(_elements(value)), None))


def _elements(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _state_of(node: Any) -> Any:
    return _as_plain(node.state_dict())


def _as_plain(value: Any) -> Any:
    """Return the state of a node as plain data, copied: nodes change states that they took or returned.

    Other values are stored as bytes, under `$torch`. Keys that begin with `$` get a second `$`: states of chains nested
    in the node have such keys, which the outer chain would interpret.
    """
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if type(value) is list:
        return [_as_plain(part) for part in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {f"${key}" if key.startswith("$") else key: _as_plain(part) for key, part in value.items()}
    saved = io.BytesIO()
    torch.save(value, saved)
    return {"$torch": saved.getvalue()}


def _as_it_was(value: Any) -> Any:
    """Return the state that `_as_plain` converted."""
    if isinstance(value, list):
        return [_as_it_was(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$torch"}:
        return torch.load(io.BytesIO(value["$torch"]), weights_only=True)
    return {key.removeprefix("$"): _as_it_was(part) for key, part in value.items()}
