"""Decode the bytes of files by extension."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ...errors.notes import add_note
from ...registry import IterDataPipe, OnError, close, expect_whole, functional_datapipe
from ...storage.streaming.decompression_limit import MAX_BYTES
from ...storage.streaming.zips import read_verified
from ..bases.input_columns import check_function
from ..bases.one_to_one import OneToOne
from ..files.compression import KINDS, decompressed
from ..files.extensions import IMAGES, SOUNDS, VIDEOS
from ..files.images import Size, expect_decoder, expect_size, faster_decoding, pillow_image, pixels_of
from ..files.numpy_files import arrays_in, is_npy
from ..files.tenbin import from_tenbin
from ..files.videos import frames_of, raising_os_error, sound_of

Handler = Callable[[str, bytes], Any]
"""A function of an extension and the bytes of a file. It returns the value, or None for extensions it does not
handle."""

_IMAGE_EXTENSIONS = {ending[1:] for ending in IMAGES}
_UTF_8 = "utf-8-sig"  # a byte order mark may come first
_IMAGE_SPECS = {
    # container, whether scaled to 0 … 1, Pillow's name of the channels
    "l8": ("numpy", False, "L"),
    "rgb8": ("numpy", False, "RGB"),
    "rgba8": ("numpy", False, "RGBA"),
    "l": ("numpy", True, "L"),
    "rgb": ("numpy", True, "RGB"),
    "rgba": ("numpy", True, "RGBA"),
    "torchl8": ("torch", False, "L"),
    "torchrgb8": ("torch", False, "RGB"),
    "torchrgba8": ("torch", False, "RGBA"),
    "torchl": ("torch", True, "L"),
    "torchrgb": ("torch", True, "RGB"),
    "torch": ("torch", True, "RGB"),
    "torchrgba": ("torch", True, "RGBA"),
    "pill": ("pil", False, "L"),
    "pilrgb": ("pil", False, "RGB"),
    "pil": ("pil", False, "RGB"),
    "pilrgba": ("pil", False, "RGBA"),
}


def extension_extract_fn(pathname: str) -> str:
    """Return the text after the last dot of a file's name, in lower case; `""` where the name has no dot.

    >>> extension_extract_fn("a.b/IMG.seg.PNG"), extension_extract_fn("a.b/README")
    ('png', '')
    """
    name = pathname.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def decode_text(extension: str, data: bytes) -> str | None:
    """Return the text of `txt`, `text` and `transcript` files, decoded as UTF-8, without a byte order mark."""
    return data.decode(_UTF_8) if extension in {"txt", "text", "transcript"} else None


def decode_number(extension: str, data: bytes) -> int | None:
    """Return the whole number in `cls`, `cls2`, `index`, `inx` and `id` files."""
    return int(data.decode(_UTF_8)) if extension in {"cls", "cls2", "index", "inx", "id"} else None


def decode_json(extension: str, data: bytes) -> Any:
    """Return the value of `json` and `jsn` files. A null gives None, so the bytes stay."""
    if extension not in {"json", "jsn"}:
        return None
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the lists and dicts of the document are nested too deeply") from error


def decode_numpy(extension: str, data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Return the array of `npy` files, the dict of arrays of `npz`, the list of arrays of WebDataset's `ten` and `tb`.

    Raises ValueError for a truncated or corrupt file, for pickled objects, and for arrays larger than both `max_bytes`
    and a hundred times the file.
    """
    if extension in {"ten", "tb"}:
        return from_tenbin(data)
    if extension not in {"npy", "npz"}:
        return None
    if extension == "npy" and not is_npy(data):
        raise ValueError(f"this is not a NumPy array: it begins with {data[:6]!r}")
    return arrays_in(data, max_bytes)


def decode_torch(extension: str, data: bytes, max_bytes: int = MAX_BYTES) -> Any:
    """Return the content of `pt` and `pth` files, on the CPU.

    Raises ValueError for a file that is truncated, corrupt or too large, as `decode_numpy` does, and UnpicklingError
    for anything but tensors and plain data.
    """
    if extension not in {"pt", "pth"}:
        return None
    load = partial(torch.load, map_location="cpu", weights_only=True)
    try:
        return read_verified(io.BytesIO(data), load, max_bytes)
    except zipfile.BadZipFile as error:
        raise ValueError(f"the file is cut or corrupt: {error}") from error


