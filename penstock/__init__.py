"""Penstock: small, composable DataPipes for PyTorch.

>>> import penstock as ps
>>> dp = ps.iter.IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).map(lambda x: x * x).batch(2)
>>> list(dp)
[[0, 4], [16, 36], [64]]
"""

from pathlib import Path as _Path

import lazy_loader as _lazy

# In the source tree, the subpackages are beside this folder, not in it. The tree takes precedence over an install.
if not (_Path(__file__).parent / "registry").is_dir():
    __path__.append(str(_Path(__file__).parents[1]))

from .pipes import iter as iter
from .pipes import map as map
from .registry import IterDataPipe, MapDataPipe, later

# The other names in `__init__.pyi` are imported on first use.
__getattr__, _, __all__ = _lazy.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _kind in (IterDataPipe, MapDataPipe):  # not an operator: what it gives is no pipe
    _kind.to_ray_dataset = later("penstock.runner.ray_data", "to_ray_dataset")  # type: ignore[attr-defined]
