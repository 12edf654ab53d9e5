"""Images to pixels: by the fastest decoder that gives the same ones, and straight to the wanted size."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...registry import expect_whole

Pixels = npt.NDArray[np.uint8]
"""Height × width × channels."""

Size = int | tuple[int, int]
"""The shorter side of an image, or its height and width."""


@dataclass(frozen=True)
class Decoder:
    """What decodes JPEGs faster than Pillow does; its functions are called with the imported module first.

    `header` returns height, width and the mode that the image has in Pillow. `decode` is called with the bytes, the
    mode that is asked for and the whole number that the sides are divided by.
    """

    module: str
    install: str
    header: Callable[[Any, bytes], tuple[int, int, str]]
    decode: Callable[[Any, bytes, str, int], Any]
    reduces: bool = False  # decodes to a half, a quarter or an eighth


def _header_by_simplejpeg(module: Any, data: bytes) -> tuple[int, int, str]:
    height, width, colors, _ = module.decode_jpeg_header(data)  # four times as fast as Pillow's
    return height, width, {"Gray": "L", "YCbCr": "RGB"}.get(colors, colors)


def _simplejpeg(module: Any, data: bytes, mode: str, reduction: int) -> Any:
    colors = "GRAY" if mode == "L" else mode
    if reduction == 1:
        return module.decode_jpeg(data, colors)
    height, width, *_ = module.decode_jpeg_header(data)
    return module.decode_jpeg(data, colors, min_height=-(-height // reduction), min_width=-(-width // reduction))


def _header_by_pillow(module: Any, data: bytes) -> tuple[int, int, str]:
    with _pillow().open(io.BytesIO(data)) as image:
        return image.height, image.width, image.mode


def _torchvision(module: Any, data: bytes, mode: str, reduction: int) -> Any:
    encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)  # torch warns of read-only buffers
    return module.decode_jpeg(encoded, "GRAY" if mode == "L" else mode).permute(1, 2, 0).numpy()


def _torchcodec(module: Any, data: bytes, mode: str, reduction: int) -> Any:
    with _pillow().open(io.BytesIO(data)) as image:
        if image.getexif().get(0x0112, 1) != 1:
            raise ValueError("torchcodec would apply its EXIF rotation")
    return module.decode_jpeg(data, mode="GRAY" if mode == "L" else mode).permute(1, 2, 0).numpy()


_FOR_TORCH = "install the build of it that is for this torch"
DECODERS = {
    "simplejpeg": Decoder(
        "simplejpeg", 'pip install "penstock[image]"', _header_by_simplejpeg, _simplejpeg, reduces=True
    ),
    "torchvision": Decoder("torchvision.io", _FOR_TORCH, _header_by_pillow, _torchvision),
    "torchcodec": Decoder("torchcodec.decoders", _FOR_TORCH, _header_by_pillow, _torchcodec),
}
"""The decoders of JPEG, the fastest first. Pillow decodes all else, and JPEGs where none of these works."""

_MODES = {"L": ("L",), "RGB": ("RGB", "L")}
"""Output mode: the file modes these decoders read for it. Pillow makes grey out of colours, from red, green and blue:
the decoders would take the luminance in the file, which differs where a colour was out of range."""

_MAX_PIXELS = 89_478_485
"""Pillow reads larger images; it warns or refuses."""


def expect_decoder(decoder: str, mode: str, by_pillow: bool = False) -> None:
    """Raise ValueError for an unknown decoder, or one that cannot decode this mode; ImportError for a missing one."""
    choices = ["auto", "pil", *([] if by_pillow or mode not in _MODES else DECODERS)]
    if decoder not in choices:
        kind = "images of Pillow" if by_pillow else f"images of mode {mode}"
        raise ValueError(f"no decoder {decoder!r} of {kind}: there are {', '.join(choices)}")
    if decoder in DECODERS:
        usable(decoder)


def expect_size(size: Any) -> None:
    """Raise TypeError or ValueError where a size is neither a whole number, nor a pair of them, nor None."""
    if isinstance(size, (tuple, list)) and len(size) == 2:
        for side in size:
            expect_whole("each side of size", side)
    elif isinstance(size, (tuple, list, str)):
        raise TypeError(f"size must be a whole number, for the shorter side, or (height, width), and is {size!r:.100}")
    elif size is not None:
        expect_whole("size", size)


def faster_decoding(decoder: str, size: Size | None) -> str | None:
    """Return what would decode JPEGs faster than these arguments, as a sentence; None if nothing is known."""
    if decoder == "pil":
        return 'JPEGs are decoded in half the time by decoder="auto".'
    return "With size=(height, width), JPEGs are decoded straight to a smaller size." if size is None else None


@cache
def usable(name: str) -> Any:
    """Return the module of a decoder; ImportError where it does not decode here.

    It decodes an image of one pixel first: torchvision can be imported without the libraries that decode.
    """
    decoder = DECODERS[name]
    sample = io.BytesIO()
    _pillow().new("RGB", (1, 1)).save(sample, "JPEG")
    try:
        module = import_module(decoder.module)
        decoder.decode(module, sample.getvalue(), "RGB", 1)
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise ImportError(f"decoder={name!r} does not work here ({error}): {decoder.install}") from error
    return module


@cache
def _all_usable() -> tuple[str, ...]:
    found = []
    for name in DECODERS:
        try:
            usable(name)
        except ImportError:
            continue
        found.append(name)
    return tuple(found)


def pixels_of(data: bytes, mode: str, decoder: str = "auto", size: Size | None = None) -> Pixels:
    """Return the pixels of an image, in a size where one is given; `ImageDecoder` documents which.

    A mode of one channel gives shape (height, width, 1). The array may be read-only.
    """
    names = _all_usable() if decoder == "auto" else [decoder] if decoder in DECODERS else []
    for name in names:
        try:
            return _fast(name, data, mode, size, whole=decoder == name)
        except (ValueError, RuntimeError) as error:
            if decoder == name:
                raise OSError(f"{name} cannot decode it, and 'auto' would leave it to Pillow: {error}") from error
    with opened_image(data) as image:
        wanted = _wanted(image.height, image.width, size)
        pixels = np.asarray(_converted(image, mode, wanted))
    return _resized(pixels.reshape(*pixels.shape[:2], -1), wanted)


def _fast(name: str, data: bytes, mode: str, size: Size | None, whole: bool) -> Pixels:
    """Return the pixels by a decoder other than Pillow; ValueError if they would differ from Pillow's.

    Where `whole`, a decoder that cannot reduce may decode the whole of an image that others would reduce.
    """
    if not data.startswith(b"\xff\xd8\xff"):
        raise ValueError("it is no JPEG")
    decoder, module = DECODERS[name], usable(name)
    height, width, its_mode = decoder.header(module, data)
    if its_mode not in _MODES.get(mode, ()):
        raise ValueError(f"{mode} is asked for, of an image of mode {its_mode}")
    if height * width > _MAX_PIXELS:
        raise ValueError(f"it has {height:,} × {width:,} pixels")
    wanted = _wanted(height, width, size)
    reduction = _reduction(height, width, wanted)
    if reduction > 1 and not decoder.reduces and not whole:
        raise ValueError("it cannot be decoded small")
    return _resized(decoder.decode(module, data, mode, reduction), wanted)


def pillow_image(data: bytes, mode: str, size: Size | None = None) -> Any:
    """Return an image of Pillow's, in a size where one is given."""
    with opened_image(data) as image:
        wanted = _wanted(image.height, image.width, size)
        converted = _converted(image, mode, wanted)
        return converted if size is None else converted.resize(wanted[::-1], _pillow().Resampling.BILINEAR)


