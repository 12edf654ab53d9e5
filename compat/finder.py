"""The import hook for torchdata's old modules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

from .faces import FACES, ROOTS, Face

__all__ = ["Finder"]


class Finder(MetaPathFinder):
    """Finds the modules in `FACES`; reports all others below the same roots as private."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in FACES:
            # All are packages, so that imports of their private submodules come here too.
            return spec_from_loader(fullname, _FaceLoader(FACES[fullname]), is_package=True)
        if fullname.startswith(tuple(f"{root}." for root in ROOTS)):
            raise ModuleNotFoundError(_where_instead(fullname), name=fullname)
        return None


class _FaceLoader(Loader):
    def __init__(self, face: Face) -> None:
        self._face = face

    def exec_module(self, module: ModuleType) -> None:
        names = dict(self._face.names())
        vars(module).update(names, __file__=__file__)  # an ImportError shows the file
        module.__doc__ = f"The public names of torchdata 0.9's {module.__name__}, which are Penstock's."
        if self._face.later is not None:
            vars(module)["__getattr__"] = self._face.later
        vars(module)["__all__"] = sorted(names)
        for part in [name for name in FACES if name.rpartition(".")[0] == module.__name__]:
            import_module(part)  # as torchdata's packages did


def _where_instead(name: str) -> str:
    """The message for a missing module: which public names it probably had."""
    stem = name.rpartition(".")[2].replace("_", "").lower()
    public = next(face for face in (name.rpartition(".")[0].rsplit(".", cut)[0] for cut in range(9)) if face in FACES)
    while not (names := [*FACES[public].names()]):
        public = public.rpartition(".")[0]
    alike = [each for each in names if stem in each.lower()]
    return (
        f"{name} was a private module of torchdata, and penstock.compat has the public names only: "
        f"from {public} import {', '.join(alike) or '…'} (classes without the ending IterDataPipe or MapDataPipe)"
    )
