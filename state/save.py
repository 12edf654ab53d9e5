"""The state of a chain, as plain data: taken between two items, and loaded to resume.

A state holds the epoch of the chain, the base seeds of its passes, and where each step is. The steps form a list,
sources first, and refer to their sources by number. So a state stays flat however long the chain, and a source that
several steps read appears once. `Node` explains what a step has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import get_worker_info

from ..errors.policy import ErrorPolicy
from ..errors.secrets import short as _short
from .foreign import OurPipe, TorchIterDataPipe, declared, declares
from .graph import sources_of, walk
from .header import check_state, expect_plain, header
from .node import KEYS_OF_A_NODE, Node
from .run import replace_live_iterator
from .seeds import PassPath, fixed_inner_seeds, has_seeds, inner_seeds, seed_of_chain, seed_of_user
from .sources import SourceLink, capture
from .step_text import step_text

Steps = list[Node]
"""The nodes of a chain, sources first; each refers to its sources by number."""


def state_of(pipe: TorchIterDataPipe[Any], after_the_end: bool | None = None) -> dict[str, Any]:
    """Return the state of a chain.

    After the end of a pass, the state is at a new pass, except in workers of torch's loaders, which begin passes
    themselves.
    """
    after_the_end = get_worker_info() is None if after_the_end is None else after_the_end
    return {**header(pipe), "state": place_of(pipe, after_the_end)}


def load_state(pipe: TorchIterDataPipe[Any], state: dict[str, Any], strict: bool = True) -> None:
    """Let the next pass over a chain resume from a state."""
    load_place(pipe, check_state(pipe, state, strict)["state"])


def place_of(pipe: Any, after_the_end: bool = True) -> dict[str, Any]:
    """Return where a chain is, and the seeds of its later passes."""
    current = vars(pipe).get("_pass")
    if current is not None and current.is_running():
        raise RuntimeError(
            f"a state is taken between two items, and {step_text(pipe)} is making one now: in a callback, signal "
            "handler or thread, set a flag, and take the state where the items are used"
        )
    begun = current is not None and current.begun
    between = begun and current.ended and after_the_end
    parts = [*walk(pipe)]
    place: dict[str, Any] = {
        "epoch": pipe._epoch if between else pipe._epoch_of_state(),
        "random": [_random_state(part, place) for place, part in enumerate(filter(has_seeds, parts))],
        "steps": [] if between else flatten(capture(pipe)),
    }
    # Steps save their counts too, but restore them only when read again.
    counts = [policy.skipped for policy in _policies(parts)]
    return {**place, "counts": counts if any(counts) and not between else []}


def load_place(pipe: Any, place: Any) -> None:
    """Let a chain resume from what `place_of` returned."""
    expect_plain(place)
    parts = [*walk(pipe)]
    random = [*filter(has_seeds, parts)]
    policies = _policies(parts)
    if (
        not isinstance(place, dict)
        or place.keys() != {"epoch", "random", "steps", "counts"}
        or not _is_number(place["epoch"])
        or not (isinstance(place["random"], (list, tuple)) and len(place["random"]) == len(random))
        or not all(isinstance(each, dict) for each in place["random"])
        or not (isinstance(place["counts"], list) and len(place["counts"]) in (0, len(policies)))
        or not all(map(_is_number, place["counts"]))
    ):
        raise ValueError(f"this is no position of a chain of {len(policies)} steps: {_short(place)}")
    hand_down(pipe, place["steps"])
    pipe._epoch = place["epoch"]
    for part, state in zip(random, place["random"], strict=True):
        _set_random_state(part, state)
    for policy, skipped in zip(policies, place["counts"] or [0] * len(policies), strict=True):
        if policy.has_counts:
            policy.begin(skipped)


def flatten(node: Node | None) -> Steps:
    """Return a node and all its sources as a list, sources first."""
    steps: Steps = []
    numbers: dict[int, int] = {}
    waiting = [] if node is None else [node]
    while waiting:
        each = waiting[-1]
        sources = each.get("sources", ())
        before = [source for source in sources if source is not None and id(source) not in numbers]
        if id(each) in numbers or not before:
            waiting.pop()
        if id(each) in numbers:
            continue
        if before:
            waiting += before
            continue
        numbers[id(each)] = len(steps)
        if sources:
            each = {**each, "sources": [None if source is None else numbers[id(source)] for source in sources]}
        steps.append(each)
    return steps


def _unflatten(steps: Any) -> Node | None:
    if not isinstance(steps, (list, tuple)) or not all(isinstance(step, dict) for step in steps):
        raise ValueError(f"the steps of a state are a list of dicts, and these are {_short(steps)}")
    nodes: Steps = []
    for step in steps:
        node: Node = step.copy()
        if "sources" in node:
            sources = node["sources"]
            known = range(len(nodes))
            if not isinstance(sources, list) or any(
                number is not None and (type(number) is not int or number not in known) for number in sources
            ):
                raise ValueError(f"a step of a state reads from steps before it, and not from {_short(sources)}")
            node["sources"] = [None if number is None else nodes[number] for number in sources]
        nodes.append(node)
    return nodes[-1] if nodes else None


def node_in(pipe: Any, steps: Any) -> Node | None:
    """Return the node of a chain from the steps of a state; raise ValueError if the chain cannot stand there."""
    node = _unflatten(steps)
    for part, each in _with_their_nodes(pipe, node):
        _expect_node(part, each)
    return node


def hand_down(pipe: Any, steps: Any, path: PassPath | None = None) -> None:
    """Let the next pass over a chain begin from the steps of a state, or afresh if there are none.

    With a `path`, this pass and later ones are part of a pass elsewhere.
    """
    node = node_in(pipe, steps)
    replace_live_iterator(pipe)
    part: Any
    for part in walk(pipe):
        if isinstance(part, OurPipe):
            part._reset_passes()
    for part, each in _with_their_nodes(pipe, node):
        if isinstance(part, OurPipe):
            part._node_loaded(each)
    if path is not None:
        SourceLink(pipe, path).begin_at(node)
    elif isinstance(pipe, OurPipe):
        pipe._resume_node = node
    elif node and "state" in node:
        pipe.load_state_dict(node["state"])


def begin_afresh(pipe: Any) -> None:
    """Let the next pass over a chain begin at the first item; that of a state loaded but not read counts as over."""
    pipe._epoch += pipe._resume_node is not None
    hand_down(pipe, [])


def _with_their_nodes(pipe: Any, node: Node | None) -> Iterator[tuple[Any, Node]]:
    """Yield each pipe with its node."""
    seen: set[tuple[int, int]] = set()
    waiting = [] if node is None else [(pipe, node)]
    while waiting:
        part, each = waiting.pop()
        if (id(part), id(each)) in seen:
            continue
        seen.add((id(part), id(each)))
        yield part, each
        sources, nodes = sources_of(part), each.get("sources") or []
        if nodes and len(nodes) != len(sources):
            raise ValueError(
                f"the state has {len(nodes)} sources for {step_text(part)}, which reads from {len(sources)}"
            )
        waiting += [pair for pair in zip(sources, nodes, strict=False) if pair[1] is not None]


def _expect_node(pipe: Any, node: Node) -> None:
    """Raise ValueError if a node does not fit a pipe."""
    own, reads, passes = node.get("own", {}), node.get("read", []), node.get("passes", [])
    number_of_sources = len(sources_of(pipe))
    if (
        not node.keys() <= KEYS_OF_A_NODE
        or node.get("at", "end") != "end"
        or not all(_is_number(node.get(name, 0)) for name in ("inner", "last_given", "skip", "skipped"))
        or not (isinstance(reads, list) and all(each is None or _is_reading(each) for each in reads))
        or not (isinstance(passes, list) and all(map(_is_number, passes)))
        or not {len(reads), len(passes)} <= {0, number_of_sources}
        or not isinstance(own, dict)
    ):
        raise ValueError(f"{step_text(pipe)} cannot be at the state's position: {_short(node)}")
    owned = declared(pipe, "_state_fields", {})
    saved = {name for name, attribute in owned.items() if attribute.saved}
    if not own.keys() <= {"pass_seed"} and (missing := saved - own.keys()):  # a rerun pass saves only its seed
        raise ValueError(f"{step_text(pipe)} has in the state no {', '.join(sorted(missing))}")
    for name, value in own.items():
        if name not in owned or not owned[name].expect(value) or (name == "pass_seed" and type(value) is not int):
            raise ValueError(f"{step_text(pipe)} has no {name} like that in the state: {_short(value)}")


def _is_reading(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value)) and value == sorted(value)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _policies(parts: list[Any]) -> list[ErrorPolicy]:
    return [part.error_policy for part in parts if declares(part, "error_policy")]


def _random_state(pipe: Any, place: int) -> dict[str, Any]:
    if declares(pipe, "random_state"):
        state: dict[str, Any] = pipe.random_state()
        return state
    if not declares(pipe, "set_seed"):
        return fixed_inner_seeds(pipe, place).random_state()
    # A pipe of ours with its own `set_seed` is left alone, unless the complete chain was seeded.
    of_chain = vars(pipe).get("_seed_of_chain") if isinstance(pipe, OurPipe) else seed_of_chain(pipe)
    return {"seed": seed_of_user(pipe), "of_chain": of_chain}


def _set_random_state(pipe: Any, state: dict[str, Any]) -> None:
    try:
        if declares(pipe, "set_random_state"):
            pipe.set_random_state(state)
            return
        if not declares(pipe, "set_seed"):
            inner_seeds(pipe).set_random_state(state)
            return
        if state["seed"] is not None:
            pipe.set_seed(state["seed"])
        else:
            vars(pipe)["_seed_of_pass"] = vars(pipe).get("_seed")  # not set by the user, even if this chain was seeded
    except (KeyError, TypeError) as error:
        raise ValueError(f"{step_text(pipe)} cannot have seeds like {_short(state)}") from error
    vars(pipe)["_seed_of_chain"] = state.get("of_chain")
