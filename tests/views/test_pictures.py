"""Chains as pictures: all that is in them is there, nothing that is not, and no page is harmed."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch.utils.data.datapipes.iter import Mapper as TorchMapper

import penstock as ps
from penstock.registry import walk
from penstock.views.pictures.picture import Picture
from secret_urls import SECRET_URLS

SVG = "{http://www.w3.org/2000/svg}"


def double(x: int) -> int:
    return 2 * x


def numbers(n: int = 6) -> Any:
    return ps.iter.IterableWrapper(range(n))


def tensor(x: int) -> torch.Tensor:
    raise AssertionError("it was called")


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no")

    def __call__(self, item: Any) -> Any:
        return item


class Silent(ps.IterDataPipe[Any]):
    """An operator without a method."""

    def __init__(self, source: Any, note: Any = None) -> None:
        self.source, self.note = source, note

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


def in_a_closure() -> Any:
    hidden = numbers().map(double)
    return numbers().filter(lambda x: x in [*hidden])


def demux() -> Any:
    parts = numbers().demux(6, double)
    return parts[0].mux(*(part.map(double) for part in parts[1:]))


def diamond() -> Any:
    one, other = numbers().map(double).fork(2)
    return one.map(double).zip(other).batch(2)


def forks_unread() -> Any:
    return numbers().fork(3)[1].map(double)


def read_twice() -> Any:
    dp = numbers().map(double)
    return dp.zip(dp).zip(dp.filter(bool))


CHAINS: dict[str, Callable[[], Any]] = {
    "a closure": in_a_closure,
    "demux": demux,
    "diamond": diamond,
    "a branch unread": forks_unread,
    "the splitter itself": lambda: numbers().fork(2)[0].source,
    "read twice": read_twice,
    "zip of zips": lambda: numbers().zip(numbers().zip(numbers().map(double)).map(str), numbers().shuffle()),
    "a join with a map": lambda: numbers().zip_with_map(ps.map.SequenceWrapper(range(6)), key_fn=double),
    "concat of what is read elsewhere": lambda: (f := numbers().fork(9))[0].concat(*f[1:], numbers()),
    "map-style": lambda: ps.map.SequenceWrapper("abc").map(str).shuffle(),
    "torch's": lambda: Silent(TorchMapper(numbers().map(double), double)).batch(2),
    "markup": lambda: numbers().map(double, input_col="<b>&\"'</b>", output_col="]]><script>alert(1)</script>"),
    "line breaks": lambda: Silent(numbers(), note="a\r\n\tb\x00\x1b[31m\x85"),
    "right to left": lambda: Silent(numbers(), note="שלום \u202egnp.exe\u2066"),
    "half a character": lambda: Silent(numbers(), note="\ud83d"),
    "a repr that raises": lambda: numbers().map(Unspeakable()),
    "a long argument": lambda: Silent(numbers(), note=["👩‍👩‍👧‍👦水" * 1000] * 1000),
    "sharded": lambda: numbers().shuffle().sharding_filter().map(double).prefetch(2).pin_memory(),
    "forty steps": lambda: maps(numbers(), 39),
    "forks and forks": lambda: forks(50),
}


def maps(dp: Any, n: int) -> Any:
    for _ in range(n):
        dp = dp.map(double)
    return dp


def forks(n: int) -> Any:
    dp = numbers()
    for _ in range(n):
        one, other = dp.fork(2)
        dp = one.zip(other)
    return dp


def drawn(dp: Any, **options: Any) -> ElementTree.Element:
    return ElementTree.fromstring(Picture(dp, **options).svg)


def texts(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.iter(f"{SVG}text")]


def shown(dp: Any, **options: Any) -> str:
    return "\n".join(texts(drawn(dp, **options)))


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_a_picture_is_whole_and_harmless_and_reads_nothing(make: Callable[[], Any]) -> None:
    dp = make()
    before = [[*vars(pipe)] for pipe in walk(dp)]
    picture = Picture(dp)
    assert picture.svg == Picture(dp).svg
    assert [[*vars(pipe)] for pipe in walk(dp)] == before
    assert not [pipe for pipe in walk(dp) if vars(pipe).get("_pass") is not None]
    svg = ElementTree.fromstring(picture.svg.encode())
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    assert {part.tag.removeprefix(SVG) for part in svg.iter()} <= {"svg", "style", "g", "title", "rect", "path", "text"}
    assert not [name for part in svg.iter() for name in part.attrib if name.startswith("on") or "href" in name]
    for text in svg.iter(f"{SVG}text"):
        assert -20 < float(text.attrib["x"]) < width - 20  # within the margins
        assert -20 < float(text.attrib["y"]) < height - 20
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", picture.svg + picture.mermaid)
    # Each line of Mermaid is a step or an arrow, whatever the arguments are.
    line = r"flowchart TD|    (s\d+[\[(]+\"[^\"\n\\`]+\"[\])]+|s\d+ (-->|==>)(\|\"[^\"\n]+\"\|)? s\d+)"
    marks = r'    (    s\d+|end|subgraph main\["in the main process"\])'
    assert [each for each in picture.mermaid.splitlines() if not re.fullmatch(f"{line}|{marks}", each)] == []


def test_each_step_shows_its_name_and_arguments_and_all_of_them_where_one_points() -> None:
    dp = Silent(numbers().batch(3, drop_last=True), note="a note that is far too long to be shown in a box " * 3)
    svg = drawn(dp)
    assert texts(svg)[0:2] == ["IterableWrapper", "range(0, 6)"]
    assert {".batch", "3, drop_last=True", "Silent"} <= {*texts(svg)}
    titles = [title.text or "" for title in svg.iter(f"{SVG}title")]
    assert any(title.startswith(".batch(3, drop_last=True)\niterable, gives list[int]") for title in titles)
    assert any("in a box a note that is far too long to be shown in a box " in title for title in titles)
    assert max(map(len, texts(svg))) < 70


def test_what_is_known_of_a_step_is_shown() -> None:
    dp = numbers().shuffle().sharding_filter().map(tensor).pin_memory()
    words = shown(dp)
    for said in ("random", "divides among shards", "in the main process", "int", "Tensor"):
        assert words.count(said) >= 1, said
    assert "map-style" not in words
    assert shown(ps.map.SequenceWrapper("ab").map(str)).count("map-style") == 2


def test_facts_that_operators_declare_are_shown() -> None:
    class Ahead(Silent):
        works_in = "threads"
        buffers = ("note",)

    assert "reads ahead in threads" in shown(Ahead(numbers(), note=7))
    assert "note 7" not in shown(Ahead(numbers(), note=7))  # its arguments show it
    assert "no limit of note" in shown(Ahead(numbers(), note=-1))


def test_a_divided_stream_has_three_strands_up_to_the_main_process() -> None:
    dp = numbers().shuffle().sharding_filter().map(double).pin_memory()
    lines = [part.attrib["d"].count("M") for part in drawn(dp).iter(f"{SVG}path") if part.attrib["class"] == "line"]
    assert sorted(lines) == [1, 1, 1, 3, 3]
    assert Picture(dp).mermaid.count("==>") == 2


def test_branches_show_their_numbers_and_those_that_nothing_reads() -> None:
    assert {"[1]", "buffer_size 1,000 · [0], [2] not read here"} <= {*texts(drawn(forks_unread()))}
    assert texts(drawn(demux())).count(".demux") == 1
    columns = ps.map.SequenceWrapper([(1, 2, 3)]).unzip(3)
    words = texts(drawn(columns[0].zip(columns[2])))
    assert {"[0], [2]", "map-style · [1] not read here"} <= {*words}
    assert {f"[{number}]" for number in range(6)} <= {*texts(drawn(demux()))}
    assert "not read here" not in shown(CHAINS["the splitter itself"]())


def test_many_sources_are_lines_of_one_box() -> None:
    words = texts(drawn(numbers().concat(*(numbers(n).map(double) for n in range(11)))))
    assert "12 sources" in words
    assert "11: IterableWrapper(range(0, 10)).map(double)" in words
    words = texts(drawn(numbers().concat(*(numbers(n) for n in range(400)))))
    assert "… 387 more" in words


def test_mermaid_gets_no_markup() -> None:
    assert 's1["Silent<br/>#39;#60;b#62;#34;#38;#95;#39;"]' in Picture(Silent(numbers(), note='<b>"&_')).mermaid


@pytest.mark.timeout(20)
def test_of_a_long_chain_the_first_and_the_last_steps_are_shown() -> None:
    words = texts(drawn(maps(numbers().shuffle(), 5000).batch(7)))
    assert words.count(".map") == 18 + 19
    assert "… 4,963 more" in words
    assert {"IterableWrapper", ".shuffle", ".batch"} <= {*words}


@pytest.mark.timeout(20)
def test_annotations_of_any_kind_do_no_harm() -> None:
    class Odd(Silent):
        def __init__(self, source: 1 / 0, note: [int, "IterDataPipe["] = None, other: "x y" = None) -> None:  # type: ignore  # noqa
            super().__init__(source, note)

    def odd(x: Any) -> "a b":  # type: ignore  # noqa
        return x

    assert "Odd" in texts(drawn(Odd(numbers().map(odd), odd).batch(2)))


def test_bars_show_shares() -> None:
    dp = numbers().map(double)
    svg = drawn(dp, shares={id(dp): (0.5, "50 % · 3.1 ms"), id(dp.source): (7.0, "more")})
    assert {"50 % · 3.1 ms", "more"} <= {*texts(svg)}
    bars = [float(part.attrib["width"]) for part in svg.iter(f"{SVG}rect") if part.attrib["class"] == "share"]
    boxes = [float(part.attrib["width"]) for part in svg.iter(f"{SVG}rect") if part.attrib["class"] == "box"]
    assert bars == pytest.approx([boxes[0], boxes[1] / 2], abs=0.1)


@pytest.mark.parametrize("url", SECRET_URLS)
def test_secrets_are_in_no_picture(url: str) -> None:
    urls = [url]
    dp = ps.iter.IterableWrapper(urls).open_files_by_fsspec(key="hunter2").map(double)
    dp = dp.zip(ps.iter.IterableWrapper(urls).map(double)).concat(*(ps.iter.IterableWrapper(urls) for _ in range(9)))
    picture = Picture(Silent(dp, note={"a": urls}))
    assert "host/a.tar" in picture.svg
    assert "hunter2" not in picture.svg + picture.mermaid + repr(picture)


def test_a_data_set_is_one_step() -> None:
    def lines(resources: Any, split: str) -> Any:
        """Words."""
        return numbers().map(double)

    words = ps.datasets.Dataset("picture_words", lines, splits={"all": 6}, title="Words", register=False)
    found = texts(drawn(words().batch(2)))
    assert [word for word in found if word in {"Words", "'all'", ".map", "IterableWrapper"}] == ["Words", "'all'"]
    assert "divides among shards" in found


def test_the_rules_of_style_are_those_of_the_picture_alone() -> None:
    svg = drawn(diamond())
    (style,) = svg.iter(f"{SVG}style")
    text = re.sub(r"@media \(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}", r"\1", style.text or "")
    selectors = [rule.partition("{")[0] for rule in text.split("}") if rule]
    assert len(selectors) > 30
    assert [each for each in selectors if f".{svg.attrib['class']} " not in each] == []
    classes = {name for part in svg.iter() for name in part.attrib.get("class", "").split()}
    used = {each.rpartition(".")[2] for each in selectors}
    assert classes - used - {svg.attrib["class"]} == set()


def test_a_loader_shows_its_chain_and_where_it_runs() -> None:
    dp = numbers().sharding_filter().map(double).pin_memory()
    service = ps.MultiProcessingReadingService(num_workers=2)
    with ps.DataLoader2(dp, reading_service=service) as loader:
        assert {"in 2 worker processes", "in the main process"} <= {
            *texts(ElementTree.fromstring(loader.visualize().svg))
        }
        bundle = loader._repr_mimebundle_()
        assert bundle["text/plain"] == repr(loader)
        assert "in 2 worker processes" in bundle["text/html"]
    assert "worker" not in ps.DataLoader2(dp).visualize().svg
    assert "in 3 worker actors" in ps.DataLoader2(dp, reading_service=ps.RayReadingService(3)).visualize().svg


def test_a_picture_is_shown_in_a_notebook_and_written_to_a_file(tmp_path: Path) -> None:
    dp = diamond()
    picture = dp.visualize(tmp_path / "chain.svg")
    bundle = dp._repr_mimebundle_()  # as a notebook shows it
    assert (bundle["text/plain"], bundle["image/svg+xml"]) == (repr(dp), picture.svg)
    assert picture.svg in bundle["text/html"]
    assert (tmp_path / "chain.svg").read_text(encoding="utf-8") == picture.svg
    assert isinstance(dp.visualize(str(tmp_path / "chain.PNG")), Picture)
    assert (tmp_path / "chain.PNG").read_bytes().startswith(b"\x89PNG")
    dp.visualize(str(tmp_path / "chain.mmd"))
    assert (tmp_path / "chain.mmd").read_text(encoding="utf-8").startswith("flowchart TD\n")
    with pytest.raises(ValueError, match=r"written as \.svg, \.png or \.mmd, and the name is 'chain\.pdf'"):
        dp.visualize("chain.pdf")


def test_without_resvg_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(ImportError, match=r'pip install "penstock\[pictures\]"'):
        numbers().visualize(tmp_path / "chain.png")
    assert not (tmp_path / "chain.png").exists()


def test_the_pictures_in_the_docs_are_those_that_the_command_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.syspath_prepend(docs)  # as when the command is run
    made = runpy.run_path(str(docs / "make_pictures.py"))
    for name, picture in made["pictures"]().items():
        written = (made["FOLDER"] / f"{name}.svg").read_text(encoding="utf-8")
        assert written == picture.svg, "run `python docs/make_pictures.py`"
    for name, drawn in made["concepts"]().items():
        written = (docs / "concepts" / f"{name}.svg").read_text(encoding="utf-8")
        assert written == drawn, "run `python docs/make_pictures.py`"
    assert sum(file.stat().st_size for file in made["FOLDER"].iterdir()) < 200_000
