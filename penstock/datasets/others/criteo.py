"""Criteo's display advertising challenge: clicks on advertisements."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from typing import Any

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import Converters, numbered, record_of, rows_of


@dataset(**facts("criteo"))
def Criteo(resources: Mapping[str, Files], split: str, *, missing: int = 0) -> IterDataPipe[dict[str, Any]]:
    """Advertisements that were shown, and whether they were clicked on.

    Nothing is downloaded: put `train.txt` and `test.txt` of the challenge, or parts of them, into the folder `criteo`
    of the root. The whole has 45,840,617 and 6,042,135 rows.

    Items are dicts with the names of torchrec: `label`, 0 or 1, which the test split lacks; `int_0` to `int_12`, whole
    numbers, or `missing` where the field is empty; and `cat_0` to `cat_25`, hashes as text, which may be empty.
    """
    label: Converters = {"label": functools.partial(numbered, 0, 1)} if split == "train" else {}
    numbers: Converters = {f"int_{n}": functools.partial(_number, missing) for n in range(13)}
    hashes: Converters = {f"cat_{n}": str for n in range(26)}
    make = functools.partial(record_of, {**label, **numbers, **hashes})
    return rows_of(resources[split], f"{split}.txt", "Criteo", make, delimiter="\t", quoting=csv.QUOTE_NONE)


def _number(missing: int, text: str) -> int:
    return int(text) if text else missing
