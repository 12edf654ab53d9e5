"""MovieLens, Criteo and LibriSpeech of small archives from a server, and the data sets that are installed."""

from __future__ import annotations

import copy
import io
import tarfile
import zipfile
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets import Resource
from served import FileServer, served

D = ps.datasets


RATINGS = [(1, 7, 5.0, 881250949), (2, 3, 3.0, 891717742), (1, 3, 1.0, 878887116)]
AS_RECORDS = [dict(zip(("userId", "movieId", "rating", "timestamp"), row, strict=True)) for row in RATINGS]


def ratings(separator: str) -> bytes:
    return "".join(f"{u}{separator}{m}{separator}{r:g}{separator}{t}\n" for u, m, r, t in RATINGS).encode()


FLAGS = "0|1|0|0|1|0|0|0|0|0|0|0|0|0|0|0|0|0|0"
OF_100K = {
    "ml-100k/README": b"read me",
    "ml-100k/u.data": ratings("\t"),
    "ml-100k/u.item": (
        f"1|Les Misérables (1995)|01-Jan-1995||http://us.imdb.com/M/title-exact?Les|{FLAGS}\n"
        f'2|"Zero" (1996)|||http://x|1{"|0" * 18}\n'
    ).encode("iso-8859-1"),
    "ml-100k/u.user": b"1|24|M|technician|85711\n",
    "ml-100k/u1.base": ratings("\t"),
    "ml-100k/ua.test": ratings("\t")[:-1],
}
OF_1M = {
    "ml-1m/ratings.dat": ratings("::"),
    "ml-1m/movies.dat": "1::Toy Story: One (1995)::Animation|Children's\n2::Misérables, Les::Drama\n".encode(
        "iso-8859-1"
    ),
    "ml-1m/users.dat": b"1::F::1::10::48067\n",
}
OF_25M = {
    "ml-25m/ratings.csv": b"userId,movieId,rating,timestamp\n1,296,0.5,1147880044\n",
    "ml-25m/movies.csv": 'movieId,title,genres\n1,"Misérables, Les",Drama|War\n2,X,(no genres listed)\n'.encode(),
    "ml-25m/tags.csv": b'userId,movieId,tag,timestamp\n3,260,"classic, sci-fi",1439472355\n',
    "ml-25m/links.csv": b"movieId,imdbId,tmdbId\n2,0113497,\n",
    "ml-25m/genome-scores.csv": b"movieId,tagId,relevance\n1,1,0.0287\n",
    "ml-25m/genome-tags.csv": b"tagId,tag\n1,007\n",
}
ARCHIVES = {"MovieLens100K": OF_100K, "MovieLens1M": OF_1M, "MovieLens25M": OF_25M}


