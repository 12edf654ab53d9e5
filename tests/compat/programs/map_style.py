"""Map-style pipes, and loaders that are paused, saved and gone on from."""

from torch.utils.data import DataLoader
from torchdata.dataloader2 import DataLoader2, InProcessReadingService
from torchdata.dataloader2.graph import replace_dp, traverse_dps
from torchdata.dataloader2.random import SeedGenerator
from torchdata.dataloader2.utils import WorkerInfo
from torchdata.datapipes.iter import IterDataPipe
from torchdata.datapipes.map import MapDataPipe, Mapper, SequenceWrapper, Zipper


class Squares(MapDataPipe):
    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        if not 0 <= index < self.n:
            raise IndexError(index)
        return index * index

    def __len__(self):
        return self.n


class Counting(IterDataPipe):
    """Its own iterator, with a reset, as some pipes were written."""

    def __init__(self, datapipe):
        self.datapipe = datapipe
        self.reset()

    def reset(self):
        self.seen = 0
        self.items = None

    def __iter__(self):
        return self

    def __next__(self):
        if self.items is None:
            self.items = iter(self.datapipe)
        self.seen += 1
        return self.seen, next(self.items)


def per_epoch(datapipe, worker_info, seed_generator):
    assert isinstance(worker_info, WorkerInfo)
    assert isinstance(seed_generator, SeedGenerator)
    return datapipe


if __name__ == "__main__":
    squares = Squares(5)
    dp = Zipper(squares, Mapper(SequenceWrapper("abcde"), str.upper))
    print(dp[2], len(dp), list(dp.batch(2))[-1])
    replace_dp(traverse_dps(dp), squares, squares.map(lambda x: -x))
    print(dp[2])
    counting = Counting(dp.to_iter_datapipe())
    print(list(counting), list(counting) == list(counting))
    loader = DataLoader2(dp.shuffle(), reading_service=InProcessReadingService(prefetch_cnt=2, reset_fn=per_epoch))
    loader.seed(1)
    whole = list(loader)
    loader.seed(1)
    iterator = iter(loader)
    iterator.limit(2)
    head = list(iterator)
    state = loader.state_dict()
    again = DataLoader2(dp.shuffle(), reading_service=InProcessReadingService(prefetch_cnt=2, reset_fn=per_epoch))
    again.load_state_dict(state)
    assert head + list(again) == whole
    iterator.resume()
    assert head + list(iterator) != whole
    print(sorted(item[1] for item in DataLoader(dp, batch_size=None, num_workers=2)))
