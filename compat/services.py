"""The rest of torchdata.dataloader2: what a program may name, and what says that it is done another way here."""

from __future__ import annotations

from typing import Any, Self

from ..runner import ReadingServiceInterface

__all__ = ["CheckpointableReadingServiceInterface", "ShuffleSpec"]


class ShuffleSpec:
    """A name without methods, as it was."""


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """A reading service that saved the state itself. A subclass can be defined, but not made.

    Here `DataLoader2.state_dict()` says where any chain stands, through any reading service.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise NotImplementedError(
            f"{cls.__name__} saves a state in checkpoint(), which nothing would call: DataLoader2.state_dict() says "
            "where the chain stands, so derive the service from ReadingServiceInterface"
        )