@pytest.mark.parametrize(
    ("name", "split", "items"),
    [
        ("MovieLens100K", "ratings", AS_RECORDS),
        ("MovieLens100K", "u1.base", AS_RECORDS),
        ("MovieLens100K", "ua.test", AS_RECORDS),
        (
            "MovieLens100K",
            "movies",
            [
                {
                    "movieId": 1,
                    "title": "Les Misérables (1995)",
                    "releaseDate": "01-Jan-1995",
                    "videoReleaseDate": "",
                    "imdbUrl": "http://us.imdb.com/M/title-exact?Les",
                    "genres": ["Action", "Children's"],
                },
                {
                    "movieId": 2,
                    "title": '"Zero" (1996)',
                    "releaseDate": "",
                    "videoReleaseDate": "",
                    "imdbUrl": "http://x",
                    "genres": ["unknown"],
                },
            ],
        ),
        (
            "MovieLens100K",
            "users",
            [{"userId": 1, "age": 24, "gender": "M", "occupation": "technician", "zipCode": "85711"}],
        ),
        ("MovieLens1M", "ratings", AS_RECORDS),
        (
            "MovieLens1M",
            "movies",
            [
                {"movieId": 1, "title": "Toy Story: One (1995)", "genres": ["Animation", "Children's"]},
                {"movieId": 2, "title": "Misérables, Les", "genres": ["Drama"]},
            ],
        ),
        ("MovieLens1M", "users", [{"userId": 1, "gender": "F", "age": 1, "occupation": 10, "zipCode": "48067"}]),
        ("MovieLens25M", "ratings", [{"userId": 1, "movieId": 296, "rating": 0.5, "timestamp": 1147880044}]),
        (
            "MovieLens25M",
            "movies",
            [
                {"movieId": 1, "title": "Misérables, Les", "genres": ["Drama", "War"]},
                {"movieId": 2, "title": "X", "genres": []},
            ],
        ),
        ("MovieLens25M", "tags", [{"userId": 3, "movieId": 260, "tag": "classic, sci-fi", "timestamp": 1439472355}]),
        ("MovieLens25M", "links", [{"movieId": 2, "imdbId": "0113497", "tmdbId": ""}]),
        ("MovieLens25M", "genome-scores", [{"movieId": 1, "tagId": 1, "relevance": 0.0287}]),
        ("MovieLens25M", "genome-tags", [{"tagId": 1, "tag": "007"}]),
    ],
)
def test_movielens(name: str, split: str, items: list[Any], server: FileServer, tmp_path: Path) -> None:
    data = served(getattr(D, name), {"archive": zip_of(ARCHIVES[name])}, server, **{split: len(items)})
    assert [*data(tmp_path, split)] == items
    assert isinstance(next(iter(data(tmp_path, split)))[next(iter(items[0]))], int)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        (
            "MovieLens100K",
            "ml-100k/u.data",
            b"1\t2\t3\t4\n1\t2\t3\n",
            r"record 2 of .*data': it has 3 columns",
        ),
        ("MovieLens1M", "ml-1m/ratings.dat", b"1::2::3::4\n1::2::x::4\n", r"record 2 of .*dat': .*'x'"),
        ("MovieLens25M", "ml-25m/ratings.csv", b"a,b,c,d\n1,2,3,4,5\n", r"record 1 of .*csv': it has 5"),
    ],
)
def test_a_bad_row_of_movielens_is_named(
    name: str, file: str, content: bytes, message: str, server: FileServer, tmp_path: Path
) -> None:
    data = served(getattr(D, name), {"archive": zip_of({**ARCHIVES[name], file: content})}, server)
    with pytest.raises(ValueError, match=f"{name}, {message}"):
        list(data(tmp_path))


def clicks(root: Path, *lines: str, file: str = "train.txt") -> Path:
    (root / "criteo").mkdir(exist_ok=True)
    (root / "criteo" / file).write_text("".join(f"{line}\n" for line in lines))
    return root


NUMBERS = "\t".join(["1", "", "-3", *"456789", "10", "11", "12", ""])
HASHES = "\t".join(["68fd1e64", *[""] * 24, "3a171ecb"])
FIELDS = {
    **dict(zip([f"int_{n}" for n in range(13)], [1, 0, -3, *range(4, 13), 0], strict=True)),
    **dict(zip([f"cat_{n}" for n in range(26)], ["68fd1e64", *[""] * 24, "3a171ecb"], strict=True)),
}


def test_criteo_is_read_from_files_of_the_user(tmp_path: Path) -> None:
    clicks(tmp_path, f"1\t{NUMBERS}\t{HASHES}", f"0\t{NUMBERS}\t{HASHES}")
    clicks(tmp_path, f"{NUMBERS}\t{HASHES}", file="test.txt")
    assert [*D.Criteo(tmp_path)] == [{"label": 1, **FIELDS}, {"label": 0, **FIELDS}]
    assert [*D.Criteo(tmp_path, "test")] == [FIELDS]
    first = next(iter(D.Criteo(tmp_path, missing=-1)))
    assert (first["int_1"], first["int_12"], first["int_2"]) == (-1, -1, -3)
    assert D.Criteo(tmp_path, map_style=True)[1] == {"label": 0, **FIELDS}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{NUMBERS}\t{HASHES}", r"Criteo, record 2 of .*train\.txt': it has 39 columns, and 40 are needed"),
        (f"2\t{NUMBERS}\t{HASHES}", r"Criteo, record 2 of .*train\.txt': the label '2' is no number from 0 to 1"),
        (f"1\t{NUMBERS.replace('-3', 'x')}\t{HASHES}", r"Criteo, record 2 of .*train\.txt': .*'x'"),
    ],
)
def test_a_bad_row_of_criteo_is_named(line: str, message: str, tmp_path: Path) -> None:
    clicks(tmp_path, f"1\t{NUMBERS}\t{HASHES}", line)
    with pytest.raises(ValueError, match=message):
        list(D.Criteo(tmp_path))


