"""Lets torchvision be imported where the operators of its wheel do not load, as beside a torch without CUDA."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

__all__ = ["declare"]


def declare() -> None:
    """Declare the operators that `import torchvision` asks for, unless the wheel's own load; they cannot be called.

    Transforms, data sets and tv_tensors need none of them.
    """
    torchvision = find_spec("torchvision")
    if torchvision is None or torchvision.origin is None or hasattr(torch.ops.torchvision, "nms"):
        return
    for compiled in Path(torchvision.origin).parent.glob("_C.*"):
        try:
            torch.ops.load_library(compiled)
        except OSError:
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _libraries.append(library)


_libraries: list[torch.library.Library] = []
"""Kept, since a declaration ends with its library."""
