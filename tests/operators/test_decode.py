from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from deep_images import png_of, pnm_of, tiff_of
from penstock.pipes.files.images import usable
from penstock.pipes.files.tenbin import to_tenbin
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.iter.decode import ImageDecoder, decode_text, default_handlers

Image = pytest.importorskip("PIL.Image")

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14  # two rows of three pixels


def encoded(pixels: Any = PIXELS, form: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


def saved(write: Callable[..., None], value: Any) -> bytes:
    stream = io.BytesIO()
    write(stream, value)
    return stream.getvalue()


def decoded(path: str, data: Any, *handlers: Any, **arguments: Any) -> Any:
    [(same_path, value)] = IterableWrapper([(path, data)], deepcopy=False).routed_decode(*handlers, **arguments)
    assert same_path == path
    return value


def notes_of(error: BaseException) -> str:
    return "\n".join(error.__notes__)


# what is decoded, and how


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("a/1.txt", "grün".encode(), "grün"),
        ("a/1.TRANSCRIPT", b"", ""),
        ("a/1.cls", b"-7\n", -7),
        ("a/1.json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("a.txt/README", b"xyz", b"xyz"),
        ("a/1.txt.gz", gzip.compress("grün".encode(), mtime=0), "grün"),
        ("a/1.seg.JSON.GZ", gzip.compress(b"[1]", mtime=0), [1]),
        ("a/1.raw.gz", gzip.compress(b"xyz", mtime=0), gzip.compress(b"xyz", mtime=0)),
        ("a/1.gz", b"xyz", b"xyz"),
        ("a/1.count", b"7", b"7"),
        ("a/1.class", b"cat", b"cat"),
        ("a.txt\\README", b"xyz", b"xyz"),
        ("a/1.png", "neither a stream nor bytes", "neither a stream nor bytes"),
    ],
)
def test_bytes_are_decoded_by_extension_or_stay_as_they_are(path: str, data: bytes, expected: Any) -> None:
    value = decoded(path, data)
    assert value == expected
    assert type(value) is type(expected)


def test_arrays_and_tensors_are_decoded() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert decoded("1.npy", saved(np.save, array)).tolist() == array.tolist()
    of_two = decoded("1.npz", saved(lambda stream, value: np.savez(stream, x=value, y=value + 1), array))
    assert {name: each.tolist() for name, each in of_two.items()} == {"x": array.tolist(), "y": (array + 1).tolist()}
    weights = decoded("1.pt", saved(lambda stream, value: torch.save(value, stream), {"w": torch.ones(2)}))
    assert weights["w"].tolist() == [1, 1]


TEN = [np.arange(6, dtype=np.int16).reshape(2, 3), np.array(2.5), np.zeros((0, 4), np.float32)]