def test_without_its_files_criteo_says_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train\.txt is missing.*https://www\.kaggle\.com/c/criteo"):
        list(D.Criteo(tmp_path))


def speech(split: str) -> dict[str, bytes]:
    folder = f"LibriSpeech/{split}"
    return {
        "LibriSpeech/SPEAKERS.TXT": b"speakers",
        f"{folder}/84/12/84-12-0001.flac": b"flac of 84-12-0001",
        f"{folder}/84/12/84-12-0000.flac": b"flac of 84-12-0000",
        f"{folder}/84/12/84-12.trans.txt": b"84-12-0000 GO DO YOU HEAR\n84-12-0001 BUT IN LESS\n",
        f"{folder}/1272/7/1272-7-0003.flac": b"flac of 1272-7-0003",
        f"{folder}/1272/7/1272-7.trans.txt": b"1272-7-0003 MISTER QUILTER\n",
    }


@pytest.mark.parametrize("split", ["train-clean-100", "test-other"])
def test_librispeech(split: str, server: FileServer, tmp_path: Path) -> None:
    data = served(D.LibriSpeech, {split: tar_of(speech(split))}, server, **{split: 3})
    assert [*data(tmp_path, split)] == [
        (b"flac of 1272-7-0003", 16000, "MISTER QUILTER", 1272, 7, 3),
        (b"flac of 84-12-0000", 16000, "GO DO YOU HEAR", 84, 12, 0),
        (b"flac of 84-12-0001", 16000, "BUT IN LESS", 84, 12, 1),
    ]
    assert D.LibriSpeech().info.split == "train-clean-100"  # as torchaudio has it


@pytest.mark.parametrize(
    ("file", "content", "error", "message"),
    [
        ("84/12/84-12.trans.txt", b"84-12-0000 GO\n", ValueError, r"84-12\.trans\.txt has no line for 84-12-0001"),
        ("84/12/84-12.trans.txt", None, FileNotFoundError, r"has no '.*84/12/84-12\.trans\.txt'"),
        ("84/12/84-x-0.flac", b"", ValueError, r"84-x-0\.flac is not speaker-chapter-utterance\.flac"),
    ],
)
def test_bad_speech_is_named(
    file: str, content: bytes | None, error: type[Exception], message: str, server: FileServer, tmp_path: Path
) -> None:
    parts = speech("dev-clean")
    path = f"LibriSpeech/dev-clean/{file}"
    if content is None:
        del parts[path]
    else:
        parts[path] = content
    with pytest.raises(error, match=message):
        list(served(D.LibriSpeech, {"dev-clean": tar_of(parts)}, server)(tmp_path, "dev-clean"))


def test_the_digits_are_those_of_their_shards() -> None:
    samples = [*D.load("digits")]
    assert {label for _, label in samples} == {*range(10)}
    last, label = samples[-1]
    assert (last.shape, last.dtype, type(label)) == ((1, 8, 8), torch.uint8, int)
    shard = files("penstock.datasets") / "data" / "digits-003.tar.gz"
    with tarfile.open(str(shard)) as tar:
        from PIL import Image

        png, cls = (tar.extractfile(member).read() for member in tar.getmembers()[-2:])  # type: ignore[union-attr]
    assert last[0].tolist() == [[Image.open(io.BytesIO(png)).getpixel((x, y)) for x in range(8)] for y in range(8)]
    assert label == int(cls)
    for split, count in (("all", 1797), ("train", 1350), ("test", 447)):
        assert len(D.Digits(split=split)) == D.Digits(split=split).count() == count
    assert torch.equal(D.Digits(split="test", map_style=True)[446][0], last)