def is_picture(value: object) -> bool:
    """Say whether a value is an array, a tensor or an image of Pillow."""
    return isinstance(value, (np.ndarray, torch.Tensor)) or type(value).__module__.startswith("PIL.")


def as_png(picture: Any) -> bytes:
    """Return a picture as the bytes of a PNG: the inverse of `ImageDecoder`, but that floats are rounded.

    Raises ValueError for what is no image of 8 bits.
    """
    if isinstance(picture, torch.Tensor):
        picture = picture.detach().cpu().numpy()
        picture = picture.transpose(1, 2, 0) if picture.ndim == 3 else picture
    buffer = io.BytesIO()
    image = _from_array(picture) if isinstance(picture, np.ndarray) else picture
    if image.mode.startswith("I"):
        raise ValueError(f"an image has 8 bits for each channel, and this is one of Pillow's mode {image.mode!r}")
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _from_array(pixels: Any) -> Any:
    in_range = pixels.dtype.kind == "f" and pixels.size and pixels.min() >= 0 and pixels.max() <= 1
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (1,), (3,), (4,)) or 0 in pixels.shape:
        raise ValueError(
            f"an image has the shape (height, width) or (height, width, channels), as a tensor (channels, height, "
            f"width), with 1, 3 or 4 channels, and this has {pixels.shape}, the channels last"
        )
    if pixels.dtype != np.uint8 and not in_range:
        raise ValueError(f"an image has uint8 or floats in 0 … 1, and this has {pixels.dtype}, or other floats")
    if pixels.dtype != np.uint8:
        pixels = np.rint(pixels * 255).astype(np.uint8)
    return _pillow().fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('images are decoded by Pillow: pip install "penstock[image]"') from error
    return Image


