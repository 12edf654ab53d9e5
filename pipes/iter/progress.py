"""Show how far the reading of a chain is."""

from __future__ import annotations

from collections.abc import Iterator

from ...registry import IterDataPipe, T, Tally, functional_datapipe, own
from ..bases.one_to_one import SameItems
from ..bases.progress_bar import losses_and_waits, with_bar


@functional_datapipe("progress")
class ProgressReporter(SameItems[T]):
    """Yield the items as they are, and show a progress bar on a terminal or in a notebook.

    The bar has the number of items, their rate, the time left where the length is known, how many items the steps
    before it have skipped and tried again, and the share of time spent waiting for input, that is, making items. A
    resumed pass goes on counting.

    The bar is written to stderr. There is none where stderr is no terminal, such as a log. In the workers of a loader
    there is none either: give the loader `progress=True`. Of several ranks, the first has one.

    >>> dp = IterableWrapper(range(3)).map(lambda x: x * x).progress("squares")
    >>> list(dp)
    [0, 1, 4]
    """

    resumes_from_start = False
    shows_progress = True
    _not_compared = ("description", "unit")
    given: Tally = own(Tally)

    def __init__(self, source: IterDataPipe[T], description: str = "", *, unit: str = "items") -> None:
        if not isinstance(description, str) or not isinstance(unit, str):
            raise TypeError(f"description and unit must be text, and are {description!r:.100} and {unit!r:.100}")
        self.source = source
        self.description = description
        self.unit = unit

    def __iter__(self) -> Iterator[T]:
        assert self._pass is not None
        tally, source, is_running = self.given, self.source, self._pass.is_running
        return with_bar(
            tally.follow(source),
            self.description,
            lambda: tally.items,
            source,
            unit=self.unit,
            notes=lambda waiting: losses_and_waits(source.stats(), waiting),
            is_running=is_running,
            leave=None,
        )

    def __len__(self) -> int:
        return len(self.source)
