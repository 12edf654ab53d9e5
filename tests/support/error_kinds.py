"""Exceptions of 40 kinds: Python's and libraries' own, and classes of users in every form."""

from __future__ import annotations

import asyncio
import configparser
import json
import struct
import subprocess
import threading
import urllib.error
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import botocore.exceptions  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import torch


class CannotRead(Exception):
    """An error whose text its constructor makes."""

    def __init__(self, path: str, tries: int = 1) -> None:
        super().__init__(f"cannot read {path} after {tries} tries")
        self.path, self.tries = path, tries


class InSlots(Exception):
    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def __str__(self) -> str:
        return f"at {self.place}"


class WithoutArguments(ValueError):
    def __init__(self) -> None:
        super().__init__("always the same")


class ByKeyword(KeyError):
    def __init__(self, *, key: str) -> None:
        super().__init__(key)
        self.key = key


class MadeByNew(Exception):
    def __new__(cls, first: int, second: int) -> MadeByNew:
        made = super().__new__(cls, first)
        made.second = second  # type: ignore[attr-defined]
        return made

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)


class OfTheSystem(FileNotFoundError):
    def __init__(self, path: str) -> None:
        super().__init__(2, "not here", path)


class Reduced(Exception):
    """An error that pickles without its notes and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.extra = "extra"

    def __reduce__(self) -> Any:
        return Reduced, self.args


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("never")


class WithLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def _raise(error: Exception) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


KINDS: dict[str, Callable[[], object]] = {
    "text in __init__": lambda: _raise(CannotRead("7.png", tries=3))(),
    "slots": lambda: _raise(InSlots(3))(),
    "no arguments": lambda: _raise(WithoutArguments())(),
    "keywords": lambda: _raise(ByKeyword(key="a"))(),
    "__new__": lambda: _raise(MadeByNew(1, 2))(),
    "a subclass of OSError": lambda: _raise(OfTheSystem("a.txt"))(),
    "__reduce__": lambda: _raise(Reduced("text"))(),
    "no pickle": lambda: _raise(Unpicklable("text"))(),
    "an attribute without pickle": lambda: _raise(WithLock("text"))(),
    "a group": lambda: _raise(ExceptionGroup("several", [ValueError(1), CannotRead("a", 2)]))(),
    "JSONDecodeError": lambda: json.loads("{"),
    "ClientError": lambda: _raise(
        botocore.exceptions.ClientError({"Error": {"Code": "403", "Message": "no"}}, "GetObject")
    )(),
    "NoCredentialsError": lambda: _raise(botocore.exceptions.NoCredentialsError())(),
    "HTTPError": lambda: _raise(urllib.error.HTTPError("http://a/b", 404, "no", {}, None))(),  # type: ignore[arg-type]
    "CalledProcessError": lambda: subprocess.run(["false"], check=True),
    "TimeoutExpired": lambda: _raise(subprocess.TimeoutExpired(["sleep"], 3))(),
    "BadZipFile": lambda: zipfile.ZipFile(__file__),
    "struct.error": lambda: struct.unpack("i", b""),
    "InterpolationError": lambda: _raise(configparser.InterpolationError("option", "section", "message"))(),
    "IncompleteReadError": lambda: _raise(asyncio.IncompleteReadError(b"a", 3))(),
    "LimitOverrunError": lambda: _raise(asyncio.LimitOverrunError("too long", 3))(),
    "Decimal": lambda: Decimal("x"),
    "FileNotFoundError": lambda: Path("/nowhere/a.txt").read_text(),
    "OSError of two files": lambda: _raise(OSError(18, "cross-device", "a", None, "b"))(),
    "UnicodeDecodeError": lambda: b"\xff".decode(),
    "UnicodeEncodeError": lambda: "é".encode("ascii"),
    "KeyError": lambda: {}["key"],
    "IndexError": lambda: [][1],
    "ZeroDivisionError": lambda: 1 / 0,
    "SyntaxError": lambda: compile("(", "file.py", "exec"),
    "ModuleNotFoundError": lambda: __import__("no_such_module"),
    "ImportError": lambda: _raise(ImportError("no", name="n", path="p"))(),
    "AttributeError": lambda: None.nothing,  # type: ignore[attr-defined]
    "NameError": lambda: eval("no_such_name"),
    "ValueError": lambda: int("x"),
    "TypeError": lambda: len(3),  # type: ignore[arg-type]
    "AssertionError": lambda: _raise(AssertionError())(),
    "shapes of torch": lambda: torch.zeros(2) @ torch.zeros(3),
    "shapes of NumPy": lambda: np.zeros(2) @ np.zeros(3),
    "ArrowInvalid": lambda: pa.array([1, "a"]),
}


_NOT_COMPARED = ("__notes__", "_closer", "file", "fp", "lock", "read")
"""Attributes that are files or locks, and the notes, which say more where there are workers."""


def raised_by(kind: str) -> Exception:
    """Return the error that is raised here."""
    try:
        KINDS[kind]()
    except Exception as error:
        return error
    raise AssertionError(f"{kind} raises nothing")


def told(error: BaseException) -> tuple[str, str, str, dict[str, str]]:
    """Return the type, the text, the arguments and the attributes of an error, without what has no pickle."""
    attributes = {name: repr(value) for name, value in vars(error).items() if name not in _NOT_COMPARED}
    return type(error).__qualname__, str(error), repr(error.args), attributes
