"""Videos and sound as tensors, by torchcodec."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import torch

_MEND = (
    'pip install "penstock[video]" for torch 2.11 or later, and install ffmpeg with its shared libraries, as by '
    "apt-get install ffmpeg"
)

_ROUNDING = 1e-6
"""Seconds by which the beginning of a frame may be off: 3 × 0.1 is more than 0.3."""

_LONGEST_FRAME = 1.0
"""Seconds: frames of sound are shorter, AAC's a fiftieth."""
_SOUND_AT_ONCE = 120.0
"""Seconds of sound that are kept: 46 MB of stereo at 48 kHz."""


def codec() -> Any:
    """Return the module that decodes; raise ImportError with what to install if it does not work here."""
    try:
        return import_module("torchcodec.decoders")
    except (ImportError, OSError, RuntimeError) as error:  # without ffmpeg, or for another torch
        reason = str(error).strip().partition("\n")[0]
        raise ImportError(
            f"videos and sound are decoded by torchcodec, which does not work here ({reason}): {_MEND}"
        ) from error


@contextmanager
def raising_os_error(what: str) -> Iterator[None]:
    """Raise OSError for what torchcodec cannot decode; errors of reading stay as they are."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError) as error:
        text = str(error).partition("\n")[0]
        reason = text.rpartition(".cpp:")[2].partition(", ")[2] or text
        if "stream is unknown" in reason:
            reason = f"the file has no {what}"
        raise OSError(f"ffmpeg finds no {what} that it can decode: {reason}") from error


def frames_of(file: Any) -> Any:
    """Return a decoder of the frames in a stream or in bytes; each frame has its number and its time."""
    with raising_os_error("video"):
        return codec().VideoDecoder(file)


def end_of(video: Any) -> float:
    """Return the time at which the last frame of a video ends, in seconds."""
    return float(video.metadata.end_stream_seconds)


def sound_of(file: Any) -> Any:
    """Return a decoder of the sound in a stream or in bytes."""
    with raising_os_error("sound"):
        return codec().AudioDecoder(file)


class SoundTrack:
    """The sound of a video, read forwards.

    torchcodec decodes sound from the start of the file for each range: one range is for many clips.
    """

    def __init__(self, decoder: Any, end: float) -> None:
        self.rate: int = decoder.metadata.sample_rate
        self._decoder = decoder
        self._end = end
        self._begin = self._until = -math.inf
        self._samples = torch.empty(decoder.metadata.num_channels, 0)

    def between(self, begin: float, end: float) -> torch.Tensor:
        """Return the samples from one time to another, in seconds; fewer where there is no sound yet, or no more."""
        if end > self._until:
            self._read(begin, max(end, min(begin + _SOUND_AT_ONCE, self._end)))
        first, last = (max(round((time - self._begin) * self.rate), 0) for time in (begin, end))
        return self._samples[:, first:last].clone()  # not a view, with which all samples would be pickled

    def _read(self, begin: float, end: float) -> None:
        self._begin, self._until = begin, end
        try:
            # It finds nothing, then or later, where a range begins within the last frame.
            found = self._decoder.get_samples_played_in_range(max(begin - _LONGEST_FRAME, 0.0), end)
        except RuntimeError as error:
            if "No audio frames" not in str(error):
                raise
            self._samples = self._samples[:, :0]
        else:
            self._begin, self._samples = found.pts_seconds, found.data


@dataclass
class Clips:
    """The clips of a video, by number: of `frames` frames, `stride` apart, or of `seconds`."""

    video: Any
    sound: SoundTrack | None
    frames: int | None
    seconds: float | None
    stride: int
    drop_last: bool

    def __len__(self) -> int:
        whole = self._all_frames / self._span if self.seconds is None else (self._end - self._begin) / self.seconds
        near = round(whole)
        if math.isclose(whole, near, rel_tol=1e-9):  # 3 s are three clips of 1 s, whatever the times are rounded to
            return near
        return math.floor(whole) if self.drop_last else math.ceil(whole)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return the frames of a clip, their times, and the sound between its first frame and the next clip's."""
        with raising_os_error("video"):
            found, begin, end = self._by_frames(number) if self.seconds is None else self._by_time(number)
        clip = {"video": found.data, "pts": found.pts_seconds}
        if self.sound is None:
            return clip
        with raising_os_error("sound"):
            return {**clip, "audio": self.sound.between(begin, end), "sample_rate": self.sound.rate}

    @cached_property
    def _all_frames(self) -> int:
        return int(self.video.metadata.num_frames)

    @cached_property
    def _begin(self) -> float:
        return float(self.video.metadata.begin_stream_seconds)

    @cached_property
    def _end(self) -> float:
        return end_of(self.video)

    @property
    def _span(self) -> int:
        assert self.frames is not None
        return self.frames * self.stride

    def _by_frames(self, number: int) -> tuple[Any, float, float]:
        first, stop = number * self._span, (number + 1) * self._span
        wanted = [*range(first, min(stop, self._all_frames), self.stride)]
        if self.sound is None:
            return self.video.get_frames_at(wanted), 0.0, 0.0
        found = self.video.get_frames_at(wanted)
        end = self.video.get_frame_at(stop).pts_seconds if stop < self._all_frames else self._end
        return found, float(found.pts_seconds[0]), end

    def _by_time(self, number: int) -> tuple[Any, float, float]:
        begin, end = self._edge(number), min(self._edge(number + 1), self._end)
        first = max(begin - _ROUNDING, self._begin)
        found = self.video.get_frames_played_in_range(first, end - _ROUNDING)
        earlier = int((found.pts_seconds < first).sum())  # a frame that is still shown is one of the clip before
        chosen = (each[earlier :: self.stride].contiguous() for each in (found.data, found.pts_seconds))
        return _Frames(*chosen), begin, end

    def _edge(self, number: int) -> float:
        assert self.seconds is not None
        return self._begin + number * self.seconds


@dataclass
class _Frames:
    data: torch.Tensor
    pts_seconds: torch.Tensor
