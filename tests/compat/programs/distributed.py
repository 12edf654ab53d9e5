"""Training on several ranks with workers on each, through one service after another."""

import os

import torch.distributed as dist
from torchdata.dataloader2 import (
    DataLoader2,
    DistributedReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
)
from torchdata.dataloader2.random import dist_share_seed
from torchdata.datapipes.iter import IterableWrapper

if __name__ == "__main__":
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=ranks)
    dp = IterableWrapper(range(21)).shuffle().sharding_filter().map(lambda x: x * 10)
    service = SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers=2))
    loader = DataLoader2(dp, reading_service=service)
    loader.seed(dist_share_seed(rank))
    for _ in range(2):
        mine = list(loader)
        every = [None] * ranks
        dist.all_gather_object(every, mine)
        assert len({len(part) for part in every}) == 1, every
        items = [item for part in every for item in part]
        assert {*items} == {*range(0, 210, 10)}, items  # and torchdata dropped one, where one comes twice here
        assert len(items) == 22, items
    loader.shutdown()
    dist.destroy_process_group()
    print("both epochs", len(mine))