def test_lists_of_arrays_are_those_of_the_package_webdataset() -> None:
    tenbin = pytest.importorskip("webdataset.tenbin")
    arrays = [array for array in TEN if array.ndim]  # it reads none without dimensions
    for path in ("1.ten", "1.tb", "1.ten.gz"):
        content = bytes(tenbin.encode_buffer(arrays))
        read = decoded(path, gzip.compress(content) if path.endswith("gz") else content)
        assert [(each.dtype, each.tolist()) for each in read] == [(each.dtype, each.tolist()) for each in arrays]
    assert to_tenbin(arrays) == content


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-16], "cut: the last header has no data"),
        (lambda content: content[:100], "a chunk has 12 bytes at byte 80"),
        (lambda content: content[:40], "a chunk has 40 bytes at byte 0"),
        (lambda content: b"x" + content[1:], "no chunk begins at byte 0"),
        (lambda content: content.replace(b"i2", b"O8"), "the type 'O8', and not one of"),
        (lambda content: content.replace(struct.pack("<3q", 2, 2, 3), struct.pack("<3q", 2, 2, 4)), "the shape"),
        (lambda content: content.replace(struct.pack("<3q", 2, 2, 3), struct.pack("<3q", 9, 2, 3)), "is cut or corr"),
        (lambda content: content.replace(struct.pack("<3q", 2, 2, 3), struct.pack("<3q", 2, -2, -3)), "the shape"),
    ],
)
def test_a_damaged_list_of_arrays_is_an_error(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded("1.ten", damage(to_tenbin(TEN)))


def test_a_compressed_file_that_is_damaged_or_a_bomb_is_an_error() -> None:
    with pytest.raises(OSError, match="1.txt.gz' is cut or corrupt"):
        decoded("1.txt.gz", gzip.compress(b"one")[:-3])
    with pytest.raises(ValueError, match="larger max_bytes"):
        decoded("1.txt.gz", gzip.compress(bytes(10**6)), max_bytes=10)
    assert decoded("1.txt.gz", gzip.compress(b"one"), lambda extension, data: extension) == "gz"


def test_only_some_extensions_are_decoded() -> None:
    sample = {"__key__": "t/1", ".txt": b"one", "seg.TXT": b"two", ".cls": io.BytesIO(b"1")}
    for only in (["seg.txt"], {".seg.txt"}, ("SEG.TXT",)):
        dp = IterableWrapper([{**sample, ".cls": io.BytesIO(b"1")}], deepcopy=False).routed_decode(only=only)
        assert list(dp) == [{"__key__": "t/1", ".txt": b"one", "seg.TXT": "two", ".cls": b"1"}]
    assert decoded("a.b/1.txt", b"one", only=["txt"]) == "one"
    assert decoded("a.b/1.seg.txt", b"one", only=["txt"]) == b"one"


@pytest.mark.parametrize("wrap", [bytearray, memoryview, io.BytesIO])
def test_bytes_may_come_as_a_buffer_or_a_stream(wrap: Callable[[bytes], Any]) -> None:
    assert decoded("1.txt", wrap(b"one")) == "one"
    assert type(decoded("1.raw", wrap(b"one"))) is bytes


def test_each_entry_of_a_sample_is_decoded() -> None:
    sample = {"__key__": "t/1", "__url__": b"u", ".txt": b"one", ".seg.cls": b"1", "json": b"[1]", ".raw": b"x"}
    expected = {"__key__": "t/1", "__url__": b"u", ".txt": "one", ".seg.cls": 1, "json": [1], ".raw": b"x"}
    assert list(IterableWrapper([sample]).routed_decode()) == [expected]


# images

SPECS = {
    "l8": (np.uint8, (2, 3)),
    "rgb8": (np.uint8, (2, 3, 3)),
    "rgba8": (np.uint8, (2, 3, 4)),
    "l": (np.float32, (2, 3)),
    "rgb": (np.float32, (2, 3, 3)),
    "rgba": (np.float32, (2, 3, 4)),
    "torchl8": (torch.uint8, (1, 2, 3)),
    "torchrgb8": (torch.uint8, (3, 2, 3)),
    "torchrgba8": (torch.uint8, (4, 2, 3)),
    "torchl": (torch.float32, (1, 2, 3)),
    "torchrgb": (torch.float32, (3, 2, 3)),
    "torch": (torch.float32, (3, 2, 3)),
    "torchrgba": (torch.float32, (4, 2, 3)),
}


@pytest.mark.parametrize("spec", SPECS)
def test_an_image_becomes_the_array_or_tensor_of_its_spec(spec: str) -> None:
    image = decoded("1.png", encoded(), spec)
    assert (image.dtype, tuple(image.shape)) == SPECS[spec]
    pixels = image.numpy().transpose(1, 2, 0) if spec.startswith("torch") else image.reshape(2, 3, -1)
    scaled = pixels * 255 if pixels.dtype == np.float32 else pixels
    if scaled.shape[-1] == 1:
        np.testing.assert_array_equal(np.rint(scaled[..., 0]), np.asarray(Image.fromarray(PIXELS).convert("L")))
    else:
        np.testing.assert_allclose(scaled[..., :3], PIXELS)


@pytest.mark.parametrize(("spec", "mode"), [("pill", "L"), ("pil", "RGB"), ("pilrgb", "RGB"), ("pilrgba", "RGBA")])
def test_an_image_becomes_an_image_of_pillow(spec: str, mode: str) -> None:
    image = decoded("1.png", encoded(), spec)
    assert (image.mode, image.size) == (mode, (3, 2))


@pytest.mark.parametrize(
    ("extension", "form"),
    [
        ("BMP", "BMP"),
        ("tif", "TIFF"),
        ("ppm", "PPM"),
        ("jpg", "JPEG"),
        ("webp", "WEBP"),
        ("gif", "GIF"),
        ("JFIF", "JPEG"),
    ],
)
def test_images_have_many_extensions_and_become_tensors_of_floats(extension: str, form: str) -> None:
    image = decoded(f"1.{extension}", encoded(form=form))
    assert (image.dtype, image.shape) == SPECS["torch"]


@pytest.mark.parametrize("pixels", [PIXELS[..., 0].astype(np.uint16) * 300, PIXELS[..., 0].astype(np.float32)])
@pytest.mark.parametrize("spec", ["torch", "l8", "pil"])
def test_an_image_of_more_than_8_bits_is_refused_rather_than_cut_off(pixels: Any, spec: str) -> None:
    with pytest.raises(ValueError, match="more than 8 bits for each channel"):
        decoded("1.tiff", encoded(pixels, "TIFF"), spec)


def _zipped_tiff_of(pixels: Any) -> bytes:
    return tiff_of(pixels, compressed=True)


@pytest.mark.parametrize(
    ("write", "channels"),
    [
        *((png_of, channels) for channels in (1, 2, 3, 4)),
        *((write, channels) for write in (tiff_of, _zipped_tiff_of) for channels in (3, 4)),
        *((pnm_of, channels) for channels in (1, 3)),
    ],
)
@pytest.mark.parametrize("spec", ["torch", "rgba8", "pill"])
def test_colours_of_16_bits_are_refused_in_every_format(
    write: Callable[[Any], bytes], channels: int, spec: str
) -> None:
    data = write(np.full((2, 5, channels), 32898))
    assert Image.open(io.BytesIO(data)).size == (5, 2)
    with pytest.raises(ValueError, match=r"more than 8 bits for each channel \(\w+\), .* torchvision\.io"):
        decoded("1.png", data, spec)


def test_images_of_fewer_bits_are_read() -> None:
    of_16_colours = b"P6 1 1 15 \x0f\x00\x05"
    assert decoded("1.ppm", of_16_colours, "rgb8").tolist() == [[[255, 0, 85]]]
    stream = io.BytesIO()
    Image.new("1", (3, 2), 1).save(stream, "TIFF")
    assert decoded("1.tif", stream.getvalue(), "l8").tolist() == [[255] * 3] * 2
    # 5, 6 and 5 bits for each pixel, which Pillow calls "BGR;16"
    header = struct.pack(
        "<2sIIIIiiHHIIiiII3I", b"BM", 70, 0, 66, 40, 1, -1, 1, 16, 3, 4, 0, 0, 0, 0, 0xF800, 0x7E0, 0x1F
    )
    assert decoded("1.bmp", header + struct.pack("<HH", 0xF800, 0), "rgb8").tolist() == [[[255, 0, 0]]]


# decoders and sizes


@cache
def photo(height: int = 300, width: int = 400) -> Any:
    """Return waves, an edge and some noise: what a JPEG of a photograph has."""
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 9 + y / 23), np.cos(x / 31 - y / 7), np.sin((x + y) / 50)], axis=-1) * 80
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 1))
    return (waves + 60 * (x > y)[..., None] + 100 + noise).clip(0, 255).astype(np.uint8)


