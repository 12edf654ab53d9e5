"""The only interface to torch's own DataPipes: no other file imports `torch.utils.data.datapipes`.

torch's maintainers have said that they may remove the module. Without it, this file defines the same names on
`torch.utils.data.IterableDataset` and `Dataset`, and the rest of Penstock stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from torch.utils.data import Dataset, IterableDataset

from .node import Node

__all__ = [
    "SHARDING_PRIORITIES",
    "DataChunk",
    "OurPipe",
    "TorchIterDataPipe",
    "TorchIterMeta",
    "TorchMapDataPipe",
    "TorchMapMeta",
    "declared",
    "declares",
    "registered_with_torch",
    "torch_is_pickling",
    "torch_is_traversing",
    "torch_loads_as_they_are",
    "torch_looks_up",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_LoaderWrapper: Any = None
if not TYPE_CHECKING:
    with suppress(ImportError):  # torch without DataPipes
        from torch.utils.data.datapipes.datapipe import DataChunk
        from torch.utils.data.datapipes.datapipe import IterDataPipe as TorchIterDataPipe
        from torch.utils.data.datapipes.datapipe import MapDataPipe as TorchMapDataPipe
        from torch.utils.data.datapipes.datapipe import _IterDataPipeSerializationWrapper as _LoaderWrapper
        from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES

# Also for type checkers: torch's declarations have the methods of torch's operators, which ours replace.
if TYPE_CHECKING or _LoaderWrapper is None:

    class DataChunk(list[T]):
        """A batch: a list with its items also as `items`, as in torch."""

        def __init__(self, items: Iterable[T]) -> None:
            super().__init__(items)
            self.items = list(self)

        def raw_iterator(self) -> Iterator[T]:
            """Yield the items."""
            yield from self

    class SHARDING_PRIORITIES(IntEnum):  # noqa: N801
        """The levels at which a chain can be sharded."""

        DEFAULT = 1
        DISTRIBUTED = 2
        MULTIPROCESSING = 3

    class TorchIterDataPipe(IterableDataset[T_co]):
        """Replaces torch's IterDataPipe as a base."""

    class TorchMapDataPipe(Dataset[T_co]):
        """Replaces torch's MapDataPipe as a base."""


if TYPE_CHECKING:
    from torch.utils.data.datapipes._typing import _DataPipeMeta as TorchMapMeta
    from torch.utils.data.datapipes._typing import _IterDataPipeMeta as TorchIterMeta
else:
    TorchIterMeta, TorchMapMeta = type(TorchIterDataPipe), type(TorchMapDataPipe)


class OurPipe:
    """The mark of our own iterable pipes, by which the core tells them from those of other libraries."""

    _can_save_node: ClassVar[bool] = True

    if TYPE_CHECKING:  # `Stateful` defines them
        _resume_node: Node | None

        def _attach_reader(self, link: Any, node: Node | None) -> None: ...

        def _detach_reader(self, link: Any) -> None: ...

        def _save_node(self, saved: Any) -> Node | None: ...

        def _reset_passes(self) -> None: ...

    def _node_loaded(self, node: Node) -> None:
        """Called when a loaded state has a node of this pipe, which may or may not be used."""

    def _foreign_seeds(self) -> Node | None:
        """Return a node with the seeds of the present pass, which pipes of other libraries cannot derive again."""
        return None


def declares(pipe: object, *names: str) -> bool:
    """Say whether the class of a pipe has one of these attributes; an instance of torch's would look up operators."""
    return any(hasattr(type(pipe), name) for name in names)


def declared(pipe: object, name: str, default: Any) -> Any:
    """Return an attribute of the class of a pipe, or the default: other libraries' pipes declare nothing."""
    return getattr(type(pipe), name, default)


def registered_with_torch(kind: type) -> dict[str, Callable[..., Any]]:
    """Return the methods that torch's own registry holds for a kind of pipe."""
    base = TorchIterDataPipe if issubclass(kind, TorchIterDataPipe) else TorchMapDataPipe
    functions: dict[str, Callable[..., Any]] = getattr(base, "functions", {})
    return functions


def torch_is_traversing() -> bool:
    """Say whether torch is traversing a graph by pickling pipes, and needs only the pipes."""
    return getattr(TorchIterDataPipe, "getstate_hook", None) is not None


def torch_is_pickling() -> bool:
    """Say whether torch records the pipes in a pickle, as it does to traverse a graph."""
    return getattr(TorchIterDataPipe, "reduce_ex_hook", None) is not None


def torch_looks_up(kind: type, find: Callable[[Any, str], Any]) -> None:
    """Let torch's own pipes call `find(pipe, name)` for a method that they do not have.

    Our names stay out of torch's registry: another library that registers the same name later would fail on import.
    """
    base: Any = TorchIterDataPipe if issubclass(kind, TorchIterDataPipe) else TorchMapDataPipe
    own: Any = getattr(base, "__getattr__", None)
    theirs = registered_with_torch(kind)

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in theirs:
            return own(self, name)
        if name[:1] == "_":  # fast path: torch's hook looks up a missing private name per item
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return find(self, name)

    base.__getattr__ = __getattr__


def torch_loads_as_they_are(kind: type) -> None:
    """Let torch's DataLoader and torchdata's StatefulDataLoader read the pipes of a kind directly.

    They wrap each pipe, which hides its `state_dict`: StatefulDataLoader would begin again, in another random order,
    and skip.
    """
    if _LoaderWrapper is None:
        return

    def __new__(cls: type, *pipe: Any) -> Any:  # noqa: N807
        return pipe[0] if pipe and isinstance(pipe[0], kind) else object.__new__(cls)

    _LoaderWrapper.__new__ = staticmethod(__new__)
