"""Train on images of digits with two ranks, kill both in the middle, and resume with one rank and with three.

Run it with `python tutorials/distributed_training.py`. It needs `pip install "penstock[image]"`, and takes a minute.
Each image of the epoch is trained on once, on any number of ranks before and after.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import penstock as ps
from penstock.cli.demo import BUILT_IN, small_cnn


def samples():
    """Return a chain of the members of all tars, with their names."""
    return ps.iter.FSSpecFileLister(str(BUILT_IN), masks="*.tar.gz").open_files_by_fsspec(mode="rb").load_from_tar()


def make_loader():
    """Return a loader of batches of keys, images and labels."""
    dp = (
        samples()
        .webdataset()
        .shuffle(buffer_size=200)
        .sharding_filter()  # every rank runs the steps above on all samples, and those below on its part
        .routed_decode("torchl")
        .map(lambda sample: (sample["__key__"], sample[".png"], sample[".cls"]))
        .batch(16)
        .collate()
    )
    # 12 shards are read by 1, 2, 3, 4, 6 or 12 ranks alike.
    loader = ps.DataLoader2(dp, reading_service=ps.DistributedReadingService(timeout=60, num_shards=12))
    loader.seed(0)
    return loader


def train(folder, rank, ranks):
    """Train one epoch, from the checkpoint in a folder if there is one; write which images were trained on."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(small_cnn(), static_graph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoint, trained_on = folder / "checkpoint.pt", []
    with make_loader() as loader:
        if checkpoint.exists():
            saved = torch.load(checkpoint, weights_only=True)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(json.loads(saved["loader"]))  # the same on every rank
            trained_on = saved["trained_on"]
        repeated = 0
        for step, (keys, images, labels) in enumerate(loader, 1):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

            # At the end of the epoch, ranks without batches repeat earlier ones until all ranks are done.
            is_new = loader.stats()["ranks"]["repeated"] == repeated
            repeated = loader.stats()["ranks"]["repeated"]
            of_all_ranks = [None] * ranks
            dist.all_gather_object(of_all_ranks, list(keys) if is_new else [])
            trained_on += [key for of_rank in of_all_ranks for key in of_rank]

            if step % 10 == 0:
                state = json.dumps(loader.state_dict())  # every rank calls it, one writes it
                if rank == 0:
                    whole = {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "loader": state,
                        "trained_on": trained_on,
                    }
                    torch.save(whole, folder / "new.pt")
                    os.replace(folder / "new.pt", checkpoint)
    if rank == 0:
        (folder / "trained_on.json").write_text(json.dumps(trained_on))
    dist.destroy_process_group()


def start(folder, ranks):
    """Start `ranks` processes that run this program."""
    (folder / "store").unlink(missing_ok=True)
    return [subprocess.Popen([sys.executable, __file__, str(folder), str(rank), str(ranks)]) for rank in range(ranks)]


def main():
    """Start two ranks, kill them, and resume."""
    with tempfile.TemporaryDirectory() as name:
        killed = Path(name) / "two ranks"
        killed.mkdir()
        processes = start(killed, 2)
        while not (killed / "checkpoint.pt").exists() and all(process.poll() is None for process in processes):
            time.sleep(0.05)
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        done = torch.load(killed / "checkpoint.pt", weights_only=True)["trained_on"]
        print(f"2 ranks were killed; their last checkpoint came after {len(done)} images")

        every_image = Counter(sample["__key__"] for sample in samples().webdataset())
        for ranks in (1, 3):
            folder = Path(name) / f"{ranks} ranks"
            shutil.copytree(killed, folder)
            codes = [process.wait() for process in start(folder, ranks)]
            trained_on = Counter(json.loads((folder / "trained_on.json").read_text())) if codes == [0] * ranks else None
            assert trained_on == every_image, "an image was left out, or trained on twice"
            print(f"resumed on {ranks}, to the end of the epoch: {trained_on.total()} images, once each")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        main()