def jpeg(pixels: Any = None, mode: str | None = None, **options: Any) -> bytes:
    image = Image.fromarray(photo() if pixels is None else pixels)
    stream = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(stream, "JPEG", **{"quality": 90, **options})
    return stream.getvalue()


def differences(first: Any, second: Any) -> tuple[int, float]:
    """Return the largest and the mean absolute difference."""
    assert first.shape == second.shape
    difference = np.abs(np.asarray(first, dtype=int) - np.asarray(second, dtype=int))
    return int(difference.max()), float(difference.mean())


JPEGS: list[dict[str, Any]] = [
    {"subsampling": 0},
    {"subsampling": 1},
    {"subsampling": 2},
    {"subsampling": 2, "progressive": True},
    {"mode": "L"},
]


def difference_from_pillow(decoder: str, options: dict[str, Any], size: Any) -> tuple[int, float]:
    spec, data = "l8" if options.get("mode") == "L" else "rgb8", jpeg(**options)
    return differences(*(ImageDecoder(spec, name, size)("jpg", data) for name in (decoder, "pil")))


@pytest.mark.parametrize("size", [None, (150, 200), (224, 224), 250, 1000, (37, 70)], ids=str)
@pytest.mark.parametrize("options", JPEGS, ids=str)
def test_decoders_give_the_same_pixels(options: dict[str, Any], size: Any) -> None:
    largest, mean = difference_from_pillow("simplejpeg", options, size)
    assert largest <= 1
    assert mean <= 0.01


