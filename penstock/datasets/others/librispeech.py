"""LibriSpeech: English speech, read from books, with its text."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource

__all__ = ["LibriSpeech"]

Utterance = tuple[bytes, int, str, int, int, int]

_RATE = 16_000
_SERVERS = ("https://www.openslr.org", "https://us.openslr.org", "https://openslr.elda.org")
_FACTS: Mapping[str, tuple[int, int, str, str]] = {
    # the number of utterances, the size of the archive, and its digests
    "train-clean-100": (
        28_539,
        6_387_309_499,
        "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",
        "2a93770f6d5c6c964bc36631d331a522",
    ),
    "train-clean-360": (
        104_014,
        23_049_477_885,
        "146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf",
        "c0e676e450a7ff2f54aeade5171606fa",
    ),
    "train-other-500": (
        148_688,
        30_593_501_606,
        "ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2",
        "d1a0fd59409feb2c614ce4d30c387708",
    ),
    "dev-clean": (
        2_703,
        337_926_286,
        "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
        "42e2234ba48799c1f50f24a7926300a1",
    ),
    "dev-other": (
        2_864,
        314_305_928,
        "12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365",
        "c8d0bcc9cca99d4f8b62fcc847357931",
    ),
    "test-clean": (
        2_620,
        346_663_984,
        "39fde525e59672dc6d1551919b1478f724438a95aa55f874b576be21967e6c23",
        "32fa31d27d2e1cad72775fee3f4849a9",
    ),
    "test-other": (
        2_939,
        328_757_843,
        "d09c181bba5cf717b3dee7d4d592af11a3ee3a09e08ae025c5506f6ebe961c29",
        "fb5a50374b501bb3bac4815ee91d3135",
    ),
}


@dataset(
    "librispeech",
    splits={split: count for split, (count, *_) in _FACTS.items()},
    resources={
        split: Resource(
            [f"{server}/resources/12/{split}.tar.gz" for server in _SERVERS],
            sha256=sha256,
            md5=md5,
            size=size,
            unpack=True,
            note="SHA-256 from torchaudio; size from tensorflow-datasets 4.9.7; that all mirrors answer could not be "
            "confirmed",
        )
        for split, (_, size, sha256, md5) in _FACTS.items()
    },
    licence="CC BY 4.0",
    home_page="https://www.openslr.org/12",
    citation="V. Panayotov, G. Chen, D. Povey and S. Khudanpur, LibriSpeech: An ASR Corpus Based on Public Domain "
    "Audio Books, ICASSP 2015",
)
def LibriSpeech(resources: Mapping[str, Files], split: str) -> IterDataPipe[Utterance]:
    """English speech, read from books, with its text.

    Items: `(audio, sample_rate, transcript, speaker_id, chapter_id, utterance_id)`, as torchaudio's, but for the first:
    the audio is the bytes of the FLAC file and not a tensor, since torch has no decoder of its own. Where torchaudio is
    installed, `torchaudio.load(io.BytesIO(audio))` decodes it. The sample rate is 16,000, and the transcript in
    capitals. They come in the order of their file names.
    """
    names = resources[split].list(f"LibriSpeech/{split}/*.flac")
    return names.shuffle().sharding_filter().map(functools.partial(_utterance, resources[split]))


def _utterance(files: Files, path: str) -> Utterance:
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".flac")
    speaker, chapter, number = _ids(stem, path)
    transcripts = f"{folder}/{speaker}-{chapter}.trans.txt"
    text = _texts(files, transcripts).get(stem)
    if text is None:
        raise ValueError(f"LibriSpeech: {transcripts} has no line for {stem}")
    return files.read(path), _RATE, text, int(speaker), int(chapter), int(number)


def _ids(stem: str, path: str) -> list[str]:
    ids = stem.split("-")
    if len(ids) != 3 or not all(each.isdecimal() for each in ids):
        raise ValueError(f"LibriSpeech: the name of {path} is not speaker-chapter-utterance.flac, in numbers")
    return ids


@functools.lru_cache(maxsize=4096)  # one entry per chapter: shuffled, its utterances come far apart
def _texts(files: Files, path: str) -> dict[str, str]:
    """Return the texts of a chapter by the names of its files."""
    lines = files.read(path).decode().splitlines()
    return {stem: text for stem, _, text in (line.partition(" ") for line in lines)}
