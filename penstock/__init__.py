"""Penstock: small, composable DataPipes for PyTorch.

>>> import penstock as ps
>>> dp = ps.iter.IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).map(lambda x: x * x).batch(2)
>>> list(dp)
[[0, 4], [16, 36], [64]]
"""

import sys as _sys
from pathlib import Path as _Path
from typing import Any as _Any

import lazy_loader as _lazy

# In the source tree, the subpackages are beside this folder, not in it. The tree takes precedence over an install.
if not (_Path(__file__).parent / "registry").is_dir():
    __path__.append(str(_Path(__file__).parents[1]))

from .pipes import iter as iter
from .pipes import map as map
from .pipes.collect import where_it_is as _where_it_is
from .registry import IterDataPipe, MapDataPipe
from .registry import later as _later

_sys.modules[f"{__name__}.iter"], _sys.modules[f"{__name__}.map"] = iter, map  # `from penstock.iter import …`

# The other names in `__init__.pyi` are imported on first use.
_imported, _, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _imported(name)
    message = f"penstock has no {name!r}{_where_it_is(name, __all__)}"
    raise AttributeError(message, name=name, obj=_sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _kind in (IterDataPipe, MapDataPipe):  # not operators: what they give is no pipe
    _kind.build_vocab = _later("penstock.pipes.vocabulary", "build_vocab")  # type: ignore[attr-defined]
    _kind.run = _later("penstock.pipes.run", "run")  # type: ignore[attr-defined]
    _kind.to_ray_dataset = _later("penstock.runner.ray_data", "to_ray_dataset")  # type: ignore[attr-defined]
