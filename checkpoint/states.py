"""States by name, in a file that `torch.load` reads."""

from __future__ import annotations

import io
import os
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any

import torch

from ..errors.notes import add_note
from ..errors.secrets import Options, without_secrets
from ..storage.reading import open_to_seek
from ..storage.retrying import Transient
from ..storage.streaming.decompression_limit import MAX_BYTES
from ..storage.streaming.streams import checked_path
from ..storage.streaming.zips import opened_zip, read_verified
from .files import writing

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))


def save(url: str | os.PathLike[str], /, *, storage_options: Mapping[str, Any] | None = None, **objects: Any) -> None:
    """Write the state of each object, by name, to one file, which replaces an earlier one once complete.

    `url` is a local path or any URL that fsspec supports, such as `s3://bucket/run/last.pt`. An object with a
    `state_dict` is saved as its result; others are saved as they are: numbers, strings, tensors, and lists and dicts of
    these. `torch.save` writes the file, a dict by name. The file is sent while it is written: besides the states, only
    some pieces of it are in memory. Missing folders are created, buckets are not. `storage_options` are for the file
    system, such as `profile`; without them, credentials and endpoints come from the environment.

    Raises TypeError, with its place, for a value that `weights_only=True` could not load, before anything is written,
    and OSError if the file cannot be written; an earlier file then stays.

    >>> model = torch.nn.Linear(2, 1)
    >>> save("memory://run/epoch-1.pt", model=model, losses=[0.5, 0.25])
    >>> load("memory://run/epoch-1.pt")["losses"]
    [0.5, 0.25]
    """
    place = checked_path(url)
    if not objects:
        raise TypeError("nothing to save: give objects by name, as in save(url, model=model, loader=loader)")
    states = {name: each.state_dict() if hasattr(each, "state_dict") else each for name, each in objects.items()}
    for name, state in states.items():
        _check_loadable(state, name, ())
    with writing(place, Options(storage_options)) as file:
        torch.save(states, file)


def load(
    url: str | os.PathLike[str],
    /,
    *,
    map_location: Any = "cpu",
    storage_options: Mapping[str, Any] | None = None,
    max_bytes: int = MAX_BYTES,
    **objects: Any,
) -> dict[str, Any]:
    """Return the states in a checkpoint by name, after loading the state of the same name into each given object.

    Objects load theirs by `load_state_dict`; take others, such as numbers, from the returned dict. Tensors are loaded
    to the CPU, and `load_state_dict` copies them to the object's device. `map_location` is as for `torch.load`: `None`
    is the device that they were saved from. Only tensors and plain data are loaded (`weights_only=True`).
    `storage_options` are as for `save`. A compressed file may decompress to `max_bytes` or to 100 times its size.

    Raises FileNotFoundError if there is no file; ValueError if it is no checkpoint, is truncated, is corrupt according
    to its checksums, or exceeds `max_bytes`; LookupError for a missing name, before any object is changed;
    UnpicklingError if it holds more than tensors and plain data; and what an object raises for a state that does not
    fit.

    >>> save("memory://run/model.pt", model=torch.nn.Linear(2, 1))
    >>> model = torch.nn.Linear(2, 1)
    >>> states = load("memory://run/model.pt", model=model)
    >>> torch.equal(model.weight, states["model"]["weight"])
    True
    """
    place = checked_path(url)
    for name, each in objects.items():
        if not hasattr(each, "load_state_dict"):
            raise TypeError(
                f"{name!r} has no load_state_dict, as it is of type {type(each).__name__}: take it from what load "
                f"returns, as in load(url)[{name!r}]"
            )
    shown = without_secrets(place)
    with open_to_seek(place, Options(storage_options)) as file:
        states = _read_states(file, shown, map_location, max_bytes)
    missing = [name for name in objects if name not in states]
    if missing:
        raise LookupError(
            f"the checkpoint {shown} has no {', '.join(map(repr, missing))}: it has {', '.join(map(repr, states))}"
        )
    for name, each in objects.items():
        try:
            each.load_state_dict(states[name])
        except Exception as error:
            add_note(error, f"when the state {name!r} of the checkpoint {shown} was loaded")
            raise
    return states


def _read_states(file: IO[bytes], shown: str, map_location: Any, max_bytes: int) -> dict[str, Any]:
    states = read_checked(file, shown, partial(_load_verified, map_location=map_location, max_bytes=max_bytes))
    if not isinstance(states, dict) or not all(isinstance(name, str) for name in states):
        raise ValueError(f"{shown} is not a checkpoint of states by name: it holds a {type(states).__name__}")
    return states


def read_checked(file: IO[bytes], shown: str, load: Callable[[IO[bytes]], Any]) -> Any:
    """Return what a function loads from a checkpoint; errors name the file, and say what is wrong with it."""
    try:
        return load(file)
    except Transient:
        raise
    except Exception as error:
        if flaw := _flaw(file):
            raise ValueError(f"{shown} {flaw}") from error
        if isinstance(error, zipfile.BadZipFile):
            raise ValueError(f"{shown} is corrupt: {error}") from error
        add_note(error, f"when the checkpoint {shown} was read")
        raise


def _flaw(file: IO[bytes]) -> str:
    """Return what is wrong with a file that could not be read; empty for an intact file of torch's."""
    file.seek(0)
    begins_as_one = file.read(4) == b"PK\3\4"
    try:
        with opened_zip(file) as archive:
            if any(name.endswith("/data.pkl") for name in archive.namelist()):
                return ""
    except zipfile.BadZipFile:
        if begins_as_one:
            return "was cut: it begins as a checkpoint does, and its end is missing"
    return "is not a checkpoint: those are what save, or torch.save, writes"


def _load_verified(file: IO[bytes], map_location: Any, max_bytes: int) -> Any:
    with torch.serialization.safe_globals([bytes]):  # torch unpickles b"" by a call of `bytes`
        return read_verified(file, partial(torch.load, map_location=map_location, weights_only=True), max_bytes)


def _check_loadable(value: Any, name: str, keys: tuple[Any, ...]) -> None:
    """Raise TypeError if a value holds something that `load` would reject."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, torch.Tensor):
        return
    if kind in (dict, OrderedDict):
        for key, each in value.items():
            _check_loadable(key, name, (*keys, key))
            _check_loadable(each, name, (*keys, key))
    elif kind in (list, tuple, set):
        for number, each in enumerate(value):
            _check_loadable(each, name, (*keys, number))
    else:
        _check_by_trial(value, name + "".join(f"[{key!r}]" for key in keys))


def _check_by_trial(value: Any, place: str) -> None:
    trial = io.BytesIO()
    try:
        torch.save(value, trial)
        trial.seek(0)
        _load_verified(trial, "cpu", MAX_BYTES)
    except Exception as error:
        raise TypeError(
            f"{place} is of type {type(value).__module__}.{type(value).__qualname__}, which could be saved, if at all, "
            "but not loaded: give an object with state_dict, tensors, or plain data (of a NumPy array, "
            "torch.from_numpy makes a tensor), or allow the type by torch.serialization.add_safe_globals"
        ) from error
