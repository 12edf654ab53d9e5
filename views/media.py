"""Images and sound among items: found, made small, and written into the text of a page."""

from __future__ import annotations

import base64
import io
import sys
import wave
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

_Array = np.ndarray[Any, Any]

_MOST_IMAGES = 16
_THUMBNAIL, _SMALLEST = 160, 64
"""The longer side of an image in a page, in pixels: at most, and at least."""
_LEAST_SIDE = 8
"""Arrays of fewer rows or columns are hardly images."""
_MOST_SOUND = 250_000
"""Bytes of the sound in a player."""
_RATES = {
    *(8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000),
}


def numpy_of(value: Any) -> _Array | None:
    """Return a tensor or an array of numbers as an array, which may share its memory; None for other values."""
    if isinstance(value, torch.Tensor):
        try:
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        except (RuntimeError, TypeError, NotImplementedError):  # without data, sparse, or of a type of torch alone
            return None
    if isinstance(value, np.generic):
        value = np.asarray(value)
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else None


def images_in(value: Any) -> list[Any]:
    """Return the images that a value is: a PIL image, or an array of one image or of several. Empty for others.

    Arrays of bytes are images if they have rows and columns of pixels, with or without channels; arrays of floats need
    channels. Channels are first or last.
    """
    if _is_pil(value):
        return [value]
    array = numpy_of(value)
    if array is None or array.dtype.kind not in "buf" or (array.dtype.itemsize != 1 and array.dtype.kind != "f"):
        return []
    if _pixels(array) is not None:
        return [array]
    if array.ndim in (3, 4) and len(array) and _pixels(array[0]) is not None:
        return [*array[:_MOST_IMAGES]]
    return []


def image_in_page(image: Any) -> str | None:
    """Return an image as the address of a small PNG; None without Pillow, or if it is damaged."""
    if find_spec("PIL") is None:
        return None
    from PIL import Image

    try:
        picture = image.copy() if _is_pil(image) else Image.fromarray(_in_bytes(_pixels(numpy_of(image))))
        if picture.mode not in ("L", "RGB", "RGBA"):
            picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        picture.thumbnail((_THUMBNAIL, _THUMBNAIL))
        if (side := max(picture.size)) < _SMALLEST:
            factor = -(-_SMALLEST // side)
            picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
        written = io.BytesIO()
        picture.save(written, "PNG")
    except Exception:  # of a damaged file, say: the other images are shown
        return None
    return _address("image/png", written.getvalue())


class Sound(NamedTuple):
    """A sound for a page: an address with its bytes, and its length in words."""

    address: str
    text: str


def sound_in_page(value: Any) -> Sound | None:
    """Return the sound that a value is: WAV bytes, or a waveform with its rate, first in a tuple or in a dict."""
    if isinstance(value, bytes) and value[:4] == b"RIFF" and value[8:12] == b"WAVE":
        size = f"WAV of {len(value):,} bytes"
        return Sound(_address("audio/wav", value), size) if len(value) <= _MOST_SOUND else None
    waveform, rate = _waveform_in(value)
    array = numpy_of(waveform)
    if array is None or rate not in _RATES or array.ndim not in (1, 2) or not array.size:
        return None
    frames = array.reshape(-1, 1) if array.ndim == 1 else array.T if array.shape[0] < array.shape[1] else array
    samples = _samples(frames[: _MOST_SOUND // 4, :2])
    if samples is None:
        return None
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    seconds, played = len(frames) / rate, len(samples) / rate
    cut = f", the first {played:.1f} s" if played < seconds else ""
    return Sound(_address("audio/wav", written.getvalue()), f"{seconds:.1f} s at {rate:,} Hz{cut}")


def _is_pil(value: Any) -> bool:
    pillow: Any = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _pixels(array: _Array | None) -> _Array | None:
    """Return an image with the channels last, thinned out if it is large; None if the shape is not that of an image."""
    if array is None or array.ndim not in (2, 3):
        return None
    if array.ndim == 2:
        if array.dtype.itemsize != 1:
            return None
    elif array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    elif array.shape[2] not in (1, 3, 4):
        return None
    if min(array.shape[:2]) < _LEAST_SIDE:
        return None
    step = max(max(array.shape[:2]) // (4 * _THUMBNAIL), 1)
    array = array[::step, ::step]
    return array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array


def _in_bytes(pixels: _Array | None) -> _Array:
    assert pixels is not None
    if pixels.dtype.kind != "f":
        return np.ascontiguousarray(pixels.astype(np.uint8) * (255 if pixels.dtype.kind == "b" else 1))
    pixels = np.nan_to_num(pixels.astype(np.float32), posinf=0.0, neginf=0.0)
    low, high = float(pixels.min()), float(pixels.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    return ((pixels - low) * (255 / max(high - low, 1e-12))).round().astype(np.uint8)


def _waveform_in(value: Any) -> tuple[Any, Any]:
    if isinstance(value, (tuple, list)) and len(value) >= 2:
        waveform, rate = value[:2]
    elif isinstance(value, Mapping):
        waveform = next((value[name] for name in ("array", "waveform", "audio") if name in value), None)
        rate = next((value[name] for name in ("sampling_rate", "sample_rate") if name in value), None)
    else:  # such as torchcodec's AudioSamples
        waveform, rate = getattr(value, "data", None), getattr(value, "sample_rate", None)
    return waveform, int(rate) if isinstance(rate, (int, np.integer)) else None


def _samples(frames: _Array) -> _Array | None:
    if frames.dtype.kind == "f":
        return np.nan_to_num(frames).clip(-1, 1) * 32767
    if frames.dtype == np.int16:
        return frames
    return frames >> 16 if frames.dtype == np.int32 else None


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
