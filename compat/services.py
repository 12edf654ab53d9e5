"""The rest of torchdata.dataloader2: names kept for imports, and errors that name the replacement."""

from __future__ import annotations

from typing import Any, Self

from ..runner import ReadingServiceInterface


class ShuffleSpec:
    """An empty class, as in torchdata."""


class CheckpointableReadingServiceInterface(ReadingServiceInterface):
    """A reading service that saved its own state. Subclasses can be defined, but not instantiated.

    Here `DataLoader2.state_dict()` saves the state of any chain, with any reading service.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise NotImplementedError(
            f"{cls.__name__} saves a state in checkpoint(), which nothing would call: derive the service from "
            "ReadingServiceInterface, since DataLoader2.state_dict() saves the chain's position"
        )
