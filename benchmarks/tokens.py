"""How fast JSON lines become packs of tokens on two processes: `python -m benchmarks.tokens`.

The data are 16,000 documents in 4 files: an id, 90 words, and an object of two fields. The tokenizer is a BPE of 8,000
pieces, which is trained on the first 2,000 of them. Packs have 1,024 tokens, and batches 8 packs. Each contestant runs
in its own process, once a round: a warm-up epoch, and then all epochs that begin within 3 seconds, which count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from . import json_lines
from .harness import cpu_seconds, environment, measured_apart, plot, rounds_of, share, table, verdict
from .tokens_peers import PEERS, texts_of, tokens_in

LEAST_SECONDS = 3.0
LEAST_OF_BEST = 0.9
"""The naive chain's least share of the best rate."""


def lay_out(folder: Path, count: int) -> None:
    """Write the files, and a tokenizer trained on them; words have Zipf's frequencies."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    json_lines.lay_out(folder, count, 20_000, zipf=1.3)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = [text for text, _ in zip(texts_of([str(folder / "0.jsonl")]), range(2000), strict=False)]
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=8000, show_progress=False))
    made.save(str(folder / "tokenizer.json"))


def measure(peer: str, folder: str) -> dict[str, float]:
    paths = [*map(str, sorted(Path(folder).glob("*.jsonl")))]
    epoch = PEERS[peer](paths, str(Path(folder) / "tokenizer.json"))
    tokens_in(epoch())
    cpu_before, began = cpu_seconds(), time.perf_counter()
    seconds, tokens, epochs = 0.0, 0, 0
    while seconds < LEAST_SECONDS:
        tokens += tokens_in(epoch())
        epochs += 1
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "cpu": (cpu_seconds() - cpu_before), "tokens": tokens, "each": tokens / epochs}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokens", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "PEER"), help="measure this only, here; print JSON")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are as many processes as processors
    if options.measure:
        folder, peer = options.measure
        print(json.dumps(measure(peer, folder)), flush=True)
        os._exit(0)  # not after the loaders' own ends, which do not count
    print(environment("penstock", "tokenizers", "torch", "datasets", "grain"))
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), options.rows)
        command = [sys.executable, "-m", "benchmarks.tokens", "--measure", folder]
        results = rounds_of({peer: partial(measured_apart, [*command, peer]) for peer in PEERS}, options.rounds)
    report(results)


def report(results: dict[str, list[dict[str, Any]]]) -> None:
    """Print the rates, and whether ours are ahead."""
    failed = {peer: result["error"] for peer, of_peer in results.items() for result in of_peer if "error" in result}
    able = {peer: of_peer for peer, of_peer in results.items() if peer not in failed}
    rates = {peer: [result["tokens"] / result["seconds"] for result in of_peer] for peer, of_peer in able.items()}
    best = max(rates, key=lambda peer: median(rates[peer]))
    rows = [
        [
            peer,
            f"{median(rates[peer]) / 1e3:,.0f}",
            f"{share(rates[peer], rates[best]):.2f}",
            f"{median(result['cpu'] / result['tokens'] for result in able[peer]) * 1e6:.2f}",
            f"{able[peer][0]['each'] / 1e3:,.0f}",
        ]
        for peer in rates
    ]
    print(table(["", "k tokens/s", f"share of {best}", "CPU µs/token", "k tokens"], rows))
    for peer, error in failed.items():
        print(f"{peer}: not measured: {error}")
    plot("tokens", "k tokens/s, JSON lines to batches of packs", {p: median(r) / 1e3 for p, r in rates.items()})
    naive, *others, ours = (peer for peer in PEERS if peer.startswith("penstock"))
    for peer in rates:
        if not peer.startswith(("penstock", "hand")):
            ratio = share(rates[ours], rates[peer])
            print(verdict(f"{ours}: ahead of {peer}: {ratio:.2f}", ratio >= 1))
    for peer in (naive, *others):
        ratio = share(rates[peer], rates[best])
        print(verdict(f"{peer}: at least {LEAST_OF_BEST} of the best: {ratio:.2f}", ratio >= LEAST_OF_BEST))


if __name__ == "__main__":
    main()
