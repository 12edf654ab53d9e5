"""An image data set in the style of the vision prototypes: archives split by their members, and zipped by key."""

import io
import pathlib
import sys
from collections import namedtuple

import torch
from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService, ReadingServiceInterface
from torchdata.datapipes.iter import (
    CSVDictParser,
    Decompressor,
    Demultiplexer,
    FileOpener,
    Filter,
    IterableWrapper,
    IterKeyZipper,
    LineReader,
    Mapper,
    ShardingFilter,
    Shuffler,
    TarArchiveLoader,
)
from torchdata.datapipes.map import SequenceWrapper
from torchdata.datapipes.utils import StreamWrapper

Sample = namedtuple("Sample", ["path", "image", "label"])


def classify(data):
    path = pathlib.Path(data[0])
    if path.suffix == ".png":
        return 0
    return 1 if path.name == "annotations.csv" else 2


def stem(data):
    return pathlib.Path(data[0]).name


def file_of(row):
    return row["file"]


def prepare(data):
    (path, stream), row = data
    assert isinstance(stream, StreamWrapper), type(stream)
    return Sample(pathlib.Path(path).name, torch.frombuffer(bytearray(stream.read()), dtype=torch.uint8), row["label"])


def name_of(line):
    return line[1].strip()


def dataset(folder, names):
    archives = FileOpener(IterableWrapper([f"{folder}/images.tar"]), mode="rb")
    members = TarArchiveLoader(archives, mode="r:")
    images, annotations, listing = Demultiplexer(members, 3, classify, drop_none=True, buffer_size=10000)
    rows = CSVDictParser(annotations)
    listing = Mapper(LineReader(Decompressor(listing, file_type="gzip"), decode=True), name_of)
    wanted = listing.zip_with_map(SequenceWrapper([*names]), key_fn=names.get, merge_fn=lambda a, b: a)
    images = IterKeyZipper(images, rows, key_fn=stem, ref_key_fn=file_of, keep_key=False, buffer_size=None)
    dp = Mapper(Filter(images, lambda data: data[1]["label"] != "unknown"), prepare)
    dp = IterKeyZipper(dp, wanted, key_fn=lambda sample: sample.path, ref_key_fn=str, merge_fn=lambda a, _: a)
    return ShardingFilter(Shuffler(dp, buffer_size=100))


class Plain(ReadingServiceInterface):
    """A reading service of one's own."""

    def initialize(self, datapipe):
        return datapipe.map(lambda sample: sample._replace(label=int(sample.label)))


if __name__ == "__main__":
    folder, *wanted = sys.argv[1:]
    names = {name: number for number, name in enumerate(wanted)}
    samples = list(DataLoader2(dataset(folder, names), reading_service=Plain()))
    assert all(type(sample) is Sample for sample in samples)
    print(sorted((sample.path, bytes(sample.image).decode(), sample.label) for sample in samples))
    with DataLoader2(dataset(folder, names), reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
        print(sorted(sample.path for sample in loader))
    wrapped = StreamWrapper(io.BytesIO(b"abc"), name="three letters")
    print(wrapped, wrapped.read())
