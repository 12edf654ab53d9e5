"""Click logs as recommender libraries read them: pipes of their own over TSV files, batched to tensors, in workers."""

import sys

import torch
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
from torchdata.dataloader2.adapter import Shuffle
from torchdata.dataloader2.graph import find_dps, list_dps, traverse_dps
from torchdata.datapipes import functional_datapipe
from torchdata.datapipes.iter import FileLister, IterDataPipe, Mapper, ShardingFilter

DENSE, SPARSE = 2, 3


def row_to_numbers(row):
    label, *rest = row
    return (
        int(label),
        [float(x or 0) for x in rest[:DENSE]],
        [int(x or "0", 16) for x in rest[DENSE:]],
    )


class TSVReader(IterDataPipe):
    """Rows of the files whose paths come in."""

    def __init__(self, datapipe, **open_kwargs):
        self.datapipe = datapipe
        self.open_kwargs = open_kwargs

    def __iter__(self):
        for path in self.datapipe:
            with open(path, **self.open_kwargs) as file:
                for line in file:
                    yield line.rstrip("\n").split("\t")


@functional_datapipe("limit_rows")
class Limiter(IterDataPipe):
    def __init__(self, source_datapipe, n):
        super().__init__()
        self.source_datapipe = source_datapipe
        self.n = n

    def __iter__(self):
        for number, row in enumerate(self.source_datapipe):
            if number >= self.n:
                return
            yield row

    def __len__(self):
        return self.n


class ByTorchsBase(TorchIterDataPipe):
    def __init__(self, datapipe):
        self.datapipe = datapipe

    def __iter__(self):
        yield from self.datapipe


def collate(batch):
    labels, dense, sparse = zip(*batch, strict=True)
    return torch.tensor(labels), torch.log(torch.tensor(dense) + 3), torch.tensor(sparse) % 100


def click_logs(folder):
    dp = FileLister(folder, "*.tsv").shuffle()
    dp = ShardingFilter(dp)
    dp = ByTorchsBase(TSVReader(dp, mode="r"))
    dp = dp.limit_rows(7)
    dp = Mapper(dp, row_to_numbers)
    return dp.batch(4).map(collate)


if __name__ == "__main__":
    dp = click_logs(sys.argv[1])
    graph = traverse_dps(dp)
    print([type(each).__name__ for each in list_dps(graph)])
    print(len(find_dps(graph, Mapper)), len(find_dps(graph, TSVReader)))
    service = MultiProcessingReadingService(num_workers=2)
    loader = DataLoader2(dp, [Shuffle(False)], reading_service=service)
    for epoch in range(2):
        loader.seed(epoch)
        rows = 0
        for labels, dense, sparse in loader:
            assert dense.shape == (len(labels), DENSE)
            assert sparse.shape == (len(labels), SPARSE)
            rows += len(labels)
        print("rows", rows)
    loader.shutdown()
