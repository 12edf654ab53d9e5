"""The line between two processes of a loader: what goes along it arrives, and at what pace."""

import threading
import time
from multiprocessing import Pipe

import penstock as ps
from penstock.registry import Path
from penstock.runner.protocol import Arrival, Receiver, Sender
from penstock.runner.shards import Epoch, Place, ShardPass
from penstock.workers.transport import Parcel


def test_an_arrival_is_the_same_after_it_has_travelled():
    parcel = Parcel([b"x", b"y"], [], dropped_blocks=(3,))
    for arrival in (Arrival((1, 2), 3, parcel, {"at": "start"}), Arrival((1, 0), 0, error=b"pickled")):
        assert Arrival.from_bytes(arrival.to_bytes()) == arrival


class SlowToCount(ps.iter.IterableWrapper):
    def stats(self):
        counted.append(self)
        time.sleep(0.01)
        return {}


counted = []


def test_what_a_shard_tells_of_itself_is_paced_by_all_that_telling_costs():
    counted.clear()
    ours, theirs = Pipe()
    chain = SlowToCount(range(100))
    sender = Sender(theirs, 1, lambda _, place: ShardPass(chain, place), str)
    threading.Thread(target=sender.serve, daemon=True).start()
    receiver = Receiver(ours, 200)
    receiver.begin(Epoch(1, 0, Path(0), 0), [Place(0)])
    arrivals = []
    while not arrivals or arrivals[-1].report is None or arrivals[-1].parcel is not None:  # until the end
        arrivals.append(receiver.receive()[0])
    receiver.hang_up()
    assert sum(arrival.parcel is not None for arrival in arrivals) == 100
    assert len(counted) == sum(arrival.report is not None for arrival in arrivals) < 12
