"""Which tests the quick run takes few cases of, or none: `python tests/slow.py junit.xml`, of a run of all, writes it.

python -m pytest -n 2 --part all --junitxml junit.xml
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FILE = Path(__file__).with_name("slow.json")
SECONDS = 1.2
"""The most that the cases of a test may take in the quick run, all together; where one takes longer, it takes none."""

FAST, SHARE = 0.2, 4
"""Where a case takes less than so many seconds, the quick run takes at least one in so many."""

RAY = "tests/cluster/"
"""The files here start Ray, which takes long: the quick run takes none of their tests."""


def cases_by_test(junit: Path) -> dict[str, int]:
    """Return, of each test that takes longer, how many cases the quick run has time for."""
    seconds: dict[str, list[float]] = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds.setdefault(f"{file}::{case.attrib['name'].partition('[')[0]}", []).append(float(case.attrib["time"]))
    cases = {test: _cases_in_time(each) for test, each in sorted(seconds.items()) if sum(each) > SECONDS}
    return cases | {test: 0 for test in sorted(seconds) if test.startswith(RAY)}


def _cases_in_time(seconds: list[float]) -> int:
    a_case = sum(seconds) / len(seconds)
    return max(int(SECONDS / a_case), len(seconds) // SHARE if a_case < FAST else 0)


if __name__ == "__main__":
    FILE.write_text(json.dumps(cases_by_test(Path(sys.argv[1])), indent=1) + "\n")
