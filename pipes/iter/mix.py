"""Mix several streams by weight."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Literal

from ...registry import IterDataPipe, T, functional_datapipe, own, uniform_draws
from ...state.foreign import TorchIterDataPipe
from ..bases.arguments import expect_pipes, expect_weights
from ..bases.drawing import Drawer


@functional_datapipe("mix")
class Mixer(Drawer[T]):
    """Yield items of several sources; a random draw by weight chooses the source of each item.

    Take it to train on several corpora; `mux` takes turns in place of drawing. `weights` has one number for each
    source, the first included. They need not add up to 1; without them all sources are equally likely. With
    `until="longest"`, the default, the other sources continue, by their weights, when one is exhausted. With
    `"shortest"`, the mix ends when an exhausted source is drawn. For constant proportions, make the sources endless:
    `a.cycle().mix(b.cycle(), weights=[3, 1])`.

    Raises TypeError for weights that are not a list of numbers, and ValueError where their number differs from that of
    the sources, or a weight is not finite and positive.

    >>> dp = IterableWrapper("aaa").mix(IterableWrapper("bbb"), weights=[2, 1]).set_seed(1)
    >>> sorted(dp)
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    traits = ("merges",)
    gives = "same"
    keeps_schema = True
    resumes_from_start = False
    gone: list[int] = own(list)
    """The numbers of the sources found exhausted."""

    def __init__(
        self,
        *sources: IterDataPipe[T],
        weights: Sequence[float] | None = None,
        until: Literal["longest", "shortest"] = "longest",
    ) -> None:
        expect_pipes(type(self).__name__, sources, TorchIterDataPipe)
        if until not in ("longest", "shortest"):
            raise ValueError(f"until must be 'longest' or 'shortest', and is {until!r}")
        if weights is not None:
            expect_weights(weights, len(sources))
        self.sources = sources
        self.weights = weights
        self.until = until

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._stretches())

    def __len__(self) -> int:
        if self.until == "shortest":
            raise TypeError("a mix ends where chance exhausts a source: it has no length")
        return sum(map(len, self.sources))

    def _stretches(self) -> Iterator[Iterator[T]]:
        """Yield an iterator over the items until the next source is found exhausted, again and again."""
        readers = [iter(source) for source in self.sources]
        draws = self._draws()
        while left := [source for source in range(len(self.sources)) if source not in self.gone]:
            choose = self._choice(left)
            yield map(next, map([readers[source] for source in left].__getitem__, map(choose, draws)))
            # The last draw fell on the exhausted source.
            last = next(uniform_draws(self.pass_seed, self.drawn.items - 1))
            self.gone.append(left[choose(last)])
            if self.until == "shortest":
                return

    def _choice(self, left: list[int]) -> partial[int]:
        """Return a function from a draw to the position of a source in `left`."""
        weights = [1 if self.weights is None else self.weights[source] for source in left]
        total = math.fsum(weights)
        # Without the last sum, which rounding may leave below 1: no draw falls beyond the last source.
        return partial(bisect, [sum_so_far / total for sum_so_far in accumulate(weights)][:-1])


@functional_datapipe(None)
class SampleMultiplexer(Mixer[T]):
    """Yield items of several sources until all are exhausted; a random draw by weight chooses each source.

    Prefer `mix`: this is torchdata's spelling of it, with a dict from sources to weights. `seed` works as `set_seed`.

    >>> dp = SampleMultiplexer({IterableWrapper("aaa"): 2, IterableWrapper("bbb"): 1}, seed=1)
    >>> sorted(dp)
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    payload = ("pipes_to_weights_dict",)  # its pipes are the sources already

    def __init__(self, pipes_to_weights_dict: Mapping[IterDataPipe[T], float], seed: int | None = None) -> None:
        if not isinstance(pipes_to_weights_dict, Mapping):
            raise TypeError(f"give a dict from sources to weights, not {pipes_to_weights_dict!r:.100}")
        super().__init__(*pipes_to_weights_dict, weights=[*pipes_to_weights_dict.values()])
        self.pipes_to_weights_dict = pipes_to_weights_dict
        self.seed = seed
        if seed is not None:
            self.set_seed(seed)