def test_the_tumours_are_those_of_the_table() -> None:
    data = ps.datasets.load("breast_cancer")
    measures, labels = zip(*data, strict=True)
    assert len(data) == len(labels) == 569
    assert (sum(labels), data.info.categories[1]) == (357, "benign")
    assert (measures[0].shape, measures[0].dtype) == ((30,), torch.float32)
    table = (files("penstock.datasets") / "data" / "breast_cancer.csv").read_text().splitlines()
    assert measures[568].tolist() == pytest.approx([float(field) for field in table[569].split(",")[:-1]])


@pytest.mark.parametrize(("split", "count"), [("train", 8043), ("dev", 1000), ("test", 1000)])
def test_the_reviews_are_those_of_their_archive(split: str, count: int) -> None:
    archive = files("penstock.datasets") / "data" / "movie_reviews.zip"
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as opened:
        lines = opened.read(f"movie_reviews/{split}.tsv").decode().split("\n")[1:-1]
    data = D.MovieReviews(split=split)
    assert [*data] == [(text, int(label)) for text, label in (line.split("\t") for line in lines)]
    assert len(data) == count


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "movie_reviews"])
def test_installed_data_need_no_network_and_write_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_OFFLINE", "1")
    place = files("penstock.datasets") / "data"
    before = sorted(each.name for each in place.iterdir())
    data = ps.datasets.load(name, tmp_path)
    assert "(installed with penstock.datasets)" in str(data)
    assert str(tmp_path) not in str(data)
    assert data.take(1)
    assert not [*tmp_path.iterdir()]
    assert sorted(each.name for each in place.iterdir()) == before


LAWFUL: dict[str, Any] = {
    "digits": lambda **arguments: D.Digits("unused", "test", **arguments),
    "breast_cancer": lambda **arguments: D.BreastCancer("unused", **arguments),
    "movie_reviews": lambda **arguments: D.MovieReviews("unused", "dev", **arguments),
}


@pytest.mark.parametrize("name", [*LAWFUL, *ARCHIVES, "Criteo", "LibriSpeech"])
def test_each_holds_the_laws(name: str, server: FileServer, tmp_path: Path) -> None:
    make = LAWFUL.get(name)
    if name in ARCHIVES:
        movies = served(getattr(D, name), {"archive": zip_of(ARCHIVES[name])}, server)
        make = partial(movies, tmp_path, "movies")
    elif name == "Criteo":
        clicks(tmp_path, *(f"{n % 2}\t{NUMBERS}\t{HASHES}".replace("\t4\t", f"\t{n}\t") for n in range(12)))
        criteo = copy.copy(D.Criteo)
        criteo.splits = {"train": 12}
        make = partial(criteo, tmp_path)
    elif name == "LibriSpeech":
        libri = served(D.LibriSpeech, {"dev-clean": tar_of(speech("dev-clean"))}, server, **{"dev-clean": 3})
        make = partial(libri, tmp_path, "dev-clean")
    D.check_dataset(make)


def test_a_file_of_a_package_is_read_in_place_and_named_if_missing() -> None:
    with pytest.raises(ValueError, match=r"words\.zip is part of a package, and is read in place"):
        Resource("package://penstock.datasets/data/words.zip", unpack=True)

    def lines(resources: Any, split: str) -> Any:
        return resources["words"].open().readlines()

    words = Resource("package://penstock.datasets/data/words.txt")
    data = D.Dataset("words", lines, splits={"all": None}, resources={"words": words}, register=False)
    with pytest.raises(FileNotFoundError, match=r"data/words\.txt"):
        list(data())
