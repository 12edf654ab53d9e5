"""The import hook for torchdata's old modules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

from ..errors.hints import did_you_mean
from .faces import NAMES, ROOTS, other_name, replacement


class Finder(MetaPathFinder):
    """Finds the modules in `NAMES`; reports all others below the same roots as private."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in NAMES:
            # All are packages, so that imports of private submodules come here too.
            return spec_from_loader(fullname, _FaceLoader(), is_package=True)
        if fullname.startswith(tuple(f"{root}." for root in ROOTS)):
            raise ModuleNotFoundError(
                f"{fullname} is no public module of torchdata 0.9, and penstock.compat has these only"
                f"{did_you_mean(fullname, [*NAMES])}",
                name=fullname,
            )
        return None


class _FaceLoader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        of_this = module.__name__
        for part in [name for name in NAMES if name.rpartition(".")[0] == of_this]:
            import_module(part)  # as torchdata's packages did, and before a function takes the name of its module
        names = {name: replacement(of_this, name) for name in NAMES[of_this]}
        if of_this.startswith("torchdata.datapipes."):  # operators have their short names, too
            vars(module).update({each.__name__: each for name, each in names.items() if name.endswith("DataPipe")})
        vars(module).update(names, __file__=__file__)  # an ImportError shows the file
        vars(module).update(__all__=[*names], __getattr__=partial(other_name, of_this))
        module.__doc__ = f"The public names of torchdata 0.9's {of_this}, which are Penstock's."
