"""How fast JSON lines become rows, by each way that there is: `python -m benchmarks.json_lines`.

The data are 100,000 documents in 4 files: an id, 700 characters of text, and an object of two fields. Each way runs in
its own process, once a round: a warm-up epoch, and then all epochs that begin within a second, which count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from .columns_peers import measure
from .harness import environment, measured_apart, rounds_of, share, table

FILES = 4


def by_hand(paths: list[str]) -> Iterable[Any]:
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def columns(paths: list[str]) -> Iterable[Any]:
    import penstock as ps

    return ps.read_json(paths)


def rows(paths: list[str]) -> Iterable[Any]:
    import penstock as ps

    return ps.read_json(paths).rows()


def read_text(paths: list[str]) -> Iterable[Any]:
    import penstock as ps

    return ps.read_text(paths).parse_json()


def read_text_and_map(paths: list[str]) -> Iterable[Any]:
    import penstock as ps

    return ps.read_text(paths).map(lambda row: json.loads(row["text"]))


def readlines(paths: list[str]) -> Iterable[Any]:
    import penstock as ps

    return ps.iter.IterableWrapper(paths).open_files(mode="rb").readlines(return_path=False).parse_json()


WAYS: dict[str, Callable[[list[str]], Iterable[Any]]] = {
    "json.loads by hand": by_hand,
    "ps.read_text(paths).parse_json()": read_text,
    "ps.read_text(paths).map(json.loads of the text)": read_text_and_map,
    "open_files().readlines().parse_json()": readlines,
    "ps.read_json(paths).rows()": rows,
    "ps.read_json(paths), columns": columns,
}


def lay_out(folder: Path, count: int, words_known: int = 5_000, zipf: float | None = None) -> None:
    """Write the files; words are equally frequent, or have the frequencies of Zipf's law with an exponent."""
    import numpy as np

    random = np.random.default_rng(0)
    words = ["".join(map(chr, random.integers(97, 123, length))) for length in random.integers(2, 12, words_known)]
    for number in range(FILES):
        with open(folder / f"{number}.jsonl", "w", encoding="utf-8") as file:
            for line in range(count // FILES):
                places = random.integers(0, len(words), 90) if zipf is None else random.zipf(zipf, 90) % len(words)
                text = " ".join(words[place] for place in places)
                about = {"source": words[line % 7], "score": line / 7}
                file.write(json.dumps({"id": number * count + line, "text": text, "meta": about}) + "\n")


def epochs_of(way: str, folder: str) -> Callable[[], int]:
    paths = [*map(str, sorted(Path(folder).glob("*.jsonl")))]

    def epoch() -> int:
        return sum(item.num_rows if hasattr(item, "num_rows") else 1 for item in WAYS[way](paths))

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.json_lines", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "WAY"), help="measure this only, here; print JSON")
    options = parser.parse_args()
    if options.measure:
        folder, way = options.measure
        print(json.dumps(measure(partial(epochs_of, way), folder)))
        return
    print(environment("penstock", "pyarrow"))
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), options.rows)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        command = [sys.executable, "-m", "benchmarks.json_lines", "--measure", folder]
        results = rounds_of({way: partial(measured_apart, [*command, way]) for way in WAYS}, options.rounds)
    seconds = {way: [result["seconds"] for result in of_way] for way, of_way in results.items()}
    first = next(iter(WAYS))
    cells = [
        [
            way,
            f"{options.rows / median(seconds[way]) / 1e3:,.0f}",
            f"{size / median(seconds[way]):,.0f}",
            f"{share(seconds[first], seconds[way]):.2f}",
        ]
        for way in WAYS
    ]
    print(table(["", "k lines/s", "MB/s", f"share of {first}"], cells))


if __name__ == "__main__":
    main()