@contextmanager
def opened_image(data: bytes) -> Iterator[Any]:
    """Open an image and read only its header, for the size and mode."""
    try:
        with _pillow().open(io.BytesIO(data)) as image:
            if _is_deep(image):
                raise ValueError(
                    f"the image has more than 8 bits for each channel ({image.format}), which every image spec would "
                    "cut off: give a function that keeps them to routed_decode as the first handler, as one that calls "
                    "torchvision.io.decode_image for PNGs"
                )
            yield image
    except SyntaxError as error:  # Pillow raises it for some broken PNGs
        raise OSError(str(error)) from error


def _is_deep(image: Any) -> bool:
    """Say whether the file has more than 8 bits for each channel: the modes of colours hide that Pillow cuts them."""
    _, _, _, arguments = image.tile[0] if image.tile else (None,) * 4
    raw, *_, last = arguments if isinstance(arguments, tuple) else (arguments, None)
    if image.format == "PPM" and isinstance(last, int):
        return last > 255
    return image.mode[0] in "IF" or re.search(";16[BLN]", str(raw)) is not None  # 5, 6 and 5 bits are "BGR;16"


def _wanted(height: int, width: int, size: Size | None) -> tuple[int, int]:
    """Return the wanted height and width."""
    if size is None:
        return height, width
    if isinstance(size, (tuple, list)):
        return size[0], size[1]
    wanted = size * height // min(height, width), size * width // min(height, width)
    if math.prod(wanted) > _MAX_PIXELS:
        raise ValueError(f"an image of {height:,} × {width:,} would become one of {wanted[0]:,} × {wanted[1]:,} pixels")
    return wanted


def _reduction(height: int, width: int, wanted: tuple[int, int]) -> int:
    """Return the largest divisor of a JPEG's sides that leaves it as large as wanted."""
    return next((n for n in (8, 4, 2) if n * wanted[0] <= height and n * wanted[1] <= width), 1)


def _converted(image: Any, mode: str, wanted: tuple[int, int]) -> Any:
    """Return an image that Pillow has decoded: a JPEG by the largest reduction that leaves it large enough."""
    if image.format in ("JPEG", "MPO"):
        image.draft(image.mode, wanted[::-1])
    return image.convert(mode)


def _resized(pixels: Pixels, wanted: tuple[int, int]) -> Pixels:
    """Return pixels in the wanted size: interpolated bilinearly, with antialias where it is smaller."""
    if pixels.shape[:2] == wanted:
        return pixels
    if pixels.shape[2] == 4:  # Pillow weights colours by alpha
        image = _pillow().fromarray(pixels).resize(wanted[::-1], _pillow().Resampling.BILINEAR)
        return np.asarray(image)
    planes = torch.from_numpy(np.require(pixels, requirements="W")).permute(2, 0, 1)[None]
    resized = torch.nn.functional.interpolate(planes, wanted, mode="bilinear", antialias=True)
    return resized[0].permute(1, 2, 0).numpy()
