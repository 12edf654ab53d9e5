"""Videos that tests make: by ffmpeg's program, which they are compared with, or by torchcodec."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import torch

from penstock.pipes.files.videos import codec


def _lacking() -> str:
    try:
        codec()
    except ImportError as error:
        return str(error)
    return "" if shutil.which("ffmpeg") else "the tests of videos need the program ffmpeg"


LACKING = _lacking()
"""Why videos cannot be tested here; empty where they can."""


def by_ffmpeg(path: Path, *arguments: str) -> Path:
    """Let ffmpeg make a file, and return its path."""
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments, str(path)], check=True, timeout=60)
    return path


def frames_by_ffmpeg(path: Path, height: int, width: int) -> torch.Tensor:
    """Return all frames as ffmpeg's program decodes them: uint8 of shape (frames, 3, height, width)."""
    pixels = torch.frombuffer(
        _output(path, "-vsync", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24"), dtype=torch.uint8
    )
    return pixels.reshape(-1, height, width, 3).permute(0, 3, 1, 2)


def samples_by_ffmpeg(path: Path, channels: int) -> torch.Tensor:
    """Return the sound as ffmpeg's program decodes it: float32 of shape (channels, samples)."""
    return torch.frombuffer(_output(path, "-vn", "-f", "f32le"), dtype=torch.float32).reshape(-1, channels).T


def _output(path: Path, *arguments: str) -> bytearray:
    command = ["ffmpeg", "-v", "error", "-i", str(path), *arguments, "-"]
    return bytearray(subprocess.run(command, check=True, timeout=60, capture_output=True).stdout)


def write_grey(path: str, frames: int) -> None:
    """Write a video of so many frames."""
    from torchcodec.encoders import VideoEncoder

    VideoEncoder(torch.full((frames, 3, 16, 16), 99, dtype=torch.uint8), frame_rate=4).to_file(path)
