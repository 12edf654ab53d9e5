"""The protocol between two processes of a loader: messages arrive whole, and reports are rare."""

import threading
import time
from multiprocessing import Pipe

import penstock as ps
from penstock.registry import PassPath
from penstock.runner.positions import Epoch, ShardPosition
from penstock.runner.shards import ShardPass
from penstock.runner.workers.protocol import Receiver, Sender


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
    sender = Sender(theirs, 1, lambda _, position: ShardPass(chain, position), str)
    threading.Thread(target=sender.serve, daemon=True).start()
    receiver = Receiver(ours, 200)
    receiver.begin(Epoch(1, 0, PassPath(0), 0), [ShardPosition(0)])
    messages = []
    while not messages or not messages[-1].ended:
        messages.append(receiver.receive())
    receiver.close()
    assert sum(not message.ended for message in messages) == 100
    assert len(counted) == sum(message.report is not None for message in messages) < 12