def decode_video(extension: str, data: bytes) -> dict[str, Any] | None:
    """Return all frames of a video as `"video"`, and their times as `"pts"`, as `read_videos` does of a clip.

    Extensions: mp4, m4v, mov, mkv, webm, avi, mpg, mpeg, ogv, wmv. It is no default handler: give it to
    `routed_decode`, for short videos. Raises OSError for what is no video, and ImportError without torchcodec.

    >>> dp = IterableWrapper([("a.mp4", b"")]).routed_decode("torch", decode_video, decode_audio)
    """
    if f".{extension}" not in VIDEOS:
        return None
    video = frames_of(io.BytesIO(data))
    with raising_os_error("video"):
        found = video.get_frames_in_range(0, video.metadata.num_frames)
    return {"video": found.data, "pts": found.pts_seconds}


def decode_audio(extension: str, data: bytes) -> dict[str, Any] | None:
    """Return the sound of a file as `"audio"`, float32 of shape (channels, samples), and its `"sample_rate"`.

    Extensions: wav, flac, mp3, ogg, oga, opus, m4a, aac, aiff. It is no default handler: give it to `routed_decode`.
    Raises OSError for what is no sound, and ImportError without torchcodec.
    """
    if f".{extension}" not in SOUNDS:
        return None
    sound = sound_of(io.BytesIO(data))
    with raising_os_error("sound"):
        found = sound.get_all_samples()
    return {"audio": found.data, "sample_rate": found.sample_rate}


@dataclass(frozen=True)
class ImageDecoder:
    """Decode images as a spec says, by the fastest decoder that gives the pixels of Pillow.

    A spec names the container and the channels. With an 8 at its end, values are uint8 in 0 … 255, else float32 in 0 …
    1:

    - `l8`, `rgb8`, `rgba8`, `l`, `rgb`, `rgba`: NumPy arrays of shape (height, width) or (height, width, channels)
    - `torchl8`, `torchrgb8`, `torchrgba8`, `torchl`, `torchrgb` or `torch`, `torchrgba`: tensors of shape (channels,
      height, width)
    - `pill`, `pilrgb` or `pil`, `pilrgba`: images of Pillow, which decodes them itself

    `decoder` is `"auto"`, `"pil"`, `"simplejpeg"`, `"torchvision"` or `"torchcodec"`. Of the last three, `"auto"` takes
    the first that works here, for JPEGs: as RGB, and as grey where they are grey. Pillow decodes all else: other
    formats, grey out of colours, CMYK, RGBA, and whatever the other finds corrupt. So pixels differ from those of
    `"pil"` by 1 of 255 at most, and by 0.01 at the mean. A decoder that is named decodes every image, or raises. No
    decoder applies the EXIF rotation.

    `size` is a pair of height and width, or the shorter side, and the other keeps its proportion. A JPEG at least twice
    as large is decoded to a half, a quarter or an eighth by the DCT, as Pillow's `draft` does. Then pixels are
    interpolated bilinearly, with antialias where the image becomes smaller, as Pillow's `resize` does. Decoding at full
    size first gives softer pixels, 1 to 7 of 255 away at the mean. torchvision and torchcodec do that where they are
    named, as they cannot decode a part of the DCT.

    Extensions: png, jpg, jpeg, jpe, jfif, bmp, gif, tif, tiff, webp, pbm, pgm, pnm, ppm. Of several frames or pages, as
    in an animated GIF, the first is taken. Raises OSError (or Pillow's subclass of it, UnidentifiedImageError) for a
    truncated or corrupt image, or one that the named decoder cannot decode. Raises ValueError for an image with more
    than 8 bits per channel, in grey or in colours, which all specs would truncate: a handler of your own, before this
    one, decodes it, as by `torchvision.io.decode_image` for PNGs. Raises ValueError for an image so narrow that a
    shorter side of `size` would make more than 89 million pixels. At construction, raises ValueError for an unknown
    spec or decoder, and ImportError for one that does not work here.

    >>> ImageDecoder("torchrgb8", size=(8, 8)).size
    (8, 8)
    """

    spec: str
    decoder: str = "auto"
    size: Size | None = None

    def __post_init__(self) -> None:
        if self.spec not in _IMAGE_SPECS:
            raise ValueError(f"no image spec {self.spec!r}: there are {', '.join(_IMAGE_SPECS)}")
        container, _, mode = _IMAGE_SPECS[self.spec]
        expect_decoder(self.decoder, mode, by_pillow=container == "pil")
        expect_size(self.size)

    def __call__(self, extension: str, data: bytes) -> Any:
        """Return the image, or None where the extension is not an image's."""
        if extension not in _IMAGE_EXTENSIONS:
            return None
        container, scale, mode = _IMAGE_SPECS[self.spec]
        if container == "pil":
            return pillow_image(data, mode, self.size)
        pixels = pixels_of(data, mode, self.decoder, self.size)
        if container == "torch":
            pixels = pixels.transpose(2, 0, 1)
        elif mode == "L":
            pixels = pixels[..., 0]
        if scale:
            scaled = np.divide(pixels, 255, dtype=np.float32, order="C")
            return torch.from_numpy(scaled) if container == "torch" else scaled
        pixels = np.require(pixels, requirements=("C", "W"))
        return torch.from_numpy(pixels) if container == "torch" else pixels