@pytest.mark.parametrize("decoder", ["torchvision", "torchcodec"])
def test_decoders_beside_torch_give_the_same_pixels(decoder: str) -> None:
    try:
        usable(decoder)
    except ImportError as error:
        pytest.skip(f"{decoder} decodes only where its libraries load, and those for CPUs are in no package: {error}")
    for options in JPEGS:
        for size in (None, (224, 224), 250, 1000):
            largest, mean = difference_from_pillow(decoder, options, size)
            assert largest <= 1
            assert mean <= 0.01
        _, mean = difference_from_pillow(decoder, options, (150, 200))  # it decodes the whole
        assert 0 < mean <= 8
    straight, as_it_is = (ImageDecoder("rgb8", name)("jpg", turned()) for name in ("auto", "pil"))
    assert differences(straight, as_it_is) == (0, 0)


@pytest.mark.parametrize("size", [(150, 200), (60, 60), 37], ids=str)
@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_jpeg_decoded_small_is_near_the_whole_one_resized(size: Any, subsampling: int) -> None:
    data = jpeg(subsampling=subsampling)
    small = ImageDecoder("rgb8", size=size)("jpg", data)
    whole = Image.open(io.BytesIO(data)).resize(small.shape[1::-1], Image.Resampling.BILINEAR)
    _, mean = differences(small, np.asarray(whole))
    assert 0 < mean <= 8  # 0 would be the whole one


@pytest.mark.parametrize("spec", ["rgb8", "torchrgba", "pill"])
@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_every_spec_takes_a_size(form: str, spec: str) -> None:
    wide, tall = encoded(photo(), form), encoded(photo(400, 300), form)
    for data, size, expected in [
        (wide, (30, 20), (30, 20)),
        (wide, 30, (30, 40)),
        (tall, 30, (40, 30)),
        (wide, [7, 500], (7, 500)),
        (wide, np.int64(600), (600, 800)),
    ]:
        image = decoded(f"1.{form}", data, spec, size=size)
        shape = image.size[::-1] if spec == "pill" else image.shape[-2:] if "torch" in spec else image.shape[:2]
        assert tuple(shape) == expected


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_narrow_image_is_not_blown_up_beyond_bounds(form: str) -> None:
    narrow = encoded(np.zeros((60_000, 1, 3), np.uint8), form)
    with pytest.raises(ValueError, match="60,000 × 1 would become one of 13,440,000 × 224 pixels"):
        decoded(f"1.{form}", narrow, "rgb8", size=224)
    assert decoded(f"1.{form}", narrow, "rgb8", size=(224, 224)).shape == (224, 224, 3)


