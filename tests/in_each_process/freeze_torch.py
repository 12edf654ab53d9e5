"""Lets the garbage collector pass over what `import torch` makes: a process begins 0.1 s and ends 0.5 s sooner."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class Freezing:
    """An import hook that freezes all objects when torch has been imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_freeze(module: ModuleType) -> None:
                gc.disable()
                load(module)
                gc.freeze()
                gc.enable()

            spec.loader.exec_module = load_and_freeze  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Freezing())
