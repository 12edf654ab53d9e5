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
    if name == "__version__":
        return _version()
    message = f"penstock has no {name!r}{_where_it_is(name, __all__)}"
    raise AttributeError(message, name=name, obj=_sys.modules[__name__])


def _version(folder: _Path = _Path(__file__).parent) -> str:
    """Return the version of the code that runs: the tree's own, or else that of the install."""
    if not (folder / "registry").is_dir() and (project := folder.parent / "pyproject.toml").is_file():
        import tomllib

        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("penstock")
    except PackageNotFoundError:  # the folder was copied without its metadata
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


_METHODS = {
    "build_vocab": "penstock.pipes.vocabulary",
    "count": "penstock.views.read_all",
    "explain": "penstock.views.methods",
    "iter_batches": "penstock.runner.loading.torch_batches",
    "iter_torch_batches": "penstock.runner.loading.torch_batches",
    "peek": "penstock.views.read_all",
    "profile": "penstock.views.methods",
    "random_shuffle": "penstock.pipes.spellings",
    "run": "penstock.views.run",
    "schema": "penstock.pipes.columns.schema",
    "show": "penstock.views.methods",
    "stats": "penstock.views.read_all",
    "take": "penstock.views.read_all",
    "take_all": "penstock.views.read_all",
    "to_ray_dataset": "penstock.runner.on_ray.ray_data",
    "train_test_split": "penstock.pipes.spellings",
    "visualize": "penstock.views.methods",
}
"""The methods that are functions of a chain, and no operators, each with its module."""

_TEXTS = {
    "__repr__": ("penstock.views.display", "show_chain"),
    "__str__": ("penstock.views.display", "show_tree"),
    "_repr_mimebundle_": ("penstock.views.methods", "mimebundle"),
}
"""The methods by which Python and notebooks show a chain, each with the function that is called."""

for _kind in (IterDataPipe, MapDataPipe):
    for _name, _module in _METHODS.items():
        setattr(_kind, _name, _later(_module, _name))
    for _name, _function in _TEXTS.items():
        setattr(_kind, _name, _later(*_function))