def default_handlers(
    image_spec: str = "torch", max_bytes: int = MAX_BYTES, *, decoder: str = "auto", size: Size | None = None
) -> tuple[Handler, ...]:
    """Return the handlers that `routed_decode` uses: for images of a spec, text, numbers, JSON, NumPy and torch."""
    bounded = (partial(decode_numpy, max_bytes=max_bytes), partial(decode_torch, max_bytes=max_bytes))
    return (ImageDecoder(image_spec, decoder, size), decode_text, decode_number, decode_json, *bounded)


@functional_datapipe("routed_decode")
class RoutedDecoder(OneToOne[Any]):
    """Yield each file with its decoded content; its extension chooses the decoder.

    Take it for images, text, JSON, arrays and tensors in one stream. A pair of a path and a stream (or bytes) becomes a
    pair of the path and the value. In a dict, as from `webdataset`, each value is decoded. Streams are read and closed.
    Bytes without a handler stay bytes. Other values, and values whose key begins with `__`, stay as they are. With
    `only`, such as `["txt", "seg.png"]`, all but these extensions stay bytes: what a file's name has after its first
    dot, or the key of an entry.

    Each handler is a function of an extension and bytes; the first result other than None is taken. The default
    handlers, in `penstock.pipes.iter.decode`, are for: images, as tensors of float32 in 0 … 1, of shape (3, height,
    width); text (`txt`); numbers (`cls`, `index`, `id`, …); `json`; `npy` and `npz`; `ten`, WebDataset's lists of
    arrays; `pt` and `pth`. A string among the handlers means all of these, with that spec of `ImageDecoder` for images,
    such as `"torchrgb8"`. Pickles have no handler: reading one runs the code in it. `decoder` and `size` are those of
    `ImageDecoder`: what decodes images, and the height and width, or the shorter side, that they get.

    A file whose name ends as `.json.gz` does is decompressed, and decoded by the extension before `.gz`. It stays
    compressed where no handler takes that.

    What is decompressed, and arrays of `npz` and `pt` files, may have `max_bytes`, or a hundred times the bytes of the
    file if that is more.

    `decode_video` and `decode_audio`, in the same module, are handlers to add: `routed_decode("torch", decode_video)`.

    `key_fn` returns the extension of a path. For an entry of a dict, the path is `"__key__"` of the dict, a dot and the
    key of the entry. `on_error` handles a file or dict that cannot be read or decoded; it cannot be a `Retry`.

    Raises the errors of the handlers: OSError for a truncated image, DecompressionBombError of Pillow for too many
    pixels, UnicodeDecodeError for text that is not UTF-8, ValueError for arrays and tensors that are truncated, corrupt
    or larger than `max_bytes`. Raises ImportError for an image where Pillow is not installed, and at construction for a
    decoder that does not work here.

    >>> dp = IterableWrapper([("a/1.txt", b"one"), ("a/1.json", b"[1, 2]"), ("a/1.raw", b"xyz")]).routed_decode()
    >>> list(dp)
    [('a/1.txt', 'one'), ('a/1.json', [1, 2]), ('a/1.raw', b'xyz')]
    >>> list(IterableWrapper([{"__key__": "a/1", ".txt": b"one", ".cls": b"1"}]).routed_decode())
    [{'__key__': 'a/1', '.txt': 'one', '.cls': 1}]
    """

    traits = ("expensive",)
    gives = "same"

    def __init__(
        self,
        source: IterDataPipe[Any],
        *handlers: Handler | str,
        key_fn: Callable[[str], str] = extension_extract_fn,
        decoder: str = "auto",
        size: Size | None = None,
        only: Collection[str] | None = None,
        max_bytes: int = MAX_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        check_function("key_fn", key_fn)
        if isinstance(only, str) or not all(isinstance(name, str) for name in only or ()):
            raise TypeError(f"only must be a list of extensions, such as ['txt', 'seg.png'], and is {only!r:.100}")
        expect_whole("max_bytes", max_bytes)
        self.source = source
        self.handlers = handlers
        self.key_fn = key_fn
        self.only = only
        self.decoder = decoder
        self.size = size
        self.max_bytes = max_bytes
        self.handle_errors(on_error, can_retry=False)
        if any(isinstance(handler, str) for handler in handlers):  # a specification of images
            self.faster = faster_decoding(decoder, size)
        self._only = None if only is None else {name.lower().lstrip(".") for name in only}
        self._handlers: list[Handler] = []
        for handler in handlers or ("torch",):
            if isinstance(handler, str):
                self._handlers += default_handlers(handler, max_bytes, decoder=decoder, size=size)
            else:
                check_function("a handler", handler, ("extension", "data"))
                self._handlers.append(handler)

    def _output(self, item: Any) -> Any:
        if isinstance(item, Mapping):
            return self._decode_sample(item)
        if isinstance(item, (tuple, list)) and len(item) == 2:
            path, data = item
            return path, self._decode_file(path, data)
        raise TypeError(f"an item must be a pair of a path and a stream, or a dict, and is a {type(item).__name__}")

    def _decode_sample(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        decoded: dict[str, Any] = {}
        stem = sample.get("__key__", "")
        for name, data in sample.items():
            try:
                decoded[name] = data if name.startswith("__") else self._decode_file(f"{stem}.{name.lstrip('.')}", data)
            except Exception as error:
                add_note(error, f"while decoding {name!r} of the sample {stem!r}")
                for unread in sample.values():
                    close(unread)
                raise
        return decoded

    def _decode_file(self, path: str, data: Any) -> Any:
        content = _as_bytes(data)
        if content is None:
            return data
        if self._only is not None and _extensions(path) not in self._only:
            return content
        value = self._handled(self.key_fn(path), content)
        if value is None and _extensions(path).endswith(".gz"):
            new_decompressor: Any = KINDS["gzip"].new_decompressor
            with decompressed(io.BytesIO(content), path, new_decompressor, self.max_bytes) as stream:
                value = self._handled(self.key_fn(path[:-3]), stream.read())
        return content if value is None else value

    def _handled(self, extension: str, content: bytes) -> Any:
        for handler in self._handlers:
            value = handler(extension, content)
            if value is not None:
                return value
        return None


def _extensions(path: str) -> str:
    """Return what the name of a file has after its first dot, in lower case."""
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[2].lower()


def _as_bytes(data: Any) -> bytes | None:
    """Return the bytes of a buffer or of a stream, which is closed; None for anything else."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if not hasattr(data, "read"):
        return None
    try:
        content = data.read()
    finally:
        close(data)
    if isinstance(content, str):
        raise TypeError("the stream is open as text, and decoding needs bytes: open it with mode='b'")
    return bytes(content)
