"""Sentences that explain a chain: its order, shards, memory and resuming, and the processes that run it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .chain_info import ChainInfo, ReadPlan, StepInfo
from .text import in_words, with_unit

_BATCH_SIZES = {"batch_size", "n", "dataframe_size"}
"""The sizes of batches: nothing waits behind one."""


def sentences(chain: ChainInfo) -> dict[str, list[str]]:
    """Return the sentences on a chain, by their headings."""
    return {
        "Order": _order(chain),
        "Shards": _shards(chain),
        "Memory": _memory(chain),
        "Resume": _resume(chain),
        "Runs where": _places(chain),
    }


def _names(steps: list[StepInfo]) -> str:
    """Return the names of steps as a list in words."""
    *others, last = [step.name for step in steps] or ["nothing"]
    return f"{', '.join(others)} and {last}" if others else last


def _order(chain: ChainInfo) -> list[str]:
    """Say how many items a chain gives, and what is random about their order."""
    said = [_number(chain)]
    random = [step for step in chain.steps if step.is_random]
    said += map(_draws, random)
    said += [
        f"{step} gives items as they are ready: their order differs from run to run."
        for step in chain.steps
        if not step.is_ordered
    ]
    if random:
        said.append(
            "Each epoch has another order, which follows from the seed: loader.seed(n), or set_seed(n) "
            "without a loader."
        )
    elif len(said) == 1:
        said.append("No step is random: every epoch has the same order.")
    return said


def _number(chain: ChainInfo) -> str:
    if chain.end.is_endless:
        return "It never ends: a loop over it needs a limit, such as .header(n)."
    if chain.end.length is not None:
        is_divided = chain.end.is_map_style or bool(chain.sharding_points)
        return f"{in_words(chain.end.length)}{', before they are divided among shards' * is_divided}."
    unknown = chain.end
    while sources := [source for source in unknown.sources if source.length is None]:
        unknown = sources[0]
    return f"The number of items is unknown before {unknown} has run. Where you know it, .set_length(n) tells trainers."


def _draws(step: StepInfo) -> str:
    most, number = step.max_buffered, step.source_length
    if not step.has_trait("shuffles"):
        return f"{step} draws {'the source of each item' if step.has_trait('merges') else 'random numbers'}."
    if step.source is not None and step.source.is_map_style:
        return f"{step} shuffles all items, in no memory."
    if not most or step.buffers.keys().isdisjoint(("buffer_size", "batch_num")):
        return f"{step} shuffles all items."
    if step.unit != "items" or number is None:
        return f"{step} draws each item from a buffer of {most:,} {step.unit}."
    if number <= most:
        return f"{step} shuffles fully: its buffer of {most:,} has room for all {number:,} items."
    return f"{step} draws each item from a buffer of {most:,} items, of {number:,}."


def _shards(chain: ChainInfo) -> list[str]:
    """Say where a chain is divided, and what every shard does."""
    said = [*map(_divides, chain.sharding_points)]
    if not said and chain.end.is_map_style:
        said.append("Read by index: DataLoader2 divides its indices, and no shard reads the items of another.")
    elif not said:
        said.append("It is not divided. Several workers or ranks need a .sharding_filter(), early in the chain.")
    return said if chain.plan is None else [*said, _readers(chain.plan)]


def _divides(point: StepInfo) -> str:
    if point.dispatches:
        return f"{point} divides the stream. One process reads the steps before it, and sends each shard its items."
    number = point.source_length
    of = "the stream" if number is None else f"{number:,} items"
    if point.source is not None and any(source.is_map_style for source in point.source.sources):
        return f"{point} divides {of} by index: each shard reads only its own."
    divides = f"{point} divides {of}: shard s of n takes items s, s + n, s + 2n, …"
    before = [step for step in reversed(point.read_by_every_shard()) if step.sources]
    return f"{divides} Every shard runs {_names(before)} on all of them." if before else divides


def _readers(plan: ReadPlan) -> str:
    if plan.shards == 1:
        return "It is read as one shard."
    readers = f"{plan.workers} workers" if plan.workers else "this process"
    if plan.ranks > 1:
        readers = f"{plan.ranks} ranks" + (f" with {plan.workers} workers each" if plan.workers else "")
    if plan.readers == 1:
        return f"{plan.shards} shards, read by {readers} in turn."
    each, rest = divmod(plan.shards, plan.readers)
    share = f"{each} or {each + 1}" if rest else f"{each}"
    return f"{plan.shards} shards on {readers}: {share} for each. The shards give an item each in turn."


def _memory(chain: ChainInfo) -> list[str]:
    """Say what each step buffers at most, and what a loader reads ahead."""
    plan = chain.plan
    buffering = [step for step in chain.steps if step.buffers or step.has_trait("caches")]
    said = [f"{step}: {_buffered(step)}." for step in buffering if not step.is_branch]
    if said and plan is not None and plan.shards > 1:
        said.append(f"Each of the {plan.shards} shards has its own buffers.")
    if plan is not None and plan.workers:
        items = plan.workers * plan.ahead_in_each_worker + plan.ahead_in_main
        said.append(
            f"The loader reads ahead: {plan.workers} workers up to {plan.ahead_in_each_worker} items each, the main "
            f"process up to {plan.ahead_in_main}, in all {items}."
        )
    elif plan is not None and plan.ahead_in_main:
        said.append(f"The loader reads up to {plan.ahead_in_main} items ahead.")
    return said or ["No step holds more than the item that it works on."]


def _buffered(step: StepInfo) -> str:
    most, most_bytes, number = step.max_buffered, step.max_bytes, step.source_length
    if step.has_trait("caches"):
        if most_bytes is not None:
            return f"the first items, up to {with_unit(most_bytes)}"
        return f"all {'' if number is None else f'{number:,} '}items, as long as the chain lives"
    bounds = []
    if most is not None and step.unit == "items":
        bounds.append(in_words(most if number is None else min(most, number)))
    elif most is not None:
        bounds.append(f"{most:,} {step.unit if most != 1 else step.unit.removesuffix('s')}")
    if most_bytes is not None:
        bounds.append(with_unit(most_bytes))
    return f"up to {', '.join(bounds)}" if bounds else f"any number of {step.unit}"


def _resume(chain: ChainInfo) -> list[str]:
    """Say what each step reads again when the chain resumes."""
    said = [f"{step} {again}." for step in chain.steps if (again := _again(step)) is not None]
    return said or ["It goes on where it stood, and reads nothing again."]


def _again(step: StepInfo) -> str | None:
    if step.is_map_style:
        return "reads its whole source again" if step.reads_stream_by_index else None
    if step.starts_again:
        reads = f"reads its source again from the beginning{_through(step)}" if step.sources else "lists again"
        return f"{reads}, and drops what it gave"
    if step.has_trait("shuffles") and step.unit == "open items":
        return f"opens its {step.max_buffered:,} items again, and drops what they gave{_through(step)}"
    if step.has_trait("unpacks"):
        return f"reads the current file, or its current part, again{_through(step)}"
    gives_all_at_once = step.has_trait("batches") and step.buffers.keys() <= _BATCH_SIZES
    if not step.buffers or not step.max_buffered or gives_all_at_once:
        return None
    back, about, number = step.max_buffered, "up to", step.source_length
    if step.has_trait("shuffles") and "buffer_size" in step.buffers and back > 1:
        if step.unit == "items":  # the oldest has been in the buffer for about so long
            back, about = math.ceil(back * math.log(back)), "about"
        else:  # rows stay for three rounds at most
            back = back * 3 // 2
    if step.unit == "items" and number is not None and number <= back:
        return f"reads up to all {number:,} items of its source again{_through(step)}"
    return f"reads {about} {back:,} {step.unit} of its source again{_through(step)}"


def _through(step: StepInfo) -> str:
    """Return which steps with much work run again for that."""
    again = [above for above in step.line() if above.has_trait("expensive")]
    return f", through {_names(again[::-1])}" if again else ""


def _places(chain: ChainInfo) -> list[str]:
    """Say which steps run in workers, in this process, in the main process and in threads or processes of their own."""
    plan, in_main = chain.plan, chain.in_main_process()
    rest = [step for step in chain.steps if step not in in_main and not step.is_branch]
    dispatched = _dispatched(chain.steps)
    in_workers = _names([step for step in rest if step not in dispatched])
    if plan is None:
        said = [f"Each worker of a loader, or this process without workers, runs {in_workers}."]
    elif plan.workers:
        said = [f"{plan.workers_in_words} run {in_workers}."]
    else:
        said = [f"This process runs {_names(rest + in_main)}."]
    if dispatched and (plan is None or plan.workers):
        said.append(f"With workers, one process runs {_names(dispatched)}, for all of them.")
    if in_main and (plan is None or plan.workers):
        said.append(f"The main process runs {_names(in_main)}, with workers too.")
    return said + [f"{step} works in {_threads(step)}." for step in chain.steps if step.works_in is not None]


def _threads(step: StepInfo) -> str | None:
    number = step.attributes.get("max_workers", step.attributes.get("workers", step.attributes.get("_prefetch")))
    counts = step.works_in != "a thread" and isinstance(number, int)
    return f"{number} {step.works_in}" if counts else step.works_in


def _dispatched(steps: Iterable[StepInfo]) -> list[StepInfo]:
    """Return the steps that one process runs for all shards."""
    above = {step for point in steps if point.dispatches for step in point.above()}
    return [step for step in steps if step in above]
