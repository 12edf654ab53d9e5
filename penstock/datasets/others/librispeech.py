"""LibriSpeech: English speech, read from books, with its text."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files

Utterance = tuple[bytes, int, str, int, int, int]

_RATE = 16_000


@dataset(**facts("librispeech"))
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
