"""Read clips of videos."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from ...errors.checks import expect_seconds
from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe, own
from ...state.replay import expect_no_fewer
from ...storage.reading import open_to_seek
from ...storage.retrying import trying_again
from ...storage.streaming.streams import checked_path
from ..files.videos import Clips, SoundTrack, codec, end_of, frames_of, sound_of


@functional_datapipe("read_videos")
class VideoReader(IterDataPipe[dict[str, Any]]):
    """Yield a dict for each clip of each video: its frames as `"video"`, and their times as `"pts"`.

    `"video"` is a tensor of `torch.uint8` and shape (frames, 3, height, width), `"pts"` one of float64 with the seconds
    at which each frame begins. With `audio`, a dict has the sound of the clip, too: `"audio"`, a tensor of float32 and
    shape (channels, samples), and its `"sample_rate"`. With `include_paths` it has the `"path"`.

    A clip has `frames` frames, of which each is the `stride`-th after the one before. With `seconds` in place of
    `frames`, a clip has the frames that begin within so many seconds; of these, each `stride`-th. Clips follow each
    other without overlap. The last one is shorter where the video ends; `drop_last` leaves it out.

    torchcodec decodes, with ffmpeg: the frames are exactly those of ffmpeg. It finds all frames when a video is opened,
    for which it reads the file once: put `cache_files` before it for long files in an object store. A resumed pass goes
    on at the exact clip, by seeking. Two minutes of sound are in memory. Takes paths and URLs of fsspec;
    `storage_options` are options of the file system. `on_error` handles a video that cannot be read or decoded; clips
    already yielded stay.

    Raises FileNotFoundError for a missing file, and OSError for one that is no video, is corrupt, or has no sound where
    `audio` is asked for. A Matroska file that was cut ends with its last whole frame. At construction, raises
    ImportError where torchcodec or ffmpeg is missing.

    >>> import os, tempfile
    >>> import torch
    >>> from torchcodec.encoders import VideoEncoder
    >>> path = os.path.join(tempfile.mkdtemp(), "dark.mp4")
    >>> VideoEncoder(torch.zeros(6, 3, 16, 16, dtype=torch.uint8), frame_rate=4).to_file(path)
    >>> dp = IterableWrapper([path]).read_videos(frames=4)
    >>> [(clip["video"].shape, clip["pts"].tolist()) for clip in dp]
    [(torch.Size([4, 3, 16, 16]), [0.0, 0.25, 0.5, 0.75]), (torch.Size([2, 3, 16, 16]), [1.0, 1.25])]
    >>> [len(clip["pts"]) for clip in IterableWrapper([path]).read_videos(seconds=0.5)]
    [2, 2, 2]
    """

    traits = ("expensive", "unpacks")
    gives = "rows"
    resumes_from_start = False
    clip: int = own(0)
    """The number of the next clip of the current video."""

    def __init__(
        self,
        source: IterDataPipe[str],
        include_paths: bool = False,
        *,
        frames: int | None = None,
        seconds: float | None = None,
        stride: int = 1,
        drop_last: bool = False,
        audio: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        if (frames is None) == (seconds is None):
            raise TypeError("a clip has a number of frames or of seconds: give frames=16 or seconds=2.0, say")
        expect_whole("frames", frames, optional=True)
        expect_whole("stride", stride)
        if seconds is not None:
            expect_seconds("seconds", seconds)
            if math.isinf(seconds):
                raise ValueError("seconds must be finite: give more seconds than the videos have, for one clip each")
        codec()
        self.source = source
        self.include_paths = include_paths
        self.frames = frames
        self.seconds = seconds
        self.stride = stride
        self.drop_last = drop_last
        self.audio = audio
        self.storage_options = Options(storage_options)
        self.handle_errors(on_error, applied=trying_again(on_error))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        items = self.read(self.source)
        for number, item in items:
            items.keep_from(number)
            for clip in self.error_policy.outputs(partial(self._clips, self.clip))(item):
                self.clip += 1
                yield clip
            self.clip = 0

    def _clips(self, first: int, item: Any) -> Iterator[dict[str, Any]]:
        path = checked_path(item)
        beside = {"path": path} if self.include_paths else {}
        with ExitStack() as opened:

            def stream() -> Any:
                options: Any = {"retry": self._retry, "counted_by": self.error_policy}
                return opened.enter_context(open_to_seek(path, self.storage_options, **options))

            video = frames_of(stream())
            # Each seeks in a stream of its own.
            sound = SoundTrack(sound_of(stream()), end_of(video)) if self.audio else None
            clips = Clips(video, sound, self.frames, self.seconds, self.stride, self.drop_last)
            expect_no_fewer(first - len(clips))
            for number in range(first, len(clips)):
                yield {**clips[number], **beside}