@pytest.mark.parametrize("spec", ["rgb8", "pil", "rgba8"])
def test_resizing_is_pillows_bilinear_one_with_antialias(spec: str) -> None:
    expected = np.asarray(Image.fromarray(photo()).resize((90, 70), Image.Resampling.BILINEAR))
    image = np.asarray(decoded("1.png", encoded(photo()), spec, size=(70, 90)))
    assert differences(image[..., :3], expected)[0] <= 1


def test_what_cannot_be_seen_gives_no_colour_to_its_neighbours() -> None:
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[:, :2] = (255, 255, 255, 255)
    pixels[:, 2:] = (255, 0, 0, 0)
    image = decoded("1.png", encoded(pixels), "rgba8", size=(1, 1))[0, 0]
    assert image[:3].tolist() == [255, 255, 255]
    assert 120 <= image[3] <= 135


@pytest.mark.parametrize("spec", ["l8", "rgb8", "rgba8", "torchl8", "torchrgb8", "rgb", "torch"])
@pytest.mark.parametrize("size", [None, (10, 10), (150, 200)], ids=str)
def test_arrays_and_tensors_of_jpegs_can_be_written_and_are_contiguous(spec: str, size: Any) -> None:
    for mode in ("L", "RGB"):
        image = decoded("1.jpg", jpeg(mode=mode), spec, size=size)
        if isinstance(image, torch.Tensor):
            assert image.is_contiguous()
            image.fill_(1)
        else:
            assert image.flags.c_contiguous
            image[:] = 1


def cmyk() -> bytes:
    return jpeg(mode="CMYK")


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(exif=exif)


def two_in_one() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(photo()).save(stream, "MPO", save_all=True, append_images=[Image.new("RGB", (400, 300))])
    return stream.getvalue()


def with_bytes_too_many() -> bytes:
    data = jpeg()
    return data[:-2] + b"\x12\x34" + data[-2:]


def paletted() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(photo()).quantize(16).save(stream, "PNG", transparency=3)
    return stream.getvalue()


