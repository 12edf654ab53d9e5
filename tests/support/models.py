"""Models that the tests of map_pool call, by whichever engine."""

import os
import threading

import torch


class Scaler:
    """Times a number; tells in a folder that it was made."""

    def __init__(self, factor=10, folder=None):
        self.factor = factor
        if folder is not None:
            (folder / f"{os.getpid()}-{threading.get_ident()}-{id(self)}").touch()

    def __call__(self, item):
        return item * self.factor


class Net(torch.nn.Module):
    """Sums the rows of "x"; tells in which mode it was called."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        torch.nn.init.constant_(self.layer.weight, 1.0)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, batch):
        return {
            "id": batch["id"],
            "sum": self.layer(batch["x"])[:, 0],
            "flags": (self.training, torch.is_inference_mode_enabled(), batch["x"].device.type),
        }


class FailsAt:
    """Does something at one item."""

    def __init__(self, wrong, how):
        self.wrong, self.how = wrong, how

    def __call__(self, item):
        if item == self.wrong:
            self.how()
        return item


def tensors(first, rows):
    """Return rows whose "id" begins at a number."""
    return {"id": torch.arange(first, first + rows), "x": torch.ones(rows, 3)}
