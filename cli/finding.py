"""Find the chain that a user names on the command line."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors.hints import did_you_mean
from ..runner import DataLoader2
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe
from .errors import WrongUse, their_code

_FOUND = (DataLoader2, TorchIterDataPipe, TorchMapDataPipe)


def find(address: str, arguments: Iterable[str] = ()) -> Any:
    """Return the chain or loader at an address like `module:name` or `path/to/file.py:name`.

    If it is a function, it is called with the arguments, which are like `name=value`.

    Raises WrongUse where there is none, and TheirError for an error of the module or function.
    """
    given = dict(map(_argument, arguments))
    where, colon, name = address.rpartition(":")
    if not colon or not where or not name:
        raise WrongUse(f"{address!r} is not like module:name or path/to/file.py:name, such as train:chain")
    let_folder_be_imported(Path.cwd())
    module = _module_of_file(Path(where)) if where.endswith(".py") else _module(where)
    found = _attribute(module, where, name)
    if isinstance(found, _FOUND):
        if given:
            raise WrongUse(f"{address} is a {type(found).__name__}, and takes no --arg: name a function")
        return found
    if not callable(found):
        raise WrongUse(f"{address} is of type {type(found).__name__}: name a chain, a loader or a function")
    _expect_arguments(name, found, given)
    with their_code():
        made = found(**given)
    if not isinstance(made, _FOUND):
        raise WrongUse(f"{address} returns {type(made).__name__}, and should return a chain or a DataLoader2")
    return made


def let_folder_be_imported(folder: Path) -> None:
    """Let the modules of a folder be imported, as by `python -m` there."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module(name: str) -> ModuleType:
    try:
        with their_code():
            return import_module(name)
    except Exception as error:
        missing = getattr(error.__cause__, "name", None)
        if isinstance(error.__cause__, ModuleNotFoundError) and f"{name}.".startswith(f"{missing}."):
            here = [path.stem for path in Path.cwd().iterdir() if path.suffix == ".py" or path.is_dir()]
            raise WrongUse(
                f"no module {missing!r} is in {os.getcwd()} or installed{did_you_mean(str(missing), here)}"
            ) from None
        raise


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise WrongUse(f"there is no file {str(path)!r}")
    let_folder_be_imported(path.resolve().parent)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)  # where its classes and workers look it up
    with their_code():
        spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, where: str, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        names = [each for each in vars(module) if not each.startswith("_")]
        raise WrongUse(f"{where} has no {name!r}{did_you_mean(name, names)}") from None


def _expect_arguments(name: str, function: Any, given: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # perhaps a function written in C
        return
    try:
        signature.bind(**given)
    except TypeError as error:
        names = " ".join(f"--arg {each}=…" for each in signature.parameters)
        raise WrongUse(f"{name}{signature}: {error}; give {names or 'no --arg'}") from None


def _argument(text: str) -> tuple[str, Any]:
    """Return the name and the value of an argument: a Python literal, or else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise WrongUse(f"--arg {text} is not like --arg name=value")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
