"""Where the steps of a chain run: workers, threads, processes, the main process."""

from __future__ import annotations

from ..state.graph import DataPipe, is_one_of_several
from .known import Known

__all__ = ["sentences"]


def sentences(chain: Known) -> list[str]:
    """Say which steps run where."""
    how = chain.how
    in_main = chain.in_main_process()
    rest = [step for step in chain.steps if all(step is not other for other in in_main)]
    rest = [step for step in rest if not is_one_of_several(step)]
    dispatched = _dispatched(chain)
    workers_run = [step for step in rest if all(step is not other for other in dispatched)]
    said = []
    if how is None:
        said.append(f"Each worker of a loader, or this process without workers, runs {_list(chain, workers_run)}.")
    elif how.workers:
        said.append(f"{how.workers_in_words} run {_list(chain, workers_run)}.")
    else:
        said.append(f"This process runs {_list(chain, rest + in_main)}.")
    if dispatched and (how is None or how.workers):
        said.append(f"With workers, one process runs {_list(chain, dispatched)}, for all of them.")
    if in_main and (how is None or how.workers):
        said.append(f"The main process runs {_list(chain, in_main)}, with workers too.")
    said += [_elsewhere(chain, step) for step in chain.steps if chain.of(step).works_in is not None]
    return said


def _elsewhere(chain: Known, step: DataPipe) -> str:
    held, where = vars(step), chain.of(step).works_in
    number = held.get("max_workers", held.get("workers", held.get("_prefetch")))
    if where == "a thread" or not isinstance(number, int):
        return f"{chain.name(step)} works in {where}."
    return f"{chain.name(step)} works in {number} {where}."


def _list(chain: Known, steps: list[DataPipe]) -> str:
    return chain.names(steps) if steps else "nothing"


def _dispatched(chain: Known) -> list[DataPipe]:
    """Return the steps that one process runs for all shards."""
    above = {id(step) for point in chain.steps if chain.of(point).dispatches for step in chain.above(point)}
    return [step for step in chain.steps if id(step) in above]
