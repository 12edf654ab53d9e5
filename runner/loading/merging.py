"""States of ranks: each rank's own, and the merged one, which resumes on any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...pipes.bases.one_to_one import OneToOne
from ...pipes.iter.device import DeviceMover, PinMemory
from ...pipes.iter.fullsync import FullSync
from ...pipes.iter.prefetch import Prefetcher
from ...registry import IterDataPipe, Node, sources_of
from ...state.fields import fields_of
from ...state.save import Steps
from ..reader import ShardReader


def merge_state_dicts(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of a loader on several ranks, merged from each rank's `state_dict(local=True)`.

    Raises ValueError unless they are the states of all ranks, taken after the same item.

    >>> import penstock as ps
    >>> loader = ps.DataLoader2(ps.iter.IterableWrapper(range(4)))
    >>> merge_state_dicts([loader.state_dict(local=True)]) == loader.state_dict()
    True
    """
    by_part = _by_part(states)
    first = by_part[0]
    for state in by_part[1:]:
        for name in first.keys() - {"state", "rank", "arguments"}:  # arguments may be a rank's paths
            if state[name] != first[name]:
                raise ValueError(
                    f"these states are not of one loader at the same point: {name} is {first[name]!r:.200} on one, "
                    f"and {state[name]!r:.200} on another"
                )
    if first["rank"] is None:
        return in_one_piece(first)
    merged = {**first, "rank": [None, len(by_part), True] if first["rank"][2] else None}
    nodes = [steps[-1] for state in by_part if (steps := state["state"]["steps"])]
    if not nodes:  # between two epochs
        return in_one_piece(merged)
    if len(nodes) < len(by_part) or not all("own" in node for node in nodes):
        raise ValueError(
            "the states were not taken at the same point: some ranks are in the middle of an epoch, and some are not"
        )
    return in_one_piece({**merged, "state": {**first["state"], "steps": [_merged(nodes)]}})


def in_one_piece(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with tuples for lists of dicts: torch.distributed.checkpoint stores tuples unchanged.

    It would flatten lists into named entries, and the names differ when a state is loaded.
    """
    place = state["state"]
    whole = {**place, "random": (*place["random"],), "steps": (*place["steps"],)}
    return {**state, "arguments": (*state["arguments"],), "state": whole}


def _by_part(states: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the state of each part of the data, in order."""
    ranks = [state["rank"] for state in states]
    if len(states) == 1 and ranks[0] is None:
        return [*states]
    if not states or any(rank is None for rank in ranks):
        raise ValueError("only states of several ranks can be merged, which state_dict(local=True) returns on each")
    (_, number, is_bound), found = ranks[0], dict[int, Mapping[str, Any]]()
    for (part, *of_how_many), state in zip(ranks, states, strict=True):
        if of_how_many != [number, is_bound]:
            raise ValueError(
                f"these are states of {number} ranks and of {of_how_many[0]}: only those of one program can be merged"
            )
        if part is not None and _items_of(found.setdefault(part, state)) != _items_of(state):
            raise ValueError(f"two states of rank {part} of {number} were not taken at the same point")
    missing = {*range(number)} - found.keys()
    if missing:
        raise ValueError(f"the state of rank {', '.join(map(str, sorted(missing)))} of {number} is missing")
    return [found[part] for part in range(number)]


def _items_of(state: Mapping[str, Any]) -> Any:
    """Return how many items each shard has yielded; ranks that read the same may record positions differently."""
    steps = state["state"]["steps"]
    own = steps[-1].get("own") if steps else None
    return own and (own["given"], {position[0]: position[3] for position in own["standing"]})


def _merged(nodes: list[Node]) -> Node:
    owns = [node["own"] for node in nodes]
    first = owns[0]
    for name in ("divided", "given"):
        for part, own in enumerate(owns):
            if own[name] != first[name]:
                raise ValueError(
                    f"the states were not taken at the same point: rank 0 has {name}={first[name]}, and rank {part} "
                    f"{own[name]}"
                )
    standing = [place for part, own in enumerate(owns) for place in own["standing"] if place[0] % len(owns) == part]
    of_others = [0] * len(owns)
    repeated = [(own["repeated"] if len(own["repeated"]) == len(owns) else of_others)[n] for n, own in enumerate(owns)]
    return {**nodes[0], "own": {**first, "standing": sorted(standing), "repeated": repeated}}


def reader_below(read: IterDataPipe[Any]) -> ShardReader | None:
    """Return a chain's reader if all steps after it are one-to-one and stateless; else None."""
    pipe: Any = read
    while _gives_one_for_each(pipe):
        (pipe,) = sources_of(pipe)
    return pipe if isinstance(pipe, ShardReader) else None


def _gives_one_for_each(pipe: Any) -> bool:
    if isinstance(pipe, OneToOne):
        saves = any(each.saved for each in fields_of(type(pipe)).values())
        return not (pipe.error_policy.skips or saves or len(sources_of(pipe)) > 1)
    return isinstance(pipe, (DeviceMover, FullSync, PinMemory, Prefetcher))


def steps_alone(read: IterDataPipe[Any], steps: Steps) -> Steps:
    """Return a state's steps up to the reader, at the position of the chain's last item handed out."""
    reader = reader_below(read)
    if reader is None or read is reader or not steps:
        return steps
    pipe: Any = read
    ahead, node = 0, steps[-1]
    while pipe is not reader:
        if "at" in node:
            return [node]
        at, oldest, _ = (node.get("read") or [None])[0] or [0, 0, 0]
        ahead += oldest - at + node.get("skip", 0)
        source = node["sources"][0] if "sources" in node else None  # an unstarted step's source is unstarted too
        node = {} if source is None else steps[source]
        (pipe,) = sources_of(pipe)
    return [reader.node_after(node, ahead)]


def steps_around(read: IterDataPipe[Any], steps: Steps) -> Steps:
    """Return a state's steps with fresh ones appended for the steps after the reader."""
    reader = reader_below(read)
    if reader is None or read is reader or not steps or "own" not in steps[-1]:
        return steps
    pipe: Any = read
    after: list[Node] = []
    while pipe is not reader:
        own = {name: each.save(each.fresh()) for name, each in fields_of(type(pipe)).items() if each.saved}
        after.insert(0, {"own": own} if own else {})
        (pipe,) = sources_of(pipe)
    for place, node in enumerate(after, start=len(steps) - 1):
        node["sources"] = [place]
    return [*steps, *after]
