"""`show` in a notebook: images, sound and tables as such, all of it escaped and small; elsewhere, lines of text."""

from __future__ import annotations

import base64
import io
import math
import re
import sys
import types
import wave
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import penstock as ps
from penstock.views.html import Preview
from penstock.views.media import image_in_page, images_in, sound_in_page
from secret_urls import SECRET_URLS

TONE = torch.sin(torch.arange(16_000) * (2 * math.pi * 440 / 16_000))


def wrapped(*items: Any) -> Any:
    return ps.iter.IterableWrapper([*items])


def page(*items: Any) -> str:
    return Preview(wrapped(*items), [*items], len(items))._repr_mimebundle_()["text/html"]


class Tags(HTMLParser):
    """The tags of a page, in which each one opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pictures(text: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]


def image(height: int = 40, width: int = 60) -> Any:
    """A tensor whose upper left is red."""
    pixels = torch.zeros(3, height, width)
    pixels[0, : height // 2, : width // 2] = 1
    return pixels


class Sample(NamedTuple):
    picture: Any
    label: int


@pytest.mark.parametrize(
    "make",
    [
        image,
        lambda: image().to(torch.bfloat16),
        lambda: image().permute(1, 2, 0),
        lambda: (image() * 255).byte().permute(1, 2, 0).numpy(),
        lambda: image() * 7 - 3,
        lambda: Image.fromarray((image() * 255).byte().permute(1, 2, 0).numpy()),
        lambda: Image.fromarray((image() * 255).byte().permute(1, 2, 0).numpy()).convert("CMYK"),
        lambda: torch.cat([image(), torch.ones(1, 40, 60)]),
    ],
)
def test_an_image_of_any_kind_is_shown(make: Callable[[], Any]) -> None:
    (shown,) = pictures(page(make()))
    assert shown.width / shown.height == pytest.approx(1.5, abs=0.1)
    red, green, blue = shown.convert("RGB").getpixel((3, 3))  # type: ignore[misc]
    assert red > 200
    assert max(green, blue) < 60
    red, *_ = shown.convert("RGB").getpixel((shown.width - 3, 3))  # type: ignore[misc]
    assert red < 60


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.rand(3, 4),
        lambda: torch.arange(3 * 40 * 40).reshape(3, 40, 40),
        lambda: torch.rand(3, 7, 7),
        lambda: torch.rand(2, 40, 40),
        lambda: torch.rand(3, 40, 40).to_sparse(),
        lambda: "text",
    ],
)
def test_what_is_no_image_is_not_shown_as_one(make: Callable[[], Any]) -> None:
    assert images_in(make()) == []
    assert Tags(page(make())).found.count("img") == 0


def test_grey_images_and_masks_are_shown() -> None:
    assert pictures(page(torch.ones(28, 28, dtype=torch.uint8)))[0].mode == "L"
    for item in (torch.ones(1, 28, 28), np.eye(28) > 0):
        assert pictures(page(item))[0].getpixel((3, 3)) == 255


@pytest.mark.parametrize(
    ("item", "number"),
    [
        (torch.rand(900, 3, 32, 32), 16),
        ([Image.new("RGB", (32, 32))] * 5, 5),
        (torch.ones(5, 28, 28, dtype=torch.uint8), 5),
        ({"image": torch.rand(4, 3, 20, 20), "label": torch.arange(4)}, 4),
    ],
)
def test_batches_of_images_are_grids_or_tables(item: Any, number: int) -> None:
    assert len(pictures(page(item))) == number


def test_images_inside_of_items_are_shown_with_what_is_beside_them() -> None:
    for item in ((image(), 7), [image(), 7], {"picture": image(), "label": 7}, Sample(image(), 7)):
        text = page(item)
        assert len(pictures(text)) == 1
        assert "7" in Tags(text).texts


def test_a_large_image_becomes_a_small_one() -> None:
    (shown,) = pictures(page(torch.rand(3, 3000, 2000)))
    assert max(shown.size) <= 160
    (shown,) = pictures(page(torch.rand(1, 8, 8)))
    assert min(shown.size) >= 64


def test_a_page_has_room_for_some_images_only() -> None:
    text = page(*[torch.rand(16, 3, 160, 160)] * 10)
    assert len(text) < 2_200_000
    assert "Tensor float32 (16, 3, 160, 160): min" in text


def test_without_pillow_an_image_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.views.media.find_spec", lambda name: None)
    assert image_in_page(image()) is None
    assert "Tensor float32 (3, 40, 60): min 0, mean 0.08333, max 1" in page(image())


def test_a_damaged_image_is_a_line() -> None:
    written = io.BytesIO()
    Image.new("RGB", (50, 50)).save(written, "PNG")
    damaged = Image.open(io.BytesIO(written.getvalue()[:60]))
    text = page(damaged, image())
    assert len(pictures(text)) == 1
    assert "PngImageFile" in text


@pytest.mark.parametrize(
    "make",
    [
        lambda: (TONE, 16_000),
        lambda: (TONE[None], 16_000, "a tone", 3),
        lambda: ((TONE * 32_767).short(), 16_000),
        lambda: ((TONE.double() * (2**31 - 1)).int(), np.int64(16_000)),
        lambda: {"array": TONE.numpy(), "sampling_rate": 16_000},
        lambda: types.SimpleNamespace(data=TONE[None], sample_rate=16_000),
    ],
)
def test_sound_is_played(make: Callable[[], Any]) -> None:
    sound = sound_in_page(make())
    assert sound is not None
    with wave.open(io.BytesIO(base64.b64decode(sound.address.partition(",")[2]))) as played:
        assert (played.getframerate(), played.getnframes(), played.getsampwidth()) == (16_000, 16_000, 2)
        samples = np.frombuffer(played.readframes(16_000), "<i2")[:: played.getnchannels()]
    assert samples / 32_767 == pytest.approx(TONE.numpy(), abs=0.001)
    assert sound.text == "1.0 s at 16,000 Hz"
    assert Tags(page(make())).found.count("audio") == 1


@pytest.mark.parametrize("item", [(TONE, 15), (TONE.long(), 16_000), (torch.rand(4, 5, 6), 16_000), b"RIFF"])
def test_what_is_no_sound_is_not_played(item: Any) -> None:
    assert sound_in_page(item) is None


def test_what_is_beside_a_sound_is_shown() -> None:
    assert "a tone" in "".join(Tags(page((TONE, 16_000, "a tone"))).texts)


def test_a_long_sound_is_cut() -> None:
    sound = sound_in_page((torch.zeros(2, 44_100 * 60), 44_100))
    assert sound is not None
    assert len(sound.address) < 400_000
    assert sound.text == "60.0 s at 44,100 Hz, the first 1.4 s"


def test_the_bytes_of_a_wav_file_are_played() -> None:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8_000)
        file.writeframes(bytes(8_000))
    assert Tags(page(written.getvalue())).found.count("audio") == 1
    assert sound_in_page(written.getvalue() + bytes(10**6)) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table({"a": [*range(100)], "b": ["x"] * 100}),
        lambda: {"a": torch.arange(100), "b": ["x"] * 100},
        lambda: [{"a": number, "b": "x"} for number in range(100)],
        lambda: pytest.importorskip("pandas").DataFrame({"a": range(100), "b": ["x"] * 100}),
    ],
)
def test_a_table_is_shown_as_one(make: Callable[[], Any]) -> None:
    text = page(make())
    tags = Tags(text)
    assert tags.found.count("th") == 2
    assert tags.found.count("td") == 12
    assert "… 100 rows in all" in tags.texts
    assert {"a", "b", "5", "'x'"} <= {*tags.texts}


def test_a_wide_table_is_cut() -> None:
    tags = Tags(page({f"c{number}": [1, 2] for number in range(100)}))
    assert tags.found.count("th") == 12
    assert "… 100 columns in all" in tags.texts


def test_a_long_tensor_is_a_line() -> None:
    text = "".join(Tags(page(torch.arange(1000).float())).texts)
    assert "Tensor float32 (1000,): min 0, mean 499.5, max 999" in text
    assert "Tensor int64 (3,): [0, 1, 2]" in "".join(Tags(page(torch.arange(3))).texts)
    assert "0.5" in Tags(page(torch.tensor(0.5))).texts


class Angry:
    shape = (1, 2)
    dtype = "none"

    def __repr__(self) -> str:
        raise ValueError("no")

    def __len__(self) -> int:
        raise ValueError("no")


def test_any_item_is_shown_and_nothing_in_it_is_code() -> None:
    recursive: list[Any] = [1]
    recursive.append(recursive)
    evil = "</code></div><script>alert(1)</script><img src=x onerror=alert(1)>"
    deep: Any = evil
    for _ in range(100):
        deep = {evil: [deep, deep]}
    items = [evil, {evil: evil}, [evil, {}], (evil, torch.rand(3)), deep, recursive, Angry(), None, b"\xff" * 99]
    items += [
        "\ud83d",
        pa.table({evil: [evil]}),
        [{evil: evil}] * 2,
        {evil: [1, 2], "b": [evil, evil]},
        set(),
        math.nan,
    ]
    text = page(*items)
    tags = Tags(text)
    of_the_picture = {"svg", "style", "g", "title", "rect", "text", "path"}
    assert {*tags.found} - of_the_picture <= {"div", "code", "table", "tr", "td", "th"}
    assert len(text) < 200_000
    text.encode()


@pytest.mark.parametrize("url", SECRET_URLS)
def test_secrets_are_in_no_page(url: str) -> None:
    text = page(url, {"url": url}, [url], (url, TONE), {"url": [url, url], "n": [1, 2]}, pa.table({"a": [url]}))
    assert "host/a.tar" in text
    assert "hunter2" not in text


def test_how_many_items_there_are_is_said() -> None:
    numbers = wrapped(1, 2, 3)
    for dp, n, said in (
        (numbers, 2, "2 of 3 items"),
        (numbers, 5, "all 3 items"),
        (numbers.filter(bool), 2, "the first 2 items"),
        (wrapped(), 3, "no items"),
    ):
        assert said in Tags(Preview(dp, dp.take(n), n)._repr_mimebundle_()["text/html"]).texts


class Shell:
    """Stands for the shell of a notebook; `kernel` is what tells it from that of a terminal."""

    kernel = object()


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    ipython = pytest.importorskip("IPython")
    found: list[Any] = []
    monkeypatch.setattr(ipython, "get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def test_a_notebook_displays_the_items(displayed: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    wrapped(image(), 2).map(lambda x: x).show(2)
    ((shown),) = displayed
    text = shown._repr_mimebundle_()["text/html"]
    assert len(pictures(text)) == 1
    assert text.count("<svg") == 1
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ipython = types.SimpleNamespace(get_ipython=object)  # IPython in a terminal
    for module in (None, ipython):
        monkeypatch.setitem(sys.modules, "IPython", module)
        wrapped("a", torch.zeros(9)).map(str).show(1)
        assert capsys.readouterr().out == f"{wrapped('a', torch.zeros(9)).map(str)}\n0: 'a'\n"


def test_what_cannot_be_copied_is_read_itself(capsys: pytest.CaptureFixture[str]) -> None:
    def letters() -> Iterator[str]:
        yield from "abc"

    class Held(ps.IterDataPipe[Any]):
        def __init__(self, source: Any) -> None:
            self.source = source
            self.generator = letters()  # cannot be copied

        def __iter__(self) -> Iterator[Any]:
            yield from self.source

    ps.iter.IterableWrapper(letters()).map(str.upper).show(2)
    assert capsys.readouterr().out.splitlines()[1:] == ["0: 'A'", "1: 'B'"]
    Held(wrapped(1, 2)).show(1)
    assert capsys.readouterr().out.splitlines()[1:] == ["0: 1"]
