"""Lets torchvision be imported where the operators of its wheel do not load, as beside a torch without CUDA."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Declaring:
    """An import hook that declares the operators which `import torchvision` asks for, before it does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare()


def declare() -> None:
    """Declare the operators, unless the wheel's own load; they cannot be called.

    Transforms, data sets and tv_tensors need none of them.
    """
    import torch  # not in each process

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


_libraries: list[Any] = []
"""Kept, since a declaration ends with its library."""

sys.meta_path.insert(0, Declaring())