OTHERS = {
    **{make.__name__: make for make in (cmyk, turned, two_in_one, with_bytes_too_many, paletted)},
    "grey": lambda: jpeg(mode="L"),
    "one pixel": lambda: jpeg(photo(1, 1)),
    "PNG of 1 bit": lambda: encoded(photo()[..., 0] > 100),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("spec", ["l8", "rgb8", "rgba8"])
@pytest.mark.parametrize("size", [None, 100])
def test_auto_gives_what_pillow_gives_whatever_the_file_is(make: Callable[[], bytes], spec: str, size: Any) -> None:
    data = make()
    images = [ImageDecoder(spec, decoder, size)("png", data) for decoder in ("auto", "pil")]
    assert differences(*images)[0] <= 1


def test_auto_takes_the_fast_decoder_for_jpegs_and_no_other_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    simplejpeg = pytest.importorskip("simplejpeg")
    usable("simplejpeg")
    calls = []

    def decode_jpeg(data: bytes, colorspace: str, **options: Any) -> Any:
        calls.append((colorspace, options))
        return np.zeros((150, 200, 1 if colorspace == "GRAY" else 3), np.uint8)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", decode_jpeg)
    assert decoded("1.jpg", jpeg(), "rgb8", size=140).shape == (140, 186, 3)
    assert decoded("1.jpg", jpeg(mode="L"), "l8", size=140).shape == (140, 186)
    assert decoded("1.jpg", jpeg(), "rgb8").max() == 0
    for spec, data in [
        ("l8", jpeg()),
        ("rgba8", jpeg()),
        ("rgb8", cmyk()),
        ("rgb8", encoded(photo())),
        ("pil", jpeg()),
    ]:
        assert np.asarray(decoded("1.jpg", data, spec)).max() > 100
    assert np.asarray(decoded("1.jpg", jpeg(), "rgb8", decoder="pil")).max() > 100
    half = {"min_height": 150, "min_width": 200}
    assert calls == [("RGB", half), ("GRAY", half), ("RGB", {})]


@pytest.mark.parametrize("make", [cmyk, paletted, lambda: b"no image", lambda: jpeg()[:5000]])
def test_a_named_decoder_raises_for_what_it_cannot_decode(make: Callable[[], bytes]) -> None:
    with pytest.raises(OSError, match="simplejpeg cannot decode it, and 'auto' would|cannot identify") as caught:
        decoded("a/1.jpg", make(), "rgb8", decoder="simplejpeg")
    assert "raised in RoutedDecoder('rgb8', decoder='simplejpeg'), on ('a/1.jpg', " in notes_of(caught.value)
    dp = IterableWrapper([("1.jpg", make()), ("2.jpg", jpeg())]).routed_decode(decoder="simplejpeg", on_error="skip")
    assert [path for path, _ in dp] == ["2.jpg"]


def decode_jpeg(*arguments: Any) -> Any:
    raise RuntimeError("could not load the image extension")


BROKEN = types.ModuleType("torchvision.io")
vars(BROKEN)["decode_jpeg"] = decode_jpeg


@pytest.mark.parametrize(
    ("name", "module", "stand_in", "text"),
    [
        ("simplejpeg", "simplejpeg", None, r'pip install "penstock\[image\]"'),
        ("torchvision", "torchvision.io", None, "install the build of it that is for this torch"),
        ("torchvision", "torchvision.io", BROKEN, "could not load the image extension"),
    ],
)
def test_a_decoder_that_does_not_work_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, stand_in: Any, text: str
) -> None:
    usable.cache_clear()
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, module, stand_in)
    with pytest.raises(ImportError, match=f"decoder='{name}' does not work here .*{text}"):
        IterableWrapper([]).routed_decode(decoder=name)


# handlers


def upper(extension: str, data: bytes) -> str | None:
    return data.decode().upper() if extension == "txt" else None


def test_the_first_handler_that_gives_something_wins() -> None:
    assert decoded("1.txt", b"one", upper, decode_text) == "ONE"
    assert decoded("1.text", b"one", upper, decode_text) == "one"
    assert decoded("1.json", b"[1]", upper, decode_text) == b"[1]"
    assert decoded("1.txt", b"one", lambda extension, data: 0) == 0
    assert decoded("1.png", encoded(), upper, "rgb8").dtype == np.uint8  # a text stands for all default handlers
    assert decoded("1.json", b"[1]", *default_handlers("rgb8")) == [1]


def test_key_fn_makes_the_extension_out_of_the_path() -> None:
    seen = []

    def remember(extension: str, data: bytes) -> bytes:
        seen.append(extension)
        return data

    decoded("a/1.seg.png", b"x", remember, key_fn=str.upper)
    list(IterableWrapper([{"__key__": "a/1", ".seg.png": b"x"}]).routed_decode(remember, key_fn=str.upper))
    list(IterableWrapper([{"seg.png": b"x"}]).routed_decode(remember))
    assert seen == ["A/1.SEG.PNG", "A/1.SEG.PNG", "png"]


# streams


class Failing(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError("the connection was lost")


@pytest.mark.parametrize("stream", [Failing(b""), io.BytesIO(b"no image"), io.StringIO("no bytes")])
def test_all_streams_are_closed_when_one_cannot_be_decoded(stream: Any) -> None:
    other = io.BytesIO(b"one")
    with pytest.raises((OSError, TypeError), match="connection|cannot identify|open it with mode='b'"):
        list(IterableWrapper([{"__key__": "1", ".png": stream, ".txt": other}], deepcopy=False).routed_decode())
    assert stream.closed
    assert other.closed


# what cannot be decoded

WHOLE = encoded(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))


