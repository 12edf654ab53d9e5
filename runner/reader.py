"""Reads a chain shard by shard, here or in workers, with the same items in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from ..pipes.bases.ahead.reading_ahead import reader_of
from ..pipes.bases.ahead.tuning import Tuner
from ..pipes.bases.one_to_one import OneToOne
from ..registry import SHARDING_PRIORITIES, IterDataPipe, Node, SavedNodes, apply_sharding, copy_of, own, walk
from ..registry.traits import has_trait
from ..workers.processes import processors
from ..workers.reading import Reader
from ..workers.threads import Interrupted
from .local import LocalShards
from .options import Division, ReadOptions
from .positions import Epoch, Message, Report, RoundRobin, ShardPosition
from .shards import settle_all, sharded
from .workers.pool import WorkerPool

MOST_SHARDS = 2**16
"""A state with more shards is invalid."""


def expect_shards(number: Any) -> int:
    """Return a state's number of shards; ValueError if it is out of range."""
    if type(number) is not int or not 0 < number <= MOST_SHARDS:
        raise ValueError(f"the state is of {number!r:.60} shards, and there are 1 to {MOST_SHARDS}")
    return number


class ShardReader(IterDataPipe[Any]):
    """Yield the items of all shards of a chain in turn; with ranks, those of this rank's shards.

    Items and state do not depend on which process reads a shard. The state is each shard's position after the items
    handed out.
    """

    resumes_from_start = False
    shown_as = "the loader's reader of shards"
    seed_elsewhere = 0
    """The seed of the chain that is read."""
    payload = ("options",)
    transient = ("_shards",)
    _shards: WorkerPool | LocalShards | None = None
    divided: int = own(0)
    """The number of shards in this pass."""
    standing: list[Any] = own(list)
    """Positions of unfinished shards, as plain data, when the pass resumes from a state."""
    settled: list[Any] = own(list)
    """The decisions of the chain's steps for all shards."""
    given: int = own(0)
    """How many items each rank has handed out."""
    repeated: list[int] = own(list)
    """For each part, how many of these were repeated because the part is shorter than others."""
    dropped: int = own(0, saved=False)
    """How many items of this rank's part were dropped at the end because another part is shorter."""
    resumes: bool = own(False, saved=False)
    order: RoundRobin = own(RoundRobin, saved=False)
    ended: dict[int, int] = own(dict, saved=False)
    """The numbers of items of finished shards."""
    interrupted: bool = own(False, saved=False)
    ahead: Reader[Message] | None = own(None, saved=False)
    """The thread that receives messages ahead of the program."""
    _requested_size: tuple[int, int] | None = own(None, saved=False)
    """The numbers of workers and of items that each reads ahead, if they are to change."""

    def __init__(self, options: ReadOptions, num_shards: int) -> None:
        self.options = options
        self.num_shards = num_shards

    @property
    def division(self) -> Division:
        """How the chain is divided."""
        rank_sync = self.options.rank_sync
        if rank_sync is None or rank_sync.part.rank is None:
            return Division(self.num_shards)
        return Division(self.num_shards, rank_sync.part.rank, rank_sync.part.ranks, self.options.by_ranks)

    def __iter__(self) -> Iterator[Any]:
        self.resumes = self.divided > 0
        if self.resumes:
            self.read_in_shards(self.divided)
        else:
            self.settled = settle_all(self.options.chain, [*map(self.division.part, self.division.shards)])
        self.divided = self.num_shards
        shards, rank_sync = self.division.shards, self.options.rank_sync
        saved = [ShardPosition.from_plain(each, self.divided) for each in self.standing]
        positions = [each for each in saved if each.shard in shards] if self.resumes else [*map(ShardPosition, shards)]
        if rank_sync is None:
            return self._items(positions)
        self.repeated = self._repeated_by_rank(self.repeated)
        if not rank_sync.reads:
            positions = []
        return rank_sync.read(
            self,
            self._items(positions),
            lambda: self._items([*map(ShardPosition, shards)], is_repeated=True),  # positions of its own each time
        )

    def _items(self, positions: list[ShardPosition], is_repeated: bool = False) -> Iterator[Any]:
        """Yield the items of shards from their positions; repeated items do not change the state."""
        assert self._pass is not None
        order = RoundRobin(positions)
        if not is_repeated:
            self.order = order
        if not order:
            return
        if self.options.tuner is not None:
            self._limit_workers(self.options.tuner)
        shards = self._begin(positions)
        ended = {} if is_repeated else self.ended
        if isinstance(shards, LocalShards) and not self.options.main_prefetch:
            yield from shards.items(order, ended)
            return
        received = self._received(shards, RoundRobin(map(replace, positions)))
        capacity = self.options.main_prefetch
        thread = self.ahead = reader_of(self, capacity) if capacity else None
        messages = received if thread is None else iter(thread)
        if self.options.tuner is not None:
            messages = self.options.tuner.follow(messages, self._idle, self._request_resize)
        try:
            if thread is not None:
                thread.start(received)
            for message in messages:
                position = order.next()
                if message.ended:
                    ended[position.shard] = position.items
                    order.end(position)
                else:
                    position.advance(message.report)
                    yield message.item
        finally:
            if thread is not None:
                thread.stop()

    def _begin(self, positions: list[ShardPosition], resumes: bool = False) -> WorkerPool | LocalShards:
        """Return the shards, read from the positions on; `resumes` if their epoch has begun before."""
        assert self._pass is not None
        epoch, shards = Epoch(0, self.seed_elsewhere, self._pass.path, settled=self.settled), self._opened()
        try:
            shards.begin(epoch, positions, resumes)
            if shards.broken:  # a function hangs in an abandoned epoch
                self.shutdown()
                shards = self._opened()
                shards.begin(epoch, positions)
        except BaseException:  # a worker has died since: the next epoch starts new ones
            self.shutdown()
            raise
        if self.interrupted:  # while the workers started
            raise Interrupted
        return shards

    def _received(self, shards: WorkerPool | LocalShards, order: RoundRobin) -> Iterator[Message]:
        """Yield the messages of all shards in order."""
        while order:
            if self._requested_size not in (None, (self.options.num_workers, self.options.worker_prefetch)):
                shards = self._resized([*map(replace, order)])
            position = order.next()
            try:
                message = shards.receive(position.shard)
            except BaseException:
                if shards.broken:  # the next epoch starts new workers
                    self.shutdown()
                raise
            if message.ended:
                order.end(position)
            position.advance(message.report)
            yield message

    def _limit_workers(self, tuner: Tuner) -> None:
        """Let no worker be without a shard, now that the shards are known."""
        workers = tuner.workers
        workers.most = max(min(processors(), len(self.division.shards)), 1)
        workers.value = min(workers.value, workers.most)
        self._resize(workers.value, tuner.room.value)

    def _request_resize(self, num_workers: int, prefetch: int) -> None:
        """Let the thread that receives change to other numbers."""
        self._requested_size = num_workers, prefetch

    def _resized(self, positions: list[ShardPosition]) -> WorkerPool | LocalShards:
        """Return the shards, read from their positions by as many workers as were requested."""
        assert self._shards is not None
        assert self._requested_size is not None
        if self.interrupted:
            raise Interrupted
        before = self.options.num_workers
        self._resize(*self._requested_size)
        return self._shards if self.options.num_workers == before else self._begin(positions, resumes=True)

    def _resize(self, num_workers: int, prefetch: int) -> None:
        self.options = replace(self.options, num_workers=num_workers, worker_prefetch=prefetch)
        if isinstance(self._shards, WorkerPool) and not self._shards.broken:
            self._shards.resize(num_workers, prefetch)

    def _idle(self) -> float:
        return self._shards.idle() if isinstance(self._shards, WorkerPool) else 0.0

    def _current_position(self, position: ShardPosition) -> ShardPosition:
        if isinstance(self._shards, LocalShards) and not self.options.main_prefetch:
            return self._shards.current_position(position)
        return position

    def __len__(self) -> int:
        return self.length_from({})

    def length_from(self, node: Node) -> int:
        """Return the length of an epoch resumed from a node: what ranks yielded before, plus what is left."""
        rank_sync, whole = self.options.rank_sync, self._declared_length()
        if rank_sync is None:
            return self._left_in_part({}, self.division.rank) if whole is None else whole
        before = self.items_before(node)
        left = partial(self._left_in_part, node) if whole is None else lambda _: whole - before
        return rank_sync.length(left, before)

    def _declared_length(self) -> int | None:
        """Return the length that a step declares for all shards together, where all are read here."""
        step = chain = self.options.chain
        while isinstance(step, OneToOne):
            step = step.source
        return len(chain) if self.division.ranks == 1 and has_trait(step, "sets_length") else None

    def items_before(self, node: Node) -> int:
        """Return how many items of an epoch were yielded before a node; TypeError where that is unknown."""
        if self.options.rank_sync is None:
            rank = self.division.rank
            return self._left_in_part({}, rank) - self._left_in_part(node, rank) if node else 0
        given: int = node.get("own", {"given": 0})["given"]
        return given

    def _left_in_part(self, node: Node, rank: int) -> int:
        """Return how many items of a rank's shards are left at a node."""
        own, of_rank = node.get("own", {}), replace(self.division, rank=rank)
        before = {position[0]: position[3] for position in own["standing"]} if "standing" in own else None
        left = [shard for shard in of_rank.shards if before is None or shard in before]
        return sum(self._length_of(of_rank, shard) - (before[shard] if before else 0) for shard in left)

    def _length_of(self, division: Division, shard: int) -> int:
        parts, part = division.part(shard)
        chain = self.options.chain
        if division.by_ranks and division.rank != self.division.rank:
            chain = copy_of(chain)
            apply_sharding(chain, division.ranks, division.rank, SHARDING_PRIORITIES.DISTRIBUTED)
        return len(chain) if parts == 1 else len(sharded(copy_of(chain), parts, part))

    def read_in_shards(self, number: int) -> None:
        """Divide the chain into `number` shards from the next epoch on."""
        if number != self.num_shards:
            self.shutdown()
            self.num_shards = number

    def _save_node(self, saved: SavedNodes) -> Node | None:
        node = super()._save_node(saved)
        if self._pass is None or not self._pass.begun or node is None or "at" in node:
            return node
        node.pop("last_given", None)  # the sources in the shards have theirs
        positions = [self._current_position(position).as_plain() for position in self.order]
        return {**node, "own": {**node["own"], "standing": positions}}

    def node_after(self, node: Node, items: int) -> Node:
        """Return the reader's node `items` items after an earlier node of this pass."""
        if "at" in node or (node and not items):
            return node
        fresh = [ShardPosition(shard).as_plain() for shard in self.division.shards]
        begun = {"divided": self.divided, "standing": fresh, "settled": self.settled, "given": 0, "repeated": []}
        own = {**begun, **node.get("own", {})}
        order = RoundRobin(ShardPosition.from_plain(each, self.divided) for each in own["standing"])
        repeated = 0
        for _ in range(items):
            while order:
                position = order.next()
                if self.ended.get(position.shard) != position.items:
                    position.advance(None)
                    break
                order.end(position)
            else:
                repeated += 1
        own["standing"] = [position.as_plain() for position in order]
        if self.options.rank_sync is not None:
            own["given"] += items
            own["repeated"] = self._repeated_by_rank(own["repeated"])
            own["repeated"][self.division.rank] += repeated
        return {**node, "own": own}

    def _repeated_by_rank(self, repeated: list[int]) -> list[int]:
        """Return how many items each rank has repeated; zeros if the number of ranks has changed."""
        ranks = self.division.ranks
        return [*repeated] if len(repeated) == ranks else [0] * ranks

    def _node_loaded(self, node: Node) -> None:
        own = node.get("own", {})
        divided = expect_shards(own.get("divided", self.num_shards))
        positions = [ShardPosition.from_plain(each, divided) for each in own.get("standing", ())]
        if len({position.shard for position in positions}) < len(positions):
            raise ValueError("a state has one position per shard")
        given = own.get("given", 0)
        if not all(type(number) is int and 0 <= number <= given for number in [given, *own.get("repeated", ())]):
            raise ValueError("a state has the number of items of each rank, and how many of them it repeated")

    def random_state(self) -> dict[str, Any]:
        """Return the seeds in the chain that a loader's seed does not replace: those of `random_split`."""
        return {"splits": [step.random_state() for step in self._splits()]}

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Restore what `random_state` returned, for readers that begin afterwards."""
        splits = self._splits()
        if not isinstance(state["splits"], list) or len(state["splits"]) != len(splits):
            raise TypeError(f"these are no seeds of {len(splits)} splits: {state['splits']!r:.200}")
        for step, each in zip(splits, state["splits"], strict=True):
            step.set_random_state(each)

    def _splits(self) -> list[Any]:
        kinds = ((step, type(step)) for step in walk(self.options.chain))
        return [step for step, kind in kinds if hasattr(kind, "random_state") and not hasattr(kind, "set_seed")]

    def interrupt(self) -> None:
        self.interrupted = True
        if self._shards is not None:
            self._shards.interrupt()

    def stats(self) -> dict[str, dict[str, Any]]:
        counted = add_up_stats({} if self._shards is None else self._shards.stats())
        if self.options.tuner is not None:
            counted["workers"] = {**counted.get("workers", {}), "tuned": [self.options.tuner.found]}
        rank_sync = self.options.rank_sync
        if rank_sync is None or self._pass is None:
            return counted
        repeated = self._repeated_by_rank(self.repeated)
        return {**counted, "ranks": {"repeated": repeated[self.division.rank], "dropped": self.dropped}}

    def queue(self) -> dict[str, float]:
        """Return how many items wait for the program, and how many may; nothing where no thread reads ahead."""
        ahead = self.ahead
        return {} if ahead is None else {"queue_items": ahead.waiting, "queue_capacity": ahead.capacity}

    def reports(self) -> list[Report]:
        """Return the workers' last reports."""
        return self._shards.reports() if isinstance(self._shards, WorkerPool) else []

    def chains_here(self) -> list[IterDataPipe[Any]]:
        """Return the chains of the shards that this process reads."""
        return self._shards.chains() if isinstance(self._shards, LocalShards) else []

    def shutdown(self) -> None:
        """End the workers."""
        shards, self._shards = self._shards, None
        if shards is not None:
            shards.shutdown()

    def _opened(self) -> WorkerPool | LocalShards:
        if self._shards is not None and self._shards.broken:  # such as after a fork
            self.shutdown()
        if self._shards is None:
            make = WorkerPool if self.options.num_workers else LocalShards
            self._shards = make(self.options, self.division)  # set first, so that `interrupt` reaches it while it opens
            try:
                self._shards.open()
            except BaseException:
                self._shards = None
                raise
        return self._shards


def add_up_stats(stats: dict[int, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the counts of a chain's steps, summed over all shards."""
    total: dict[str, dict[str, Any]] = {}
    for of_shard in stats.values():
        for step, counts in of_shard.items():
            before = total.setdefault(step, {})
            for name, value in counts.items():
                before[name] = before[name] + value if name in before else value
    return total