def test_a_corrupt_image_in_a_sample_is_named_by_sample_and_entry() -> None:
    with pytest.raises(OSError, match="cannot identify image") as caught:
        list(IterableWrapper([{"__key__": "t.tar/7", ".txt": b"one", ".png": b"garbage"}]).routed_decode())
    assert "while decoding '.png' of the sample 't.tar/7'" in notes_of(caught.value)
    assert "raised in RoutedDecoder(), on {'__key__': 't.tar/7'" in notes_of(caught.value)


@pytest.mark.parametrize(
    ("path", "data", "error"),
    [
        ("cut.png", WHOLE[: len(WHOLE) // 2], OSError),
        ("wrong length.png", WHOLE[:33] + (100).to_bytes(4, "big") + WHOLE[37:], OSError),
        ("wrong checksum.png", WHOLE[:29] + b"abcd" + WHOLE[33:], OSError),
        ("cut.jpg", jpeg()[:5000], OSError),
        ("empty.png", b"", OSError),
        ("1.txt", b"\xff\xfe", UnicodeDecodeError),
        ("1.cls", b"cat", ValueError),
        ("1.json", b"{", json.JSONDecodeError),
        ("1.npy", b"garbage", ValueError),
        ("1.npz", b"garbage", ValueError),
        ("1.pt", b"garbage", Exception),
    ],
)
def test_what_cannot_be_decoded_keeps_its_error(path: str, data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        decoded(path, data)
    assert f"raised in RoutedDecoder(), on ('{path}', " in notes_of(caught.value)


class Harmful:
    ran: list[str] = []

    def __reduce__(self) -> Any:
        return _harm, ()


def _harm() -> None:
    Harmful.ran.append("code out of a file")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("1.pt", saved(lambda stream, value: torch.save(value, stream), Harmful())),
        ("1.npy", saved(np.save, np.array([Harmful()], dtype=object))),
        ("1.npz", saved(np.savez, np.array([Harmful()], dtype=object))),
        ("1.pickle", pickle.dumps(Harmful())),
    ],
)
def test_no_code_out_of_a_file_is_run(path: str, data: bytes) -> None:
    if path == "1.pickle":
        assert decoded(path, data) == data
    else:
        with pytest.raises((ValueError, pickle.UnpicklingError)):
            decoded(path, data)
    assert not Harmful.ran


def test_an_image_without_pillow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    image = encoded()
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert decoded("1.txt", b"one", "rgb8") == "one"
    with pytest.raises(ImportError, match=r'pip install "penstock\[image\]"'):
        decoded("1.png", image, "rgb8")


def test_files_that_cannot_be_decoded_are_skipped_counted_and_closed() -> None:
    broken, after = io.BytesIO(b"no image"), io.BytesIO(b"2")
    items = [("1.cls", b"1"), ("a.png", broken), ("2.cls", after), 3, ("3.cls", b"three")]
    dp = IterableWrapper(items, deepcopy=False).routed_decode(on_error="skip")
    assert list(dp) == [("1.cls", 1), ("2.cls", 2)]
    assert broken.closed
    assert after.closed
    stats = dp.stats()["routed_decode"]
    assert stats["skipped"] == 3
    assert "on ('a.png', <BytesIO>)" in stats["last_errors"][0]
    assert "a pair of a path and a stream, or a dict" in stats["last_errors"][1]


def test_a_sample_with_an_entry_that_cannot_be_decoded_is_left_out_whole() -> None:
    unread = io.BytesIO(b"1")
    samples = [{"__key__": "1", ".png": b"no image", ".cls": unread}, {"__key__": "2", ".cls": b"2"}]
    dp = IterableWrapper(samples, deepcopy=False).routed_decode(on_error="skip")
    assert list(dp) == [{"__key__": "2", ".cls": 2}]
    assert unread.closed
